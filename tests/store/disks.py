"""Real faults of a disk, made without patching anything."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(path: Path, room: int) -> Iterator[None]:
    """Let no file of this process grow past the size of `path` plus `room` bytes.

    The kernel then writes what fits and refuses the rest, as a full disk does.
    """
    size = path.stat().st_size if path.exists() else 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def mode_of(path: Path) -> int:
    """Return the permission bits of a file or folder."""
    return os.stat(path).st_mode & 0o777


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask for a while."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
