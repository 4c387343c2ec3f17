"""The world as a sub-agent sees it: the parent's ports, with what a sub-agent may not do refused.

Its tools have the parent's specs, byte for byte; its results go to the parent's store; its entries
to a transcript of its own. What it spends and edits is recorded with the parent as it happens, so
that a process that is killed has lost nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..errors import StoreError
from .absent import NoAgentLog
from .blocks import Json, ToolUse
from .edits import record_edits
from .engine import Engine
from .entries import CompactionEntry, CompactionFailedEntry, Entry, MessageEntry, SpentEntry
from .ports import (
    AgentLog,
    Allowed,
    Denied,
    HookName,
    HookOutcome,
    Hooks,
    Permissions,
    ToolOutput,
    ToolRunner,
    ToolSpec,
)
from .usage import Usage

REFUSED = frozenset({"task", "update_plan", "remember"})
"""Tools of the conversation itself: a sub-agent's calls of them are refused."""

REFUSED_TEXT = (
    "A sub-agent cannot use `{name}`: it is for the conversation itself. Do the task with the "
    "other tools, and say in your last message what should be done with it."
)

HOOKS_HEARD: frozenset[HookName] = frozenset(
    ("PreToolUse", "PostToolUse", "PreCompact", "PostCompact")
)
"""Hooks that run within a sub-agent too; the others are about the user's own turns."""


@dataclass(slots=True)
class AgentPermissions:
    """The parent's permissions; before the first call that does not only read, waits for `code`."""

    inner: Permissions
    code: asyncio.Lock
    _holds: bool = False

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        """Return the parent's decision for this call, once it may run at all."""
        if use.name in REFUSED:
            return Denied(REFUSED_TEXT.format(name=use.name))
        if not spec.reads_only and not self._holds:
            await self.code.acquire()
            self._holds = True
        return await self.inner.check(use, spec)

    def release(self) -> None:
        """The sub-agent has ended: the next may run code."""
        if self._holds:
            self._holds = False
            self.code.release()


@dataclass(frozen=True, slots=True)
class AgentTools:
    """The parent's tools; what they edit is recorded with the parent, in its turn `turn`."""

    inner: ToolRunner
    parent: Engine
    turn: int

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Those of the parent."""
        return self.inner.specs

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        """Run one call. Raises ToolError, as the parent's tools do."""
        output = await self.inner.run(use, cap_chars)
        record_edits(self.parent, self.turn, output.edits)
        return replace(output, edits=())


@dataclass(frozen=True, slots=True)
class AgentHooks:
    """The parent's hooks around tools and compactions."""

    inner: Hooks
    agent_id: str

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Run the hooks of event `name`, if it is one that a sub-agent has; they get its id."""
        if name not in HOOKS_HEARD:
            return HookOutcome()
        return await self.inner.run(name, {**payload, "agent_id": self.agent_id})


@dataclass(frozen=True, slots=True)
class AgentStore:
    """Where a sub-agent's session lives: entries in `log`, results and texts with the parent."""

    log: AgentLog
    parent: Engine
    agent_id: str
    turn: int

    @classmethod
    def open(cls, parent: Engine, agent_id: str, turn: int) -> AgentStore:
        """Return the store of a new sub-agent; without a disk for it, its entries are not kept."""
        try:
            log = parent.ports.agents.open_agent(agent_id)
        except StoreError as error:
            parent.warn_store(error)
            log = NoAgentLog()
        return cls(log, parent, agent_id, turn)

    def append(self, entry: Entry) -> None:
        """Write one entry; what it cost is recorded with the parent first. Raises StoreError."""
        if (usage := _usage_of(entry)) is not None:
            at, reason = self.parent.ports.clock.now(), f"sub-agent {self.agent_id}"
            self.parent.record(SpentEntry(at, self.turn, usage, reason))
        self.log.append(entry)

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Store a result in the parent's store. Raises StoreError."""
        return self.parent.ports.store.save_result(tool_use_id, tool, output)

    def save_text(self, name: str, text: str) -> str:
        """Store a text in the parent's store. Raises StoreError."""
        return self.parent.ports.store.save_text(name, text)

    def close(self) -> None:
        """Close the log; what could not be written is a warning of the parent."""
        try:
            self.log.close()
        except StoreError as error:
            self.parent.warn_store(error)


def _usage_of(entry: Entry) -> Usage | None:
    match entry:
        case MessageEntry(usage=usage) | CompactionEntry(usage=usage):
            return usage
        case CompactionFailedEntry(usage=usage) | SpentEntry(usage=usage):
            return usage
        case _:
            return None


class AgentIds(set[str]):
    """The ids of calls that a sub-agent may not use: the session's, and those of its siblings.

    Results lie in one store, and some servers give the same ids to every conversation. Asked about
    an id that is free, it keeps it for this sub-agent (`claims`: whose each is).
    """

    def __init__(self, taken: set[str], claims: dict[str, str], owner: str) -> None:
        super().__init__()
        self._taken = taken
        self._claims = claims
        self._owner = owner

    def __contains__(self, id_: object) -> bool:
        if id_ in self._taken or not isinstance(id_, str):
            return True
        return self._claims.setdefault(id_, self._owner) != self._owner

    def update(self, *others: Iterable[str]) -> None:
        """Note ids as taken in the whole session."""
        self._taken.update(*others)
