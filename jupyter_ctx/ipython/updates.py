"""Notebook updates: what changed around the conversation between turns (core.ports.Updates).

What the model knows is a snapshot. It comes with the prompt from the transcript; in this process it
is also kept brought up to date with what the agent itself does, so that this is never told back.
A snapshot from another kernel's life knows no name and no run of this one.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..core.acting import find_actor
from ..core.blocks import Json
from ..core.ports import (
    Applied,
    Cell,
    CellChange,
    DeleteCell,
    Kernel,
    MoveCell,
    Notebook,
    NotebookState,
    SetOutputs,
    Update,
)
from ..core.preview import name_line
from ..tools.notebook import load_views
from ..tools.outline import CellView
from ..tools.seen import Seen
from .foldernews import FolderNews
from .news import News, is_outline_due, tell_changes, tell_outline
from .watched import (
    CellMark,
    NameMark,
    Snapshot,
    bounded,
    diff,
    read_snapshot,
    with_cell,
    with_names,
    without_cell,
)

T = TypeVar("T")
Names = tuple[dict[str, NameMark], int]

MOST_KNOWN = 50
"""So many snapshots of this process are kept up to date: a rewind goes back to one of them."""

AGENT_DIGEST = "agent"
"""Stands for a cell that holds a prompt: what it says is in the conversation."""


_LIFE = secrets.token_hex(6)
"""This kernel's life: objects and runs of another one are gone."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else is told when it differs: the date, as in 2026-11-30, and the working folder."""

    date: str = ""
    folder: str = ""


class ToolNotebook:
    """The notebook as the agent's tools reach it: what they change is noted as known to the model.

    What the user takes back (`/undo`) goes another way, and is told.
    """

    def __init__(
        self, notebook: Notebook, on_applied: Callable[[CellChange, Applied], None]
    ) -> None:
        self._notebook = notebook
        self._on_applied = on_applied

    async def load(self, outputs_of: Sequence[str] = ()) -> NotebookState:
        """Return it as it stands now."""
        return await self._notebook.load(outputs_of)

    async def apply(self, change: CellChange) -> Applied:
        """Make one change, read it back and note it. Raises ToolError and UnreadError."""
        applied = await self._notebook.apply(change)
        if find_actor() is None:  # what a sub-agent changes, the conversation has yet to be told
            self._on_applied(change, applied)
        return applied


class KernelUpdates:
    """Watches one kernel and its notebook.

    `look_at_names` gives the user's names and how many more there are; it is called on the main
    thread, by `on_main`. `seen` is told which cells' sources an update gave whole. `folder` tells
    of the project's folder. `keep` stores the outputs of a cell if they are large, and returns the
    name they can be read by.
    """

    def __init__(
        self,
        kernel: Kernel,
        notebook: Notebook,
        look_at_names: Callable[[], Names],
        on_main: Callable[[Callable[[], Names]], Awaitable[Names]],
        surroundings: Callable[[], Surroundings] = Surroundings,
        seen: Seen | None = None,
        folder: Callable[[], FolderNews] = FolderNews,
        keep: Callable[[Cell], str | None] = lambda cell: None,
    ) -> None:
        self._keep = keep
        self._folder = folder
        self._kernel = kernel
        self._notebook = notebook
        self._look_at_names = look_at_names
        self._on_main = on_main
        self._surroundings = surroundings
        self._seen = seen or Seen()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], Snapshot] = {}
        self._current: tuple[str, int] | None = None
        self._before: dict[str, NameMark] | None = None
        self._news = News()

    async def load(self, seen: Json | None, most_chars: int) -> Update:
        """Return what changed since `seen`, an outline if nothing is known."""
        state, views = await load_views(self._kernel, self._notebook)
        names, more_names = await self._on_main(self._look_at_names)
        old = self._find_known(seen)
        around = self._surroundings()
        now = self._snapshot(state, views, names, more_names, around, old)
        marks, said = await self._folder().load(old.around if old else {}, most_chars // 2)
        now = replace(now, around=marks)
        room = most_chars - len(said)
        news = await asyncio.to_thread(_tell, old, now, state, views, around, room, self._keep)
        news.text = "\n\n".join(filter(None, (said, news.text)))
        with self._lock:
            self._news = news
            self._known[now.key] = now
            self._current = now.key
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return Update(news.text, now.to_json())

    def note_told(self, text: str) -> None:
        """Mark the cells whose whole source the model was told."""
        for cell_id, source, chunk in self._news.wholes:
            if chunk in text:
                self._seen.mark("cell", cell_id, source)

    # What the agent does --------------------------------------------------------------------------

    def note_applied(self, change: CellChange, applied: Applied) -> None:
        """The agent changed a cell: it knows."""
        cell = applied.cell
        with self._lock:
            known = self._known.get(self._current) if self._current else None
            if known is None or isinstance(change, SetOutputs):
                return
            if isinstance(change, DeleteCell):
                known = without_cell(known, cell.id)
            else:
                old = known.by_id.get(cell.id)
                is_moved = old is None or isinstance(change, MoveCell)
                view = CellView(cell.id, cell.type, cell.source)
                mark = CellMark(cell.id, _digest_of(view), old.run if old else "")
                if is_moved:
                    known = with_cell(known, mark, applied.above)
                else:
                    cells = [mark if one.id == cell.id else one for one in known.cells]
                    known = replace(known, cells=tuple(cells))
            self._known[known.key] = known

    def before_run(self) -> None:
        """The agent's code is about to run; on the main thread."""
        self._before = self._look_at_names()[0] if self._current is not None else None

    def after_run(self) -> None:
        """It has run; what it did to names is known. On the main thread."""
        before, self._before = self._before, None
        if before is None:
            return
        after = self._look_at_names()[0]
        with self._lock:
            known = self._known.get(self._current) if self._current else None
            if known is not None:
                self._known[known.key] = with_names(known, before, after)

    # Snapshots ------------------------------------------------------------------------------------

    def _find_known(self, seen: Json | None) -> Snapshot | None:
        """Return what the model knows, the agent's own doings included, in this kernel's life."""
        stored = read_snapshot(seen)
        if stored is None:
            return None
        with self._lock:
            return self._known.get(stored.key, stored).in_kernel(_LIFE)

    def _snapshot(
        self,
        state: NotebookState,
        views: Sequence[CellView],
        names: Mapping[str, NameMark],
        more_names: int,
        around: Surroundings,
        old: Snapshot | None,
    ) -> Snapshot:
        """Return how things stand; without a document its cells stay as they were known."""
        marks = [_mark(view) for view in views if not view.is_gone]
        source: str = state.source
        if state.source == "disk":
            marks += [_mark(view) for view in views if view.is_gone]
        if state.source == "kernel":
            ran = {mark.id: mark for mark in marks if mark.digest != AGENT_DIGEST}
            known = old.cells if old is not None else ()
            marks = [ran.pop(cell.id, cell) for cell in known] + list(ran.values())
            source = old.source if old is not None else source
        cells, more_cells = bounded(marks)
        return Snapshot(
            kernel=_LIFE,
            n=next(_numbers),
            source=source,
            cells=cells,
            names=names,
            date=around.date,
            cwd=_short(around.folder),
            more_cells=more_cells,
            more_names=more_names,
        )


def _tell(
    old: Snapshot | None,
    now: Snapshot,
    state: NotebookState,
    views: Sequence[CellView],
    around: Surroundings,
    most_chars: int,
    keep: Callable[[Cell], str | None],
) -> News:
    """Return the outline, or what changed."""
    if state.source == "kernel":
        views = [view for view in views if not view.is_agent]
    if old is None or is_outline_due(old, now):
        return tell_outline(state, views, now.names, now.more_names, most_chars)
    changes = diff(old, now)
    news = tell_changes(changes, views, state.source, most_chars, keep)
    if changes.cwd:
        news.text += f"\nThe working folder is now {name_line(around.folder)}."
    return news


def _mark(view: CellView) -> CellMark:
    if view.is_agent:
        return CellMark(view.id, AGENT_DIGEST)
    run = view.run
    if run is None:
        return CellMark(view.id, _digest_of(view))
    size = sum(len(str(one.get("text", ""))) for one in run.outputs)
    failed = "!" if run.failed else ""
    return CellMark(view.id, _digest_of(view), f"{run.order}{failed}.{len(run.outputs)}.{size}")


def _digest_of(view: CellView) -> str:
    return AGENT_DIGEST if view.is_agent else _short(f"{view.type}\n{view.source}")


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
