"""The notebook as a page shows it: told and changed over the frontend link, read back by the page.

What the page says is narrowed here, once, to the values of core.ports.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.blocks import Json
from ..core.ports import (
    Applied,
    CellChange,
    CellType,
    DeleteCell,
    EditCell,
    InsertCell,
    MoveCell,
    NotebookCell,
    SetOutputs,
)
from ..errors import ToolError
from .frontend import FrontendLink, NoFrontendError, RefusedError

MAX_MESSAGE_CHARS = 1_000_000
"""Longest source or outputs sent to a page: the server drops more than 3 MB in 3 s."""

SILENT_TEXT = (
    "The page did not answer in time, so whether it was done is not known: "
    "list the cells before you try again."
)
_REFUSALS = {
    "busy": "the cell runs, or waits to run behind this turn",
    "typing": "the user is writing in it just now",
    "read_only": "the notebook is read-only",
    "locked": "the cell's own metadata forbids it",
    "twice": "several cells of the notebook have that id, so which one is meant is not known",
}


class LivePage:
    """The page of a link. `running_cell` gives the id of the cell that runs, None if not known."""

    def __init__(self, link: FrontendLink, running_cell: Callable[[], str | None]) -> None:
        self._link = link
        self._running_cell = running_cell

    @property
    def is_there(self) -> bool:
        """Whether a page was heard, and answered when it was asked last."""
        return self._link.has_page and not self._link.is_silent

    async def load_cells(self) -> tuple[NotebookCell, ...]:
        """Return the cells as they stand there, without outputs. Raises NoFrontendError."""
        try:
            told = await self._link.request("notebook", {"outputs": []})
        except RefusedError as error:
            raise NoFrontendError(f"The page could not tell of the notebook: {error}") from None
        cells = told.get("cells")
        return tuple(read_cell(cell) for cell in cells) if isinstance(cells, list) else ()

    async def apply(self, change: CellChange) -> Applied:
        """Make a change and return what the page read back. Raises ToolError."""
        self._refuse_running(change)
        if isinstance(change, InsertCell) and change.id is None:
            change = _with_id(change)
        op, args = _request_of(change)
        try:
            if self._link.needs_look:
                await self.load_cells()
            told = await self._link.request(op, args)
        except RefusedError as error:
            raise ToolError(_say(error, change)) from None
        except NoFrontendError:
            return await self._read_back(change)
        applied = _read_applied(told, change)
        return await self._read_back(change) if applied is None else applied

    def _refuse_running(self, change: CellChange) -> None:
        running = self._running_cell()
        if running is not None and getattr(change, "cell_id", None) == running:
            raise ToolError(
                f"Not applied: cell `{running}` is the one that runs this turn; "
                "it cannot be changed meanwhile."
            )

    async def _read_back(self, change: CellChange) -> Applied:
        """Look whether a change that was not answered in time was made all the same."""
        try:
            cells = await self.load_cells()
        except NoFrontendError:
            raise ToolError(f"{SILENT_TEXT}\n\n{by_hand(change)}") from None
        found = _find_done(cells, change)
        if found is None:
            raise ToolError(f"Not applied: the page did not do it.\n\n{by_hand(change)}")
        return found


def by_hand(change: CellChange) -> str:
    """Return what the user can do instead, with the text to paste."""
    match change:
        case InsertCell(source=source, type=kind, after=after, at_top=at_top):
            at_end = "at the top" if at_top else "at the end"
            where = at_end if after is None else f"below cell `{after}`"
            return f"By hand: add a {kind} cell {where} and paste this into it:\n\n{source}"
        case EditCell(cell_id=cell_id, source=source):
            return f"By hand: replace the source of cell `{cell_id}` with this:\n\n{source}"
        case DeleteCell(cell_id=cell_id):
            return f"By hand: delete cell `{cell_id}`."
        case MoveCell(cell_id=cell_id, after=after):
            where = "to the top" if after is None else f"below cell `{after}`"
            return f"By hand: move cell `{cell_id}` {where}."
        case SetOutputs(cell_id=cell_id):
            return f"By hand: run cell `{cell_id}`."


def read_cell(told: object) -> NotebookCell:
    """Return a cell as the page tells it; what is missing or of another type is empty."""
    fields: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    kind, count, extra = fields.get("type"), fields.get("execution_count"), fields.get("extra")
    outputs = fields.get("outputs")
    types: tuple[CellType, ...] = ("code", "markdown", "raw")
    return NotebookCell(
        str(fields.get("id", "")),
        next((one for one in types if one == kind), "raw"),
        str(fields.get("source", "")),
        count if isinstance(count, int) else None,
        tuple(one for one in outputs if isinstance(one, dict)) if isinstance(outputs, list) else (),
        fields.get("failed") is True,
        extra if isinstance(extra, dict) else {},
    )


def fit_outputs(outputs: Sequence[Json], most_chars: int = MAX_MESSAGE_CHARS) -> list[Json]:
    """Return outputs of which the largest gave way to a line until all fit `most_chars`."""
    fitted = list(outputs)
    sizes = [len(json.dumps(output, default=str)) for output in fitted]
    while sum(sizes) > most_chars:
        at = sizes.index(max(sizes))
        text = f"[{sizes[at]:,} characters of output are shown where the agent ran the cell]\n"
        fitted[at] = {"output_type": "stream", "name": "stdout", "text": text}
        if sizes[at] <= len(text) + 100:
            return fitted[:1]  # a flood of small ones: not even their lines fit
        sizes[at] = len(text) + 50
    return fitted


def _with_id(change: InsertCell) -> InsertCell:
    """Name the new cell, so that it can be told from others when it is read back."""
    return replace(change, id=uuid.uuid4().hex[:8])


def _request_of(change: CellChange) -> tuple[str, dict[str, object]]:
    match change:
        case InsertCell():
            _refuse_long(change.source)
            return "insert_cell", {
                "source": change.source,
                "type": change.type,
                "after": change.after,
                "at_top": change.at_top,
                "id": change.id,
                "outputs": fit_outputs(change.outputs),
                "count": change.count,
                "extra": dict(change.extra),
            }
        case EditCell(cell_id=cell_id, source=source, expected=expected):
            _refuse_long(source)
            _refuse_long(expected)
            return "edit_cell", {"cell_id": cell_id, "source": source, "expected": expected}
        case DeleteCell(cell_id=cell_id, expected=expected):
            _refuse_long(expected)
            return "delete_cell", {"cell_id": cell_id, "expected": expected}
        case MoveCell(cell_id=cell_id, after=after):
            return "move_cell", {"cell_id": cell_id, "after": after}
        case SetOutputs(cell_id=cell_id, outputs=outputs, count=count):
            return "set_outputs", {
                "cell_id": cell_id,
                "outputs": fit_outputs(outputs),
                "count": count,
            }


def _refuse_long(source: str) -> None:
    if len(source) > MAX_MESSAGE_CHARS:
        raise ToolError(
            f"Not applied: the source has {len(source):,} characters; a front end takes "
            f"{MAX_MESSAGE_CHARS:,} at most. Write it to a file instead."
        )


def _read_applied(told: Json, change: CellChange) -> Applied | None:
    """Return what the page says it did; None if it does not speak of this change as it should."""
    index, before, cell = told.get("index"), told.get("before"), told.get("cell")
    wanted = change.id if isinstance(change, InsertCell) else change.cell_id
    if not _is_told(cell) or type(index) is not int or index < 0:
        return None
    if isinstance(change, InsertCell):
        before = None
    elif not _is_told(before) or read_cell(before).id != wanted or read_cell(cell).id != wanted:
        return None
    return Applied(
        read_cell(cell),
        index,
        _id_or_none(told.get("above")),
        _id_or_none(told.get("below")),
        None if before is None else read_cell(before),
        _id_or_none(told.get("above_before")),
    )


def _is_told(cell: object) -> bool:
    """Whether that is a cell as a page tells it: with an id, a type and a source."""
    if not isinstance(cell, Mapping) or not cell.get("id"):
        return False
    return all(isinstance(cell.get(name), str) for name in ("id", "type", "source"))


def _id_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _say(error: RefusedError, change: CellChange) -> str:
    """Return why the page did not do it, for the model."""
    source = error.details.get("source")
    if error.kind == "stale" and isinstance(source, str):
        return f"Not applied: the user changed the cell meanwhile. Its source now is:\n\n{source}"
    why = _REFUSALS.get(error.kind, str(error))
    if error.kind in ("read_only", "locked", "failed"):
        return f"Not applied: {why}.\n\n{by_hand(change)}"
    return f"Not applied: {why}."


def _find_done(cells: Sequence[NotebookCell], change: CellChange) -> Applied | None:
    """Return the change as it stands in the notebook; None if it does not.

    What stood there before is not known any more, but for what the change itself says.
    """
    if isinstance(change, DeleteCell):
        if any(cell.id == change.cell_id for cell in cells):
            return None
        return Applied(NotebookCell(change.cell_id, "code", change.expected), 0)
    cell_id = change.id if isinstance(change, InsertCell) else change.cell_id
    at = next((at for at, cell in enumerate(cells) if cell.id == cell_id), None)
    if at is None:
        return None
    cell, above = cells[at], cells[at - 1].id if at else None
    below = cells[at + 1].id if at + 1 < len(cells) else None
    match change:
        case InsertCell(source=source) if source == cell.source:
            return Applied(cell, at, above, below)
        case EditCell(source=source, expected=expected) if source == cell.source:
            before = NotebookCell(cell.id, cell.type, expected)
            return Applied(cell, at, above, below, before, above)
        case MoveCell(after=after) if after == above:
            return Applied(cell, at, above, below, cell, above)
    return None
