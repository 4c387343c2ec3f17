"""MCP servers, real ones over stdio and HTTP: reached, called, lost, let go; and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.errors import ToolError
from jupyter_ctx.tools import mcp_server
from jupyter_ctx.tools import mcp as mcp_tools
from jupyter_ctx.tools.base import Tool
from jupyter_ctx.tools.mcp import McpServers, ServerReport
from jupyter_ctx.tools.mcp_entries import read_entries
from jupyter_ctx.tools.mcp_specs import DESCRIPTION_CHARS, MOST_TOOLS

ROOT = Path(__file__).parents[2]
HOSTILE = str(ROOT / "tests" / "mcp_servers" / "hostile.py")
HONEST = {
    "command": sys.executable,
    "args": ["-m", "tests.mcp_servers.honest"],
    "env": {"PYTHONPATH": str(ROOT)},
}
KEY = "sk-ant-0123456789abcdef"


def hostile(mode: str, **more: object) -> dict[str, object]:
    return {"command": sys.executable, "args": [HOSTILE, mode], **more}


class Session:
    """What a session has of its servers: their tools by name, and what was said at the start."""

    def __init__(self, servers: McpServers, tools: dict[str, Tool], said: Iterable[str]) -> None:
        self.servers = servers
        self.tools = tools
        self.said = list(said)

    async def call(self, name: str, **arguments: object) -> ToolOutput:
        return await self.tools[f"mcp__{name}"].run(arguments, 1_000)

    @property
    def report(self) -> ServerReport:
        (one,) = self.servers.report()
        return one


@asynccontextmanager
async def session(
    named: Mapping[str, object],
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    frozen: Callable[[], list[str]] = list,
    window: int | None = None,
) -> AsyncIterator[Session]:
    """Give connected servers; at the end none of their processes and tasks is left."""
    tools: dict[str, Tool] = {}
    owners: dict[str, list[str]] = {}

    def join(source: str, new: Iterable[Tool]) -> None:
        for name in owners.pop(source, []):
            del tools[name]
        made = {tool.spec.name: tool for tool in new}
        owners[source] = list(made)
        tools.update(made)

    servers = McpServers(
        lambda: read_entries([("settings", named)]),
        str(folder),
        os.environ if environ is None else environ,
        join,
        frozen,
        lambda: window,
        lambda text: text.replace(KEY, "[redacted]"),
    )
    before = asyncio.all_tasks()
    try:
        yield Session(servers, tools, await servers.connect())
    finally:
        await servers.aclose()
        assert asyncio.all_tasks() <= before


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


# An honest server ---------------------------------------------------------------------------------


async def test_tools_of_a_server_are_called_as_any(tmp_path: Path) -> None:
    """Its tools have the server's name in theirs, ask first, and bring texts, pictures, errors."""
    async with session({"honest": HONEST}, tmp_path) as own:
        assert own.said == []
        assert (await own.call("honest__add", a=1, b=2)).text == "3\n"
        spec = own.tools["mcp__honest__add"].spec
        assert not spec.reads_only
        assert spec.permission == "use mcp__honest__add"
        assert spec.description == 'A tool of the MCP server "honest". Add two numbers.'
        drawn = await own.call("honest__draw")
        assert [image.media_type for image in drawn.images] == ["image/png"]
        assert [output["output_type"] for output in drawn.outputs] == ["display_data"]
        failed = await own.call("honest__fail")
        assert failed.is_error
        assert "Error" in str(failed.text)
        brought = str((await own.call("honest__bring_all")).text)
        for part in ("a text", "[audio/wav, ", "linked", "the memo", "[application/pdf, "):
            assert part in brought


async def test_a_child_gets_no_key_and_what_its_entry_says(
    tmp_path: Path,
) -> None:
    """A child has a few plain variables and those of its entry; variables are put in there."""
    environ = {**os.environ, "ANTHROPIC_API_KEY": KEY, "OTHER_SECRET": "x" * 20, "TOKEN": "t-1"}
    entry = {**HONEST, "env": {**HONEST["env"], "OWN": "${TOKEN}-${NONE:-else}"}}  # type: ignore[dict-item]
    async with session({"honest": entry}, tmp_path, environ=environ) as own:
        told = json.loads(str((await own.call("honest__show_environment")).text))
    assert told["cwd"] == str(tmp_path.resolve())
    assert told["environ"]["OWN"] == "t-1-else"
    assert "PATH" in told["environ"]
    assert not told["environ"].keys() & {"ANTHROPIC_API_KEY", "OTHER_SECRET", "TOKEN"}


async def test_a_server_that_died_is_reached_by_the_next_call(tmp_path: Path) -> None:
    """The call in which a server dies is an error and made once; the next one is answered."""
    async with session({"honest": HONEST}, tmp_path) as own:
        with pytest.raises(ToolError, match="it ended with status 3.*next call reaches it again"):
            await own.call("honest__die")
        assert own.report.state == "failed"
        assert (await own.call("honest__add", a=2, b=2)).text == "4\n"
        assert own.report.state == "connected"


@contextmanager
def http_server() -> Iterator[str]:
    """Run the honest server on loopback and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp_servers.honest", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    try:
        for line in child.stderr:
            if "running on" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()


async def test_a_server_over_http_is_called_as_any(tmp_path: Path) -> None:
    """A URL with headers is a server too; when it is gone a call is an error."""
    with http_server() as url:
        entry = {"type": "http", "url": url, "headers": {"X-Token": "${TOKEN}"}}
        async with session({"web": entry}, tmp_path, environ={"TOKEN": "abc"}) as own:
            assert own.said == []
            assert (await own.call("web__add", a=1, b=5)).text == "6\n"
            assert (await own.call("web__fail")).is_error


async def test_a_server_that_nobody_runs_is_said(tmp_path: Path) -> None:
    """A port where nothing listens costs a sentence and no more."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with session({"web": {"url": f"http://127.0.0.1:{port}/mcp"}}, tmp_path) as own:
        assert own.report.state == "failed"
        assert own.said[0].startswith("The MCP server web is not connected: ")
