"""Several generators of events driven side by side, their events in the order of their coming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from .events import CtxEvent


class Beside:
    """Drives generators side by side, each in a task of its own.

    `tell` adds an event of what runs within them. Whoever leaves `run` early, or is cancelled in
    it, cancels them all, and none is left running then.
    """

    def __init__(self) -> None:
        self._events: asyncio.Queue[CtxEvent | None] = asyncio.Queue()

    def tell(self, event: CtxEvent) -> None:
        """Have `event` told next; on the loop of `run`."""
        self._events.put_nowait(event)

    async def run(
        self, runs: Sequence[AsyncGenerator[CtxEvent, None]], is_over: Callable[[], bool]
    ) -> AsyncGenerator[CtxEvent, None]:
        """Yield the events of `runs` until all have ended; once `is_over`, those left are stopped.

        Raises what the first of them raises, after the others were stopped.
        """
        tasks = [asyncio.create_task(self._drive(run), name="jupyter_ctx beside") for run in runs]
        for task in tasks:
            task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            left = len(tasks)
            while left:
                event = await self._events.get()
                if event is not None:
                    yield event
                    continue
                left -= 1
                if is_over() or any(map(_has_failed, tasks)):
                    _cancel(tasks)
        finally:
            _cancel(tasks)
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _drive(self, run: AsyncGenerator[CtxEvent, None]) -> None:
        async with aclosing(run) as events:
            async for event in events:
                self.tell(event)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Stop those that run; once each, since a second would strike what they do to end."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()
