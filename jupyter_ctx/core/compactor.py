"""Carry a compaction out: ask for the summary, put back what must not be forgotten, record it.

The transcript changes by one entry at the very end; whatever fails before leaves it as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from ..errors import CompactionError, ModelError
from . import compaction as pure
from .around import after_compaction, remember, restart_session
from .blocks import PARTS, Message, without_images
from .calls import new_reply
from .compaction_plan import NothingToDropError, Plan, find_plan
from .compaction_request import Attempt, ask_summary
from .counts import apportion
from .engine import Engine
from .entries import CompactionEntry, CompactionFailedEntry, MessageEntry
from .events import CompactionFailed, CompactionFinished, CompactionStarted, CtxEvent
from .gathering import build_sections
from .names import find_missing, missing_line
from .reply import Reply
from .toolset import renew_tools
from .view import kept_messages


async def run_compaction(engine: Engine, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
    """Compact once; `attempt.succeeded` tells how it came out. Raises nothing of its own.

    The breaker and the no-progress guard are for who calls it: a user's own wish (`manual`) passes.
    """
    started = engine.ports.clock.monotonic()
    yield CompactionStarted(attempt.turn, len(engine.transcript.compactions) + 1, attempt.trigger)
    try:
        plan = find_plan(engine, attempt.trigger, drops_images=attempt.drops_images)
        reply = new_reply(engine, attempt.turn, 0, 0)
        async with aclosing(ask_summary(engine, attempt, plan, reply)) as events:
            async for event in events:
                yield event
        async with aclosing(conclude(engine, attempt, plan, reply, started)) as events:
            async for event in events:
                yield event
    except (CompactionError, ModelError) as error:
        yield fail(engine, attempt, error)


async def conclude(
    engine: Engine, attempt: Attempt, plan: Plan, reply: Reply, started: float
) -> AsyncGenerator[CtxEvent, None]:
    """Put the summary that `reply` brought in force: the second half of every compaction.

    `started` is when it was asked for, by the clock's monotonic time. Raises CompactionError if it
    is no summary or would free nothing; the transcript is then unchanged.
    """
    done = reply.done
    assert done is not None  # run_call() returns only after ReplyDone
    attempt.usage = done.usage
    message = Message("assistant", tuple(reply.blocks))
    has_memory = engine.ports.memory.is_on
    summary, facts = pure.read_reply(message, done.stop_reason, has_memory=has_memory)
    await remember(engine, facts)
    told = await restart_session(engine)
    entry = await _build_entry(engine, attempt, plan, summary, started, told)
    renewed = renew_tools(engine, entry)
    if renewed is not None:
        entry = _with_tools(entry, renewed[1])
    engine.record(entry)
    if renewed is not None:
        engine.record(renewed[0])
    attempt.succeeded = True
    yield CompactionFinished(
        attempt.turn,
        entry.n,
        entry.trigger,
        entry.tokens_before,
        entry.tokens_after,
        entry.seconds,
        entry.cost_usd,
    )
    _warn_if_little_gain(engine, entry)
    await after_compaction(engine, entry)


def fail(engine: Engine, attempt: Attempt, error: CompactionError | ModelError) -> CompactionFailed:
    """Record a failure and return its event; where nothing was asked for, nothing failed."""
    if not isinstance(error, NothingToDropError):
        at = engine.ports.clock.now()
        engine.record(
            CompactionFailedEntry(at, attempt.turn, attempt.trigger, str(error), attempt.usage)
        )
    failures = engine.transcript.failures_in_a_row
    return CompactionFailed(attempt.turn, str(error), failures, engine.is_paused)


async def _build_entry(
    engine: Engine, attempt: Attempt, plan: Plan, summary: str, started: float, told: str
) -> CompactionEntry:
    """Return the entry that will be recorded. Raises CompactionError if it would free nothing."""
    transcript = engine.transcript
    kept = transcript.view[plan.cut :]
    shown = tuple(map(without_images, kept)) if attempt.drops_images else kept
    summary = _bounded(engine, engine.ports.redactor.text(summary), plan.summary_tokens)
    missing = await find_missing(summary, transcript, engine.ports.kernel, engine.ports.notebook)
    remark = missing_line(missing)
    summary_tokens = engine.meter.estimate_text(f"{summary}\n{remark}")
    sections = await build_sections(engine, shown, summary_tokens, told)
    message, items = pure.build_summary_message(engine.texts.resume, summary, sections, remark)
    replaced = transcript.view[: plan.cut]
    turns = transcript.turns_of(replaced) or (transcript.turn, transcript.turn)
    entry = CompactionEntry(
        at=engine.ports.clock.now(),
        n=len(transcript.compactions) + 1,
        turn=attempt.turn,
        trigger=attempt.trigger,
        message=message,
        summary=summary,
        drop_messages=plan.cut,
        drop_thinking=must_drop_thinking(engine, kept),
        drop_images=attempt.drops_images,
        first_turn=turns[0],
        last_turn=turns[1],
        tokens_before=plan.used_tokens,
        tokens_after=0,
        seconds=engine.ports.clock.monotonic() - started,
        cost_usd=engine.price(attempt.usage) if attempt.usage else None,
        usage=attempt.usage,
        reinjected=items,
        focus=attempt.focus or None,
        missing=missing,
        parts_before=tuple(engine.meter.share_request(transcript.view, plan.used_tokens).values()),
    )
    after = [message, *kept_messages(transcript.view, entry)]
    tokens_after = engine.meter.estimate_request(after)
    if tokens_after >= plan.used_tokens and not attempt.drops_images:
        raise CompactionError(
            f"It would free nothing: {tokens_after:,} tokens after, {plan.used_tokens:,} before."
        )
    parts_after = tuple(engine.meter.share_request(after, tokens_after).values())
    return replace(entry, tokens_after=tokens_after, parts_after=parts_after)


def _with_tools(entry: CompactionEntry, more: int) -> CompactionEntry:
    """Return the entry of a compaction behind which the tools take `more` tokens (or less)."""
    total = entry.tokens_after + more
    parts = dict(zip(PARTS, entry.parts_after, strict=True))
    weights = {**parts, "tools": max(0, parts["tools"] + more)}
    return replace(entry, tokens_after=total, parts_after=tuple(apportion(weights, total).values()))


def _bounded(engine: Engine, summary: str, budget_tokens: int) -> str:
    """Return the summary, cut where it is longer than half as much again as was asked for."""
    tokens, most = engine.meter.estimate_text(summary), budget_tokens * 3 // 2
    if tokens <= most:
        return summary
    return f"{summary[: len(summary) * most // tokens].rstrip()}\n[… longer than asked for, cut]"


def _has_other_models(engine: Engine, kept: Sequence[Message]) -> bool:
    """Say whether a reply in `kept` is of another model than the present one.

    The present one does not read such a reply's thinking; its own model, switched back to, might
    refuse it behind a new beginning.
    """
    ids = {id(message) for message in kept}
    return any(
        entry.model not in (None, engine.ports.model.name)
        for entry in engine.transcript.entries
        if isinstance(entry, MessageEntry) and id(entry.message) in ids
    )


def must_drop_thinking(engine: Engine, kept: Sequence[Message]) -> bool:
    """Say whether the thinking in `kept` may be refused once what stands before it changes."""
    return engine.facts.binds_thinking or _has_other_models(engine, kept)


def _warn_if_little_gain(engine: Engine, entry: CompactionEntry) -> None:
    freed = 1 - entry.tokens_after / entry.tokens_before
    if freed < engine.limits.least_gain and not entry.drop_images:
        engine.note(
            "warning",
            f"A compaction freed only {100 * freed:.0f} % of {entry.tokens_before:,} tokens, "
            "so it is not repeated.",
            f"Largest parts: {engine.largest_parts()}. `/compact` tries again.",
        )
