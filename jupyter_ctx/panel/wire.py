"""Core events as items: what the panel is told, as JSON. Pure; the page's side is `panel.ts`.

An item is a JSON object with a `kind`, valid Unicode and bounded (a text of a call's input over
`INPUT_CHARS` is cut), whatever the model or a tool wrote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, TypeVar

from ..core.blocks import Json
from ..core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ContextChanged,
    CtxEvent,
    MemoryChanged,
    NoteAdded,
    PlanChanged,
    ResultOffloaded,
    RetryScheduled,
    StepDiscarded,
    StepFinished,
    StepStarted,
    TextDelta,
    TextFinished,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from ..core.plan import PlanItem
from ..core.preview import clean_text
from ..ipython import words

T = TypeVar("T")
Item: TypeAlias = dict[str, object]
Origin: TypeAlias = Literal["panel", "cell"]
Decision: TypeAlias = Literal["once", "always"]

INPUT_CHARS = 20_000
"""A longer text in a call's input is cut in its item, in characters; the question shows all.

All its texts together have twice as many.
"""

TAIL_CHARS = 4_000
"""So much of what a running tool printed is told, its end."""

PROMPT_CHARS = 20_000
"""A longer prompt is cut in its item, in characters."""

MOST_DEPTH = 20
"""What lies deeper in a call's input is told as `…`."""

MOST_MEMBERS = 1_000
"""So many members of all lists and objects in a call's input are told."""

MOST_INT = 2**53 - 1
"""A larger whole number is no number of a page's, so its text is told."""


@dataclass(frozen=True, slots=True)
class Around:
    """What an event does not say of itself; only what belongs to its kind counts.

    `at` is seconds since the epoch. Of a turn that starts: `origin`, `cell_id`, `attachments`
    (`label` and `detail` each). Of a tool: its `input`; once it is finished how it was let run
    (`decision`) and whether it has outputs to show. Of a
    compaction: `replaced`, the first and last turn. Of a turn that is finished: the `context`.
    """

    at: float = 0.0
    origin: Origin = "panel"
    cell_id: str | None = None
    attachments: Sequence[Json] = ()
    input: Json | None = None
    decision: Decision | None = None
    has_outputs: bool = False
    replaced: tuple[int, int] = (0, 0)
    context: Json | None = None


def item_of(event: CtxEvent, around: Around | None = None) -> Item | None:
    """Return the item that tells `event`, None for one that the panel is told otherwise."""
    about = around or Around()
    match event:
        case ContextChanged():
            return None
        case TurnStarted():
            return _turn_started(event, about)
        case ToolStarted() | ToolFinished():
            return _tool(event, about)
        case ToolProgress(turn=turn, tool_use_id=tool_use_id, text=text):
            return tool_output(turn, tool_use_id, text)
        case TurnFinished():
            return _turn_finished(event, about)
        case CompactionFinished():
            first, last = about.replaced
            return _plain("compaction_finished", event, first_turn=first, last_turn=last)
        case PlanChanged(turn=turn, items=items):
            return plan_changed(turn, items)
        case MemoryChanged(turn=turn, facts=facts, is_undone=undone):
            return memory_changed(turn, facts, is_undone=undone)
        case RetryScheduled():
            return _plain("retry_scheduled", event, at=about.at)
        case StepFinished():
            return _item(
                "step_finished",
                turn=event.turn,
                step=event.step,
                stop_reason=event.stop_reason,
                cost_usd=event.cost_usd,
            )
        case ResultOffloaded():
            item = _plain("result_offloaded", event)
            del item["path"]
            return item
        case _:
            return _plain(_KINDS[type(event)], event)


_KINDS: Mapping[type, str] = {
    StepStarted: "step_started",
    TextDelta: "text_delta",
    TextFinished: "text_finished",
    ThinkingDelta: "thinking_delta",
    StepDiscarded: "step_discarded",
    CompactionStarted: "compaction_started",
    CompactionFailed: "compaction_failed",
    NoteAdded: "note_added",
}
"""The events whose items have exactly their fields."""


def _plain(kind: str, event: CtxEvent, **more: object) -> Item:
    return _item(kind, **{name: getattr(event, name) for name in event.__slots__}, **more)


def _item(kind: str, **fields: object) -> Item:
    return {"kind": kind, **{name: _clean(value) for name, value in fields.items()}}


def _clean(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6)
    return clean_text(value) if isinstance(value, str) else value


def _turn_started(event: TurnStarted, about: Around) -> Item:
    return _item(
        "turn_started",
        turn=event.turn,
        prompt=cut(event.prompt, PROMPT_CHARS),
        origin=about.origin,
        cell_id=about.cell_id,
        at=about.at,
        attachments=[dict(bounded(one)) for one in about.attachments],
    )


def _tool(event: ToolStarted | ToolFinished, about: Around) -> Item:
    if isinstance(event, ToolStarted):
        return _item(
            "tool_started",
            turn=event.turn,
            step=event.step,
            tool_use_id=event.tool_use_id,
            name=event.name,
            input=bounded(event.input),
            label=words.tool_line(event.name, event.input),
        )
    input_ = about.input or {}
    return _plain(
        "tool_finished",
        event,
        # Only of a denied call nothing was told before.
        input=bounded(input_) if event.denied else None,
        label=words.tool_line(event.name, input_, event).removesuffix(
            f" · {words.duration(event.seconds)}"  # it has a field of its own
        ),
        decision=about.decision,
        has_outputs=about.has_outputs,
    )


def _turn_finished(event: TurnFinished, about: Around) -> Item:
    return _item(
        "turn_finished",
        turn=event.turn,
        outcome=event.outcome,
        stop_reason=event.stop_reason,
        text=event.text,
        steps=event.steps,
        tokens=words.tokens_of(event.usage),
        cost_usd=event.cost_usd,
        seconds=event.seconds,
        error=event.error,
        footer=words.footer(event, about.context or {}),
    )


def bounded(value: Json, most_chars: int = 2 * INPUT_CHARS) -> Item:
    """Return a call's input as JSON of bounded size: long texts cut, deep members left out."""
    found = _Bounds(most_chars).take(value, MOST_DEPTH)
    assert isinstance(found, dict)  # a mapping gives a dict
    return found


@dataclass(slots=True)
class _Bounds:
    """What is left of an input's room: in characters of text and in members."""

    chars: int
    members: int = MOST_MEMBERS

    def take(self, value: object, depth: int) -> object:
        """Return as much of `value` as there is room for."""
        match value:
            case str():
                return self._text(value)
            case None | bool():
                return value
            case int():
                return value if abs(value) <= MOST_INT else self._text(hex(value))
            case float():
                return value if isfinite(value) else str(value)  # JSON has no nan, no infinity
            case _ if depth == 0:
                return "…"
            case Mapping():
                return {
                    self._text(str(k)): self.take(v, depth - 1)
                    for k, v in self._some(value.items())
                }
            case list() | tuple():
                return [self.take(one, depth - 1) for one in self._some(value)]
            case _:
                return self._text(str(value))

    def _text(self, text: str) -> str:
        found = cut(text, min(INPUT_CHARS, max(1, self.chars)))
        self.chars -= len(found)
        return found

    def _some(self, members: Iterable[T]) -> Iterator[T]:
        for member in members:
            if self.members <= 0:
                return
            self.members -= 1
            yield member


def valid(value: object) -> object:
    """Return JSON with every text of it valid, and null for what is no number: it can be sent."""
    match value:
        case str():
            return clean_text(value)
        case float():
            return value if isfinite(value) else None
        case Mapping():
            return {clean_text(str(key)): valid(one) for key, one in value.items()}
        case list() | tuple():
            return [valid(one) for one in value]
        case _:
            return value


def cut(text: str, most: int) -> str:
    """Return valid text of at most `most` characters; a longer one ends in `…`."""
    return clean_text(text if len(text) <= most else f"{text[: most - 1]}…")


def tool_output(turn: int, tool_use_id: str, text: str) -> Item:
    """Return the item for what a running tool printed so far: its end."""
    return _item("tool_output", turn=turn, tool_use_id=tool_use_id, text=text[-TAIL_CHARS:])


def result_counted(turn: int, tool_use_id: str, tokens: int) -> Item:
    """Return the item that says how many tokens of a result the model sees, about."""
    return _item("result_counted", turn=turn, tool_use_id=tool_use_id, tokens=tokens)


def plan_changed(turn: int, items: Sequence[PlanItem]) -> Item:
    """Return the item that says what the plan is now; without items there is none any more."""
    return _item("plan_changed", turn=turn, items=plan_json(items))


def plan_json(items: Sequence[PlanItem]) -> list[Item]:
    """Return the plan's items as JSON."""
    return [{"text": cut(item.text, INPUT_CHARS), "state": item.state} for item in items]


def memory_changed(turn: int, facts: Sequence[str], *, is_undone: bool) -> Item:
    """Return the item that says which facts are kept for later sessions, or taken out again."""
    told = [cut(fact, INPUT_CHARS) for fact in facts]
    return _item("memory_changed", turn=turn, facts=told, is_undone=is_undone)


def kernel_awaited(is_waiting: bool) -> Item:
    """Return the item that says whether a turn waits until a cell of the user's has ended."""
    return _item("kernel_awaited", is_waiting=is_waiting)


# Coalescing -------------------------------------------------------------------------------------

_JOINED = {"text_delta": ("turn", "block"), "thinking_delta": ("turn",)}
"""Kinds whose neighbours become one item, and what must be the same for that."""

_REPLACED = {"tool_output": ("turn", "tool_use_id")}


def is_delta(item: Item) -> bool:
    """Whether an item may wait a moment to be joined with the next."""
    return item["kind"] in _JOINED or item["kind"] in _REPLACED


def coalesce(items: Iterable[Item]) -> list[Item]:
    """Return the items with neighbouring deltas of one block joined, and of tails the last kept.

    Folded by the page, they give the same conversation. Takes time linear in the text.
    """
    out: list[Item] = []
    texts: list[str] = []

    def flush() -> None:
        if texts:
            out[-1] = {**out[-1], "text": "".join(texts)}
            texts.clear()

    for item in items:
        same = bool(out) and _is_same(out[-1], item)
        if same and item["kind"] in _REPLACED:
            out[-1] = item
        elif same:
            texts.append(str(item["text"]))
        else:
            flush()
            out.append(item)
            if item["kind"] in _JOINED:
                texts.append(str(item["text"]))
    flush()
    return out


def _is_same(before: Item, item: Item) -> bool:
    kind = str(item["kind"])
    keys = _JOINED.get(kind) or _REPLACED.get(kind)
    return bool(keys) and before["kind"] == kind and all(before[k] == item[k] for k in keys or ())


def sha256_of(title: str, text: str) -> str:
    """Return the digest of what a question shows, in hex; an answer to it carries the same."""
    return hashlib.sha256(f"{title}\n\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
