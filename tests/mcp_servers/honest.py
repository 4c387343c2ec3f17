"""A server on the SDK's server side: `python -m tests.mcp_servers.honest [PORT]`.

Over stdio without a port, else over HTTP on loopback.
"""

from __future__ import annotations

import base64
import os
import sys
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tests.pictures import png

server = MCPServer("honest")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def show_environment() -> dict[str, Any]:
    """Return the environment and the folder of this process."""
    return {"environ": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}


@server.tool()
def draw() -> Image:
    """Return a picture."""
    return Image(data=base64.b64decode(png(8, 8).data), format="png")


@server.tool(structured_output=False)
def bring_all() -> list[Any]:
    """Return one of each kind of block."""
    text = TextResourceContents(uri="memo:///one", text="the memo")
    blob = BlobResourceContents(uri="memo:///two", mime_type="application/pdf", blob="JVBERi0x")
    return [
        TextContent(type="text", text="a text"),
        AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
        ResourceLink(type="resource_link", name="linked", uri="memo:///three"),
        EmbeddedResource(type="resource", resource=text),
        EmbeddedResource(type="resource", resource=blob),
    ]


@server.tool()
def fail() -> str:
    """Raise."""
    raise ValueError("it went wrong")


@server.tool()
def write_much(lines: int) -> str:
    """Return many lines."""
    return "\n".join(f"line {n}" for n in range(lines))


@server.tool()
def die() -> str:
    """End the process in the middle of the call."""
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
