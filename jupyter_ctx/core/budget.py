"""The turn budget: whether a turn that has ended goes on, as a pure decision (DESIGN.md 5).

What counts are the tokens the model writes: each call sends the whole context again, so its input
says nothing of the work done. Sub-agents are outside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ENOUGH_PERCENT = 90
LEAST_GAIN_TOKENS = 500
LEAST_NUDGES = 3
DONE = "DONE"
NUDGE_TEXT = (
    "[Turn budget] {used:,} of {tokens:,} tokens are used. If anything is left to do, go on with "
    "it; else answer {done}."
)


@dataclass(frozen=True, slots=True)
class Budget:
    """A turn's budget and what became of it; `tokens` 0: none, so the turn ends when it ends.

    `used` is what the model wrote in this turn, `nudged_at` what was used at each nudge.
    """

    tokens: int = 0
    used: int = 0
    nudged_at: tuple[int, ...] = ()

    def spend(self, tokens: int) -> Budget:
        """Return it after a reply of `tokens`."""
        return replace(self, used=self.used + tokens)

    def nudge(self) -> Budget:
        """Return it after a nudge."""
        return replace(self, nudged_at=(*self.nudged_at, self.used))

    @property
    def words(self) -> str:
        """The user line that has the model go on."""
        return NUDGE_TEXT.format(used=self.used, tokens=self.tokens, done=DONE)

    def goes_on(self, answer: str) -> bool:
        """Say whether a turn that ended with `answer` gets a nudge.

        No more at 90 % of the budget, on DONE, or after at least 3 nudges of which the last two
        brought less than 500 tokens each.
        """
        if 100 * self.used >= ENOUGH_PERCENT * self.tokens or self.is_done(answer):
            return False
        if len(self.nudged_at) < LEAST_NUDGES:
            return True
        *_, before, last = self.nudged_at
        return max(last - before, self.used - last) >= LEAST_GAIN_TOKENS

    def is_done(self, answer: str) -> bool:
        """Say whether the last line of `answer` is the DONE that a nudge asked for."""
        lines = answer.split("\n") if self.nudged_at else []
        last = next((line for line in reversed(lines) if line.strip()), "")
        return last.strip(" \t\r.!*_`\"'") == DONE


def is_nudge(text: str) -> bool:
    """Say whether a user text is the line of a budget that has the model go on."""
    return text.startswith(NUDGE_TEXT[: NUDGE_TEXT.index("{")])


def is_bare_done(answer: str) -> bool:
    """Say whether `answer` is nothing but DONE: no answer to the user's question."""
    return answer.strip(" \t\r\n.!*_`\"'") == DONE
