"""The events of one streamed reply, folded into deltas. No I/O, and no SDK types.

The events are read as plain JSON, so that a block goes back byte for byte: unknown fields and the
order of keys included. A reply is complete only after `message_stop` with a stop reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NoReturn

from ..core.blocks import Block, Json, Opaque, Text, Thinking, ToolUse
from ..core.entries import CacheMiss
from ..core.ports import BlockDone, Delta, ReplyDone, TextPart, ThinkingPart, ToolPart
from ..core.usage import Usage
from ..errors import StreamBrokenError
from .wiretext import as_count, as_object, as_text, mend, mend_text, parse_input, split_half

CUT_REASONS: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""Stop reasons after which the last block may be half written."""


class ReplyReader:
    """Reads one reply, event by event.

    `where` names the provider in error texts. `feed` raises StreamBrokenError on events that make
    no reply; an `error` event is the caller's.
    """

    def __init__(self, where: str) -> None:
        self.is_done = False
        self._where = where
        self._open: dict[int, _OpenBlock] = {}
        self._doubtful: ToolUse | None = None
        self._is_broken = False
        self._held: list[Block] = []
        self._has_text = False
        self._usage = Usage()
        self._beside: Usage | None = None
        self._stop_reason: str | None = None
        self._detail: str | None = None
        self._message_id: str | None = None
        self._cache_miss: CacheMiss | None = None

    def feed(self, event: Json) -> list[Delta]:
        """Take one event and return what it brings, in order."""
        match event.get("type"):
            case "message_start":
                self._start(as_object(event.get("message")))
            case "content_block_start":
                return self._start_block(event)
            case "content_block_delta":
                return self._find(event).feed(as_object(event.get("delta")))
            case "content_block_stop":
                return self._stop_block(event)
            case "message_delta":
                self._end(as_object(event.get("delta")))
                self._diagnose(event)
                self._add_usage(event.get("usage"))
            case "message_stop":
                return self._stop()
            case _:  # ping, and events of a later version
                pass
        return []

    def finish(self) -> None:
        """Say that no event follows. Raises StreamBrokenError unless the reply is complete."""
        if not self.is_done:
            self._break("it ended before the message did")

    # The message

    def _start(self, message: Json) -> None:
        self._message_id = as_text(message.get("id"))
        self._add_usage(message.get("usage"))
        self._end(message)
        self._diagnose(message)

    def _end(self, delta: Json) -> None:
        self._stop_reason = as_text(delta.get("stop_reason")) or self._stop_reason
        details = as_object(delta.get("stop_details"))
        detail = as_text(details.get("explanation")) or as_text(details.get("category"))
        self._detail = detail or as_text(delta.get("stop_sequence")) or self._detail

    def _diagnose(self, told: Json) -> None:
        """Take the reason of a cache miss, where there is one; null is: none, or not yet known."""
        inner = as_object(told.get("delta")).get("diagnostics")
        diagnostics = as_object(told.get("diagnostics") or inner)
        reason = diagnostics.get("cache_miss_reason")
        found = as_object(reason)
        kind = as_text(reason) or as_text(found.get("type"))
        if kind:
            tokens = _larger(None, found.get("cache_missed_input_tokens"))
            self._cache_miss = CacheMiss(kind, tokens)

    def _add_usage(self, raw: object) -> None:
        """Take usage figures; they are totals, so the largest seen of each counts."""
        usage, beside = as_object(raw), None
        self._usage = _read_usage(self._usage, usage)
        iterations = usage.get("iterations")
        for each in map(as_object, iterations if isinstance(iterations, list) else ()):
            if each.get("type") == "compaction":  # not in the figures above (API.md 1)
                tokens = _read_usage(Usage(), each)
                beside = tokens if beside is None else beside + tokens
        self._beside = beside or self._beside

    def _stop(self) -> list[Delta]:
        if self._stop_reason is None:
            self._break("it names no stop reason")
        is_cut = self._stop_reason in CUT_REASONS
        if not is_cut and (self._is_broken or self._open):
            self._break("a block of it is not complete")
        last = [] if is_cut else self._settle()
        kept = [block for block in self._held if self._has_text or not _is_blank(block)]
        self.is_done = True
        done = ReplyDone(
            self._stop_reason,
            self._usage,
            self._message_id,
            self._detail,
            self._cache_miss,
            self._beside,
        )
        return [*last, *(BlockDone(block) for block in kept), done]

    # Blocks

    def _start_block(self, event: Json) -> list[Delta]:
        """Open a block. That one follows says that the block before was complete."""
        if self._is_broken:
            self._break("the input of a tool call is no JSON object")
        settled = self._settle()
        opened = _OpenBlock(dict(as_object(event.get("content_block"))))
        if opened.type is None or (opened.type == "tool_use" and not opened.is_named()):
            self._break("a block has no type, or a tool call no name")
        self._open[_as_index(event)] = opened
        return [*settled, *opened.begin()]

    def _stop_block(self, event: Json) -> list[Delta]:
        opened = self._find(event)
        del self._open[_as_index(event)]
        rest = opened.flush()
        try:
            block = opened.finish()
        except ValueError:
            self._is_broken = True
            return rest
        if isinstance(block, ToolUse) and not block.input:
            self._doubtful = block
            return rest
        return [*rest, *self._emit(block)]

    def _settle(self) -> list[Delta]:
        """Return the call without arguments that ended last, now known to be complete.

        Such a call looks the same when the output limit cut it before its first argument.
        """
        block, self._doubtful = self._doubtful, None
        return self._emit(block)

    def _emit(self, block: Block | None) -> list[Delta]:
        """Return `block` as done; an empty text is left out, a blank one waits for another text.

        The API refuses to take back what it wrote itself there: an empty text anywhere, a blank one
        in a message without other text.
        """
        if block is None or (isinstance(block, Text) and not block.text):
            return []
        if isinstance(block, Text) and not _is_blank(block):
            self._has_text = True
        self._held.append(block)
        if not self._has_text and any(_is_blank(held) for held in self._held):
            return []
        ready, self._held = self._held, []
        return [BlockDone(held) for held in ready]

    def _find(self, event: Json) -> _OpenBlock:
        opened = self._open.get(_as_index(event))
        if opened is None:
            self._break("it continues a block that was not begun")
        return opened

    def _break(self, why: str) -> NoReturn:
        raise StreamBrokenError(
            f"The answer from {self._where} cannot be used: {why}; send the prompt again."
        )


@dataclass(slots=True)
class _OpenBlock:
    """A block being written: what it began with, and the pieces of its texts by field."""

    wire: dict[str, object]
    texts: dict[str, list[str]] = field(default_factory=dict)
    carry: dict[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str | None:
        return as_text(self.wire.get("type"))

    def is_named(self) -> bool:
        return bool(as_text(self.wire.get("id")) and as_text(self.wire.get("name")))

    def begin(self) -> list[Delta]:
        """Return what can be shown at once; some servers put text into the start."""
        if self.type == "tool_use":
            return [ToolPart(str(self.wire["id"]), str(self.wire["name"]))]
        shown = "thinking" if self.type == "thinking" else "text"
        return _show(shown, as_text(self.wire.get(shown)) or "")

    def feed(self, delta: Json) -> list[Delta]:
        """Take one delta. A text goes on where it was; of an unknown kind, so do all its texts."""
        match delta.get("type"):
            case "signature_delta":
                self.wire["signature"] = delta.get("signature")
            case "citations_delta":
                old = self.wire.get("citations")
                self.wire["citations"] = [
                    *(old if isinstance(old, list) else []),
                    delta.get("citation"),
                ]
            case _:
                return [
                    part
                    for name, value in delta.items()
                    if name != "type"
                    for part in self._add(name, value)
                ]
        return []

    def _add(self, name: str, value: object) -> list[Delta]:
        if not isinstance(value, str):
            self.wire[name] = value
            return []
        piece, self.carry[name] = split_half(self.carry.get(name, "") + value)
        self.texts.setdefault(name, []).append(piece)
        return _show(name, piece)

    def flush(self) -> list[Delta]:
        """Return what was held back: half of a character that never got its other half."""
        rest = {name: mend_text(half) for name, half in self.carry.items() if half}
        for name, piece in rest.items():
            self.texts[name].append(piece)
        return [part for name, piece in rest.items() for part in _show(name, piece)]

    def finish(self) -> Block:
        """Return the block, its texts valid Unicode.

        Raises ValueError if a tool's input is no JSON object.
        """
        raw = "".join(self.texts.pop("partial_json", []))
        for name, pieces in self.texts.items():
            self.wire[name] = (as_text(self.wire.get(name)) or "") + "".join(pieces)
        if raw:
            self.wire["input"] = parse_input(raw)
        wire: dict[str, object] = mend(self.wire)
        match self.type:
            case "text" if not wire.get("citations"):
                return Text(as_text(wire.get("text")) or "")
            case "thinking" | "redacted_thinking":
                return Thinking(wire)
            case "tool_use":
                given = as_object(wire.get("input"))
                return ToolUse(str(wire["id"]), str(wire["name"]), given)
            case _:
                return Opaque(wire)


def _show(name: str, piece: str) -> list[Delta]:
    if piece and name == "text":
        return [TextPart(piece)]
    if piece and name == "thinking":
        return [ThinkingPart(piece)]
    return []


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip()


def _read_usage(old: Usage, told: Json) -> Usage:
    """Return the larger of each figure known and told."""
    written = as_object(told.get("cache_creation"))
    return Usage(
        _larger(old.uncached, told.get("input_tokens")),
        _larger(old.cache_read, told.get("cache_read_input_tokens")),
        _larger(old.cache_write, told.get("cache_creation_input_tokens")),
        _larger(old.output, told.get("output_tokens")),
        _larger(old.cache_write_1h, written.get("ephemeral_1h_input_tokens")),
    )


def _larger(old: int | None, new: object) -> int | None:
    count = as_count(new)
    if count is None:
        return old
    return count if old is None else max(old, count)


def _as_index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1
