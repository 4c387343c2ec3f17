"""Interrupts and top-level `await` while code runs inside a cell that is running itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

from IPython.core import async_helpers
from IPython.core.interactiveshell import InteractiveShell

T = TypeVar("T")

CANCEL_S = 1.0
"""How long an interrupted coroutine may take for its `finally` blocks."""


class InterruptGuard:
    """Lets SIGINT reach the code run by `run`, and nothing else, while it is entered.

    Everywhere else on the main thread the interrupt is only noted, so that restoring cannot be cut
    short. In functions of the module `protected` it is put off until they call `check`. On a thread
    that is not the main one it does nothing: signals do not arrive there.
    """

    def __init__(self, protected: str) -> None:
        self._protected = protected
        self._frame: FrameType | None = None
        self._deferred = False
        self._entered = False
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

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was put off, on the main thread."""
        if self._deferred and threading.current_thread() is threading.main_thread():
            self._deferred = False
            raise KeyboardInterrupt

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        self.interrupted = True
        is_protected = False
        while frame is not None and frame is not self._frame:
            is_protected = is_protected or frame.f_globals.get("__name__") == self._protected
            frame = frame.f_back
        if frame is None:
            return
        if is_protected:
            self._deferred = True
        else:
            raise KeyboardInterrupt


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
        except KeyboardInterrupt:
            if not task.done():
                task.cancel()
                loop.run_until_complete(_wait({task}))
            if task.done() and not task.cancelled() and task.exception() is None:
                return task.result()
            raise


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
