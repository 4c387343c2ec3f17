"""The tools of a session: finds the tool of a call, checks its input, runs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..config import Settings
from ..core.blocks import ToolUse
from ..core.ports import Kernel, ToolOutput, ToolSpec
from ..errors import ConfigError, ToolError
from .arguments import check_arguments
from .base import Tool, find_near, quote_names
from .inspect import make_inspect
from .notebook import make_list_cells, make_read_cell
from .python import make_run_code
from .results import ResultReader, make_read_result

LEAST_CAP_CHARS = 500
"""A tool that bounds itself may always return this much: a line and where to go on."""


class Registry:
    """A ToolRunner over a fixed set of tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._specs = tuple(self._tools[name].spec for name in sorted(self._tools))

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name."""
        return self._specs

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        """Run one call; `cap_chars` bounds the result of a tool that is never offloaded.

        Raises ToolError: no such tool (near names are listed), input off the schema (the field and
        what was expected are named), or what the tool itself could not do.
        """
        tool = self._tools.get(use.name)
        if tool is None:
            near = quote_names(find_near(use.name, sorted(self._tools)))
            raise ToolError(f"There is no tool `{use.name[:80]}`. Nearest: {near}.")
        arguments = check_arguments(tool.spec, use.input)
        cap = max(LEAST_CAP_CHARS, min(tool.spec.max_result_chars, cap_chars))
        return await tool.run(arguments, cap)


def make_tools(kernel: Kernel, results: ResultReader, settings: Settings) -> Registry:
    """Return the tools over a kernel and a session's stored texts.

    Raises ConfigError when the setting `max_result_chars` names no tool or no number.
    """
    caps = settings.max_result_chars
    tools = [
        make_inspect(kernel, caps.get("inspect", settings.max_chars)),
        make_list_cells(kernel, caps.get("list_cells", settings.max_chars)),
        make_read_cell(kernel, caps.get("read_cell", settings.max_chars)),
        make_read_result(results, caps.get("read_result", settings.max_chars)),
        make_run_code(kernel, caps.get("run_code", settings.max_chars)),
    ]
    names = {tool.spec.name for tool in tools}
    for name, chars in caps.items():
        if name not in names:
            near = quote_names(find_near(name, sorted(names)))
            raise ConfigError(
                f"Setting max_result_chars names no tool {name!r}. Nearest: {near}.",
                name="max_result_chars",
            )
        if type(chars) is not int or chars < 0:  # read from JSON: it may be anything
            raise ConfigError(
                f"Setting max_result_chars is {chars!r} for {name}; it must be a whole number of "
                "characters.",
                name="max_result_chars",
            )
    return Registry(tools)
