"""All sessions below a home: create, load, fork, find, list."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from .._version import __version__
from ..core.blocks import Message, Text, title_of, user, without_thinking
from ..core.entries import Entry, MessageEntry, RepairEntry, SessionEntry
from ..core.view import build_view
from ..errors import StoreError
from .codec import dump_line
from .files import FOLDER_MODE, make_folder, open_new, open_regular, store_errors, write_all
from .jsonl import TRANSCRIPT, load_entries
from .locks import LOOK_S, BusyLockError, SessionLock
from .metadata import SessionInfo, build_info, read_info, write_info
from .open_session import MemorySession, OpenSession
from .search import Found, Index, find_in, find_in_file
from .trash import KEEP_S, Trash, Trashed, folders_in

FOLDER = "sessions"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)

AnySession: TypeAlias = OpenSession | MemorySession

Fork: TypeAlias = Literal["held", "never", "always"]
"""When a session is loaded as a copy: where another kernel has it open, never, or in any case."""


class SessionStore:
    """The sessions below `home`; None: there is no home, and every session lives in memory.

    `now` gives seconds since the epoch.
    """

    def __init__(self, home: Path | None, now: Callable[[], float] = time.time) -> None:
        self.home = home
        self._now = now

    def create(
        self, session_id: str | None = None, *, notebook: str | None = None, cwd: str = ""
    ) -> AnySession:
        """Start a session; its SessionEntry is stored.

        Where nothing can be stored, the session lives in memory and its `warnings` say why.
        Raises StoreError if `session_id` is no valid id, or there is such a session.
        """
        at = self._now()
        if session_id is not None and self.home is not None:
            folder = self._folder(session_id)
            if folder.exists():
                raise StoreError(f"Session {session_id} is there already.", path=str(folder))
        entry = SessionEntry(at, session_id or new_session_id(at), notebook, cwd, __version__)
        if self.home is None:
            reason = "There is no home folder; set JUPYTER_CTX_HOME to a folder."
            return _in_memory([entry], [_memory_warning(reason)])
        try:
            return self._create(self.home, entry)
        except StoreError as error:
            return _in_memory([entry], [_memory_warning(str(error))])

    def load(self, session_id: str, *, fork: Fork = "held") -> AnySession:
        """Open a session; what could not be loaded is said in its `warnings`.

        Calls that a killed kernel left open are answered, and that is stored. A session that is
        open elsewhere is forked: the new one has another id; `fork` says otherwise. Raises
        StoreError if there is no such session, nothing of it can be read, or it is open elsewhere
        and may not be forked; its files are then left as they are.
        """
        folder = self._existing(session_id)
        if fork == "always":
            return self._fork(folder, session_id, f"This is a copy of session {session_id}")
        lock, warnings = _lock(folder, LOOK_S)
        try:
            if lock is None and not warnings:
                if fork == "never":
                    raise StoreError(
                        f"Session {session_id} is open in another kernel; only a copy of it can "
                        "go on here.",
                        path=str(folder),
                    )
                said = (
                    f"Session {session_id} is open in another kernel; this one goes on as its copy"
                )
                return self._fork(folder, session_id, said)
            return self._load(folder, session_id, lock, warnings)
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    def claim(self, session_id: str, notebook: str, cwd: str) -> AnySession | None:
        """Open the session that a notebook's own metadata names; None if there is none of that id.

        `notebook` is the path at which no session is known. The notebook was renamed if the file
        of the session's is gone: the session is then this one's. Else it is a copy, and gets a
        copy of the session, which its `warnings` say. Raises StoreError.
        """
        if self.home is None or not _ID.fullmatch(session_id):
            return None
        folder = self.home / FOLDER / session_id
        info = self._info(folder) if folder.is_dir() and not folder.is_symlink() else None
        if info is None:
            return None
        if info.notebook is not None and os.path.lexists(info.notebook):
            said = f"This notebook is a copy of {info.notebook}; its session goes on as a copy too"
            return self._fork(folder, session_id, said, notebook, cwd)
        session = self.load(session_id)
        if info.notebook != notebook:
            _rename(
                session, SessionEntry(self._now(), session.session_id, notebook, cwd, __version__)
            )
        return session

    def is_open(self, session_id: str) -> bool:
        """Say whether a live kernel has the session open, this one included. Raises StoreError."""
        lock, warnings = _lock(self._existing(session_id))
        if lock is not None:
            lock.release()
        return lock is None and not warnings

    def list(self) -> Sequence[SessionInfo]:
        """Return every session that can be loaded, the newest first; [] without a home.

        Reads metadata only, but where it is lost or bad. Raises StoreError.
        """
        if self.home is None:
            return []
        sessions = self.home / FOLDER
        found = (self._info(sessions / name) for name in folders_in(sessions))
        infos = [info for info in found if info is not None]
        return sorted(infos, key=lambda info: (info.updated, info.session_id), reverse=True)

    def search(self, text: str, *, full: bool = False) -> Sequence[Found]:
        """Return the sessions in which one text has every word of `text`, the newest first.

        A title or a prompt; with `full`, which reads all transcripts, any message as well. Upper
        and lower case are the same; a text without words finds all. Raises StoreError.
        """
        if self.home is None:
            return []
        index, sessions = Index(self.home), self.home / FOLDER
        infos, found = self.list(), []
        for info in infos:
            folder = sessions / info.session_id
            info = _with_first_turn(info, index.prompts(folder))
            hit = find_in(info, index.prompts(folder), text)
            if hit is None and full:
                hit = find_in_file(info, folder, text)
            if hit is not None:
                found.append(hit)
        index.save(info.session_id for info in infos)
        return found

    def delete(self, session_id: str) -> None:
        """Move a session to the trash, from which `restore` takes it for thirty days.

        Raises StoreError: there is none of that id, or a live kernel has it open, this one
        included.
        """
        folder = self._existing(session_id)
        lock, _ = _lock(folder, LOOK_S)
        if lock is None:
            raise StoreError(
                f"Session {session_id} is open in a kernel or cannot be locked; it was not "
                "deleted. `/new` there closes it.",
                path=str(folder),
            )
        try:
            self._trash().put(folder, self._now())
        finally:
            lock.release()
        with suppress(StoreError):  # this one is deleted; a session that begins says what is left
            self.empty_trash()

    def restore(self, session_id: str) -> SessionInfo:
        """Take a session out of the trash. Raises StoreError if it is not there."""
        folder = self._trash().take(session_id)
        return self._info(folder) or build_info(session_id, ())

    def trashed(self) -> Sequence[Trashed]:
        """Return the deleted sessions, the newest deleted first; [] without a home."""
        if self.home is None:
            return []
        trash = self._trash()
        listed = [
            Trashed(self._info(trash.path / name) or build_info(name, ()), trash.time_of(name))
            for name in trash.names()
        ]
        return sorted(listed, key=lambda one: (one.at, one.info.session_id), reverse=True)

    def empty_trash(self, older_s: float = KEEP_S) -> Sequence[str]:
        """Remove for good what was deleted `older_s` seconds ago or before; return the ids.

        Whoever deletes or starts a session does this too. Raises StoreError.
        """
        return () if self.home is None else self._trash().empty(self._now(), older_s)

    def find(self, notebook: str) -> SessionInfo | None:
        """Return the newest session of the notebook at that path, None if there is none.

        Where another kernel has that one open, it is the newest of its copies, or of what it is a
        copy of, that no kernel has open and that went on by itself: of two kernels on one notebook
        each finds its own again after a restart.
        """
        path = os.path.normpath(notebook)
        infos = [i for i in self.list() if i.notebook and os.path.normpath(i.notebook) == path]
        if not infos or not self._is_held(infos[0]):
            return infos[0] if infos else None
        own = (i for i in _relatives(infos) if not self._is_held(i))
        return next(own, infos[0])

    def _is_held(self, info: SessionInfo) -> bool:
        try:
            return self.is_open(info.session_id)
        except StoreError:
            return False  # it was removed meanwhile: `load` says so

    def latest(self, cwd: str, *, but: str | None = None) -> SessionInfo | None:
        """Return the newest session of that folder, None if there is none.

        `but` does not count, nor does one in which nothing was ever asked.
        """
        path = os.path.normpath(cwd)
        infos = (hit.info for hit in self.search("") if hit.info.session_id != but)
        here = (i for i in infos if i.cwd and os.path.normpath(i.cwd) == path)
        return next((info for info in here if info.turns != 0), None)

    def _create(self, home: Path, entry: SessionEntry) -> OpenSession:
        folder = home / FOLDER / entry.session_id
        with store_errors(folder):
            make_folder(folder.parent)
            os.mkdir(folder, FOLDER_MODE)
            os.chmod(folder, FOLDER_MODE)
        lock, warnings = _lock(folder)
        info = build_info(entry.session_id, [entry])
        session = OpenSession(home, folder, info, [], lock, warnings)
        try:
            session.append(entry)
            session.update_metadata()
        except StoreError as error:
            # The entry waits in the session; it is written with the next one that can be.
            session.warnings.append(_memory_warning(str(error)))
        try:
            self.empty_trash()
        except StoreError as error:
            session.warnings.append(f"The trash was not emptied: {error}")
        return session

    def _load(
        self, folder: Path, session_id: str, lock: SessionLock | None, warnings: Sequence[str]
    ) -> OpenSession:
        loaded = load_entries(folder / TRANSCRIPT)
        if not loaded.entries:
            raise StoreError(
                f"Nothing of session {session_id} can be read; {folder} was left as it is.",
                path=str(folder),
            )
        stored = read_info(folder / "metadata.json", session_id)
        info = stored or build_info(session_id, loaded.entries)
        session = OpenSession(
            folder.parent.parent, folder, info, loaded.entries, lock, [*warnings, *loaded.warnings]
        )
        _bring_up(
            session,
            is_rebuilt=stored is None,
            is_owner=lock is not None,
            has_gap=loaded.has_gap,
        )
        return session

    def _fork(
        self, folder: Path, parent: str, said: str, notebook: str | None = None, cwd: str = ""
    ) -> AnySession:
        """Copy the transcript so far into a new session, whose parent that one is.

        `notebook` and `cwd` are the new one's, None: those of the old one. `said` is a clause that
        tells the person why; the new id comes behind it.
        """
        loaded = load_entries(folder / TRANSCRIPT)
        old = read_info(folder / "metadata.json", parent) or build_info(parent, loaded.entries)
        at = self._now()
        path, cwd = (old.notebook, old.cwd) if notebook is None else (notebook, cwd)
        entry = SessionEntry(at, new_session_id(at), path, cwd, __version__, parent)
        info = replace(
            old,
            session_id=entry.session_id,
            created=at,
            updated=at,
            notebook=path,
            cwd=cwd,
            parent=parent,
        )
        said = f"{said}, {entry.session_id}."
        try:
            _copy_session(folder, entry, info)
        except StoreError as error:
            warnings = [said, _memory_warning(str(error))]
            return _in_memory([*loaded.entries, entry], warnings)
        session = self.load(entry.session_id)
        session.warnings.insert(0, said)
        return session

    def _info(self, folder: Path) -> SessionInfo | None:
        """Return a session's metadata, from its transcript if need be; None if it has neither."""
        info = read_info(folder / "metadata.json", folder.name)
        if info is not None:
            return info
        try:
            entries = load_entries(folder / TRANSCRIPT).entries
        except StoreError:
            return None  # not a session: `load` says why when it is asked for by name
        return build_info(folder.name, entries) if entries else None

    def _trash(self) -> Trash:
        if self.home is None:
            raise StoreError("There is no home folder, so no session is stored.")
        return Trash(self.home, self.home / FOLDER)

    def _folder(self, session_id: str) -> Path:
        if self.home is None:
            raise StoreError(f"There is no session {session_id!r}.")
        if not _ID.fullmatch(session_id):
            raise StoreError(_unknown(session_id, self.home / FOLDER))
        return self.home / FOLDER / session_id

    def _existing(self, session_id: str) -> Path:
        folder = self._folder(session_id)
        if folder.is_symlink() or not folder.is_dir():
            raise StoreError(_unknown(session_id, folder.parent), path=str(folder))
        return folder


def _unknown(session_id: str, sessions: Path) -> str:
    return f"There is no session {session_id!r}: the ids are the names of the folders in {sessions}"


def transcript_file(home: Path, session_id: str) -> Path:
    """Return where the transcript of a session lies, there or not. `session_id` is a valid one."""
    return home / FOLDER / session_id / TRANSCRIPT


def new_session_id(at: float) -> str:
    """Return a new id: the time `at` in UTC and a random part, so that ids sort by time."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(at)) + f"-{secrets.token_hex(3)}"


def find_repairs(entries: Sequence[Entry], *, has_gap: bool = False) -> tuple[Entry, ...]:
    """Return what must be appended so that the provider takes the view; () if it is valid.

    Open calls at the end get their results in a message; a view that is broken elsewhere is stored
    whole, as mended. After a gap it is stored without its thinking, which models refuse behind a
    beginning that changed. Pure: the time and the turn are those of the last entries.
    """
    from ..core.repair import orphan_results, repair

    found: list[Entry] = []
    at, turn, step = _last_place(entries)
    view = build_view(entries)
    if results := orphan_results(view):
        message = Message("user", results)
        found.append(MessageEntry(at, turn, step, "repair", message))
        view = (*view, message)
    mended = repair(view)
    if has_gap:
        mended = repair([kept for message in mended if (kept := without_thinking(message))])
    if mended != view or has_gap:
        return (RepairEntry(at, mended, "lines of the transcript are missing"),)
    return tuple(found)


def _last_place(entries: Sequence[Entry]) -> tuple[float, int, int]:
    at = next((a for e in reversed(entries) if (a := getattr(e, "at", None)) is not None), 0.0)
    last = next((e for e in reversed(entries) if isinstance(e, MessageEntry)), None)
    return (at, last.turn, last.step) if last is not None else (at, 0, 0)


def _with_first_turn(info: SessionInfo, prompts: Sequence[tuple[int, str]]) -> SessionInfo:
    """Return the metadata with what a kernel that died in its first turn could not store."""
    if info.turns != 0 or info.title or not prompts:
        return info
    _, text = prompts[0]
    return replace(info, turns=len(prompts), title=title_of(user(Text(text))))


def _rename(session: AnySession, entry: SessionEntry) -> None:
    """Store that the session's notebook has another path now. Never raises StoreError."""
    try:
        session.append(entry)
        session.update_metadata(notebook=entry.notebook)
    except StoreError as error:
        session.warnings.append(f"{error} The notebook's new name is not kept.")


def _bring_up(session: OpenSession, *, is_rebuilt: bool, is_owner: bool, has_gap: bool) -> None:
    """Store what a killed kernel left undone; say what is missing. Never raises StoreError."""
    try:
        if is_owner:
            session.clean()
        for entry in find_repairs(session.entries, has_gap=has_gap):
            session.append(entry)
        if is_rebuilt:
            session.update_metadata()
    except StoreError as error:
        session.warnings.append(f"{error} What is new is lost when the kernel stops.")
    if missing := session.missing_results():
        named = ", ".join(missing[:20]) + (", …" if len(missing) > 20 else "")
        session.warnings.append(f"The stored text of these results is gone: {named}.")


def _lock(folder: Path, wait_s: float = 0.0) -> tuple[SessionLock | None, list[str]]:
    """Return the lock of a session; None if it is held, or with a warning where none can be."""
    try:
        return SessionLock(folder, wait_s), []
    except BusyLockError:
        return None, []
    except OSError as error:
        reason = error.strerror or str(error)
        return None, [
            f"Session {folder.name} cannot be locked ({reason}): do not open it in two kernels."
        ]


def _relatives(infos: Sequence[SessionInfo]) -> Iterator[SessionInfo]:
    """Yield those that share an origin with the first and had turns the others do not have."""
    parents = {info.session_id: info.parent for info in infos}
    lines = {info.session_id: _line(info.session_id, parents) for info in infos}
    created = {info.session_id: info.created for info in infos}
    first = lines[infos[0].session_id]
    for info in infos[1:]:
        if lines[info.session_id][-1] != first[-1]:
            continue
        since = info.created
        if info.session_id in first:  # the copy that was made of it has all that came before
            since = created.get(first[first.index(info.session_id) - 1], since)
        if info.updated > since:
            yield info


def _line(session_id: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return a session, what it is a copy of, and so on; a circle in edited files ends."""
    line = [session_id]
    while (parent := parents.get(line[-1])) is not None and parent not in line:
        line.append(parent)
    return line


def _copy_session(folder: Path, entry: SessionEntry, info: SessionInfo) -> None:
    """Put a copy of the session, and `entry` after it, beside it in one step."""
    new = folder.with_name(entry.session_id)
    building = folder.with_name(f".{entry.session_id}")
    with store_errors(new):
        try:
            make_folder(building)
            _copy_lines(folder / TRANSCRIPT, building / TRANSCRIPT, entry)
            write_info(building / "metadata.json", info)
            os.rename(building, new)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise


def _copy_lines(source: Path, target: Path, entry: SessionEntry) -> None:
    """Copy the whole lines of a file that another process may be writing, then add `entry`."""
    out = open_new(target)
    try:
        with os.fdopen(open_regular(source), "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    write_all(out, line)
        write_all(out, dump_line(entry))
    finally:
        os.close(out)


def _in_memory(entries: Sequence[Entry], warnings: Sequence[str]) -> MemorySession:
    session_id = next(e.session_id for e in reversed(entries) if isinstance(e, SessionEntry))
    return MemorySession(build_info(session_id, entries), entries, warnings)


def _memory_warning(reason: str) -> str:
    return f"{reason} This session is kept in memory and is lost when the kernel stops."
