"""The machine's clock, as the core asks for it."""

from __future__ import annotations

import asyncio
import contextlib
import time


class SystemClock:
    """The machine's clock. Implements core.ports.Clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    async def sleep(self, seconds: float, hurry: asyncio.Event) -> None:
        """Wait until `hurry` is set, `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await hurry.wait()

    async def wait(self, seconds: float) -> None:
        """Wait between turns."""
        await asyncio.sleep(seconds)
