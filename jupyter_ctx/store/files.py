"""Folders and files that only their owner can read, written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import StoreError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_TEMP_SUFFIX = ".tmp"

_ADVICE = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some space: your quota is used up",
    errno.EROFS: "the disk is read-only; set JUPYTER_CTX_HOME to a folder that can be written",
    errno.EACCES: "change its permissions, or set JUPYTER_CTX_HOME to a folder of yours",
    errno.EPERM: "change its permissions, or set JUPYTER_CTX_HOME to a folder of yours",
    errno.ENOENT: "its folder is gone; put it back, or start anew with `/new`",
    errno.ENOTDIR: "something on its path is no folder; set JUPYTER_CTX_HOME to another place",
    errno.ELOOP: "a symbolic link stands in its place; remove it",
}


@contextmanager
def store_errors(path: Path | str, verb: str = "written") -> Iterator[None]:
    """Turn an OSError inside into a StoreError that names `path` and what to do."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "check that disk")
        reason = error.strerror or str(error)
        raise StoreError(
            f"{path} could not be {verb} ({reason}): {advice}.", path=str(path)
        ) from error


def make_folder(path: Path) -> None:
    """Create `path` and its missing parents, each 0700 whatever the umask. Raises OSError.

    Folders that exist keep their mode.
    """
    missing = [path]
    while not missing[-1].exists() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, FOLDER_MODE)
        except FileExistsError:
            if not folder.is_dir():
                raise NotADirectoryError(
                    errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)
                ) from None
        else:
            os.chmod(folder, FOLDER_MODE)


def open_new(path: Path, flags: int = os.O_WRONLY) -> int:
    """Create the file `path`, 0600 whatever the umask, and return its descriptor.

    Raises FileExistsError if anything is there, a dangling symbolic link included.
    """
    flags |= os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(path, flags, FILE_MODE)
    os.fchmod(fd, FILE_MODE)
    return fd


def write_all(fd: int, data: bytes | memoryview) -> int:
    """Write all of `data`, going on after short writes; return how many bytes.

    Raises ShortWriteError, which carries how many bytes went out before the failure.
    """
    view, written = memoryview(data), 0
    while written < len(view):
        try:
            written += os.write(fd, view[written:])
        except OSError as error:
            raise ShortWriteError(written, error) from error
    return written


class ShortWriteError(OSError):
    """Writing failed after `written` bytes; the rest as the OSError that caused it."""

    def __init__(self, written: int, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror)
        self.written = written


def temp_path(target: Path) -> Path:
    """Return an unused name beside `target`, hidden."""
    return target.with_name(f".{secrets.token_hex(8)}{_TEMP_SUFFIX}")


def remove_leftovers(folder: Path, prefix: str = _TEMP_SUFFIX) -> None:
    """Remove the temporary files in `folder` that a killed process left, and those with `prefix`.

    Only the folder's owner may, for a live process would lose its own. Raises OSError.
    """
    for entry in os.scandir(folder):
        if entry.name.startswith(prefix) or entry.name.endswith(_TEMP_SUFFIX):
            os.unlink(entry.path)


def replace_file(target: Path, data: bytes) -> None:
    """Put `data` in place of `target` in one step: a reader sees the old or the new, whole.

    A symbolic link at `target` is replaced, not followed. Raises OSError; `target` is then as it
    was and no other file is left.
    """
    temporary = temp_path(target)
    fd = open_new(temporary)
    try:
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file that is there: no symbolic link, pipe or device. Raises OSError."""
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd
