"""New files: written whole or not at all, and never over one that is there unless it is said."""

from __future__ import annotations

import errno
import os
import re
import secrets
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import StoreError

NAME_CHARS = 60
"""Longest name made of a title, in characters; in UTF-8 it stays below what file systems take."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def name_of(title: str, suffix: str) -> str:
    """Return a file name made of a title: letters, digits and hyphens; `session` if it has none."""
    text = unicodedata.normalize("NFC", title).encode("utf-8", "ignore").decode()
    words = re.findall(r"[^\W_]+", text.lower())
    name = "-".join(words)[:NAME_CHARS].strip("-")
    if not name or _DEVICE.fullmatch(name):
        name = f"session-{name}".strip("-")
    return f"{name}{suffix}"


def find_free(path: Path) -> Path:
    """Return `path`, or with `-2`, `-3`, … before its suffix the first name that is not taken."""
    return next(one for one in _names(path) if not os.path.lexists(one))


def _names(path: Path) -> Iterator[Path]:
    yield path
    n = 2
    while True:
        yield path.with_name(f"{path.stem}-{n}{path.suffix}")
        n += 1


def save_file(path: Path, data: bytes, *, over: bool = False) -> None:
    """Write a file in one step: nobody sees half of it, and a failure leaves none.

    Raises StoreError: it is there already and `over` does not say to replace it (another name is
    proposed), or it cannot be written.
    """
    try:
        temporary = _write_beside(path, data)
        try:
            if over:
                os.replace(temporary, path)
            else:
                _put(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
    except FileExistsError as error:
        other = find_free(path).name
        raise StoreError(
            f"{path} is there already and was left as it is; another name is free: {other}",
            path=str(path),
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"{path} could not be written ({reason}); give another name.", path=str(path)
        ) from error


def _write_beside(path: Path, data: bytes) -> Path:
    """Write the data to an unused hidden name in the same folder, with the usual rights."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return temporary


def _put(temporary: Path, path: Path) -> None:
    """Give the file its name, if nothing has it. Raises FileExistsError, and OSError."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: the name is taken first, then the file replaces it.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        os.replace(temporary, path)
