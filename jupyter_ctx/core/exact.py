"""The provider's own count of the next prompt, asked for where an estimate could decide wrongly.

It is free and takes a round trip, so it is asked for at most once a step: in the last share of the
window, and where the reserve seems reached. It is recorded, and so is that there is none (0
tokens): a resumed session has the same numbers, and asks no more often.
"""

from __future__ import annotations

from ..errors import ModelError
from .engine import Engine
from .entries import CountEntry
from .ports import ModelFacts
from .requests import build_request
from .tokens import Used
from .window import Limits, should_compact, window_of

LEAST_SHARE = 0.01
"""An estimated part under this share of the window changes no decision."""


async def count_if_near(engine: Engine) -> None:
    """Record the provider's count of system, tools and view, where it matters and it has one.

    A provider that fails or has none is not asked again for this model: the estimate stands.
    """
    name = engine.ports.model.name
    if name in engine.uncountable or not is_worth_asking(engine.used, engine.limits, engine.facts):
        return
    try:
        tokens = await engine.ports.model.count_tokens(build_request(engine))
    except ModelError:
        tokens = None  # the call itself meets a fault that lasts, and reports it
    if tokens is None or not engine.meter.is_plausible(tokens, engine.transcript):
        engine.record(CountEntry(engine.ports.clock.now(), 0))
        return
    raw_tokens = engine.meter.raw_new(engine.transcript)
    engine.record(CountEntry(engine.ports.clock.now(), tokens, raw_tokens))


def is_worth_asking(used: Used, limits: Limits, facts: ModelFacts) -> bool:
    """Say whether a decision hangs on an estimate: over 1 % of the window is one, near its end."""
    window = window_of(limits, facts)
    if window is None or limits.exact_share <= 0 or used.estimated <= LEAST_SHARE * window:
        return False
    is_near = used.cautious >= (1 - limits.exact_share) * window
    return is_near or should_compact(used, limits, facts)
