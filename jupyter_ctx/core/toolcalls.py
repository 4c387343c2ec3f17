"""The tool calls of one reply: asked for and run, their results ingested as one message.

They run in order, but for calls of `task` that stand together: those run side by side.

Rule: however it ends, every call of the reply gets exactly one result, in the order of the calls,
in the very next message; its fate is decided once and stored before the message is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import groupby

from ..errors import StoreError, ToolError
from .agents import TASK, Crew, TakeTurn
from .beside import Beside
from .blocks import Block, Text, ToolResult, ToolUse, user
from .edits import record_edits
from .engine import Engine
from .entries import FateEntry, MessageEntry
from .events import (
    CtxEvent,
    MemoryChanged,
    PlanChanged,
    ResultOffloaded,
    ToolFinished,
    ToolStarted,
)
from .hooked import CallHooks
from .offload import Decision, NewResult, cap_chars, finish, ingest
from .planning import record_plan
from .ports import Denied, SpooledText, ToolOutput, ToolSpec
from .repair import INTERRUPTED_TEXT

SHOWN_CHARS = 2_000
"""What `ToolFinished.text` shows of a result, in characters."""


@dataclass(slots=True)
class ToolCalls:
    """The calls of step `step` of turn `turn`; `interrupted` tells that Stop arrived in one.

    `take_turn` runs the turns of sub-agents.
    """

    engine: Engine
    turn: int
    step: int
    uses: Sequence[ToolUse]
    take_turn: TakeTurn
    interrupted: bool = False
    _crew: Crew | None = None
    _new: list[NewResult] = field(default_factory=list)
    _hooks: CallHooks = field(init=False)

    def __post_init__(self) -> None:
        self._hooks = CallHooks(self.engine)

    @property
    def ended_by(self) -> str | None:
        """Why a hook ends the turn behind these calls, None if none does."""
        return self._hooks.ended_by

    async def run(self) -> AsyncGenerator[CtxEvent, None]:
        """Run the calls and record all their results in one user message."""
        try:
            for is_task, group in groupby(self.uses, lambda use: use.name == TASK):
                uses = list(group)
                run = self._run_beside(uses) if is_task else self._run_in_order(uses)
                async with aclosing(run) as events:
                    async for event in events:
                        yield event
        finally:
            offloaded = self._record_results()
        for event in offloaded:
            yield event

    async def _run_in_order(self, uses: Iterable[ToolUse]) -> AsyncGenerator[CtxEvent, None]:
        for use in uses:
            async with aclosing(self._run_one(use)) as events:
                async for event in events:
                    yield event

    async def _run_beside(self, uses: Sequence[ToolUse]) -> AsyncGenerator[CtxEvent, None]:
        """Run calls of `task` at the same time; one that Stop arrives in ends them all."""
        beside = Beside()
        self._crew = Crew(self.engine, self.turn, self.step, self.take_turn, beside.tell)
        runs = [self._run_one(use) for use in uses]
        async with aclosing(beside.run(runs, lambda: self.interrupted)) as events:
            async for event in events:
                yield event

    async def _run_one(self, use: ToolUse) -> AsyncGenerator[CtxEvent, None]:
        """Run one call, unless it is denied or Stop came before it."""
        clock, spec = self.engine.ports.clock, self._spec_of(use)
        if self.interrupted or self.ended_by is not None:
            self._new.append(NewResult(use.id, use.name, spec, _not_run()))
            return
        denied = await self._denied(use)
        started = clock.monotonic()
        if denied is not None:
            output = self._redacted(ToolOutput(denied.message, is_error=True))
        else:
            yield ToolStarted(self.turn, self.step, use.id, use.name, use.input)
            output = await self._run_tool(use, spec)
        # Kept before it is told: whoever leaves the events here leaves a call that has run.
        self._new.append(NewResult(use.id, use.name, spec, output))
        if output.interrupted:
            self.interrupted = True
        yield self._finished(use, output, denied is not None, clock.monotonic() - started)
        for event in self._changes(use, output):
            yield event
        if denied is None and not output.interrupted and self._can_run(use):
            await self._hooks.after(use, output)

    def _spec_of(self, use: ToolUse) -> ToolSpec:
        """Return the tool's spec, or one for the result of a tool that does not exist."""
        specs = self.engine.ports.tools.specs
        found = (spec for spec in specs if spec.name == use.name)
        return next(found, ToolSpec(use.name, "", {}, reads_only=True))

    async def _denied(self, use: ToolUse) -> Denied | None:
        """Ask the hooks, then for permission; an unknown tool needs none, since it cannot run."""
        spec = self._spec_of(use)
        if not self._can_run(use):
            return None
        if (forbidden := await self._hooks.before(use)) is not None:
            return forbidden
        decision = await self.engine.ports.permissions.check(use, spec)
        return decision if isinstance(decision, Denied) else None

    def _can_run(self, use: ToolUse) -> bool:
        """Whether there is such a tool, here and in the session's frozen tools."""
        return self._spec_of(use) in self.engine.ports.tools.specs and self._is_told(use)

    async def _run_tool(self, use: ToolUse, spec: ToolSpec) -> ToolOutput:
        """Run one call; a ToolError is its result."""
        try:
            if spec in self.engine.ports.tools.specs and not self._is_told(use):
                raise ToolError(f"There is no tool `{use.name}` in this session.")
            cap = cap_chars(self.engine.room(), spec, len(self.uses))
            output = await self.engine.ports.tools.run(use, cap)
            if use.name == TASK and self._crew is not None and isinstance(output.text, str):
                output = await self._crew.run(use, output.text)
            record_edits(self.engine, self.turn, output.edits)
            if output.plan is not None:
                record_plan(self.engine, self.turn, output.plan, "agent", use.id)
        except ToolError as error:
            output = ToolOutput(str(error), is_error=True)
        return self._redacted(output)

    def _is_told(self, use: ToolUse) -> bool:
        """Whether the session's frozen tools have one of that name.

        A newer version has tools that a resumed session was not told of.
        """
        prefix = self.engine.transcript.prefix
        return prefix is not None and any(tool.get("name") == use.name for tool in prefix.tools)

    def _redacted(self, output: ToolOutput) -> ToolOutput:
        """Return the output without the program's keys; the file of a spooled text has none."""
        redactor, text = self.engine.ports.redactor, output.text
        if isinstance(text, SpooledText):
            text = replace(text, head=redactor.text(text.head), tail=redactor.text(text.tail))
        else:
            text = redactor.text(text)
        outputs = tuple(redactor.json(item) for item in output.outputs)
        mime_types = redactor.json(output.mime_types)
        return replace(output, text=text, outputs=outputs, mime_types=mime_types)

    def _finished(
        self, use: ToolUse, output: ToolOutput, denied: bool, seconds: float
    ) -> ToolFinished:
        text = output.text
        if isinstance(text, SpooledText):
            head, chars, lines = text.head[:SHOWN_CHARS], text.chars, text.lines
        else:
            head, chars = text[:SHOWN_CHARS], len(text)
            lines = text.count("\n") + bool(text)
        return ToolFinished(
            self.turn,
            self.step,
            use.id,
            use.name,
            head,
            output.is_error,
            denied,
            chars,
            lines,
            seconds,
            output.interrupted,
            len(output.images),
        )

    def _changes(self, use: ToolUse, output: ToolOutput) -> tuple[CtxEvent, ...]:
        """Return what a call changed beside the notebook: the plan, what is remembered."""
        plan = self.engine.transcript.plan
        events: list[CtxEvent] = []
        if plan is not None and plan.tool_use_id == use.id:
            events.append(PlanChanged(self.turn, plan.items, plan.by))
        if output.remembered:
            events.append(MemoryChanged(self.turn, output.remembered))
        return tuple(events)

    # The results --------------------------------------------------------------------------------

    def _record_results(self) -> list[CtxEvent]:
        """Decide the fates, store what is large, and record the results' message.

        A call that was not reached (the turn was cancelled) gets the result that says so.
        """
        engine = self.engine
        known = {new.tool_use_id: new for new in self._new}
        new = [
            known.get(u.id) or NewResult(u.id, u.name, self._spec_of(u), _not_run())
            for u in self.uses
        ]
        events: list[CtxEvent] = []
        content: list[Block] = []
        words, room = self._hooks.take_words(engine.room(), len(new))
        for decision in ingest(new, engine.transcript.fates, room):
            result, event = self._settle(decision)
            content.append(result)
            if event is not None:
                events.append(event)
        now = engine.ports.clock.now()
        engine.record(MessageEntry(now, self.turn, self.step, "results", user(*content, *words)))
        return events

    def _settle(self, decision: Decision) -> tuple[ToolResult, ResultOffloaded | None]:
        """Store one result as decided and return what the model sees of it."""
        engine, new = self.engine, decision.result
        path: str | None = None
        if decision.fate == "offload" or decision.keep_outputs:
            try:
                path = engine.ports.store.save_result(new.tool_use_id, new.tool, new.output)
            except StoreError as error:
                engine.warn_store(error)
        engine.record(
            FateEntry(
                engine.ports.clock.now(),
                new.tool_use_id,
                decision.fate,
                new.tool,
                decision.chars,
                decision.lines,
                path,
            )
        )
        result = finish(decision, path)
        if decision.fate != "offload":
            return result, None
        shown = sum(len(block.text) for block in result.content if isinstance(block, Text))
        return result, ResultOffloaded(
            self.turn, new.tool_use_id, new.tool, path, decision.chars, decision.lines, shown
        )


def _not_run() -> ToolOutput:
    """Return the result of a call that the stop came before."""
    return ToolOutput(INTERRUPTED_TEXT, is_error=True)
