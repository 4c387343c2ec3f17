"""An MCP server over HTTP: the SDK's transport on a client of ours, with bounds. Loaded with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from .mcp_entries import Entry
from .mcp_watch import MOST_MESSAGE_BYTES, Watch

CONNECT_S = 10.0
"""How long a connection may take to be made, and a request to be written, in seconds."""


@asynccontextmanager
async def open_http(entry: Entry, watch: Watch) -> AsyncIterator[TransportStreams]:
    """Yield the streams of the server's messages. Cookies and credentials of others are not sent.

    A server is found not to answer by whoever waits for its answer.
    """

    async def bound(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            watch.hear(f"HTTP {response.status_code} {response.reason_phrase}\n".encode())
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream") and response.stream is not None:
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # of an async client
            response.stream = _Bounded(response.stream, watch)

    client = httpx2.AsyncClient(
        headers=dict(entry.headers),
        timeout=httpx2.Timeout(CONNECT_S, read=None),
        event_hooks={"response": [bound]},
        follow_redirects=False,
    )
    async with (
        client,
        streamable_http_client(
            entry.url, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams[0], streams[1]


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error where it gets too long."""

    def __init__(self, inner: httpx2.AsyncByteStream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > MOST_MESSAGE_BYTES:
                most = f"{MOST_MESSAGE_BYTES // 2**20} MB"
                self._watch.end(f"it sent an answer of more than {most}")
                raise httpx2.ReadError(f"more than {most}")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
