"""The request for a summary: the prompt exactly as last sent, plus one user message.

Law: it reads the whole prompt from the cache and writes nothing. Nothing is left out of it but
where it is itself too long, then in the order of `compaction.shrink`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from ..errors import CompactionError, ModelError, PromptTooLongError, RequestTooLargeError
from . import compaction as pure
from .around import before_compaction, cut_to, hook_tokens
from .blocks import Message, images_of, without_thinking
from .calls import record_beside, run_call
from .compaction_plan import Plan
from .engine import Engine
from .entries import Trigger
from .events import CtxEvent
from .ports import Request
from .reply import Reply
from .requests import request_for
from .tokens import LEAST_RATIO, SAFETY
from .usage import Usage
from .window import LEAST_OUTPUT

THINKING_TOKENS = 8_000
"""What the answer may have beside the summary, for thinking (DESIGN.md 5, Compaction request)."""


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


def build_summary_request(engine: Engine, plan: Plan, focus: str = "") -> Request:
    """Return the prompt as last sent plus the instruction, its breakpoints where they were."""
    sent = tuple(engine.transcript.view[: plan.sent])
    instruction = pure.build_instruction(engine.summary_text, plan.summary_tokens, focus)
    return _compaction_request(engine, sent, instruction, plan.summary_tokens)


async def ask_summary(
    engine: Engine, attempt: Attempt, plan: Plan, reply: Reply
) -> AsyncGenerator[CtxEvent, None]:
    """Ask for the summary; a request that is itself too long is cut and sent again."""
    request = build_summary_request(engine, plan, attempt.focus)
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
            record_beside(engine, reply, attempt.turn)
            return
        except (PromptTooLongError, RequestTooLargeError) as error:
            if retry == engine.limits.compaction_retries:
                raise CompactionError(_too_long(engine, request, error, retry)) from error
            if isinstance(error, PromptTooLongError):
                engine.learn_window(error, request.messages)
            retry += 1
            request = _shrunk(engine, request, retry, plan.summary_tokens)


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


def find_wish_room(engine: Engine) -> int:
    """Return what a PreCompact hook's words may take in the request for a summary, in tokens.

    Half of what the law of the room leaves, so that nothing is cut for them.
    """
    left = engine.room().law_tokens
    most = hook_tokens(engine.window)
    return most if left is None else min(most, int(left / 2 / SAFETY))


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


def _compaction_request(
    engine: Engine, sent: tuple[Message, ...], instruction: Message, summary_tokens: int
) -> Request:
    window, answer_tokens = engine.window, summary_tokens + engine.memory_tokens
    limit = answer_tokens + THINKING_TOKENS
    if window is not None:
        tokens = engine.meter.estimate_request([*sent, instruction])
        limit = min(limit, int(window - SAFETY * tokens))
    if engine.facts.max_output_tokens is not None:
        limit = min(limit, engine.facts.max_output_tokens)
    base = request_for(engine, sent, max(limit, answer_tokens, LEAST_OUTPUT))
    return replace(base, messages=(*sent, instruction), previous_message_id=None)


async def _fitted(engine: Engine, request: Request, summary_tokens: int) -> Request:
    """Return the request, cut until it and its summary fit the window.

    So it must be after a switch to a smaller model. Of one that seems too long the provider's own
    count decides, if it has one: nothing is left out of a summary on a guess. What was cut is
    counted again, since the guess may have been too high for what went, and too low for the rest.
    """
    attempt, window = 1, engine.window
    if window is None:
        return request
    most = window - summary_tokens - engine.memory_tokens
    while await _size(engine, request, most if attempt == 1 else 0) > most:
        request = _shrunk(engine, request, attempt, summary_tokens)
        attempt += 1
    return request


async def _size(engine: Engine, request: Request, doubted_over: int) -> int:
    """Return the request's tokens: the estimate, or the provider's count where it is doubted.

    So it is where, with its margin, it is over `doubted_over`. A count of under half of the
    estimate is not believed, here as elsewhere.
    """
    estimate = engine.meter.estimate_request(request.messages)
    if SAFETY * estimate <= doubted_over:
        return estimate
    try:
        counted = await engine.ports.model.count_tokens(request)
    except ModelError:
        return estimate  # the call itself meets the same fault, and reports it
    if counted is None or counted < LEAST_RATIO * estimate:
        return min(estimate, _measured_size(engine, request, estimate))
    return counted


def _measured_size(engine: Engine, request: Request, estimate: int) -> int:
    """Return what the provider's own figures say of a request that nothing was left out of.

    They know what an image costs there, which the estimate does not. Of a cut one `estimate`.
    """
    view, sent = engine.transcript.view, request.messages[:-1]
    if len(sent) > len(view) or not all(map(operator.is_, sent, view)):
        return estimate
    instruction = engine.meter.estimate_message(request.messages[-1])
    return engine.meter.used(engine.transcript).cautious + instruction


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


def _too_long(engine: Engine, request: Request, error: ModelError, cuts: int) -> str:
    tokens = engine.meter.estimate_request(request.messages)
    times = "once" if cuts == 1 else f"{cuts:,} times"
    cut = f", though it was cut {times}" if cuts else ""
    return f"The compaction request is too long{cut}: ≈{tokens:,} of {_window(engine)}. {error}"


def _window(engine: Engine) -> str:
    return "a window not known" if engine.window is None else f"{engine.window:,} tokens"
