"""What code can break of Python and its process: looked at before a run, put back after it.

That is signal handlers, timers, limits, the event loop, and descriptors 0 to 2 with the streams
over them. `belongings.py` has what is IPython's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TextIO

FEW_DESCRIPTORS = 16
"""If fewer are left, cells fail at odd places, and the user is told."""

Mend = tuple[str, Callable[[], object]]
"""What is another one than before, by name, and what puts it back."""


def mend_all(mends: Iterable[Mend]) -> list[str]:
    """Put things back; return their names, of those too that could not be put back."""
    found = []
    for said, mend in list(mends):
        try:
            mend()
        except Exception as error:
            said = f"{said} (which cannot be put back: {type(error).__name__})"
        found.append(said)
    return found


class PythonState:
    """The interpreter's own state, and the process's."""

    def __init__(self) -> None:
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._timer = signal.getitimer(signal.ITIMER_REAL)
        self._limit, self._interval = sys.getrecursionlimit(), sys.getswitchinterval()
        self._policy = getattr(asyncio.events, "_event_loop_policy", None)
        self._loop: Any = asyncio._get_running_loop()
        self._fds = [_Descriptor(number) for number in range(3)]
        self._streams: dict[str, TextIO | None] = {
            name: getattr(sys, name) for name in ("__stdin__", "__stdout__", "__stderr__")
        }

    def put_back(self) -> list[str]:
        """Put everything back; return what was another one, in words."""
        found = mend_all(self._mends())
        for descriptor in self._fds:
            found += mend_all(descriptor.mends())
            descriptor.close()
        return found + mend_all(self._mends_of_streams())

    def _mends(self) -> Iterator[Mend]:
        for number, handler in self._handlers.items():
            # None: it was not set from Python and cannot be put back from it.
            if handler is not None and signal.getsignal(number) != handler:
                said = f"the handler of {signal.Signals(number).name}"
                yield said, partial(signal.signal, number, handler)
        if self._timer[0] == 0 and signal.getitimer(signal.ITIMER_REAL)[0] != 0:
            yield "the alarm clock", partial(signal.setitimer, signal.ITIMER_REAL, 0)
        if sys.getrecursionlimit() < self._limit:
            yield "the recursion limit", partial(sys.setrecursionlimit, self._limit)
        if sys.getswitchinterval() != self._interval:
            yield "the switch interval", partial(sys.setswitchinterval, self._interval)
        policy = getattr(asyncio.events, "_event_loop_policy", None)
        if self._policy is not None and policy is not self._policy:
            yield "asyncio's policy", partial(asyncio.set_event_loop_policy, self._policy)
        if getattr(self._loop, "_stopping", False):
            yield "the kernel's event loop", partial(setattr, self._loop, "_stopping", False)

    def _mends_of_streams(self) -> Iterator[Mend]:
        for number, (name, stream) in enumerate(self._streams.items()):
            now = getattr(sys, name, None)
            if now is stream and (stream is None or not stream.closed):
                continue
            if stream is None or not stream.closed:
                yield f"sys.{name}", partial(setattr, sys, name, stream)
            else:
                yield f"sys.{name}", partial(_reopen, name, number)


class _Descriptor:
    """Descriptor `number`, with a second one of the same file that it can be made from again."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._file = _file_of(number)
        self._second = -1
        if self._file is not None:
            try:
                self._second = os.dup(number)
            except OSError:  # none is left: then it is only named
                self._second = -1

    def mends(self) -> Iterator[Mend]:
        """Yield it if it is closed, or of another file."""
        if self._file is not None and _file_of(self._number) != self._file:
            yield f"descriptor {self._number}", self._put_back

    def _put_back(self) -> None:
        if _file_of(self._second) == self._file:
            os.dup2(self._second, self._number, inheritable=True)

    def close(self) -> None:
        """Close the second one."""
        if self._second >= 0 and _file_of(self._second) == self._file:
            os.close(self._second)
        self._second = -1


def _file_of(number: int) -> tuple[int, int, int] | None:
    """Return which file a descriptor is of, None if it is closed."""
    try:
        state = os.fstat(number)
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_rdev


def _reopen(name: str, number: int) -> None:
    """Make `sys.name` anew, over a descriptor that stays open when the stream is closed."""
    stream = open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    setattr(sys, name, stream)


def are_descriptors_short() -> bool:
    """Whether fewer than `FEW_DESCRIPTORS` can be opened: loops and connections need some."""
    opened: list[int] = []
    try:
        while len(opened) < FEW_DESCRIPTORS:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    finally:
        for number in opened:
            os.close(number)
    return False
