"""Token usage and money, normalised across providers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, as the provider reported them.

    All counts are tokens. `uncached`, `cache_read` and `cache_write` do not overlap and add up to
    the whole input. None means the provider did not say, which is not zero.
    `cache_write_1h` is the part of `cache_write` written for one hour (its price differs).
    """

    uncached: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    cache_write_1h: int | None = None

    @property
    def input_tokens(self) -> int | None:
        """The whole input; None if not even the uncached part is known."""
        if self.uncached is None:
            return None
        return self.uncached + (self.cache_read or 0) + (self.cache_write or 0)

    @property
    def used_tokens(self) -> int | None:
        """What the window holds after the call: input and output together; None if unknown.

        Impossible figures (negative, or no input at all) count as unknown.
        """
        whole = self.input_tokens
        if whole is None or whole <= 0 or self.output is None or self.output < 0:
            return None
        return whole + self.output

    @property
    def has_price(self) -> bool:
        """Whether enough was told to say what it costs: what a server leaves out is not free."""
        return self.input_tokens is not None and self.output is not None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.uncached, other.uncached),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(self.output, other.output),
            _sum(self.cache_write_1h, other.cache_write_1h),
        )

    def __sub__(self, other: Usage) -> Usage:
        """Return what came to `self` since it was `other`; nothing is unknown, and not zero."""
        if self == other:
            return Usage()
        return Usage(
            _difference(self.uncached, other.uncached),
            _difference(self.cache_read, other.cache_read),
            _difference(self.cache_write, other.cache_write),
            _difference(self.output, other.output),
            _difference(self.cache_write_1h, other.cache_write_1h),
        )


def _difference(left: int | None, right: int | None) -> int | None:
    return None if left is None else left - (right or 0)


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None and right is None else (left or 0) + (right or 0)


@dataclass(frozen=True, slots=True)
class Costs:
    """What tokens cost in USD, by what is charged for: the counts of `Usage`."""

    uncached: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    output: float = 0.0

    def __add__(self, other: Costs) -> Costs:
        return Costs(
            self.uncached + other.uncached,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
        )

    @property
    def total(self) -> float:
        """All of it together."""
        return self.uncached + self.cache_read + self.cache_write + self.output


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of one model in USD per million tokens; `source` names where they stand and when.

    Some models charge more for a call whose whole input is over `long_over_tokens`: then `long`
    holds for all of that call, its output included. None: one price at every length.
    """

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    source: str
    long_over_tokens: int | None = None
    long: Prices | None = None

    def at(self, input_tokens: int) -> Prices:
        """Return the prices of a call whose whole input is `input_tokens`."""
        limit = self.long_over_tokens
        return self.long if self.long and limit is not None and input_tokens > limit else self

    def cost_usd(self, usage: Usage) -> float:
        """Return what the `usage` of one call costs; a count the provider left out counts as none.

        Costs of several calls are added up, not computed from the sum of their usage.
        """
        return self.costs(usage).total

    def costs(self, usage: Usage) -> Costs:
        """Return the same by what is charged for."""
        prices = self.at(usage.input_tokens or 0)
        write = usage.cache_write or 0
        write_1h = min(usage.cache_write_1h or 0, write)
        return Costs(
            (usage.uncached or 0) * prices.input / 1_000_000,
            (usage.cache_read or 0) * prices.cache_read / 1_000_000,
            ((write - write_1h) * prices.cache_write_5m + write_1h * prices.cache_write_1h)
            / 1_000_000,
            (usage.output or 0) * prices.output / 1_000_000,
        )
