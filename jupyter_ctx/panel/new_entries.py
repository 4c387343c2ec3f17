"""What the newest entries of the session say that no event does, told to pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.blocks import ToolResult, tool_results
from ..core.entries import (
    EditEntry,
    EditUndoneEntry,
    Entry,
    MessageEntry,
    PlanEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from .calls import RefusedError
from .log import PanelLog
from .wire import Item, plan_changed, result_counted

if TYPE_CHECKING:
    from ..ipython.agent import Agent
    from ..session import Session


class NewEntries:
    """Tells of edits, undos, summaries, plans, rewinds and what results take, each once.

    Threads may ask at the same time; an entry is told by one of them.
    """

    def __init__(
        self, agent: Agent, log: PanelLog, tell: Callable[[Mapping[str, object]], None]
    ) -> None:
        self._agent = agent
        self._log = log
        self._tell = tell
        self._lock = threading.Lock()
        self._seen_entries = 0
        self._seen_session: str | None = None
        self._edited_by: dict[int, str] = {}

    def skip(self, session: Session) -> None:
        """Take all entries of `session` as told, and no other session's from now on."""
        self._seen_session = session.id
        self._seen_entries = len(session.transcript.entries)
        self._edited_by = {}

    def tell_new(self, tool_use_id: str = "") -> None:
        """Tell of the entries that came since the last time; edits are those of the call named."""
        session = self._agent.current
        if session is None or session.id != self._seen_session:
            return
        entries = session.transcript.entries
        with self._lock:
            new, self._seen_entries = entries[self._seen_entries :], len(entries)
        for entry in new:
            for item in self._changes_of(entry, tool_use_id):
                self._tell(item)

    def find_edit(self, tool_use_id: str | None) -> int | None:
        """Return the number of the edit a call made; None: the last one.

        Raises RefusedError if that call made none in this kernel's life.
        """
        if tool_use_id is None:
            return None
        found = [n for n, one in self._edited_by.items() if one == tool_use_id]
        if not found:
            raise RefusedError("gone", "Which edit this call made is not known any more.")
        return found[-1]

    def _changes_of(self, entry: Entry, tool_use_id: str) -> list[Item]:
        match entry:
            case EditEntry(n=n, turn=turn, edit=edit):
                self._edited_by[n] = tool_use_id
                is_cell = edit.kind == "cell"
                return [
                    {
                        "kind": "edit_made",
                        "turn": turn,
                        "tool_use_id": tool_use_id,
                        "cell_id": edit.target if is_cell else None,
                        "path": None if is_cell else edit.target,
                    }
                ]
            case MessageEntry(turn=turn, message=message):
                return self._counts_of(turn, tool_results(message))
            case EditUndoneEntry(n=n):
                return [{"kind": "edit_undone", "tool_use_id": self._edited_by.get(n, "")}]
            case SummaryEditEntry(n=n):
                return [{"kind": "summary_changed", "n": n, "condition": "edited"}]
            case SummaryUndoEntry(n=n):
                return [{"kind": "summary_changed", "n": n, "condition": "undone"}]
            case PlanEntry(turn=turn, items=items, by="user"):
                return [plan_changed(turn, items)]
            case RewindEntry(turn=turn):
                self._log.forget(turn)
                current = self._agent.current
                plan = () if current is None else current.plan
                return [{"kind": "rewound", "turn": turn}, plan_changed(turn, plan)]
            case _:
                return []

    def _counts_of(self, turn: int, results: Sequence[ToolResult]) -> list[Item]:
        session = self._agent.current
        if session is None or not results:
            return []
        count = session.estimate_tokens
        counts = self._agent.bridge.look(lambda: [count(result) for result in results])
        return [
            result_counted(turn, result.tool_use_id, tokens)
            for result, tokens in zip(results, counts, strict=True)
        ]
