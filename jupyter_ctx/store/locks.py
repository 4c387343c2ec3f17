"""One live kernel at a time writes a session, or a file that all share.

The operating system frees a dead one's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from .files import FILE_MODE, make_folder, store_errors

if TYPE_CHECKING:
    from filelock import BaseFileLock

WRITE_S = 5.0
"""So long another kernel may take to write a file that all share, in seconds."""


class BusyLockError(Exception):
    """Another live session user, in this process or another, holds the lock."""


LOOK_S = 0.25
"""Who opens a session waits so long for a lock, in seconds: to look whether it is held, another
process takes it for less than a millisecond, and that must not look like a kernel that has it."""
POLL_S = 0.01


class SessionLock:
    """The lock of one session's folder, held until `release`.

    It is waited for up to `wait_s` seconds (0: not at all). Raises BusyLockError if it is held,
    OSError if there can be no lock here (a read-only disk, a file system without locks).
    """

    def __init__(self, folder: Path, wait_s: float = 0.0) -> None:
        import filelock  # 50 ms, and needed by the first turn only

        self._lock: BaseFileLock = filelock.FileLock(
            folder / ".lock", timeout=wait_s, mode=FILE_MODE, thread_local=False
        )
        try:
            self._lock.acquire(poll_interval=POLL_S)
        except filelock.Timeout:
            raise BusyLockError from None
        except NotImplementedError as error:
            raise OSError(str(error)) from error

    def release(self) -> None:
        """Free the lock; a second call does nothing."""
        self._lock.release()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Keep other kernels from writing the file at `path` meanwhile; its folder is made.

    Raises StoreError if another one writes it for longer than 5 s, or there can be no lock here.
    """
    import filelock  # 50 ms, and only needed here

    with store_errors(path):
        make_folder(path.parent)
        lock = filelock.FileLock(
            path.with_name(f".{path.stem}.lock"), timeout=WRITE_S, mode=FILE_MODE
        )
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise StoreError(
                f"{path} is being written by another kernel; try again.", path=str(path)
            ) from error
        except NotImplementedError as error:
            raise OSError(str(error)) from error
    try:
        yield
    finally:
        lock.release()
