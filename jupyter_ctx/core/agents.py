"""Sub-agents: each call of `task` is a turn of its own on the parent's prompt as it was last sent.

Law: a sub-agent's prompt is the parent's, the same objects in the same order, plus one user message
with its task; so it reads the parent's prompt from the cache, and thinking bound to that beginning
stays valid. What it says stays in a transcript of its own; the parent's gets its costs, its edits
and an AgentEntry, and the model the answer as the result of the call.

Those of one reply run side by side. What does not only read waits: from its first such call to its
end a sub-agent has the kernel and the notebook to itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from . import background
from .absent import NoMemory, NoUpdates
from .acting import Actor, acting
from .agentports import AgentHooks, AgentIds, AgentPermissions, AgentStore, AgentTools
from .blocks import ToolUse
from .edits import CODE_TOOLS
from .engine import Engine
from .entries import AgentEntry, Entry, MessageEntry
from .events import (
    ContextChanged,
    CtxEvent,
    NoteAdded,
    RetryScheduled,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from .moment import Moment
from .ports import ToolOutput
from .preview import clean_text
from .usage import Usage

TASK = "task"
"""The tool whose calls start sub-agents."""

MOST_AT_ONCE = 8
"""So many sub-agents of one reply run at the same time; the others wait their turn. Providers
refuse more requests at once with 429, and each holds a prompt in memory."""

FIRST_TURN = 1_000_000
"""Turns of sub-agents are numbered from here, so that no stored prompt has the name of a user's."""

STOPPED_TEXT = "The sub-agent was stopped before it answered."
EMPTY_TEXT = "The sub-agent ended without an answer ({reason}, {steps} steps)."
CUT_TEXT = "[The sub-agent's answer is not complete: {reason}.]"
FAILED_TEXT = "The sub-agent failed: {error}"
WHOLE_STOPS = frozenset({"end_turn", "stop_sequence"})

TakeTurn: TypeAlias = Callable[[Engine, str, int], AsyncGenerator[CtxEvent, None]]
"""Runs one turn: on that engine, with that prompt, under that number."""


@dataclass(slots=True)
class Crew:
    """The sub-agents of one reply of `parent`: step `step` of its turn `turn`.

    `tell` takes events of the parent's turn that they bring: progress, and that the cost has grown.
    """

    parent: Engine
    turn: int
    step: int
    take_turn: TakeTurn
    tell: Callable[[CtxEvent], None]
    code: asyncio.Lock = field(default_factory=asyncio.Lock)
    claims: dict[str, str] = field(default_factory=dict)
    _begun: int = 0
    _places: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE),
    )

    async def run(self, use: ToolUse, prompt: str) -> ToolOutput:
        """Run the sub-agent of one call to its end and return its answer.

        Cancelled, it ends as a turn does, and what comes back says so (`interrupted`).
        """
        async with self._places:
            self._begun += 1
            number = FIRST_TURN + len(self.parent.transcript.agents) + self._begun
            description = _one_line(str(use.input.get("description", "")))
            agent = _SubAgent(self, use, Actor(use.id, description), number)
            with acting(agent.actor):
                return await agent.run(prompt)


@dataclass(slots=True)
class _SubAgent:
    """One of them."""

    crew: Crew
    use: ToolUse
    actor: Actor
    number: int
    steps: int = 0
    ran: int = 0
    over: TurnFinished | None = None

    async def run(self, prompt: str) -> ToolOutput:
        """Run it to its end, whatever that is, and return what the model gets of it."""
        parent, crew = self.crew.parent, self.crew
        permissions = AgentPermissions(parent.ports.permissions, crew.code)
        started = Moment.of(parent.ports.clock)
        store = AgentStore.open(parent, self.actor.id, crew.turn)
        engine = self._make_engine(permissions, store)
        before, cost_before = engine.spent, engine.cost_usd
        words = parent.texts.agent.format(description=self.actor.description, prompt=prompt)
        try:
            async with aclosing(crew.take_turn(engine, words, self.number)) as events:
                async for event in events:
                    self._follow(engine, event)
        finally:
            permissions.release()
            await background.close(engine)
            store.close()
            cost = _difference(engine.cost_usd, cost_before)
            self._record_end(engine.spent - before, cost, started)
        return self._output()

    def _record_end(self, usage: Usage, cost_usd: float | None, started: Moment) -> None:
        clock = self.crew.parent.ports.clock
        self.crew.parent.record(
            AgentEntry(
                at=clock.now(),
                turn=self.crew.turn,
                agent_id=self.actor.id,
                description=self.actor.description,
                outcome=self.over.outcome if self.over else "stopped",
                steps=self.steps,
                seconds=started.since(clock),
                usage=usage,
                cost_usd=cost_usd,
                ran=self.ran,
            )
        )

    def _make_engine(self, permissions: AgentPermissions, store: AgentStore) -> Engine:
        """Return the engine of this sub-agent, its transcript begun.

        It compacts only where the window is short: it ends soon, so an account of what carrying
        costs in the long run does not hold for it; nor is anything prepared for later.
        """
        parent, limits = self.crew.parent, self.crew.parent.limits
        ports = parent.ports
        preset = "crush" if limits.compaction == "economic" else limits.compaction
        engine = parent.branch(
            _entries_as_sent(parent),
            replace(limits, compaction=preset, prepare_calls=0, prepare_idle_s=0.0),
            replace(
                ports,
                store=store,
                permissions=permissions,
                tools=AgentTools(ports.tools, parent, self.crew.turn),
                hooks=AgentHooks(ports.hooks, self.actor.id),
                memory=NoMemory(),
                updates=NoUpdates(),
            ),
        )
        engine.seen_ids = AgentIds(parent.seen_ids, self.crew.claims, self.actor.id)
        session = parent.transcript.session
        assert session is not None  # recorded before the first turn
        now = ports.clock.now()
        engine.record(replace(session, at=now, session_id=self.actor.id, parent=session.session_id))
        return engine

    def _follow(self, engine: Engine, event: CtxEvent) -> None:
        """Tell what the parent's turn should know of an event."""
        parent, crew = self.crew.parent, self.crew
        match event:
            case StepStarted(step=step):
                self.steps = step
                self._tell("thinking")
            case ToolStarted(name=name):
                self._tell(name)
            case ToolFinished(name=name, denied=False) if name in CODE_TOOLS:
                self.ran += 1
            case RetryScheduled(wait_s=wait):
                self._tell(f"waiting {wait:,.0f} s for the provider")
            case StepFinished():
                parent.requested = engine.requested  # it read the parent's prompt, which so stays
                crew.tell(ContextChanged(crew.turn))
            case NoteAdded(level=level, title=title, detail=detail):
                parent.note(level, f"Sub-agent ({self.actor.description}): {title}", detail)
            case TurnFinished():
                self.over = event
            case _:
                pass

    def _tell(self, doing: str) -> None:
        crew, text = self.crew, f"step {self.steps:,}: {doing}"
        crew.tell(ToolProgress(crew.turn, crew.step, self.use.id, self.use.name, text))

    def _output(self) -> ToolOutput:
        """Return what the model gets of it."""
        over = self.over
        if over is None or over.outcome == "stopped":
            return ToolOutput(STOPPED_TEXT, is_error=True, interrupted=True)
        if over.outcome == "failed":
            said = FAILED_TEXT.format(error=over.error)
            return ToolOutput(f"{said}\n\n{over.text}" if over.text else said, is_error=True)
        if not over.text.strip():
            said = EMPTY_TEXT.format(reason=over.stop_reason, steps=over.steps)
            return ToolOutput(said, is_error=True)
        if over.stop_reason in WHOLE_STOPS:
            return ToolOutput(over.text)
        return ToolOutput(f"{over.text}\n\n{CUT_TEXT.format(reason=over.stop_reason)}")


def _entries_as_sent(parent: Engine) -> list[Entry]:
    """Return the parent's entries up to its newest reply: the view of its last request."""
    entries = parent.transcript.entries
    newest = max(  # it is there: the calls are its own
        index
        for index, entry in enumerate(entries)
        if isinstance(entry, MessageEntry) and entry.kind == "reply"
    )
    return list(entries[:newest])


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def _one_line(text: str) -> str:
    return " ".join(clean_text(text).split())
