"""One live kernel at a time writes a session; the operating system frees a dead one's lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .files import FILE_MODE

if TYPE_CHECKING:
    from filelock import BaseFileLock


class BusyLockError(Exception):
    """Another live session user, in this process or another, holds the lock."""


class SessionLock:
    """The lock of one session's folder, held until `release`.

    Raises BusyLockError if it is held, OSError if there can be no lock here (a read-only disk, a
    file system without locks).
    """

    def __init__(self, folder: Path) -> None:
        import filelock  # 50 ms, and needed by the first turn only

        self._lock: BaseFileLock = filelock.FileLock(
            folder / ".lock", timeout=0, mode=FILE_MODE, thread_local=False
        )
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise BusyLockError from None
        except NotImplementedError as error:
            raise OSError(str(error)) from error

    def release(self) -> None:
        """Free the lock; a second call does nothing."""
        self._lock.release()
