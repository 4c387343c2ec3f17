"""Text files below a folder, read so that nothing outside of it is, and nothing blocks.

A name becomes a real path first, which must lie in the folder; then every folder on it is opened
from the one before, and no link is followed: what is swapped for a link in between is refused.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass

MOST_BYTES = 160_000
"""A larger file is named, not read: 40,000 characters of at most four bytes."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

OUTSIDE = "it leads out of the folder"
NO_FILE = "it is no regular file"
NO_TEXT = "it is no UTF-8 text"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there: its real path, and its text as it was read.

    `fault` says why it was not read, "" if it was; then `digest` is the sha256 of its bytes.
    """

    path: str
    text: str = ""
    digest: str = ""
    fault: str = ""


def read_text(root: str, name: str, most_bytes: int = MOST_BYTES) -> Found | None:
    """Return the file `name` (from `root`, a real path); None if nothing is there.

    Raises nothing: whatever is in the way is its fault.
    """
    given = os.path.join(root, name)
    if not os.path.lexists(given):
        return None
    real = os.path.realpath(given)
    if not is_within(real, root):
        return Found(given, fault=OUTSIDE)
    try:
        data = _read(root, os.path.relpath(real, root).split(os.sep), most_bytes)
    except OSError as error:
        return Found(real, fault=_reason(error))
    if len(data) > most_bytes:
        return Found(real, fault=f"it is larger than {most_bytes:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Found(real, fault=NO_TEXT)
    return Found(real, text, hashlib.sha256(data).hexdigest())


def read_own(path: str, most_bytes: int = MOST_BYTES) -> Found | None:
    """Return a file of the user's own, links followed; else as `read_text`."""
    if not os.path.lexists(path):
        return None
    real = os.path.realpath(path)
    return read_text(os.path.dirname(real), os.path.basename(real), most_bytes) or Found(
        path, fault="it leads nowhere"
    )


def list_names(root: str, name: str, most: int) -> list[str]:
    """Return the sorted names in the folder `name` below `root`, the first `most` that are met.

    Empty if there is no such folder, or it leads out of `root`.
    """
    real = os.path.realpath(os.path.join(root, name))
    if not is_within(real, root):
        return []
    try:
        fd = _open_folder(root, os.path.relpath(real, root).split(os.sep))
    except OSError:
        return []
    try:
        with os.scandir(fd) as entries:
            return sorted(entry.name for _, entry in zip(range(most), entries, strict=False))
    finally:
        os.close(fd)


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _read(root: str, parts: list[str], most_bytes: int) -> bytes:
    """Return at most one byte more than `most_bytes` of a regular file. Raises OSError."""
    *folders, name = parts
    folder = _open_folder(root, folders)
    try:
        fd = os.open(name, _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ENXIO, NO_FILE)
    with os.fdopen(fd, "rb") as stream:
        return stream.read(most_bytes + 1)


def _open_folder(root: str, parts: list[str]) -> int:
    """Return a descriptor of a folder below `root`, to be closed. Raises OSError."""
    fd = os.open(root, _FOLDER_FLAGS)
    for part in parts:
        if part == os.curdir:
            continue
        try:
            below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENXIO, errno.EISDIR):
        return NO_FILE
    if error.errno == errno.ELOOP:
        return "a symbolic link was put in its place"
    return error.strerror or type(error).__name__
