"""One live kernel at a time writes a session; the operating system frees a dead one's lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .files import FILE_MODE

if TYPE_CHECKING:
    from filelock import BaseFileLock


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
