"""What a compaction puts back beside the summary: the user's words, live names, results, cells.

The `choose_` functions are pure; `build_sections` asks the kernel for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .blocks import Message, words_of
from .pins import pin_notice, stands_in
from .transcript import Reinjected
from .window import DEFAULTS, share, window_of

if TYPE_CHECKING:
    from .engine import Engine

CountText = Callable[[str], int]

MOST_NAMES, MOST_OLDER = 10, 20
BEGINNING_CHARS = 600


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
        names = _turn_names("prompt", left_out)
        lines.append(f"Not repeated here, read them with `read_result`: {names}")
    items = tuple(
        Reinjected("instruction", f"prompt-{turn}", count(chosen[turn])) for turn in sorted(chosen)
    )
    return Section("\n\n".join(lines), items)


def _turn_names(kind: str, turns: Sequence[int]) -> str:
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


@dataclass(frozen=True, slots=True)
class Source:
    """The present source of a cell."""

    id: str
    label: str
    text: str


def choose_sources(
    sources: Sequence[Source],
    budget_tokens: int,
    count: CountText,
    most_each_tokens: int = 5_000,
    older: Sequence[str] = (),
) -> Section | None:
    """Return the sources (newest first) as one section; what is too long only by name and id.

    `most_each_tokens` bounds one source, `budget_tokens` all of them (tokens, DESIGN.md 5). Of
    `older` cells the first `MOST_OLDER` labels are given.
    """
    if not sources and not older:
        return None
    lines = ["# Cells edited or run most recently, newest first, in their present form"]
    items: list[Reinjected] = []
    spent = 0
    for source in sources:
        tokens = count(source.text)
        if tokens > most_each_tokens or spent + tokens > budget_tokens:
            lines.append(f"## {source.label}\nToo long to repeat: `read_cell` gives it.")
            items.append(Reinjected("cell", source.id, 0))
            continue
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", source.text)), 3)
        lines.append(f"## {source.label}\n{fence}python\n{source.text}\n{fence}")
        items.append(Reinjected("cell", source.id, tokens))
        spent += tokens
    if older:
        more = f" and {len(older) - MOST_OLDER:,} more" if len(older) > MOST_OLDER else ""
        lines.append(f"Older ones, for `read_cell`: {', '.join(older[:MOST_OLDER])}{more}")
    return Section("\n\n".join(lines), tuple(items))


# Asking for it ----------------------------------------------------------------------------------


async def build_sections(engine: Engine, kept: Sequence[Message]) -> list[Section | None]:
    """Return what is put back, in the order of DESIGN.md 5."""
    limits, transcript = engine.limits, engine.transcript
    window = window_of(limits, engine.facts)
    count = engine.meter.estimate_text
    kept_ids = {id(message) for message in kept}
    prompts = [
        Instruction(turn, words)
        for turn, message in sorted(transcript.prompts.items())
        if id(message) not in kept_ids and (words := words_of(message))
    ]
    first_turn = min(transcript.prompts, default=None)
    instructions = choose_instructions(
        prompts,
        first_turn,
        share(limits.instructions_tokens, DEFAULTS.instructions_tokens, window),
        count,
        most_tokens=None if window is None else (window - (engine.reserve or 0)) // 2,
    )
    pins = choose_pins(transcript.pins, kept, count)
    inventory = await _inventory(engine, window)
    return [instructions, pins, inventory, _results(engine, window), await _cells(engine, window)]


async def _inventory(engine: Engine, window: int | None) -> Section | None:
    """Return the live names of the kernel."""
    limits, count = engine.limits, engine.meter.estimate_text
    variables = await engine.ports.kernel.load_variables()
    rows = [
        (
            v.name,
            f"`{v.name}`: {v.type}"
            + (f", {v.shape}" if v.shape else "")
            + (f", {v.size}" if v.size else "")
            + (f", from {v.cell}" if v.cell else ""),
        )
        for v in variables
    ]
    return choose_lines(
        "# Names alive in the kernel now",
        "variable",
        rows,
        share(limits.inventory_tokens, DEFAULTS.inventory_tokens, window),
        count,
    )


async def _cells(engine: Engine, window: int | None) -> Section | None:
    """Return the cells: those whose source changed last in full, the others by name."""
    limits, redact = engine.limits, engine.ports.redactor.text
    cells = [cell for cell in await engine.ports.kernel.load_cells() if not cell.is_agent]
    cells.sort(key=lambda cell: -(cell.source_order or cell.order))
    sources = [Source(c.id, f"cell:{c.id} (In[{c.count}])", redact(c.source)) for c in cells]
    budget = share(limits.cells_tokens, DEFAULTS.cells_tokens, window)
    return choose_sources(
        sources[: limits.recent_cells],
        budget,
        engine.meter.estimate_text,
        older=[source.label for source in sources[limits.recent_cells :]],
    )


def _results(engine: Engine, window: int | None) -> Section | None:
    """Return the list of offloaded results, newest first."""
    rows = [
        (
            fate.tool_use_id,
            f"`{fate.tool_use_id}`: {fate.tool}, {fate.lines:,} lines, {fate.chars:,} characters",
        )
        for fate in reversed(engine.transcript.stored)
    ]

    def find_rest(ids: Sequence[str]) -> str:
        turns = engine.transcript.turns_of_results(ids)
        return f", named in {_turn_names('turn', turns)}" if turns else ""

    return choose_lines(
        "# Stored results, newest first; read them with `read_result`",
        "result",
        rows,
        share(engine.limits.results_tokens, DEFAULTS.results_tokens, window),
        engine.meter.estimate_text,
        find_rest,
    )
