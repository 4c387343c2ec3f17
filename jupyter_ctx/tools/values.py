"""Describes a value without running any code of its type.

Only exact types that are known to be safe are asked anything; a subclass of a built-in is read
through the built-in's own methods; everything else is named by type. So a `repr` that raises,
blocks, lies or computes is never called, and nothing lazy is computed.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import itertools
import pathlib
import re
import types
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .measures import shape_of
from .naming import extends, library_class, library_value, mro_of, type_name

ITEMS = 10
"""So many items of a container are shown."""

DEPTH = 2
"""So deep are containers opened."""

TEXT_CHARS = 60
"""Longest string within a container, in characters."""

INT_BITS = 1_000
"""A larger int is described by its size: writing it out takes quadratic time."""

_ZONES = (type(None), datetime.timezone)
_PLAIN_REPR: frozenset[type] = frozenset(
    {
        bool,
        float,
        complex,
        type(None),
        type(...),
        type(NotImplemented),
        range,
        datetime.date,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
        pathlib.PosixPath,
        pathlib.WindowsPath,
        re.Pattern,
    }
)
_LIBRARY_SCALARS: Mapping[str, tuple[str, ...]] = {
    "pandas": ("Timestamp", "Timedelta", "Period", "Interval"),
    "numpy": (
        *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128", "datetime64", "timedelta64"),
    ),
}
_UNITS: Mapping[Any, str] = {str: "character", bytes: "byte", bytearray: "byte"}
_BRACKETS: Mapping[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}


def built_in_of(value: object) -> Any:
    """Return the built-in container or scalar that the value's type is or extends, None if none."""
    known = (
        dict,
        list,
        tuple,
        set,
        frozenset,
        collections.deque,
        str,
        bytes,
        bytearray,
        int,
        float,
    )
    return next((base for base in mro_of(type(value)) if _is_one_of(base, known)), None)


def _is_one_of(cls: type, classes: Iterable[type]) -> bool:
    """Say whether `cls` is one of `classes`, without its metaclass's `__eq__` or `__hash__`."""
    return any(cls is one for one in classes)


def describe(value: object, *, depth: int = DEPTH, text_chars: int = TEXT_CHARS) -> str:
    """Return `value` in short, on one line.

    Containers are opened `depth` deep, ITEMS items each; strings are cut at `text_chars`.
    """
    cls = type(value)
    if is_plain(value):
        return repr(value)[: 4 * text_chars]
    base = built_in_of(value)
    if base is None:
        return _named(value)
    said = _describe_built_in(value, base, depth, text_chars)
    return said if cls is base else f"{type_name(cls)}: {said}"


def is_plain(value: object) -> bool:
    """Say whether `repr` and `str` of the value run only code of Python and of known libraries."""
    return _is_one_of(type(value), _PLAIN_REPR) or _is_plain_scalar(value)


def size_of(value: object) -> str:
    """Return how large a built-in container or text is ("1,000 items"), "" for anything else."""
    base = built_in_of(value)
    if base is None or base is int or base is float:
        return ""
    count = _count(value, base)
    unit = _UNITS.get(base, "item")
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _is_plain_scalar(value: object) -> bool:
    cls = type(value)
    if cls is datetime.datetime or cls is datetime.time:
        zone = getattr(value, "tzinfo", None)
        return _is_one_of(type(zone), _ZONES) or type_name(type(zone)) == "zoneinfo.ZoneInfo"
    if any(value is library_value("pandas", name) for name in ("NaT", "NA")):
        return True
    return any(
        cls is library_class(library, name)
        for library, names in _LIBRARY_SCALARS.items()
        for name in names
    )


def _describe_built_in(value: Any, base: Any, depth: int, text_chars: int) -> str:
    if base is str:
        count = str.__len__(value)
        text = str.__getitem__(value, slice(0, text_chars))
        return repr(text) + (f"… ({count:,} characters)" if count > text_chars else "")
    if base is bytes or base is bytearray:
        count = base.__len__(value)
        head = bytes(base.__getitem__(value, slice(0, text_chars // 3)))
        return repr(head) + (f"… ({count:,} bytes)" if count > len(head) else "")
    if base is int:
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= INT_BITS else f"an int of {bits:,} bits"
    if base is float:
        return float.__repr__(value)
    return _describe_container(value, base, depth)


def _describe_container(value: Any, base: Any, depth: int) -> str:
    count = _count(value, base)
    if depth <= 0 and count:
        return f"<{base.__name__} of {count:,}>"
    if base is dict:
        pairs = itertools.islice(dict.items(value), ITEMS)
        items = [
            f"{describe(key, depth=0)}: {describe(one, depth=depth - 1)}" for key, one in pairs
        ]
        return "{" + _joined(items, count) + "}"
    items = [
        describe(one, depth=depth - 1) for one in itertools.islice(base.__iter__(value), ITEMS)
    ]
    if (base is set or base is frozenset) and count <= ITEMS:
        items.sort()
    left, right = _BRACKETS[base]
    tail = "," if base is tuple and count == 1 else ""
    return f"{left}{_joined(items, count)}{tail}{right}"


def _count(value: Any, base: Any) -> int:
    return int(base.__len__(value))


def _joined(items: Iterable[str], count: int) -> str:
    shown = list(items)
    if count > len(shown):
        shown.append(f"… {count - len(shown):,} more")
    return ", ".join(shown)


def _named(value: object) -> str:
    """Return the type of a value that is not asked anything, with its shape if that is safe."""
    cls = type(value)
    known: Any = value
    if cls is types.FunctionType:
        return f"<function {known.__qualname__[:80]}>"
    if extends(value, type):
        return f"<class {type_name(known)}>"
    measured = shape_of(value)
    return f"<{type_name(cls)} {measured}>" if measured else f"<{type_name(cls)}>"
