"""`list_cells` and `read_cell`: the notebook as it stands, and its cells as the kernel ran them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.absent import NoNotebook
from ..core.blocks import Image, Json
from ..core.ports import Kernel, Notebook, NotebookState, ToolOutput, ToolSpec
from ..errors import ToolError
from .base import Tool, find_near, int_of, load_description, make_schema, quote_names
from .lines import shorten
from .outline import (
    NOTE_CHARS,
    CellView,
    describe_notebook,
    list_page,
    merge,
    outline,
    section_of,
)
from .outputs import render_outputs, summarise_outputs
from .pages import LINE_CHARS, LINE_FIELDS, Slice, read_page
from .pages import NOTE_CHARS as PAGE_NOTE_CHARS
from .seen import Seen
from .terminal import resolve

OUTLINE_CHARS = 12_000
"""Longest outline, in characters: some 3,000 tokens, whatever the notebook's size (case C08)."""

_BY_NUMBER = re.compile(r"(?:In\s?)?\[?(\d{1,9})\]?", re.IGNORECASE)
_PAGE = re.compile(r"\[lines ([\d,]+)–([\d,]+) of [\d,]+(?:; [^\]\n]*)?\]\Z")


def make_list_cells(kernel: Kernel, notebook: Notebook | None = None) -> Tool:
    """Return the tool `list_cells`."""
    document = notebook or NoNotebook()

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        state, views = await load_views(kernel, document)
        section, start = arguments.get("section"), int_of(arguments.get("start"))
        where = None if section is None else section_of(views, _find(state, views, str(section)))
        text = await asyncio.to_thread(_list, state, views, where, start, cap_chars)
        return ToolOutput(text)

    fields: dict[str, Mapping[str, object]] = {
        "start": {
            "type": "integer",
            "minimum": 1,
            "description": "From this position on, from 1. Default: an outline.",
        },
        "section": {
            "type": "string",
            "description": "The id of a heading's cell: only the cells below it.",
        },
    }
    spec = ToolSpec(
        "list_cells",
        load_description("list_cells"),
        make_schema(fields),
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)


def make_read_cell(
    kernel: Kernel, notebook: Notebook | None = None, seen: Seen | None = None
) -> Tool:
    """Return the tool `read_cell`; what it gave whole is marked in `seen`."""
    document, noted = notebook or NoNotebook(), seen or Seen()

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        state, views = await load_views(kernel, document)
        at = _find(state, views, str(arguments["cell_id"]))
        places = section_of(views, at) if arguments.get("section") else range(at, at + 1)
        wanted = Slice.of(arguments)
        with_outputs = bool(arguments.get("outputs", False))
        chosen = [views[place] for place in places]
        if with_outputs:
            chosen = await load_outputs(kernel, document, chosen)
        return await asyncio.to_thread(_read, chosen, with_outputs, wanted, cap_chars, noted)

    fields: dict[str, Mapping[str, object]] = {
        "cell_id": {
            "type": "string",
            "description": "The cell's id, or the words of a heading.",
        },
        "outputs": {"type": "boolean"},
        "section": {"type": "boolean"},
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


async def load_views(
    kernel: Kernel, notebook: Notebook, outputs_of: Sequence[str] = ()
) -> tuple[NotebookState, list[CellView]]:
    """Return the notebook as it stands now, and its cells with their runs."""
    state = await notebook.load(outputs_of)
    executed = await kernel.load_cells()
    return state, merge(state, executed)


async def load_outputs(
    kernel: Kernel, notebook: Notebook, views: Sequence[CellView]
) -> list[CellView]:
    """Return the cells with those outputs too that are not loaded unasked."""
    unread = [view.id for view in views if view.is_unread]
    if not unread:
        return list(views)
    _, now = await load_views(kernel, notebook, unread)
    found = {view.id: view for view in now}
    return [found.get(view.id, view) for view in views]


# Lists ------------------------------------------------------------------------------------------


def _list(
    state: NotebookState,
    views: Sequence[CellView],
    section: range | None,
    start: int | None,
    cap_chars: int,
) -> str:
    """Return an outline, or one line a cell from `start` on, and where to go on."""
    if not views:
        return "No cell has been executed yet." if _is_kernel(state) else "The notebook is empty."
    head = "" if _is_kernel(state) else describe_notebook(state, views) + "\n"
    if section is None and start is None:
        return head + outline(views, min(cap_chars, OUTLINE_CHARS) - len(head))
    places = section or range(len(views))
    first = max(places.start, (start or 1) - 1)
    if first >= places.stop:
        what = "executed cells" if _is_kernel(state) else "cells"
        raise ToolError(f"`start` is {first + 1:,}; there are {places.stop:,} {what}.")
    wanted = range(first, places.stop)
    lines, count = list_page(views, wanted, cap_chars - NOTE_CHARS - len(head))
    last = first + count
    more = f"; go on with start={last + 1}" if last < places.stop else ""
    if more or first > 0:
        order = ", oldest run first" if _is_kernel(state) else ""
        lines.append(f"[cells {first + 1:,}–{last:,} of {len(views):,}{order}{more}]")
    return head + "\n".join(lines)


def _is_kernel(state: NotebookState) -> bool:
    return state.source == "kernel"


def _find(state: NotebookState, views: Sequence[CellView], wanted: str) -> int:
    """Return the place of the cell of that id, or with that heading.

    Raises ToolError that lists near ids.
    """
    for place, view in enumerate(views):
        if view.id == wanted:
            return place
    title = wanted.strip().lstrip("#").strip().casefold()
    titled = [
        place
        for place, view in enumerate(views)
        if title and any(heading.title.casefold() == title for heading in view.headings)
    ]
    if len(titled) == 1:
        return titled[0]
    if titled:
        ids = quote_names(views[place].id for place in titled[:10])
        raise ToolError(f"{len(titled)} headings read {wanted[:80]!r}: name one by its id: {ids}.")
    if not views:
        what = "No cell has been executed yet" if _is_kernel(state) else "The notebook is empty"
        raise ToolError(f"{what}, so there is none to read.")
    hint = ""
    if number := _BY_NUMBER.fullmatch(wanted.strip()):
        count = int(number[1])
        hint = "".join(f" In[{count}] is `{v.id}`." for v in views if v.count == count)
    near = quote_names(find_near(wanted, [view.id for view in views]))
    kind = "executed cell" if _is_kernel(state) else "cell"
    raise ToolError(f"There is no {kind} `{wanted[:80]}`.{hint} Nearest: {near}.")


# Cells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """One cell's text, and which of its lines are the source, from 1."""

    view: CellView
    text: str
    source_lines: range
    images: tuple[Image, ...] = ()
    mime_types: tuple[str, ...] = ()


def _read(
    views: Sequence[CellView], with_outputs: bool, wanted: Slice, cap_chars: int, seen: Seen
) -> ToolOutput:
    """Return the cells: of each a head line, its source, and its outputs if they are wanted.

    The head line of a single cell stands on every page; its lines are those of source and outputs.
    """
    parts = [_part(view, with_outputs, is_alone=len(views) == 1) for view in views]
    head, body = "", "\n\n".join(part.text for part in parts)
    if len(parts) == 1:
        head = _head(views[0], with_outputs) + "\n"
    page = read_page(body, wanted, cap_chars - len(head))
    if wanted.start_char is None:
        shown = _lines_shown(page, body, wanted.start_line)
        _mark(parts, shown, max(100, cap_chars - len(head) - PAGE_NOTE_CHARS), seen)
    is_first = wanted.start_line == 1 and wanted.start_char is None
    mime_types = {mime for part in parts for mime in part.mime_types}
    return ToolOutput(
        head + page,
        images=tuple(image for part in parts for image in part.images) if is_first else (),
        mime_types=tuple(sorted(mime_types)),
    )


def _head(view: CellView, with_outputs: bool) -> str:
    gone = f", {view.gone}" if view.gone else ""
    name = shorten(view.id, 40)
    if view.type != "code":
        return f"[cell {name}, {view.type}{gone}]"
    said = shorten(summarise_outputs(view.outputs), 80)
    more = "" if with_outputs or said == "none" else " (read them with outputs=true)"
    return f"[cell {name}, {view.place}, {view.state}{gone}; outputs: {said}{more}]"


def _part(view: CellView, with_outputs: bool, *, is_alone: bool) -> _Part:
    head = "" if is_alone else _head(view, with_outputs) + "\n"
    source = resolve(view.source)
    first = 1 + head.count("\n")
    lines = range(first, first + source.count("\n") + 1)
    if not with_outputs or view.type != "code":
        return _Part(view, head + (source if is_alone else source.rstrip("\n")), lines)
    body = head + source
    if view.is_edited and view.run is not None:
        body = f"{body.rstrip()}\n\n[the source that ran]\n{resolve(view.run.source)}"
    rendered = render_outputs(view.outputs, widgets=view.widgets)
    if rendered.text:
        body = f"{body.rstrip()}\n\n[outputs]\n{rendered.text}"
    return _Part(view, body, lines, rendered.images, rendered.mime_types)


def _lines_shown(page: str, body: str, first: int) -> range:
    """Return which lines of `body` stand on the page, from 1."""
    if page.rstrip("\n") == body.rstrip("\n"):
        return range(1, body.count("\n") + 2)
    if (found := _PAGE.search(page)) is None:
        return range(first, first)
    start, last = (int(number.replace(",", "")) for number in found.groups())
    return range(start, last + 1)


def _mark(parts: Sequence[_Part], shown: range, most_line_chars: int, seen: Seen) -> None:
    """Mark what the lines on the page show of each source; a long line's head is not all of it."""
    before = 0
    for part in parts:
        view, start = part.view, before + part.source_lines.start
        first = max(shown.start, start)
        last = min(shown.stop, before + part.source_lines.stop) - 1
        longest = max(map(len, view.source.split("\n")))
        if first <= last and longest <= min(LINE_CHARS, most_line_chars):
            seen.mark_lines("cell", view.id, view.source, first - start + 1, last - start + 1)
        before += part.text.count("\n") + 2
