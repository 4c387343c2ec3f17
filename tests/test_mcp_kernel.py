"""MCP servers in a real kernel: connected with the first turn, asked about, and gone with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.agent_kernel import TURN_S, agent_kernel, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.kernels import RealKernel
from tests.tools.test_mcp import HONEST, is_alive

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
        pid = int(told.partition('\\"pid\\": ')[2].split("}")[0].split("\\")[0])
        assert is_alive(pid)
        shown = said(kernel, "%agent /mcp")
        assert "mcp__honest__add" in shown
        assert "`no-such-command` was not found" in shown
        run(kernel, "%agent /new")
        assert not is_alive(pid)
