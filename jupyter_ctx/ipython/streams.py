"""What stands in for the shell's streams, publisher and display hook during a captured run.

`check` is called when something was taken; it raises a KeyboardInterrupt that had to wait.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from .collector import WRITE_CHARS, Burst, Collector
from .outputlog import StreamName

_of_agent: WeakSet[threading.Thread] = WeakSet()
"""Threads that code of the agent has started."""


class Others:
    """The user's threads that run when code of the agent begins: what they show stays theirs.

    To be made on the thread that runs the code; `close` it there when the code is done.
    """

    def __init__(self) -> None:
        self._before = frozenset(_running())
        theirs = self._before - set(_of_agent) - {_current()}
        self.idents = {thread.ident: thread for thread in theirs}

    def is_here(self) -> bool:
        """Whether this is one of them."""
        thread = self.idents.get(_ident())
        return thread is not None and thread is _current()  # an ident may be given out again

    def close(self) -> None:
        """Note which threads the code has left behind: what they show later is the agent's."""
        _of_agent.update(set(_running()) - self._before)


# Kept apart: the code may replace what stands in the module.
_running, _current, _ident = threading.enumerate, threading.current_thread, threading.get_ident


class CaptureStream(io.TextIOBase):
    """A text stream whose writes go to a collector, but for other threads', until it is detached.

    Later it passes everything to the stream then in place: a logging handler made by the code keeps
    working. Closing it does nothing. In a forked child it writes to the stream it stood for, which
    knows how to reach the parent. `fileno` is that stream's, so a subprocess given this one writes
    where it would have without us.
    """

    def __init__(
        self,
        collector: Collector,
        check: Callable[[], None],
        name: StreamName,
        original: Any,
        others: Others,
    ) -> None:
        self._others = others
        self._theirs = others.idents
        self._collector: Collector | None = collector
        self._burst = collector.bursts[name]
        self._check = check
        self._name: StreamName = name
        self._original = original
        _attached.add(self)

    encoding = "utf-8"

    @property
    def name(self) -> str:
        """`<stdout>` or `<stderr>`, as Python's own streams are called."""
        return f"<{self._name}>"

    def write(self, text: str) -> int:
        """Take `text`; return its length. Raises TypeError on anything else."""
        if type(text) is not str:
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            text = str.__str__(text)
        size, burst = len(text), self._burst
        if _ident() in self._theirs and self._collector is not None and self._others.is_here():
            self._original.write(text)
            return size
        # Most of many small writes end here: a program's `print` costs little more than without us.
        if (room := burst.room - size - WRITE_CHARS) >= 0:
            burst.room = room
            burst.texts.append(text)
        elif (collector := self._collector) is None:
            self._later().write(text)
        else:
            collector.write(self._name, text)
            self._check()
        return size

    def flush(self) -> None:
        """Pass on what is held back."""
        collector = self._collector
        if collector is None:
            self._later().flush()
        elif self._others.is_here():
            self._original.flush()
        else:
            collector.flush()
            self._check()

    def detach(self) -> Any:
        """End the capture; return the stream this one stood for."""
        self._collector, self._burst = None, Burst()
        _attached.discard(self)
        return self._original

    def close(self) -> None:
        """Do nothing: a closed stream would take the outputs that follow with it."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return False: nobody sits at this stream."""
        return False

    def fileno(self) -> int:
        """Return the descriptor of the stream this one stands for."""
        return int(self._original.fileno())

    def _later(self) -> Any:
        current = getattr(sys, self._name, None)
        return self._original if current is None or current is self else current


_attached: WeakSet[CaptureStream] = WeakSet()


def _detach_all() -> None:
    """In a forked child nothing is captured."""
    for stream in list(_attached):
        stream.detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)


class CapturePublisher(DisplayPublisher):
    """A display publisher that gives everything to a collector.

    What it does not know (the kernel sets the parent message on its publisher) is asked of the
    publisher it stands for.
    """

    def __init__(
        self,
        collector: Collector,
        check: Callable[[], None],
        original: DisplayPublisher,
        others: Others,
    ) -> None:
        super().__init__(shell=None)  # type: ignore[no-untyped-call]  # IPython's has no types
        self._others = others
        self._collector = collector
        self._check = check
        self._original = original

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: object = None,
        *,
        transient: dict[str, object] | None = None,
        update: bool = False,
        **kwargs: object,
    ) -> None:
        """Take a MIME bundle, or the update of one. Raises TypeError if it is none."""
        if not isinstance(data, dict) or not isinstance(metadata or {}, dict):
            raise TypeError(f"data and metadata must be dicts, not {data!r} and {metadata!r}")
        if self._others.is_here():
            shown: Any = self._original
            shown.publish(data, metadata, transient=transient, update=update, **kwargs)
            return
        self._collector.display(data, metadata or {}, transient or {}, update)
        self._check()

    def clear_output(self, wait: bool = False) -> None:
        """Take away what the run has brought, now or at its next output."""
        if self._others.is_here():
            shown: Any = self._original
            shown.clear_output(wait)
            return
        self._collector.clear(bool(wait))
        self._check()

    def __getattr__(self, name: str) -> Any:
        if "_original" not in self.__dict__:  # not made yet
            raise AttributeError(name)
        return getattr(self._original, name)


class CaptureHook:
    """A display hook that makes results outputs and leaves `_` and `Out` alone."""

    def __init__(
        self, shell: InteractiveShell, collector: Collector, check: Callable[[], None], code: str
    ) -> None:
        self._shell = shell
        self._collector = collector
        self._check = check
        self._code = code

    def __call__(self, result: object = None) -> None:
        """Take the value of an expression; None and a `;` at the end show nothing."""
        if result is None or self._is_quiet():
            return
        formatter: Any = self._shell.display_formatter
        data, metadata = formatter.format(result)
        if data:
            self._collector.result(data, metadata)
            self._check()

    def _is_quiet(self) -> bool:
        ends: Callable[[str], bool] = self._shell.displayhook.semicolon_at_end_of_expression
        try:
            return ends(self._code)
        except (SyntaxError, IndexError, ValueError):  # text Python's tokenizer cannot read
            return False
