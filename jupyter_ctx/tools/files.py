"""`read_file`, `write_file` and `edit_file`: text files of the project.

Rule: a file is never written over in a form that the model has not seen. Of a file its version
counts: a page of it that was read makes that version seen.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..core.absent import NoNotebook
from ..core.blocks import Json
from ..core.entries import Edit
from ..core.ports import Notebook, NotebookCell, NotebookState, ToolOutput, ToolSpec
from ..core.preview import count_lines
from ..errors import ToolError
from .base import Tool, load_description, make_schema
from .filestate import MOST_BYTES, Loaded, load, opened, read_most, save, state_of
from .filetypes import (
    SNIFFED_BYTES,
    FileText,
    decode,
    describe_bytes,
    find_kind,
    has_wide_bom,
    looks_binary,
)
from .find_files import make_search_files
from .images import BadImageError, is_shown_kind, load_image
from .outline import describe_notebook, merge, outline
from .pages import LINE_FIELDS, Slice, read_page, read_stream
from .project import Place, Project
from .seen import Seen

HEAD_CHARS = 2_000
"""So much is shown of a huge file that no lines were named of, in characters."""

MOST_NOTEBOOK_BYTES = 64 * 1024 * 1024
"""A larger notebook is not outlined: parsing takes several times its size of memory."""

MOST_PICTURE_BYTES = 32 * 1024 * 1024
"""A larger picture is not shown: decoding takes several times its size of memory."""

MOST_PAGED_BYTES = 2**30
"""Lines are not looked for in a larger file: that would take many seconds."""

PRESENT_CHARS = 12_000
"""So much is shown of a file that was not as expected, in characters."""

AROUND_LINES = 3
"""So many lines are shown above and below an edit."""

ECHO_CHARS = 4_000
"""So much is shown of an edit, in characters."""

PLACES = 10
"""So many places of a text that is not unique are named."""

REDACTED = "[redacted: "
"""How a key of the program is shown to the model, and begins in what it may copy from there."""

ParseNotebook: TypeAlias = Callable[[bytes], tuple[tuple[NotebookCell, ...], tuple[str, ...]]]
"""Returns the cells of a notebook's bytes, of any version, and what is wrong with them."""

_PATH: Mapping[str, object] = {
    "type": "string",
    "description": "From the project's folder, or absolute and inside it.",
}


@dataclass(frozen=True, slots=True)
class FileTools:
    """What the file tools work on.

    `own_path` is the kernel's notebook, None if it has none; `notebook` the document that the front
    end shows. `parse` reads notebook files.
    """

    project: Project
    seen: Seen
    own_path: str | None = None
    notebook: Notebook = field(default_factory=NoNotebook)
    parse: ParseNotebook | None = None

    def make(self) -> list[Tool]:
        """Return the tools `read_file`, `write_file`, `edit_file` and `search_files`."""
        return [
            _make_read(self),
            _make_write(self),
            _make_edit(self),
            make_search_files(self.project),
        ]


def _make_read(files: FileTools) -> Tool:
    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        place = files.project.find(str(arguments["path"]))
        wanted = Slice.of(arguments)
        return await asyncio.to_thread(_look, files, place, wanted, cap_chars)

    spec = ToolSpec(
        "read_file",
        load_description("read_file"),
        make_schema({"path": _PATH, **LINE_FIELDS}, ["path"]),
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)


def _make_write(files: FileTools) -> Tool:
    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        place = files.project.find(str(arguments["path"]))
        await _refuse_notebooks(files, place)
        text = str(arguments["text"])
        return await _to_its_end(lambda: _write(files, place, text, cap_chars))

    fields = {
        "path": _PATH,
        "text": {"type": "string"},
    }
    schema = make_schema(fields, ["path", "text"])
    spec = ToolSpec(
        "write_file",
        load_description("write_file"),
        schema,
        reads_only=False,
        permission="write files",
    )
    return Tool(spec, run)


def _make_edit(files: FileTools) -> Tool:
    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        place = files.project.find(str(arguments["path"]))
        await _refuse_notebooks(files, place)
        old, new = str(arguments["old"]), str(arguments["new"])
        return await _to_its_end(lambda: _edit(files, place, old, new, cap_chars))

    fields = {
        "path": _PATH,
        "old": {
            "type": "string",
            "minLength": 1,
        },
        "new": {"type": "string"},
    }
    schema = make_schema(fields, ["path", "old", "new"])
    spec = ToolSpec(
        "edit_file",
        load_description("edit_file"),
        schema,
        reads_only=False,
        permission="edit files",
    )
    return Tool(spec, run)


async def _to_its_end(change: Callable[[], ToolOutput]) -> ToolOutput:
    """Make a change on a thread; a stop that arrives meanwhile waits until it is known."""
    task = asyncio.ensure_future(asyncio.to_thread(change))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            return replace(await task, interrupted=True)
        except ToolError as error:
            return ToolOutput(str(error), is_error=True, interrupted=True)


async def _refuse_notebooks(files: FileTools, place: Place) -> None:
    """Raise ToolError if the file is the kernel's notebook, or another that may be open."""
    own = [files.own_path] if files.own_path else []
    if place.name.lower().endswith(".ipynb"):
        state = await files.notebook.load()
        own += [state.path] if state.path else []
    if any(_is_same(place.path, path) for path in own):
        raise ToolError(
            f"`{place.name}` is this kernel's notebook: change it with insert_cell, edit_cell, "
            "delete_cell and move_cell."
        )
    if place.name.lower().endswith(".ipynb") and os.path.lexists(place.path):
        raise ToolError(
            f"`{place.name}` is a notebook that may be open somewhere, so its file is not written "
            "here. Tell the user what to change in it."
        )


def _is_same(path: str, own: str) -> bool:
    if path == os.path.realpath(own):
        return True
    try:
        return os.path.samefile(path, own)
    except OSError:
        return False


# Reading ----------------------------------------------------------------------------------------


def _look(files: FileTools, place: Place, wanted: Slice, cap_chars: int) -> ToolOutput:
    """Return what a file holds; a picture is shown beside the words about it."""
    with opened(files.project, place) as (stream, state):
        head = stream.read(SNIFFED_BYTES)
        is_picture = is_shown_kind(head) and state.st_size <= MOST_PICTURE_BYTES
        data = head + read_most(stream, MOST_PICTURE_BYTES) if is_picture else b""
    if not is_picture:
        return ToolOutput(_read(files, place, wanted, cap_chars))
    about = f"{place.name}: {len(data):,} bytes"
    try:
        image, (width, height) = load_image(base64.b64encode(data).decode("ascii"))
    except BadImageError as error:
        return ToolOutput(f"{about}, {describe_bytes(data)}. It cannot be shown: {error}.")
    scaled = (image.width_px, image.height_px) != (width, height)
    size = f", shown at {image.width_px:,}×{image.height_px:,}" if scaled else ""
    text = f"{about}, {find_kind(data)}, {width:,}×{height:,} px{size}."
    return ToolOutput(text, images=(image,), mime_types=(image.media_type,))


def _read(files: FileTools, place: Place, wanted: Slice, cap_chars: int) -> str:
    is_notebook = place.name.lower().endswith(".ipynb")
    with opened(files.project, place) as (stream, state):
        head = stream.read(SNIFFED_BYTES)
        stream.seek(0)
        if state.st_size > (MOST_NOTEBOOK_BYTES if is_notebook else MOST_BYTES):
            about = _describe_huge(place, state.st_size, head)
            if about.endswith("."):
                return about
            if wanted == Slice():
                cap_chars = min(cap_chars, HEAD_CHARS + len(about))
            return f"{about}\n{read_stream(stream, wanted, cap_chars - len(about) - 1)}"
        data = read_most(stream, MOST_NOTEBOOK_BYTES)
    if is_notebook and files.parse is not None:
        return _outline(place, *files.parse(data), wanted, cap_chars)
    text = decode(data)
    if text is None:
        return f"{place.name}: {len(data):,} bytes, {describe_bytes(data)}."
    files.seen.mark("file", place.path, text.text)
    note = f"[{place.name}: {text.note}]\n" if text.note else ""
    return note + read_page(text.shown, wanted, cap_chars - len(note))


def _describe_huge(place: Place, size: int, head: bytes) -> str:
    """Return a line about a huge file; a sentence if no line of it can be read."""
    if looks_binary(head) or has_wide_bom(head):
        return f"{place.name}: {size:,} bytes, {describe_bytes(head)}."
    if size > MOST_PAGED_BYTES:
        return f"{place.name}: {size:,} bytes of text, too many to look for lines; use run_code."
    return f"[{place.name}: {size:,} bytes of text, too many to be edited here]"


def _outline(
    place: Place,
    cells: tuple[NotebookCell, ...],
    faults: tuple[str, ...],
    wanted: Slice,
    cap_chars: int,
) -> str:
    """Return the outline of a notebook rather than its JSON."""
    state = NotebookState(cells, "disk", place.path)
    views = merge(state, ())
    head = describe_notebook(state, views)
    if faults:
        head += f"\n[{'; '.join(faults)[:300]}]"
    return f"{head}\n{read_page(outline(views, 2 * cap_chars), wanted, cap_chars - len(head) - 1)}"


# Writing ----------------------------------------------------------------------------------------


def _write(files: FileTools, place: Place, given: str, cap_chars: int) -> ToolOutput:
    """Make `given` the whole text of the file, which may be a new one."""
    before = load(files.project, place)
    if before is None:
        has_bom = given.startswith("\ufeff")
        text = FileText(given.removeprefix("\ufeff"), "utf-8-sig" if has_bom else "utf-8")
        return _saved(files, place, None, None, text, f"{_size(text)}, a new file")
    old = before.text
    _refuse_stale(files, place, old, cap_chars, is_whole=True)
    text = replace(old, text=_with_newlines(given.removeprefix("\ufeff"), old))
    if text == old:
        return ToolOutput(f"{place.name} holds exactly that already; nothing was written.")
    said = f"{_size(text)}; before it had {count_lines(old.shown):,}"
    return _saved(files, place, before, old, text, said)


def _edit(files: FileTools, place: Place, old: str, new: str, cap_chars: int) -> ToolOutput:
    """Put `new` where `old` stands, which it must do exactly once."""
    before = load(files.project, place)
    if before is None:
        raise files.project.missing(place)
    text = before.text
    _refuse_stale(files, place, text, cap_chars)
    if old == new:
        raise ToolError("`old` and `new` are the same; there is nothing to change.")
    at, length = _find_once(place, text, old)
    put = _with_newlines(new, text)
    changed = replace(text, text=text.text[:at] + put + text.text[at + length :])
    if changed == text:
        raise ToolError("`old` and `new` differ in their newlines only, which are kept.")
    first = count_lines(FileText(text.text[:at], text.encoding).shown + "x")
    last = first + max(0, count_lines(new.rstrip("\n") or "x") - 1)
    wanted = Slice(max(1, first - AROUND_LINES), last + AROUND_LINES)
    page = read_page(changed.shown, wanted, min(cap_chars, ECHO_CHARS)) if changed.text else ""
    return _saved(files, place, before, text, changed, f"it now reads\n{page}")


def _saved(
    files: FileTools,
    place: Place,
    before: Loaded | None,
    old: FileText | None,
    text: FileText,
    said: str,
) -> ToolOutput:
    """Save the text; tell what stands there now, and keep what stood there."""
    if old is not None and REDACTED in text.text and REDACTED not in old.text:
        raise ToolError(
            f"`{REDACTED}…]` stands for a key that is not shown to you; written to `{place.name}`, "
            "it would take the key's place. Change only other text, by edit_file."
        )
    folders = save(files.project, place, text, before)
    files.seen.mark("file", place.path, text.text)
    edit = Edit("file", place.path, state_of(old), state_of(text, folders))
    return ToolOutput(f"Wrote {place.name}: {said}", edits=(edit,))


def _refuse_stale(
    files: FileTools, place: Place, now: FileText, cap_chars: int, *, is_whole: bool = False
) -> None:
    """Raise ToolError with the present text if the model has not seen this version of the file."""
    if files.seen.is_present("file", place.path, now.text) or (is_whole and not now.text):
        return
    was_seen = files.seen.has("file", place.path)
    why = "has changed since you read it" if was_seen else "is there, and you have not read it"
    files.seen.mark("file", place.path, now.text)
    head = f"`{place.name}` {why}, so nothing was written. This is what it holds now:"
    page = read_page(now.shown, Slice(), min(cap_chars, PRESENT_CHARS) - len(head))
    raise ToolError(f"{head}\n\n{page}")


def _with_newlines(given: str, old: FileText) -> str:
    """Return `given` with the newlines of the file; one that has CR itself stays as it is."""
    return given if "\r" in given else given.replace("\n", old.newline)


def _size(text: FileText) -> str:
    lines = count_lines(text.shown)
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"


def _find_once(place: Place, text: FileText, old: str) -> tuple[int, int]:
    """Return where `old` stands and its length there. Raises ToolError if it is not exactly once.

    Newlines of any kind match the file's own.
    """
    plain = old.replace("\r\n", "\n")
    for wanted in dict.fromkeys((old, plain.replace("\n", text.newline), plain)):
        places = list(_places(text.text, wanted))
        if len(places) == 1:
            return places[0], len(wanted)
        if places:
            numbers = [_line_number(text, at) for at in places[:PLACES]]
            more = ", …" if len(places) > PLACES else ""
            count = f"{len(places):,} times" if len(places) < MOST_PLACES else "very often"
            raise ToolError(
                f"`old` stands in `{place.name}` {count}, in lines "
                f"{', '.join(map(str, numbers))}{more}. Give more of the text around the one you "
                "mean; nothing was written."
            )
    hint = _near(text, old)
    raise ToolError(f"`old` does not stand in `{place.name}`; nothing was written.{hint}")


MOST_PLACES = 10_000
"""Occurrences of a text are not counted further."""


def _places(text: str, wanted: str) -> Iterator[int]:
    """Yield where `wanted` stands, overlapping ones too, at most MOST_PLACES."""
    at = text.find(wanted)
    for _ in range(MOST_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(wanted, at + 1)


def _line_number(text: FileText, at: int) -> int:
    return FileText(text.text[:at], text.encoding).shown.count("\n") + 1


def _near(text: FileText, old: str) -> str:
    """Return where its first line stands but for blanks, which is the usual mistake."""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.shown.split("\n")
    numbers = [n for n, line in enumerate(lines, 1) if first and line.strip() == first][:PLACES]
    if not numbers:
        return " Read the file again."
    shown = "\n".join(f"{n}: {lines[n - 1][:200]!r}" for n in numbers[:3])
    return f" Its first line stands in line {', '.join(map(str, numbers))}, as\n{shown}"
