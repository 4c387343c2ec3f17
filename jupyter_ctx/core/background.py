"""Summaries made beside the conversation, so that a compaction keeps nobody waiting.

A preparation asks for the summary of the prompt as last sent while the conversation goes on; once
it is ready, the summary replaces exactly what it was made of, and everything newer stays
word for word. Only the summary's text is made beforehand: what a compaction puts back is looked up
when it is applied, within a turn.

Begun between steps, right before a step is sent, and when a turn ends; or, once, shortly before the
provider's prompt cache forgets the prompt while nobody asks anything (`watch`). Its task touches
neither the transcript nor the token counts, so it may run while the user's own thread uses both.
There is one at most.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ..errors import CompactionError, ModelError
from . import compaction as pure
from .account import FIRST_CALL, MID_TURN
from .blocks import Message
from .calls import new_reply, record_beside, run_call
from .compaction_plan import (
    Plan,
    expected_head_tokens,
    find_cut,
    find_plan,
    frees_enough,
    is_worth_it,
    must_lighten,
)
from .compaction_request import Attempt, ask_hooks, build_summary_request, find_wish_room
from .compactor import conclude, fail, run_compaction
from .due import (
    cache_left_s,
    find_reason,
    is_cold,
    is_reserve_reached,
    pays_when_cold,
    should_compact,
)
from .engine import Engine
from .entries import SpentEntry
from .events import CompactionFailed, CompactionStarted, CtxEvent
from .preparation import Draft, Made, Preparation, State, cancel_task
from .tokens import SAFETY
from .window import PROACTIVE_PRESETS

STALE = "a prepared summary was not used: the conversation went another way"
UNUSED = "a prepared summary was not used"
LOST = "The summary that was prepared is lost."

log = logging.getLogger("jupyter_ctx")


# When -------------------------------------------------------------------------------------------


def find_state(engine: Engine) -> State:
    """Return whether a summary that may be used is being prepared, or ready."""
    held = engine.preparation
    return held.state if held is not None and _is_valid(engine, held) else "none"


def is_due(engine: Engine) -> bool:
    """Say whether to compact before the next call: by tokens, or since bytes or images run out.

    A summary under way is waited for only where the reserve is reached. One that the account asked
    for is used once it is ready: what comes after it stays word for word, so waiting makes it worth
    less (a replay of a session whose results are large costs 1.34 x the optimum, and 1.56 x if it
    waits until it is due). Any other waits until it is due, or the prompt cache has forgotten the
    prompt: where the window is what is short, each step that still fits is worth more.
    """
    if must_lighten(engine):
        return True
    held = engine.preparation
    if held is None or not can_use(engine):
        return should_compact(engine) and is_worth_it(engine)
    is_ready = find_state(engine) == "ready"
    if is_ready and (is_cold(engine) or held.draft.is_for_account):
        return not engine.is_paused
    is_urgent = is_ready or is_reserve_reached(engine)
    return is_urgent and should_compact(engine, held.draft.moment)


def can_use(engine: Engine) -> bool:
    """Say whether there is a summary, or one under way, that would make room enough."""
    held = engine.preparation
    if held is None or not _is_valid(engine, held):
        return False
    made = held.made
    return (made is None or made.error is None) and _makes_room(engine, held.draft)


def _is_valid(engine: Engine, held: Preparation) -> bool:
    is_automatic = engine.limits.compaction in PROACTIVE_PRESETS
    return is_automatic and held.is_valid(engine.transcript, engine.ports.model.name)


def _makes_room(engine: Engine, draft: Draft) -> bool:
    """Say whether what stays leaves room below the reserve, and something worth a call goes.

    Much may have come since it was begun; then a summary of all of it is better.
    """
    meter, window, reserve = engine.meter, engine.window, engine.reserve
    view, cut = engine.transcript.view, _cut_now(engine, draft)
    if not frees_enough(engine, cut):
        return False
    if window is None or reserve is None:
        return True
    stays = math.ceil(SAFETY * meter.estimate_request(view[cut:]))
    return stays + expected_head_tokens(engine, window) <= window - reserve


def _cut_now(engine: Engine, draft: Draft) -> int:
    """Return where what stays begins, as if the summary were asked for now.

    What came since it was begun stays whole, and counts in the tail: older steps, which are
    summarised, stay as far as there is room left in its budget.
    """
    sent = pure.find_last_sent(engine.transcript.view)
    return min(len(draft.messages), max(draft.cut, find_cut(engine, sent)))


# Making -----------------------------------------------------------------------------------------


def try_to(begin: Callable[[Engine], None], engine: Engine) -> None:
    """Begin a summary that will be needed. An error of ours there ends no turn, and is noted.

    None is then begun until a compaction was tried the ordinary way.
    """
    try:
        begin(engine)
    except Exception as error:
        engine.preparation_rests = True
        log.error("No summary could be prepared:\n%s", _redacted_trace(engine))
        said = engine.ports.redactor.text(f"Error: {error!r}")
        engine.note("warning", "No summary was prepared.", said)


def prepare_between_steps(engine: Engine) -> None:
    """Begin a preparation if a compaction is not due yet but will be within `prepare_calls`."""
    if not should_compact(engine):
        _prepare(engine, MID_TURN)


def prepare_after_turn(engine: Engine) -> None:
    """Begin a preparation if one will be due in the first calls of the next turn, or is already."""
    _prepare(engine, FIRST_CALL)


def _prepare(engine: Engine, moment: float) -> None:
    is_free = engine.preparation is None and not engine.preparation_rests
    reason = find_reason(engine, moment) if is_free else None
    if reason is not None:
        draft = _draft(engine, moment, is_for_account=reason == "account")
        if draft is not None:
            _begin(engine, draft)


def _draft(engine: Engine, moment: float, *, is_for_account: bool = False) -> Draft | None:
    """Return the request for a summary of the prompt as last sent, None if it is not worth one."""
    if not is_worth_it(engine):
        return None
    plan, transcript = find_plan(engine, "proactive"), engine.transcript
    if plan.sent != pure.find_last_sent(transcript.view):
        return None  # too much is new: what was sent is not what would have to go
    return Draft(
        tuple(transcript.view[: plan.sent]),
        plan.cut,
        plan.summary_tokens,
        find_wish_room(engine),
        moment,
        transcript.prefix,
        build_summary_request(engine, plan),
        new_reply(engine, engine.turn, 0, 0),
        is_for_account,
    )


def _begin(engine: Engine, draft: Draft) -> None:
    """Start the task, in a context of its own: it is no part of the turn beside it."""
    task = asyncio.get_running_loop().create_task(
        _make(engine, draft), name="jupyter_ctx preparation", context=contextvars.Context()
    )
    engine.preparation = Preparation(draft, task)


async def _make(engine: Engine, draft: Draft) -> Made:
    """Ask for the summary, unless a hook blocks it.

    Its retries are nobody's news; its errors are part of the result.
    """
    clock, reply = engine.ports.clock, draft.reply
    await _wait_for_end(engine)
    started, error = clock.monotonic(), None
    try:
        request = await ask_hooks(
            engine, "proactive", "", draft.request, draft.summary_tokens, draft.room_tokens
        )
        call = run_call(engine, request, reply, engine.turn, 0, silent=True)
        async with aclosing(call) as events:
            async for _ in events:
                pass
        assert reply.done is not None  # run_call() returns only after ReplyDone
        said, has_memory = Message("assistant", tuple(reply.blocks)), engine.ports.memory.is_on
        pure.read_reply(said, reply.done.stop_reason, has_memory=has_memory)
    except (CompactionError, ModelError) as failure:
        error = failure
    except Exception as failure:
        log.error("A preparation ended with an error:\n%s", _redacted_trace(engine))
        error = CompactionError(engine.ports.redactor.text(f"Error in jupyter_ctx: {failure!r}"))
    usage = reply.done.usage if reply.done else None
    return Made(clock.monotonic() - started, usage, error)


def _redacted_trace(engine: Engine) -> str:
    return engine.ports.redactor.text(traceback.format_exc())


# Using ------------------------------------------------------------------------------------------


def settle(engine: Engine) -> CompactionFailed | None:
    """Take a preparation that failed or went stale out of the way; return the event of a failure.

    After a failure none is begun until a compaction was tried the ordinary way.
    """
    drop_stale(engine)
    held = engine.preparation
    if held is None or (made := held.made) is None or made.error is None:
        return None
    attempt = Attempt(engine.turn, "proactive", usage=made.usage)
    return _failed(engine, attempt, held.draft, made.error)


def _failed(
    engine: Engine, attempt: Attempt, draft: Draft, error: CompactionError | ModelError
) -> CompactionFailed:
    engine.preparation, engine.preparation_rests = None, True
    record_beside(engine, draft.reply, attempt.turn)
    return fail(engine, attempt, error)


def drop_stale(engine: Engine) -> None:
    """Give up a summary of what is no longer so."""
    held = engine.preparation
    if held is not None and not _is_valid(engine, held):
        drop(engine, STALE)


def drop(engine: Engine, reason: str) -> None:
    """Give up what is prepared or being prepared, from any thread; what it cost is recorded.

    What a call that was cut off cost is not known.
    """
    held, engine.preparation = engine.preparation, None
    if held is None:
        return
    made = held.made
    if made is None:
        held.cancel()
        engine.ending.add(held.task)
    elif made.usage is not None:
        record_beside(engine, held.draft.reply, engine.turn)
        at = engine.ports.clock.now()
        engine.record(SpentEntry(at, engine.turn, made.usage, reason))


async def compact(engine: Engine, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
    """Compact by itself: with the prepared summary if it can be used, else with a new one.

    `attempt.succeeded` tells how it came out. Raises nothing of its own.
    """
    if can_use(engine):
        async with aclosing(_apply(engine, attempt)) as events:
            async for event in events:
                yield event
        if attempt.succeeded or engine.is_paused:
            return
        attempt.usage = None
    async with aclosing(compact_anew(engine, attempt)) as events:
        async for event in events:
            yield event


async def compact_anew(engine: Engine, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
    """Compact with a new summary; what was prepared is given up."""
    drop(engine, UNUSED)
    await _wait_for_end(engine)
    engine.preparation_rests = False
    async with aclosing(run_compaction(engine, attempt)) as events:
        async for event in events:
            yield event


async def _wait_for_end(engine: Engine) -> None:
    """Wait until the preparations that were given up have let go of their connections.

    One that is stopped while it waits leaves them to the next.
    """
    loop, tasks = asyncio.get_running_loop(), engine.ending.copy()
    if waiting := [task for task in tasks if not task.done() and task.get_loop() is loop]:
        await asyncio.wait(waiting)
    engine.ending -= tasks


async def _apply(engine: Engine, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
    """Put the prepared summary in force, once it is there."""
    held = engine.preparation
    assert held is not None  # can_use() said so
    yield CompactionStarted(attempt.turn, len(engine.transcript.compactions) + 1, attempt.trigger)
    await _wait_for_summary(engine, held)
    made = held.made
    if made is None:  # its loop is ending
        engine.preparation = None
        failures = engine.transcript.failures_in_a_row
        yield CompactionFailed(attempt.turn, LOST, failures, engine.is_paused)
        return
    attempt.usage, draft = made.usage, held.draft
    if made.error is not None:
        yield _failed(engine, attempt, draft, made.error)
        return
    plan = Plan(
        len(draft.messages), _cut_now(engine, draft), draft.summary_tokens, engine.used.total
    )
    started = engine.ports.clock.monotonic() - made.seconds
    try:
        async with aclosing(conclude(engine, attempt, plan, draft.reply, started)) as events:
            async for event in events:
                yield event
    except (CompactionError, ModelError) as error:
        yield _failed(engine, attempt, draft, error)
    finally:
        if attempt.succeeded:
            engine.preparation = None
            record_beside(engine, draft.reply, attempt.turn)


async def _wait_for_summary(engine: Engine, held: Preparation) -> None:
    """Wait for a summary under way. Who stops a turn that waits gives it up: it may never come."""
    try:
        await asyncio.wait({held.task})
    except asyncio.CancelledError:
        if not held.task.done():
            drop(engine, UNUSED)
        raise


# Between turns ----------------------------------------------------------------------------------


def watch(engine: Engine) -> None:
    """Begin to wait for the end of the prompt cache, if a summary would pay for itself there.

    All is decided now, while nothing else uses the session; later it is only looked whether the
    conversation is still the same.
    """
    rests = engine.preparation_rests or engine.limits.prepare_idle_s <= 0
    if engine.preparation is not None or rests or not pays_when_cold(engine):
        return
    draft = _draft(engine, FIRST_CALL)
    if draft is not None:
        engine.idle_timer = asyncio.get_running_loop().create_task(
            _wait_and_begin(engine, draft), name="jupyter_ctx idle", context=contextvars.Context()
        )


async def _wait_and_begin(engine: Engine, draft: Draft) -> None:
    """Begin the preparation shortly before the cache forgets; not if that time has passed.

    So it is when a machine wakes up: the prompt is cold by then, and reading it would cost more
    than the summary saves.
    """
    limits, options, clock = engine.limits, engine.options, engine.ports.clock
    while (left := cache_left_s(engine) - limits.prepare_idle_s) > 0:
        await clock.wait(left)
    is_same = limits == engine.limits and options == engine.options
    extends = draft.extends_to(engine.transcript, engine.ports.model.name)
    if cache_left_s(engine) > 0 and is_same and extends and engine.preparation is None:
        _begin(engine, draft)


def stop_watching(engine: Engine) -> None:
    """End the wait: a turn begins."""
    timer, engine.idle_timer = engine.idle_timer, None
    if timer is not None:
        cancel_task(timer)


async def close(engine: Engine) -> None:
    """Give up everything, on the loop that it runs on; nothing of it is left there."""
    timer = engine.idle_timer
    stop_watching(engine)
    drop(engine, UNUSED)
    await _wait_for_end(engine)
    if timer is not None and not timer.done() and timer.get_loop() is asyncio.get_running_loop():
        await asyncio.wait({timer})
