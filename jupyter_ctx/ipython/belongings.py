"""What of the kernel code may not take away: looked at before a run, put back after it, and told.

The kernel is the user's. Code that runs for the agent may replace, delete or close what every later
cell needs: the shell's methods, hooks, signal handlers, modules, descriptors. What is then another
one than before is put back and named. What a cell is for stays as the code left it: names, imports,
settings of libraries, the working folder.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from . import collector, live, outputlog, sinks, streams
from .place import find_folder
from .plaintext import plain
from .process import Mend, PythonState, are_descriptors_short, mend_all

MOST_NAMED = 8
"""So many things that were put back are named, the rest counted."""

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
        self._python = PythonState()
        self._folder = find_folder()
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
        found = mend_all(_mends_of_ways(self._ways)) + mend_all(self._mends_of_modules())
        for code in self._code:
            found += mend_all(code.mends())
        self._found = found

    def put_back(self) -> None:
        """Put back the rest. What cannot be put back is named too."""
        found = self._found + mend_all(mend for place in self._places for mend in place.mends())
        # Once more: a thread that imported while they were out may have put copies in since.
        found += [one for one in mend_all(self._mends_of_modules()) if one not in found]
        found += mend_all(_mends_of_shadows(self._shadows))
        if self._find_own() is not self._own:  # the code unloaded or reloaded us, as it may
            self._kept_dicts = [
                (said, now, {name: one for name, one in kept.items() if not _is_own(one)})
                for said, now, kept in self._kept_dicts
            ]
            self._kept_lists = [
                (said, now, [one for one in kept if not _is_own(one)])
                for said, now, kept in self._kept_lists
            ]
        found += mend_all(_mends_of_dicts(self._kept_dicts))
        found += mend_all(_mends_of_lists(self._kept_lists))
        names, hidden = self._names
        for name, value in hidden.items():
            if name not in names:
                names[name] = value
        found += self._python.put_back()
        self.text = (_said_of(found) if found else "") + self._say_the_rest()

    def _say_the_rest(self) -> str:
        """Return what is not put back, since it may be meant, and matters to every later cell."""
        said = ""
        if (folder := find_folder()) != self._folder:
            where = f"now {plain(folder)}" if folder else "gone"
            said += f"[The working folder is {where}.]\n"
        if are_descriptors_short():
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
