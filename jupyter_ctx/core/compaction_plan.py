"""Where a compaction cuts, and whether it is worth one: decided before anything is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CompactionError
from . import compaction as pure
from .blocks import Message, images_of, without_images
from .due import is_heavy
from .engine import Engine
from .entries import Trigger
from .gathering import head_tokens
from .offload import LEAST_RESULT_TOKENS
from .tokens import SAFETY, Weight
from .window import LEAST_OUTPUT, share_of, summary_budget

TAIL_WEIGHT_SHARE = 0.25
"""What is kept verbatim at a compaction may have of a request's most bytes and images."""
LEAST_LIGHTER = 0.25
"""Where less of the bytes and images would go, no compaction is run for their sake."""
LEAST_DROPPED = 10
"""Where less than a tenth of the summary's budget would be dropped, no summary is asked for."""


class NothingToDropError(CompactionError):
    """No compaction is possible yet; nothing was asked for, so nothing failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the cuts fall: `sent` messages were sent; those from `cut` on stay."""

    sent: int
    cut: int
    summary_tokens: int
    used_tokens: int


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
    cut = find_cut(engine, sent, drops_images=drops_images)
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


def is_worth_it(engine: Engine) -> bool:
    """Say whether a compaction that is due would free enough to be run.

    After an earlier one it must drop enough beside that one's message, which comes back as long as
    it was: else compactions of no gain would alternate with others.
    """
    try:
        plan = find_plan(engine, "proactive")
    except NothingToDropError:
        return False
    return engine.transcript.active_compaction is None or frees_enough(engine, plan.cut)


def frees_enough(engine: Engine, cut: int) -> bool:
    """Say whether `least_gain` of what is used lies before `cut`: an estimate, so × 1.15.

    Behind an earlier compaction the same is asked of the sum that one will be judged by: the
    message it put in front and what stays, estimated, beside what is used.
    """
    meter, view, used = engine.meter, engine.transcript.view, engine.used.total
    is_later = engine.transcript.active_compaction is not None
    dropped = sum(map(meter.estimate_message, view[1 if is_later else 0 : cut]))
    least = engine.limits.least_gain * used
    if dropped < SAFETY * least:
        return False
    return not is_later or used - meter.estimate_request([*view[:1], *view[cut:]]) >= least


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


def expected_head_tokens(engine: Engine, window: int) -> int:
    """Return what the next summary and what comes back with it may take, in tokens.

    At least what the last one's message takes: the first and the newest instruction come back
    whole, and may be longer than the shares of all the rest.
    """
    head, last = head_tokens(engine.limits, window), engine.transcript.active_compaction
    if last is None:
        return head
    return max(head, math.ceil(SAFETY * engine.meter.estimate_message(last.message)))


def find_cut(engine: Engine, sent: int, *, drops_images: bool = False) -> int:
    """Return where the tail begins: it is bounded in tokens, and in bytes and images too.

    Where the images leave in any case, only what is left counts: no text goes for their sake.
    """
    limits, meter = engine.limits, engine.meter
    budget = share_of(limits, "tail_tokens", engine.window)
    most_bytes = TAIL_WEIGHT_SHARE * engine.most_bytes
    most_images = TAIL_WEIGHT_SHARE * engine.facts.max_images

    def cost(message: Message) -> int:
        if drops_images:
            message = without_images(message)
        weight = Weight().add(message)
        shares = (weight.bytes / most_bytes, weight.images / most_images)
        return max(meter.estimate_message(message), math.ceil(budget * max(shares)))

    return pure.find_tail(engine.transcript.view, sent, budget, cost)


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
