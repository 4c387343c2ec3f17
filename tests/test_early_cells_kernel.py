"""Cells that ran before the agent was loaded, in a real kernel with a page."""

from __future__ import annotations

from pathlib import Path

from tests.agent_kernel import agent_env, ask, run
from tests.fake_anthropic import FakeAnthropic
from tests.kernels import running_kernel
from tests.pages import code, page_on
from tests.wire import text_of_messages

MODEL = "claude-sonnet-5-5"


def test_what_ran_before_the_agent_was_loaded_is_not_said_to_be_of_another_kernel(
    tmp_path: Path,
) -> None:
    """Cells of this kernel, the one that loads the agent too, are told from those of an older."""
    cells = [
        code("a", "x = 1", execution_count=1),
        code("l", "%load_ext jupyter_ctx", execution_count=2),
        code("o", "old = 1", execution_count=41),
        code("q", "%%agent\nWhat is there?"),
    ]
    with (
        FakeAnthropic("I see.") as server,
        running_kernel(tmp_path, agent_env(server, MODEL)) as kernel,
        page_on(kernel, cells),
    ):
        run(kernel, "x = 1", "a")
        run(kernel, "%load_ext jupyter_ctx", "l")
        ask(kernel, "What is there?", "q")
        told = text_of_messages(server.messages[-1])
    assert "a | In[1] | ok, ran before the agent was loaded | x = 1" in told
    assert "l | In[2] | ok, ran before the agent was loaded | %load_ext" in told
    assert "o | In[41] | ok, ran before this kernel | old = 1" in told
