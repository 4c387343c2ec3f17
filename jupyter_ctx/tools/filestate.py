"""A file of the project as it stands: read whole, written whole or not at all, put back by undo."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, get_args

from ..core.blocks import Json
from ..errors import ToolError
from .filetypes import Encoding, FileText, decode, describe_bytes
from .pages import CHUNK_BYTES
from .project import FileChangedError, Place, Project, reason_of, shown_name

MOST_BYTES = 8 * 1024 * 1024
"""A larger file is not held in memory, and so not written: its lines can be read."""

FOLDER_NAMES = 20
"""So many names of a folder are told where a file was wanted."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that is there: `data` is all of it, at most its first MOST_BYTES + 1 bytes."""

    place: Place
    state: os.stat_result
    data: bytes

    @property
    def text(self) -> FileText:
        """Its text. Raises ToolError if it is too large, no text, or cannot be written back."""
        size, name = f"{self.state.st_size:,} bytes", self.place.name
        if len(self.data) > MOST_BYTES:
            raise ToolError(
                f"`{name}` has {size}; these tools write files up to {MOST_BYTES:,}. Use run_code."
            )
        text = decode(self.data)
        if text is None:
            raise ToolError(
                f"`{name}` is no text file ({size}, {describe_bytes(self.data)}), so it was not "
                "changed. Use run_code with the library for it."
            )
        if not text.can_write:
            raise ToolError(
                f"`{name}` is no UTF-8, so it can be read only: in which encoding it is, is not "
                "known. Use run_code if you know it."
            )
        return text


@contextmanager
def opened(project: Project, place: Place) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open the file for reading. Raises ToolError: it is not there, a folder, or not readable."""
    try:
        fd = project.open(place)
    except (FileNotFoundError, NotADirectoryError):
        raise project.missing(place) from None
    except IsADirectoryError:
        raise ToolError(_folder_text(place)) from None
    except OSError as error:
        raise ToolError(f"`{place.name}` cannot be read: {reason_of(error)}.") from error
    with os.fdopen(fd, "rb") as stream:
        yield stream, os.fstat(fd)


def load(project: Project, place: Place) -> Loaded | None:
    """Return the file, None if nothing is there. Raises ToolError: it cannot be read."""
    if not os.path.lexists(place.path):
        return None
    with opened(project, place) as (stream, state):
        try:
            return Loaded(place, state, read_most(stream, MOST_BYTES + 1))
        except OSError as error:
            raise ToolError(f"`{place.name}` cannot be read: {reason_of(error)}.") from error


def read_most(stream: BinaryIO, most: int) -> bytes:
    """Return at most `most` bytes, however many the file says it has."""
    pieces: list[bytes] = []
    while most > 0 and (piece := stream.read(min(most, CHUNK_BYTES))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def save(project: Project, place: Place, text: FileText, before: Loaded | None) -> int:
    """Write `text`, read it back, and return how many folders were made for it.

    Raises ToolError: it cannot be written, or would not be read back as it is; then nothing is.
    """
    data = _encode(place, text)
    if before is not None and not _may_write(before):
        raise ToolError(f"`{place.name}` is read-only, so nothing was written.")
    try:
        made = project.replace(place, data, None if before is None else before.state)
    except FileChangedError:
        raise ToolError(f"`{place.name}` was changed in this moment; read it again.") from None
    except OSError as error:
        raise ToolError(_failed(place, error)) from error
    now = load(project, place)
    if now is None or now.data != data:
        raise ToolError(f"`{place.name}` was written, but something else stands there now.")
    return made


def _encode(place: Place, text: FileText) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError("The text holds half a character (a surrogate); leave it out.") from None
    if len(data) > MOST_BYTES:
        raise ToolError(f"The text has {len(data):,} bytes; {MOST_BYTES:,} are the most.")
    if decode(data) != text:
        raise ToolError(
            f"Written to `{place.name}`, this would be read back as no text, or as another: it "
            "holds control characters. Write such a file with run_code."
        )
    return data


def _may_write(before: Loaded) -> bool:
    return bool(before.state.st_mode & 0o222) and os.access(before.place.path, os.W_OK)


def _failed(place: Place, error: OSError) -> str:
    if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ELOOP):
        return f"`{place.name}` cannot be written: something on its path is no folder."
    return f"`{place.name}` cannot be written: {reason_of(error)}. Nothing was changed."


def _folder_text(place: Place) -> str:
    try:
        names = sorted(os.listdir(place.path))
    except OSError:
        names = []
    shown = ", ".join(f"`{shown_name(name)[:80]}`" for name in names[:FOLDER_NAMES])
    more = f" and {len(names) - FOLDER_NAMES:,} more" if len(names) > FOLDER_NAMES else ""
    holds = f"; it holds {shown}{more}" if shown else "; it is empty"
    return f"`{place.name}` is a folder{holds}. search_files lists what is in it."


# What undo needs --------------------------------------------------------------------------------


def state_of(text: FileText | None, folders: int = 0) -> Json | None:
    """Return what an Edit keeps of a file; None: there is none."""
    if text is None:
        return None
    state: dict[str, object] = {"text": text.text}
    if text.encoding != "utf-8":
        state["encoding"] = text.encoding
    if folders:
        state["folders"] = folders
    return state


def _text_of(state: Json) -> FileText:
    text, wanted = state.get("text"), state.get("encoding", "utf-8")
    encoding: Encoding | None = next((one for one in get_args(Encoding) if one == wanted), None)
    if not isinstance(text, str) or encoding is None:
        raise ToolError("What stood in the file then is not known any more.")
    return FileText(text, encoding)


class ProjectFiles:
    """Puts files back as they were. Implements core.ports.Files."""

    def __init__(self, project: Project) -> None:
        self._project = project

    async def put(self, path: str, wanted: Json | None, expected: Json | None) -> None:
        """Make the file at `path` as `wanted` says, if it is as `expected` says."""
        await asyncio.to_thread(self._put, path, wanted, expected)

    def name(self, path: str) -> str:
        """Return the path from the project's folder, one outside it as it is."""
        try:
            return self._project.find(path).name
        except ToolError:
            return path

    def _put(self, path: str, wanted: Json | None, expected: Json | None) -> None:
        place = self._project.find(path)
        now = load(self._project, place)
        if _is_as(now, wanted):
            return
        if place.path != path or not _is_as(now, expected):
            raise ToolError(
                f"`{place.name}` is not as the agent left it any more, so it stays as it is."
            )
        if wanted is not None:
            save(self._project, place, _text_of(wanted), now)
        elif now is not None:
            folders = (expected or {}).get("folders", 0)
            try:
                self._project.remove(place, now.state, folders if isinstance(folders, int) else 0)
            except OSError as error:
                raise ToolError(f"`{place.name}` cannot be removed: {reason_of(error)}.") from error


def _is_as(now: Loaded | None, expected: Json | None) -> bool:
    if now is None or expected is None:
        return now is None and expected is None
    return decode(now.data) == _text_of(expected)
