"""`list_cells` and `read_cell`: the cells that were executed, as the kernel knows them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from ..core.blocks import Json
from ..core.ports import Cell, Kernel, ToolOutput, ToolSpec
from ..errors import ToolError
from .base import Tool, find_near, int_of, load_description, make_schema, quote_names
from .charts import shorten
from .outputs import Rendered, render_outputs, summarise_outputs
from .pages import LINE_FIELDS, Slice, read_page
from .terminal import resolve

FIRST_LINE_CHARS = 100
"""Longest first line of a cell in a list, in characters."""

NOTE_CHARS = 120
"""Room kept in a list for the line that names where to go on."""

_BY_NUMBER = re.compile(r"(?:In\s?)?\[?(\d{1,9})\]?", re.IGNORECASE)


def make_list_cells(kernel: Kernel) -> Tool:
    """Return the tool `list_cells`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        cells = await kernel.load_cells()
        return ToolOutput(_list(cells, int_of(arguments.get("start")) or 1, cap_chars))

    start = "Where to go on in a long list: the position of the first cell to list, from 1."
    schema = make_schema({"start": {"type": "integer", "minimum": 1, "description": start}})
    spec = ToolSpec(
        "list_cells",
        load_description("list_cells"),
        schema,
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)


def make_read_cell(kernel: Kernel) -> Tool:
    """Return the tool `read_cell`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        cell = _find(await kernel.load_cells(), str(arguments["cell_id"]))
        wanted = Slice.of(arguments)
        with_outputs = bool(arguments.get("outputs", False))
        return await asyncio.to_thread(_read, cell, with_outputs, wanted, cap_chars)

    fields: dict[str, Mapping[str, object]] = {
        "cell_id": {"type": "string", "description": "The cell's id, as list_cells gives it."},
        "outputs": {
            "type": "boolean",
            "default": False,
            "description": "Also return the outputs, after the source.",
        },
        **LINE_FIELDS,
    }
    spec = ToolSpec(
        "read_cell",
        load_description("read_cell"),
        make_schema(fields, ["cell_id"]),
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)


def _list(cells: Sequence[Cell], start: int, cap_chars: int) -> str:
    """Return one line a cell from position `start`, as many as fit, and where to go on."""
    if not cells:
        return "No cell has been executed yet."
    if start > len(cells):
        raise ToolError(f"`start` is {start:,}; there are {len(cells):,} executed cells.")
    lines: list[str] = []
    room = cap_chars - NOTE_CHARS
    for cell in cells[start - 1 :]:
        line = shorten(_line(cell), max(80, min(400, room)))
        if lines and len(line) + 1 > room:
            break
        lines.append(line)
        room -= len(line) + 1
    last = start + len(lines) - 1
    more = f"; go on with start={last + 1}" if last < len(cells) else ""
    if more or start > 1:
        lines.append(f"[cells {start:,}–{last:,} of {len(cells):,}, oldest run first{more}]")
    return "\n".join(lines)


def _line(cell: Cell) -> str:
    first = next((line for line in cell.source[:2_000].split("\n") if line.strip()), "")
    outputs = summarise_outputs(cell.outputs)
    said = "" if outputs == "none" else f" | {outputs}"
    return f"{cell.id} | In[{cell.count}] | {_state(cell)} | {_first(first)}{said}"


def _first(line: str) -> str:
    return shorten(resolve(line), FIRST_LINE_CHARS) or "(empty)"


def _state(cell: Cell) -> str:
    return "failed" if cell.failed else "ok"


def _find(cells: Sequence[Cell], cell_id: str) -> Cell:
    """Return the cell of that id. Raises ToolError that lists near ids."""
    for cell in cells:
        if cell.id == cell_id:
            return cell
    if not cells:
        raise ToolError("No cell has been executed yet, so there is none to read.")
    hint = ""
    if number := _BY_NUMBER.fullmatch(cell_id.strip()):
        count = int(number[1])
        hint = "".join(f" In[{count}] is `{cell.id}`." for cell in cells if cell.count == count)
    near = quote_names(find_near(cell_id, [cell.id for cell in cells]))
    raise ToolError(f"There is no executed cell `{cell_id[:80]}`.{hint} Nearest: {near}.")


def _read(cell: Cell, with_outputs: bool, wanted: Slice, cap_chars: int) -> ToolOutput:
    """Return a head line about the cell, then its source, then its outputs if they are wanted."""
    rendered = render_outputs(cell.outputs) if with_outputs else Rendered("")
    said = shorten(summarise_outputs(cell.outputs), 80)
    more = "" if with_outputs or said == "none" else " (read them with outputs=true)"
    head = f"[cell {shorten(cell.id, 40)}, In[{cell.count}], {_state(cell)}; outputs: {said}{more}]"
    body = resolve(cell.source)
    if with_outputs and rendered.text:
        body = f"{body.rstrip()}\n\n[outputs]\n{rendered.text}"
    page = read_page(body, wanted, cap_chars - len(head) - 1)
    is_first = wanted.start_line == 1 and wanted.start_char is None
    return ToolOutput(
        f"{head}\n{page}",
        images=rendered.images if is_first else (),
        mime_types=rendered.mime_types,
    )
