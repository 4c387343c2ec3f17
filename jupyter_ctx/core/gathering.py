"""What a compaction puts back, asked for and held within the window.

Order (DESIGN.md 5): the user's words, pins, plan, skills, live names, stored results, recent cells
and files; last what a SessionStart hook says.

Law: summary and all of this together take at most a quarter of the window (`head_tokens`), but for
the first and the newest instruction, which are given whole. Each part has its own budget; where
they would exceed the quarter together, each gets as much less in proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .around import cut_to, hook_tokens
from .blocks import Message, cell_names, images_of, tool_results, words_of
from .edits import open_edits
from .entries import Reinjected
from .ports import Cell, EditedFile, NotebookCell, PlanItem, Skill, Variable
from .preview import clean_text
from .recent import MOST_EACH_TOKENS, Source, choose_sources, merge_by_time
from .reinjection import (
    CHARS_PER_TOKEN,
    CountText,
    Instruction,
    Section,
    choose_instructions,
    choose_lines,
    choose_pins,
    choose_plan,
    choose_skills,
    turn_names,
)
from .window import DEFAULTS, Limits, share_of, window_of

if TYPE_CHECKING:
    from .engine import Engine

HEAD_SHARE = 0.25
"""What a summary and what comes back with it may take of the window."""
SKILLS_SHARE, MOST_SKILLS = 0.10, 5
"""All skills together: as five of the longest, at most this share of the window."""
_BUDGETS = ("instructions_tokens", "plan_tokens", "inventory_tokens", "results_tokens")
_SETTINGS = (*_BUDGETS, "skill_tokens", "cells_tokens")
MOST_OF_BEFORE, LEAST_FACTOR = 0.95, 0.05
"""Each try to fit makes the budgets smaller by 5 % at least; under a twentieth only names stay."""


def head_tokens(limits: Limits, window: int) -> int:
    """Return what a summary and what comes back with it may take, in tokens.

    A quarter of the window, and what the user's own settings allow above the defaults.
    """
    raised = sum(
        max(0, share_of(limits, name, window) - share_of(DEFAULTS, name, window))
        for name in _SETTINGS
    )
    return int(HEAD_SHARE * window) + raised


@dataclass(frozen=True, slots=True)
class _Shares:
    """The budgets of the parts, in tokens."""

    instructions: int
    plan: int
    skill: int
    skills: int
    inventory: int
    results: int
    sources: int
    hook: int

    @classmethod
    def of(cls, limits: Limits, window: int | None) -> _Shares:
        def budget(name: str) -> int:
            return share_of(limits, name, window)

        each = budget("skill_tokens")
        all_skills = MOST_SKILLS * each
        if window is not None:
            all_skills = min(all_skills, max(each, int(SKILLS_SHARE * window)))
        return cls(
            budget("instructions_tokens"),
            budget("plan_tokens"),
            each,
            all_skills,
            budget("inventory_tokens"),
            budget("results_tokens"),
            budget("cells_tokens"),
            hook_tokens(window),
        )

    def scaled(self, factor: float) -> _Shares:
        """Return the same, each as much smaller; what one skill may take stays."""

        def less(tokens: int) -> int:
            return int(tokens * factor)

        return _Shares(
            less(self.instructions),
            less(self.plan),
            self.skill,
            less(self.skills),
            less(self.inventory),
            less(self.results),
            less(self.sources),
            less(self.hook),
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is to put back, cleaned and redacted."""

    prompts: Sequence[Instruction]
    first_turn: int | None
    pins: Section | None
    plan: Sequence[PlanItem]
    skills: Sequence[Skill]
    variables: Sequence[tuple[str, str]]
    results: Sequence[tuple[str, str]]
    find_turns: Callable[[Sequence[str]], Sequence[int]]
    sources: Sequence[Source]
    older: Sequence[str]
    lost: Sequence[str]
    told: str


async def build_sections(
    engine: Engine, kept: Sequence[Message], summary_tokens: int, told: str = ""
) -> list[Section | None]:
    """Return what is put back beside a summary of `summary_tokens`, in its order.

    `kept` are the messages that stay behind it; `told` is what a SessionStart hook says.
    """
    window = window_of(engine.limits, engine.facts)
    count = _remembering(engine.meter.estimate_text)
    found = await _gather(engine, kept, told, count)
    must = None if window is None else (window - (engine.reserve or 0)) // 2
    shares = _Shares.of(engine.limits, window)
    sections = _choose(found, shares, must, count)
    if window is None:
        return sections
    pins = count(found.pins.text) if found.pins else 0
    allowed = head_tokens(engine.limits, window) - summary_tokens - pins
    factor = 1.0
    while factor and (taken := _counted(sections, found, count)) > allowed:
        factor *= min(MOST_OF_BEFORE, max(0.0, allowed) / taken)
        factor = factor if factor >= LEAST_FACTOR else 0.0
        sections = _choose(found, shares.scaled(factor), must, count)
    return sections


def _counted(sections: Sequence[Section | None], found: _Found, count: CountText) -> int:
    """Return what the sections take, but for pins and for what is given whole always."""
    newest = found.prompts[-1].turn if found.prompts else None
    whole = {f"prompt-{newest}", f"prompt-{found.first_turn}"}
    given = [section for section in sections if section is not None and section is not found.pins]
    items = [item for section in given for item in section.items]
    must = sum(item.tokens for item in items if item.kind == "instruction" and item.id in whole)
    return sum(count(section.text) for section in given) - must


def _choose(
    found: _Found, shares: _Shares, must_tokens: int | None, count: CountText
) -> list[Section | None]:
    def find_rest(ids: Sequence[str]) -> str:
        turns = found.find_turns(ids)
        return f", named in {turn_names('turn', turns)}" if turns else ""

    title = "# Stored results, newest first; read them with `read_result`"
    return [
        choose_instructions(
            found.prompts, found.first_turn, shares.instructions, count, most_tokens=must_tokens
        ),
        found.pins,
        choose_plan(found.plan, shares.plan, count),
        choose_skills(found.skills, shares.skill, shares.skills, count),
        choose_lines(
            "# Names alive in the kernel now", "variable", found.variables, shares.inventory, count
        ),
        choose_lines(title, "result", found.results, shares.results, count, find_rest),
        choose_sources(found.sources, shares.sources, count, older=found.older, lost=found.lost),
        _hook_section(found.told, shares.hook, count),
    ]


def _hook_section(told: str, budget_tokens: int, count: CountText) -> Section | None:
    text = cut_to(told, budget_tokens, count)
    return Section(text, (Reinjected("hook", "SessionStart", count(text)),)) if text else None


def _remembering(count: CountText) -> CountText:
    """Return `count` that counts each text once."""
    known: dict[str, int] = {}

    def remembered(text: str) -> int:
        if text not in known:
            known[text] = count(text)
        return known[text]

    return remembered


# Asking for it ----------------------------------------------------------------------------------


async def _gather(engine: Engine, kept: Sequence[Message], told: str, count: CountText) -> _Found:
    limits, transcript, ports = engine.limits, engine.transcript, engine.ports
    kept_ids = {id(message) for message in kept}
    known = await _load_sources(engine)
    sources = [source for source in known if not source.fault]
    return _Found(
        prompts=[
            Instruction(turn, words)
            for turn, message in sorted(transcript.prompts.items())
            if id(message) not in kept_ids and (words := words_of(message))
        ],
        first_turn=min(transcript.prompts, default=None),
        pins=choose_pins(transcript.pins, kept, count),
        plan=[
            PlanItem(_said(engine, item.text), item.state)
            for item in await ports.workspace.load_plan()
        ],
        skills=[
            Skill(_said(engine, skill.name), _said(engine, skill.text))
            for skill in await ports.workspace.load_skills()
        ],
        variables=[(v.name, _describe(v)) for v in await ports.kernel.load_variables()],
        results=[
            (
                fate.tool_use_id,
                f"`{fate.tool_use_id}`: {fate.tool}, {fate.lines:,} lines, "
                f"{fate.chars:,} characters",
            )
            for fate in reversed(transcript.stored)
        ]
        + _describe_pictured(engine, kept)
        + [
            (name, f"`{name}`: outputs of a cell that the user ran")
            for _, prompt in sorted(transcript.prompts.items(), reverse=True)
            if id(prompt) not in kept_ids
            for name in reversed(cell_names(prompt))
        ],
        find_turns=transcript.turns_of_results,
        sources=sources[: limits.recent_cells],
        older=[source.label for source in sources[limits.recent_cells :]],
        lost=[f"{source.label} ({source.fault})" for source in known if source.fault],
        told=told,
    )


def _describe_pictured(engine: Engine, kept: Sequence[Message]) -> list[tuple[str, str]]:
    """Return id and line of each result whose images are no longer sent, the newest first."""
    sent = {
        result.tool_use_id
        for message in kept
        for result in tool_results(message)
        if images_of(Message("user", (result,)))
    }
    return [
        (
            fate.tool_use_id,
            f"`{fate.tool_use_id}`: {fate.tool}, {fate.lines:,} lines, with its images in "
            f"{(fate.path or '').removesuffix('.txt')}.json",
        )
        for fate in reversed(engine.transcript.pictured)
        if fate.tool_use_id not in sent
    ]


async def _load_sources(engine: Engine) -> list[Source]:
    """Return cells and files as they stand now, the newest first.

    A cell that a front end shows no more has no text, and is named only if the agent edited it; one
    that the agent edited is among them also if it never ran.
    """
    cells = [cell for cell in await engine.ports.kernel.load_cells() if not cell.is_agent]
    cells.sort(key=lambda cell: -(cell.source_order or cell.order))
    state = await engine.ports.notebook.load()
    now = {cell.id: cell for cell in state.cells}
    if state.source == "front end":
        cells = [cell for cell in cells if cell.id in now]
    every_at = {
        entry.edit.target: entry.at
        for entry in reversed(open_edits(engine.transcript))  # the newest of a cell counts
        if entry.edit.kind == "cell"
    }
    edited_at = {cell_id: at for cell_id, at in every_at.items() if cell_id in now}
    lost = every_at.keys() - now.keys() if state.source == "front end" else ()
    ran_at = {cell.id: cell.changed_at for cell in cells}
    later = {cell_id: at for cell_id, at in edited_at.items() if at > ran_at.get(cell_id, -1.0)}
    files = await engine.ports.workspace.load_files()
    return merge_by_time(
        [_ran_source(engine, cell, now.get(cell.id)) for cell in cells if cell.id not in later],
        [
            *(_edited_source(engine, now[cell_id], at) for cell_id, at in later.items()),
            *(_lost_cell(cell_id, every_at[cell_id]) for cell_id in sorted(lost)),
            *(_file_source(engine, file) for file in files),
        ],
    )


def _ran_source(engine: Engine, cell: Cell, now: NotebookCell | None) -> Source:
    """Return a cell that ran, with the source that stands there now."""
    present = cell.source if now is None else now.source
    edited = "" if present.rstrip() == cell.source.rstrip() else ", edited since it ran"
    label = f"cell:{cell.id} (In[{cell.count}]{edited})"
    return Source(cell.id, label, _said_whole(engine, present), "cell", cell.changed_at)


def _edited_source(engine: Engine, cell: NotebookCell, at: float) -> Source:
    place = "not run" if cell.count is None else f"In[{cell.count}]"
    label = f"cell:{cell.id} ({place if cell.type == 'code' else cell.type}, edited by you)"
    return Source(cell.id, label, _said_whole(engine, cell.source), "cell", at)


def _lost_cell(cell_id: str, at: float) -> Source:
    return Source(cell_id, f"cell:{cell_id}", "", "cell", at, "it is no longer in the notebook")


def _file_source(engine: Engine, file: EditedFile) -> Source:
    path = " ".join(_said(engine, file.path).split())
    text = _said_whole(engine, file.text)
    return Source(path, path, text, "file", file.changed_at, file.fault)


def _said(engine: Engine, text: str) -> str:
    """Return a text as it may be sent."""
    return engine.ports.redactor.text(clean_text(text))


def _said_whole(engine: Engine, text: str) -> str:
    """Return a source as it may be sent; one that is too long, and so only named, as it is."""
    return text if len(text) > CHARS_PER_TOKEN * MOST_EACH_TOKENS else _said(engine, text)


def _describe(variable: Variable) -> str:
    facts = (variable.type, variable.shape, variable.size)
    cell = f"from {variable.cell}" if variable.cell else ""
    return f"`{variable.name}`: {', '.join(filter(None, (*facts, cell)))}"
