"""A summary prepared beside the conversation: when it begins, when it counts, what it replaces."""

import asyncio
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core import background
from jupyter_ctx.core.account import FIRST_CALL, Bill
from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.due import find_reason, pays_when_cold
from jupyter_ctx.core.entries import CompactionEntry, Entry, PrefixEntry, SpentEntry
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ContextChanged,
    CtxEvent,
    RetryScheduled,
    ToolStarted,
)
from jupyter_ctx.core.ports import Delta, HookOutcome, ModelFacts, ReplyDone, Request
from jupyter_ctx.core.preparation import Preparation
from jupyter_ctx.core.usage import Prices, Usage
from jupyter_ctx.errors import (
    AuthError,
    CompactionError,
    CtxError,
    OverloadedError,
    PromptTooLongError,
)
from jupyter_ctx.session import Session
from jupyter_ctx.testing import (
    FakeHooks,
    FakeSession,
    FakeTools,
    ScriptedModel,
    ScriptedReply,
    call,
    make_session,
    reply,
)
from tests.talk import LoopRunner

WINDOW, RESERVE = 20_000, 10_000
"""Half of a small window, in steps of 1 % of it: a compaction comes after some fifty."""
PRICES = Prices(2.0, 10.0, 0.1, 2.5, 4.0, "test")


class Worker(ScriptedModel):
    """A model that works `steps` steps a turn, and answers requests for a summary beside them.

    `held`: summaries wait until it is set. `faults` come in place of summaries, `troubles` in place
    of steps. `summaries` are the requests by the text that answered them.
    """

    def __init__(self, steps: int = 70, window: int | None = WINDOW, prices: Prices | None = None):
        facts = ModelFacts("scripted", window, "api", 2_000, prices, factor_prior=1.0)
        super().__init__(facts=facts)
        self.steps, self.left = steps, steps
        self.faults: list[BaseException | ScriptedReply] = []
        self.troubles: list[BaseException] = []
        self.summaries: dict[str, Request] = {}
        self.last_words = "Done."
        self.held: asyncio.Event | None = None
        self.running = self.most_running = 0

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield a summary where one is asked for, else the next step."""
        if not is_instruction(request.messages[-1]):
            self.answers = [self._step]
            async for delta in super().stream(request):
                yield delta
            return
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            if self.held is not None:
                await self.held.wait()
            self.answers = [self._summary]
            async for delta in super().stream(request):
                yield delta
        finally:
            self.running -= 1

    def _step(self, request: Request) -> ScriptedReply | BaseException:
        if self.troubles:
            return self.troubles.pop(0)
        self.left -= 1
        if self.left <= 0:
            self.left = self.steps
            return reply(self.last_words)
        return reply(f"Step {self.left}.", call("make"))

    def _summary(self, request: Request) -> ScriptedReply | BaseException:
        if self.faults:
            return self.faults.pop(0)
        text = f"Summary {len(self.summaries)}."
        self.summaries[text] = request
        return reply(text)


class Settled(FakeTools):
    """A tool that takes as long as a summary under way: it is ready before the next step."""

    session: Session
    model: Worker

    def __init__(self, chars: int) -> None:
        super().__init__(make=lambda: "x" * chars)

    async def run(self, use, cap_chars):
        held = self.session._engine.preparation
        if held is not None and not self.model.held:
            await asyncio.wait({held.task})
        return await super().run(use, cap_chars)


@contextmanager
def session_of(model: Worker, *, chars: int = 400, **values: object) -> Iterator[FakeSession]:
    """Open a session on one loop; its tools wait for a summary that is not held back."""
    tools = Settled(chars)
    values = {"prepare_calls": 3, "reserve_tokens": RESERVE, **values}
    session = make_session(model, tools=tools, **values)  # type: ignore[arg-type]  # settings
    runner = LoopRunner()
    session._ports = replace(session._ports, runner=runner)
    tools.session, tools.model = session, model
    try:
        yield session
    finally:
        runner.loop.run(session.aclose())
        runner.loop.close()


def run(session: FakeSession, text: str = "go") -> list[CtxEvent]:
    events: list[CtxEvent] = []
    session.ask(text, on_event=events.append)
    return events


def finish(session: FakeSession) -> None:
    """Let a summary under way come to its end, as between two turns."""

    async def wait() -> AsyncIterator[CtxEvent]:
        held = session._engine.preparation
        if held is not None:
            await asyncio.wait({held.task})
        for note in session.take_notes():
            yield note

    session._ports.runner.run(wait, lambda event: None)


def applied(session: FakeSession) -> list[CompactionEntry]:
    return list(session.transcript.compactions)


# Beginning ----------------------------------------------------------------------------------------


def test_one_for_the_window_is_applied_when_it_is_due():
    """A summary is asked for within three calls of the reserve; nobody waits when it is reached."""
    model = Worker(steps=70)
    with session_of(model) as session:
        events = run(session)

    (first, *_) = applied(session)
    asked = next(i for i, r in enumerate(model.requests) if is_instruction(r.messages[-1]))
    boundary = next(i for i, r in enumerate(model.requests) if r.messages[0] is first.message)
    assert 1 < boundary - asked <= 5
    assert not any(is_instruction(r.messages[-1]) for r in model.requests[asked + 1 : boundary])
    assert first.drop_messages < len(model.summaries[first.summary].messages) - 1
    at = events.index(next(e for e in events if isinstance(e, CompactionStarted)))
    assert isinstance(events[at + 1], CompactionFinished)


def test_one_for_the_account_is_applied_when_it_is_ready():
    """What comes after it stays word for word, so each step of waiting makes it worth less."""
    model = Worker(steps=70, window=None, prices=PRICES)
    with session_of(model, alpha=0.1, tail_tokens=500, summary_tokens=500) as session:
        run(session)

    (first, *_) = applied(session)
    asked = next(i for i, r in enumerate(model.requests) if is_instruction(r.messages[-1]))
    boundary = next(i for i, r in enumerate(model.requests) if r.messages[0] is first.message)
    assert boundary - asked in (1, 2)


def test_what_stays_behind_it_is_the_tail_of_now():
    """Steps that came while it was made count in the tail's budget: older ones give way to them."""
    model = Worker(steps=70, window=None, prices=PRICES)
    model.held = asyncio.Event()
    with session_of(model, alpha=0.1, tail_tokens=500, summary_tokens=500) as session:
        engine = session._engine
        drafted = []

        def see(event: CtxEvent) -> None:
            held = engine.preparation
            if held is not None and held.draft not in drafted:
                drafted.append(held.draft)
            if drafted and len(session.transcript.view) >= len(drafted[0].messages) + 8:
                model.held.set()

        session.ask("go", on_event=see)

    first, draft = applied(session)[0], drafted[0]
    assert draft.cut < len(draft.messages)  # had it come at once, steps would have stayed
    assert first.drop_messages == len(draft.messages)


def test_zero_calls_prepares_nothing():
    """With `prepare_calls` 0 each summary is asked for where it is needed."""
    model = Worker(steps=70)
    with session_of(model, prepare_calls=0) as session:
        run(session)

    for entry in applied(session):
        at = model.requests.index(model.summaries[entry.summary])
        assert model.requests[at + 1].messages[0] is entry.message
    assert applied(session)


@pytest.mark.parametrize("mode", ["manual", "off"])
def test_nothing_is_prepared_where_nothing_compacts_by_itself(mode):
    """With `manual` and `off` no summary is asked for."""
    model = Worker(steps=10)
    with session_of(model, compaction=mode) as session:
        run(session)
        assert session.preparation == "none"
    assert not model.summaries


def test_a_turns_end_is_used():
    """A summary due in the next turn's first calls is begun as this one ends, and used in it."""
    model = Worker(steps=7)
    model.held = asyncio.Event()
    with session_of(model) as session:
        while session.preparation == "none":
            run(session)
        assert session.state == "idle"
        model.held.set()
        finish(session)
        assert session.preparation == "ready"
        begun = len(model.requests)
        while not applied(session):
            run(session)

        assert not any(is_instruction(r.messages[-1]) for r in model.requests[begun:])


def test_two_are_never_made_at_once():
    """However long one takes, no other is begun beside it; the reserve waits for it."""
    model = Worker(steps=100)
    model.held = asyncio.Event()

    async def release_when_waited_for(session):
        task = asyncio.create_task(drive(session))
        while not session._is_compacting:
            await asyncio.sleep(0)
        assert session.preparation == "running"
        assert len(model.summaries) == 0
        model.held.set()
        await task

    async def drive(session):
        async for event in session.run("go"):
            events.append(event)

    events: list[CtxEvent] = []
    with session_of(model) as session:
        session._ports.runner.loop.run(release_when_waited_for(session))

    assert applied(session)
    assert model.most_running == 1
    assert not any(isinstance(e, CompactionFailed) for e in events)


class Charging(Worker):
    """A provider that charges something beside each summary."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield what the worker yields, with the charge at its end."""
        async for delta in super().stream(request):
            if isinstance(delta, ReplyDone) and is_instruction(request.messages[-1]):
                delta = replace(delta, beside=Usage(1, 0, 0, 1))
            yield delta


def test_it_adds_nothing_to_the_log_before_it_is_used():
    """Whatever a summary costs beside its answer is recorded when it is used, and once."""
    model = Charging(steps=7)
    model.held = asyncio.Event()
    with session_of(model) as session:
        while session.preparation == "none":
            run(session)
        before = len(session.transcript.entries)
        model.held.set()
        finish(session)
        assert session.preparation == "ready"
        assert len(session.transcript.entries) == before
        while not applied(session):
            run(session)

        spent = [e for e in session.transcript.entries if isinstance(e, SpentEntry)]
        assert [(e.usage, e.reason) for e in spent] == [(Usage(1, 0, 0, 1), "beside the answer")]


def test_the_state_is_told_while_a_turn_runs():
    """ContextChanged comes when a summary is begun and when it is ready."""
    model, states = Worker(steps=70), []
    with session_of(model) as session:

        def see(event: CtxEvent) -> None:
            if isinstance(event, ContextChanged):
                states.append(session.preparation)

        session.ask("go", on_event=see)

    assert {"none", "running", "ready"} <= set(states)


# Failures ----------------------------------------------------------------------------------------


def test_its_retries_are_no_part_of_the_turn():
    """What a busy provider makes the summary wait for is not told as the step's own retries."""
    model = Worker(steps=70)
    model.faults = [OverloadedError("busy", status=529)] * 2
    with session_of(model) as session:
        events = run(session)

    assert applied(session)
    assert not any(isinstance(event, RetryScheduled) for event in events)


def test_a_failure_counts_and_the_compaction_comes_the_ordinary_way():
    """A failed preparation is told and counts for the breaker; none is begun again by itself."""
    model = Worker(steps=70)
    model.faults = [AuthError("No.", status=401)]
    with session_of(model) as session:
        events = run(session)

    kinds = [e for e in events if isinstance(e, CompactionFailed | CompactionFinished)]
    assert isinstance(kinds[0], CompactionFailed)
    assert kinds[0].failures == 1
    assert isinstance(kinds[1], CompactionFinished)
    first = model.summaries[applied(session)[0].summary]
    after = model.requests[model.requests.index(first) + 1]
    assert after.messages[0] is applied(session)[0].message  # the user waited for this one
    assert session.transcript.failures_in_a_row == 0


def held_until_due(model: Worker, session: FakeSession) -> list[CtxEvent]:
    """Run a turn whose first summary is let go when the reserve waits for it."""
    model.held, events = asyncio.Event(), list[CtxEvent]()

    def see(event: CtxEvent) -> None:
        events.append(event)
        if isinstance(event, CompactionStarted) and model.held is not None:
            model.held.set()

    session.ask("go", on_event=see)
    return events


def compactions_in(events: list[CtxEvent]) -> list[CtxEvent]:
    kinds = CompactionStarted | CompactionFailed | CompactionFinished
    return [event for event in events if isinstance(event, kinds)]


def test_one_that_fails_while_it_is_waited_for_gives_way_to_a_new_one():
    """The reserve waits for a summary that fails: that is told, and another is asked for."""
    model = Worker(steps=70)
    model.faults = [AuthError("No.", status=401)]
    with session_of(model) as session:
        events = held_until_due(model, session)

        first = [type(event) for event in compactions_in(events)[:4]]
        assert first == [
            CompactionStarted,
            CompactionFailed,
            CompactionStarted,
            CompactionFinished,
        ]
        assert session.transcript.failures_in_a_row == 0


def test_who_stops_a_turn_that_waits_for_it_gives_it_up():
    """A summary that never comes holds up one turn, and no later one."""
    model = Worker(steps=70)
    with session_of(model) as session:
        model.held = asyncio.Event()

        def stop(event):
            if isinstance(event, CompactionStarted):
                session.cancel()

        session.ask("go", on_event=stop)
        assert session.last_turn.outcome == "stopped"
        assert session.preparation == "none"
        model.held = None
        events = run(session)

        assert applied(session)
        assert events[-1].outcome == "done"
        assert model.most_running == 1


class Clinging(Worker):
    """A model whose requests for a summary keep their connection until `let_go` is set."""

    def __init__(self, steps: int):
        super().__init__(steps)
        self.let_go = asyncio.Event()
        self.open = self.most_open = 0

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield what the worker yields; close late, also where it is cancelled."""
        is_summary = is_instruction(request.messages[-1])
        self.open += is_summary
        self.most_open = max(self.open, self.most_open)
        try:
            async for delta in super().stream(request):
                yield delta
        finally:
            if is_summary:
                await self.let_go.wait()
            self.open -= is_summary


def test_what_is_given_up_is_waited_for_by_the_next_who_asks():
    """Who is stopped while a connection closes leaves the wait to the next; two are never open."""
    model = Clinging(steps=7)
    model.held = asyncio.Event()

    async def compact(session):
        async for _ in session.run_compaction():
            pass

    async def stop_and_ask_again(session):
        for _ in range(2):
            stopped = asyncio.create_task(compact(session))
            await turns_of_the_loop()
            stopped.cancel()
            await asyncio.wait({stopped})
        assert model.open == 1
        model.held = None
        last = asyncio.create_task(compact(session))
        await turns_of_the_loop()
        assert not last.done()
        model.let_go.set()
        await last

    async def turns_of_the_loop():
        for _ in range(20):
            await asyncio.sleep(0)

    with session_of(model) as session:
        while session.preparation == "none":
            run(session)
        session._ports.runner.loop.run(stop_and_ask_again(session))

        assert len(applied(session)) == 1
        assert model.most_open == 1


def test_one_that_fails_as_the_last_straw_opens_the_breaker():
    """Where the failure of the prepared one pauses compaction, no other is asked for."""
    model = Worker(steps=70)
    model.faults = [AuthError("No.", status=401)]
    with session_of(model, breaker_failures=1) as session:
        events = held_until_due(model, session)

        assert [type(e) for e in compactions_in(events)] == [CompactionStarted, CompactionFailed]
        assert not model.summaries


def test_one_that_is_lost_while_it_is_waited_for_is_no_failure():
    """A task that ends without a word counts for nothing, and a new summary is asked for."""
    model = Worker(steps=70)
    model.held = asyncio.Event()
    with session_of(model) as session:
        events: list[CtxEvent] = []

        def see(event: CtxEvent) -> None:
            events.append(event)
            if isinstance(event, CompactionStarted) and model.held is not None:
                held, model.held = session._engine.preparation, None
                assert held is not None
                held.cancel()

        session.ask("go", on_event=see)

        _, failed, _, finished, *_ = compactions_in(events)
        assert isinstance(failed, CompactionFailed)
        assert (failed.reason, failed.failures) == (background.LOST, 0)
        assert isinstance(finished, CompactionFinished)


def test_one_that_frees_nothing_after_all_is_a_failure(monkeypatch):
    """What fails as it is applied is told and counted; it is not tried again."""

    async def refuse(*parts: object) -> AsyncIterator[CtxEvent]:
        raise CompactionError("It would free nothing.")
        yield

    model = Worker(steps=70)
    with session_of(model) as session:
        monkeypatch.setattr(background, "conclude", refuse)
        events = run(session)

        _, failed, _, finished, *_ = compactions_in(events)
        assert isinstance(failed, CompactionFailed)
        assert failed.reason == "It would free nothing."
        assert isinstance(finished, CompactionFinished)
        assert applied(session)[0].summary == "Summary 1."


def test_three_failures_pause_it():
    """Prepared or not, three failures in a row open the breaker, and no more is spent."""
    model = Worker(steps=70)
    model.faults = [reply("half a sum", stop_reason="max_tokens")] * 9
    with session_of(model) as session:
        events = run(session)

        told = [e.paused for e in events if isinstance(e, CompactionFailed)]
        assert told == [False, False, True]
        assert session.state == "paused"
        assert len(model.faults) == 6


def test_an_error_of_ours_is_a_failure_and_in_the_log(caplog):
    """A fault in our own code ends the preparation, is logged whole, and never the turn."""
    model = Worker(steps=70)
    model.faults = [ZeroDivisionError("ours")]
    with session_of(model) as session:
        events = run(session)

    failed = [e for e in events if isinstance(e, CompactionFailed)]
    assert "Error in jupyter_ctx: ZeroDivisionError" in failed[0].reason
    assert "ZeroDivisionError: ours" in caplog.text
    assert events[-1].outcome == "done"


def test_a_hook_that_blocks_stops_it_before_anything_is_asked():
    """PreCompact runs before the request; where it blocks nothing is sent, and it counts."""
    model = Worker(steps=70)
    hooks = FakeHooks({"PreCompact": HookOutcome(blocked_by="not now")})
    with session_of(model, hooks=hooks) as session:
        events = run(session)

    reasons = [e.reason for e in events if isinstance(e, CompactionFailed)]
    assert reasons
    assert all("not now" in reason for reason in reasons)
    assert not model.summaries


# Where there is nothing to summarise ------------------------------------------------------------


def prepare(session: FakeSession) -> None:
    """Do what is done when a turn ends."""

    async def end() -> AsyncIterator[CtxEvent]:
        background.prepare_after_turn(session._engine)
        background.watch(session._engine)
        for note in session.take_notes():
            yield note

    session._ports.runner.run(end, lambda event: None)


def test_nothing_is_asked_for_where_there_is_nothing_to_drop():
    """Right after a compaction nothing was sent that could be summarised, however full it is."""
    model = Worker(steps=40, prices=PRICES)
    with session_of(model, prepare_idle_s=60.0, alpha=50.0, tail_tokens=1) as session:
        run(session)
        session.compact()
        session.settings = replace(session.settings, window_tokens=session._engine.used.total)
        assert find_reason(session._engine, FIRST_CALL) is not None
        prepare(session)

        assert session._engine.preparation is None
        assert session._engine.idle_timer is None


def test_what_was_sent_is_not_summarised_where_the_answer_is_what_is_too_much():
    """Where the newest answer alone is too long to stay, what is before it is not the thing."""
    model = Worker(steps=40, prices=PRICES)
    model.last_words = "w" * 24_000
    with session_of(model, prepare_calls=0, alpha=50.0) as session:
        run(session)
        values = {"window_tokens": 10_000, "prepare_calls": 3, "prepare_idle_s": 60.0}
        session.settings = replace(session.settings, **values)
        engine = session._engine
        assert find_reason(engine, FIRST_CALL) is not None
        assert pays_when_cold(engine)
        prepare(session)

        assert engine.preparation is None
        assert engine.idle_timer is None


def test_without_a_window_the_account_prepares():
    """Where nobody knows the window, the account alone says when, and what is made is used."""
    model = Worker(steps=70, window=None, prices=PRICES)
    with session_of(model, alpha=0.1, tail_tokens=500, summary_tokens=500) as session:
        run(session)

    assert applied(session)
    first = applied(session)[0]
    assert first.drop_messages < len(model.summaries[first.summary].messages) - 1


# The drain ---------------------------------------------------------------------------------------


def test_a_prompt_that_is_too_long_drains_first():
    """The provider says too long: what is prepared is put in force, and the step is sent again."""
    model, refused = Worker(steps=70), list[Request]()
    take_step: Callable[[Request], ScriptedReply | BaseException] = model._step
    with session_of(model) as session:

        def step(request: Request) -> ScriptedReply | BaseException:
            if session.preparation == "running" and not refused:
                refused.append(request)
                return PromptTooLongError("too long")
            return take_step(request)

        model._step = step
        session.ask("go")

    (first, *_) = applied(session)
    assert first.trigger == "reactive"
    boundary = next(i for i, r in enumerate(model.requests) if r.messages[0] is first.message)
    asked = [i for i in range(boundary) if is_instruction(model.requests[i].messages[-1])]
    assert asked == [model.requests.index(model.summaries[first.summary])]
    assert len(refused) == 1


# Stale ones ---------------------------------------------------------------------------------------


def ready(session: FakeSession) -> Preparation:
    """Work until a summary is ready that was begun at a turn's end: none is applied meanwhile."""
    before = len(applied(session))
    while session.preparation == "none" and len(applied(session)) == before:
        run(session)
        finish(session)
    held = session._engine.preparation
    assert held is not None
    assert session.preparation == "ready"
    return held


def rewind(session: FakeSession) -> None:
    session.rewind(1)


def compact(session: FakeSession) -> None:
    session.compact()


def switch(session: FakeSession) -> None:
    session.switch_model("scripted")


def freeze_anew(session: FakeSession) -> None:
    prefix = session.transcript.prefix
    assert prefix is not None
    session._engine.record(PrefixEntry(0.0, prefix.system, prefix.tools))


def turn_off(session: FakeSession) -> None:
    session.settings = replace(session.settings, compaction="manual")


@pytest.mark.parametrize("change", [rewind, compact, switch, freeze_anew, turn_off])
def test_a_stale_one_is_never_applied(change):
    """A rewind, /compact, another model, prefix or preset: it is given up, and its cost is kept."""
    model = Worker(steps=5)
    with session_of(model) as session:
        held = ready(session)
        prepared = text_of(tuple(held.draft.reply.blocks))
        change(session)
        assert session.preparation == "none"
        run(session)

        assert prepared not in [entry.summary for entry in applied(session)]
        spent = [e for e in session.transcript.entries if isinstance(e, SpentEntry)]
        made = held.made
        assert made is not None
        assert [entry.usage for entry in spent] == [made.usage]


def test_a_summary_that_was_edited_or_undone_makes_it_stale():
    """What is made behind a summary goes with that summary."""
    for change in (lambda s: s.edit_summary("Other."), lambda s: s.undo_summary()):
        model = Worker(steps=5)
        with session_of(model) as session:
            for _ in range(3):
                run(session)
            session.compact()
            held = ready(session)
            if not held.is_valid(session.transcript, "scripted"):
                raise AssertionError("it was prepared behind the summary")
            change(session)
            assert session.preparation == "none"
            assert session._engine.preparation is None


def test_a_stale_one_that_failed_cost_nothing():
    """What was refused before it was answered is no entry, and no failure any more."""
    model = Worker(steps=5)
    model.faults, model.held = [AuthError("No.", status=401)], asyncio.Event()
    with session_of(model) as session:
        while session._engine.preparation is None:
            run(session)
        model.held.set()
        finish(session)
        assert session.preparation == "none"
        session.rewind(1)

        assert session._engine.preparation is None
        assert session.transcript.failures_in_a_row == 0
        assert not any(isinstance(e, SpentEntry) for e in session.transcript.entries)


def test_a_restart_has_none():
    """A resumed session begins without: the summary was in the kernel that is gone."""
    model = Worker(steps=5)
    with session_of(model) as session:
        ready(session)
        entries = list(session.store.entries)
    with session_of(Worker(steps=5), entries=entries) as resumed:
        assert resumed.preparation == "none"


def test_one_that_frees_too_little_is_not_used():
    """Where what is prepared would drop too little of what is there now, a new one is made."""
    model = Worker(steps=4)
    with session_of(model) as session:
        held = ready(session)
        session.settings = replace(session.settings, least_gain=0.99)
        while not applied(session):
            run(session)

        assert text_of(tuple(held.draft.reply.blocks)) != applied(session)[0].summary
        (spent,) = [e for e in session.transcript.entries if isinstance(e, SpentEntry)]
        assert spent.reason == background.UNUSED


# Whatever happens -------------------------------------------------------------------------------

ACTS = (
    "turn",
    "turn",
    "turn",
    "long",
    "finish",
    "rewind",
    "compact",
    "undo",
    "edit",
    "pin",
    "stop",
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(ACTS), min_size=4, max_size=14),
    st.integers(5, 40),
    st.sampled_from([200, 400, 600]),
    st.booleans(),
    st.booleans(),
)
def test_it_replaces_exactly_what_it_was_made_of(acts, steps, chars, has_prices, is_slow):
    """Whatever happens meanwhile: of what was summarised the first messages go, newer ones stay.

    A summary was made of the first messages of the view, the very same objects; those behind the
    cut stay the same objects in the same order.
    """
    model = Worker(steps, WINDOW, PRICES if has_prices else None)
    model.held = asyncio.Event() if is_slow else None
    with session_of(model, chars=chars, alpha=0.3) as session:
        engine = session._engine
        record = engine.record

        def check(entry: Entry) -> None:
            before = list(engine.transcript.view)
            record(entry)
            if not isinstance(entry, CompactionEntry):
                return
            sent = model.summaries[entry.summary].messages[:-1]
            assert all(map(operator.is_, sent, before))
            assert entry.drop_messages <= len(sent)
            view = engine.transcript.view
            assert view[0] is entry.message
            assert len(view) == 1 + len(before) - entry.drop_messages
            assert all(map(operator.is_, view[1:], before[entry.drop_messages :]))

        engine.record = check
        for act in acts:
            _do(session, model, act)
        assert model.most_running <= 1


def _do(session: FakeSession, model: Worker, act: str) -> None:
    """Carry one act out; what cannot be done now is left undone."""
    try:
        match act:
            case "turn":
                _drive(session, model, "go")
            case "long":
                _drive(session, model, "z" * 6_000)
            case "finish":
                if model.held is not None:
                    model.held.set()
                finish(session)
                model.held = None
            case "stop":
                _drive(session, model, "go", stop_at=ToolStarted)
            case "rewind":
                session.rewind(max(1, session.transcript.turn))
            case "compact":
                if model.held is not None:
                    model.held.set()
                session.compact()
            case "undo":
                session.undo_summary()
            case "edit":
                session.edit_summary("Written by hand.")
            case "pin":
                session.pin("Keep this.")
    except CtxError:
        pass  # nothing to undo yet, say: the next act follows


def _drive(
    session: FakeSession, model: Worker, text: str, stop_at: type[CtxEvent] | None = None
) -> None:
    def see(event: CtxEvent) -> None:
        if stop_at is not None and isinstance(event, stop_at):
            session.cancel()
        if session._is_compacting and model.held is not None:
            model.held.set()  # who waits for it must not wait for ever

    session.ask(text, on_event=see)


# The account -------------------------------------------------------------------------------------


def test_due_some_calls_ahead():
    """With lag: before the call after so many more that carry what this one carries."""
    bill = Bill(account=10.0, price=100.0, droppable=100, read=0.1, write=1.25)

    assert not bill.is_due(1.0)
    assert not bill.is_due(1.0, 7)
    assert bill.is_due(1.0, 8)
    assert not Bill(1e9, 1.0, 0, 0.1).is_due(FIRST_CALL, 100)


def test_cold_pays_where_writing_anew_costs_more_than_the_summary():
    """The idle rule: w D > K, where K includes reading the prompt once more."""
    assert Bill(0.0, 100.0, 81, 0.1, 1.25).pays_when_cold
    assert not Bill(0.0, 100.0, 80, 0.1, 1.25).pays_when_cold
