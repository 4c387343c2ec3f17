"""`/plan` and `/memory`: what is kept of the work, shown and edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..core.plan import PlanItem, PlanState
from ..core.planning import parse_plan
from ..errors import PromptError
from . import words
from .commands import Shown
from .markdown import escape
from .plaintext import plain
from .plans import plan_report
from .reports import Report, join

if TYPE_CHECKING:
    from ..core.ports import Fact
    from ..session import Session

PLAN_ACTS = ("add", "done", "next", "remove", "edit", "clear")
MEMORY_ACTS = ("add", "edit", "forget", "undo")
PLAN_HINT = "The agent makes one for long tasks; /plan edit, with a line for each item, does too."
TOLD = "The model hears of it with the next prompt."
STATES: Mapping[str, PlanState] = {"done": "done", "next": "in_progress"}


class Host(Protocol):
    """What these commands act on."""

    @property
    def session(self) -> Session:
        """The kernel's session."""
        ...


def plan(host: Host, argument: str) -> Shown:
    """Show the plan; `add TEXT`, `done N`, `next N`, `remove N`, `edit LINES`, `clear` change it.

    Raises PromptError, and BusyError for a change while a turn runs.
    """
    session = host.session
    act, rest = _split(argument)
    if not act:
        report = plan_report(session.plan, is_numbered=True)
        return Shown(*(report if session.plan else join(report, PLAN_HINT)))
    items = session.edit_plan(_changed(session.plan, act, rest))
    return Shown(*join(plan_report(items, is_numbered=True), TOLD))


def _changed(items: Sequence[PlanItem], act: str, rest: str) -> Sequence[PlanItem]:
    """Return the plan after one act. Raises PromptError."""
    match act:
        case "add" if added := parse_plan(rest):
            return (*items, *added)
        case "edit" if edited := parse_plan(rest):
            return edited
        case "add" | "edit":
            raise PromptError(f"/plan {act} takes the text of an item, or a line for each.")
        case "clear" if not rest:
            return ()
        case "remove":
            gone = _numbers(rest, len(items), "/plan remove")
            return [item for n, item in enumerate(items, start=1) if n not in gone]
        case "done" | "next":
            chosen = _numbers(rest, len(items), f"/plan {act}")
            state = STATES[act]
            return [
                PlanItem(item.text, state) if n in chosen else item
                for n, item in enumerate(items, start=1)
            ]
        case _:
            raise PromptError(f"/plan takes {_listed(PLAN_ACTS)}, not {act[:40]!r}.")


def memory(host: Host, argument: str) -> Shown:
    """Show what is kept across sessions; `add TEXT`, `edit N TEXT`, `forget N`, `undo` change it.

    Raises PromptError, StoreError, and BusyError while a turn runs.
    """
    session = host.session
    act, rest = _split(argument)
    match act:
        case "":
            return Shown(*memory_report(session.load_memory(), session.memory_place))
        case "add":
            kept = session.remember(rest)
            return _said(f"Kept for later sessions: {kept[0]}" if kept else "It was kept already.")
        case "forget":
            return _forget(session, rest)
        case "edit":
            return _edit(session, rest)
        case "undo" if not rest:
            if not session.remembered:
                raise PromptError(
                    "Nothing was kept since the kernel started that is still there; "
                    "what was taken out comes back by /memory add TEXT."
                )
            return _gone(session.forget(session.remembered))
        case _:
            raise PromptError(f"/memory takes {_listed(MEMORY_ACTS)}, not {act[:40]!r}.")


def _forget(session: Session, rest: str) -> Shown:
    facts = session.load_memory()
    chosen = _numbers(rest, len(facts), "/memory forget")
    return _gone(session.forget([facts[n - 1].text for n in sorted(chosen)]))


def _gone(facts: Sequence[str]) -> Shown:
    if not facts:
        return _said("It was not there any more.")
    return _said(*(f"Taken out of the memory: {fact}" for fact in facts), TOLD)


def _edit(session: Session, rest: str) -> Shown:
    """Put another fact in the place of one: the new one is kept first, so that none is lost."""
    number, text = _split(rest)
    facts = session.load_memory()
    n = min(_numbers(number, len(facts), "/memory edit"))
    kept = session.remember(text)
    if kept:
        session.forget([facts[n - 1].text])
        return _said(f"Kept for later sessions, in place of fact {n}: {kept[0]}", TOLD)
    return _said("It was kept already; nothing is changed.")


def memory_report(facts: Sequence[Fact], where: str) -> Report:
    """Return what is kept, numbered, and the file in which it can be edited; "": there is none."""
    if not where:
        return join("Nothing is kept across sessions here: there is no folder for it.")
    if not facts:
        return join(
            "Nothing is kept across sessions for this project.",
            "The agent keeps what you state and shows each fact; /memory add TEXT keeps one too.",
            f"File: {where}",
        )
    lead = f"{words.count(len(facts), 'fact')}, kept for every session of this project."
    dated = [f"{fact.text} ({fact.date})" if fact.date else fact.text for fact in facts]
    rows = (
        "\n".join(f"{n}. {escape(one)}" for n, one in enumerate(dated, start=1)),
        "\n".join(f"{n:>3}. {plain(one)}" for n, one in enumerate(dated, start=1)),
    )
    return join(lead, rows, f"File, to be edited as you like: {where}")


def _numbers(text: str, most: int, command: str) -> set[int]:
    """Return the numbers in `text`, each from 1 to `most`. Raises PromptError."""
    found = text.replace(",", " ").split()
    if found and all(one.isdecimal() and one.isascii() for one in found):
        numbers = {int(one) for one in found}
        if max(numbers) <= most and min(numbers) >= 1:
            return numbers
    there = f"the numbers are 1 to {most}" if most else "there is nothing to number"
    raise PromptError(f"{command} takes a number; {there}.")


def _split(text: str) -> tuple[str, str]:
    act, *rest = text.strip().split(maxsplit=1) or [""]
    return act.lower(), rest[0].strip() if rest else ""


def _listed(acts: Sequence[str]) -> str:
    return f"{', '.join(acts[:-1])} or {acts[-1]}"


def _said(*lines: str) -> Shown:
    return Shown(*join(*lines))
