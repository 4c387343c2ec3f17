"""One MCP server of a session: reached, asked, lost, reached again, let go.

Everything of a connection is entered and left in one task of its own, which outlives the turn that
began it. Calls are tasks too: a turn that is stopped leaves its call behind and never waits for it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..core.blocks import Json
from ..core.ports import ToolOutput
from ..errors import ToolError
from .mcp_entries import FOLDER_VARIABLES, Entry, expand
from .mcp_specs import Listed
from .mcp_watch import Watch
from .mcp_words import clip_words

if TYPE_CHECKING:
    from .mcp_client import Client

State: TypeAlias = Literal["off", "waiting", "connecting", "connected", "failed", "closed"]

CONNECT_S = 60.0
"""How long a server may take to answer and to list its tools, in seconds; `npx` may fetch first."""

MOST_RESTARTS = 3
"""So often in a row a server is reached again by itself without answering a call."""

CLOSE_S = 1.8
"""How long letting go of a server may take, in seconds; then its task is ended."""

WHY_CHARS = 400
"""Longest reason that is told, in characters."""


class McpServer:
    """One server. All methods are for the loop of the turns; attributes may be read anywhere.

    `folder` is the project's; a child process runs there unless its entry says another. `changed`
    is called when it is connected or lists other tools; `redact` takes the program's keys out of
    what is told. `listed` are its tools as it last listed them, None: it never did.
    """

    def __init__(
        self,
        entry: Entry,
        folder: str,
        environ: Mapping[str, str],
        changed: Callable[[McpServer], None],
        redact: Callable[[str], str],
    ) -> None:
        self.entry = entry
        self._state: State = "off" if entry.is_off else "failed" if entry.fault else "waiting"
        self._fault = entry.fault
        self.listed: tuple[Listed, ...] | None = None
        self.restarts = 0
        self._folder = folder
        self._environ = environ
        self._changed = changed
        self._redact = redact
        self._watch = Watch()
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._calls: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        """Its name in the files."""
        return self.entry.name

    @property
    def state(self) -> State:
        """How it stands; one that was just lost is not connected any more."""
        is_lost = self._state == "connected" and self._watch.ended.is_set()
        return "failed" if is_lost else self._state

    @property
    def fault(self) -> str:
        """Why it is not connected, in a clause; "" if it is, or was never to be."""
        return self._fault or (self._watch.reason if self.state == "failed" else "")

    # Reaching it --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to reach it, unless it is reached, being reached, or not to be."""
        if self._state in ("off", "connecting", "connected", "closed") or self.entry.fault:
            return
        self._state, self._fault = "connecting", ""
        self._watch, self._settled = Watch(), asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(
            self._live(self._watch, self._settled),
            name=f"jupyter_ctx mcp {self.name}",
            context=contextvars.Context(),  # it is no part of the turn that began it
        )

    async def wait(self) -> None:
        """Wait until it is connected or failed."""
        if self._state == "connecting":
            await self._settled.wait()

    async def _live(self, watch: Watch, settled: asyncio.Event) -> None:
        """Hold one connection from its beginning to its end."""
        why = ""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    client = await self._enter(stack, watch)
                    self.listed = await client.list_tools()
                self._client, self._state = client, "connected"
                self._changed(self)
                settled.set()
                await self._stay(client, watch)
        except TimeoutError:
            why = f"it did not answer within {CONNECT_S:g} s"
        except Exception as error:  # the SDK's, the child's, the network's: all end this connection
            why = describe(error)
        finally:
            self._client = None
            if self._state != "closed":
                self._state = "failed"
                self._fault = self._tell(watch.reason or why or "the connection was closed")
            watch.end(self._fault)
            settled.set()

    async def _enter(self, stack: AsyncExitStack, watch: Watch) -> Client:
        own = dict.fromkeys(FOLDER_VARIABLES, self._folder)
        entry = expand(self.entry, {**self._environ, **own})
        try:
            await asyncio.to_thread(_load)
        except ImportError as error:
            raise ToolError(MISSING_TEXT) from error
        from .mcp_client import open_client

        opened = open_client(entry, entry.folder or self._folder, self._environ, watch)
        return await stack.enter_async_context(opened)

    async def _stay(self, client: Client, watch: Watch) -> None:
        """Stay connected until the connection is over; list the tools anew when it says so."""
        while not watch.ended.is_set():
            over = asyncio.ensure_future(watch.ended.wait())
            news = asyncio.ensure_future(client.relist.wait())
            try:
                await asyncio.wait({over, news}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
                news.cancel()
            if client.relist.is_set() and not watch.ended.is_set():
                client.relist.clear()
                async with asyncio.timeout(CONNECT_S):
                    self.listed = await client.list_tools()
                self._changed(self)

    def _tell(self, why: str) -> str:
        said = self._watch.said
        text = f"{why}. It said: {said}" if said else why
        return clip_words(self._redact(text), WHY_CHARS)

    # Calling ------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: Json) -> ToolOutput:
        """Call the tool that the server knows as `name`; a lost server is reached again first.

        Raises ToolError: it cannot be reached, was lost meanwhile, or did not answer in time. What
        it then did nobody knows, so no call is made twice.
        """
        client = await self.reach()
        if self.listed is not None and all(tool.name != name for tool in self.listed):
            raise ToolError(f"The MCP server {self.name} has no such tool any more.")
        watch = self._watch
        watch.begin_call()
        task = asyncio.get_running_loop().create_task(
            client.call_tool(name, arguments), context=contextvars.Context()
        )
        self._keep(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=self.entry.call_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            watch.end(f"it did not answer a call within {self.entry.call_s:g} s")
            raise ToolError(self._lost(watch.reason))
        return await self._result(task, watch)

    async def _result(self, task: asyncio.Task[ToolOutput], watch: Watch) -> ToolOutput:
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self.restarts = 0
            return task.result()
        if isinstance(error, ToolError):
            self.restarts = 0  # it answered, with an error of its own
            raise error
        if not watch.ended.is_set():
            watch.end(describe(error) if error is not None else "the connection was closed")
        raise ToolError(self._lost(watch.reason))

    def _lost(self, why: str) -> str:
        again = "The next call reaches it again." if self.restarts < MOST_RESTARTS else ""
        return (
            f"The MCP server {self.name} was lost during the call: {self._tell(why)}. "
            f"Whether the call had effects is not known. {again}"
        ).strip()

    async def reach(self) -> Client:
        """Return the connection; one that was lost is made again, a few times in a row."""
        if self._watch.ended.is_set() and self._task is not None:
            await asyncio.wait({self._task})  # what it leaves is gone first
        if self._state == "failed" and not self.entry.fault:
            if self.restarts >= MOST_RESTARTS:
                raise ToolError(
                    f"The MCP server {self.name} is not reached any more: it was lost "
                    f"{MOST_RESTARTS} times in a row ({self._fault}). The user can reach it again "
                    f"by /mcp restart {self.name}"
                )
            self.restarts += 1
            self.begin()
        await self.wait()
        if self._client is None:
            why = "it is turned off" if self._state == "off" else self._fault or "it is closed"
            raise ToolError(f"The MCP server {self.name} cannot be reached: {why}")
        return self._client

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a call until it is over, whoever still waits for it, and take its error."""
        self._calls.add(task)

        def forget(done: asyncio.Task[Any]) -> None:
            self._calls.discard(done)
            if not done.cancelled():
                done.exception()

        task.add_done_callback(forget)

    # Letting go ---------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Let go of it and reach it again; waits until that came out."""
        await self._let_go()
        self._state = "off" if self.entry.is_off else "failed" if self.entry.fault else "waiting"
        self.restarts = 0
        self.begin()
        await self.wait()

    async def close(self) -> None:
        """Let go of it for good; no process of it is left."""
        self._state = "closed"
        await self._let_go()
        self._state = "closed"

    async def _let_go(self) -> None:
        task, self._task = self._task, None
        if task is None or task.done():
            return
        self._watch.end("it was let go")
        if self._client is None:  # still on the way
            task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_S)


MISSING_TEXT = "the package `mcp` is not installed; type: pip install mcp"


def _load() -> None:
    """Import the SDK, which takes seconds: on a thread, so that the loop goes on."""
    from . import mcp_client  # noqa: F401


def describe(error: BaseException) -> str:
    """Return why something failed, in a clause; of a group the first error that it holds."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, ToolError):
        return str(error)
    return clip_words(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 200
    )
