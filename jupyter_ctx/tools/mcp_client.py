"""The SDK's client over one connection, in this package's values. The only user of its session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp.client.client as sdk
from mcp import types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from .._version import __version__
from ..core.blocks import Json
from ..core.ports import ToolOutput
from ..errors import ToolError
from .mcp_entries import Entry
from .mcp_http import open_http
from .mcp_results import make_output
from .mcp_specs import Listed
from .mcp_stdio import open_stdio
from .mcp_watch import Watch
from .mcp_words import clip_words

MOST_PAGES, MOST_LISTED = 100, 2_000
MOST_LISTED_CHARS = 6_000_000
"""So many pages, tools and characters of a server's list are read; what comes behind is not."""

LOST = (
    (types.CONNECTION_CLOSED, "Connection closed"),
    (types.CONNECTION_CLOSED, "SSE stream ended without a response"),
    (types.INVALID_REQUEST, "Session terminated"),
)
"""What the SDK makes of a lost connection; servers use the same codes for errors of their own."""

ERROR_CHARS = 2_000
"""Longest error of a server that is told, in characters."""

_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class Client:
    """A connected server. `relist` is set when it says that its tools are others now."""

    def __init__(self, client: sdk.Client, relist: asyncio.Event) -> None:
        self._client = client
        self.relist = relist

    async def list_tools(self) -> tuple[Listed, ...]:
        """Return its tools, as many as are read. Raises what the SDK raises."""
        if self._client.server_capabilities.tools is None:
            return ()
        found: list[Listed] = []
        chars = 0
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await self._client.session.list_tools(params=params)
            for one in page.tools[: MOST_LISTED - len(found)]:
                listed = Listed(one.name, one.description or "", one.input_schema)
                chars += len(one.name) + len(listed.description) + len(json.dumps(one.input_schema))
                if chars > MOST_LISTED_CHARS:
                    return tuple(found)
                found.append(listed)
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_LISTED:
                break
        return tuple(found)

    async def call_tool(self, name: str, arguments: Json) -> ToolOutput:
        """Call a tool. Raises ToolError if the server answers with an error of the protocol.

        Its result is not held against the schema it gave: that is the server's own affair.
        """
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        try:
            answer = await self._client.session.send_request(request, _ANSWER)
        except MCPError as error:
            if (error.code, error.message) in LOST:
                raise
            said = clip_words(error.message, ERROR_CHARS)
            raise ToolError(f"The server answered with an error: {said}") from error
        if isinstance(answer, types.InputRequiredResult):
            raise ToolError("The server asks the user for input, which is not supported.")
        return await asyncio.to_thread(make_output, answer)


@asynccontextmanager
async def open_client(
    entry: Entry, folder: str, environ: Mapping[str, str], watch: Watch
) -> AsyncIterator[Client]:
    """Connect to the server and yield its client. Raises ToolError, or what the SDK raises."""
    relist = asyncio.Event()

    async def hear(message: Any) -> None:
        watch.count()
        if isinstance(message, types.ToolListChangedNotification):
            relist.set()

    streams = open_http(entry, watch) if entry.url else open_stdio(entry, folder, environ, watch)
    client = sdk.Client(
        streams,
        message_handler=hear,
        client_info=types.Implementation(name="jupyter-ctx", version=__version__),
        cache=None,
    )
    async with client:
        yield Client(client, relist)
