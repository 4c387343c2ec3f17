"""A summary under way: it is cancelled from any thread, and one that is ready survives a stop."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from jupyter_ctx.core import background
from jupyter_ctx.core.due import cache_left_s, is_cold
from jupyter_ctx.core.preparation import Draft, Made, Preparation, cancel_task
from jupyter_ctx.testing import ScriptedModel, make_session, reply


async def _for_ever() -> None:
    await asyncio.Event().wait()


def test_a_task_is_cancelled_from_another_thread() -> None:
    """Where no loop runs, the task's own loop cancels it as soon as it runs again."""
    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(_for_ever())
        runner.run(asyncio.sleep(0))
        cancel_task(task)
        runner.run(asyncio.sleep(0))
        runner.run(asyncio.sleep(0))

        assert task.cancelled()
        cancel_task(task)  # once more is nothing


async def test_a_task_is_cancelled_on_its_own_loop() -> None:
    """There it is done at once, and a task that has ended stays as it is."""
    task = asyncio.get_running_loop().create_task(_for_ever())
    await asyncio.sleep(0)
    cancel_task(task)
    await asyncio.wait({task})
    assert task.cancelled()

    done = asyncio.get_running_loop().create_task(asyncio.sleep(0))
    await done
    cancel_task(done)
    assert not done.cancelled()


@pytest.mark.parametrize("is_ready", [True, False])
async def test_a_stop_gives_up_only_what_is_not_there_yet(is_ready: bool) -> None:
    """Who stops a turn that waits gives up a summary under way, and keeps one that has come."""
    engine = make_session(ScriptedModel(reply("Hi.")))._engine
    ready = asyncio.Event()

    async def make() -> Made:
        await ready.wait()
        return Made(1.0, None)

    task = asyncio.get_running_loop().create_task(make())
    draft = cast(Draft, object())  # nobody looks at it
    held = engine.preparation = Preparation(draft, task)
    if is_ready:
        ready.set()
        await task
    waiting = asyncio.get_running_loop().create_task(background._wait_for_summary(engine, held))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert (engine.preparation is held) is is_ready
    assert await asyncio.wait({task})
    assert task.cancelled() is not is_ready


def test_a_session_that_sent_nothing_knows_of_no_cache() -> None:
    """Resumed, it knows neither that the prompt is cold nor how long it stays warm."""
    first = make_session(ScriptedModel(reply("Hi.")))
    first.ask("hello")
    engine = make_session(ScriptedModel(), entries=first.transcript.entries)._engine

    assert not is_cold(engine)
    assert cache_left_s(engine) == 0.0
