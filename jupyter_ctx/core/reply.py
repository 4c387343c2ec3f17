"""A reply as it arrives: what is shown of it, what is kept of it, whether it is as it came."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from .blocks import Block, Opaque, Text, Thinking, ToolUse, without_last_thinking
from .events import CtxEvent, TextDelta, TextFinished, ThinkingDelta
from .ports import BlockDone, Delta, ReplyDone, TextPart, ThinkingPart
from .redact import Redactor, Stream

MOST_NAME_CHARS = 128
"""The longest id or name of a tool that every provider takes (API.md 5)."""


@dataclass(slots=True)
class Reply:
    """A reply as it arrives. `blocks` are complete; `partial` is the text of one that is not.

    `seen_ids` are those of the session's calls so far; a call gets `fresh_id` where its own is one.

    `is_changed`: a block is not as it came (a key taken out, another id); thinking behind it would
    be refused, bound as it is to what came, and is left out.
    """

    redactor: Redactor
    seen_ids: Set[str]
    first_block: int
    fresh_id: str
    blocks: list[Block] = field(default_factory=list)
    partial: str = ""
    done: ReplyDone | None = None
    is_changed: bool = False
    _stream: Stream | None = None
    _thought: Stream | None = None

    @property
    def text_blocks(self) -> int:
        """How many text blocks were shown, the open one included."""
        return sum(isinstance(b, Text) for b in self.blocks) + bool(self._stream)

    def restart(self) -> None:
        """Forget everything: the stream broke and the step starts again."""
        self.first_block += self.text_blocks
        self.blocks, self.partial, self.done, self.is_changed = [], "", None, False
        self._stream = self._thought = None

    def take(self, delta: Delta, turn: int) -> list[CtxEvent]:
        """Add what arrived and return what can be shown of it."""
        match delta:
            case TextPart(text=text):
                if self._stream is None:
                    self._stream = self.redactor.stream()
                return self._show(self._stream.feed(text), turn)
            case ThinkingPart(text=text):
                self._thought = self._thought or self.redactor.stream()
                return _thoughts(self._thought.feed(text), turn)
            case BlockDone(block=block):
                return self._finish(block, turn)
            case ReplyDone():
                self.done = delta
        return []

    def _show(self, text: str, turn: int) -> list[CtxEvent]:
        self.partial += text
        number = self.first_block + self.text_blocks - 1
        return [TextDelta(turn, number, text)] if text else []

    def _finish(self, block: Block, turn: int) -> list[CtxEvent]:
        events: list[CtxEvent] = []
        match block:
            case Text(text=text):
                safe = self.redactor.text(text)
                if self._stream is not None:
                    events = self._show(self._stream.flush(), turn)
                self._stream, self.partial = None, ""
                self.is_changed = self.is_changed or safe != text or not safe
                if not safe:
                    return events
                self.blocks.append(Text(safe))
                number = self.first_block + self.text_blocks - 1
                events.append(TextFinished(turn, number, safe))
            case ToolUse(id=id_, name=name, input=input_):
                is_taken = id_ in self.seen_ids or id_ in self._own_ids()
                if is_taken or not _is_wire_id(id_):
                    id_ = f"{self.fresh_id}_{len(self.blocks)}"
                name = name if _is_wire_id(name) else _wire_name(name)
                self._keep(block, ToolUse(id_, name, self.redactor.json(input_)))
            case Thinking():
                if self._thought is not None:
                    events = _thoughts(self._thought.flush(), turn)
                self._thought = None
                if not self.is_changed:
                    self.blocks.append(block)
            case Opaque(wire=wire):
                self._keep(block, Opaque(self.redactor.json(wire)))
            case _:
                self.blocks.append(block)
        return events

    def _own_ids(self) -> Set[str]:
        return {block.id for block in self.blocks if isinstance(block, ToolUse)}

    def _keep(self, came: Block, kept: Block) -> None:
        self.is_changed = self.is_changed or kept != came
        self.blocks.append(kept)

    def is_whole(self, kept: Sequence[Block]) -> bool:
        """Say whether `kept` is all of the reply, and as it came."""
        return bool(kept) and not self.is_changed and list(kept) == self.blocks

    def kept_after_stop(self) -> tuple[Block, ...]:
        """Return what stays of a reply that was cut: finished blocks and the text so far."""
        kept = list(self.blocks)
        if self._stream is not None:
            self.partial += self._stream.flush()
        if self.partial.strip():
            kept.append(Text(self.partial))
        return without_last_thinking(kept)


def _thoughts(text: str, turn: int) -> list[CtxEvent]:
    return [ThinkingDelta(turn, text)] if text else []


def _is_wire_id(id_: str) -> bool:
    """Say whether every provider takes `id_` as it is: `[A-Za-z0-9_-]{1,128}` (API.md 5)."""
    is_fit = all(c.isascii() and (c.isalnum() or c in "_-") for c in id_)
    return 0 < len(id_) <= MOST_NAME_CHARS and is_fit


def _wire_name(name: str) -> str:
    """Return a tool's name, made up by the model, in a form that every provider takes back.

    Sent as it came, it would have each later request refused.
    """
    kept = "".join(c if _is_wire_id(c) else "_" for c in name[:MOST_NAME_CHARS])
    return kept or "unnamed"
