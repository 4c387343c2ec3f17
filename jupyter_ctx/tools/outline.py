"""The notebook as the agent is shown it: its cells as they stand and as they ran, its headings.

A cell has two sources: the one that stands in the notebook now and the one that ran last. `merge`
brings them together; where there is no document to look at, what ran is all there is. Pure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..core.agentcell import is_agent_source
from ..core.blocks import Json
from ..core.ports import Cell, CellType, NotebookState
from .lines import shorten
from .outputs import summarise_outputs
from .terminal import resolve

FIRST_LINE_CHARS = 100
"""Longest first line of a cell in a list, in characters."""

HEADING_SCAN_CHARS = 20_000
"""So much of a Markdown cell is looked through for headings."""

LEAST_HEADINGS = 3
"""With fewer, headings alone tell too little of a large notebook: its first cells are listed."""

NOTE_CHARS = 240
"""Room kept in a list for the line that names where to go on."""

MOST_FAILED = 3
"""So many cells that failed are named where the list leaves cells out."""

LEAST_FAILED_CHARS = 160
"""Room for them where there is little: one cell with an id as JupyterLab makes it."""

FAILED_NOTE = "[failed last:]"

UNREAD: Json = {"jupyter_ctx": "unread"}
"""The metadata of the line that stands in the place of outputs that were not loaded."""

TELLERS = {
    "front end": "as the user sees it now",
    "disk": "as it is saved on disk: unsaved edits are not known",
    "kernel": "only what was executed",
}

GONE = {"front end": "no longer in the notebook", "disk": "not in the saved file", "kernel": ""}
"""What is said of a cell that ran and does not stand in the notebook."""

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
_HTML = re.compile(r"\s*<h([1-6])\b[^>]*>(.*?)(?:</h\1>|$)", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a Markdown cell; `level` is 1 to 6."""

    level: int
    title: str

    def __str__(self) -> str:
        return f"{'#' * self.level} {self.title}"


@dataclass(frozen=True)
class CellView:
    """A cell as it stands now and, if this kernel ran it, as it ran (`run`).

    `count` is N of In[N] as shown, None: none. `gone` says where a cell that ran is not any more:
    "no longer in the notebook"; "" of a cell that is there. `widgets` is what the file keeps of the
    widgets in outputs that this kernel did not make (`metadata.widgets`). `is_early` is the cell's.
    """

    id: str
    type: CellType
    source: str
    count: int | None = None
    outputs: tuple[Json, ...] = ()
    failed: bool = False
    run: Cell | None = None
    gone: str = ""
    widgets: Json | None = None
    is_early: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether it ran, and stands nowhere in the notebook."""
        return bool(self.gone)

    @property
    def is_unread(self) -> bool:
        """Whether a line stands in the place of its outputs (see Notebook.load)."""
        return any(output.get("metadata") == UNREAD for output in self.outputs)

    @property
    def is_edited(self) -> bool:
        """Whether its source is another than the one that ran last in this kernel."""
        return self.run is not None and self.run.source.rstrip() != self.source.rstrip()

    @property
    def is_agent(self) -> bool:
        """Whether it is a prompt: `%agent` or `%%agent`."""
        return self.type == "code" and is_agent_source(self.source)

    @property
    def state(self) -> str:
        """What became of it, in words; "" of a cell that does not run."""
        if self.type != "code":
            return ""
        if self.run is None and self.count is None:
            return "failed" if self.failed else "not run"
        words = "failed" if self.failed else "ok"
        if self.run is None:
            since = "the agent was loaded" if self.is_early else "this kernel"
            words += f", ran before {since}"
        return words + (", edited since it ran" if self.is_edited else "")

    @property
    def place(self) -> str:
        """`In[3]` of a cell that ran, `In[ ]` of one that did not, else its type."""
        if self.type != "code":
            return self.type
        return "In[ ]" if self.count is None else f"In[{self.count}]"

    @cached_property
    def headings(self) -> tuple[Heading, ...]:
        """The headings of a Markdown cell, in order."""
        return find_headings(self.source) if self.type == "markdown" else ()

    @property
    def level(self) -> int:
        """The level of its highest heading; 0: it has none."""
        return min((heading.level for heading in self.headings), default=0)


def merge(state: NotebookState, executed: Sequence[Cell]) -> list[CellView]:
    """Return the cells of the notebook in their order, then those that ran and are there no more.

    A cell and its run are matched by id, else by number and source (a front end that names none).
    A notebook that only the kernel tells of has the executed cells, oldest run first.
    """
    if state.source == "kernel":
        return [_view_of(cell) for cell in executed]
    runs = {cell.id: cell for cell in executed}
    unnamed = {(cell.count, cell.source.rstrip()): cell for cell in executed}
    used: set[str] = set()
    views: list[CellView] = []
    for cell in state.cells:
        run = runs.get(cell.id)
        if run is None and cell.count is not None:
            run = unnamed.get((cell.count, cell.source.rstrip()))
        if run is not None and (run.id in used or cell.type != "code"):
            run = None
        view = CellView(cell.id, cell.type, cell.source, cell.count, cell.outputs, cell.failed)
        if run is not None:
            used.add(run.id)
            view = _with_run(view, run)
        else:
            view = replace(view, widgets=state.widgets, is_early=cell.is_early)
        views.append(view)
    gone = [_view_of(cell) for cell in executed if cell.id not in used and not cell.is_agent]
    where = GONE[state.source]
    return [*views, *(replace(view, gone=where) for view in gone)]


def _view_of(cell: Cell) -> CellView:
    return CellView(cell.id, "code", cell.source, cell.count, cell.outputs, cell.failed, cell)


def _with_run(view: CellView, run: Cell) -> CellView:
    """Return the view with its run; what it shows of another run (the agent's) stays."""
    if view.count is not None and view.count != run.count:
        return replace(view, run=run)
    return replace(view, run=run, count=run.count, outputs=run.outputs, failed=run.failed)


def find_headings(source: str) -> tuple[Heading, ...]:
    """Return the headings of a Markdown text: `#`, underlined, and HTML ones; none within code."""
    found: list[Heading] = []
    fence, before = "", ""
    for line in source[:HEADING_SCAN_CHARS].split("\n"):
        if fence:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if opened := _FENCE.match(line):
            fence, before = opened[1], ""
            continue
        if atx := _ATX.fullmatch(line):
            found.append(_heading(len(atx[1]), atx[2] or ""))
        elif (html := _HTML.match(line)) is not None:
            found.append(_heading(int(html[1]), html[2]))
        elif before.strip() and (under := _SETEXT.fullmatch(line)):
            found.append(_heading(1 if under[1][0] == "=" else 2, before))
        before = line if not line.startswith(("    ", "\t", ">", "-", "*", "+", "|")) else ""
    return tuple(found)


def _heading(level: int, title: str) -> Heading:
    return Heading(level, shorten(resolve(_TAG.sub("", title)), FIRST_LINE_CHARS) or "(untitled)")


def section_of(views: Sequence[CellView], index: int) -> range:
    """Return the places of a section's cells: from its heading to the next of its level or above.

    Of a cell without heading only its own.
    """
    level = views[index].level
    end = index + 1
    while level and end < len(views) and not (0 < views[end].level <= level):
        if views[end].is_gone:
            break
        end += 1
    return range(index, end)


# Lists ------------------------------------------------------------------------------------------


def describe_notebook(state: NotebookState, views: Sequence[CellView]) -> str:
    """Return one line about the notebook: its name, how many cells, and who tells of it."""
    name = shorten(os.path.basename(state.path), 80) if state.path else "notebook"
    present = [view for view in views if not view.is_gone]
    faults = f"; the file is not as it should be: {', '.join(state.faults)}"
    said = shorten(faults, 400) if state.faults else ""
    return f"[{name}: {_count(present)}; {TELLERS[state.source]}{said}]"


def _count(views: Sequence[CellView]) -> str:
    """Return how many cells there are, by kind and state."""
    code = [view for view in views if view.type == "code"]
    texts = len(views) - len(code)
    failed = sum(view.failed for view in code)
    edited = sum(view.is_edited for view in code)
    idle = sum(view.count is None for view in code)
    counts = ((failed, "failed"), (edited, "edited since they ran"), (idle, "not run"))
    said = ", ".join(f"{n:,} {word}" for n, word in counts if n)
    kinds = [f"{len(code):,} code" + (f" ({said})" if said else "")] if code else []
    kinds += [f"{texts:,} text"] if texts else []
    noun = "cell" if len(views) == 1 else "cells"
    return f"{len(views):,} {noun}: {', '.join(kinds)}" if kinds else "no cells"


def line_of(view: CellView) -> str:
    """Return the line of a list about one cell: id, number or type, state, first line, outputs."""
    if view.headings:
        said = " · ".join(str(heading) for heading in view.headings[:3])
        more = f" · {len(view.headings) - 3} more" if len(view.headings) > 3 else ""
        return f"{view.id} | {said}{more}"
    parts = [view.id, view.place, view.state]
    if view.is_gone:
        parts[-1] += f", {view.gone}"
    first = "`%agent` (a prompt to you)" if view.is_agent else first_line(view.source)
    outputs = summarise_outputs(view.outputs) if view.type == "code" else "none"
    said = "" if outputs == "none" or view.is_agent else outputs
    return " | ".join(part for part in (*parts, first, said) if part)


def first_line(source: str) -> str:
    """Return the first line that is not blank, cut and safe to show."""
    first = next((line for line in source[:2_000].split("\n") if line.strip()), "")
    return shorten(resolve(first), FIRST_LINE_CHARS) or "(empty)"


def list_page(views: Sequence[CellView], places: range, most_chars: int) -> tuple[list[str], int]:
    """Return one line a cell for as many of `places` as fit, and how many those are; at least one.

    `places` count from 0.
    """
    lines: list[str] = []
    room = most_chars
    for place in places:
        line = shorten(line_of(views[place]), max(80, min(400, room)))
        if lines and len(line) + 1 > room:
            break
        lines.append(line)
        room -= len(line) + 1
    return lines, len(lines)


def outline(views: Sequence[CellView], most_chars: int) -> str:
    """Return the whole notebook in at most `most_chars` characters, and where to go on.

    A line a cell if that fits; else the headings with what their sections hold, the deepest left
    out first; else the first cells. Where cells are left out, those that failed last are listed.
    """
    every, room = range(len(views)), most_chars - NOTE_CHARS
    lines, count = list_page(views, every, room)
    if count == len(views):
        return "\n".join(lines)
    failed = _failed_lines(views, max(room // 2, min(room, LEAST_FAILED_CHARS)))
    room -= sum(len(line) + 1 for line in failed)
    if found := _heading_outline(views, room):
        return "\n".join([found, *failed])
    lines, count = list_page(views, every, room)
    note = f"[cells 1–{count:,} of {len(views):,}; go on with start={count + 1}]"
    return "\n".join([*lines, note, *failed])


def _failed_lines(views: Sequence[CellView], most_chars: int) -> list[str]:
    """Return a line for each of the cells that failed last in this kernel, the newest last."""
    ran = ((view.run, view) for view in views if view.failed and not view.is_agent)
    failed = sorted((run.order, _failed_line(view)) for run, view in ran if run is not None)
    lines: list[str] = []
    room = most_chars - len(FAILED_NOTE) - 1
    for _, line in reversed(failed[-MOST_FAILED:]):
        if len(line) > room:
            break
        lines.insert(0, line)
        room -= len(line) + 1
    return [FAILED_NOTE, *lines] if lines else []


def _failed_line(view: CellView) -> str:
    parts = (shorten(view.id, 40), view.place, view.state, summarise_outputs(view.outputs))
    return shorten(" | ".join(parts), 160)


def _heading_outline(views: Sequence[CellView], most_chars: int) -> str:
    """Return the headings that fit, with what is in their sections; "" if they tell too little."""
    places = [place for place, view in enumerate(views) if view.level]
    for most_level in range(6, 0, -1):
        chosen = [place for place in places if views[place].level <= most_level]
        if len(chosen) < LEAST_HEADINGS:
            return ""
        lines = _heading_lines(views, chosen)
        if sum(map(len, lines)) + len(lines) <= most_chars:
            left = len(places) - len(chosen)
            deeper = f"; {left:,} deeper headings are left out" if left else ""
            note = (
                f"[only headings are listed{deeper}; list_cells lists cells with start=N or "
                "section=ID, read_cell reads a section with section=true]"
            )
            return "\n".join([*lines, note])
    return ""


def _heading_lines(views: Sequence[CellView], chosen: Sequence[int]) -> list[str]:
    lines = []
    if chosen and chosen[0] > 0:
        lines.append(f"(before the first heading) | {_span(views, range(chosen[0]))}")
    for place, following in zip(chosen, [*chosen[1:], len(views)], strict=True):
        line = shorten(line_of(views[place]), 200)
        lines.append(f"{line} | {_span(views, range(place, following))}")
    return lines


def _span(views: Sequence[CellView], places: range) -> str:
    """Return what cells in a row there are: "cells 4–9: 5 code (1 failed), 1 text"."""
    said = _count([views[place] for place in places]).partition(": ")[2]
    ends = f"cell {places[0] + 1:,}" if len(places) == 1 else (
        f"cells {places[0] + 1:,}–{places[-1] + 1:,}"
    )  # fmt: skip
    return f"{ends}: {said}"
