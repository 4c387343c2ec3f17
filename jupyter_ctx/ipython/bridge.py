"""Where async meets sync, and only here: one background loop for turns, and the thread that asked.

A turn is a coroutine on the background loop's thread. Whoever asked for it waits on a queue: events
are handled, and calls that must be made on its thread are made, in the order they were put. An
interrupt is turned into the cancellation of the turn's task; it never strikes our own code, so no
event and no result is lost to it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import queue
import signal
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from ..errors import BusyError

if TYPE_CHECKING:
    from ..core.events import CtxEvent

T = TypeVar("T")
Start: TypeAlias = Callable[[], AsyncIterator["CtxEvent"]]
CallMain: TypeAlias = Callable[[Callable[[], None]], None]
"""Has a function called on the main thread, later, when that is idle; in the context of now."""

STOP_S = 2.0
"""How long a cancelled turn may take to end (DESIGN.md 2, C27)."""

TICK_S = 0.1
"""How often a thread that awaits looks up: an interrupt of an `await` takes effect only then."""

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


@dataclass(frozen=True, slots=True)
class _Call(Generic[T]):
    """A function to call on the thread that asked, and where its result goes."""

    function: Callable[[], T]
    future: concurrent.futures.Future[T]


@dataclass(frozen=True, slots=True)
class _End:
    """The generator has ended, with the error that ended it or None."""

    error: BaseException | None


class _Wake:
    """Look up: an interrupt came."""


_Item: TypeAlias = "CtxEvent | _Call[object] | _End | _Wake"


@dataclass(slots=True)
class _Drive:
    """One generator under way. `put` reaches the thread that asked.

    `on_main`: its calls are made on the main thread. `is_launched`: nobody's thread waits for it.
    """

    put: Callable[[_Item], None]
    loop: asyncio.AbstractEventLoop
    on_main: bool = False
    is_launched: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    task: asyncio.Task[BaseException | None] | None = None
    is_serving: bool = False
    is_interrupted: bool = False
    is_over: bool = False
    deadline: float | None = None

    def begin(self, start: Start, call_main: CallMain | None = None) -> None:
        """Start the generator on the loop, in the context of this thread."""
        context = contextvars.copy_context()
        if call_main is not None:
            context.run(_call_main.set, call_main)
        self.loop.call_soon_threadsafe(_begin, self, start, context=context)

    def cancel(self) -> None:
        """Cancel the task, once; from any thread."""
        if self.deadline is None:
            self.deadline = time.monotonic() + STOP_S
            self.loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if self.task is not None:
            self.task.cancel()

    @property
    def seconds_left(self) -> float | None:
        """Return how long to wait for the end of a cancelled turn; None: as long as it takes."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def serve(self, call: _Call[object]) -> None:
        """Make a call; its errors are the caller's. An interrupt of it cancels the turn instead.

        A cancelled turn makes no more calls.
        """
        if self.deadline is not None:
            call.future.cancel()
        elif call.future.set_running_or_notify_cancel():
            self._serve(call)

    def _serve(self, call: _Call[object]) -> None:
        result: object = None
        error: BaseException | None = None
        try:
            self.is_serving = True
            result = call.function()
        except KeyboardInterrupt:
            self.is_interrupted = True
        except BaseException as raised:
            error = raised
        finally:
            self._leave()
        if self.is_interrupted:  # also if the function swallowed it; nobody waits for the result
            self.cancel()
        elif error is not None:
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def _leave(self) -> None:
        """The call is over: no interrupt that was meant for it comes later than this."""
        while self.is_serving:
            try:
                with self.lock:
                    self.is_serving = False
            except KeyboardInterrupt:
                self.is_interrupted = True

    def interrupt(self) -> bool:
        """Interrupt the call that is being made on the main thread; return whether one is."""
        with self.lock:
            if self.is_serving and self.on_main:
                _interrupt_main()
                return True
        return False


_current: contextvars.ContextVar[_Drive] = contextvars.ContextVar("jupyter_ctx_drive")
_call_main: contextvars.ContextVar[CallMain] = contextvars.ContextVar("jupyter_ctx_call_main")


class Bridge:
    """The Runner and the MainCaller of one kernel. The thread starts with the first turn.

    `observe` gets every event of every turn, on the thread that asked, after it was handled there;
    `settle` is called there when nothing runs any more.
    """

    def __init__(
        self,
        observe: Callable[[CtxEvent], None] | None = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        self._observe = observe or (lambda event: None)
        self._settle = settle or (lambda: None)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._drives: list[_Drive] = []

    # For the loop's side --------------------------------------------------------------------------

    async def call(self, function: Callable[[], T]) -> T:
        """Return `function()`, called on the thread that asked for the turn.

        Raises what it raises; an interrupt of it cancels the turn instead. Raises RuntimeError
        outside of a turn.
        """
        drive = _current.get(None)
        if drive is None:
            raise RuntimeError("There is no thread to call: this is not part of a turn.")
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        drive.put(_Call(function, future))  # type: ignore[arg-type]  # the result's type is opaque
        return await asyncio.wrap_future(future)

    # For the thread that asks ---------------------------------------------------------------------

    def run(self, start: Start, on_event: Callable[[CtxEvent], None]) -> None:
        """Drive the generator to its end; `on_event` and calls run on this thread.

        Between events `on_event.tick`, if there is one, is called: it returns in how many seconds
        it wants to be called again, None if not before the next event. An interrupt cancels the
        generator, which then has 2 s to end by itself; more interrupts
        meanwhile change nothing. Raises what the generator or `on_event` raises, and BusyError if
        it did not end in time; a generator that lets itself be cancelled ends in silence.
        """
        items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        on_main = threading.current_thread() is threading.main_thread()
        call_main = None if on_main else _call_main.get(None)
        calls_main = on_main or call_main is not None
        with self._driving(items.put, calls_main) as drive, _interrupts(drive):
            drive.is_launched = call_main is not None
            drive.begin(start)
            failure: BaseException | None = None
            ticker = _Ticker(getattr(on_event, "tick", None))
            while True:
                try:
                    item = items.get(timeout=_soonest(drive.seconds_left, ticker.seconds_left))
                except queue.Empty:
                    if drive.seconds_left == 0.0:
                        raise BusyError(_STUCK) from failure
                    item = _Wake()
                if drive.is_interrupted:
                    drive.cancel()
                match item:
                    case _End(error=error):
                        _raise_first(failure, error)
                        return
                    case _Call() as call:
                        _serve(drive, call, call_main)
                    case _Wake():
                        pass
                    case event if failure is None:
                        failure = _try(on_event, event) or _try(self._observe, event)
                if failure is None and items.empty():
                    failure = _try(ticker)
                if failure is not None:
                    drive.cancel()

    def wait(self, make: Callable[[], Awaitable[T]]) -> T:
        """Return what `make()` brings when it is awaited on the loop; raises what it raises.

        Raises BusyError if it was interrupted.
        """
        results: list[T] = []

        async def once() -> AsyncGenerator[CtxEvent, None]:
            results.append(await make())
            return
            yield

        self.run(once, lambda event: None)
        if not results:
            raise BusyError("It was interrupted before it ended.")
        return results[0]

    async def iterate(self, start: Start) -> AsyncGenerator[CtxEvent, None]:
        """Yield the generator's events to the awaiting loop, on whose thread calls are made.

        Giving up the iteration, or cancelling the task that awaits, cancels the generator.
        """
        here = asyncio.get_running_loop()
        items: asyncio.Queue[_Item] = asyncio.Queue()

        def put(item: _Item) -> None:
            if not here.is_closed():
                here.call_soon_threadsafe(items.put_nowait, item)

        with self._driving(put, threading.current_thread() is threading.main_thread()) as drive:
            try:
                drive.begin(start)
                while True:
                    match await _next(items):
                        case _End(error=error):
                            _raise_first(error)
                            return
                        case _Call() as call:
                            drive.serve(call)
                        case _Wake():
                            pass
                        case event:
                            self._observe(event)
                            yield event
            finally:
                if not drive.is_over:
                    drive.cancel()
                    await _drain(drive, items)

    def cancel(self) -> None:
        """Stop what is being driven, from any thread; nothing if nothing is.

        Code that is running for the turn on the main thread is interrupted; what it has brought
        so far still counts.
        """
        with self._lock:
            drives = list(self._drives)
        for drive in drives:
            if not drive.interrupt():
                drive.cancel()

    def launch(
        self,
        start: Start,
        on_event: Callable[[CtxEvent], None],
        call_main: CallMain,
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        """Drive the generator although no thread waits for it; returns at once.

        Events are handled on the loop's thread. Calls go through `call_main`; an interrupt of one
        cancels the generator, and so does an error of `on_event`. At the end `on_end` gets, on the
        loop's thread, the error that ended it, None if it came to its end or was cancelled.
        """
        failure: BaseException | None = None

        def put(item: _Item) -> None:
            nonlocal failure
            match item:
                case _Call() as call:
                    _serve(drive, call, call_main)
                case _End(error=error):
                    self._remove(drive)
                    on_end(_first_error(failure, error))
                    self._settle_if_idle()
                case _Wake():
                    pass
                case event if failure is None:
                    failure = _try(on_event, event) or _try(self._observe, event)
                    if failure is not None:
                        drive.cancel()

        drive = _Drive(put, self._start_loop(), on_main=True, is_launched=True)
        with self._lock:
            self._drives.append(drive)
        drive.begin(start, call_main)

    @property
    def is_launched(self) -> bool:
        """Whether this is part of a turn that no thread waits for."""
        drive = _current.get(None)
        return drive is not None and drive.is_launched

    def start(self) -> None:
        """Start the loop's thread now, before a turn does."""
        self._start_loop()

    def post(self, function: Callable[[], None], delay_s: float = 0.0) -> bool:
        """Have `function` called on the loop's thread, in so many seconds; any thread may ask.

        Returns False, and does nothing, where there is no loop yet, or none any more.
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            return False
        try:
            if delay_s:
                loop.call_soon_threadsafe(loop.call_later, delay_s, function)
            else:
                loop.call_soon_threadsafe(function)
        except RuntimeError:  # it was closed meanwhile
            return False
        return True

    def look(self, function: Callable[[], T]) -> T:
        """Return `function()`, called on the loop while a turn runs there: it sees no half state.

        It must be quick and touch no event. Raises what it raises.
        """
        loop, thread = self._loop, self._thread
        if loop is None or not self._drives or thread is threading.current_thread():
            return function()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def answer() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        loop.call_soon_threadsafe(answer)
        return future.result()

    @property
    def is_running(self) -> bool:
        """Whether a generator is being driven."""
        return bool(self._drives)

    def finish(self, last: Callable[[], Awaitable[None]]) -> None:
        """Await `last()` on the loop; without a loop there is nothing to finish there.

        Raises what it raises, and BusyError if it was interrupted.
        """
        if self._thread is not None and self._thread.is_alive():
            self.wait(last)

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel what runs, await `last()` on the loop, then end the loop and its threads.

        Waits at most 2 s for what runs and 2 s for `last`; without a loop neither is there.
        """
        with self._lock:
            loop, thread, drives = self._loop, self._thread, list(self._drives)
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        for drive in drives:
            drive.cancel()  # who asked for it must not wait on for what will never come
        asyncio.run_coroutine_threadsafe(_finish_all(last), loop).add_done_callback(
            lambda done: loop.call_soon_threadsafe(loop.stop)
        )
        if thread is not threading.current_thread():
            thread.join(2 * STOP_S)

    # Behind both ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _driving(self, put: Callable[[_Item], None], on_main: bool) -> Iterator[_Drive]:
        drive = _Drive(put, self._start_loop(), on_main)
        with self._lock:
            self._drives.append(drive)
        try:
            yield drive
        finally:
            self._remove(drive)
            if not drive.is_over:
                drive.cancel()
            self._settle_if_idle()

    def _remove(self, drive: _Drive) -> None:
        with self._lock:
            self._drives.remove(drive)

    def _settle_if_idle(self) -> None:
        if not self._drives:
            self._settle()

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=contextvars.copy_context().run,
                    args=(_run_loop, self._loop),
                    name="jupyter_ctx",
                    daemon=True,
                )
                self._thread.start()
            return self._loop


_STUCK = "The turn did not stop within 2 s and was left behind; run `/doctor` if it happens again."


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _serve(drive: _Drive, call: _Call[object], call_main: CallMain | None) -> None:
    """Make a call here, or have it made on the idle main thread, where SIGINT interrupts it."""
    if call_main is None:
        drive.serve(call)
        return

    def serve() -> None:
        with _interrupts(drive):
            drive.serve(call)

    call_main(serve)


def _begin(drive: _Drive, start: Start) -> None:
    """Start the generator's task; runs on the loop, in the context of the thread that asked."""
    _current.set(drive)
    drive.task = drive.loop.create_task(_pump(drive, start))
    drive.task.add_done_callback(lambda task: _end(drive, task))
    if drive.deadline is not None:
        drive.task.cancel()


async def _pump(drive: _Drive, start: Start) -> BaseException | None:
    """Pass on every event; return the error that ended them, None if they came to their end."""
    events = start()
    try:
        async for event in events:
            drive.put(event)
    except BaseException as error:
        return error
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
    return None


def _end(drive: _Drive, task: asyncio.Task[BaseException | None]) -> None:
    """Tell the thread that asked. A task cancelled before its first step has no result.

    It has an error of its own if the generator could not be made, or not be closed.
    """
    drive.is_over = True
    drive.put(_End(None if task.cancelled() else task.exception() or task.result()))


async def _finish_all(last: Callable[[], Awaitable[None]] | None) -> None:
    """Cancel every other task of this loop, then await `last()`; 2 s for each."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=STOP_S)
    await loop.shutdown_asyncgens()
    try:
        async with asyncio.timeout(STOP_S):
            if last is not None:
                await last()
            await loop.shutdown_default_executor()
    except Exception:
        _log.exception("The loop ends although not all of it could be closed.")


async def _next(items: asyncio.Queue[_Item]) -> _Item:
    """Return the next item, waking the awaiting loop now and then so that it sees interrupts."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                return await items.get()


async def _drain(drive: _Drive, items: asyncio.Queue[_Item]) -> None:
    """Wait for the end of a cancelled turn, refusing its calls; at most 2 s."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(drive.seconds_left):
            while not isinstance(item := await items.get(), _End):
                if isinstance(item, _Call):
                    drive.serve(item)


def _interrupt_main() -> None:
    """Send the main thread the signal a person's Ctrl-C is: it wakes a wait, too."""
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGINT)


@contextlib.contextmanager
def _interrupts(drive: _Drive) -> Iterator[None]:
    """Make SIGINT a word to `drive`; a KeyboardInterrupt only within a call it makes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_sigint(signum: int, frame: FrameType | None) -> None:
        drive.is_interrupted = True
        if drive.is_serving:
            raise KeyboardInterrupt
        drive.put(_Wake())  # SimpleQueue.put may be called from a signal handler

    old = signal.signal(signal.SIGINT, on_sigint)
    try:
        yield
    finally:
        # None: the handler was not installed from Python and cannot be put back from it.
        signal.signal(signal.SIGINT, signal.default_int_handler if old is None else old)


class _Ticker:
    """Calls `tick` when it wants to be called."""

    def __init__(self, tick: Callable[[], float | None] | None) -> None:
        self._tick = tick
        self._due: float | None = None

    @property
    def seconds_left(self) -> float | None:
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    def __call__(self) -> None:
        wanted = None if self._tick is None else self._tick()
        self._due = None if wanted is None else time.monotonic() + wanted


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _try(show: Callable[..., None], *events: CtxEvent) -> BaseException | None:
    """Return what `show` raised, None if nothing: the turn must end before it goes on."""
    try:
        show(*events)
    except BaseException as error:
        return error
    return None


def _first_error(*errors: BaseException | None) -> BaseException | None:
    """Return the first error there is, None if there is none; to have been cancelled is none."""
    found = (error for error in errors if error is not None)
    return next((error for error in found if not isinstance(error, asyncio.CancelledError)), None)


def _raise_first(*errors: BaseException | None) -> None:
    """Raise the first error there is."""
    error = _first_error(*errors)
    if error is not None:
        raise error
