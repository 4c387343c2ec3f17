"""Carry a compaction out: ask for the summary, put back what must not be forgotten, record it.

The transcript changes by one entry at the very end; whatever fails before leaves it as it was.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from ..errors import CompactionError, ModelError, PromptTooLongError, RequestTooLargeError
from . import compaction as pure
from .around import (
    after_compaction,
    before_compaction,
    cut_to,
    hook_tokens,
    remember,
    restart_session,
)
from .blocks import Message, images_of, without_images, without_thinking
from .cache import place_breakpoints
from .calls import new_reply, run_call
from .due import is_heavy
from .engine import Engine
from .entries import CompactionEntry, CompactionFailedEntry, MessageEntry, Trigger
from .events import CompactionFailed, CompactionFinished, CompactionStarted, CtxEvent
from .gathering import build_sections, head_tokens
from .names import find_missing, missing_line
from .offload import LEAST_RESULT_TOKENS
from .ports import Request
from .reply import Reply
from .requests import request_for
from .tokens import SAFETY, Weight
from .usage import Usage
from .view import kept_messages
from .window import DEFAULTS, LEAST_OUTPUT, TAIL_SHARE, share, summary_budget, window_of

TAIL_WEIGHT_SHARE = 0.25
"""What is kept verbatim at a compaction may have of a request's most bytes and images."""
LEAST_LIGHTER = 0.25
"""Where less of the bytes and images would go, no compaction is run for their sake."""
LEAST_DROPPED = 10
"""Where less than a tenth of the summary's budget would be dropped, no summary is asked for."""


class NothingToDropError(CompactionError):
    """No compaction is possible yet; nothing was asked for, so nothing failed."""


@dataclass(slots=True)
class Attempt:
    """One compaction under way, and how it came out.

    `drops_images`: the prompt had too many bytes, so every image leaves with it.
    """

    turn: int
    trigger: Trigger
    focus: str = ""
    drops_images: bool = False
    succeeded: bool = False
    usage: Usage | None = None


async def run_compaction(engine: Engine, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
    """Compact once; `attempt.succeeded` tells how it came out. Raises nothing of its own.

    The breaker and the no-progress guard are for who calls it: a user's own wish (`manual`) passes.
    """
    started = engine.ports.clock.monotonic()
    yield CompactionStarted(attempt.turn, len(engine.transcript.compactions) + 1, attempt.trigger)
    try:
        plan = find_plan(engine, attempt.trigger, drops_images=attempt.drops_images)
        reply = new_reply(engine, attempt.turn, 0, 0)
        async with aclosing(_ask(engine, attempt, plan, reply)) as events:
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
    assert done is not None  # call() returns only after ReplyDone
    attempt.usage = done.usage
    message = Message("assistant", tuple(reply.blocks))
    has_memory = engine.ports.memory.is_on
    summary, facts = pure.read_reply(message, done.stop_reason, has_memory=has_memory)
    await remember(engine, facts)
    told = await restart_session(engine)
    entry = await _build_entry(engine, attempt, plan, summary, started, told)
    engine.record(entry)
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


def find_wish_room(engine: Engine) -> int:
    """Return what a PreCompact hook's words may take in the request for a summary, in tokens.

    Half of what the law of the room leaves, so that nothing is cut for them.
    """
    left = engine.room().law_tokens
    most = hook_tokens(engine.window)
    return most if left is None else min(most, int(left / 2 / SAFETY))


async def ask_hooks(
    engine: Engine,
    trigger: Trigger,
    focus: str,
    request: Request,
    summary_tokens: int,
    room_tokens: int,
) -> Request:
    """Run the PreCompact hooks and return the request for the summary with what they ask for.

    Their words take at most `room_tokens` (`find_wish_room`), or what the request leaves. Raises
    CompactionError if one of them blocks it. Touches no count that depends on the transcript.
    """
    told = await before_compaction(engine, trigger, focus)
    return _with_wish(engine, request, focus, told, summary_tokens, room_tokens)


def _with_wish(
    engine: Engine,
    request: Request,
    focus: str,
    told: str,
    summary_tokens: int,
    room_tokens: int,
) -> Request:
    """Return the request with a hook's words beside `focus`, as far as they fit its room."""
    count = engine.meter.estimate_text
    answer_tokens = summary_tokens + engine.memory_tokens
    spare = int((request.max_tokens - answer_tokens) / 2 / SAFETY)
    told = cut_to(told, max(room_tokens, spare), count)
    if not told:
        return request
    wish = f"{focus}\n{told}" if focus else told
    instruction = pure.build_instruction(engine.summary_text, summary_tokens, wish)
    return replace(
        request,
        messages=(*request.messages[:-1], instruction),
        max_tokens=max(answer_tokens, request.max_tokens - math.ceil(SAFETY * count(told))),
    )


async def _ask(
    engine: Engine, attempt: Attempt, plan: Plan, reply: Reply
) -> AsyncGenerator[CtxEvent, None]:
    """Ask for the summary; a request that is itself too long is cut and sent again."""
    request = build_request(engine, plan, attempt.focus)
    room_tokens = find_wish_room(engine)
    told = await before_compaction(engine, attempt.trigger, attempt.focus)
    for note in engine.take_notes():
        yield note
    if attempt.drops_images and any(map(images_of, request.messages)):
        request = _shrunk(engine, request, 1, plan.summary_tokens)
    retry = 0
    while True:
        try:
            request = await _fitted(engine, request, plan.summary_tokens)
            request = _with_wish(
                engine, request, attempt.focus, told, plan.summary_tokens, room_tokens
            )
            async with aclosing(
                run_call(engine, request, reply, attempt.turn, 0, silent=True)
            ) as events:
                async for event in events:
                    yield event
            return
        except (PromptTooLongError, RequestTooLargeError) as error:
            if retry == engine.limits.compaction_retries:
                raise CompactionError(_too_long(engine, request, error, retry)) from error
            if isinstance(error, PromptTooLongError):
                engine.learn_window(error)
            retry += 1
            request = _shrunk(engine, request, retry, plan.summary_tokens)


def _too_long(engine: Engine, request: Request, error: ModelError, cuts: int) -> str:
    tokens = engine.meter.estimate_request(request.messages)
    times = "once" if cuts == 1 else f"{cuts:,} times"
    cut = f", though it was cut {times}" if cuts else ""
    return f"The compaction request is too long{cut}: ≈{tokens:,} of {_window(engine)}. {error}"


def _window(engine: Engine) -> str:
    return "a window not known" if engine.window is None else f"{engine.window:,} tokens"


async def _fitted(engine: Engine, request: Request, summary_tokens: int) -> Request:
    """Return the request, cut until it and its summary fit the window.

    So it must be after a switch to a smaller model. Of one that seems too long the provider's own
    count decides, if it has one: nothing is left out of a summary on a guess.
    """
    attempt, window = 1, engine.window
    answer_tokens = summary_tokens + engine.memory_tokens
    while window is not None and await _size(engine, request, window - answer_tokens) > (
        window - answer_tokens
    ):
        request = _shrunk(engine, request, attempt, summary_tokens)
        attempt += 1
    return request


async def _size(engine: Engine, request: Request, doubted_over: int) -> int:
    """Return the request's tokens: the estimate, or the provider's count where that is too much."""
    estimate = engine.meter.estimate_request(request.messages)
    if estimate <= doubted_over:
        return estimate
    try:
        counted = await engine.ports.model.count_tokens(request)
    except ModelError:
        return estimate  # the call itself meets the same fault, and reports it
    return estimate if counted is None else counted


def fail(engine: Engine, attempt: Attempt, error: CompactionError | ModelError) -> CompactionFailed:
    """Record a failure and return its event; where nothing was asked for, nothing failed."""
    if not isinstance(error, NothingToDropError):
        at = engine.ports.clock.now()
        engine.record(
            CompactionFailedEntry(at, attempt.turn, attempt.trigger, str(error), attempt.usage)
        )
    failures = engine.transcript.failures_in_a_row
    return CompactionFailed(attempt.turn, str(error), failures, engine.is_paused)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the cuts fall: `sent` messages were sent; those from `cut` on stay."""

    sent: int
    cut: int
    summary_tokens: int
    used_tokens: int


def is_worth_it(engine: Engine) -> bool:
    """Say whether a compaction that is due would free enough to be run.

    After an earlier one it must drop `least_gain` of what is used beside that one's message, which
    comes back as long as it was (an estimate, so × 1.15): else compactions of no gain would
    alternate with others.
    """
    try:
        plan = find_plan(engine, "proactive")
    except NothingToDropError:
        return False
    if engine.transcript.active_compaction is None:
        return True
    dropped = sum(map(engine.meter.estimate_message, engine.transcript.view[1 : plan.cut]))
    return dropped >= SAFETY * engine.limits.least_gain * plan.used_tokens


def must_lighten(engine: Engine) -> bool:
    """Say whether bytes or images come near their limit, and a compaction would take a quarter.

    Images leave in one batch: what stays verbatim holds no more than a quarter of what a request
    may.
    """
    if not is_heavy(engine):
        return False
    try:
        plan = find_plan(engine, "proactive")
    except NothingToDropError:
        return False
    weight, gone = engine.weight, Weight()
    for message in engine.transcript.view[: plan.cut]:
        gone = gone.add(message)
    has_images = gone.images > 0 and gone.images >= LEAST_LIGHTER * weight.images
    return has_images or gone.bytes >= LEAST_LIGHTER * weight.bytes


def _find_cut(engine: Engine, sent: int, *, drops_images: bool) -> int:
    """Return where the tail begins: it is bounded in tokens, and in bytes and images too.

    Where the images leave in any case, only what is left counts: no text goes for their sake.
    """
    limits, meter = engine.limits, engine.meter
    budget = share(limits.tail_tokens, DEFAULTS.tail_tokens, engine.window, TAIL_SHARE)
    most_bytes = TAIL_WEIGHT_SHARE * engine.most_bytes
    most_images = TAIL_WEIGHT_SHARE * engine.facts.max_images

    def cost(message: Message) -> int:
        if drops_images:
            message = without_images(message)
        weight = Weight().add(message)
        shares = (weight.bytes / most_bytes, weight.images / most_images)
        return max(meter.estimate_message(message), math.ceil(budget * max(shares)))

    return pure.find_tail(engine.transcript.view, sent, budget, cost)


def find_plan(engine: Engine, trigger: Trigger, *, drops_images: bool = False) -> Plan:
    """Find the cuts. Raises NothingToDropError if what lies before them is not worth a summary.

    With `drops_images` it is worth one as soon as there is an image.
    """
    view, limits, estimate = engine.transcript.view, engine.limits, engine.meter.estimate_message
    sent = pure.find_last_sent(view)
    if sent == 0 or (sent == 1 and engine.transcript.active_compaction is not None):
        raise NothingToDropError(
            "There is nothing to compact yet: one turn must have been answered."
        )
    if _is_too_much(engine, view[sent:]):
        sent = pure.find_end(view)
    summary_tokens = summary_budget(limits, engine.window)
    cut = _find_cut(engine, sent, drops_images=drops_images)
    dropped = sum(map(estimate, view[:cut]))
    # A summary alone that gives way to another frees nothing.
    is_again = cut == 1 and engine.transcript.active_compaction is not None
    has_images = drops_images and any(map(images_of, view))
    is_little = dropped < summary_tokens // LEAST_DROPPED or is_again
    if is_little and not has_images and trigger != "manual":
        cut = sent  # room is needed now: better no tail than no compaction
        dropped = sum(map(estimate, view[:cut]))
    if dropped < summary_tokens // LEAST_DROPPED and not has_images:
        raise NothingToDropError(
            f"There is nothing to compact: only {dropped:,} tokens lie before the newest steps, "
            "which stay as they are."
        )
    return Plan(sent, cut, summary_tokens, engine.used.total)


def _is_too_much(engine: Engine, unsent: Sequence[Message]) -> bool:
    """Say whether no step may fit behind what was not yet sent, whatever else is dropped.

    So it may be after an answer that took most of the window, or a switch to a smaller one; then it
    is summed up with the rest.
    """
    if engine.window is None:
        return False
    room = engine.room().compaction_tokens + LEAST_OUTPUT + LEAST_RESULT_TOKENS
    room += expected_head_tokens(engine, engine.window)
    return math.ceil(SAFETY * engine.meter.estimate_request(unsent)) + room > engine.window


def expected_head_tokens(engine: Engine, window: int) -> int:
    """Return what the next summary and what comes back with it may take, in tokens.

    At least what the last one's message takes: the first and the newest instruction come back
    whole, and may be longer than the shares of all the rest.
    """
    head, last = head_tokens(engine.limits, window), engine.transcript.active_compaction
    if last is None:
        return head
    return max(head, math.ceil(SAFETY * engine.meter.estimate_message(last.message)))


def build_request(engine: Engine, plan: Plan, focus: str = "") -> Request:
    """Return the prompt as last sent plus the instruction, its breakpoints where they were."""
    sent = tuple(engine.transcript.view[: plan.sent])
    instruction = pure.build_instruction(engine.summary_text, plan.summary_tokens, focus)
    return _compaction_request(engine, sent, instruction, plan.summary_tokens)


def _compaction_request(
    engine: Engine, sent: tuple[Message, ...], instruction: Message, summary_tokens: int
) -> Request:
    window = window_of(engine.limits, engine.facts)
    answer_tokens = summary_tokens + engine.memory_tokens
    limit = answer_tokens + 8_000
    if window is not None:
        limit = min(limit, int(window - 1.15 * engine.meter.estimate_request([*sent, instruction])))
    if engine.facts.max_output_tokens is not None:
        limit = min(limit, engine.facts.max_output_tokens)
    base = request_for(engine, sent, max(limit, answer_tokens, LEAST_OUTPUT))
    return Request(
        model=base.model,
        system=base.system,
        tools=base.tools,
        messages=(*sent, instruction),
        max_tokens=base.max_tokens,
        breakpoints=place_breakpoints(sent) if engine.options.prompt_cache else (),
        cache_ttl=base.cache_ttl,
        thinking=base.thinking,
        effort=base.effort,
    )


def _shrunk(engine: Engine, request: Request, attempt: int, summary_tokens: int) -> Request:
    """Return the request made shorter; its thinking is left out, since its prefix changed."""
    try:
        messages = pure.shrink(request.messages, attempt)
    except CompactionError as error:
        tokens = engine.meter.estimate_request(request.messages)
        raise CompactionError(f"{error} It takes ≈{tokens:,} of {_window(engine)}.") from error
    bare = tuple(kept for message in messages if (kept := without_thinking(message)))
    shrunk = _compaction_request(engine, bare[:-1], bare[-1], summary_tokens)
    engine.watch.allow(shrunk)
    return shrunk


async def _build_entry(
    engine: Engine, attempt: Attempt, plan: Plan, summary: str, started: float, told: str
) -> CompactionEntry:
    """Return the entry that will be recorded. Raises CompactionError if it would free nothing."""
    transcript = engine.transcript
    kept = transcript.view[plan.cut :]
    shown = tuple(map(without_images, kept)) if attempt.drops_images else kept
    summary = _bounded(engine, engine.ports.redactor.text(summary), plan.summary_tokens)
    missing = await find_missing(summary, transcript, engine.ports.kernel)
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
    )
    after = [message, *kept_messages(transcript.view, entry)]
    tokens_after = engine.meter.estimate_request(after)
    if tokens_after >= plan.used_tokens and not attempt.drops_images:
        raise CompactionError(
            f"It would free nothing: {tokens_after:,} tokens after, {plan.used_tokens:,} before."
        )
    return replace(entry, tokens_after=tokens_after)


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
