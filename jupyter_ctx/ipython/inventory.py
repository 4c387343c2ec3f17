"""What lives in the user's namespace, told without calling anything that could compute or lie.

Only the exact built-in containers and the exact classes of numpy, pandas and polars are asked for
their size; of everything else the type is named, read past a metaclass of the user's.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ..core.ports import Variable

_IPYTHON_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
"""Names IPython puts into the namespace; `open` only when it is IPython's."""

_COUNTED: Mapping[type, str] = {
    list: "items",
    tuple: "items",
    set: "items",
    frozenset: "items",
    dict: "items",
    OrderedDict: "items",
    defaultdict: "items",
    deque: "items",
    str: "characters",
    bytes: "bytes",
    bytearray: "bytes",
}

_MAX_COLUMNS = 1_000
"""A frame with more columns is not asked for its size in bytes: that takes a step a column."""


def user_names(names: Mapping[Any, object], hidden: Mapping[str, object]) -> dict[str, object]:
    """Return the names the user made: no `_` names, none of IPython's (`hidden`) left as it was."""
    found: dict[str, object] = {}
    for name, value in list(names.items()):
        if not isinstance(name, str) or name.startswith("_"):
            continue
        if name in hidden and hidden[name] is value:
            continue
        if name in _IPYTHON_NAMES and type_name(value).startswith(("IPython.", "ipykernel.")):
            continue
        if name in ("In", "Out") or (name == "open" and type_name(value) == "function"):
            continue
        found[name] = value
    return found


def list_variables(
    names: Mapping[str, object],
    hidden: Mapping[str, object],
    bound_in: Callable[[str], str | None],
) -> list[Variable]:
    """Return the user's variables, sorted by name; `bound_in` says which cell bound a name."""
    return [
        Variable(name, type_name(value), shape_of(value), size_of(value), bound_in(name))
        for name, value in sorted(user_names(names, hidden).items())
    ]


def type_name(value: object) -> str:
    """Return the type as a person writes it: `int`, `pandas.DataFrame`, `Point` (of a cell)."""
    cls = type(value)
    module = type.__dict__["__module__"].__get__(cls)
    name = type.__dict__["__qualname__"].__get__(cls)
    if not isinstance(module, str) or module in ("builtins", "__main__"):
        return str(name)
    return f"{module.partition('.')[0]}.{name}"


def shape_of(value: object) -> str:
    """Return what the value measures: `1,000 × 3`, `5 items`, `float64 100 × 2`; "" if not safe."""
    cls = type(value)
    if cls in _COUNTED:
        measured: Any = value
        return f"{len(measured):,} {_COUNTED[cls]}"
    known: Any = value
    match _library_class(cls):
        case "numpy.ndarray":
            return f"{known.dtype} {_by(known.shape)}"
        case "pandas.DataFrame" | "polars.DataFrame":
            return _by(known.shape)
        case "pandas.Series" | "polars.Series":
            return f"{known.dtype} {_by(known.shape)}"
        case "pandas.Index":
            return f"{known.dtype} {len(known):,}"
    return ""


def size_of(value: object) -> str:
    """Return the size in memory (`8.0 MB`), shallow for object columns; "" if not known cheaply."""
    known: Any = value
    match _library_class(type(value)):
        case "numpy.ndarray" | "pandas.Series" | "pandas.Index":
            return _bytes(int(known.nbytes))
        case "pandas.DataFrame" if known.shape[1] <= _MAX_COLUMNS:
            return _bytes(int(known.memory_usage(index=False).sum()))
        case "polars.DataFrame" | "polars.Series":
            return _bytes(int(known.estimated_size()))
    return ""


def _library_class(cls: type) -> str:
    """Return the public name of a class we know to be safe, "" for any other.

    A class counts only if it is the very object its loaded library has under that name.
    """
    module = type.__dict__["__module__"].__get__(cls)
    if not isinstance(module, str):
        return ""
    package = module.partition(".")[0]
    if package not in ("numpy", "pandas", "polars"):
        return ""
    library = sys.modules.get(package)
    if type(library) is not ModuleType:
        return ""
    for name in ("ndarray", "DataFrame", "Series", "Index"):
        if vars(library).get(name) is cls:
            return f"{package}.{name}"
    return ""


def _by(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{length:,}" for length in shape) or "scalar"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} TB"
