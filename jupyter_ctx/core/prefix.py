"""Our own check that a prompt begins as the one before: it names the first block that differs.

The log only grows, so each request is the one before plus what is new, but for the breaks that
somebody asked for. The watch knows those from the entries; any other change is a fault of ours that
costs the user a whole prompt, so it goes to the log of `jupyter_ctx` as a warning.
"""

from __future__ import annotations

import json
import logging
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .blocks import Block, Json, Message, Opaque, Text, Thinking, ToolResult, ToolUse, block_to_wire
from .breaks import Cause, find_cause
from .entries import Entry
from .ports import Request

Kind: TypeAlias = Literal["model", "settings", "tools", "system", "messages"]

RECHECKED_MESSAGES = 32
"""So many messages sent before are looked at again with each request, in turn, for a change in
place, which no comparison of requests can see: both hold the same object."""
EXCERPT_CHARS = 40

_MESSAGE_CAUSES: frozenset[Cause] = frozenset(
    ("compaction", "rewind", "summary_edit", "summary_undo", "refusal", "left_out", "repair")
)
_CAUSES: Mapping[Kind, frozenset[Cause]] = {
    "model": frozenset(("model_switch",)),
    "tools": frozenset(("prefix",)),
    "system": frozenset(("prefix",)),
    "messages": _MESSAGE_CAUSES,
}
"""What may change which part. Settings are the user's: they may always change."""

log = logging.getLogger("jupyter_ctx")


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of a prompt that is not as it was; `where` names the place, in a bounded text."""

    kind: Kind
    where: str


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """A step whose prompt does not begin with the one before; `cause` None: nobody meant it to."""

    turn: int
    step: int
    cause: Cause | None
    where: str


def find_differences(before: Request, after: Request) -> tuple[Difference, ...]:
    """Return where `after` does not begin with `before`: the first place of each part.

    Messages are compared by identity first, so that thousands take well under a millisecond; they
    and their blocks are counted from 0, as the API counts them in its errors.
    """
    found: list[Difference] = []
    if before.model != after.model:
        found.append(Difference("model", f"model: {before.model} became {after.model}"))
    for name in ("thinking", "effort", "cache_ttl"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            found.append(Difference("settings", f"{name}: {old} became {new}"))
    if where := _compare_tools(before.tools, after.tools):
        found.append(Difference("tools", where))
    if before.system != after.system:
        found.append(Difference("system", f"system: {_text_change(before.system, after.system)}"))
    if where := _compare_messages(before.messages, after.messages):
        found.append(Difference("messages", where))
    return tuple(found)


def _compare_tools(before: Sequence[Json], after: Sequence[Json]) -> str:
    if before is after:
        return ""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and (change := _json_change(old, new)):
            return f"tool {index} ({old.get('name')}): {change}"
    if len(before) != len(after):
        return f"there were {len(before)} tools, now {len(after)}"
    return ""


def _compare_messages(before: Sequence[Message], after: Sequence[Message]) -> str:
    """Return where `after` does not begin with `before`, "" if it does."""
    if _begins_with(after, before):
        return ""
    for index in range(_count_same(before, after), min(len(before), len(after))):
        if before[index] != after[index] and (where := _compare(before[index], after[index])):
            return f"message {index}{where}"
    if len(after) < len(before):
        return f"message {len(after)} ({before[len(after)].role}) is gone"
    return ""


def _begins_with(after: Sequence[Message], before: Sequence[Message]) -> bool:
    """Say whether messages begin alike; the same objects need no look at what is in them."""
    return tuple(after[: len(before)]) == tuple(before)


def _count_same(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many messages are the same objects, from the first on."""
    same = list(map(operator.is_, before, after))
    return same.index(False) if False in same else len(same)


def _compare(before: Message, after: Message) -> str:
    """Return the first difference between two messages on the wire, "" if there is none."""
    if before.role != after.role:
        return f": role {before.role} became {after.role}"
    for index, (old, new) in enumerate(zip(before.content, after.content, strict=False)):
        if old != new and (change := _block_change(old, new)):
            return f", block {index} ({_name(old)}): {change}"
    if len(before.content) != len(after.content):
        return f": there were {len(before.content)} blocks, now {len(after.content)}"
    return ""


def _name(block: Block) -> str:
    match block:
        case ToolUse(id=id_):
            return f"tool_use {id_}"
        case ToolResult(tool_use_id=id_):
            return f"tool_result {id_}"
        case Opaque(wire=wire) | Thinking(wire=wire):
            return str(wire.get("type"))[:EXCERPT_CHARS]
        case _:
            return type(block).__name__.lower()


def _block_change(old: Block, new: Block) -> str:
    if type(old) is not type(new):
        return f"became {_name(new)}"
    if isinstance(old, Text) and isinstance(new, Text):
        return _text_change(old.text, new.text)
    return _json_change(block_to_wire(old), block_to_wire(new))


def _json_change(old: Json, new: Json) -> str:
    """Return how two JSON objects differ; the order of keys counts, since it does in the cache."""
    return _text_change(*(json.dumps(dict(value), ensure_ascii=False) for value in (old, new)))


def _text_change(old: str, new: str) -> str:
    """Return where two texts part and how they go on, "" if they are equal."""
    if old == new:
        return ""
    low, high = 0, min(len(old), len(new))
    while low < high:  # the longest common beginning
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    parts = (repr(text[low : low + EXCERPT_CHARS]) for text in (old, new))
    return f"text differs at character {low}: {' became '.join(parts)}"


# The watch ----------------------------------------------------------------------------------------


class PrefixWatch:
    """Follows a session's entries and requests; `breaks` are those of its steps, oldest first.

    `observe` must see every new entry, `check` every request before it is sent. It starts anew when
    a session is resumed: the first request has none before it.
    """

    def __init__(self) -> None:
        self.breaks: list[PrefixBreak] = []
        self._last: Request | None = None
        self._causes: list[Cause] = []
        self._cut: Request | None = None
        self._marks: dict[int, tuple[Message, tuple[int, ...]]] = {}
        self._next = 0

    def follow(self, other: PrefixWatch) -> None:
        """Compare the first request with the last one that `other` saw, and its old messages."""
        self._last, self._marks = other._last, dict(other._marks)

    def observe(self, entry: Entry) -> None:
        """Take in an entry: what it changes of the prompt is meant."""
        cause = find_cause(entry)
        if cause is not None and self._last is not None:
            self._causes.append(cause)

    def allow(self, request: Request) -> None:
        """Let this request for a summary begin as it likes: it was cut to fit."""
        self._cut = request

    def check(self, request: Request, turn: int, step: int, *, is_side: bool = False) -> None:
        """Compare `request` with the step before and warn if it differs where nobody meant it to.

        `is_side`: it asks for a summary; without its last message it must begin as that step does,
        and the next step is still compared with the step.
        """
        if is_side and request is self._cut:
            return
        self._check_marks(request, turn, step)
        last = self._last
        if not is_side:
            self._last = request
        if last is None:
            return
        causes = tuple(self._causes)
        for kind, where in self._compare(last, request, is_side):
            cause = _explain(kind, causes)
            if cause is None:
                self._warn(turn, step, where)
            if not is_side:
                self.breaks.append(PrefixBreak(turn, step, cause, where))
                break
        if not is_side:
            self._causes.clear()

    def _compare(self, last: Request, request: Request, is_side: bool) -> list[tuple[Kind, str]]:
        """Return what differs, what nobody meant first."""
        if is_side:
            base = request.messages[:-1]
            last = _with_messages(last, last.messages[: len(base)])
            request = _with_messages(request, base)
        found = [(each.kind, each.where) for each in find_differences(last, request)]
        causes = tuple(self._causes)
        return sorted(found, key=lambda each: _explain(each[0], causes) is not None)

    def _check_marks(self, request: Request, turn: int, step: int) -> None:
        """Look at the new messages, and again at some of the old ones."""
        messages, marks = request.messages, self._marks
        last = self._last.messages if self._last is not None else ()
        begin = len(last) if _begins_with(messages, last) else _count_same(last, messages)
        fresh = [message for message in messages[begin:] if id(message) not in marks]
        if fresh and len(marks) > 2 * len(messages) + RECHECKED_MESSAGES:
            alive = set(map(id, messages))
            self._marks = marks = {key: mark for key, mark in marks.items() if key in alive}
        count = min(RECHECKED_MESSAGES, len(messages))
        for place in range(self._next, self._next + count):
            index = place % len(messages)
            known = marks.get(id(messages[index]))
            if known is not None and (where := _changed_in_place(known[1], messages[index])):
                marks[id(messages[index])] = messages[index], _fingerprint(messages[index])
                self.breaks.append(PrefixBreak(turn, step, None, f"message {index}{where}"))
                self._warn(turn, step, f"message {index}{where}")
        self._next = (self._next + count) % max(1, len(messages))
        for message in fresh:
            marks[id(message)] = message, _fingerprint(message)

    def _warn(self, turn: int, step: int, where: str) -> None:
        log.warning(
            "The prompt of turn %s, step %s does not begin as the one before: %s",
            turn,
            step,
            where,
            extra={"prefix_break": where},
        )


def _explain(kind: Kind, causes: Sequence[Cause]) -> Cause | None:
    """Return the newest cause that may change a part, None if there is none."""
    if kind == "settings":
        return "model_switch" if "model_switch" in causes else "settings"
    return next((cause for cause in reversed(causes) if cause in _CAUSES[kind]), None)


def _with_messages(request: Request, messages: tuple[Message, ...]) -> Request:
    return Request(
        request.model,
        request.system,
        request.tools,
        messages,
        request.max_tokens,
        cache_ttl=request.cache_ttl,
        thinking=request.thinking,
        effort=request.effort,
    )


def _changed_in_place(mark: tuple[int, ...], message: Message) -> str:
    now = _fingerprint(message)
    if now == mark:
        return ""
    if len(now) != len(mark):
        return f": changed in place, {len(mark)} blocks became {len(now)}"
    index = next(place for place, (a, b) in enumerate(zip(mark, now, strict=True)) if a != b)
    return f", block {index} ({_name(message.content[index])}): changed in place"


def _fingerprint(message: Message) -> tuple[int, ...]:
    """Return a number for each block that changes with it; texts keep theirs, so it is quick."""
    return tuple(map(_hash, message.content))


def _hash(block: Block) -> int:
    match block:
        case ToolUse(id=id_, name=name, input=input_):
            return hash((id_, name, json.dumps(dict(input_), default=str)))
        case Thinking(wire=wire) | Opaque(wire=wire):
            return hash(json.dumps(dict(wire), default=str))
        case _:
            return hash(block)
