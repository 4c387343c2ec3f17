"""The notebook document: what the front end shows, else what the file has, else what was executed.

Three sources are kept apart: the cells as they ran (the recorder's), as they stand now (here), and
as the model saw them last (`tools/seen.py`). Implements core.ports.Notebook.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from ..core.blocks import Json
from ..core.ports import Applied, Cell, CellChange, CellType, NotebookCell, NotebookState
from ..errors import ToolError
from ..tools.outline import UNREAD
from .disk import DiskNotebook, read_notebook
from .frontend import NoFrontendError, RefusedError

Change: TypeAlias = Callable[[CellChange], Awaitable[Applied]]

OUTPUT_CHARS = 200_000
"""Longer outputs of a cell that this kernel did not run are not asked for."""
ALL_OUTPUT_CHARS = 1_000_000
"""So much is asked for at once; outputs that came stay known until they change."""

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

NO_EDITS = "Not applied: no front end that can change the notebook answers here."

_TYPES: Mapping[object, CellType] = {"code": "code", "markdown": "markdown", "raw": "raw"}


class Link(Protocol):
    """The way to a page that shows the notebook, as ipython/frontend.py keeps it."""

    @property
    def has_page(self) -> bool:
        """Whether a page was heard."""
        ...

    async def request(self, op: str, args: Json, timeout_s: float | None = None) -> Json:
        """Return the page's answer. Raises NoFrontendError and RefusedError."""
        ...


class Runs(Protocol):
    """What was executed, as core.ports.Kernel tells it."""

    async def load_cells(self) -> Sequence[Cell]:
        """Return the executed cells, oldest run first."""
        ...


class Document:
    """The notebook of one kernel.

    `find_path` gives the absolute path of its file, None if nobody says; `change` makes changes.
    Runs up to In[`early_count`] were over, or under way, when the recording began.
    """

    def __init__(
        self,
        kernel: Runs,
        find_path: Callable[[], str | None],
        link: Link | None = None,
        change: Change | None = None,
        early_count: int = 0,
    ) -> None:
        self._kernel = kernel
        self._find_path = find_path
        self._link = link
        self._change = change
        self._early_count = early_count
        self._outputs: dict[str, tuple[object, tuple[Json, ...]]] = {}
        self._file: tuple[tuple[str, int, int], DiskNotebook] | None = None

    async def load(self, outputs_of: Sequence[str] = ()) -> NotebookState:
        """Return it as it stands now: from the front end, else the file, else what was executed."""
        executed = await self._kernel.load_cells()
        state = await self._load_page(executed, outputs_of)
        if state is None:
            state = await self._load_file(executed)
        if state is None:
            cells = tuple(_as_run(cell) for cell in executed)
            state = NotebookState(cells, "kernel", self._find_path())
        cells = tuple(
            replace(cell, is_early=True)
            if cell.count is not None and cell.count <= self._early_count
            else cell
            for cell in state.cells
        )
        return replace(state, cells=cells)

    async def apply(self, change: CellChange) -> Applied:
        """Make one change by the way that was given. Raises ToolError."""
        if self._change is None:
            raise ToolError(NO_EDITS)
        return await self._change(change)

    # The front end --------------------------------------------------------------------------------

    async def _load_page(
        self, executed: Sequence[Cell], outputs_of: Sequence[str]
    ) -> NotebookState | None:
        """Return what a page shows; None if none answers."""
        if self._link is None or not self._link.has_page:
            return None
        try:
            answer = await self._link.request("notebook", {"outputs": []})
            told = read_answer(answer)
            if wanted := self._missing(told, executed, outputs_of):
                answer = await self._link.request("notebook", {"outputs": wanted})
                told = read_answer(answer)
        except (NoFrontendError, RefusedError):
            return None
        path = resolve_path(answer.get("path"), self._find_path())
        saved = await self._saved_outputs(path, told, outputs_of)
        cells = tuple(self._complete(cell, saved.get(cell.cell.id)) for cell in told)
        there = {cell.id for cell in cells}
        self._outputs = {name: one for name, one in self._outputs.items() if name in there}
        can_edit = answer.get("can_edit") is True
        widgets = await self._saved_widgets(path) if any(map(_shows_widget, cells)) else None
        return NotebookState(cells, "front end", path, can_edit, widgets=widgets)

    async def _saved_outputs(
        self, path: str | None, told: Sequence[_Told], outputs_of: Sequence[str]
    ) -> Mapping[str, tuple[Json, ...]]:
        """Return outputs that the page holds back for their size, from the file if it has them."""
        missing = {
            one.cell.id: one.cell
            for one in told
            if one.cell.id in outputs_of and one.outputs is None and not self._is_known(one)
        }
        found = await asyncio.to_thread(self._read, path) if path and missing else None
        return {
            cell.id: cell.outputs
            for cell in (found.cells if found else ())
            if (now := missing.get(cell.id))
            and (now.source, now.count) == (cell.source, cell.count)
        }

    def _is_known(self, one: _Told) -> bool:
        known = self._outputs.get(one.cell.id)
        return known is not None and known[0] == one.version

    async def _saved_widgets(self, path: str | None) -> Json | None:
        """Return what the file keeps of widgets; a page does not tell of them."""
        found = None if path is None else await asyncio.to_thread(self._read, path)
        return None if found is None else found.widgets

    def _missing(
        self, told: Sequence[_Told], executed: Sequence[Cell], outputs_of: Sequence[str]
    ) -> list[str]:
        """Return the cells whose outputs nobody here knows, as many as may be asked for at once.

        Those that are wanted come first.
        """
        runs = {cell.id: cell.count for cell in executed}
        wanted, left = [], ALL_OUTPUT_CHARS
        for one in sorted(told, key=lambda one: one.cell.id not in outputs_of):
            chars = one.output_chars
            has_run = runs.get(one.cell.id, -1) == one.cell.count
            if not chars or has_run or self._is_known(one):
                continue
            most = ALL_OUTPUT_CHARS if one.cell.id in outputs_of else OUTPUT_CHARS
            if chars <= min(most, left):
                wanted.append(one.cell.id)
                left -= chars
        return wanted

    def _complete(self, one: _Told, saved: tuple[Json, ...] | None = None) -> NotebookCell:
        """Return the cell with its outputs, or with a line that says how large they are."""
        if one.outputs is not None:
            self._outputs[one.cell.id] = one.version, one.outputs
            return replace(one.cell, outputs=one.outputs)
        known = self._outputs.get(one.cell.id)
        if known is not None and known[0] == one.version:
            return replace(one.cell, outputs=known[1])
        return replace(one.cell, outputs=saved or _unread(one.output_chars))

    # The file -------------------------------------------------------------------------------------

    async def _load_file(self, executed: Sequence[Cell]) -> NotebookState | None:
        """Return what the file has, with the sources that ran since it was saved."""
        path = self._find_path()
        found = None if path is None else await asyncio.to_thread(self._read, path)
        if found is None:
            return None
        runs = {cell.id: cell for cell in executed if cell.changed_at > found.saved_at}
        cells = tuple(
            replace(cell, source=run.source, count=run.count)
            if (run := runs.get(cell.id)) is not None and cell.type == "code"
            else cell
            for cell in found.cells
        )
        return NotebookState(cells, "disk", path, faults=found.faults, widgets=found.widgets)

    def _read(self, path: str) -> DiskNotebook | None:
        """Read the file, unless it is the one that was read last."""
        try:
            info = os.stat(path)
        except OSError:
            return read_notebook(path)
        key = path, info.st_mtime_ns, info.st_size
        if self._file is None or self._file[0] != key:
            found = read_notebook(path)
            if found is None:
                return None
            self._file = key, found
        return self._file[1]


class _Told:
    """A cell as a page told it; `version` changes when its outputs do, as far as that shows."""

    def __init__(self, cell: NotebookCell, chars: int, outputs: tuple[Json, ...] | None) -> None:
        self.cell = cell
        self.output_chars = chars
        self.outputs = () if not chars else outputs
        self.version = (cell.count, chars, cell.failed)


def read_answer(answer: Json) -> list[_Told]:
    """Return the cells of a page's answer; what is no cell is left out.

    Cells that share an id have one each here: `a`, `a~2`; under the second the page knows none.
    """
    cells = answer.get("cells")
    found: dict[str, _Told] = {}
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, Mapping) and (told := _read_told(cell)) is not None:
            told.cell = replace(told.cell, id=_own_id(told.cell.id, found))
            found[told.cell.id] = told
    return list(found.values())


def _own_id(cell_id: str, taken: Container[str]) -> str:
    """Return the id, or of one that a cell above has too, one that tells this cell from it."""
    names = itertools.chain([cell_id], (f"{cell_id}~{n}" for n in itertools.count(2)))
    return next(name for name in names if name not in taken)


def _read_told(cell: Mapping[str, Any]) -> _Told | None:
    cell_id, kind, source = cell.get("id"), _TYPES.get(cell.get("type")), cell.get("source")
    if not isinstance(cell_id, str) or not cell_id or kind is None or not isinstance(source, str):
        return None
    count, chars, outputs = (cell.get(k) for k in ("execution_count", "output_chars", "outputs"))
    extra = cell.get("extra")
    known = NotebookCell(
        cell_id,
        kind,
        source,
        count if type(count) is int else None,
        failed=cell.get("failed") is True,
        extra=extra if isinstance(extra, Mapping) else {},
    )
    given = None
    if isinstance(outputs, list):
        given = tuple(output for output in outputs if isinstance(output, Mapping))
    return _Told(known, chars if type(chars) is int else 0, given)


def _unread(chars: int) -> tuple[Json, ...]:
    if not chars:
        return ()
    text = (
        f"[outputs of {chars:,} characters, from before the agent was loaded; read_cell reads them]"
    )
    return ({"output_type": "display_data", "data": {"text/plain": text}, "metadata": UNREAD},)


def _shows_widget(cell: NotebookCell) -> bool:
    bundles = (output.get("data") for output in cell.outputs)
    return any(isinstance(data, Mapping) and WIDGET_MIME in data for data in bundles)


def _as_run(cell: Cell) -> NotebookCell:
    return NotebookCell(cell.id, "code", cell.source, cell.count, cell.outputs, cell.failed)


def resolve_path(shown: object, known: str | None) -> str | None:
    """Return the file's absolute path from what a page shows (relative to its server's root).

    `known` is the path the kernel was started with: a notebook renamed since lies beside it, as far
    as the page's folder agrees.
    """
    if not isinstance(shown, str) or not shown:
        return known
    if os.path.isabs(shown):
        return os.path.normpath(shown)
    if known is None:
        return None
    parts = shown.split("/")
    folder = os.path.dirname(known)
    if "/".join(parts[:-1]) in ("", *_tails(folder)):
        return os.path.join(folder, parts[-1])
    return known


def _tails(folder: str) -> list[str]:
    """Return the ends of a folder's path: `a/b/c` gives `c`, `b/c`, `a/b/c`."""
    parts = [part for part in folder.split(os.sep) if part]
    return ["/".join(parts[at:]) for at in range(len(parts))]
