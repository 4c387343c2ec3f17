"""The waits before another try of a call, which the user may end early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .events import RetryScheduled


@dataclass(frozen=True, slots=True, eq=False)
class _Pause:
    retry: RetryScheduled
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)


class Pauses:
    """Those of a session that last. There may be several: a summary is prepared beside a turn."""

    def __init__(self) -> None:
        self._last: list[_Pause] = []

    @contextmanager
    def add(self, retry: RetryScheduled) -> Iterator[asyncio.Event]:
        """Have a wait that can be ended from now on; it is over when what it yields is set."""
        pause = _Pause(retry)
        self._last.append(pause)
        try:
            yield pause.hurry
        finally:
            self._last.remove(pause)

    def end(self, turn: int, step: int, attempt: int) -> bool:
        """End the wait before that try, from any thread. Return False if it is over already.

        The tries are counted as if it had been waited for.
        """
        found = [one for one in tuple(self._last) if _is(one.retry, turn, step, attempt)]
        for pause in found:
            pause.loop.call_soon_threadsafe(pause.hurry.set)
        return bool(found)


def _is(retry: RetryScheduled, turn: int, step: int, attempt: int) -> bool:
    return (retry.turn, retry.step, retry.attempt) == (turn, step, attempt)
