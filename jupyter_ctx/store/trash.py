"""Deleted sessions: `trash/<session_id>/` below the home, emptied after thirty days.

A session's folder moves in one step; its results stay where they are until it is removed for good,
and longer while a session that was forked from it reads them.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..core.entries import SessionEntry
from ..errors import StoreError
from .codec import load_line
from .files import make_folder, open_regular, replace_file, store_errors
from .jsonl import READ_BYTES, TRANSCRIPT
from .metadata import SessionInfo
from .results import FOLDER as RESULTS

FOLDER = "trash"
KEEP_S = 30 * 24 * 3600.0
"""A deleted session can be restored for so many seconds (30 days: our own choice)."""

NOTE_BYTES = 4_096
"""So much is read of the note that says when a session was deleted."""

_NOTE = "trashed.json"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


_NO_TRANSCRIPT = (errno.ENOENT, errno.EINVAL, errno.ELOOP, errno.ENXIO)
"""There is none, or a link, pipe or device in its place."""


@dataclass(frozen=True, slots=True)
class Trashed:
    """A deleted session; `at` is when, in seconds since the epoch."""

    info: SessionInfo
    at: float


class Trash:
    """The deleted sessions below `home`; `sessions` is the folder of those that are not."""

    def __init__(self, home: Path, sessions: Path) -> None:
        self.path = home / FOLDER
        self._results = home / RESULTS
        self._sessions = sessions

    def put(self, folder: Path, at: float) -> None:
        """Move a session's folder here; `at` is now. Its lock must be held. Raises StoreError."""
        with store_errors(folder, "moved to the trash"):
            make_folder(self.path)
            note = json.dumps({"version": 1, "at": at})
            with suppress(OSError):  # a full disk, say: `time_of` goes by the folder then
                replace_file(folder / _NOTE, note.encode() + b"\n")
            os.rename(folder, self.path / folder.name)

    def take(self, session_id: str) -> Path:
        """Move a session back to its place and return that. Raises StoreError if it is not here."""
        source, target = self.path / session_id, self._sessions / session_id
        if session_id not in self.names():
            raise StoreError(f"There is no deleted session {session_id!r}.", path=str(source))
        if os.path.lexists(target):
            raise StoreError(f"Session {session_id} is there already.", path=str(target))
        with store_errors(source, "restored"):
            make_folder(self._sessions)
            os.rename(source, target)
            with suppress(FileNotFoundError):
                os.unlink(target / _NOTE)
        return target

    def names(self) -> list[str]:
        """Return the ids of the deleted sessions. Raises StoreError."""
        return folders_in(self.path)

    def time_of(self, session_id: str) -> float:
        """Return when a session was deleted; if that is lost, when its folder changed last."""
        folder = self.path / session_id
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            with os.fdopen(open_regular(folder / _NOTE), "rb") as file:
                at = float(json.loads(file.read(NOTE_BYTES))["at"])
            if math.isfinite(at):
                return at
        with store_errors(folder, "read"):
            return folder.lstat().st_ctime

    def empty(self, now: float, older_s: float = KEEP_S) -> tuple[str, ...]:
        """Remove for good what was deleted `older_s` or longer before `now`; return the ids.

        One that cannot be removed holds up no other; then raises StoreError, of the first of them.
        """
        removed: list[str] = []
        failed: list[StoreError] = []
        for name in self.names():
            try:
                if now - self.time_of(name) >= older_s:
                    self._remove(name)
                    removed.append(name)
            except StoreError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return tuple(removed)

    def _remove(self, session_id: str) -> None:
        """Remove a session, and the results that no session reads any more."""
        folder = self.path / session_id
        origins = {session_id, *_origins(folder)}
        both = (self._sessions, self.path)
        left = [base / name for base in both for name in folders_in(base) if base / name != folder]
        origins -= {one.name for one in left}
        origins.difference_update(*map(_origins, left))
        unused = [self._results / name for name in origins & set(folders_in(self._results))]
        for path in (*unused, folder):  # the session last: what fails is tried again
            with store_errors(path, "removed"):
                shutil.rmtree(path)


def folders_in(path: Path) -> list[str]:
    """Return the names of the sessions' folders in `path`, no links; [] if it is not there.

    Raises StoreError.
    """
    with store_errors(path, "read"):
        try:
            found = list(os.scandir(path))
        except FileNotFoundError:
            return []
        return [e.name for e in found if _ID.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]


def _origins(folder: Path) -> Iterable[str]:
    """Return the ids of the sessions that this one was forked from, all the way back."""
    path = folder / TRANSCRIPT
    found: set[str] = set()
    with store_errors(path, "read"):
        try:
            file = os.fdopen(open_regular(path), "rb", READ_BYTES)
        except OSError as error:
            if error.errno in _NO_TRANSCRIPT:
                return found  # nobody can load it, so it reads nothing
            raise
        with file:
            for line in file:
                if b'"type":"session"' in line[:64]:
                    found.update(_parent(line))
    return found


def _parent(line: bytes) -> Iterable[str]:
    try:
        entry = load_line(line)
    except StoreError:
        return ()  # a bad line, which `load` names
    return (entry.parent,) if isinstance(entry, SessionEntry) and entry.parent else ()
