"""One conversation at one window: played, billed, held against the optimum and other rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .optimum import find_optimum, plan_of
from .player import play
from .policies import POLICIES, Outcome, run_policy
from .trajectories import Conversation, clipped

REPLY_CHARS_PER_TOKEN = 0.3
"""A reply is at most so many characters for each token of the window (7 to 10 % of it)."""
LONGEST_KEPT_CHARS, KEPT_CHARS_PER_TOKEN = 50_000, 0.25
"""What the engine keeps of one result, at most and by the window (DESIGN.md 5)."""


@dataclass(frozen=True)
class Figures:
    """What came of one conversation at one window. Costs are in weighted tokens.

    `breaks` counts prefixes that were not those of the call before, by cause. `peak` is the longest
    call with its answer. `turned_down`: requests over the window. `failures`: turns and summaries.
    """

    name: str
    window: int
    calls: int
    cost: float
    optimum: float
    compactions: int
    optimum_compactions: int
    refusals: int
    breaks: Mapping[str, int]
    peak: int
    turned_down: int
    failures: tuple[str, ...]
    cut_replies: int
    others: tuple[Outcome, ...]

    @property
    def over_optimum(self) -> float:
        """The cost as a multiple of the optimum's."""
        return self.cost / self.optimum

    @property
    def unexplained_breaks(self) -> int:
        """Breaks that neither a compaction nor a refusal explains, nor the first image."""
        known = self.compactions + self.refusals + self.breaks.get("first image", 0)
        return max(0, sum(self.breaks.values()) - known)

    def other(self, policy: str) -> Outcome:
        """Return what a policy came to on the same steps."""
        return next(outcome for outcome in self.others if outcome.policy == policy)


def fitted(conversation: Conversation, window: int) -> Conversation:
    """Return the conversation with replies that a model with such a window would write."""
    return clipped(conversation, int(REPLY_CHARS_PER_TOKEN * window))


def measure(conversation: Conversation, window: int, **settings: object) -> Figures:
    """Return the figures of a conversation; `settings` are the session's."""
    conversation = fitted(conversation, window)
    played = play(conversation, window, settings=settings)
    plan = plan_of(played)
    best = find_optimum(plan)
    others = [
        run_policy(
            policy,
            conversation,
            window,
            prefix=plan.prefix,
            summary=plan.summary,
            instruction=plan.instruction,
            kept_chars=kept_chars(window),
        )
        for policy in POLICIES
    ]
    return Figures(
        name=conversation.name,
        window=window,
        calls=len(played.sent),
        cost=played.cost,
        optimum=best.cost,
        compactions=played.compactions,
        optimum_compactions=len(best.points),
        refusals=played.refusals,
        breaks=played.breaks,
        peak=played.peak,
        turned_down=played.refused,
        failures=tuple(played.failures),
        cut_replies=played.cut_replies,
        others=tuple(others),
    )


def kept_chars(window: int) -> int:
    """Return the longest result that the engine keeps whole."""
    return min(LONGEST_KEPT_CHARS, int(KEPT_CHARS_PER_TOKEN * window))


def cheapest_valid(figures: Sequence[Figures]) -> tuple[str, float]:
    """Return the cheapest policy of those whose every call fitted, and ours as a multiple of it.

    By the sum over the conversations; those that count events are left out, as no threshold.
    """
    sums = {
        policy.name: sum(one.other(policy.name).cost for one in figures)
        for policy in POLICIES
        if not policy.name.startswith("OpenHands")
        and all(one.other(policy.name).is_valid for one in figures)
    }
    name = min(sums, key=lambda name: sums[name])
    return name, sum(one.cost for one in figures) / sums[name]
