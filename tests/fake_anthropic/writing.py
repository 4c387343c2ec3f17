"""From a scripted reply to the blocks and stream events of a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .models import FakeModel
from .prompt import canonical, extend
from .script import NO_USAGE, Call, Hold, Raw, Reply, Text, Thinking
from .thinking import Bound, seal, sign
from .tokens import BLOCK_TOKENS, text_for, text_tokens

Event: TypeAlias = tuple[str, dict[str, Any]] | Hold
Usage: TypeAlias = dict[str, Any]


@dataclass
class Desk:
    """What a reply is written on: the request's model, limits and what binds its thinking.

    `room_tokens` is what the window leaves; `shows_thinking` None means thinking is off.
    `note` is called with (prefix digest, last thinking) after each block that is not thinking.
    """

    name: str
    model: FakeModel
    bound: Bound
    max_tokens: int
    room_tokens: int
    shows_thinking: bool | None
    note: Callable[[str, str], None]


@dataclass
class Written:
    """A message as it goes out. `events` are those between `message_start` and `message_delta`."""

    content: list[dict[str, Any]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    output_tokens: int = 0
    thinking_tokens: int = 0
    stop_reason: str | None = "end_turn"


def write_reply(reply: Reply, desk: Desk) -> Written:
    """Write the reply; what is over `max_tokens` or the window is cut, with that stop reason."""
    pen = _Pen(desk, reply.chunk)
    for part in reply.parts:
        if not pen.write(part):
            break
    if pen.cut:
        fits = desk.max_tokens <= desk.room_tokens
        pen.done.stop_reason = "max_tokens" if fits else "model_context_window_exceeded"
    elif reply.stop_reason is not None:
        pen.done.stop_reason = reply.stop_reason
    elif any(isinstance(part, Call) for part in reply.parts):
        pen.done.stop_reason = "tool_use"
    return pen.done


class _Pen:
    """Writes block after block until the room is used up."""

    def __init__(self, desk: Desk, chunk: int) -> None:
        self.desk = desk
        self.chunk = max(1, chunk)
        self.done = Written()
        self.left = min(desk.max_tokens, desk.room_tokens)
        self.prefix, self.last = desk.bound.prefix, desk.bound.last
        self.cut = False

    def write(self, part: object) -> bool:
        """Write one part; False when the room is used up."""
        if isinstance(part, Hold):
            self.done.events.append(part)
        elif isinstance(part, Text):
            self._text(part.text)
        elif isinstance(part, Thinking):
            if self.desk.shows_thinking is not None:
                self._thinking(part)
        elif isinstance(part, Call):
            self._call(part)
        elif isinstance(part, Raw):
            self._block(dict(part.block), [], BLOCK_TOKENS)
        else:
            raise TypeError(f"not a part of a reply: {part!r}")
        return not self.cut

    def _text(self, text: str) -> None:
        text, tokens = self._fit(text)
        if not text:
            return
        deltas = [{"type": "text_delta", "text": piece} for piece in self._pieces(text)]
        self._block({"type": "text", "text": text}, deltas, tokens, {"type": "text", "text": ""})

    def _call(self, call: Call) -> None:
        given = dict(call.input)
        raw = json.dumps(given, ensure_ascii=False) if given else ""
        raw = raw if call.raw is None else call.raw
        shown, tokens = self._fit(raw)
        try:
            input_ = json.loads(shown) if shown else {}
        except json.JSONDecodeError:
            input_ = {}
        id_ = call.id or "toolu_01" + extend(self.prefix, call.name, raw)[:22]
        start = {
            "type": "tool_use",
            "id": id_,
            "name": call.name,
            "input": {},
            "caller": {"type": "direct"},
        }
        deltas = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in ["", *self._pieces(shown)]
        ]
        self._block({**start, "input": input_}, deltas, tokens + 4 * BLOCK_TOKENS, start)

    def _thinking(self, part: Thinking) -> None:
        text, tokens = self._fit(part.text)
        shown = text if self.desk.shows_thinking and not part.redacted else ""
        made = seal(self.desk.name, self.prefix, text, shown, self.last, tokens)
        signature = "" if self.cut else sign(made)
        self.done.thinking_tokens += tokens
        if part.redacted:
            self._emit({"type": "redacted_thinking", "data": signature}, [], tokens)
        else:
            deltas = [{"type": "thinking_delta", "thinking": p} for p in self._pieces(shown)]
            if signature:
                deltas.append({"type": "signature_delta", "signature": signature})
            block = {"type": "thinking", "thinking": shown, "signature": signature}
            start = {"type": "thinking", "thinking": "", "signature": ""}
            self._emit(block, deltas, tokens, start)
        self.last = made.id

    def _block(
        self,
        block: dict[str, Any],
        deltas: list[dict[str, Any]],
        tokens: int,
        start: dict[str, Any] | None = None,
    ) -> None:
        self._emit(block, deltas, tokens, start)
        self.prefix = extend(self.prefix, "assistant", canonical(block))
        if not self.cut:
            self.desk.note(self.prefix, self.last)

    def _emit(
        self,
        block: dict[str, Any],
        deltas: list[dict[str, Any]],
        tokens: int,
        start: dict[str, Any] | None = None,
    ) -> None:
        index = len(self.done.content)
        self.done.content.append(block)
        self.done.output_tokens += tokens
        self.left -= tokens
        add = self.done.events.append
        add(_event("content_block_start", index=index, content_block=start or block))
        for delta in deltas:
            add(_event("content_block_delta", index=index, delta=delta))
        add(_event("content_block_stop", index=index))

    def _fit(self, text: str) -> tuple[str, int]:
        """Return as much of the text as fits, and its tokens; sets `cut` when it does not fit."""
        tokens = text_tokens(text)
        if tokens <= self.left:
            return text, tokens
        self.cut = True
        kept = text_for(max(0, self.left), text)
        return kept, text_tokens(kept)

    def _pieces(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self.chunk):
            yield text[start : start + self.chunk]


def _event(kind: str, **fields: Any) -> Event:
    return kind, {"type": kind, **fields}


def final_usage(usage: Usage, written: Written, given: Mapping[str, object] | None) -> Usage | None:
    """Return the usage of the whole message, with the script's own figures put in; None: none."""
    if given is NO_USAGE:
        return None
    whole = {**usage, "output_tokens": written.output_tokens}
    if written.thinking_tokens:
        whole["output_tokens_details"] = {"thinking_tokens": written.thinking_tokens}
    whole.update(given or {})
    created = (given or {}).get("cache_creation_input_tokens")
    if created is not None and "cache_creation" not in (given or {}):
        whole["cache_creation"] = {
            "ephemeral_5m_input_tokens": created,
            "ephemeral_1h_input_tokens": 0,
        }
    return whole


def message_json(
    id_: str, name: str, reply: Reply, written: Written, usage: Usage | None
) -> dict[str, Any]:
    """Return the message as a non-streaming request gets it."""
    message: dict[str, Any] = {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "model": name,
        "content": written.content,
        "stop_reason": written.stop_reason,
        "stop_sequence": None,
        "stop_details": reply.stop_details,
    }
    if usage is not None:
        message["usage"] = usage
    return message


def stream_events(
    message: dict[str, Any], reply: Reply, written: Written, usage: Usage | None
) -> list[Event]:
    """Return every event of the stream, in order."""
    head = {**message, "content": [], "stop_reason": None, "stop_details": None}
    delta: dict[str, Any] = {"stop_reason": written.stop_reason, "stop_sequence": None}
    if reply.stop_details is not None:
        delta["stop_details"] = reply.stop_details
    end: dict[str, Any] = {"delta": delta}
    if usage is not None:
        head["usage"] = {**usage, "output_tokens": 1}
        head["usage"].pop("output_tokens_details", None)
        parts = ("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens")
        tail = (*parts, "output_tokens", "output_tokens_details")
        end["usage"] = {key: usage[key] for key in tail if key in usage}
    return [
        _event("message_start", message=head),
        _event("ping"),
        *written.events,
        _event("message_delta", **end),
        _event("message_stop"),
    ]
