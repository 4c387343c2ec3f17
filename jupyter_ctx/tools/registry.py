"""The tools of a session: finds the tool of a call, checks its input, runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..config import Settings
from ..core.absent import NoMemory, NoNotebook
from ..core.blocks import ToolUse
from ..core.ports import Kernel, Memory, Notebook, ToolOutput, ToolSpec
from ..errors import ConfigError, ToolError
from .arguments import check_arguments, check_object
from .base import Tool, find_near, quote_names
from .cells import CellTools
from .files import FileTools
from .inspect import make_inspect
from .notebook import make_list_cells, make_read_cell
from .plan import make_update_plan
from .python import make_run_code
from .remember import make_remember
from .results import ResultReader, make_read_result
from .seen import Seen
from .skills import Loadable, make_skill
from .task import make_task

MCP_PREFIX = "mcp__"
"""What the names of the tools of MCP servers begin with."""

LEAST_CAP_CHARS = 500
"""A tool that bounds itself may always return this much: a line and where to go on."""


class Registry:
    """A ToolRunner over the program's own tools, and those that others bring and take away."""

    def __init__(
        self, tools: Iterable[Tool], finish: Callable[[], Awaitable[Sequence[str]]] | None = None
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._finish = finish
        self._sources: dict[str, str] = {}
        self._settings: Settings | None = None

    @property
    def sources(self) -> Mapping[str, str]:
        """Who brought each tool that is not the program's own, by the tool's name."""
        return dict(self._sources)

    def join(self, source: str, tools: Iterable[Tool]) -> None:
        """Let the tools of `source` (the name of an MCP server) take the place of those before.

        The model is told of them when its prompt is frozen anew. One named as a tool of another
        source is passed over.
        """
        gone = [name for name, owner in self._sources.items() if owner == source]
        kept = {name: tool for name, tool in self._tools.items() if name not in gone}
        owners = {name: owner for name, owner in self._sources.items() if owner != source}
        for tool in tools:
            if tool.spec.name not in kept:
                kept[tool.spec.name] = self._capped(tool)
                owners[tool.spec.name] = source
        self._tools, self._sources = kept, owners

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def use(self, settings: Settings) -> None:
        """Bring into force how long results may be. What the model is told of tools stays.

        Raises ConfigError when the setting `max_result_chars` names no tool; one of an MCP server
        may not be there yet.
        """
        caps = settings.max_result_chars
        for name in caps:
            if name not in self._tools and not name.startswith(MCP_PREFIX):
                near = quote_names(find_near(name, sorted(self._tools)))
                raise ConfigError(
                    f"Setting max_result_chars names no tool {name!r}. Nearest: {near}.",
                    name="max_result_chars",
                )
        self._settings = settings
        self._tools = {name: self._capped(tool) for name, tool in self._tools.items()}

    def _capped(self, tool: Tool) -> Tool:
        settings = self._settings
        if settings is None:
            return tool
        cap = settings.max_result_chars.get(tool.spec.name, settings.max_chars)
        return replace(tool, spec=replace(tool.spec, max_result_chars=cap))

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
        check = check_arguments if tool.is_checked else check_object
        arguments = check(tool.spec, use.input)
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
    memory: Memory | None = None,
    skills: Callable[[], Sequence[Loadable]] = tuple,
) -> Registry:
    """Return the tools over a kernel, its notebook (None: there is none) and stored texts.

    `seen` keeps what the model saw of cells; None: a record of its own. `files` are the tools over
    the project's files; None: there is no project. `memory` keeps facts; None: nothing does.
    `skills` gives the skills in force when one is asked for.

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
            make_remember(memory or NoMemory()),
            make_run_code(kernel),
            make_skill(skills),
            make_task(),
            make_update_plan(),
        ],
        cells.finish,
    )
    registry.use(settings)
    return registry
