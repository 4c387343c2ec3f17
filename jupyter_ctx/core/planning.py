"""The plan of a session: recorded as a whole, and told to the model where it does not know it.

Rule: the newest plan counts; a rewind brings back the one of then. The model knows a plan that it
made itself, or that a prompt or a compaction since told; any other the next prompt tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .blocks import tool_uses
from .entries import CompactionEntry, PlanEntry
from .pins import stands_in
from .plan import MOST_ITEM_CHARS, MOST_ITEMS, PlanAuthor, PlanItem, PlanState
from .preview import clean_text
from .reinjection import choose_plan
from .transcript import Transcript
from .window import share_of

if TYPE_CHECKING:
    from .engine import Engine

CHANGED = {"agent": "Your plan is now (plan {n}):", "user": "The user changed the plan (plan {n}):"}
NO_PLAN = "nothing is left of it; there is no plan."


_LINE = re.compile(r"(?:(?:[-*•]|\d{1,3}[.)])\s+)?(?:\[(.?)\]\s*)?(.*)", re.DOTALL)
_STATES: Mapping[str, PlanState] = {"x": "done", "X": "done", ">": "in_progress"}


def clean_items(items: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """Return the items with valid text on one line each, cut where it is too long; blank ones go.

    At most `MOST_ITEMS`: the first ones.
    """
    cleaned = (PlanItem(_one_line(item.text), item.state) for item in items)
    return tuple(item for item in cleaned if item.text)[:MOST_ITEMS]


def _one_line(text: str) -> str:
    line = " ".join(clean_text(text[: 20 * MOST_ITEM_CHARS]).split())
    return line if len(line) <= MOST_ITEM_CHARS else line[: MOST_ITEM_CHARS - 1] + "…"


def parse_plan(text: str) -> tuple[PlanItem, ...]:
    """Return the items of a checklist, a line each: `[x]` done, `[>]` in progress, else to do.

    Total: bullets, numbers and boxes may be missing, and blank lines do not count.
    """
    found = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        assert match is not None  # every part of the pattern may be absent
        mark, words = match.groups()
        found.append(PlanItem(words, _STATES.get(mark or "", "pending")))
    return clean_items(found)


def record_plan(
    engine: Engine,
    turn: int,
    items: Sequence[PlanItem],
    by: PlanAuthor,
    tool_use_id: str | None = None,
) -> PlanEntry:
    """Record a plan, redacted and cleaned, and return it as it is kept."""
    redact = engine.ports.redactor.text
    kept = clean_items([PlanItem(redact(item.text), item.state) for item in items])
    n = engine.transcript.plans + 1
    entry = PlanEntry(engine.ports.clock.now(), n, turn, kept, by, tool_use_id)
    engine.record(entry)
    return entry


def untold_plan(engine: Engine) -> tuple[str, ...]:
    """Return what the next prompt has to tell of the plan: nothing, or the plan as it is now."""
    plan = engine.transcript.plan
    if plan is None or _is_known(engine.transcript, plan):
        return ()
    lead = CHANGED[plan.by].format(n=plan.n)
    if stands_in(engine.transcript.view, lead):
        return ()
    budget = share_of(engine.limits, "plan_tokens", engine.window)
    section = choose_plan(plan.items, budget, engine.meter.estimate_text)
    return (f"{lead}\n{section.text}" if section else f"{lead} {NO_PLAN}",)


def _is_known(transcript: Transcript, plan: PlanEntry) -> bool:
    """Whether the model made the plan itself, within the view, or a compaction since told it."""
    active = transcript.active_compaction
    if active is not None:
        newest = next(
            entry
            for entry in reversed(transcript.entries)
            if entry is plan or (isinstance(entry, CompactionEntry) and entry.n == active.n)
        )
        if newest is not plan:
            return True
    if plan.tool_use_id is None:
        return False
    uses = (use for message in transcript.view for use in tool_uses(message))
    return any(use.id == plan.tool_use_id for use in uses)
