"""One model call: sent, taken in as it arrives, tried again where that helps, and recorded."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from ..errors import ModelError, StreamBrokenError, UnreachableError
from .blocks import Block, Message
from .entries import MessageEntry, SpentEntry
from .events import CtxEvent, RetryScheduled, StepDiscarded
from .moment import Moment
from .ports import Delta, Request
from .recovery import next_wait
from .reply import Reply
from .tokens import LEAST_RATIO
from .usage import Usage

if TYPE_CHECKING:
    from .engine import Engine

CUT_CURE = (
    "Give it a longer context (Ollama: `OLLAMA_CONTEXT_LENGTH`; llama.cpp: `--ctx-size`; LM "
    "Studio: the model's context length), or set `window_tokens` to the one it has, so that the "
    "conversation is compacted in time."
)
TOOLS_CURE = (
    "The template of a model that was not made for tools has no place for them: it then answers in "
    "words alone, and another model acts. If this one does call tools: " + CUT_CURE
)


def new_reply(engine: Engine, turn: int, step: int, first_block: int) -> Reply:
    """Return an empty reply to be filled by `run_call`."""
    fresh = f"jctx_{turn}_{step}_{len(engine.transcript.entries)}"
    return Reply(engine.ports.redactor, engine.seen_ids, first_block, fresh)


async def run_call(
    engine: Engine,
    request: Request,
    reply: Reply,
    turn: int,
    step: int,
    *,
    silent: bool = False,
) -> AsyncGenerator[CtxEvent, None]:
    """Make one model call, with retries, filling `reply` and telling what arrives.

    Raises the ModelError that ended it. `silent`: it asks for a summary, and only retries are
    told. Records nothing, since it may run beside a turn: see `record_beside`.
    """
    engine.watch.check(request, turn, step, is_side=silent)
    clock, failed, began = engine.ports.clock, 0, 0.0
    while True:
        try:
            async with aclosing(_stream(engine, request)) as stream:
                async for delta in stream:
                    events = reply.take(delta, turn)
                    for event in events if not silent else ():
                        yield event
            if reply.done is None:
                raise StreamBrokenError("The stream ended before the answer was complete.")
            return
        except ModelError as error:
            failed += 1
            began = clock.monotonic() if failed == 1 else began
            spent_s = clock.monotonic() - began
            wait = next_wait(error, failed, spent_s, engine.options.retry, random.random())
            if wait is None:
                raise
            if not silent and (reply.blocks or reply.partial):
                yield StepDiscarded(turn, step)
            reply.restart()
            retry = engine.options.retry
            is_refused = isinstance(error, UnreachableError)
            tries = retry.connect_tries if is_refused else retry.tries
            told = RetryScheduled(turn, step, failed + 1, tries, wait, str(error))
            with engine.pauses.add(told) as hurry:  # an answer to it may come at once
                yield told
                await clock.sleep(wait, hurry)


def record_beside(engine: Engine, reply: Reply, turn: int) -> None:
    """Record what the provider charged beside the answer, if anything; once for each reply."""
    if reply.done is not None and reply.done.beside is not None:
        at, beside = engine.ports.clock.now(), reply.done.beside
        engine.record(SpentEntry(at, turn, beside, "beside the answer"))


async def _stream(engine: Engine, request: Request) -> AsyncGenerator[Delta, None]:
    """Pass the model's stream on as a generator that can be closed."""
    began = Moment.of(engine.ports.clock)
    stream = engine.ports.model.stream(request)
    try:
        async for delta in stream:
            engine.requested = began  # a refused request keeps nothing in the cache
            yield delta
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def store_reply(
    engine: Engine,
    reply: Reply,
    content: tuple[Block, ...],
    turn: int,
    step: int,
    stop_reason: str,
) -> None:
    """Record the reply's message; with its usage if the stream was complete and it can be true.

    No prompt that was answered is longer than the window; one figure more would fill it for good.
    """
    message = Message("assistant", content)
    done, window = reply.done, engine.window
    usage = done.usage if done else None
    _warn_if_cut(engine, usage)
    if usage is not None and window is not None and (usage.input_tokens or 0) > window:
        usage = None
    raw_tokens = engine.meter.raw_new(engine.transcript) if done else None
    engine.record(
        MessageEntry(
            at=engine.ports.clock.now(),
            turn=turn,
            step=step,
            kind="reply",
            message=message,
            model=engine.ports.model.name,
            usage=usage,
            raw_tokens=raw_tokens,
            stop_reason=stop_reason,
            message_id=done.message_id if done else None,
            cache_miss=done.cache_miss if done else None,
        )
    )


def _warn_if_cut(engine: Engine, usage: Usage | None) -> None:
    """Say once that the provider seems to have left out a part of the prompt without a word."""
    counted = usage.input_tokens if usage else None
    estimate = engine.meter.find_cut(counted, engine.transcript)
    if estimate is None or counted is None:
        return
    said = f"The server counted {counted:,} tokens of a prompt of about {estimate:,}: it seems to "
    rest = estimate - engine.meter.parts(engine.transcript)["tools"]
    if LEAST_RATIO * rest <= counted <= rest / LEAST_RATIO:
        engine.note("warning", said + "leave out the tools, or its beginning.", TOOLS_CURE)
    else:
        engine.note("warning", said + "leave out its beginning.", CUT_CURE)
