"""Interrupts and top-level `await` while code runs inside a cell that is running itself."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any, TypeVar

from IPython.core import async_helpers
from IPython.core.interactiveshell import InteractiveShell

T = TypeVar("T")

CANCEL_S = 0.7
"""How long an interrupted coroutine may take for its `finally` blocks."""

GRACE_S = 0.7
"""How long interrupted code may go on before it is forced to end: its `finally` blocks, say."""

FORCE_EVERY_S = 0.1
"""How often code that goes on all the same is interrupted again."""


class _Interrupt(int):
    """A signal's number; reading `again` makes it pending once more.

    CPython handles signals after a call, not after an attribute was read: this one strikes where
    the handler's exception goes, and not within the handler.
    """

    again = property(_thread.interrupt_main)


_SIGINT = _Interrupt(signal.SIGINT)


class InterruptGuard:
    """Lets SIGINT reach the code run by `run`, and nothing else, while it is entered.

    Everywhere else on the main thread the interrupt is only noted, so that restoring cannot be cut
    short. In functions of the module `protected` it is put off until they call `check`. On a thread
    that is not the main one it does nothing: signals do not arrive there.

    Code that goes on for `GRACE_S` after it was interrupted (a loop around `except: pass`) is
    forced: until no frame of the namespace `forced` is left, every handler it enters is interrupted
    too. Only C code that never comes back to Python withstands that.
    """

    def __init__(self, protected: str, forced: Mapping[str, object] | None = None) -> None:
        self._protected = protected
        self._forced = forced
        self._frame: FrameType | None = None
        self._deferred = False
        self._entered = False
        self._force_at = 0.0
        self._insisting = threading.Lock()
        self._old: Any = None
        self.interrupted = False

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._on_sigint)
            self._entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._entered:
            # None: the handler was not installed from Python and cannot be put back from it.
            old = signal.default_int_handler if self._old is None else self._old
            signal.signal(signal.SIGINT, old)
            self._entered = False

    def run(self, call: Callable[[], T]) -> T:
        """Return `call()`; an interrupt meanwhile, or before, raises KeyboardInterrupt."""
        self._frame = sys._getframe()
        try:
            if self.interrupted:
                raise KeyboardInterrupt
            return call()
        finally:
            self._frame = None
            with self._insisting:  # no interrupt of ours may come later than this
                pass

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was put off, on the main thread."""
        if self._deferred and threading.current_thread() is threading.main_thread():
            self._deferred = False
            self._raise()

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        is_first, self.interrupted = not self.interrupted, True
        if is_first and self._frame is not None and self._forced is not None:
            self._force_at = time.monotonic() + GRACE_S
            # Not threading.Thread, which takes locks that the interrupted code may hold.
            _thread.start_new_thread(self._insist, (threading.get_ident(),))
        is_protected, is_theirs = False, False
        while frame is not None and frame is not self._frame:
            is_protected = is_protected or frame.f_globals.get("__name__") == self._protected
            is_theirs = is_theirs or frame.f_globals is self._forced
            frame = frame.f_back
        if frame is None or (self._is_forcing and not is_theirs):
            return
        if is_protected:
            self._deferred = True
        else:
            self._raise()

    @property
    def _is_forcing(self) -> bool:
        return self._force_at != 0.0 and time.monotonic() >= self._force_at

    def _raise(self) -> None:
        """Interrupt the code; when it is forced, also the handler that catches this."""
        if self._is_forcing:
            _ = _SIGINT.again
        raise KeyboardInterrupt

    def _insist(self, main: int) -> None:
        """Go on interrupting code that does not end; on a thread of its own."""
        time.sleep(GRACE_S)
        while True:
            with self._insisting:
                if self._frame is None:
                    return
                signal.pthread_kill(main, signal.SIGINT)
            time.sleep(FORCE_EVERY_S)


def cut_own_frames(trace: TracebackType | None) -> None:
    """End the traceback of an interrupt where it struck: our own frames below that say nothing."""
    last = None
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(f"{__package__}."):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


class NestedLoop:
    """An event loop of ours for top-level `await` while the thread's own loop runs the outer cell.

    It lives until `close`, so that what one run left open on it (a client session, a task) is there
    in the next; between runs it stands still.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_needed(self, shell: InteractiveShell) -> bool:
        """Whether `await` would fail by itself: the shell uses asyncio and a loop is running."""
        uses_asyncio = getattr(shell, "loop_runner", None) is async_helpers._asyncio_runner
        return uses_asyncio and asyncio._get_running_loop() is not None

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run `coro` to its end. An interrupt cancels it; what it then does counts."""
        loop = self._free_loop()
        with outer_loop_set_aside():
            try:
                return self._finish(loop, loop.create_task(coro))
            finally:
                if loop is not self._loop:
                    loop.close()

    def close(self) -> None:
        """Cancel what is left on the loop and close it."""
        loop, self._loop = self._loop, None
        if loop is None or loop.is_closed():
            return
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with outer_loop_set_aside():
            loop.run_until_complete(_wait(asyncio.all_tasks(loop)))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _free_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        return asyncio.new_event_loop() if self._loop.is_running() else self._loop

    def _finish(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt as error:
            interrupt = error
        # Not within the handler: what the code raises now would be shown with all of this.
        if not task.done():
            task.cancel()
            loop.run_until_complete(_wait({task}))
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()
        raise interrupt


@contextlib.contextmanager
def outer_loop_kept() -> Iterator[None]:
    """Have the thread's running loop and task be, at the end, what they are now."""
    loop = asyncio._get_running_loop()
    task = None if loop is None else asyncio.current_task(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None and task is not None and asyncio.current_task(loop) is not task:
            asyncio.tasks._enter_task(loop, task)


@contextlib.contextmanager
def outer_loop_set_aside() -> Iterator[None]:
    """Let another loop run on this thread although one is running."""
    with outer_loop_kept():
        loop = asyncio._get_running_loop()
        if loop is not None and (task := asyncio.current_task(loop)) is not None:
            asyncio.tasks._leave_task(loop, task)
        asyncio._set_running_loop(None)
        yield


async def _wait(tasks: set[asyncio.Task[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_S)
