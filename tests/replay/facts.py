"""Facts planted in a conversation, and whether the model can still get at them after compactions.

A fact is in reach if it stands in the request, or if a stored text that is named there brings it:
its own (`read_result` with the handle or `prompt-<n>`), or one that names it (`turn-<n>`). Names
and paths live in the conversation only, so the summary must carry them; the script's does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from jupyter_ctx.core.blocks import Message, Text, ToolResult
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.ports import Request
from jupyter_ctx.errors import ToolError
from jupyter_ctx.ipython.storedtexts import StoredTexts
from jupyter_ctx.session import Session
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import FakeClock
from jupyter_ctx.tools.results import make_read_result

from .player import play
from .trajectories import Call, Conversation, Step, Turn

Kind = Literal["instruction", "pin", "name", "path", "number"]
AFTER = (1, 2, 3, 10)
"""After so many compactions it is asked what is still in reach."""
MOST_SAID, MOST_HIDDEN = 24, 40
NAMES = re.compile(r"\b(?:[A-Za-z0-9_-]*toolu_\w+|(?:prompt|turn)-\d+)")
RANGES = re.compile(r"`(prompt|turn)-(\d+)` to `\1-(\d+)`")


@dataclass(frozen=True, slots=True)
class Fact:
    """A text that stands in one place only: in the prompt of `turn`, in a reply, in a result.

    `home` names the stored text that holds it: a call's id or `prompt-<turn>`; "" if none does.
    """

    kind: Kind
    mark: str
    turn: int
    home: str = ""


def plant(conversation: Conversation, long_chars: int) -> tuple[Conversation, tuple[Fact, ...]]:
    """Return the conversation with facts in it, and these facts.

    One in every prompt; a number in the middle of results over `long_chars`, which will be stored;
    a name or a path in every seventh reply.
    """
    facts: list[Fact] = []
    turns = [
        _plant_turn(turn, number, long_chars, facts)
        for number, turn in enumerate(conversation.turns, 1)
    ]
    return replace(conversation, turns=tuple(turns)), tuple(facts)


def _plant_turn(turn: Turn, number: int, long_chars: int, facts: list[Fact]) -> Turn:
    rule = f"RULE-{number:05}"
    facts.append(Fact("instruction", rule, number, f"prompt-{number}"))
    steps = []
    for place, step in enumerate(turn.steps):
        step = _plant_word(step, number, facts) if place % 7 == 3 else step
        calls = [_plant_number(call, number, long_chars, facts) for call in step.calls]
        steps.append(replace(step, calls=tuple(calls)))
    return Turn(f"{turn.prompt}\n{rule} holds for this.", tuple(steps))


def _plant_word(step: Step, turn: int, facts: list[Fact]) -> Step:
    said = [fact for fact in facts if fact.kind in ("name", "path")]
    if len(said) >= MOST_SAID:
        return step
    kind: Kind = "name" if len(said) % 2 else "path"
    mark = f"{kind.upper()}-{len(said):04}"
    facts.append(Fact(kind, mark, turn))
    return replace(step, text=f"{step.text}\nI keep {mark} in mind.".strip())


def _plant_number(call: Call, turn: int, long_chars: int, facts: list[Fact]) -> Call:
    hidden = sum(fact.kind == "number" for fact in facts)
    if len(call.text) <= long_chars or hidden >= MOST_HIDDEN:
        return call
    mark = f"FIGURE-{hidden:05}"
    half = len(call.text) // 2
    text = f"{call.text[:half]}\n{mark}\n{call.text[half:]}"
    facts.append(Fact("number", mark, turn, call.id))
    return replace(call, output=replace(call.output, text=text))


# Looking for them ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Reach:
    """What was looked for after `after` compactions, and what was not in reach."""

    after: int
    planted: int
    lost: tuple[Fact, ...]


@dataclass(slots=True)
class _Snapshot:
    after: int
    text: str
    known: tuple[Fact, ...]


@dataclass(slots=True)
class _Watch:
    """Keeps the first request after each number of compactions asked for."""

    facts: tuple[Fact, ...]
    taken: list[_Snapshot] = field(default_factory=list)

    def __call__(self, session: Session, request: Request) -> None:
        count = len(session.transcript.compactions)
        due = count in AFTER and count not in [snapshot.after for snapshot in self.taken]
        if due and not is_instruction(request.messages[-1]):
            everything = "\n".join(_all_said(session))
            results, turn = session.transcript.results, session.transcript.turn
            known = tuple(
                fact
                for fact in self.facts
                if (fact.kind == "number" and fact.home in results)
                or (fact.kind == "instruction" and fact.turn <= turn)
                or fact.mark in everything
            )
            self.taken.append(_Snapshot(count, "\n".join(_texts(request.messages)), known))


def check_reach(
    conversation: Conversation, window: int, home: Path, **settings: object
) -> list[Reach]:
    """Play the conversation with planted facts, its session on disk, and look for each of them."""
    cap = min(50_000, window // 4)
    planted, facts = plant(conversation, cap)
    pins = [Fact("pin", f"PIN-{n:05}", 1) for n in (1, 2)]

    def pin(session: Session, turn: int) -> None:
        if turn <= len(pins):
            session.pin(f"{pins[turn - 1].mark} must stay.")

    watch = _Watch((*facts, *pins))
    store = SessionStore(home, FakeClock().now).create("replay")
    try:
        played = play(planted, window, store=store, before_turn=pin, watch=watch, settings=settings)
        assert not played.failures, played.failures
        return asyncio.run(_look(watch, StoredTexts(store)))
    finally:
        store.close()


async def _look(watch: _Watch, texts: StoredTexts) -> list[Reach]:
    found = []
    for snapshot in watch.taken:
        lost = [fact for fact in snapshot.known if not await _is_in_reach(fact, snapshot, texts)]
        found.append(Reach(snapshot.after, len(snapshot.known), tuple(lost)))
    return found


async def _is_in_reach(fact: Fact, snapshot: _Snapshot, texts: StoredTexts) -> bool:
    """Whether the fact stands in the request, or is read by a name that leads from there to it."""
    if fact.mark in snapshot.text:
        return True
    names = _names_in(snapshot.text)
    if not fact.home:
        return False
    via = f"turn-{fact.turn}"
    is_named = fact.home in names or (
        via in names and fact.home in await _read(texts, via, re.escape(fact.home))
    )
    return is_named and fact.mark in await _read(texts, fact.home, fact.mark)


async def _read(texts: StoredTexts, name: str, pattern: str) -> str:
    """Return what `read_result` brings."""
    try:
        tool = make_read_result(texts)
        output = await tool.run({"tool_use_id": name, "pattern": pattern}, 50_000)
    except ToolError:
        return ""
    return str(output.text)


def _names_in(text: str) -> set[str]:
    runs = [(m[1], range(int(m[2]), int(m[3]) + 1)) for m in RANGES.finditer(text)]
    return {*NAMES.findall(text), *(f"{kind}-{n}" for kind, run in runs for n in run)}


def _all_said(session: Session) -> Iterator[str]:
    for entry in session.transcript.entries:
        message = getattr(entry, "message", None)
        if isinstance(message, Message):
            yield from _texts([message])
    yield from session.transcript.pins.values()


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for block in message.content:
            if isinstance(block, Text):
                yield block.text
            elif isinstance(block, ToolResult):
                yield from (inner.text for inner in block.content if isinstance(inner, Text))


def lost_of(played: Sequence[Reach]) -> list[str]:
    """Return the marks of all facts out of reach."""
    return sorted({fact.mark for reach in played for fact in reach.lost})
