"""Plan and memory in a real kernel: seen below the cell, kept on disk, told to a later session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.kernels import RealKernel

MODEL = "claude-sonnet-5-5"
CENTS = "Amounts are in cents."
KEY = "sk-ant-test-0123456789"


def plan(**states: str) -> list[dict[str, str]]:
    """Return the items of a plan."""
    return [{"text": text, "state": state} for text, state in states.items()]


def memory_files(kernel: RealKernel) -> list[Path]:
    """Return the memories on disk."""
    return sorted(kernel.home.glob("memory/*.md"))


def test_a_plan_and_a_fact_in_a_cell(tmp_path: Path) -> None:
    """The plan has one place below the cell; the fact is on disk, and in the next session."""
    script: list[Any] = [
        reply(tools=[call("update_plan", items=plan(Load="in_progress", Plot="pending"))]),
        reply(tools=[call("run_code", code="x = 1"), call("remember", text=CENTS)]),
        reply(tools=[call("update_plan", items=plan(Load="done", Plot="in_progress"))]),
        "Half of it is done.",
        "I know.",
        "Noted.",
    ]
    with FakeAnthropic(script) as server, agent_kernel(tmp_path, server, MODEL) as kernel:
        ran = ask(kernel, "Load and plot; amounts are in cents.")
        shown = ran.bundles("text/plain")
        plans = [text for text in shown if text.startswith("Plan: ")]
        assert plans == ["Plan: 1 of 2 done\n  [x] Load\n  [>] Plot"]
        assert any(CENTS in text and "/memory undo" in text for text in shown)
        (file,) = memory_files(kernel)
        assert CENTS in file.read_text()

        assert "  2. [>] Plot" in run(kernel, "%agent /plan").bundles("text/plain")[0]
        first_system = server.messages[-1].json["system"]
        assert CENTS not in str(first_system)

        run(kernel, "%agent /new")
        ask(kernel, "What do you know?")
        system = server.messages[-1].json["system"]
        assert "# Memory" in str(system)
        assert CENTS in str(system)

        run(kernel, "%agent /memory forget 1")
        assert CENTS not in file.read_text()
        ask(kernel, "And now?")
        assert server.messages[-1].json["system"] == system
        assert CENTS in str(server.messages[-1].json["messages"][-1])
        assert not server.refused


def test_a_restarted_kernel_has_plan_and_memory(tmp_path: Path) -> None:
    """Both are on disk: what was planned goes on, and the key that was said is nowhere."""
    script: list[Any] = [
        reply(tools=[call("update_plan", items=plan(Load="done", Plot="pending"))]),
        reply(tools=[call("remember", text=f"The key is {KEY}.")]),
        "Planned.",
        "Going on.",
    ]
    notebook = str(tmp_path / "work" / "analysis.ipynb")
    with (
        FakeAnthropic(script) as server,
        agent_kernel(tmp_path, server, MODEL, JPY_SESSION_NAME=notebook) as kernel,
    ):
        ask(kernel, "Plan it.")
        kernel.restart()
        run(kernel, "%load_ext jupyter_ctx")
        ask(kernel, "Go on.")

        assert "[x] Load" in run(kernel, "%agent /plan").bundles("text/plain")[0]
        (file,) = memory_files(kernel)
        assert "[redacted" in file.read_text()
        assert KEY not in file.read_text()
        assert not server.refused
