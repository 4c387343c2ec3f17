"""The plan as it is shown: a list with what is done, what is being done, what is to come."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.plan import MARKS, PlanItem, PlanState
from . import words
from .markdown import escape
from .plaintext import one_line

_SIGNS: dict[PlanState, str] = {"pending": "○", "in_progress": "▸", "done": "✓"}
"""Signs rather than boxes: Markdown would draw boxes that look as if they could be ticked."""


def plan_report(items: Sequence[PlanItem], *, is_numbered: bool = False) -> tuple[str, str]:
    """Return the plan as Markdown that is safe, and as text."""
    lead = words.plan_line(items)
    if not items:
        return escape(lead), lead
    lines, rows = [lead, ""], [lead]
    for n, item in enumerate(items, start=1):
        text = escape(item.text)
        text = f"**{text}**" if item.state == "in_progress" else text
        lines.append(f"{f'{n}.' if is_numbered else '-'} {_SIGNS[item.state]} {text}")
        number = f"{n:>3}. " if is_numbered else "  "
        rows.append(f"{number}{MARKS[item.state]} {one_line(item.text, 400)}")
    return "\n".join(lines), "\n".join(rows)
