"""The notebook as its file has it: for reading only, and only where no front end tells of it.

Every version of the format is read, through nbformat's own upgrade. What is not valid is read as
far as it goes, and said. Nothing here writes.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.blocks import Json
from ..core.ports import CellType, NotebookCell

MOST_BYTES = 64 * 1024 * 1024
"""A larger file is not read: parsing takes several times its size of memory."""

METADATA_KEY = "jupyter_ctx"
"""The key of the notebook's metadata that is ours; the page writes it."""

MOST_FAULTS = 5
"""So many faults are told; the rest are counted."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TYPES: Mapping[str, CellType] = {"code": "code", "markdown": "markdown", "raw": "raw"}
_OLD_TYPES: Mapping[str, CellType] = {"html": "markdown", "heading": "markdown", "plaintext": "raw"}


@dataclass(frozen=True, slots=True)
class DiskNotebook:
    """What a notebook file holds.

    `faults` say what is wrong with it, a clause each; `saved_at` is when it was written, in seconds
    since the epoch. A cell without a valid id of its own is called `cell-N` by its place from 1.
    `widgets` is its `metadata.widgets`, None if it keeps no state of widgets; `session_id` is
    `metadata.jupyter_ctx.session_id`, the session it says is its own.
    """

    cells: tuple[NotebookCell, ...] = ()
    faults: tuple[str, ...] = ()
    saved_at: float = 0.0
    widgets: Json | None = None
    session_id: str | None = None


def read_notebook(path: str, most_bytes: int = MOST_BYTES) -> DiskNotebook | None:
    """Return the notebook in the file at `path`; None if there is no such file.

    Total: whatever the file holds, what can be read of it is returned with what is wrong.
    """
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            return DiskNotebook(faults=("it is no ordinary file",))
        if info.st_size > most_bytes:
            fault = f"it is too large to be read ({info.st_size / 1e6:,.0f} MB)"
            return DiskNotebook(faults=(fault,), saved_at=info.st_mtime)
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return DiskNotebook(faults=(f"it cannot be read ({error.strerror or error})",))
    return replace(_parse(content), saved_at=info.st_mtime)


def parse_notebook(content: bytes) -> tuple[tuple[NotebookCell, ...], tuple[str, ...]]:
    """Return the cells of a notebook of any version, and what is wrong with it."""
    found = _parse(content)
    return found.cells, found.faults


def _parse(content: bytes) -> DiskNotebook:
    faults: list[str] = []
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        faults.append("it is no valid UTF-8")
        text = content.decode("utf-8", "replace")
    try:
        notebook = json.loads(text)
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        return DiskNotebook(faults=(*faults, f"it is no valid JSON{where}"))
    except RecursionError:
        return DiskNotebook(faults=(*faults, "its JSON is nested too deeply"))
    if not isinstance(notebook, dict):
        return DiskNotebook(faults=(*faults, "it is no notebook"))
    raw = _upgrade(notebook, faults)
    cells = tuple(_read_cells(raw, faults))
    told = [*faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        told.append(f"{len(faults) - MOST_FAULTS:,} more faults")
    metadata = notebook.get("metadata")
    widgets, session_id = _of_metadata(metadata if isinstance(metadata, dict) else {})
    return DiskNotebook(cells, tuple(told), widgets=widgets, session_id=session_id)


def _of_metadata(metadata: dict[str, Any]) -> tuple[Json | None, str | None]:
    """Return the state of widgets and the session's id, None what is not there or not valid."""
    widgets, ours = metadata.get("widgets"), metadata.get(METADATA_KEY)
    named = ours.get("session_id") if isinstance(ours, dict) else None
    return (
        widgets if isinstance(widgets, dict) else None,
        named if isinstance(named, str) else None,
    )


def _upgrade(notebook: dict[str, Any], faults: list[str]) -> list[object]:
    """Return the cells in the form of format 4, as far as nbformat can bring them there."""
    major = notebook.get("nbformat")
    if not isinstance(major, int) or isinstance(major, bool):
        faults.append("it does not say its format")
        major = 3 if "worksheets" in notebook else 4
    if major > 4:
        faults.append(f"its format {major} is newer than is known here")
    if major < 4 and (upgraded := _convert(notebook, major, faults)) is not None:
        notebook = upgraded
    cells = notebook.get("cells")
    if isinstance(cells, list):
        return cells
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        faults.append("it has no list of cells")
        return []
    listed = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for some in listed if isinstance(some, list) for cell in some]


def _convert(notebook: dict[str, Any], major: int, faults: list[str]) -> dict[str, Any] | None:
    """Return an old notebook as format 4 by nbformat; None, and a fault, if it cannot."""
    from nbformat import converter, reader

    try:
        versioned = reader.reads(json.dumps({**notebook, "nbformat": major}))
        upgraded = converter.convert(versioned, 4)
    except Exception as error:  # nbformat raises whatever an invalid notebook makes it stumble on
        faults.append(f"its format {major} cannot be upgraded ({type(error).__name__})")
        return None
    return dict(upgraded)


def _read_cells(raw: Sequence[object], faults: list[str]) -> Iterator[NotebookCell]:
    used: set[str] = set()
    for place, cell in enumerate(raw, 1):
        if not isinstance(cell, Mapping):
            faults.append(f"cell {place} is no cell")
            continue
        yield _read_cell(cell, place, used, faults)


def _read_cell(
    cell: Mapping[str, Any], place: int, used: set[str], faults: list[str]
) -> NotebookCell:
    named = cell.get("cell_type")
    kind = _TYPES.get(str(named)) or _OLD_TYPES.get(str(named))
    if kind is None:
        faults.append(f"cell {place} has an unknown type")
        kind = "code" if "outputs" in cell else "raw"
    source = _text(cell.get("source", cell.get("input", "")))
    if source is None:
        faults.append(f"cell {place} has no valid source")
    listed = cell.get("outputs", ()) if kind == "code" else ()
    if not isinstance(listed, list | tuple):
        faults.append(f"cell {place} has no valid outputs")
        listed = ()
    outputs = tuple(output for output in listed if isinstance(output, Mapping))
    count = cell.get("execution_count", cell.get("prompt_number"))
    return NotebookCell(
        id=_id_of(cell, place, used, faults),
        type=kind,
        source=source or "",
        count=count if isinstance(count, int) and not isinstance(count, bool) else None,
        outputs=outputs,
        failed=any(output.get("output_type") in ("error", "pyerr") for output in outputs),
        extra={key: cell[key] for key in ("metadata", "attachments") if key in cell},
    )


def _id_of(cell: Mapping[str, Any], place: int, used: set[str], faults: list[str]) -> str:
    """Return the cell's own id, else one by its place; each once."""
    known = cell.get("id")
    name = f"cell-{place}"
    if isinstance(known, str) and _ID.fullmatch(known) and known not in used:
        name = known
    elif known is not None:
        faults.append(f"cell {place} has an id that is not valid or not its own")
    while name in used:
        name += "-"
    used.add(name)
    return name


def _text(value: object) -> str | None:
    """Return a text that may be a list of lines; None if it is neither."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else None
