"""The machine's clock, as the core asks for it."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """The machine's clock. Implements core.ports.Clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancelled turn stops waiting at once."""
        await asyncio.sleep(seconds)

    async def wait(self, seconds: float) -> None:
        """Wait between turns."""
        await asyncio.sleep(seconds)
