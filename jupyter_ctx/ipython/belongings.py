"""What of the kernel code may not take away: looked at before a run, put back after it, and told.

The kernel is the user's. Code that runs for the agent may replace, delete or close what every later
cell needs: the shell's methods, hooks, signal handlers, modules, descriptors. What is then another
one than before is put back and named. What a cell is for stays as the code left it: names, imports,
settings of libraries, the working folder.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any, TextIO

from IPython.core.interactiveshell import InteractiveShell

from . import collector, live, outputlog, sinks, streams
from .plaintext import plain

MOST_NAMED = 8
"""So many things that were put back are named, the rest counted."""

FEW_DESCRIPTORS = 16
"""If fewer are left, cells fail at odd places, and the user is told."""

_MISSING = object()
_MODULES = (time, json, os, threading, queue, socket, signal, logging)
"""Kernel and turn are made of these: their functions, and those of their classes, stay theirs."""
_NEEDED = frozenset({"IPython", "ipykernel", "traitlets", "zmq", "tornado", "comm", "jupyter_ctx"})
"""Packages whose modules are put back into `sys.modules`, as the standard library's are. Where one
of them is gone, nobody meant what was done: then every module is put back."""
_SYS_NAMES = ("excepthook", "unraisablehook", "breakpointhook", "modules")
_SHELL_NAMES = (
    "kernel",
    "displayhook",
    "display_formatter",
    "display_trap",
    "builtin_trap",
    "events",
    "input_transformer_manager",
    "magics_manager",
    "history_manager",
    "compile",
)
_KERNEL_NAMES = ("shell", "io_loop", "session", "comm_manager", "iopub_socket", "iopub_thread")

Mend = tuple[str, Callable[[], object]]
"""What is another one than before, by name, and what puts it back."""


class Belongings:
    """What the kernel has at one moment: make it before a run, on the main thread.

    After the run `put_back_code` comes first, then the shell's own hooks, then `put_back`: nothing
    that the code could have replaced is called before it is put back. `text` then tells the user
    what the code broke, in whole lines, "" if nothing.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        kernel = getattr(shell, "kernel", None)
        self._trace = sys.gettrace(), sys.getprofile()
        self._modules = dict(sys.modules)
        holders: list[ModuleType | type] = [*_MODULES, *_classes(shell, kernel)]
        self._code = [_Code(one) for one in holders]
        self._places = [_Place(sys, "sys", _SYS_NAMES), _Place(shell, "the shell's", _SHELL_NAMES)]
        self._shadows = [(one, set(vars(one))) for one in (shell, kernel) if one is not None]
        self._dicts = [("magics", each) for each in shell.magics_manager.magics.values()]
        self._lists = [("event callbacks", each) for each in shell.events.callbacks.values()]
        transforms = shell.input_transformer_manager
        for name in ("cleanup_transforms", "line_transforms", "token_transformers"):
            self._lists.append(("input transformers", getattr(transforms, name)))
        self._ways = [
            (f"sys.{name}", getattr(sys, name), list(getattr(sys, name)))
            for name in ("path", "meta_path", "path_hooks")
        ]
        if kernel is not None:
            self._places.append(_Place(kernel, "the kernel's", _KERNEL_NAMES))
            self._dicts += [
                ("message handlers", kernel.shell_handlers),
                ("message handlers", kernel.control_handlers),
                ("comm targets", kernel.comm_manager.targets),
            ]
        self._find_own = partial(_loaded_for, shell)
        self._own = self._find_own()
        self._kept_dicts = [(name, each, dict(each)) for name, each in self._dicts]
        self._kept_lists = [(name, each, list(each)) for name, each in self._lists]
        self._names = shell.user_ns, {n: shell.user_ns.get(n) for n in shell.user_ns_hidden}
        self._python = _Python()
        self._folder = _folder()
        self.text = ""
        self._found: list[str] = []

    def put_back_code(self) -> None:
        """Put back modules, and the functions of modules and classes."""
        for _ in range(2):  # a profiler that raises is gone then
            try:
                sys.setprofile(self._trace[1])
                sys.settrace(self._trace[0])
                break
            except Exception:
                continue
        found = _mend(_mends_of_ways(self._ways)) + _mend(self._mends_of_modules())
        for code in self._code:
            found += _mend(code.mends())
        self._found = found

    def put_back(self) -> None:
        """Put back the rest. What cannot be put back is named too."""
        found = self._found + _mend(mend for place in self._places for mend in place.mends())
        found += _mend(_mends_of_shadows(self._shadows))
        if self._find_own() is not self._own:  # the code unloaded or reloaded us, as it may
            self._kept_dicts = [
                (said, now, {name: one for name, one in kept.items() if not _is_own(one)})
                for said, now, kept in self._kept_dicts
            ]
            self._kept_lists = [
                (said, now, [one for one in kept if not _is_own(one)])
                for said, now, kept in self._kept_lists
            ]
        found += _mend(_mends_of_dicts(self._kept_dicts))
        found += _mend(_mends_of_lists(self._kept_lists))
        names, hidden = self._names
        for name, value in hidden.items():
            if name not in names:
                names[name] = value
        found += self._python.put_back()
        self.text = (_said_of(found) if found else "") + self._say_the_rest()

    def _say_the_rest(self) -> str:
        """Return what is not put back, since it may be meant, and matters to every later cell."""
        said = ""
        if (folder := _folder()) != self._folder:
            where = "gone" if folder is None else f"now {plain(folder)}"
            said += f"[The working folder is {where}.]\n"
        if _descriptors_are_short():
            said += "[Too many files are open: until some are closed, cells can open none.]\n"
        return said

    def _mends_of_modules(self) -> Iterator[Mend]:
        now = sys.modules
        gone = [name for name, one in self._modules.items() if now.get(name, _MISSING) is not one]
        packages = {name.partition(".")[0] for name in gone}
        if packages & _NEEDED or packages & sys.stdlib_module_names:
            for name in gone:
                yield f"module {name}", partial(now.__setitem__, name, self._modules[name])
            # A module of a second copy of its package is no attribute of the first: imported anew.
            copies = {*gone}
            for name in list(now):
                if name not in self._modules and name.rpartition(".")[0] in copies:
                    copies.add(name)
                    yield f"module {name}", partial(now.pop, name, None)


class _Code:
    """The functions of a module or class, as they stand in it."""

    def __init__(self, holder: ModuleType | type) -> None:
        self._holder = holder
        is_module = isinstance(holder, ModuleType)  # which keeps its settings under `_` names
        self._kept = {
            name: one
            for name, one in vars(holder).items()
            if _is_code(one) and not (is_module and name.startswith("_"))
        }
        self._names = set(vars(holder))

    def mends(self) -> Iterator[Mend]:
        """Yield what is gone or replaced, and what hides a function of a base class."""
        holder, now = self._holder, vars(self._holder)
        for name, one in self._kept.items():
            if now.get(name, _MISSING) is not one:
                yield self._said(name), partial(setattr, holder, name, one)
        if isinstance(holder, type):
            for name in [name for name in now if name not in self._names]:
                if any(_is_code(vars(base).get(name)) for base in holder.__mro__[1:]):
                    yield self._said(name), partial(delattr, holder, name)

    def _said(self, name: str) -> str:
        return f"{self._holder.__name__}.{name}"


class _Place:
    """Attributes of one object that hold the same objects as before."""

    def __init__(self, holder: object, said: str, names: Iterable[str]) -> None:
        self._holder = holder
        self._said = said
        self._kept = {name: getattr(holder, name, _MISSING) for name in names}

    def mends(self) -> Iterator[Mend]:
        """Yield what holds another object, or none."""
        holder = self._holder
        for name, one in self._kept.items():
            if one is not _MISSING and getattr(holder, name, _MISSING) is not one:
                dot = "." if self._said == "sys" else " "
                yield f"{self._said}{dot}{name}", partial(setattr, holder, name, one)


class _Python:
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
        found = _mend(self._mends())
        for descriptor in self._fds:
            found += _mend(descriptor.mends())
            descriptor.close()
        return found + _mend(self._mends_of_streams())

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


def _loaded_for(shell: InteractiveShell) -> object:
    """Return what our extension put into the shell, None if it is not loaded."""
    extension = sys.modules.get(f"{__package__}.extension")
    return None if extension is None else extension._loaded.get(shell)


def _is_own(value: object) -> bool:
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0] == str(__package__).partition(".")[0]


def _said_of(put_back: Sequence[str]) -> str:
    """Return the line that names what was put back."""
    names = list(dict.fromkeys(put_back))
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"[The code changed {', '.join(names[:MOST_NAMED])}{more}: put back as before.]\n"


def _mend(mends: Iterable[Mend]) -> list[str]:
    """Put things back; return their names, of those too that could not be put back."""
    found = []
    for said, mend in list(mends):
        try:
            mend()
        except Exception as error:
            said = f"{said} (which cannot be put back: {type(error).__name__})"
        found.append(said)
    return found


def _mends_of_shadows(kept: Iterable[tuple[object, set[str]]]) -> Iterator[Mend]:
    """Yield the attributes of an object that hide a method of its class."""
    for holder, names in kept:
        for name in [name for name in vars(holder) if name not in names]:
            if any(_is_code(vars(base).get(name)) for base in type(holder).__mro__):
                yield f"the method {name}", partial(vars(holder).pop, name)


def _mends_of_dicts(kept: Iterable[tuple[str, dict[Any, Any], dict[Any, Any]]]) -> Iterator[Mend]:
    for said, now, before in kept:
        if any(name not in now for name in before):
            yield said, partial(now.update, {**before, **now})


def _mends_of_lists(kept: Iterable[tuple[str, list[Any], list[Any]]]) -> Iterator[Mend]:
    for said, now, before in kept:
        ids = {id(one) for one in now}
        if any(id(one) not in ids for one in before):
            old = {id(one) for one in before}
            whole = [*before, *(one for one in now if id(one) not in old)]
            yield said, partial(now.__setitem__, slice(None), whole)


def _mends_of_ways(kept: Iterable[tuple[str, list[Any], list[Any]]]) -> Iterator[Mend]:
    """Yield where modules are imported from, if nothing of it is left; less may be meant."""
    for said, now, before in kept:
        left = getattr(sys, said.removeprefix("sys."), ())
        if not any(one in left for one in before):
            now[:] = before
            yield said, partial(setattr, sys, said.removeprefix("sys."), now)


def _classes(shell: InteractiveShell, kernel: Any) -> Iterator[type]:
    """Yield the classes that make up the shell, the kernel and our own capture, each once."""
    objects: list[object] = [
        shell,
        shell.display_pub,
        shell.displayhook,
        shell.display_formatter,
        shell.events,
    ]
    objects += [shell.input_transformer_manager, shell.magics_manager, sys.stdout, sys.stderr]
    if kernel is not None:
        objects += [kernel, kernel.session, kernel.comm_manager]
    own = [
        one
        for module in (collector, live, outputlog, sinks, streams, *_MODULES)
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__
    ]
    found = dict.fromkeys(base for one in objects for base in type(one).__mro__)
    for one in dict.fromkeys([*found, *own]):
        if one.__flags__ & _HEAP_TYPE:
            yield one


_HEAP_TYPE = 1 << 9
"""Set of classes made by a `class` statement: others cannot be changed."""


def _is_code(value: object) -> bool:
    return callable(value) or isinstance(value, property | classmethod | staticmethod)


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


def _descriptors_are_short() -> bool:
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


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None
