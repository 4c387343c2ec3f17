"""Calls on the kernel's idle main thread, for turns that no cell waits for.

What such a call shows belongs to no cell: it has a parent header of its own, in a context of its
own, threads that it starts keep that, and what it writes to the descriptors 1 and 2 is taken aside.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

RAW_CHARS = 4_000
"""So much of what was written to the descriptors is told, its end, in bytes."""

MESSAGE_TYPE = "jupyter_ctx_call"
"""The type of the made-up request that what a call shows answers."""


class IdleMain:
    """Makes calls on the main thread, one by one, whenever no cell of the user's runs.

    `is_busy` says whether one does. `take_raw` gets, on the main thread, the end of what a call
    wrote past Python's streams. `on_wait` is told, on any thread, when calls begin to wait for a
    cell to end, and when they do no more. Close it on the main thread.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        is_busy: Callable[[], bool],
        take_raw: Callable[[str], None] = lambda text: None,
        on_wait: Callable[[bool], None] = lambda waits: None,
    ) -> None:
        self._shell: Any = shell
        self._kernel: Any = shell.kernel  # type: ignore[attr-defined]  # of a kernel's shell
        self.is_busy = is_busy
        self._take_raw = take_raw
        self._on_wait = on_wait
        self._lock = threading.Lock()
        self.waits = False
        """Whether a call waits for a cell of the user's to end."""
        self._waiting: deque[tuple[Callable[[], None], contextvars.Context]] = deque()
        self._is_closed = False
        self.parent: dict[str, Any] | None = None
        """The made-up request of the call that is being made, None: none is."""
        shell.events.register("post_run_cell", self._go_on_later)

    def __call__(self, function: Callable[[], None]) -> None:
        """Have `function` called on the main thread when it is idle; any thread may ask.

        It must raise nothing, and sees the context of now.
        """
        self._waiting.append((function, contextvars.copy_context()))
        with self._lock:
            self._tell_wait(bool(self._waiting) and self.is_busy())
        self._schedule()

    def give_up(self) -> None:
        """Nobody waits for the calls any more."""
        with self._lock:
            self._tell_wait(False)

    def close(self) -> None:
        """Make no more calls; those that wait are never made."""
        self._is_closed = True
        self._waiting.clear()
        with contextlib.suppress(ValueError):  # somebody took it out already
            self._shell.events.unregister("post_run_cell", self._go_on_later)

    def _schedule(self) -> None:
        if not self._is_closed:
            self._kernel.io_loop.add_callback(self._go_on)

    def _tell_wait(self, waits: bool) -> None:
        if waits != self.waits:
            self.waits = waits
            self._on_wait(waits)

    def _go_on_later(self, result: object = None) -> None:
        """A cell has run; one that awaits may have kept calls waiting."""
        if self._waiting:
            self._schedule()

    def _go_on(self) -> None:
        """Make the next call, unless a cell is in the middle of an `await`."""
        if self._is_closed or not self._waiting or self.parent is not None or self.is_busy():
            return
        with self._lock:
            function, context = self._waiting.popleft()
            self._tell_wait(False)
        try:
            context.run(self._serve, function)
        finally:
            if self._waiting:
                self._schedule()  # not at once: a cell of the user's may be next

    def _serve(self, function: Callable[[], None]) -> None:
        message: dict[str, Any] = self._kernel.session.msg(MESSAGE_TYPE)
        self.parent = message
        self._tell_state("busy")
        try:
            with _under(self._shell, message), _no_input(self._kernel), _threads_in_context():
                with _descriptors_aside() as read:
                    function()
                    text = read()
                if text:
                    self._take_raw(text)
        finally:
            self._tell_state("idle")
            self.parent = None

    def _tell_state(self, state: str) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        content = {"execution_state": state}
        kernel.session.send(kernel.iopub_socket, "status", content, parent=self.parent, ident=topic)


@contextlib.contextmanager
def _under(shell: Any, message: dict[str, Any]) -> Iterator[None]:
    """Have everything shown in this context answer `message`.

    ipykernel 7 keeps parents in context variables, older versions in attributes, put back after.
    """
    kernel = shell.kernel
    with contextlib.ExitStack() as undo:
        if isinstance(kept := getattr(kernel, "_shell_parent", None), contextvars.ContextVar):
            kept.set(message)
            kernel._shell_parent_ident.set(b"")
        else:
            idents = getattr(kernel, "_parent_ident", {})
            before = idents.get("shell", b""), kernel.get_parent("shell")
            undo.callback(kernel.set_parent, *before, channel="shell")
            kernel.set_parent(b"", message, channel="shell")
        if (set_here := getattr(shell, "set_thread_parent", None)) is not None:
            set_here(message)
        else:
            undo.callback(shell.set_parent, getattr(shell, "_parent_header_global", None) or {})
            shell.set_parent(message)
        yield


@contextlib.contextmanager
def _no_input(kernel: Any) -> Iterator[None]:
    """Have `input()` fail at once: there is no cell whose front end could be asked."""
    before = getattr(kernel, "_allow_stdin", False)
    kernel._allow_stdin = False
    try:
        yield
    finally:
        kernel._allow_stdin = before


@contextlib.contextmanager
def _threads_in_context() -> Iterator[None]:
    """Have threads that this thread starts run in its context, as its own code does."""
    ours = threading.get_ident()
    start = threading.Thread.start

    def start_in_context(thread: threading.Thread) -> None:
        if threading.get_ident() == ours:
            run, context = thread.run, contextvars.copy_context()
            thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(thread)

    threading.Thread.start = start_in_context  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextlib.contextmanager
def _descriptors_aside() -> Iterator[Callable[[], str]]:
    """Let what is written to the descriptors 1 and 2 go to a file; give what reads its end."""
    with contextlib.ExitStack() as undo:
        try:
            file: Any = undo.enter_context(tempfile.TemporaryFile())
        except OSError:
            file = undo.enter_context(open(os.devnull, "w+b"))
        for number in (1, 2):
            kept = os.dup(number)
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, number)
            os.dup2(file.fileno(), number)

        def read() -> str:
            size = os.fstat(file.fileno()).st_size
            os.lseek(file.fileno(), max(0, size - RAW_CHARS), os.SEEK_SET)
            return os.read(file.fileno(), RAW_CHARS).decode("utf-8", "replace")

        yield read
