"""A session: one conversation that never ends, over whatever ports it is given.

`Session.run` and `Session.run_compaction` are generators of events for the loop that drives the
turn. `ask`, `turn` and `compact` are the same for a caller's own thread, through the Runner port.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from .callables import SessionHooks
from .config import Settings
from .core import background
from .core.answers import find_answer
from .core.attachments import Attachment
from .core.blocks import Block, title_of, user
from .core.budget import Budget
from .core.compaction_request import Attempt
from .core.context import find_context, find_cost
from .core.due import should_compact
from .core.edits import EditUndo, plan_undo_edit, title_of_edit, undo_edit
from .core.engine import CallOptions, Engine, EnginePorts, Texts
from .core.entries import (
    CompactionEntry,
    Entry,
    MessageEntry,
    ModelEntry,
    PrefixEntry,
    SessionEntry,
)
from .core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ContextChanged,
    CtxEvent,
    MemoryChanged,
    NoteAdded,
    TurnFinished,
)
from .core.history import UsagePoint, find_usage_points
from .core.hooked import end_session
from .core.loop import Turn
from .core.memory import MOST_FACT_CHARS, make_fact
from .core.names import find_missing
from .core.pins import plan_pin, plan_unpin
from .core.planning import record_plan
from .core.ports import (
    Cell,
    Fact,
    Model,
    ModelFacts,
    NotebookState,
    PlanItem,
    ToolSpec,
)
from .core.prefix import PrefixBreak
from .core.preparation import State
from .core.preview import clean_text, name_line
from .core.prompt import Prompt
from .core.recovery import RetryLimits
from .core.rewind import Rewind, plan_rewind, put_back_edits
from .core.summaries import Undo, plan_edit, plan_undo, summary_to_json
from .core.switch import Switch, find_speaker, plan_switch
from .core.toolset import describe_tools
from .core.transcript import Transcript
from .core.usage import Costs, Prices, Usage
from .core.window import Limits
from .errors import (
    AuthError,
    BusyError,
    CompactionError,
    CtxError,
    ModelError,
    PromptError,
    StoreError,
    UndoError,
)
from .export.items import early_cells
from .export.source import Exported, Source
from .ports import Place, Ports, Runner
from .prompts import load_prompt
from .results import Result, Results, SessionFile, TurnResult

T = TypeVar("T")

RUNNING = "A turn is running in this kernel; wait for it or stop it first."
STOPPED_BEFORE = "Stopped by you before the first step. Nothing was sent."
STOPPED_COMPACTION = "The compaction was stopped; nothing was changed."
STOPPED_UNDO = "Stopped by you; what was put back until then stays so."
STOPPED_DRIVE = "Stopped by you before it was done."
MEMORY_OFF = "Nothing is kept across sessions here: there is no folder for it."
REMEMBERED = "The user had this remembered for later sessions: {fact}"
FORGOTTEN = "The user took this out of the memory; it holds no more: {fact}"
FINISH_S = 1.0
"""How long what waits for a turn's end may take then, in seconds."""

__all__ = ["Place", "Ports", "Result", "Runner", "Session", "SessionFile", "TurnResult"]


class Session:
    """One conversation, its context and its cost."""

    def __init__(
        self, entries: Iterable[Entry], settings: Settings, place: Place, ports: Ports
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._place = place
        self._notices: list[str] = []
        self._remembered: list[tuple[str, ...]] = []
        self._budget_tokens = 0
        self._is_running = False
        self._is_compacting = False
        self._facts_loaded = False
        self._is_started = False
        self._retired: list[Model] = []
        self.last_turn: TurnResult | None = None
        names = ("summary", "resume", "memory", "agent")
        texts = Texts(*map(load_prompt, names))
        facts = ports.known_facts(ports.model.name)
        self._hooks = SessionHooks(ports.hooks, lambda: self.id)
        self._engine = Engine(
            entries,
            facts,
            Limits.of(settings),
            _options(settings, facts),
            texts,
            EnginePorts(
                model=ports.model,
                counter=ports.counter,
                tools=ports.tools,
                store=ports.store,
                clock=ports.clock,
                kernel=ports.kernel,
                permissions=ports.permissions,
                redactor=ports.redactor,
                hooks=self._hooks,
                memory=ports.memory,
                workspace=ports.workspace,
                updates=ports.updates,
                notebook=ports.notebook,
                files=ports.files,
                agents=ports.agents,
            ),
            self._prices_of,
        )
        self._begin()

    def _begin(self) -> None:
        """Record who the session is and its frozen prefix, if it is new; else only a switch."""
        engine, place, now = self._engine, self._place, self._ports.clock.now()
        transcript = engine.transcript
        if transcript.session is None:
            engine.record(
                SessionEntry(now, place.session_id, place.notebook, place.cwd, place.version)
            )
        if transcript.prefix is None and self._ports.start is None:
            engine.record(self._make_prefix(""))
        elif transcript.prefix is None:
            engine.meter.expect(self._make_prefix(""))
        if transcript.model != engine.ports.model.name:
            engine.record(ModelEntry(now, engine.ports.model.name))

    def _make_prefix(self, surroundings: str) -> PrefixEntry:
        """Return system prompt and tools; `surroundings` as `Start.describe` gives."""
        engine, place = self._engine, self._place
        system = load_prompt("system").format(
            cwd=name_line(place.cwd), platform=place.platform, date=place.date
        )
        if surroundings:
            system = f"{system.rstrip()}\n\n{surroundings.strip()}\n"
        system = clean_text(engine.ports.redactor.text(system))
        return PrefixEntry(self._ports.clock.now(), system, describe_tools(engine))

    # What it is ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id, the name of its folder in the store."""
        session = self.transcript.session
        return session.session_id if session else self._place.session_id

    @property
    def transcript(self) -> Transcript:
        """The record of the session. Not to be changed."""
        return self._engine.transcript

    @property
    def settings(self) -> Settings:
        """The settings in force. A new value counts at once, also for a turn under way.

        `model` and what belongs to a provider count at `switch_model` only.
        """
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings = settings
        self._engine.limits = Limits.of(settings)
        self._engine.options = _options(settings, self._engine.facts)

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model now; its window is the one in force."""
        return replace(self._engine.facts, window_tokens=self._engine.window)

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._engine.ports.model.name

    @property
    def is_running(self) -> bool:
        """A turn or a compaction is under way."""
        return self._is_running

    @property
    def state(self) -> str:
        """`idle`, `running`, `compacting` or `paused` (compaction paused after failures)."""
        if self._is_compacting:
            return "compacting"
        if self._engine.is_paused:
            return "paused"
        return "running" if self._is_running else "idle"

    @property
    def preparation(self) -> State:
        """Whether a summary is made beside the conversation: `none`, `running` or `ready`."""
        return background.find_state(self._engine)

    @property
    def total_usage(self) -> Usage:
        """The tokens of the whole session, compactions and discarded replies included."""
        return self._engine.spent

    @property
    def total_cost_usd(self) -> float | None:
        """What the session has cost; None once a call's price was not known."""
        return self._engine.cost_usd

    @property
    def total_costs(self) -> Costs | None:
        """The same by what is charged for, in USD."""
        return self._engine.costs

    @property
    def hooks(self) -> SessionHooks:
        """The session's hooks; Python callables are added here, for as long as this kernel lives.

        `session.hooks.add("PreToolUse", check, matcher="run_code")`; see `SessionHooks`.
        """
        return self._hooks

    @property
    def tool_specs(self) -> Sequence[ToolSpec]:
        """The tools there are here; those that the model knows of are frozen in the transcript."""
        return self._engine.ports.tools.specs

    def context(self) -> dict[str, object]:
        """Return what fills the window: the JSON of `/context` (DESIGN.md 2), tokens throughout."""
        return find_context(self._engine)

    def cost(self) -> dict[str, object]:
        """Return tokens by kind, money (None if a price is unknown) and each compaction's cost.

        `agents` are the sub-agents; what they cost is in the totals.

        `cache_misses` are those the provider told: `turn`, `step`, its `reason`, `tokens` (None if
        it did not say), and as `cause` the break we know of that explains it, else None.
        """
        return find_cost(self._engine)

    @property
    def prefix_breaks(self) -> tuple[PrefixBreak, ...]:
        """The steps whose prompt did not begin with the one before, with the cause, oldest first.

        Of this kernel's life: the first prompt of a resumed session is compared with none.
        """
        return tuple(self._engine.watch.breaks)

    def usage_history(self) -> tuple[UsagePoint, ...]:
        """Return how full the window was after each step and compaction, in tokens, oldest first.

        A reply whose usage the provider did not tell is left out.
        """
        return tuple(find_usage_points(self.transcript.entries))

    def find_compaction(self, n: int | None = None) -> CompactionEntry | None:
        """Return compaction `n`, the last one by default; None if there is none."""
        compactions = self.transcript.compactions
        if n is None:
            return compactions[-1] if compactions else None
        return next((entry for entry in compactions if entry.n == n), None)

    def summary(self, n: int | None = None) -> dict[str, object] | None:
        """Return compaction `n` as the JSON of `/summary` (DESIGN.md 2); None if there is none."""
        entry = self.find_compaction(n)
        return None if entry is None else summary_to_json(self.transcript, entry)

    def export(self, path: str | os.PathLike[str], *, over: bool = False) -> Exported:
        """Write the session to a file; its suffix says how: .ipynb, .md or .jsonl. Blocks.

        The program's own keys are out of it, known shapes too where `redact_known_keys` asks for
        that. Raises PromptError for another suffix; StoreError if the file is there (`over` writes
        over it) or cannot be written; BusyError while a turn runs.
        """
        exporter = self._ports.exporter
        if exporter is None:
            raise StoreError("This session is over ports that export nothing.")

        async def look() -> tuple[Sequence[Cell], NotebookState]:
            return await self._ports.kernel.load_cells(), await self._ports.notebook.load()

        cells, notebook = self._drive(look, BusyError("Stopped by you; nothing was exported."))
        source = Source(
            self.id,
            tuple(self.transcript.entries),
            self._ports.store,
            self._ports.redactor,
            self._place.version,
            cells,
            early_cells(notebook.cells, [cell.id for cell in cells]),
            {cell.id: cell.source for cell in notebook.cells},
        )
        return exporter.save(source, Path(os.path.abspath(path)), over=over)

    async def find_missing_names(self, n: int | None = None) -> tuple[str, ...]:
        """Return what summary `n` (the last one) names and the kernel has no more.

        Names first, then cells as `cell:ID`; as the kernel is now. Empty if there is no such
        compaction. For the loop that drives the turns.
        """
        entry = self.find_compaction(n)
        if entry is None:
            return ()
        kernel, notebook = self._ports.kernel, self._ports.notebook
        return await find_missing(entry.summary, self.transcript, kernel, notebook)

    def missing_names(self, n: int | None = None) -> tuple[str, ...]:
        """The same for a caller's own thread; blocks.

        Raises BusyError while a turn runs, or if it was stopped.
        """
        return self._drive(lambda: self.find_missing_names(n))

    @property
    def results(self) -> Results:
        """Every tool result by its `tool_use_id`: `.text`, `.outputs`, `.path`."""
        return Results(self.transcript, self._ports.store)

    def price(self, usage: Usage, model: str | None = None) -> float | None:
        """Return what the usage of one call costs in USD; None if the model has no known price.

        `model` None: the present one.
        """
        return self._engine.price(usage, model)

    def estimate_tokens(self, *blocks: Block) -> int:
        """Return about how many tokens `blocks` take as a message of their own.

        The estimate is that of the gauge: counted, times what the provider's figures have taught.
        """
        return self._engine.meter.estimate_message(user(*blocks))

    def read_prompt(self, turn: int, most_chars: int) -> str | None:
        """Return the beginning of a prompt that was too long to be sent whole, as it was typed.

        None if there is no such text.
        """
        try:
            with self._ports.store.open_text(f"prompt-{turn}") as file:
                return file.read(most_chars)
        except StoreError:
            return None

    def find_answer(self, cell_id: str, text: str) -> str | None:
        """Return the answer once given to the same text in the same cell, None if there is none."""
        asked = clean_text(self._ports.redactor.text(text))  # as the transcript has it
        return find_answer(self.transcript.entries, cell_id, asked)

    # What it does, on the loop ------------------------------------------------------------------

    def add_startup_note(self, text: str) -> None:
        """Tell the model something with the next prompt, as a notebook update."""
        self._notices.append(text)

    @property
    def budget_tokens(self) -> int:
        """The tokens the model is to write in each turn (DESIGN.md 5, Turn budget); 0: no budget.

        For this session in this kernel; a new value takes effect at the next turn.
        """
        return self._budget_tokens

    @budget_tokens.setter
    def budget_tokens(self, tokens: int) -> None:
        if tokens < 0:
            raise PromptError(f"A budget is a number of tokens, or 0 for none, not {tokens:,}.")
        self._budget_tokens = tokens

    async def run(
        self, text: str, *, cell_id: str | None = None, attachments: Iterable[Attachment] = ()
    ) -> AsyncGenerator[CtxEvent, None]:
        """Run one turn. For the loop that drives it; cancel its task to stop.

        `attachments` stand in front of the text, as far as there is room. Raises BusyError if a
        turn runs already and PromptError if `text` is blank.
        """
        if not text.strip():
            raise PromptError("The prompt is empty: write it behind `%agent`.")
        with self._busy():
            self._stop_watching()
            notices, self._notices = tuple(self._notices), []
            turn = Turn(
                self._engine,
                Prompt(text, notices, cell_id, tuple(attachments)),
                self.transcript.turn + 1,
                self._prepare,
                Budget(self.budget_tokens),
            )
            is_listed = False  # under its prompt, for whoever lists the sessions meanwhile
            try:
                async with aclosing(turn.run()) as events:
                    async for event in events:
                        if turn.is_recorded and not is_listed:
                            is_listed = True
                            self._save_metadata()
                        if isinstance(event, TurnFinished):
                            said = await self._finish_turn(event.turn)
                            self._save_metadata()  # before the end is told: then it is listed so
                            for note in (*said, *self._engine.take_notes()):
                                yield note
                        self._notice(event)
                        yield event
            finally:
                if not turn.is_recorded:
                    self._notices = [*notices, *self._notices]
            if self.last_turn is not None and self.last_turn.outcome != "failed":
                background.try_to(background.watch, self._engine)

    async def _finish_turn(self, turn: int) -> list[NoteAdded]:
        """Do what had to wait for the turn's end; return what the user should know of it.

        It has 1 s: a turn that was stopped must end within 2 s.
        """
        try:
            async with asyncio.timeout(FINISH_S):
                said = await self._ports.finish_turn()
        except TimeoutError:
            said = ["The front end did not answer at the end of the turn."]
        return [NoteAdded(turn, "warning", text) for text in said]

    async def run_compaction(self, focus: str = "") -> AsyncGenerator[CtxEvent, None]:
        """Compact now, because the user asked; there is one CompactionFinished or CompactionFailed.

        Raises BusyError if a turn runs, AuthError if the provider takes no key of ours.
        """
        with self._busy():
            self._stop_watching()
            focus = clean_text(self._ports.redactor.text(focus))
            attempt = Attempt(self.transcript.turn, "manual", focus)
            async with aclosing(self._stoppable(self._compact(attempt))) as events:
                async for event in events:
                    self._notice(event)
                    yield event
            for note in self._engine.take_notes():
                yield note
            self._save_metadata()
            yield ContextChanged(self.transcript.turn)

    async def _compact(self, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
        await self._prepare()
        async with aclosing(background.compact_anew(self._engine, attempt)) as events:
            async for event in events:
                yield event

    async def _stoppable(
        self, compaction: AsyncGenerator[CtxEvent, None]
    ) -> AsyncGenerator[CtxEvent, None]:
        """Pass a compaction's events on; one that is stopped has failed, and said so."""
        is_over = False
        try:
            async with aclosing(compaction) as events:
                async for event in events:
                    is_over = is_over or isinstance(event, CompactionFinished | CompactionFailed)
                    yield event
        except asyncio.CancelledError:
            if is_over:  # only what comes after it was stopped
                return
            engine = self._engine
            failures = engine.transcript.failures_in_a_row
            yield CompactionFailed(
                engine.transcript.turn, STOPPED_COMPACTION, failures, engine.is_paused
            )

    def _stop_watching(self) -> None:
        """Leave the time between turns; a summary prepared for what is no longer so is given up."""
        background.stop_watching(self._engine)
        background.drop_stale(self._engine)

    def _busy(self) -> _Busy:
        if self._is_running:
            raise BusyError(RUNNING)
        return _Busy(self)

    def _notice(self, event: CtxEvent) -> None:
        """Keep what the session itself shows of an event."""
        match event:
            case MemoryChanged(facts=facts, is_undone=False):
                self._remembered.append(facts)
            case CompactionStarted():
                self._is_compacting = True
            case CompactionFinished() | CompactionFailed():
                self._is_compacting = False
            case TurnFinished():
                self._is_compacting = False
                self.last_turn = TurnResult(
                    event.text,
                    self._cells_of(event.turn),
                    event.usage,
                    event.stop_reason,
                    event.outcome,
                    event.error,
                )
            case _:
                pass

    def _cells_of(self, turn: int) -> tuple[str, ...]:
        """Return the cells that the turn changed, each once."""
        edits = (entry for entry in self.transcript.edits if entry.turn == turn)
        return tuple(dict.fromkeys(e.edit.target for e in edits if e.edit.kind == "cell"))

    async def _prepare(self) -> None:
        """Do what must be done before the first request: ask about the model, begin the session.

        Raises AuthError if the provider takes no key of ours.
        """
        await self._load_facts()
        start = self._ports.start
        if self._is_started or start is None:
            return
        for said in await start.connect():
            self._engine.note("warning", said)
        if self.transcript.prefix is None:
            self._engine.record(self._make_prefix(await start.describe()))
        self._is_started = True

    async def _load_facts(self) -> None:
        """Ask the provider about the model, once; go on without an answer unless the key is bad."""
        await self._close_retired()
        if self._facts_loaded:
            return
        engine = self._engine
        try:
            facts = await engine.ports.model.load_facts()
        except AuthError:
            raise
        except ModelError:
            return  # the call itself meets the same fault, with retries, and reports it
        self._ports.keep_facts(facts)
        engine.use_facts(facts, _options(self._settings, facts))
        self._facts_loaded = True

    async def aclose(self) -> None:
        """Stop what it prepares and close its models' connections, on the loop of its turns.

        The SessionEnd hooks have 1 s.
        """
        await background.close(self._engine)
        with contextlib.suppress(TimeoutError):  # a hook that takes longer is ended
            async with asyncio.timeout(FINISH_S):
                await end_session(self._engine)
        for close in self._ports.closers:
            await close()
        await self._close_retired()
        await self._engine.ports.model.aclose()

    async def _close_retired(self) -> None:
        while self._retired:
            await self._retired.pop().aclose()

    def _prices_of(self, model: str | None) -> Prices | None:
        return None if model is None else self._ports.known_facts(model).prices

    def _save_metadata(self) -> None:
        usage = self.total_usage
        try:
            self._ports.store.update_metadata(
                title=next(map(title_of, self.transcript.prompts.values()), ""),
                model=self.model_name,
                tokens=(usage.input_tokens or 0) + (usage.output or 0),
                cost=self.total_cost_usd,
                updated=self._ports.clock.now(),
                turns=len(self.transcript.prompts),
            )
        except StoreError as error:
            self._engine.warn_store(error)

    # What it does, for a caller's thread --------------------------------------------------------

    def ask(
        self,
        text: str,
        *,
        cell_id: str | None = None,
        attachments: Iterable[Attachment] = (),
        on_event: Callable[[CtxEvent], None] | None = None,
    ) -> TurnResult:
        """Run one turn and return it; blocks. A failed or stopped turn is returned, not raised.

        The text is sent as it is: `@name` is a mention in a `%agent` cell only, not here. What is
        to be seen with it are `attachments`, texts and images.

        Raises BusyError if a turn runs already, or if this one was stopped before it began.
        """
        show = on_event or (lambda event: None)
        before = self.last_turn
        attached = tuple(attachments)
        self._ports.runner.run(lambda: self.run(text, cell_id=cell_id, attachments=attached), show)
        if self.last_turn is None or self.last_turn is before:
            raise BusyError(STOPPED_BEFORE)
        return self.last_turn

    def turn(self, text: str) -> AsyncIterator[CtxEvent]:
        """Run one turn, yielding its events to the awaiting thread, where its tools run too."""
        return self._ports.runner.iterate(lambda: self.run(text))

    def compact(
        self, focus: str = "", *, on_event: Callable[[CtxEvent], None] | None = None
    ) -> CompactionEntry:
        """Compact now and return the compaction; blocks. Raises CompactionError if none came."""
        last: list[CtxEvent] = []

        def see(event: CtxEvent) -> None:
            if isinstance(event, CompactionFinished | CompactionFailed):
                last.append(event)
            if on_event is not None:
                on_event(event)

        self._ports.runner.run(lambda: self.run_compaction(focus), see)
        match last:
            case [CompactionFinished(n=n)]:
                entry = self.find_compaction(n)
                assert entry is not None  # it was just recorded
                return entry
            case [CompactionFailed(reason=reason)]:
                raise CompactionError(reason)
            case _:
                raise CompactionError(STOPPED_COMPACTION)

    def cancel(self) -> None:
        """Stop the running turn, from any thread; nothing if none runs."""
        self._ports.runner.cancel()

    def try_now(self, turn: int, step: int, attempt: int) -> bool:
        """End the wait before a try that `RetryScheduled` told of, from any thread.

        Returns False if it is over. The tries are counted as if it had been waited for.
        """
        return self._engine.pauses.end(turn, step, attempt)

    def plan_switch(self, name: str, *, checks: bool = True) -> Switch:
        """Return what `switch_model` would do and take; changes nothing and asks nobody.

        Raises ConfigError if there can be no such model here (looked at if `checks`), or the
        setting `prices` cannot be used for it.
        """
        if checks:
            self._ports.make_model(name)
        return plan_switch(self._engine, self._ports.known_facts(name))

    @property
    def last_speaker(self) -> str | None:
        """The model that wrote the last answer of the conversation as it is, None if none did."""
        return find_speaker(self._engine)

    def has_heard(self, model: str) -> bool:
        """Say whether that model wrote an answer of this session."""
        entries = self.transcript.entries
        return any(isinstance(one, MessageEntry) and one.model == model for one in entries)

    def switch_model(self, name: str) -> None:
        """Talk to model `name` from the next turn on; the whole prompt is then written anew.

        Raises ConfigError or AuthError if it cannot be used; BusyError while a turn runs.
        """
        if self._is_running:
            raise BusyError("A turn is running; switch the model when it has ended.")
        model = self._ports.make_model(name)
        facts = self._ports.known_facts(model.name)
        engine = self._engine
        background.drop(engine, background.STALE)
        self._retired.append(engine.ports.model)
        engine.ports = replace(engine.ports, model=model)
        engine.use_facts(facts, _options(self._settings, facts))
        self._facts_loaded = False
        if engine.transcript.model != model.name:
            engine.record(ModelEntry(self._ports.clock.now(), model.name))

    # Summaries ----------------------------------------------------------------------------------

    def plan_undo(self, n: int | None = None) -> Undo:
        """Return what `undo_summary` would bring back and what it takes; changes nothing.

        Raises PromptError if `n` is not the newest in force; that it does not fit stands in
        `refusal`.
        """
        return plan_undo(self._engine, n)

    def undo_summary(self, n: int | None = None) -> Undo:
        """Undo compaction `n`, None: the newest in force. The log from before comes back as it was.

        What was said since stays behind it. Raises PromptError if it is not the newest in force,
        CompactionError if the log would not fit the window, BusyError while a turn runs.
        """
        with self._busy():
            undo = plan_undo(self._engine, n)
            if undo.refusal:
                raise CompactionError(undo.refusal)
            self._engine.record(undo.entry)
            background.drop_stale(self._engine)
            return undo

    def edit_summary(self, text: str) -> CompactionEntry:
        """Put `text` in place of the newest summary in force, from the next request on.

        Returns the compaction as it is now. Raises PromptError if there is none, or the text is
        blank or too long, and BusyError while a turn runs.
        """
        with self._busy():
            entry = plan_edit(self._engine, text)
            self._engine.record(entry)
            background.drop_stale(self._engine)
            edited = self.find_compaction(entry.n)
            assert edited is not None  # it was in force
            return edited

    @property
    def is_compaction_due(self) -> bool:
        """A compaction comes before the next call."""
        return should_compact(self._engine)

    # Rewind -------------------------------------------------------------------------------------

    def plan_rewind(self, turn: int) -> Rewind:
        """Return what `rewind` would take out and what it takes; changes nothing.

        Raises PromptError if `turn` is not in the conversation; that what comes back does not fit
        stands in `refusal`.
        """
        return plan_rewind(self._engine, turn)

    def rewind(self, turn: int) -> Rewind:
        """Go back to before user turn `turn`: the conversation is again what it was then; blocks.

        Compactions since are undone, and edits of cells and files since are put back, newest first;
        those that cannot be stand in `not_put_back`. Pins, the budget and what code did in the
        user's kernel stay as they are. Turns go on being counted from where they were. Raises
        PromptError if `turn` is not in the conversation, CompactionError if what comes back would
        not fit the window, BusyError while a turn runs.
        """
        with self._busy():
            plan = self._check_rewind(turn)
            if not plan.edits:
                return self._rewound(plan)
        return self._drive(lambda: self.run_rewind(turn), UndoError(STOPPED_UNDO))

    async def run_rewind(self, turn: int) -> Rewind:
        """The same for the loop that drives the turns."""
        with self._busy():
            plan = self._check_rewind(turn)
            return self._rewound(await put_back_edits(self._engine, plan, self._load_text))

    def _check_rewind(self, turn: int) -> Rewind:
        rewind = plan_rewind(self._engine, turn)
        if rewind.refusal:
            raise CompactionError(rewind.refusal)
        return rewind

    def _rewound(self, rewind: Rewind) -> Rewind:
        self._engine.record(rewind.entry)
        background.drop_stale(self._engine)
        return rewind

    # Undo of edits --------------------------------------------------------------------------------

    def plan_undo_edit(self, n: int | None = None) -> EditUndo:
        """Return what `undo` would put back; changes nothing, and looks at no cell or file.

        Raises PromptError if there is no such edit, UndoError if its text is not known any more.
        """
        return plan_undo_edit(self._engine, n, self._load_text)

    def undo(self, n: int | None = None) -> EditUndo:
        """Put back edit `n` of the agent, None: its last one that is not undone; blocks.

        The cell or file is then exactly as it was before, and the next prompt tells the model.
        Raises PromptError if there is no such edit; UndoError if what stands there is not what the
        agent left, or it cannot be put back (nothing is changed then); BusyError while a turn runs.
        """
        return self._drive(lambda: self.run_undo(n), UndoError(STOPPED_UNDO))

    async def run_undo(self, n: int | None = None) -> EditUndo:
        """The same for the loop that drives the turns."""
        with self._busy():
            return await undo_edit(self._engine, n, self._load_text)

    def title_of_edit(self, n: int) -> str:
        """Return what edit `n` of the agent is, as in "the edit of cell `c1`"; "" if unknown."""
        edits = (entry.edit for entry in self.transcript.edits if entry.n == n)
        return next((title_of_edit(self._engine, edit) for edit in edits), "")

    def _load_text(self, name: str) -> str:
        return self._ports.store.read_text(name)

    def _drive(
        self,
        act: Callable[[], Awaitable[T]],
        stopped: CtxError | None = None,
        tell: Callable[[T], Sequence[CtxEvent]] = lambda made: (),
    ) -> T:
        """Do something on the loop of the turns and return its result; blocks.

        Raises BusyError while a turn runs, and `stopped`, or a BusyError, if it was stopped.
        """
        made: list[T] = []

        async def drive() -> AsyncGenerator[CtxEvent, None]:
            made.append(await act())
            for event in tell(made[0]):
                yield event

        if self._is_running:
            raise BusyError(RUNNING)
        self._ports.runner.run(drive, lambda event: None)
        if not made:
            raise stopped or BusyError(STOPPED_DRIVE)
        return made[0]

    # Pins ---------------------------------------------------------------------------------------

    @property
    def pins(self) -> Mapping[int, str]:
        """The texts that hold until they are taken off, by number. Not to be changed."""
        return self.transcript.pins

    def pin(self, text: str) -> int:
        """Keep `text` verbatim through every compaction and return its number, from 1.

        The next prompt tells the model. Raises PromptError if the text is blank or too long, and
        BusyError while a turn runs.
        """
        with self._busy():
            entry = plan_pin(self._engine, text)
            self._engine.record(entry)
            return entry.n

    def unpin(self, n: int) -> str:
        """Take pin `n` off and return its text; the next prompt tells the model.

        Raises PromptError if there is no such pin, and BusyError while a turn runs.
        """
        with self._busy():
            entry, text = plan_unpin(self._engine, n)
            self._engine.record(entry)
            return text

    # Plan and memory ----------------------------------------------------------------------------

    @property
    def plan(self) -> tuple[PlanItem, ...]:
        """The plan as it is now, in order; empty: there is none."""
        plan = self.transcript.plan
        return () if plan is None else plan.items

    def edit_plan(self, items: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
        """Put `items` in place of the plan and return it as it is kept; none: there is no plan.

        The next prompt tells the model. Raises BusyError while a turn runs.
        """
        with self._busy():
            return record_plan(self._engine, self.transcript.turn, items, "user").items

    @property
    def memory_place(self) -> str:
        """Where the memory lies, "" if nothing is kept."""
        return self._ports.memory.place if self._ports.memory.is_on else ""

    @property
    def remembered(self) -> tuple[str, ...]:
        """What was kept last since the kernel started, and not taken out again; () if nothing."""
        return self._remembered[-1] if self._remembered else ()

    def load_memory(self) -> tuple[Fact, ...]:
        """Return what is kept across sessions, the oldest first; blocks. Raises StoreError."""
        return self._drive(self.run_load_memory)

    async def run_load_memory(self) -> tuple[Fact, ...]:
        """The same for the loop that drives the turns."""
        return tuple(await self._ports.memory.load())

    def remember(self, text: str) -> tuple[str, ...]:
        """Keep a fact for later sessions; blocks. Returns it as it is kept, () if it was known.

        The next prompt tells the model. Raises PromptError if it is blank or too long, or memory is
        off; StoreError if it cannot be kept; BusyError while a turn runs.
        """
        return self._drive(lambda: self.run_remember(text), tell=self._memory_events)

    async def run_remember(self, text: str) -> tuple[str, ...]:
        """The same for the loop that drives the turns."""
        if not self._ports.memory.is_on:
            raise PromptError(MEMORY_OFF)
        fact = make_fact(self._ports.redactor.text(text))
        if not fact:
            raise PromptError(f"A fact is one sentence of at most {MOST_FACT_CHARS:,} characters.")
        kept = tuple(await self._ports.memory.add([fact]))
        self._remembered += [kept] if kept else []
        self._notices += [REMEMBERED.format(fact=fact) for fact in kept]
        return kept

    def forget(self, facts: Sequence[str]) -> tuple[str, ...]:
        """Take facts out of the memory and return those that were there; blocks.

        The next prompt tells the model. Raises StoreError if it cannot be written, and BusyError
        while a turn runs.
        """
        return self._drive(
            lambda: self.run_forget(facts),
            tell=lambda gone: self._memory_events(gone, is_undone=True),
        )

    def _memory_events(
        self, facts: tuple[str, ...], *, is_undone: bool = False
    ) -> Sequence[CtxEvent]:
        return (MemoryChanged(self.transcript.turn, facts, is_undone),) if facts else ()

    async def run_forget(self, facts: Sequence[str]) -> tuple[str, ...]:
        """The same for the loop that drives the turns, also while one runs."""
        gone = tuple(await self._ports.memory.remove(facts))
        left = [tuple(fact for fact in kept if fact not in facts) for kept in self._remembered]
        self._remembered = [kept for kept in left if kept]
        self._notices += [FORGOTTEN.format(fact=fact) for fact in gone]
        return gone

    def take_notes(self) -> list[NoteAdded]:
        """Return notes that no turn has told yet (a store that cannot be written, say)."""
        return [
            note
            if isinstance(note, NoteAdded)
            else NoteAdded(note.turn, "info", f"Remembered: {' · '.join(note.facts)}")
            for note in self._engine.take_notes()
        ]


@dataclass(slots=True)
class _Busy:
    """Marks the session as running; leaves it idle however the turn ends."""

    session: Session

    def __enter__(self) -> None:
        self.session._is_running = True

    def __exit__(self, *exc: object) -> None:
        self.session._is_running = False
        self.session._is_compacting = False


def _options(settings: Settings, facts: ModelFacts) -> CallOptions:
    """Return how requests are made with this model."""
    adaptive = settings.thinking == "adaptive" or (
        settings.thinking == "auto" and facts.adaptive_thinking
    )
    most = facts.max_output_tokens
    wanted = settings.output_tokens_thinking if adaptive else settings.output_tokens
    raised = settings.output_tokens_raised
    return CallOptions(
        prompt_cache=settings.prompt_cache,
        cache_ttl=settings.cache_ttl,
        thinking="adaptive" if adaptive else "off",
        effort=settings.effort or None,
        output_tokens=min(wanted, most) if most else wanted,
        output_tokens_raised=min(raised, most) if most else raised,
        retry=RetryLimits(
            tries=settings.retries,
            first_s=settings.retry_first_s,
            most_s=settings.retry_most_s,
            all_s=settings.retry_all_s,
            connect_tries=settings.connect_retries,
            connect_all_s=settings.connect_all_s,
        ),
    )
