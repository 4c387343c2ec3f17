"""MCP servers in a real kernel: connected with the first turn, asked about, and gone with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.agent_kernel import TURN_S, agent_kernel, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.kernels import RealKernel
from tests.tools.test_mcp import HONEST, HOSTILE, is_alive, pids_in

MODEL = "claude-sonnet-5-5"


def set_servers(home: Path, **servers: object) -> None:
    """Write the servers into the settings of the agent's home, and leave its other settings."""
    path = home / "settings.json"
    home.mkdir(parents=True, exist_ok=True)
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**settings, "mcpServers": servers}))


def said(kernel: RealKernel, text: str) -> str:
    """Return what a command shows."""
    return "\n".join(run(kernel, text).bundles("text/plain"))


def tool_names(server: FakeAnthropic) -> list[str]:
    """Return the names of the tools in the newest request."""
    return [tool["name"] for tool in json.loads(server.messages[-1].body)["tools"]]


def test_a_server_is_used_in_a_turn_and_gone_with_the_session(tmp_path: Path) -> None:
    """The first request has its tools, a call is asked about, `/new` ends its process."""
    answers: list[Any] = [
        reply(tools=[call("mcp__honest__show_environment")]),
        "Done.",
        reply(tools=[call("mcp__honest__add", a=20, b=22)]),
        "42.",
    ]
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL, JUPYTER_CTX_PERMISSIONS="ask") as kernel,
    ):
        set_servers(kernel.home, honest=HONEST, missing={"command": "no-such-command"})
        assert "connects with the first turn" in said(kernel, "%agent /mcp")
        first = kernel.execute("%agent Look.", TURN_S, stdin_replies=["y"])
        assert first.ok
        assert "mcp__honest__show_environment" in "".join(first.questions)
        assert "mcp__honest__add" in tool_names(server)
        assert "missing is not connected" in json.dumps(first.outputs)
        told = server.messages[-1].body.decode()
        assert "ANTHROPIC_API_KEY" not in told
        assert f'\\"cwd\\": \\"{kernel.home}\\"' in told
        pid = int(told.partition('\\"pid\\": ')[2].split("}")[0].split("\\")[0])
        assert is_alive(pid)
        shown = said(kernel, "%agent /mcp")
        assert "mcp__honest__add" in shown
        assert "`no-such-command` was not found" in shown
        run(kernel, "%agent /new")
        assert not is_alive(pid)


def write_project(folder: Path, noted: Path) -> None:
    """Put a server into the project's `.mcp.json`; it notes its process id when it is started."""
    entry = {"command": sys.executable, "args": [HOSTILE, "plain"], "env": {"FILE": str(noted)}}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))


def test_a_project_s_server_is_inert_until_it_is_trusted(tmp_path: Path) -> None:
    """Nothing of `.mcp.json` runs before `/trust allow`; then it joins at the compaction."""
    noted = tmp_path / "pids"
    long = "many words about it " * 300
    answers: list[Any] = [long, long, "Summary.", reply(tools=[call("mcp__theirs__act")]), "Done."]
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL, JUPYTER_CTX_TAIL_TOKENS="0") as kernel,
    ):
        write_project(kernel.cwd, noted)
        run(kernel, "%agent One.")
        assert not noted.exists()
        assert said(kernel, "%agent /mcp").strip() == "Waiting for /trust: theirs."
        assert "theirs" in said(kernel, "%agent /trust")
        run(kernel, "%agent /trust allow")
        run(kernel, "%agent Two.")
        shown = wait_for(kernel, "connected")
        assert "told of 1 tool more at the next compaction" in shown
        assert "mcp__theirs__act" not in tool_names(server)
        run(kernel, "%agent /compact")
        run(kernel, "%agent Three.")
        assert "mcp__theirs__act" in tool_names(server)
        assert "acted: plain" in server.messages[-1].body.decode()
        (kernel.cwd / ".mcp.json").unlink()
        answers.append("Four.")
        pids = pids_in(noted)
        run(kernel, "%agent Four.")
        run(kernel, "%agent /new")
        assert not any(map(is_alive, pids))


def wait_for(kernel: RealKernel, state: str) -> str:
    """Return what `/mcp` shows once the server is in that state; it is bound to come."""
    while f"  {state}" not in (shown := said(kernel, "%agent /mcp")):
        assert "not connected" not in shown, shown
    return shown


def test_a_large_result_is_offloaded_and_no_process_outlives_the_agent(tmp_path: Path) -> None:
    """A long result goes to the store as any does; when the agent is unloaded, its servers end."""
    noted = tmp_path / "pids"
    answers: list[Any] = [reply(tools=[call("mcp__honest__write_much", lines=50_000)]), "Done."]
    stays = {"command": sys.executable, "args": [HOSTILE, "stays"], "env": {"FILE": str(noted)}}
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        set_servers(kernel.home, honest=HONEST, stays=stays)
        run(kernel, "%agent Write much.")
        told = server.messages[-1].body.decode()
        assert "line 49999" in told
        assert "line 25000" not in told
        (stored,) = kernel.home.glob("tool-results/*/*.txt")
        assert "line 25000\n" in stored.read_text()
        pids = pids_in(noted)
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        run(kernel, "%unload_ext jupyter_ctx")
        assert not any(map(is_alive, pids))
