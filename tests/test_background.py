"""Summaries beside the conversation, through the real SDK: who waits, what is sent and paid."""

import asyncio
import itertools
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_ctx.core.background import UNUSED
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.due import CACHE_S, is_cold
from jupyter_ctx.core.entries import SpentEntry
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    StepStarted,
    ToolStarted,
)
from jupyter_ctx.core.moment import Moment
from jupyter_ctx.testing import FakeTools
from tests import both
from tests.agent_kernel import agent_kernel, ask
from tests.agent_kernel import run as run_cell
from tests.both import on_both
from tests.fake_anthropic import (
    FakeAnthropic,
    FakeModel,
    Hold,
    Recorded,
    Text,
    call,
    last_text,
    max_tokens,
    reply,
    too_long,
)
from tests.fake_anthropic.checks import assert_append_only, assert_healthy, assert_markers
from tests.talk import MODEL, run, talk

SUMMARY = "## Task\nCount on.\n## Done\nWhat was asked so far."
PRICES = {"input": 2.0, "output": 10.0, "cache_read": 0.1, "cache_write_5m": 2.5}
SMALL = {"tail_tokens": 1_500, "instructions_tokens": 1_000, "summary_tokens": 500}
"""Little comes back, so that there is something to drop after a few steps."""


class Slow(FakeTools):
    """Code that takes as long as a summary under way, unless `waits` is False."""

    waits = True
    session = None

    async def run(self, use, cap_chars):
        held = self.session._engine.preparation
        if self.waits and held is not None:
            await asyncio.wait({held.task})
        return await super().run(use, cap_chars)


def steps(count):
    """Return replies that run code with some 700 tokens of output each."""
    code = "for i in range(100): print('line', i, i * 37 % 101)"
    return [reply(f"Step {n}.", tools=[call("run_code", code=code)]) for n in range(count)]


def is_summary(record: Recorded) -> bool:
    """Whether the request asks for a summary; one whose body never came (Stop) asks for nothing."""
    return bool(record.body) and last_text(record.json).startswith(INSTRUCTION_OPEN)


@contextmanager
def session_with(
    script,
    *,
    fake=FakeAnthropic,
    summary=None,
    waits=True,
    window=1_000_000,
    refuses=None,
    **settings,
):
    """Give a server that answers from `script` and a session whose account fills quickly.

    Behind Chat Completions the model has the same prices, by a setting: no table knows it there.
    `summary` answers every request for a summary; None: `SUMMARY`, numbered. `refuses` answers the
    first step that a summary is asked for beside.
    """
    refusals = [] if refuses is None else [refuses]
    left = iter(script)
    numbered = (f"{SUMMARY}\nSummary {n}." for n in itertools.count(1))
    answers = numbered if summary is None else itertools.repeat(summary)
    models = {MODEL: FakeModel(window=window, max_output=64_000, binds_thinking=True)}

    def answer(body):
        if not last_text(body).startswith(INSTRUCTION_OPEN):
            if refusals and tools.session.preparation == "running":
                return refusals.pop()
            return next(left)
        return next(answers)

    tools = Slow()
    tools.waits = waits
    values = {"alpha": 0.1, "prepare_idle_s": 0.0, **SMALL, **settings}
    if fake is not FakeAnthropic:
        values["prices"] = {f"openai:{MODEL}": PRICES}
    server_with = fake(answer, models=models, **both.caching(fake))
    with server_with as server, talk(server, tools=tools, **values) as one:
        tools.session = one
        yield server, one


def on_loop(session, wait):
    """Await `wait()` on the session's loop, as the time between turns passes there."""
    return session._ports.runner.loop.run(wait())


def finish(session):
    """Let a summary under way come to its end."""

    async def wait():
        held = session._engine.preparation
        if held is not None:
            await asyncio.wait({held.task})

    on_loop(session, wait)


def pass_time(session, seconds):
    """Let time pass between turns, and what begins then come to its end."""

    async def advance():
        await asyncio.sleep(0)  # the wait has begun
        session._ports.clock.advance(seconds)
        await asyncio.sleep(0)

    on_loop(session, advance)
    finish(session)


def _first_of(record: Recorded) -> str:
    return str(next(each for each in record.messages if each["role"] != "system"))


# Who waits ----------------------------------------------------------------------------------------


@on_both
def test_nobody_waits_at_the_compaction(fake):
    """Each summary was asked for beside a step before; at the compaction nobody waits: stall 0."""
    with session_with([*steps(40), "Done."], fake=fake) as (server, session):
        events = run(session, "count")

        requests = server.messages
        begun = both.assert_append_only(requests, is_summary)
        firsts = [re.sub(r"'cache_control': {[^}]*}|, ", "", _first_of(r)) for r in requests]
        boundaries = [at for at in range(1, len(firsts)) if firsts[at] != firsts[at - 1]]
        if fake is FakeAnthropic:
            assert_markers(requests)
        assert_healthy(server)
        assert len(boundaries) == begun == len(session.transcript.compactions) >= 2
        for boundary in boundaries:
            asked, step = sorted(requests[boundary - 2 : boundary], key=lambda r: not is_summary(r))
            assert is_summary(asked)
            assert len(step.messages) > len(asked.messages) - 1
        for at, event in enumerate(events):
            if isinstance(event, CompactionStarted):
                assert isinstance(events[at + 1], CompactionFinished)


@on_both
def test_it_reads_the_cache_and_writes_nothing(fake):
    """The request for the summary reads over 90 % of its input from the cache, and writes none."""
    with session_with([*steps(40), "Done."], fake=fake) as (server, session):
        run(session, "count")

        asked = [record for record in server.messages if is_summary(record)]
        assert asked
        for record in asked:
            assert both.cached_of(record) >= 0.9 * both.prompt_of(record)
            if fake is FakeAnthropic:  # the other protocol tells no writes
                assert record.plan.write_5m_tokens == record.plan.write_1h_tokens == 0
        for entry, record in zip(session.transcript.compactions, asked, strict=True):
            assert entry.usage.cache_read == both.cached_of(record)


@on_both
def test_the_steps_are_the_same_bytes(fake):
    """Up to the compaction every step is sent as it is without a preparation."""
    bodies = []
    for calls in (3, 0):
        with session_with([*steps(14), "Done."], fake=fake, prepare_calls=calls) as (
            server,
            session,
        ):
            run(session, "count")
            bodies.append([r.body for r in server.messages if not is_summary(r)])
            first = session.transcript.compactions[0]
            assert first.turn == 1
    shared = [a == b for a, b in zip(*bodies, strict=True)]
    begun = shared.index(False) if False in shared else len(shared)
    assert begun >= 8
    assert b"This conversation was compacted" not in bodies[0][begun - 1]


@on_both
def test_the_account_does_not_wait_for_it(fake):
    """Due by the account while the summary is awaited: steps go on, and it is used later."""
    script = [*steps(30), "Done."]
    with session_with(script, fake=fake, summary=reply(Hold("s"), Text(SUMMARY)), waits=False) as (
        server,
        session,
    ):
        due = 0

        def see(event):
            nonlocal due
            if isinstance(event, StepStarted) and session.is_compaction_due:
                assert session.preparation == "running"
                due += 1
                if due == 3:
                    server.release("s")
                    session._ports.tools.waits = True

        session.ask("count", on_event=see)

        assert due >= 3
        assert session.transcript.compactions
        assert_healthy(server)


@on_both
def test_one_at_a_time(fake):
    """However many steps pass, no second summary is asked for while one is under way."""
    held = reply(Hold("s"), Text(SUMMARY))
    with session_with([*steps(20), "Done."], fake=fake, summary=held, waits=False) as (
        server,
        session,
    ):
        run(session, "count")

        assert session.preparation == "running"
        assert len([record for record in server.messages if is_summary(record)]) == 1
        server.release("s")
        finish(session)
        assert session.preparation == "ready"


# When it goes wrong -------------------------------------------------------------------------------


@on_both
def test_a_prompt_that_is_too_long_drains_first(fake):
    """The provider finds a step too long: the summary made beside it is put in force, no other."""
    with session_with([*steps(40), "Done."], fake=fake, refuses=too_long(20_100, 20_000)) as (
        server,
        session,
    ):
        events = run(session, "count")

        assert session.transcript.compactions[0].trigger == "reactive"
        at = [record.status for record in server.messages].index(400)
        asked = [record for record in server.messages[: at + 3] if is_summary(record)]
        after = [record for record in server.messages[at + 1 : at + 3] if not is_summary(record)]
        assert len(asked) == 1
        assert b"Summary 1." in after[0].body
        assert events[-1].outcome == "done"


@on_both
def test_failures_count_for_the_breaker(fake):
    """Summaries that fail, prepared or waited for, are told one by one; the third pauses it."""
    with session_with([*steps(30), "Done."], fake=fake, summary=max_tokens("half a summ")) as (
        server,
        session,
    ):
        events = run(session, "count")

        told = [event for event in events if isinstance(event, CompactionFailed)]
        assert [event.paused for event in told] == [False, False, True]
        assert len([record for record in server.messages if is_summary(record)]) == 3
        assert session.state == "paused"
        assert events[-1].outcome == "done"


@on_both
def test_a_stopped_turn_leaves_nothing_behind(fake):
    """Stop leaves the summary to its slot; closing the session ends it and frees its connection."""
    held = reply(Hold("s"), Text(SUMMARY))
    with session_with([*steps(20), "Done."], fake=fake, summary=held, waits=False) as (
        server,
        session,
    ):

        def stop(event):
            if isinstance(event, ToolStarted) and session.preparation == "running":
                session.cancel()

        session.ask("count", on_event=stop)
        assert session.last_turn.outcome == "stopped"
        assert session.preparation == "running"

        async def arrive():
            while not summaries_of(server):
                await asyncio.sleep(0.01)
            return summaries_of(server)

        (record,) = on_loop(session, arrive)

        async def close():
            await session.aclose()
            return asyncio.all_tasks() - {asyncio.current_task()}

        assert not on_loop(session, close)
        assert record.gone.wait(20)
        assert session.preparation == "none"


@on_both
def test_what_was_made_for_nothing_is_in_the_cost(fake):
    """A ready summary that is given up is an entry with its usage, so the totals have it."""
    with session_with([*steps(10), "Done."], fake=fake) as (_server, session):
        run(session, "count")
        finish(session)
        assert session.preparation == "ready"
        before = session.total_usage
        session.compact()

        (spent,) = [e for e in session.transcript.entries if isinstance(e, SpentEntry)]
        entry = session.transcript.compactions[0]
        assert session.total_usage == before + spent.usage + entry.usage


# Between turns ------------------------------------------------------------------------------------


@contextmanager
def idle(**settings):
    """Give a server and a session that has ended a turn; its account is far from full."""
    values = {"alpha": 50.0, "prepare_idle_s": 60.0, **settings}
    with session_with([*steps(30), "Done.", "Hello.", "Again."], **values) as (server, session):
        run(session, "count")
        assert not [record for record in server.messages if is_summary(record)]
        yield server, session


def summaries_of(server):
    return [record for record in server.messages if is_summary(record)]


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_an_idle_prompt_is_prepared_once(ttl):
    """A minute before the cache forgets, the summary is asked for, once; not before."""
    with idle(cache_ttl=ttl) as (server, session):
        pass_time(session, CACHE_S[ttl] - 61)
        assert not summaries_of(server)
        pass_time(session, 1)
        assert session.preparation == "ready"
        pass_time(session, 10 * CACHE_S[ttl])
        assert len(summaries_of(server)) == 1


def test_a_cold_prompt_begins_with_the_summary():
    """The next prompt comes after the cache has forgotten: the short context is what is written."""
    with idle() as (server, session):
        pass_time(session, 240)
        pass_time(session, 301)
        events = run(session, "and now?")

        assert [e.trigger for e in events if isinstance(e, CompactionFinished)] == ["proactive"]
        assert len(summaries_of(server)) == 1
        assert server.messages[-1].input_tokens < server.messages[-3].input_tokens / 2


def test_a_warm_prompt_goes_on_as_it_was():
    """The next prompt comes in time: nothing changes, and the summary waits until it is due."""
    with idle() as (server, session):
        pass_time(session, 240)
        pass_time(session, 200)
        run(session, "and now?")

        assert not session.transcript.compactions
        assert session.preparation == "ready"
        assert_append_only(server.messages)


def test_a_machine_that_slept_prepares_nothing():
    """Who wakes up after the cache has forgotten would pay for a cold prompt: nothing is sent."""
    with idle() as (server, session):
        pass_time(session, 301)

        assert session.preparation == "none"
        assert not summaries_of(server)


@pytest.mark.parametrize("jump_s", [-7_200.0, -299.0, 7_200.0])
def test_a_clock_that_is_set_prepares_nothing_for_a_cold_prompt(jump_s):
    """Set back, the clock that only grows still says when the cache forgets; set on, it is over."""
    with idle() as (server, session):
        clock = session._ports.clock
        started = clock.time
        clock.monotonic = lambda: clock.time - clock.jump
        clock.jump = 0.0
        session._engine.requested = Moment(started, started)
        clock.time, clock.jump = clock.time + jump_s, jump_s
        pass_time(session, 301)

        assert not summaries_of(server)
        assert is_cold(session._engine)


@pytest.mark.parametrize(
    "settings",
    [
        {"prepare_idle_s": 0.0},
        {"prompt_cache": False},
        {"compaction": "manual"},
        {"prices": {MODEL: {"input": 0, "output": 0}}},
        {"tail_tokens": 12_000, "instructions_tokens": 10_000, "summary_tokens": 3_000},
    ],
    ids=["off", "no cache", "manual", "free", "too little to drop"],
)
def test_nothing_is_prepared_where_it_does_not_pay(settings):
    """No setting, no cache, no price, or too little to drop: no timer is set."""
    with idle(**settings) as (server, session):
        assert session._engine.idle_timer is None
        pass_time(session, 240)
        assert not summaries_of(server)


def test_the_next_turn_ends_the_wait():
    """A turn, or /compact, is no time between turns: the wait ends with it and begins anew."""
    with idle() as (server, session):
        timer = session._engine.idle_timer
        pass_time(session, 200)
        run(session, "and now?")
        pass_time(session, 100)

        assert timer.cancelled()
        assert not summaries_of(server)
        pass_time(session, 140)
        assert len(summaries_of(server)) == 1


def test_closing_ends_the_wait():
    """Closing the session leaves no task on the loop."""
    with idle() as (_server, session):

        async def close():
            await session.aclose()
            return asyncio.all_tasks() - {asyncio.current_task()}

        assert not on_loop(session, close)


# In a kernel --------------------------------------------------------------------------------------

_STATE = "__import__('jupyter_ctx').current_session().preparation"
_THREADS = "[t.name for t in __import__('threading').enumerate() if t.name == 'jupyter_ctx']"
_UNTIL_READY = f"import time\nwhile {_STATE} != 'ready': time.sleep(0.01)\nprint('there')"


@contextmanager
def kernel_with(folder: Path, summary, **settings):
    """Give a kernel that has ended a turn of 25 steps, and the server it talks to.

    A compaction is due, unless the settings say otherwise.
    """
    left = iter([*steps(25), "Done.", "Hello."])
    models = {MODEL: FakeModel(window=1_000_000, max_output=64_000, binds_thinking=True)}

    def answer(body):
        return summary if last_text(body).startswith(INSTRUCTION_OPEN) else next(left)

    with (
        FakeAnthropic(answer, models=models) as server,
        agent_kernel(folder, server, MODEL) as kernel,
    ):
        values = {"alpha": 0.02, **SMALL, **settings}
        lines = (f"%config JupyterCtx.{name} = {value}" for name, value in values.items())
        run_cell(kernel, "\n".join(lines))
        ask(kernel, "count")
        yield server, kernel


def assert_quiet(folder: Path) -> None:
    """Nothing of ours complained outside of the cells."""
    log = (folder / "kernel.log").read_text()
    assert "Task was destroyed" not in log
    assert "never retrieved" not in log


def test_it_goes_on_while_the_kernel_is_the_users(tmp_path):
    """Begun in a turn, it comes to its end beside the user's own cells, on our one thread."""
    with kernel_with(tmp_path, reply(Hold("s"), Text(SUMMARY))) as (server, kernel):
        assert kernel.eval(_STATE) == "running"
        request = kernel.submit(_UNTIL_READY)
        assert server.gate("s").reached.wait(20)
        server.release("s")
        assert kernel.collect(request).text == "there\n"

        assert kernel.eval(_THREADS) == ["jupyter_ctx"]
        before = len(server.messages)
        ask(kernel, "and now?")
        assert not is_summary(server.messages[before])
        assert b"This conversation was compacted" in server.messages[before].body
    assert_quiet(tmp_path)


def test_an_idle_kernel_prepares(tmp_path):
    """The wait for the cache's end goes on while no cell runs; `/new` keeps what it cost."""
    early = CACHE_S["5m"] - 1.0
    settings = {"alpha": 50, "prepare_idle_s": early}
    with kernel_with(tmp_path, SUMMARY, **settings) as (server, kernel):
        assert kernel.execute(_UNTIL_READY).text == "there\n"
        assert len(summaries_of(server)) == 1

        run_cell(kernel, "%agent /new")
        stored = "".join(p.read_text() for p in kernel.home.rglob("*.jsonl"))
        assert UNUSED in stored
        assert kernel.eval(_STATE) == "none"
    assert_quiet(tmp_path)


@pytest.mark.parametrize("settings", [{}, {"alpha": 50}], ids=["a call", "a wait"])
def test_unloading_stops_it(tmp_path, settings):
    """%unload_ext ends the call, or the wait for one, and the thread; nothing complains."""
    with kernel_with(tmp_path, reply(Hold("s"), Text(SUMMARY)), **settings) as (server, kernel):
        assert kernel.eval(_STATE) == ("none" if settings else "running")
        timer = "__import__('jupyter_ctx').current_session()._engine.idle_timer is not None"
        assert kernel.eval(timer) is bool(settings)
        assert settings or server.gate("s").reached.wait(20)
        ran = run_cell(kernel, "%unload_ext jupyter_ctx")

        for record in summaries_of(server):
            assert record.gone.wait(20)
        assert kernel.eval(_THREADS) == []
        assert ran.stderr == ""
    assert_quiet(tmp_path)
