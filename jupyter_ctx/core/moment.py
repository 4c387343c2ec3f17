"""A point in time by two clocks, neither of which is right alone."""

from __future__ import annotations

from dataclasses import dataclass

from .ports import Clock


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time by both clocks: one may be set back, the other stands while a machine sleeps.

    `at` is in seconds since the epoch, `monotonic` by the clock that only grows.
    """

    at: float
    monotonic: float

    @classmethod
    def of(cls, clock: Clock) -> Moment:
        """Return the present."""
        return cls(clock.now(), clock.monotonic())

    def since(self, clock: Clock) -> float:
        """Return the seconds that passed since, by the clock that went further."""
        return max(clock.now() - self.at, clock.monotonic() - self.monotonic)
