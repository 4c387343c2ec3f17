"""The next request: the frozen prefix, messages of the view, and how long the answer may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import window
from .blocks import Json, Message
from .cache import place_breakpoints
from .offload import LEAST_RESULT_TOKENS, SMALL_SHARE
from .ports import Request
from .window import LEAST_OUTPUT

if TYPE_CHECKING:
    from .engine import Engine


def build_request(engine: Engine, *, output_raised: bool = False) -> Request:
    """Return the next request: the frozen prefix and the whole view."""
    options = engine.options
    wanted = options.output_tokens_raised if output_raised else options.output_tokens
    return request_for(engine, engine.transcript.view, output_limit(engine, wanted))


def can_raise_output(engine: Engine) -> bool:
    """Say whether the raised output limit would let an answer be longer here and now."""
    options = engine.options
    return output_limit(engine, options.output_tokens_raised) > output_limit(
        engine, options.output_tokens
    )


def output_limit(engine: Engine, wanted: int) -> int:
    """Return how long the next answer may be.

    However long it gets, the smallest result and a compaction still fit behind it: an answer
    that is cut goes on after that compaction. Only what was sent is summed up, so behind an
    answer that may fill most of the window, a step with a small prompt must fit as well.
    """
    keep = engine.room().compaction_tokens + LEAST_RESULT_TOKENS
    if engine.window is not None and engine.used.total < engine.window // 2:
        keep += LEAST_OUTPUT + int(engine.window * SMALL_SHARE)
    return window.output_limit(wanted, engine.used, engine.limits, engine.facts, keep_tokens=keep)


def request_for(engine: Engine, messages: Sequence[Message], max_tokens: int) -> Request:
    """Return a request of `messages` on the frozen prefix, its breakpoints in their places."""
    prefix = engine.transcript.prefix
    tools: tuple[Json, ...] = prefix.tools if prefix else ()
    cached = engine.options.prompt_cache
    return Request(
        model=engine.ports.model.name,
        system=prefix.system if prefix else "",
        tools=tools,
        messages=tuple(messages),
        max_tokens=max_tokens,
        breakpoints=place_breakpoints(messages) if cached else (),
        cache_ttl=engine.options.cache_ttl,
        thinking=engine.options.thinking,
        effort=engine.options.effort,
        previous_message_id=engine.reply_ids.get(engine.ports.model.name),
    )
