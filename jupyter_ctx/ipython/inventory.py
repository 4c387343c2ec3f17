"""What lives in the user's namespace, told without calling anything that could compute or lie.

Types get their names in `tools/naming.py` and their sizes in `tools/measures.py`, as for `inspect`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.ports import Variable
from ..tools.measures import memory_of, shape_of
from ..tools.naming import type_name
from .watched import MOST_NAMES, NameMark

MOST_NAME_CHARS = 500
"""A longer name was made by a program and cannot be typed: it is left out, since what is told of
names is stored with each prompt."""

_IPYTHON_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
"""Names IPython puts into the namespace; `open` only when it is IPython's."""


def user_names(names: Mapping[Any, object], hidden: Mapping[str, object]) -> dict[str, object]:
    """Return the names the user made: no `_` names, none of IPython's (`hidden`) left as it was."""
    found: dict[str, object] = {}
    for name, value in list(names.items()):
        if type(name) is not str or len(name) > MOST_NAME_CHARS:  # a subclass may do anything
            continue
        if name.startswith("_"):
            continue
        if name in hidden and hidden[name] is value:
            continue
        if name in _IPYTHON_NAMES and type_name(type(value)).startswith(("IPython.", "ipykernel.")):
            continue
        if name in ("In", "Out") or (name == "open" and type_name(type(value)) == "function"):
            continue
        found[name] = value
    return found


def list_variables(
    names: Mapping[str, object],
    hidden: Mapping[str, object],
    bound_in: Callable[[str], str | None],
) -> list[Variable]:
    """Return the user's variables, sorted by name; `bound_in` says which cell bound a name."""
    found = sorted(user_names(names, hidden).items())
    return [_variable(name, value, bound_in(name)) for name, value in found]


def mark_names(
    names: Mapping[str, object],
    hidden: Mapping[str, object],
    bound_in: Callable[[str], str | None],
) -> tuple[dict[str, NameMark], int]:
    """Return what each of the user's names is, the last `MOST_NAMES`, and how many more there are.

    In the order of the namespace; bounded work, and nothing that could compute is called.
    """
    found = list(user_names(names, hidden).items())
    marks = {}
    for name, value in found[-MOST_NAMES:]:
        kind = type_name(type(value))
        what = f"{kind} {_shape(value)}".strip()
        marks[name] = NameMark(what[:120], f"{id(value):x}", bound_in(name) or "")
    return marks, max(0, len(found) - MOST_NAMES)


def _shape(value: object) -> str:
    try:
        return shape_of(value)
    except Exception as error:
        return f"broken: {type_name(type(error))}"


def _variable(name: str, value: object, cell: str | None) -> Variable:
    """Return what is told of one name; a value of a known library may be broken inside."""
    kind = type_name(type(value))
    try:
        return Variable(name, kind, shape_of(value), memory_of(value), cell)
    except Exception as error:
        return Variable(name, kind, f"broken: {type_name(type(error))}", "", cell)
