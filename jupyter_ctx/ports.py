"""What a session is made of: its ports, the place where it begins, and who drives it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .core.absent import NoAgents, NoFiles, NoHooks, NoMemory, NoNotebook, NoUpdates, NoWorkspace
from .core.events import CtxEvent
from .core.ports import (
    Agents,
    Clock,
    Counter,
    Files,
    Hooks,
    Kernel,
    Memory,
    Model,
    ModelFacts,
    Notebook,
    Permissions,
    Start,
    ToolRunner,
    Updates,
    Workspace,
)
from .core.redact import Redactor
from .export.source import Exporter
from .results import SessionFile


class Runner(Protocol):
    """Drives a generator of events on the background loop, for a caller on another thread."""

    def run(
        self,
        start: Callable[[], AsyncIterator[CtxEvent]],
        on_event: Callable[[CtxEvent], None],
    ) -> None:
        """Drive it to its end; `on_event` and the kernel's calls run on the calling thread.

        A KeyboardInterrupt cancels the generator, which then ends by itself; returns normally.
        """
        ...

    def iterate(self, start: Callable[[], AsyncIterator[CtxEvent]]) -> AsyncIterator[CtxEvent]:
        """The same for a thread that awaits; its own loop stays responsive."""
        ...

    def cancel(self) -> None:
        """Cancel what is being driven, from any thread; nothing if nothing is."""
        ...


async def _nothing_waits() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything a session needs of the world. `make_model` is for `/model NAME`.

    `keep_facts` hears what a provider told of a model, for other sessions of this kernel.
    `finish_turn` does what had to wait for a turn's end and returns sentences for the user.
    With `start`, system prompt and tools are frozen with the first turn, after it was asked;
    without it, at once. `closers` are awaited when the session is closed.
    """

    model: Model
    counter: Counter
    tools: ToolRunner
    store: SessionFile
    clock: Clock
    kernel: Kernel
    permissions: Permissions
    runner: Runner
    redactor: Redactor
    make_model: Callable[[str], Model]
    known_facts: Callable[[str], ModelFacts]
    keep_facts: Callable[[ModelFacts], None] = lambda facts: None
    hooks: Hooks = field(default_factory=NoHooks)
    memory: Memory = field(default_factory=NoMemory)
    workspace: Workspace = field(default_factory=NoWorkspace)
    updates: Updates = field(default_factory=NoUpdates)
    finish_turn: Callable[[], Awaitable[Sequence[str]]] = _nothing_waits
    notebook: Notebook = field(default_factory=NoNotebook)
    files: Files = field(default_factory=NoFiles)
    start: Start | None = None
    exporter: Exporter | None = None
    closers: Sequence[Callable[[], Awaitable[None]]] = ()
    agents: Agents = field(default_factory=NoAgents)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session begins: its id, notebook and folder, and what the system prompt says."""

    session_id: str
    notebook: str | None
    cwd: str
    platform: str
    date: str
    version: str
