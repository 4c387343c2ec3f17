"""The MCP servers of a session: reached together, their tools put beside the program's own.

Rule: what the model is told of tools is frozen with the first turn. A server that comes late, or
lists other tools, changes what can be called at once, and what is told at the next compaction.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.blocks import Json
from ..core.ports import ToolOutput, ToolSpec
from ..errors import ToolError
from .base import Tool, quote_names
from .mcp_entries import Entry
from .mcp_server import McpServer, State
from .mcp_specs import Offer, make_offer, server_prefix, sum_up

WAIT_S = 10.0
"""How long the first turn waits for servers, in seconds; those that take longer join later."""

LEAST_ROOM_CHARS, MOST_ROOM_CHARS = 2_000, 100_000
"""What all tools of servers may take of every prompt, in characters of JSON."""

ROOM_SHARE = 0.1
"""What they may take of the window; a token is taken to be three characters of JSON."""

_LOGGERS = ("client", "mcp")
"""The SDK's loggers; without a handler their warnings would land in the user's cells."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server as it is shown: what it is, how it stands, and the tools that are told of it.

    `target` is what is started or reached, as it was written. `why` says why it is not connected,
    `left_out` which tools are not told, a clause each. `told` are those in the frozen prompt.
    """

    name: str
    source: str
    target: str
    state: State
    why: str
    tools: tuple[str, ...]
    told: tuple[str, ...]
    left_out: tuple[str, ...]


class McpServers:
    """The servers of one session. All that awaits is for the loop of the turns.

    `load` returns the servers to use, asked once. `folder` is where child processes run, `environ`
    what variables are taken from. `join` is called with a name and tools, which take the place of
    those before under that name. `frozen` returns the names of the tools that the model was told;
    `window` the model's window in tokens, None: not known. `redact` takes the program's keys out.
    """

    def __init__(
        self,
        load: Callable[[], Sequence[Entry]],
        folder: str,
        environ: Mapping[str, str],
        join: Callable[[str, Iterable[Tool]], None],
        frozen: Callable[[], Sequence[str]] = lambda: (),
        window: Callable[[], int | None] = lambda: None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._load = load
        self._folder = folder
        self._environ = environ
        self._join = join
        self._frozen = frozen
        self._window = window
        self._redact = redact
        self._servers: dict[str, McpServer] = {}
        self._offers: dict[str, Offer] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._quiet: logging.NullHandler | None = None
        self._is_loaded = False
        self._is_closed = False

    # Connecting ---------------------------------------------------------------------------------

    async def connect(self) -> Sequence[str]:
        """Reach every server, all at once; return what the user should know, a sentence each.

        Waits WAIT_S at most: a server that takes longer goes on by itself. Raises nothing of its
        own.
        """
        self._prepare()
        on_the_way = ("waiting", "connecting")
        reached = [server for server in self._servers.values() if server.state in on_the_way]
        for server in reached:
            server.begin()
        if reached:
            waits = [asyncio.ensure_future(server.wait()) for server in reached]
            try:
                await asyncio.wait(waits, timeout=WAIT_S)
            finally:
                for wait in waits:
                    wait.cancel()
        for server in self._servers.values():
            if server.listed is None:
                self._stand_in(server)
        return [said for server in self._servers.values() if (said := self._say(server))]

    def _prepare(self) -> None:
        """Take in which servers there are."""
        if self._is_loaded or self._is_closed:
            return
        for entry in self._load():
            self._servers[entry.name] = self._make(entry)
        self._is_loaded = True
        self._hush()

    def _hush(self) -> None:
        """Keep what the SDK logs out of the user's cells."""
        if self._servers and self._quiet is None:
            self._quiet = logging.NullHandler()
            for name in _LOGGERS:
                logging.getLogger(name).addHandler(self._quiet)

    def _make(self, entry: Entry) -> McpServer:
        return McpServer(entry, self._folder, self._environ, self._changed, self._redact)

    def _changed(self, server: McpServer) -> None:
        """A server is connected, or lists other tools: what can be called is brought up to date."""
        share = self._room() // max(1, len(self._servers))
        offer = make_offer(server.name, server.listed or (), share)
        self._offers[server.name] = offer
        self._join(server.name, [_make_tool(server, spec, name) for spec, name in offer.tools])

    def _room(self) -> int:
        window = self._window()
        if window is None:
            return MOST_ROOM_CHARS
        return min(MOST_ROOM_CHARS, max(LEAST_ROOM_CHARS, int(3 * ROOM_SHARE * window)))

    def _stand_in(self, server: McpServer) -> None:
        """Let the tools of a server that is not there be called: it is reached by the call."""
        prefix = server_prefix(server.name)
        told = [name for name in self._frozen() if name.startswith(prefix)]
        if told and server.state != "off":
            self._join(server.name, [self._make_stand_in(server, name) for name in told])

    def _make_stand_in(self, server: McpServer, told: str) -> Tool:
        async def run(arguments: Json, cap_chars: int) -> ToolOutput:
            await server.reach()
            offer = self._offers.get(server.name, Offer())
            name = next((own for spec, own in offer.tools if spec.name == told), None)
            if name is None:
                raise ToolError(f"The MCP server {server.name} has no such tool any more.")
            return await server.call(name, arguments)

        schema: dict[str, object] = {"type": "object"}
        spec = ToolSpec(told, "", schema, reads_only=False, permission=f"use {told}")
        return Tool(spec, run, is_checked=False)

    def _say(self, server: McpServer) -> str:
        """Return what the user should know of a server after the first turn waited for it."""
        offer = self._offers.get(server.name, Offer())
        match server.state:
            case "failed":
                return f"The MCP server {server.name} is not connected: {server.fault}."
            case "connecting":
                return (
                    f"The MCP server {server.name} did not answer within {WAIT_S:g} s; its tools "
                    "join at the next compaction (/mcp shows them)."
                )
            case "connected" if offer.left_out:
                return (
                    f"Of the MCP server {server.name}, {len(offer.left_out):,} tools are left out: "
                    f"{sum_up(offer.left_out)}."
                )
            case _:
                return ""

    # Between ------------------------------------------------------------------------------------

    def report(self) -> Sequence[ServerReport]:
        """Return every server as it stands now, sorted by name; before the first turn as written.

        From any thread.
        """
        if not self._is_loaded:
            return [_report(self._make(entry), Offer(), ()) for entry in self._load()]
        told = self._frozen()
        return [
            _report(server, self._offers.get(server.name, Offer()), told)
            for server in self._servers.values()
        ]

    def read(self) -> Sequence[Entry] | None:
        """Return the servers that the files name now; None before the first turn. From any thread.

        Raises what `load` raises.
        """
        return tuple(self._load()) if self._is_loaded and not self._is_closed else None

    def use(self, entries: Sequence[Entry]) -> None:
        """Take in what `read` returned: one that is new is reached, one that is gone let go."""
        if not self._is_loaded or self._is_closed:
            return
        now = {entry.name: entry for entry in entries}
        for server in [s for name, s in self._servers.items() if now.get(name) != s.entry]:
            del self._servers[server.name]
            self._offers.pop(server.name, None)
            self._join(server.name, ())
            self._let_go(server)
        fresh = [self._make(entry) for name, entry in now.items() if name not in self._servers]
        found = {**self._servers, **{server.name: server for server in fresh}}
        self._servers = {name: found[name] for name in sorted(found)}
        self._hush()
        for server in fresh:
            server.begin()

    def _let_go(self, server: McpServer) -> None:
        task = asyncio.get_running_loop().create_task(server.close(), context=contextvars.Context())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def restart(self, name: str) -> str:
        """Let go of a server and reach it again; return how that came out, in a sentence.

        Raises ToolError if there is none of that name.
        """
        self._prepare()
        server = self._servers.get(name)
        if server is None:
            there = quote_names(sorted(self._servers)) or "none"
            raise ToolError(f"There is no MCP server {name[:40]!r}; there are: {there}.")
        await server.restart()
        if server.state == "connected":
            tools = len(self._offers.get(name, Offer()).tools)
            return f"The MCP server {name} is connected, with {tools:,} tools."
        return self._say(server) or f"The MCP server {name} is turned off."

    async def aclose(self) -> None:
        """Let go of every server at once; no process of theirs is left. May be called again."""
        self._is_closed = True
        closes = (server.close() for server in self._servers.values())
        await asyncio.gather(*closes, *self._closing)
        if self._quiet is not None:
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(self._quiet)
            self._quiet = None


def _make_tool(server: McpServer, spec: ToolSpec, name: str) -> Tool:
    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        return await server.call(name, arguments)

    return Tool(spec, run, is_checked=False)


def _report(server: McpServer, offer: Offer, told: Sequence[str]) -> ServerReport:
    prefix = server_prefix(server.name)
    return ServerReport(
        server.name,
        server.entry.source,
        server.entry.target,
        server.state,
        server.fault,
        tuple(spec.name for spec, _ in offer.tools),
        tuple(name for name in told if name.startswith(prefix)),
        offer.left_out,
    )
