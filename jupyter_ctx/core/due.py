"""When a compaction is due, near, or would pay: what the rules say of a session as it is now.

`window.py` has the rule of the reserve, `account.py` that of the account; here they are asked with
the session's own figures. Every function takes as long as what is new since it was last asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from . import window
from .account import FIRST_CALL, MID_TURN, Bill, Budgets, Weights
from .forecast import find_growth, find_steps_left
from .ports import CacheTtl
from .window import PROACTIVE_PRESETS

if TYPE_CHECKING:
    from .engine import Engine

Reason: TypeAlias = Literal["window", "account"]
"""Which rule asks for a compaction."""

HEAVY_SHARE = 0.9
"""From this share of the most bytes or images of a request on, old images are to leave."""
LARGEST_IMAGE_BYTES = 10 * 2**20
"""Base64 of the largest image the API takes (API.md 5): the next one is to find room for it."""
CACHE_S: Mapping[CacheTtl, float] = {"5m": 300.0, "1h": 3_600.0}
"""How long the provider's prompt cache keeps a prompt after the start of the last request."""

MOST_AHEAD_SHARE = 0.03
"""A summary is prepared for the window only where the calls ahead grow by no more of it than this.

What comes after it stays word for word. On a small window, where a step or two is much, an early
one frees little: in the replay it costs 1.24 x the optimum on 8k, and 1.17 x if nothing is prepared
there; 1.11 x and 1.08 x on 16k. From 64k on it changes nothing.
"""


def should_compact(engine: Engine, moment: float = math.inf) -> bool:
    """Say whether a compaction is due before the next call.

    So it is earlier if `moment` (FIRST_CALL, say) is less than what this call is.
    """
    if engine.is_paused or engine.is_stuck:
        return False
    if window.should_compact(engine.used, engine.limits, engine.facts):
        return True
    bill = find_bill(engine)
    return bill is not None and bill.is_due(_multiple(engine, moment))


def is_reserve_reached(engine: Engine) -> bool:
    """Say whether the reserve leaves no room for another call, whatever the account says."""
    return window.should_compact(engine.used, engine.limits, engine.facts)


def is_heavy(engine: Engine) -> bool:
    """Say whether a request is near the most bytes or images, so that old ones must leave."""
    weight = engine.weight
    has_many = weight.images > 0 and weight.images >= HEAVY_SHARE * engine.facts.max_images
    most = HEAVY_SHARE * engine.most_bytes
    if weight.images:
        most = min(most, max(engine.most_bytes / 2, engine.most_bytes - LARGEST_IMAGE_BYTES))
    is_near = has_many or weight.bytes >= most
    return is_near and engine.limits.compaction in PROACTIVE_PRESETS and not engine.is_paused


def can_drop_images(engine: Engine) -> bool:
    """Say whether a request with too many bytes has images that may leave by themselves."""
    is_automatic = engine.limits.compaction in PROACTIVE_PRESETS
    return is_automatic and not engine.is_paused and engine.weight.images > 0


def can_compact_reactively(engine: Engine) -> bool:
    """Say whether a prompt the provider finds too long may be compacted by itself."""
    is_automatic = engine.limits.compaction not in ("manual", "off")
    return is_automatic and not engine.is_paused and not _is_stuck_for_good(engine)


def _is_stuck_for_good(engine: Engine) -> bool:
    """Say whether a compaction brings nothing, also where the turn else ends.

    Then less is worth a call: what it frees counts beside system and tools, which on a small window
    may take more than half of it.
    """
    prefix = engine.meter.prefix_tokens(engine.meter.factor)
    limits, facts = engine.limits, engine.facts
    return window.is_stuck(engine.transcript, engine.used, limits, facts, prefix_tokens=prefix)


def find_reason(engine: Engine, moment: float) -> Reason | None:
    """Return why a compaction will be due within `prepare_calls` calls, as things go on; or None.

    `moment` (FIRST_CALL or MID_TURN) says how full the account must be at those calls.
    """
    calls = engine.limits.prepare_calls
    if calls <= 0 or engine.is_paused or engine.is_stuck:
        return None
    ahead = calls * max(0.0, find_growth(engine.transcript) or 0.0)
    if engine.window is not None and ahead > MOST_AHEAD_SHARE * engine.window:
        ahead = 0.0
    if window.should_compact(engine.used, engine.limits, engine.facts, ahead_tokens=ahead):
        return "window"
    bill = find_bill(engine)
    is_full = bill is not None and bill.is_due(engine.limits.alpha * moment, calls)
    return "account" if is_full else None


def is_cold(engine: Engine) -> bool:
    """Say whether the provider's prompt cache has forgotten the prompt, and that costs money.

    Not known of a session that was resumed and has sent nothing yet.
    """
    if engine.requested is None or not engine.options.prompt_cache:
        return False
    return engine.facts.prices is not None and cache_left_s(engine) <= 0


def cache_left_s(engine: Engine) -> float:
    """Return how long the provider's cache still keeps the prompt, in seconds; ≤ 0: forgotten."""
    if engine.requested is None:
        return 0.0
    return CACHE_S[engine.options.cache_ttl] - engine.requested.since(engine.ports.clock)


def pays_when_cold(engine: Engine) -> bool:
    """Say whether a summary now would pay for itself if the prompt cache forgot the prompt."""
    is_automatic = engine.limits.compaction in PROACTIVE_PRESETS
    if not is_automatic or not engine.options.prompt_cache or engine.requested is None:
        return False
    bill = _find_bill(engine, in_background=True)
    return bill is not None and bill.pays_when_cold and not (engine.is_paused or engine.is_stuck)


def find_bill(engine: Engine) -> Bill | None:
    """Return the account of the preset `economic`; None with another, or without prices."""
    if engine.limits.compaction != "economic":
        return None
    return _find_bill(engine, in_background=engine.limits.prepare_calls > 0)


def _find_bill(engine: Engine, *, in_background: bool) -> Bill | None:
    options = engine.options
    weights = Weights.of(
        engine.facts.prices,
        cached=options.prompt_cache,
        ttl=options.cache_ttl,
        prompt_tokens=engine.used.total,
    )
    if weights is None:
        return None
    prefix = engine.meter.prefix_tokens(engine.account.factor)
    instruction = engine.meter.estimate_text(engine.summary_text)
    budgets = Budgets.of(engine.limits, engine.window, prefix)
    return engine.account.bill(budgets, weights, instruction, in_background=in_background)


def _multiple(engine: Engine, moment: float = math.inf) -> float:
    """Return how often the account must hold a compaction's price before the next call."""
    now = FIRST_CALL if engine.account.is_first_call else MID_TURN
    return engine.limits.alpha * min(now, moment)


def forecast_steps(engine: Engine, bill: Bill | None) -> int | None:
    """Return the smaller of the forecasts by reserve and account, the latter within one turn.

    None before three measured steps.
    """
    growth = find_growth(engine.transcript)
    steps = [find_steps_left(growth, engine.used, engine.window, engine.reserve)]
    if bill is not None and growth is not None:
        is_due = bill.is_due(_multiple(engine))
        steps.append(0 if is_due else bill.steps_left(engine.limits.alpha * MID_TURN, growth))
    return min((count for count in steps if count is not None), default=None)
