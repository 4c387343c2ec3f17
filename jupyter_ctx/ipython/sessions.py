"""`/sessions` and `/resume`: what is stored, found by its words, deleted and restored."""

from __future__ import annotations

import ntpath
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..errors import PromptError, StoreError
from . import words
from .plaintext import one_line
from .reports import Report, Row, join, table

if TYPE_CHECKING:
    from ..store.metadata import SessionInfo
    from ..store.sessions import SessionStore
    from .commands import Host, Shown

MOST_ROWS = 20
"""So many sessions are listed at once."""
MOST_CANDIDATES = 8
"""So many sessions are named where `/resume` finds several."""
TITLE_CHARS = 60

State = Literal["", "here", "elsewhere", "deleted"]
STATE_TEXTS: dict[State, str] = {
    "": "",
    "here": "this one",
    "elsewhere": "in another kernel",
    "deleted": "deleted",
}


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One stored session as lists show it.

    `turns` and `cost_usd` are None where they are not known. `updated` is seconds since the epoch;
    of a deleted session it is when it was deleted. `found` says where the words searched for are,
    in which `turn` (None: of the title), and `excerpt` is one line around them.
    """

    id: str
    title: str
    notebook: str | None
    turns: int | None
    cost_usd: float | None
    updated: float
    state: State = ""
    found: Literal["", "title", "prompt", "text"] = ""
    turn: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """The newest sessions that were asked for; `total` is how many there are."""

    rows: tuple[SessionRow, ...]
    total: int


class Shelf:
    """The stored sessions as the kernel whose session is `current` sees them.

    Sessions that no prompt was ever sent in are left out. Every method raises StoreError.
    """

    def __init__(self, store: SessionStore, current: str | None) -> None:
        self._store = store
        self._current = current

    def find(self, text: str = "", *, full: bool = False, most: int = MOST_ROWS) -> Listed:
        """Return the newest `most` sessions whose title or a prompt has every word of `text`.

        With `full`, any message counts too. No words: all sessions.
        """
        rows = [
            replace(row_of(hit.info), found=hit.where, turn=hit.turn, excerpt=hit.excerpt)
            if text.strip()
            else row_of(hit.info)
            for hit in self._store.search(text, full=full)
            if hit.info.turns != 0 or hit.info.session_id == self._current
        ]
        return Listed(tuple(map(self._with_state, rows[:most])), len(rows))

    def ids(self) -> Sequence[str]:
        """Return the ids of all sessions, the newest first."""
        return [info.session_id for info in self._store.list()]

    def is_there(self, session_id: str) -> bool:
        """Say whether there is a session of that id, empty ones included."""
        return session_id in self.ids()

    def look(self, session_id: str) -> SessionRow:
        """Return one session with its state, whether or not a prompt was sent in it."""
        is_held = self._store.is_open(session_id)
        state: State = "here" if session_id == self._current else "elsewhere" if is_held else ""
        return replace(self._row(session_id), state=state)

    def delete(self, session_id: str) -> SessionRow:
        """Move a session to the trash; return it. Raises PromptError if it is open here."""
        if session_id == self._current:
            raise PromptError("This session is open here; `/new` starts another one first.")
        row = self._row(session_id)
        self._store.delete(session_id)
        return row

    def _row(self, session_id: str) -> SessionRow:
        infos = (info for info in self._store.list() if info.session_id == session_id)
        info = next(infos, None)
        return SessionRow(session_id, "", None, None, None, 0.0) if info is None else row_of(info)

    def restore(self, session_id: str) -> SessionRow:
        """Take a session out of the trash and return it."""
        return row_of(self._store.restore(session_id))

    def trashed(self) -> tuple[SessionRow, ...]:
        """Return the deleted sessions, the newest deleted first."""
        return tuple(
            replace(row_of(one.info), updated=one.at, state="deleted")
            for one in self._store.trashed()
        )

    def _with_state(self, row: SessionRow) -> SessionRow:
        if row.id == self._current:
            return replace(row, state="here")
        try:
            return replace(row, state="elsewhere" if self._store.is_open(row.id) else "")
        except StoreError:
            return row  # it was removed meanwhile: `load` says so


def row_of(info: SessionInfo) -> SessionRow:
    """Return a session as a row, without a state."""
    return SessionRow(
        info.session_id, info.title, info.notebook, info.turns, info.cost, info.updated
    )


# The commands -----------------------------------------------------------------------------------


def show_sessions(host: Host, argument: str) -> Shown:
    """List sessions, all or those that have the words; delete one, restore one, show the trash."""
    act, *rest = argument.split(maxsplit=1) or [""]
    rest_text = rest[0].strip() if rest else ""
    match act.lower():
        case "delete":
            return _delete(host, rest_text)
        case "restore":
            return _restore(host, rest_text)
        case "trash":
            return _shown(trash_report(host.sessions.trashed(), time.time()))
        case "full":
            if not rest_text:
                raise PromptError("/sessions full takes the words to search for.")
            listed = host.sessions.find(rest_text, full=True)
            return _shown(sessions_report(listed, time.time(), rest_text, full=True))
    listed = host.sessions.find(argument)
    return _shown(sessions_report(listed, time.time(), argument))


def find_session(
    shelf: Shelf, wanted: str, search: str = "/sessions full TEXT", take: str = "/resume ID"
) -> str:
    """Return the id of the one session that `wanted` names: its id, or words of title and prompts.

    `search` and `take` are the commands that go on from an error, as they are typed here.
    Raises PromptError if there is none, or names the candidates if there are several.
    """
    if shelf.is_there(wanted):
        return wanted
    listed = shelf.find(wanted, most=MOST_CANDIDATES + 1)
    rows = [row for row in listed.rows if row.state != "here"]
    if len(rows) == 1:
        return rows[0].id
    if not rows:
        if listed.rows:
            raise PromptError(f"Only the session that is open here has {_quoted(wanted)}.")
        raise PromptError(
            f"No session has that id, or {_quoted(wanted)} in its title or a prompt. "
            f"`{search}` searches every message."
        )
    now = time.time()
    named = [f"{row.id}  {_candidate(row, now)}" for row in rows[:MOST_CANDIDATES]]
    more = listed.total - len(listed.rows) + len(rows) - len(named)
    lead = f"{words.count(len(named) + more, 'session')} have {_quoted(wanted)}; `{take}` takes"
    rest = [f"and {more:,} more"] if more else []
    raise PromptError("\n".join([f"{lead} one of:", *named, *rest]))


def _delete(host: Host, session_id: str) -> Shown:
    if not session_id:
        raise PromptError("/sessions delete takes the id of a session; `/sessions` lists them.")
    row = host.sessions.delete(session_id)
    return _shown(
        join(
            f"Deleted: {_name(row)} ({session_id}). "
            f"/sessions restore {session_id} takes that back for 30 days."
        )
    )


def _restore(host: Host, session_id: str) -> Shown:
    if not session_id:
        deleted = host.sessions.trashed()
        if len(deleted) != 1:
            return _shown(trash_report(deleted, time.time()))
        session_id = deleted[0].id
    row = host.sessions.restore(session_id)
    return _shown(join(f"Restored: {_name(row)}. /resume {row.id} goes on with it."))


def session_choices(host: Host) -> Sequence[str]:
    """Return what `/sessions` takes, for completion."""
    shelf = host.sessions
    deletes = (f"delete {id_}" for id_ in shelf.ids())
    return ("full", "trash", *deletes, *(f"restore {row.id}" for row in shelf.trashed()))


# What they show ---------------------------------------------------------------------------------


def sessions_report(
    listed: Listed, now: float, text: str = "", *, full: bool = False, hint: bool = True
) -> Report:
    """Return the sessions as a table; with `text`, where each has its words.

    `hint`: say which commands go on from here.
    """
    if not listed.rows:
        where = "a message" if full else "its title or a prompt"
        more = " /sessions full TEXT searches every message." if hint and not full else ""
        return join(
            f"No session has {_quoted(text)} in {where}.{more}" if text else "No session is stored."
        )
    is_found = any(row.found for row in listed.rows)
    head: Row = ("Title", "Notebook", "Turns", "Cost", "Last used", "State", "Id")
    rows = [
        (*_cells(row, now), STATE_TEXTS[row.state], row.id, *([_found(row)] if is_found else []))
        for row in listed.rows
    ]
    left = listed.total - len(rows)
    return join(
        table((*head, "Found") if is_found else head, rows, right=len(head) + 1),
        f"{left:,} more; /sessions TEXT finds those with TEXT in title or prompts." if left else "",
        "/resume ID goes on with one; /sessions delete ID deletes one." if hint else "",
    )


def trash_report(rows: Sequence[SessionRow], now: float) -> Report:
    """Return the deleted sessions as a table."""
    if not rows:
        return join("The trash is empty.")
    head: Row = ("Title", "Notebook", "Turns", "Cost", "Deleted", "Id")
    return join(
        table(head, [(*_cells(row, now), row.id) for row in rows], right=len(head)),
        "/sessions restore ID takes one back. 30 days after it was deleted, each goes for good.",
    )


def when(at: float, now: float) -> str:
    """Return a time in the kernel's zone: "today 10:15", else "2026-11-30 10:15"."""
    try:
        day, today = time.localtime(at), time.localtime(now)
    except (OverflowError, ValueError, OSError):
        return "?"
    is_today = (day.tm_year, day.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("today %H:%M" if is_today else "%Y-%m-%d %H:%M", day)


def _cells(row: SessionRow, now: float) -> Row:
    return (
        _name(row),
        "" if row.notebook is None else one_line(ntpath.basename(row.notebook), TITLE_CHARS),
        "?" if row.turns is None else f"{row.turns:,}",
        words.money(row.cost_usd),
        when(row.updated, now),
    )


def _name(row: SessionRow) -> str:
    return one_line(row.title, TITLE_CHARS) or "(no prompt yet)"


def _candidate(row: SessionRow, now: float) -> str:
    turns = "" if row.turns is None else f", {words.count(row.turns, 'turn')}"
    state = f", {STATE_TEXTS[row.state]}" if row.state else ""
    return f"{_name(row)} ({when(row.updated, now)}{turns}{state})"


def _found(row: SessionRow) -> str:
    place = "title" if row.turn is None else f"turn {row.turn}"
    return f"{place}: {one_line(row.excerpt, 200)}" if row.found != "title" else place


def _quoted(text: str) -> str:
    return f"“{one_line(text, TITLE_CHARS)}”"


def _shown(report: Report) -> Shown:
    from .commands import Shown

    return Shown(*report)
