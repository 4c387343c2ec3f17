"""`/mcp`, and what puts a session's MCP servers together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import PromptError, ToolError
from . import reports, words
from .plaintext import on_one_line

if TYPE_CHECKING:
    from ..session import Session
    from ..surroundings import Folder
    from ..tools import Registry
    from ..tools.mcp import McpServers, ServerReport
    from ..tools.mcp_entries import Entry
    from .commands import Host, Shown

NONE_TEXT = (
    "No MCP server is set. They stand under mcpServers in settings.json of the agent's home, "
    "or in a trusted project's .mcp.json (/trust)."
)
STATES = {
    "off": "turned off",
    "waiting": "connects with the first turn",
    "connecting": "connecting",
    "connected": "connected",
    "failed": "not connected",
    "closed": "closed",
}
MOST_LEFT_OUT = 20
"""So many tools that are left out are named of each server, and servers that wait."""
MOST_NAME = 60


def make_servers(
    folder: Callable[[], Folder],
    root: str,
    tools: Registry,
    session: Callable[[], Session],
    redact: Callable[[str], str],
) -> McpServers:
    """Return the servers of a session; nothing is read before they are asked for.

    `folder` says which are trusted. Those of the project run in `root`, those of the home in the
    home: `npx` or `python -m` would take what they start from an untrusted project.
    """
    from ..tools.mcp import McpServers

    def load() -> Sequence[Entry]:
        from ..tools.mcp_entries import read_entries

        found = folder().extensions()["mcpServers"]
        home = {one.source: one.folder for one in found if one.is_own}
        return read_entries(((one.source, one.value) for one in found), home)

    def frozen() -> Sequence[str]:
        prefix = session().transcript.prefix
        return [] if prefix is None else [str(tool.get("name")) for tool in prefix.tools]

    def window() -> int | None:
        return session().facts.window_tokens

    return McpServers(load, root, os.environ, tools.join, frozen, window, redact)


def mcp(host: Host, argument: str) -> Shown:
    """Show the servers, or reach one again: `/mcp restart NAME`."""
    from .commands import Shown

    act, *rest = argument.split(maxsplit=1) or [""]
    if act == "restart" and rest:
        try:
            said = host.restart_server(rest[0].strip())
        except ToolError as error:
            raise PromptError(str(error)) from error
        return Shown(*reports.join(said, _joins(host.servers)))
    if act:
        raise PromptError(f"/mcp takes nothing or restart NAME, not {argument[:40]!r}.")
    found = host.servers
    waiting = _waiting(host.folder)
    if not found:
        return Shown(*reports.join(waiting or NONE_TEXT))
    return Shown(*reports.join(_table(found), *map(_details, found), _joins(found), waiting))


def server_choices(host: Host) -> Sequence[str]:
    """Return what the argument of `/mcp` may become."""
    return [f"restart {server.name}" for server in host.servers]


def _waiting(folder: Folder) -> str:
    """Return which servers the project names that are not in force, "" if none."""
    files = [one for one in folder.extensions(untrusted=True)["mcpServers"] if not one.is_trusted]
    names = [name for one in files if isinstance(one.value, Mapping) for name in one.value]
    if not names:
        return ""
    listed = ", ".join(on_one_line(str(name))[:MOST_NAME] for name in names[:MOST_LEFT_OUT])
    more = f" and {len(names) - MOST_LEFT_OUT:,} more" if len(names) > MOST_LEFT_OUT else ""
    return f"Waiting for /trust: {listed}{more}."


def _table(found: Sequence[ServerReport]) -> reports.Report:
    rows = [
        (
            on_one_line(server.name),
            STATES[server.state],
            on_one_line(server.target),
            on_one_line(server.source),
            f"{len(server.tools):,}",
        )
        for server in found
    ]
    return reports.table(("Server", "State", "Starts or reaches", "From", "Tools"), rows, 4)


def _details(server: ServerReport) -> str:
    """Return the tools of a server, why it is not there, and what is left out."""
    lines = []
    if server.state == "failed":
        lines.append(f"{server.name}: {on_one_line(server.why)}.")
    if server.tools:
        lines.append(f"{server.name}: {', '.join(server.tools)}")
    if server.left_out:
        listed = "; ".join(map(on_one_line, server.left_out[:MOST_LEFT_OUT]))
        more = len(server.left_out) - MOST_LEFT_OUT
        rest = f"; … and {more:,} more" if more > 0 else ""
        lines.append(f"Left out of {server.name}: {listed}{rest}")
    return "\n".join(lines)


def _joins(found: Sequence[ServerReport]) -> str:
    """Return which tools the model is not told of yet, "" if none."""
    if not any(server.told or server.state == "connected" for server in found):
        return ""
    late = sum(len(set(server.tools) - set(server.told)) for server in found)
    if not late:
        return ""
    return f"The model is told of {words.count(late, 'tool')} more at the next compaction."
