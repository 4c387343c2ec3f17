"""The plan's items: what is to be done, one by one. Pure; `planning.py` has the rules around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

PlanState: TypeAlias = Literal["pending", "in_progress", "done"]
PlanAuthor: TypeAlias = Literal["agent", "user"]

MOST_ITEMS, MOST_ITEM_CHARS = 50, 300
"""What a plan may have: a longer one is no plan. Kept small, since compactions put it back."""

MARKS: Mapping[PlanState, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}
"""How an item's state is written and read in a checklist."""


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One item of the plan; `text` is one line."""

    text: str
    state: PlanState = "pending"


def plan_lines(items: Sequence[PlanItem]) -> list[str]:
    """Return the plan as a checklist, a line for each item: what `parse_plan` reads."""
    return [f"- {MARKS[item.state]} {item.text}" for item in items]


def count_done(items: Sequence[PlanItem]) -> int:
    """Return how many items are done."""
    return sum(item.state == "done" for item in items)


def find_current(items: Sequence[PlanItem]) -> PlanItem | None:
    """Return what is being done: the first item in progress, else the first to do, else None."""
    for state in ("in_progress", "pending"):
        if found := next((item for item in items if item.state == state), None):
            return found
    return None
