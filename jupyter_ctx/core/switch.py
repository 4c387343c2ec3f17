"""What another model would make of the conversation: a plan to look at before the switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import window
from .entries import CompactionEntry, MessageEntry, RewindEntry, SummaryEditEntry, SummaryUndoEntry
from .ports import ModelFacts
from .tokens import Used

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch to the model of `facts`, not made yet.

    `tokens` is what the whole conversation takes there, all of which its first prompt writes to the
    cache. `window_tokens` is the window that would be in force, None if nobody knows it.
    `compacts`: the conversation does not fit there, so that a compaction comes first. `fits`: there
    is room for system prompt, tools and a step. `returns`: this model wrote the last answer, and
    nothing changed the conversation since, so that its cache may still hold it.
    """

    facts: ModelFacts
    tokens: int
    window_tokens: int | None
    compacts: bool
    fits: bool = True
    returns: bool = False


def plan_switch(engine: Engine, facts: ModelFacts) -> Switch:
    """Return what a switch to the model of `facts` would be; changes nothing.

    What is used now, by the two models' own tokenizers as far as they are known.
    """
    now, facts = engine.used, engine.with_learnt(facts)
    ratio = facts.factor_prior / engine.facts.factor_prior
    used = Used(0, math.ceil(now.total * ratio)) if ratio != 1 else now
    there = window.window_of(engine.limits, facts)
    return Switch(
        facts,
        used.total,
        there,
        window.should_compact(used, engine.limits, facts),
        fits=there is None or there >= engine.least_window * ratio,
        returns=find_speaker(engine) == facts.name,
    )


def find_speaker(engine: Engine) -> str | None:
    """Return which model wrote the last answer of the conversation as it is now, None if none did.

    A summary, its edit or undo and a rewind bring a conversation that nobody was sent yet.
    """
    for entry in reversed(engine.transcript.entries):
        match entry:
            case MessageEntry(kind="reply", model=model):
                return model
            case CompactionEntry() | SummaryEditEntry() | SummaryUndoEntry() | RewindEntry():
                return None
            case _:
                pass
    return None
