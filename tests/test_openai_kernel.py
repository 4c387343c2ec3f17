"""The agent behind Chat Completions in a real kernel."""

from __future__ import annotations

from pathlib import Path

from tests.agent_kernel import agent_kernel, ask, context, run
from tests.fake_anthropic import call, reply
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.checks import assert_append_only, assert_healthy
from tests.fake_openai.fake import MODEL
from tests.kernels import RealKernel

SDKS = "import sys; sorted({'openai', 'anthropic'} & set(sys.modules))"


def _sdks(kernel: RealKernel) -> str:
    """Return which SDKs the kernel has imported."""
    return str(run(kernel, SDKS).bundles("text/plain")[-1])


def test_turns_in_a_real_kernel(tmp_path: Path) -> None:
    """Two turns with code, by settings alone; loading imports no SDK, a turn only its own.

    The window is the server's, and the gauge the server's own sum.
    """
    both = reply(tools=[call("run_code", code="x = 6 * 7; print(x)"), call("list_cells")])
    with (
        FakeOpenAI([both, "It is 42.", "Yes."], kind="vllm", window=50_000) as server,
        agent_kernel(tmp_path, server, f"openai:{MODEL}") as kernel,
    ):
        assert _sdks(kernel) == "[]"
        assert "It is 42." in str(ask(kernel, "What is 6 * 7?").outputs)
        assert _sdks(kernel) == "['openai']"
        assert run(kernel, "x").bundles("text/plain") == ["42"]
        ask(kernel, "Really?")
        shown = context(kernel)
        assert_healthy(server)
        assert assert_append_only(server.messages) == 0
        usage = server.messages[-1].usage

    assert usage is not None
    assert (shown["window_tokens"], shown["window_source"]) == (50_000, "server")
    assert shown["used_tokens"] == usage["total_tokens"]
    assert shown["cost_usd"] is None
