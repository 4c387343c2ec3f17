"""What the program itself says below a cell: short lines of plain text, pure functions.

Wording and figures as in the drawn interface: thousands with a comma, a space before %, `≈` for an
estimate only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..core.blocks import Json
from ..core.events import (
    CompactionFailed,
    CompactionFinished,
    MemoryChanged,
    ResultOffloaded,
    RetryScheduled,
    ToolFinished,
    TurnFinished,
)
from ..core.plan import PlanItem, count_done
from ..core.usage import Usage
from .plaintext import one_line

THINKING = "Thinking…"
COMPACTING = "Compacting…"
REMEMBERED = "Kept for later sessions (`/memory undo` takes it back):"
STOPPED_DETAIL = "Code that had run stays run."


def count(number: int, noun: str) -> str:
    """Return "1 step", "5 steps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """Return "<0.1 s", "0.2 s", "24 s" or "3 min 05 s"."""
    if seconds < 0.05:
        return "<0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


def money(cost_usd: float | None) -> str:
    """Return "$0.04", "<$0.01" for less than half a cent, "" if the price is not known."""
    if cost_usd is None:
        return ""
    if cost_usd == 0:
        return "$0.00"
    return "<$0.01" if cost_usd < 0.005 else f"${cost_usd:,.2f}"


def tokens_of(usage: Usage) -> int | None:
    """Return input and output together, None if the provider said neither."""
    whole = usage.input_tokens
    return None if whole is None and usage.output is None else (whole or 0) + (usage.output or 0)


def share(context: Mapping[str, object]) -> str:
    """Return how full the window is: "context 41 %", or in tokens if the window is not known."""
    used, window = context.get("used_tokens"), context.get("window_tokens")
    if not isinstance(used, int):
        return ""
    about = "≈" if context.get("is_estimate") else ""
    if not isinstance(window, int) or window <= 0:
        return f"context {about}{used:,} tokens, window unknown"
    return f"context {about}{round(100 * used / window)} %"


def footer(event: TurnFinished, context: Mapping[str, object]) -> str:
    """Return the turn's last line: "5 steps, 24 s · 12,431 tokens, $0.04 · context 41 %"."""
    spent = tokens_of(event.usage)
    cost = money(event.cost_usd)
    figures = [] if spent is None else [", ".join(filter(None, [f"{spent:,} tokens", cost]))]
    steps = f"{count(event.steps, 'step')}, {duration(event.seconds)}"
    return " · ".join(filter(None, [steps, *figures, share(context)]))


def tool_line(name: str, input_: Json, done: ToolFinished | None = None) -> str:
    """Return one line about a call: what runs, or once it is `done`, how it went."""
    if done is None:
        return f"{_what(name, input_, 0).rstrip('…')}…"
    if done.denied:
        return f"{_what(name, input_, 2)} · {one_line(done.text, 200)}"
    if (begins := _BEGINS.get(name)) and (found := begins.match(done.text)):
        input_ = {"cell_id": found[1]}  # the person knows the number or the place, not the id
    ended = "stopped" if done.interrupted else "failed" if done.is_error else ""
    return " · ".join(filter(None, [_what(name, input_, 1), ended, duration(done.seconds)]))


def progress_line(name: str, input_: Json, progress: str) -> str:
    """Return one line about a call that runs and has come so far."""
    return f"{_what(name, input_, 0).rstrip('…')} · {one_line(progress, 80)}…"


def stopped_line(name: str, input_: Json) -> str:
    """Return one line about a call that was stopped."""
    return f"{_what(name, input_, 1)} · stopped"


_NUMBER = re.compile(r"\[cell [^\n]{1,60}?, (In\[\d+\]),")
"""How the tool `read_cell` begins its text."""

_PLACE = re.compile(r"(?:Inserted|Edited|Moved) \w+ cell `[^`\n]{1,60}`: ([\d,]+ of [\d,]+),")
"""How the tools that change a cell begin their text."""

_BEGINS = {"read_cell": _NUMBER} | dict.fromkeys(("insert_cell", "edit_cell", "move_cell"), _PLACE)

_VERBS: Mapping[str, tuple[str, str, str]] = {
    "run_code": ("Running code", "Ran code", "Code not run"),
    "inspect": ("Inspecting", "Inspected", "Not inspected:"),
    "list_cells": ("Listing the cells", "Listed the cells", "Cells not listed"),
    "read_cell": ("Reading cell", "Read cell", "Not read: cell"),
    "insert_cell": ("Inserting cell", "Inserted cell", "Cell not inserted"),
    "edit_cell": ("Editing cell", "Edited cell", "Not edited: cell"),
    "move_cell": ("Moving cell", "Moved cell", "Not moved: cell"),
    "delete_cell": ("Deleting cell", "Deleted cell", "Not deleted: cell"),
    "run_cell": ("Running cell", "Ran cell", "Not run: cell"),
    "read_result": ("Reading stored text", "Read stored text", "Not read: stored text"),
    "read_file": ("Reading file", "Read file", "Not read: file"),
    "write_file": ("Writing file", "Wrote file", "Not written: file"),
    "edit_file": ("Editing file", "Edited file", "Not edited: file"),
    "task": ("Sub-agent at work", "Sub-agent answered", "Sub-agent not started"),
    "search_files": ("Searching the files", "Searched the files", "Files not searched"),
    "update_plan": ("Updating the plan", "Updated the plan", "Plan not updated"),
    "remember": ("Remembering", "Remembered", "Not remembered:"),
    "skill": ("Loading skill", "Loaded skill", "Not loaded: skill"),
}


def _what(name: str, input_: Json, state: int) -> str:
    """Return what a call does (0), did (1) or was not let do (2); `input_` {}: not known."""
    verbs = _VERBS.get(name, ("Running", "Ran", "Not run:"))
    which = _which(name, input_) if input_ or name not in _VERBS else ""
    return f"{verbs[state]}{which}".rstrip(":")


def _which(name: str, input_: Json) -> str:
    match name:
        case "run_code":
            code = str(input_.get("code", "")).strip()
            first = next((line for line in code.splitlines() if _tells(line)), code)
            return f", {count(code.count(chr(10)) + 1, 'line')}: {one_line(first, 60)}"
        case "inspect":
            names = input_.get("names")
            shown = ", ".join(map(str, names)) if isinstance(names, list) else str(names)
            return f" {one_line(shown, 60)}"
        case "task":
            return f": {one_line(str(input_.get('description', '')), 60)}"
        case "list_cells":
            return ""
        case "read_cell" | "insert_cell" | "edit_cell" | "move_cell" | "delete_cell" | "run_cell":
            return f" {one_line(str(input_.get('cell_id', '')), 40)}".rstrip()
        case "read_result":
            return f" {one_line(str(input_.get('tool_use_id', '')), 40)}"
        case "read_file" | "write_file" | "edit_file":
            return f" {one_line(str(input_.get('path', '')), 60)}"
        case "search_files":
            sought = (str(input_[key]) for key in ("pattern", "glob") if input_.get(key))
            return f": {one_line(', '.join(sought), 60)}".rstrip(": ")
        case "update_plan":
            return ""
        case "remember":
            return f" {one_line(str(input_.get('text', '')), 60)}".rstrip()
        case "skill":
            return f" {one_line(str(input_.get('name', '')), 60)}".rstrip()
        case _:
            return f" {one_line(name, 60)}"


def _tells(line: str) -> bool:
    """Whether a line of code says what it does: no comment, import or blank line."""
    return bool(line.strip()) and not line.lstrip().startswith(("#", "import ", "from "))


def stored_line(event: ResultOffloaded) -> str:
    """Return a line about a result that went to the store."""
    lines = count(event.lines, "line")
    seen = f"{event.shown_chars:,} of {event.chars:,} characters"
    return f"Result stored: {lines}; the model sees {seen}."


def retry_lines(event: RetryScheduled, seconds_left: float) -> tuple[str, str]:
    """Return the countdown's title and its detail."""
    left = max(0, round(seconds_left))
    reason = event.reason.strip().rstrip(".")
    title = f"{reason}. Next try in {left // 60}:{left % 60:02}."
    return title, (
        f"Try {event.attempt} of {event.attempts}. "
        f"Nothing is lost: step {event.step} starts again where it was."
    )


def retried_line(event: RetryScheduled, seconds_left: float, *, was_stopped: bool) -> str:
    """Return what stays of a countdown, also of one that was ended or stopped before its end."""
    reason = event.reason.strip().rstrip(".")
    if was_stopped:
        return f"{reason}. Not tried again."
    return f"{reason}. Tried again after {duration(event.wait_s - max(0.0, seconds_left))}."


def plan_line(items: Sequence[PlanItem]) -> str:
    """Return how far the plan is, in a few words."""
    return f"Plan: {count_done(items)} of {len(items)} done" if items else "There is no plan."


def memory_line(event: MemoryChanged) -> str:
    """Return a line about facts that are kept for later sessions, or were taken out again."""
    facts = " · ".join(event.facts)
    return f"Taken out of the memory: {facts}" if event.is_undone else f"{REMEMBERED} {facts}"


def compacted_line(event: CompactionFinished) -> str:
    """Return a line about a compaction: before → after, time, money."""
    freed = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
    cost = money(event.cost_usd)
    spent = ", ".join(filter(None, [duration(event.seconds), cost]))
    return f"Compacted: {freed} · {spent} · /summary {event.n} shows it"


def compaction_failed_line(event: CompactionFailed) -> str:
    """Return a line about a compaction that brought nothing."""
    reason = event.reason.strip().rstrip(".")
    if event.paused:
        return (
            f"Compaction is paused after {count(event.failures, 'failure')}: {reason}. "
            "Run /compact to try again."
        )
    return f"No compaction: {reason}. The conversation is unchanged."


def failure(event: TurnFinished) -> str:
    """Return the one sentence with which a stopped or failed turn fails its cell."""
    if event.outcome == "stopped" and not event.steps:
        return "Stopped by you before the first step. The prompt was not sent."
    if event.outcome == "stopped":
        return f"Stopped by you at step {event.steps}. {STOPPED_DETAIL}"
    return one_line(event.error or "The turn failed.", 2_000)
