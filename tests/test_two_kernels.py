"""Two real kernels on one notebook and one home, as two windows that started a kernel each."""

from __future__ import annotations

from pathlib import Path

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.pages import code, page_on
from tests.wire import answering, results, text_of_messages

MODEL = "claude-sonnet-5-5"


def test_two_kernels_on_one_notebook_keep_apart(tmp_path: Path) -> None:
    """Neither hears of the other's turns, changes cells of its page, nor takes its session over."""
    place = {
        "JPY_SESSION_NAME": str(tmp_path / "work" / "analysis.ipynb"),
        "JUPYTER_CTX_HOME": str(tmp_path / "shared"),
    }
    edit = call("edit_cell", cell_id="x", source="x = 'by the second'")
    script = [
        "First of the first.",
        reply(tools=[call("read_cell", cell_id="x")]),
        reply(tools=[edit]),
        "First of the second.",
        "Second of the first.",
        "Second of the second.",
        "Third of the first.",
    ]
    cells = [[code("x", "x = 1"), code("q", "%%agent\nGo on.")] for _ in range(2)]
    with (
        FakeAnthropic(answering(script)) as server,
        agent_kernel(tmp_path / "a", server, MODEL, **place) as first,
        agent_kernel(tmp_path / "b", server, MODEL, **place) as second,
        page_on(first, cells[0]) as one,
        page_on(second, cells[1]) as other,
    ):
        run(first, "%reload_ext jupyter_ctx", "q")
        run(second, "%reload_ext jupyter_ctx", "q")
        ask(first, "Prompt 1 of the first", "q")
        copied = ask(second, "Prompt 1 of the second", "q")
        assert "is open in another kernel" in str(copied.outputs)
        assert list(results(server.messages[-1]).values())[1].startswith("Edited")
        assert other.cell("x")["source"] == "x = 'by the second'"
        assert one.cell("x")["source"] == "x = 1"
        assert one.ops == []
        ask(first, "Prompt 2 of the first", "q")
        assert "of the second" not in text_of_messages(server.messages[-1])
        ask(second, "Prompt 2 of the second", "q")
        assert "Prompt 2 of the first" not in text_of_messages(server.messages[-1])

        first.restart()
        run(first, "%load_ext jupyter_ctx")
        again = ask(first, "Prompt 3 of the first")
        assert "is open in another kernel" not in str(again.outputs)
        told = text_of_messages(server.messages[-1])
        assert "Second of the first." in told
        assert "of the second" not in told
        assert server.refused == []
