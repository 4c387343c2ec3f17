"""Generators driven side by side: none is left running, however they end."""

import asyncio
from contextlib import aclosing

import pytest

from jupyter_ctx.core.beside import Beside
from jupyter_ctx.core.events import ContextChanged


async def told(n, *, before=None, after=None):
    if before is not None:
        await before.wait()
    yield ContextChanged(n)
    if after is not None:
        after.set()


async def endless(ended):
    try:
        yield ContextChanged(0)
        await asyncio.Event().wait()
    finally:
        ended.append(True)


async def failing():
    yield ContextChanged(9)
    raise RuntimeError("it broke")


def test_events_come_as_they_happen():
    """The second can be ahead of the first; every event of both is told, and those told within."""

    async def run():
        gate, beside = asyncio.Event(), Beside()
        runs = [told(1, before=gate), told(2, after=gate)]
        beside.tell(ContextChanged(5))
        return [event.turn async for event in beside.run(runs, lambda: False)]

    assert asyncio.run(run()) == [5, 2, 1]


def test_one_that_fails_stops_the_others_and_is_raised():
    """An error is raised only when nothing runs any more."""
    ended = []

    async def run():
        async for _ in Beside().run([endless(ended), failing()], lambda: False):
            pass

    with pytest.raises(RuntimeError, match="it broke"):
        asyncio.run(run())
    assert ended == [True]


def test_once_it_is_over_those_left_are_stopped():
    """Where one has met a Stop, the others end too, and nothing is raised."""
    ended = []

    async def run():
        return [e.turn async for e in Beside().run([endless(ended), told(1)], lambda: True)]

    assert asyncio.run(run()) == [0, 1]
    assert ended == [True]


def test_who_leaves_leaves_nothing_running():
    """An iteration that is given up, or cancelled, ends every generator before it returns."""
    ended = []

    async def leave():
        async with aclosing(Beside().run([endless(ended), endless(ended)], lambda: False)) as run:
            async for _ in run:
                break

    async def cancelled():
        task = asyncio.create_task(anext(aiter(Beside().run([waiting(ended)], lambda: False))))
        while not ended:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def waiting(said):
        said.append("begun")
        try:
            await asyncio.Event().wait()
            yield ContextChanged(0)
        finally:
            said.append("ended")

    asyncio.run(leave())
    assert ended == [True, True]
    ended.clear()
    asyncio.run(cancelled())
    assert ended == ["begun", "ended"]
