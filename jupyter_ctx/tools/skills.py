"""`skill`: the text of a skill that the user made, or trusted, by its name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from ..core.blocks import Json
from ..core.ports import ToolOutput, ToolSpec
from ..errors import ToolError
from .base import Tool, find_near, load_description, make_schema, quote_names
from .pages import LINE_FIELDS, Slice, read_page

HEAD_CHARS = 400
"""Room kept for the line above the text, in characters."""


class Loadable(Protocol):
    """A skill in force: its name, its text, and the real path of its file."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def text(self) -> str:
        """What it says."""
        ...

    @property
    def path(self) -> str:
        """Where it lies."""
        ...


def make_skill(find_skills: Callable[[], Sequence[Loadable]]) -> Tool:
    """Return the tool `skill` over the skills in force at the time of the call."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        name = str(arguments["name"])
        known = await asyncio.to_thread(find_skills)
        skill = next((one for one in known if one.name == name), None)
        if skill is None:
            near = quote_names(find_near(name, [one.name for one in known]))
            hint = f"Nearest: {near}." if near else "There is none in force."
            raise ToolError(f"There is no skill `{name[:80]}`. {hint}")
        text = read_page(skill.text, Slice.of(arguments), cap_chars - HEAD_CHARS)
        where = os.path.dirname(skill.path)[-HEAD_CHARS + 100 :]
        return ToolOutput(f"[Skill `{name}`; files that it names lie in {where}]\n{text}")

    fields = {
        "name": {"type": "string"},
        "start_line": LINE_FIELDS["start_line"],
    }
    spec = ToolSpec(
        "skill",
        load_description("skill"),
        make_schema(fields, ["name"]),
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)
