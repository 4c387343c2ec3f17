"""What another model would make of the conversation: a plan to look at before the switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import window
from .ports import ModelFacts
from .tokens import Used

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch to the model of `facts`, not made yet.

    `tokens` is what the whole conversation takes there, all of which its first prompt writes to the
    cache. `window_tokens` is the window that would be in force, None if nobody knows it.
    `compacts`: the conversation does not fit there, so that a compaction comes first.
    """

    facts: ModelFacts
    tokens: int
    window_tokens: int | None
    compacts: bool


def plan_switch(engine: Engine, facts: ModelFacts) -> Switch:
    """Return what a switch to the model of `facts` would be; changes nothing.

    What is used now, by the two models' own tokenizers as far as they are known.
    """
    now = engine.used
    ratio = facts.factor_prior / engine.facts.factor_prior
    used = Used(0, math.ceil(now.total * ratio)) if ratio != 1 else now
    return Switch(
        facts,
        used.total,
        window.window_of(engine.limits, facts),
        window.should_compact(used, engine.limits, facts),
    )
