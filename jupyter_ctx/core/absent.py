"""Ports of what a session may do without: hooks, memory, workspace, notebook, updates, files.

And the transcripts of sub-agents, which nothing needs but who reads them later.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ToolError
from .blocks import Json
from .entries import Entry
from .ports import (
    AgentLog,
    Applied,
    CellChange,
    EditedFile,
    Fact,
    HookName,
    HookOutcome,
    NotebookState,
    PlanItem,
    Skill,
    Update,
)


class NoHooks:
    """No hook is set."""

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Return an outcome that decides nothing."""
        return HookOutcome()


class NoMemory:
    """Nothing is kept across sessions."""

    is_on = False
    place = ""

    async def load(self) -> Sequence[Fact]:
        """Return nothing."""
        return ()

    async def add(self, facts: Sequence[str]) -> Sequence[str]:
        """Keep nothing."""
        return ()

    async def remove(self, facts: Sequence[str]) -> Sequence[str]:
        """Find nothing to take out."""
        return ()


class NoWorkspace:
    """There is neither plan nor skill nor edited file."""

    async def load_plan(self) -> Sequence[PlanItem]:
        """Return no plan."""
        return ()

    async def load_skills(self) -> Sequence[Skill]:
        """Return no skill."""
        return ()

    async def load_files(self) -> Sequence[EditedFile]:
        """Return no file."""
        return ()


class NoUpdates:
    """Nobody watches what changes between turns."""

    async def load(self, seen: Json | None, most_chars: int) -> Update:
        """Return no change; what was known stays so."""
        return Update("", seen or {})

    def note_told(self, text: str) -> None:
        """Do nothing."""


class NoNotebook:
    """There is no document: nothing is seen of one, and nothing can be changed in it."""

    async def load(self, outputs_of: Sequence[str] = ()) -> NotebookState:
        """Return a notebook without cells."""
        return NotebookState((), "kernel")

    async def apply(self, change: CellChange) -> Applied:
        """Raise ToolError."""
        raise ToolError("Not applied: there is no notebook here.")


class NoFiles:
    """There is no project: no file can be changed."""

    async def put(self, path: str, wanted: Json | None, expected: Json | None) -> None:
        """Raise ToolError."""
        raise ToolError("Not changed: there is no project folder here.")

    def name(self, path: str) -> str:
        """Return the path."""
        return path


class NoAgentLog:
    """The transcript of a sub-agent is not kept."""

    def append(self, entry: Entry) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Do nothing."""


class NoAgents:
    """No transcript of a sub-agent is kept."""

    def open_agent(self, agent_id: str) -> AgentLog:
        """Return one that keeps nothing."""
        return NoAgentLog()
