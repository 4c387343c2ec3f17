"""The tools of a session: finds the tool of a call, checks its input, runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from ..config import Settings
from ..core.absent import NoNotebook
from ..core.blocks import ToolUse
from ..core.ports import Kernel, Notebook, ToolOutput, ToolSpec
from ..errors import ConfigError, ToolError
from .arguments import check_arguments
from .base import Tool, find_near, quote_names
from .cells import CellTools
from .files import FileTools
from .inspect import make_inspect
from .notebook import make_list_cells, make_read_cell
from .python import make_run_code
from .results import ResultReader, make_read_result
from .seen import Seen

LEAST_CAP_CHARS = 500
"""A tool that bounds itself may always return this much: a line and where to go on."""


class Registry:
    """A ToolRunner over a fixed set of tools."""

    def __init__(
        self, tools: Iterable[Tool], finish: Callable[[], Awaitable[Sequence[str]]] | None = None
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._finish = finish

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def use(self, settings: Settings) -> None:
        """Bring into force how long results may be. What the model is told of tools stays.

        Raises ConfigError when the setting `max_result_chars` names no tool.
        """
        caps = settings.max_result_chars
        for name in caps:
            if name not in self._tools:
                near = quote_names(find_near(name, sorted(self._tools)))
                raise ConfigError(
                    f"Setting max_result_chars names no tool {name!r}. Nearest: {near}.",
                    name="max_result_chars",
                )
        for name, tool in self._tools.items():
            spec = replace(tool.spec, max_result_chars=caps.get(name, settings.max_chars))
            self._tools[name] = replace(tool, spec=spec)

    async def finish_turn(self) -> Sequence[str]:
        """Do what had to wait for the turn's end; return what failed, in sentences for the user."""
        return () if self._finish is None else await self._finish()

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


def make_tools(
    kernel: Kernel,
    results: ResultReader,
    settings: Settings,
    *,
    notebook: Notebook | None = None,
    seen: Seen | None = None,
    files: FileTools | None = None,
) -> Registry:
    """Return the tools over a kernel, its notebook (None: there is none) and stored texts.

    `seen` keeps what the model saw of cells; None: a record of its own. `files` are the tools over
    the project's files; None: there is no project.

    Raises ConfigError when the setting `max_result_chars` names no tool.
    """
    cells = CellTools(kernel, notebook or NoNotebook(), seen or Seen())
    registry = Registry(
        [
            *cells.tools,
            *(files.make() if files is not None else ()),
            make_inspect(kernel),
            make_list_cells(kernel, notebook),
            make_read_cell(kernel, notebook, cells.seen),
            make_read_result(results),
            make_run_code(kernel),
        ],
        cells.finish,
    )
    registry.use(settings)
    return registry
