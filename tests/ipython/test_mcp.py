"""What `/mcp` shows of servers, and what it asks of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from jupyter_ctx.errors import PromptError, ToolError
from jupyter_ctx.ipython.commands import Host
from jupyter_ctx.ipython.mcp import MOST_LEFT_OUT, mcp, server_choices
from jupyter_ctx.store.trust import TrustFile
from jupyter_ctx.surroundings import Folder
from jupyter_ctx.tools.mcp import ServerReport


class Servers:
    """A host that has servers and a folder, and keeps which were to be reached again."""

    def __init__(self, *servers: ServerReport, folder: Folder | None = None) -> None:
        self.servers: Sequence[ServerReport] = servers
        self.folder = folder or Folder("/nowhere", "/nowhere", None, TrustFile(None, str))
        self.restarted: list[str] = []

    def restart_server(self, name: str) -> str:
        if name not in [server.name for server in self.servers]:
            raise ToolError(f"There is no MCP server {name!r}.")
        self.restarted.append(name)
        return f"The MCP server {name} is connected, with 1 tools."


def host(*servers: ServerReport) -> Host:
    return cast("Host", Servers(*servers))


GOOD = ServerReport(
    "good",
    "home's settings.json",
    "npx good",
    "connected",
    "",
    ("mcp__good__a", "mcp__good__b"),
    ("mcp__good__a",),
    ("c: it is listed twice",),
)
BAD = ServerReport(
    "bad|<b>", ".mcp.json", "x\x1b[2J\u202e", "failed", "it\nended <img src=x>", (), (), ()
)


def test_each_server_has_its_state_tools_and_faults() -> None:
    """State, tools, what is left out, what joins later, and why a server is not there are shown."""
    shown = mcp(host(BAD, GOOD), "")

    for said in ("good", "connected", "npx good", "home's settings.json", "mcp__good__b"):
        assert said in shown.text
    assert "not connected" in shown.text
    assert "c: it is listed twice" in shown.text
    assert "told of 1 tool more at the next compaction" in shown.text


def test_what_servers_say_is_shown_and_does_not_act() -> None:
    """Markup, control characters and what turns text around are spelled out or escaped."""
    shown = mcp(host(BAD), "")

    assert "<b>" not in shown.markdown
    assert "<img" not in shown.markdown
    for text in (shown.markdown, shown.text):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_without_servers_it_says_where_they_are_set() -> None:
    """Where there is none, the files that may name one are told."""
    assert "settings.json" in mcp(host(), "").text


def test_servers_that_wait_for_trust_are_named(tmp_path: Path) -> None:
    """What the project's `.mcp.json` names is told before it is trusted, on one line, not after."""
    names = ["theirs", "b\n<b>\u202e", *(f"more-{n}" for n in range(MOST_LEFT_OUT))]
    servers = {name: {"command": "x"} for name in names}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    folder = Folder(str(tmp_path), str(tmp_path), None, TrustFile(None, str))

    for found in ((), (GOOD,)):
        shown = mcp(cast("Host", Servers(*found, folder=folder)), "")
        line = shown.text.rstrip().splitlines()[-1]
        assert line.startswith("Waiting for /trust: theirs, b")
        assert line.endswith(" and 2 more.")
        assert "\u202e" not in shown.markdown
        assert "<b>" not in shown.markdown
    folder.trust(folder.offers())
    assert "Waiting" not in mcp(cast("Host", Servers(folder=folder)), "").text


def test_a_server_is_reached_again() -> None:
    """`restart NAME` reaches it and says how that came out; an unknown name is refused."""
    own = host(GOOD)

    assert "good is connected" in mcp(own, "restart good").text
    assert cast("Servers", own).restarted == ["good"]
    assert server_choices(own) == ["restart good"]
    with pytest.raises(PromptError, match="no MCP server 'other'"):
        mcp(own, "restart other")
    with pytest.raises(PromptError, match="restart NAME"):
        mcp(own, "anything else")
