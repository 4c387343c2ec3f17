"""What a compaction puts back beside the summary, chosen within budgets. Pure.

`recent.py` chooses cells and files; `gathering.py` asks for what there is and holds the sum of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .blocks import Message
from .entries import Reinjected
from .pins import pin_notice, stands_in
from .ports import PlanItem, Skill

CountText = Callable[[str], int]

MOST_NAMES, MOST_OLDER = 10, 20
BEGINNING_CHARS = 600
ITEM_CHARS = 500
"""An item of the plan is one line; a longer one is cut."""
CHARS_PER_TOKEN = 16
"""No text but blanks has more characters to a token: a longer one need not be counted."""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of what a compaction puts back: its text and, one by one, what is in it."""

    text: str
    items: tuple[Reinjected, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """A prompt of the user: turn number and their words."""

    turn: int
    text: str


def choose_instructions(
    prompts: Sequence[Instruction],
    first_turn: int | None,
    budget_tokens: int,
    count: CountText,
    long_tokens: int = 2_000,
    most_tokens: int | None = None,
) -> Section | None:
    """Return the user's prompts (oldest first in `prompts`) as one section, newest chosen first.

    The newest is given whole, and so is the one of `first_turn`, as long as both together take no
    more than `most_tokens` (a model with a smaller window may have come since). Of the others, one
    longer than `long_tokens` is given by its beginning and name. What does not fit `budget_tokens`
    is left out and said so. Shown oldest first, so that a later word overrules an earlier one.
    """
    if not prompts:
        return None
    newest = prompts[-1].turn
    must = {newest, first_turn}
    chosen: dict[int, str] = {}
    spent = 0
    for prompt in sorted(prompts, key=lambda p: (p.turn not in must, -p.turn)):
        text, tokens = prompt.text, count(prompt.text)
        if prompt.turn in must:
            is_long = most_tokens is not None and spent + tokens > most_tokens
        else:
            is_long = tokens > long_tokens
        if is_long and len(text) > 2 * BEGINNING_CHARS:
            rest = f"[… {len(text):,} characters in all: `prompt-{prompt.turn}`]"
            text = f"{text[:BEGINNING_CHARS]}\n{rest}"
            tokens = count(text)
        if prompt.turn not in must and spent + tokens > budget_tokens:
            continue
        chosen[prompt.turn] = text
        spent += tokens
    left_out = [prompt.turn for prompt in prompts if prompt.turn not in chosen]
    lines = ["# What the user asked, in their own words, oldest first"]
    lines += [f"## Turn {turn}\n{chosen[turn]}" for turn in sorted(chosen)]
    if left_out:
        names = turn_names("prompt", left_out)
        lines.append(f"Not repeated here, read them with `read_result`: {names}")
    items = tuple(
        Reinjected("instruction", f"prompt-{turn}", count(chosen[turn])) for turn in sorted(chosen)
    )
    return Section("\n\n".join(lines), items)


def turn_names(kind: str, turns: Sequence[int]) -> str:
    """Return the names of the texts of `turns`, which ascend: as few words as a long list allows.

    Runs are given by their ends; beyond `MOST_NAMES` runs, the rest by theirs.
    """
    runs: list[tuple[int, int]] = []
    for turn in turns:
        if runs and turn == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], turn)
        else:
            runs.append((turn, turn))
    if len(runs) > MOST_NAMES:
        runs[MOST_NAMES - 1 :] = [(runs[MOST_NAMES - 1][0], runs[-1][1])]
    return ", ".join(
        f"`{kind}-{first}`" + (f" to `{kind}-{last}`" if last > first else "")
        for first, last in runs
    )


def choose_lines(
    title: str,
    kind: str,
    rows: Iterable[tuple[str, str]],
    budget_tokens: int,
    count: CountText,
    find_rest: Callable[[Sequence[str]], str] = lambda ids: "",
) -> Section | None:
    """Return a section of one-line rows, (id, line) each, first ones first, as many as fit.

    `find_rest` says where the rows of the ids that do not fit are found. None if there are no rows,
    or the budget is 0.
    """
    rows = list(rows)
    chosen: list[tuple[str, str, int]] = []
    spent = 0
    for id_, line in rows:
        tokens = count(line) + 1
        if spent + tokens > budget_tokens:
            break
        chosen.append((id_, line, tokens))
        spent += tokens
    if not chosen:
        return None
    lines = [title, *(f"- {line}" for _, line, _ in chosen)]
    if len(chosen) < len(rows):
        rest = find_rest([id_ for id_, _ in rows[len(chosen) :]])
        lines.append(f"- … and {len(rows) - len(chosen):,} more{rest}")
    items = tuple(Reinjected(kind, id_, tokens) for id_, _, tokens in chosen)
    return Section("\n".join(lines), items)


def choose_pins(
    pins: Mapping[int, str], kept: Sequence[Message], count: CountText
) -> Section | None:
    """Return the user's pins as one section, each whole, but for those that `kept` still holds.

    No budget cuts them: they are bounded when they are made (`pins.most_pin_tokens`).
    """
    notices = [(n, pin_notice(n, text)) for n, text in sorted(pins.items())]
    notices = [(n, notice) for n, notice in notices if not stands_in(kept, notice)]
    if not notices:
        return None
    items = tuple(Reinjected("pin", str(n), count(notice)) for n, notice in notices)
    return Section("\n\n".join(notice for _, notice in notices), items)


_PLAN_MARKS = {"pending": "[ ]", "in_progress": "[ ] (in progress)", "done": "[x]"}
_PLAN_ORDER = ("in_progress", "pending", "done")


def choose_plan(plan: Sequence[PlanItem], budget_tokens: int, count: CountText) -> Section | None:
    """Return the plan in its order; what does not fit is left out, what was done longest ago first.

    None if there is no plan, or the budget is 0.
    """
    chosen: dict[int, tuple[str, int]] = {}
    spent = 0
    for index in sorted(range(len(plan)), key=lambda i: _plan_rank(plan, i)):
        line = f"- {_PLAN_MARKS[plan[index].state]} {_one_line(plan[index].text)}"
        tokens = count(line) + 1
        if spent + tokens <= budget_tokens:
            chosen[index] = line, tokens
            spent += tokens
    if not chosen:
        return None
    lines = ["# The plan", *(chosen[index][0] for index in sorted(chosen))]
    if len(chosen) < len(plan):
        lines.append(f"- … and {len(plan) - len(chosen):,} more")
    items = tuple(Reinjected("plan", str(i + 1), chosen[i][1]) for i in sorted(chosen))
    return Section("\n".join(lines), items)


def _plan_rank(plan: Sequence[PlanItem], index: int) -> tuple[int, int]:
    """Return how late an item is chosen: what is under way, what is to come, the newest done."""
    state = plan[index].state
    return _PLAN_ORDER.index(state), -index if state == "done" else index


def _one_line(text: str) -> str:
    line = " ".join(text[: 2 * ITEM_CHARS].split())
    return line if len(line) <= ITEM_CHARS else line[: ITEM_CHARS - 1] + "…"


def choose_skills(
    skills: Sequence[Skill], each_tokens: int, budget_tokens: int, count: CountText
) -> Section | None:
    """Return the skills in use (the last one loaded first), whole or by name only.

    By name: one of more than `each_tokens`, and what does not fit `budget_tokens` together. Beyond
    `MOST_OLDER` skills they are only counted.
    """
    if not skills:
        return None
    chunks = ["# Skills in use, the last one loaded first"]
    items: list[Reinjected] = []
    spent = 0
    for skill in skills[:MOST_OLDER]:
        name = _one_line(skill.name)
        chunk = f"## {name}\n{skill.text}"
        if is_longer(skill.text, each_tokens, count) or spent + count(chunk) > budget_tokens:
            chunk = f"## {name}\nToo long to repeat: `skill` loads it again."
        chunks.append(chunk)
        items.append(Reinjected("skill", name, count(chunk)))
        spent += items[-1].tokens
    if len(skills) > MOST_OLDER:
        chunks.append(f"… and {len(skills) - MOST_OLDER:,} more")
    return Section("\n\n".join(chunks), tuple(items))


def is_longer(text: str, most_tokens: int, count: CountText) -> bool:
    """Say whether `text` takes more than `most_tokens`; a very long one is not counted for it."""
    return len(text) > CHARS_PER_TOKEN * most_tokens or count(text) > most_tokens
