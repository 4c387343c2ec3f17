"""Laws of the bridge between the background loop and the thread that asked."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import threading

import pytest

from jupyter_ctx.core.events import CtxEvent, TextDelta
from jupyter_ctx.errors import BusyError, PromptError
from jupyter_ctx.ipython import bridge as bridge_module
from jupyter_ctx.ipython.bridge import Bridge, Start


@pytest.fixture
def bridge():
    made = Bridge()
    yield made
    made.close()
    assert not any(thread.name == "jupyter_ctx" for thread in threading.enumerate())


def say(text: str) -> TextDelta:
    return TextDelta(1, 1, text)


def text_of(event: CtxEvent) -> str:
    assert isinstance(event, TextDelta)
    return event.text


def texts(bridge: Bridge, start: Start) -> list[str]:
    seen: list[str] = []
    bridge.run(start, lambda event: seen.append(text_of(event)))
    return seen


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


async def interrupted_turn(seen: list[str]):
    """A turn that is interrupted while it waits for the model, and tells how it ended."""
    yield say("begun")
    try:
        interrupt()
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        seen.append("cancelled")
    yield say("stopped")


def test_no_thread_before_the_first_turn():
    """Making a bridge starts nothing, closing it unused neither."""
    before = threading.active_count()
    made = Bridge()
    made.close()

    assert threading.active_count() == before


def test_events_arrive_in_order_on_the_calling_thread(bridge):
    """Every event is handled once, in order, by the thread that asked; the turn runs elsewhere."""
    threads = []

    async def turn():
        threads.append(threading.get_ident())
        for number in range(500):
            yield say(str(number))

    handled = []
    bridge.run(turn, lambda event: handled.append((event.text, threading.get_ident())))

    assert [text for text, _ in handled] == [str(number) for number in range(500)]
    assert {ident for _, ident in handled} == {threading.get_ident()}
    assert threads != [threading.get_ident()]


def test_calls_run_on_the_calling_thread(bridge):
    """A call returns its value or raises its error to the turn, made by the thread that asked."""

    async def turn():
        yield say(str(await bridge.call(threading.get_ident) == main))
        try:
            await bridge.call(lambda: 1 / 0)
        except ZeroDivisionError:
            yield say("raised")
        try:
            await bridge.call(lambda: exit())
        except SystemExit:
            yield say("exit")

    main = threading.get_ident()

    assert texts(bridge, turn) == ["True", "raised", "exit"]


def test_a_call_outside_of_a_turn_is_refused(bridge):
    """Without a turn there is no thread to call."""
    with pytest.raises(RuntimeError, match="not part of a turn"):
        asyncio.run(bridge.call(lambda: 1))


def test_the_turn_sees_the_context_of_the_cell(bridge):
    """Context variables of the asking thread are seen by each turn, whichever started the loop."""
    variable = contextvars.ContextVar("variable", default="none")

    async def turn():
        yield say(variable.get())

    seen = []
    for value in ("one", "two"):
        variable.set(value)
        seen += texts(bridge, turn)

    assert seen == ["one", "two"]


def test_errors_of_the_turn_are_raised(bridge):
    """What the generator raises is raised to whoever asked, after the events before it."""
    seen = []

    async def turn():
        yield say("a")
        raise PromptError("empty")

    with pytest.raises(PromptError, match="empty"):
        bridge.run(turn, lambda event: seen.append(event.text))
    assert seen == ["a"]


def test_interrupt_while_waiting_for_the_model(bridge):
    """An interrupt cancels the turn, whose last events still arrive; nothing is raised."""
    seen: list[str] = []

    assert texts(bridge, lambda: interrupted_turn(seen)) == ["begun", "stopped"]
    assert seen == ["cancelled"]


def test_the_old_handler_is_back_afterwards(bridge):
    """After a turn, interrupted or not, SIGINT does what it did before."""
    outer = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has
    try:  # none that raises
        texts(bridge, lambda: interrupted_turn([]))

        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # of the process, another thread might take it
    finally:
        signal.signal(signal.SIGINT, outer)


def test_more_interrupts_are_absorbed(bridge):
    """Impatient presses while a turn ends neither break it off nor escape."""

    async def turn():
        try:
            interrupt()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            interrupt()
            await asyncio.to_thread(interrupt)
        yield say("ended")

    assert texts(bridge, turn) == ["ended"]


def test_interrupt_in_a_call_cancels_the_turn(bridge):
    """An interrupt in tool code ends the turn, not only that code."""
    seen = []

    async def turn():
        try:
            await bridge.call(interrupt)
            seen.append("went on")
        except asyncio.CancelledError:
            yield say("stopped")

    assert texts(bridge, turn) == ["stopped"]
    assert seen == []


def test_swallowed_interrupt_still_stops(bridge):
    """A function that catches the interrupt cannot keep the turn going."""

    def swallow() -> str:
        try:
            interrupt()
        except KeyboardInterrupt:
            return "swallowed"
        return "not interrupted"

    async def turn():
        try:
            yield say(await bridge.call(swallow))
        except asyncio.CancelledError:
            yield say("stopped")

    assert texts(bridge, turn) == ["stopped"]


def test_no_call_is_made_after_the_stop(bridge):
    """A stopped turn touches the kernel no more."""
    calls = []

    async def turn():
        try:
            await bridge.call(interrupt)
        except asyncio.CancelledError:
            try:
                await bridge.call(lambda: calls.append(1))
            except asyncio.CancelledError:
                yield say("refused")

    assert texts(bridge, turn) == ["refused"]
    assert calls == []


def test_interrupt_as_data_is_no_cancellation(bridge):
    """Code that handles SIGINT itself reports it in its result, and the turn gets the result."""

    def guarded() -> str:
        old = signal.signal(signal.SIGINT, lambda *_: None)
        interrupt()
        signal.signal(signal.SIGINT, old)
        return "interrupted: 12 lines so far"

    async def turn():
        yield say(await bridge.call(guarded))

    assert texts(bridge, turn) == ["interrupted: 12 lines so far"]


def test_interrupt_while_an_event_is_shown(bridge):
    """Showing an event is not broken off half-way; the turn stops after it."""
    shown = []

    def show(event):
        interrupt()
        shown.append(event.text)

    async def turn():
        yield say("a")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            yield say("b")

    bridge.run(turn, show)

    assert shown == ["a", "b"]


def test_an_event_that_cannot_be_shown_stops_the_turn(bridge):
    """An error of the display ends the turn and is raised, once."""
    ended = []

    def show(event):
        raise OSError("closed")

    async def turn():
        yield say("a")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append(True)
        yield say("b")

    with pytest.raises(OSError, match="closed"):
        bridge.run(turn, show)
    assert ended == [True]


def test_a_turn_that_does_not_end_is_left_behind(bridge, monkeypatch):
    """A turn that ignores its cancellation is given up after the limit, with a sentence."""
    monkeypatch.setattr(bridge_module, "STOP_S", 0.01)
    release = threading.Event()

    async def turn():
        yield say("a")
        interrupt()
        release.wait()
        yield say("late")

    with pytest.raises(BusyError, match="did not stop"):
        texts(bridge, turn)
    release.set()
    monkeypatch.undo()


def test_cancel_from_another_thread(bridge):
    """A turn can be cancelled from any thread; without a turn there is nothing to do."""
    bridge.cancel()

    async def turn():
        try:
            await asyncio.to_thread(bridge.cancel)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            yield say("stopped")

    assert texts(bridge, turn) == ["stopped"]


def test_cancel_interrupts_running_code(bridge):
    """Code that runs for the turn is interrupted by a cancellation from elsewhere."""
    seen = []

    def endless():
        try:
            threading.Thread(target=bridge.cancel).start()
            threading.Event().wait()
        except KeyboardInterrupt:
            seen.append("interrupted")
            raise

    async def turn():
        try:
            await bridge.call(endless)
        except asyncio.CancelledError:
            yield say("stopped")

    assert texts(bridge, turn) == ["stopped"]
    assert seen == ["interrupted"]


def test_turns_may_nest(bridge):
    """Code of a turn that asks again is answered: each turn's calls go to its own queue."""

    async def inner():
        yield say(str(await bridge.call(lambda: "inner")))

    async def outer():
        yield say(",".join(await bridge.call(lambda: texts(bridge, inner))))
        yield say(await bridge.call(lambda: "outer"))

    assert texts(bridge, outer) == ["inner", "outer"]


def test_another_thread_may_ask(bridge):
    """Off the main thread a turn runs too; its calls run on the thread that asked."""
    found = []

    async def turn():
        yield say(await bridge.call(lambda: threading.current_thread().name))

    thread = threading.Thread(target=lambda: found.extend(texts(bridge, turn)), name="worker")
    thread.start()
    thread.join()

    assert found == ["worker"]


async def test_iterate_bridges_to_a_running_loop(bridge):
    """Events come to the awaiting loop; calls are made on its thread, inside its task."""

    async def turn():
        yield say("a")
        yield say(str(await bridge.call(threading.get_ident) == threading.main_thread().ident))

    assert [event.text async for event in bridge.iterate(turn)] == ["a", "True"]


async def test_iterate_raises_the_turns_error(bridge):
    """An error of the turn is raised to the `async for`."""

    async def turn():
        yield say("a")
        raise PromptError("empty")

    with pytest.raises(PromptError):
        async for _ in bridge.iterate(turn):
            pass


async def test_giving_up_the_iteration_stops_the_turn(bridge):
    """A closed iteration cancels the turn and waits for its end."""
    ended = []

    async def turn():
        try:
            yield say("a")
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append(True)

    events = bridge.iterate(turn)
    async for _ in events:
        break
    await events.aclose()

    assert ended == [True]
    assert not bridge.is_running


async def test_cancelling_the_awaiting_task_stops_the_turn(bridge):
    """An interrupt of an awaiting cell, which is a cancellation there, stops the turn."""
    ended, begun = [], asyncio.Event()

    async def turn():
        try:
            yield say("a")
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append(True)

    async def cell():
        async for _ in bridge.iterate(turn):
            begun.set()

    task = asyncio.create_task(cell())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended == [True]


async def test_observers_see_every_turn() -> None:
    """Each event is observed, however the turn was asked for, and then the end of it."""
    seen: list[str] = []
    bridge = Bridge(lambda event: seen.append(f"saw {text_of(event)}"), lambda: seen.append("end"))

    async def turn():
        yield say("a")

    await asyncio.to_thread(bridge.run, turn, lambda event: seen.append("handled"))
    async for _ in bridge.iterate(turn):
        seen.append("yielded")
    bridge.close()

    assert seen == ["handled", "saw a", "end", "saw a", "yielded", "end"]


def test_close_stops_the_thread_and_a_new_turn_starts_it_again(bridge):
    """After `close` there is no thread; the bridge can be used again."""

    async def turn():
        yield say("a")

    texts(bridge, turn)
    bridge.close()
    assert not any(thread.name == "jupyter_ctx" for thread in threading.enumerate())

    assert texts(bridge, turn) == ["a"]


def test_a_turn_that_cannot_be_made_raises(bridge):
    """What making or closing the generator raises reaches who asked, who never waits for ever."""

    def start():
        raise OSError("not made")

    class Unclosable:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise StopAsyncIteration

        async def asend(self, value): ...

        async def athrow(self, kind): ...

        async def aclose(self):
            raise OSError("not closed")

    with pytest.raises(OSError, match="not made"):
        bridge.run(start, text_of)
    with pytest.raises(OSError, match="not closed"):
        bridge.run(Unclosable, text_of)


def test_the_last_word_is_awaited_on_the_loop(bridge):
    """`finish` and `close` await it on the loop's thread, after what ran; without a loop not."""
    seen = []

    async def last():
        seen.append(threading.current_thread().name)

    async def turn():
        yield say("a")
        seen.append("turn")

    bridge.finish(last)
    bridge.close(last)
    assert seen == []
    texts(bridge, turn)
    bridge.finish(last)
    bridge.close(last)
    assert seen == ["turn", "jupyter_ctx", "jupyter_ctx"]


def test_close_ends_the_workers_too(bridge):
    """Threads that the loop started for blocking calls are gone when `close` returns."""

    async def turn():
        yield say(await asyncio.to_thread(lambda: threading.current_thread().name))

    [worker] = texts(bridge, turn)
    bridge.close()
    assert worker not in {thread.name for thread in threading.enumerate()}


def test_a_last_word_that_fails_keeps_no_thread(bridge, caplog):
    """`close` ends the thread whatever the last word raises, and logs it."""

    async def last():
        raise OSError("no")

    async def turn():
        yield say("a")

    texts(bridge, turn)
    bridge.close(last)
    assert not any(thread.name == "jupyter_ctx" for thread in threading.enumerate())
    assert "not all of it could be closed" in caplog.text


def test_closing_within_a_turn_leaves_it_behind(bridge, monkeypatch):
    """Who asked for a turn that closes the bridge and does not end is told after the limit."""
    monkeypatch.setattr(bridge_module, "STOP_S", 0.01)
    release = threading.Event()
    threads = []

    async def turn():
        threads.append(threading.current_thread())
        try:
            await bridge.call(bridge.close)
        except asyncio.CancelledError:
            release.wait()
        yield say("late")

    with pytest.raises(BusyError, match="did not stop"):
        texts(bridge, turn)
    release.set()
    threads[0].join()
