"""A session that talks to a fake server through its real SDK, on a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from jupyter_ctx.config import Settings
from jupyter_ctx.core.absent import NoAgents, NoFiles, NoHooks, NoMemory, NoWorkspace
from jupyter_ctx.core.entries import Entry
from jupyter_ctx.core.events import CtxEvent
from jupyter_ctx.core.ports import (
    Agents,
    Files,
    Hooks,
    Memory,
    Model,
    Permissions,
    ToolRunner,
    Workspace,
)
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.models import make_model as make_named
from jupyter_ctx.models.counting import TiktokenCounter
from jupyter_ctx.models.facts import table_facts
from jupyter_ctx.session import Place, Ports, Session, SessionFile
from jupyter_ctx.testing import AllowAll, FakeClock, FakeKernel, FakeTools, MemoryStore
from tests.fake_anthropic import FakeAnthropic
from tests.fake_openai import FakeOpenAI

MODEL = "claude-sonnet-5-5"
COUNTER = TiktokenCounter()
PLACE = Place("test-session", None, "/home/user", "Linux", "2026-01-01", "0")


class LoopRunner:
    """Runs each turn on one loop that lives as long as the test."""

    def __init__(self) -> None:
        self.loop = asyncio.Runner()
        self._task: asyncio.Task[None] | None = None

    def run(
        self,
        start: Callable[[], AsyncIterator[CtxEvent]],
        on_event: Callable[[CtxEvent], None],
    ) -> None:
        """Drive the generator to its end."""

        async def drive() -> None:
            self._task = asyncio.current_task()
            async for event in start():
                on_event(event)

        self.loop.run(drive())

    def iterate(self, start: Callable[[], AsyncIterator[CtxEvent]]) -> AsyncIterator[CtxEvent]:
        """Return the generator itself."""
        return start()

    def cancel(self) -> None:
        """Cancel the running turn."""
        if self._task is not None:
            self._task.cancel()


@contextmanager
def talk(
    server: FakeAnthropic,
    *,
    tools: ToolRunner | None = None,
    kernel: FakeKernel | None = None,
    store: SessionFile | None = None,
    entries: Iterable[Entry] = (),
    place: Place = PLACE,
    model: str = MODEL,
    hooks: Hooks | None = None,
    memory: Memory | None = None,
    workspace: Workspace | None = None,
    agents: Agents | None = None,
    files: Files | None = None,
    permissions: Permissions | None = None,
    other: FakeAnthropic | None = None,
    environ: Mapping[str, str] | None = None,
    **values: object,
) -> Iterator[Session]:
    """Open a session with `server`; `values` are settings. `kernel` None: that of fake `tools`.

    With a FakeOpenAI it talks Chat Completions, to the server's own model unless it has `model`.
    `other` is a server of the other protocol, for a switch of the model; `environ` names servers
    in another way.
    """
    family = "OPENAI" if isinstance(server, FakeOpenAI) else "ANTHROPIC"
    if family == "OPENAI" and ":" not in model:
        model = f"openai:{model if model in server.models else next(iter(server.models))}"
    settings = Settings(model=model, **values)  # type: ignore[arg-type]  # checked by Settings
    named = {f"{family}_BASE_URL": server.url, f"{family}_API_KEY": "sk-ant-test-0123456789"}
    if other is not None:
        beside = "ANTHROPIC" if family == "OPENAI" else "OPENAI"
        named |= {f"{beside}_BASE_URL": other.url, f"{beside}_API_KEY": "sk-ant-test-0123456789"}
    redactor = Redactor({})

    def make_model(name: str) -> Model:
        return make_named(name, settings, named if environ is None else environ, redactor)

    kernel = kernel or (tools.kernel if isinstance(tools, FakeTools) else FakeKernel())
    runner = LoopRunner()
    ports = Ports(
        model=make_model(model),
        counter=COUNTER,
        tools=tools or FakeTools(kernel),
        store=store or MemoryStore(),
        clock=FakeClock(),
        kernel=kernel,
        permissions=permissions or AllowAll(),
        runner=runner,
        redactor=redactor,
        make_model=make_model,
        known_facts=lambda name: table_facts(name, settings),
        hooks=hooks or NoHooks(),
        memory=memory or NoMemory(),
        workspace=workspace or NoWorkspace(),
        agents=agents or NoAgents(),
        files=files or NoFiles(),
    )
    session = Session(entries, settings, place, ports)
    try:
        yield session
    finally:
        runner.loop.run(session.aclose())
        runner.loop.close()


def run(session: Session, text: str = "go") -> list[CtxEvent]:
    """Run one turn and return its events."""
    events: list[CtxEvent] = []
    session.ask(text, on_event=events.append)
    return events
