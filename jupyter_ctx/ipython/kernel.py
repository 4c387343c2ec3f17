"""The user's kernel, as the core asks for it (core.ports.Kernel)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeVar

from IPython.core.interactiveshell import InteractiveShell

from ..config import Settings
from ..core.ports import Cell, Execution, Variable
from ..core.redact import Redactor
from .capture import run_nested
from .inventory import list_variables, mark_names
from .live import Sink
from .nested import NestedLoop
from .recorder import CellRecorder
from .spool import Spool
from .watched import NameMark

T = TypeVar("T")


class MainCaller(Protocol):
    """Brings a call to the kernel's main thread."""

    async def call(self, fn: Callable[[], T], /) -> T:
        """Return what `fn()` returns there; raises what it raises."""
        ...


class RunWatcher(Protocol):
    """Is told when the agent's code runs; on the main thread."""

    def before_run(self) -> None:
        """It is about to run."""
        ...

    def after_run(self) -> None:
        """It has run, however it ended."""
        ...


class IPythonKernel:
    """A kernel over one InteractiveShell, in ipykernel or in a terminal.

    `watcher`, where one is set, is told of the agent's runs. `caller` brings calls to the main
    thread. `make_sink` is called there for each run and returns
    where its output is shown; `make_spool` where a long text goes. Close it when done.
    """

    watcher: RunWatcher | None = None

    def __init__(
        self,
        shell: InteractiveShell,
        caller: MainCaller,
        recorder: CellRecorder,
        settings: Settings,
        redactor: Redactor,
        make_spool: Callable[[], Spool],
        make_sink: Callable[[], Sink],
    ) -> None:
        self._shell = shell
        self._caller = caller
        self._recorder = recorder
        self._settings = settings
        self._redactor = redactor
        self._make_spool = make_spool
        self._make_sink = make_sink
        self._loop = NestedLoop()

    def use(self, settings: Settings) -> None:
        """Bring settings into force for what runs from now on."""
        self._settings = settings

    async def run_code(self, code: str) -> Execution:
        """Run `code` as scratch: In, Out, `_` and the execution count stay as they were."""
        return await self._caller.call(lambda: self._run(code))

    async def on_main(self, look: Callable[[Mapping[str, object]], T]) -> T:
        """Call `look` with the user's namespace, read-only, on the main thread."""
        return await self._caller.call(lambda: look(MappingProxyType(self._shell.user_ns)))

    async def load_variables(self) -> Sequence[Variable]:
        """Return the user's live names, sorted by name; calls nothing that could compute.

        Left out are names that begin with `_` and what IPython put there. `cell` is the cell that
        bound the name, as far as CellRecorder.bound_in knows.
        """
        shell, bound_in = self._shell, self._recorder.bound_in
        return await self._caller.call(
            lambda: list_variables(shell.user_ns, shell.user_ns_hidden, bound_in)
        )

    def look_at_names(self) -> tuple[dict[str, NameMark], int]:
        """Return what each of the user's names is, and how many more there are; main thread."""
        shell = self._shell
        return mark_names(shell.user_ns, shell.user_ns_hidden, self._recorder.bound_in)

    async def load_cells(self) -> Sequence[Cell]:
        """Return the executed cells, oldest execution first; one per cell id (its newest)."""
        return await self._caller.call(self._recorder.cells)

    def close(self) -> None:
        """Close the loop that top-level `await` left behind; on the main thread."""
        self._loop.close()

    def _run(self, code: str) -> Execution:
        if self.watcher is not None:
            self.watcher.before_run()
        try:
            return self._run_nested(code)
        finally:
            self._recorder.mark_bindings()
            if self.watcher is not None:
                self.watcher.after_run()

    def _run_nested(self, code: str) -> Execution:
        with self._recorder.paused():
            return run_nested(
                self._shell,
                code,
                sink=self._make_sink(),
                redactor=self._redactor,
                settings=self._settings,
                make_spool=self._make_spool,
                loop=self._loop,
            )
