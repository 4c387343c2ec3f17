"""One tool: its spec, and what runs it."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

from ..core.blocks import Json
from ..core.ports import ToolOutput, ToolSpec

NEAR_NAMES = 5
"""So many near names are listed for an unknown one."""

LEAST_ALIKE = 0.5
"""How alike a near name is at least, from 0 to 1 (difflib's ratio)."""

NAMES_SEARCHED = 5_000
"""So many names, the last ones, are compared with an unknown one."""

Handler: TypeAlias = Callable[[Json, int], Awaitable[ToolOutput]]
"""Runs a call: its valid input, and the most characters a tool that bounds itself may return."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's spec and its handler, which may raise ToolError.

    `is_checked`: the input of a call is held against the schema before the handler gets it; of a
    tool of somebody else only whether it is an object, since their schema is code that would run.
    """

    spec: ToolSpec
    run: Handler
    is_checked: bool = True


def load_description(name: str) -> str:
    """Return what the model is told of tool `name`: the text of `descriptions/<name>.md`."""
    file = resources.files(__package__).joinpath("descriptions", f"{name}.md")
    return file.read_text(encoding="utf-8").strip()


def make_schema(
    properties: Mapping[str, Mapping[str, object]], required: Sequence[str] = ()
) -> dict[str, object]:
    """Return the JSON schema of an object with these properties.

    That there may be no others is not told, for every word of a tool is sent with each request;
    `check_arguments` refuses them.
    """
    schema: dict[str, object] = {
        "type": "object",
        "properties": {name: dict(field) for name, field in properties.items()},
    }
    if required:
        schema["required"] = list(required)
    return schema


def find_near(name: str, names: Iterable[str]) -> list[str]:
    """Return the known names nearest to `name`, the best first; the last ones if none is near."""
    known = list(names)[-NAMES_SEARCHED:]
    exact_but_case = [other for other in known if other.lower() == name.lower()]
    near = difflib.get_close_matches(name[:200], known, NEAR_NAMES, LEAST_ALIKE)
    return list(dict.fromkeys([*exact_but_case, *near]))[:NEAR_NAMES] or known[-NEAR_NAMES:]


def is_like(name: str, other: str) -> bool:
    """Whether a known name is near to `name`, and not only one of those that there are."""
    near = difflib.get_close_matches(name[:200].lower(), [other.lower()], 1, LEAST_ALIKE)
    return bool(near)


def quote_names(names: Iterable[str]) -> str:
    """Return names in a list for a sentence, each cut at 80 characters."""
    return ", ".join(f"`{name[:80]}`" for name in names)


def int_of(value: object) -> int | None:
    """Return an integer argument, which JSON may write as `5.0`, as an int; None if absent."""
    return int(value) if isinstance(value, int | float) else None
