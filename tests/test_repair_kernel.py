"""A cell that fails is repaired and run again, in a real kernel with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.pages import code, page_on
from tests.wire import answering, results

MODEL = "claude-sonnet-5-5"


def test_a_repaired_cell_shows_its_last_run(tmp_path: Path) -> None:
    """X7: the failure reaches the model as one; the run is repeated; its outputs are in the cell.

    What the kernel has is what the repaired source made, and the error names no cell number.
    """
    script: list[Any] = [
        reply(tools=[call("run_cell", cell_id="a"), call("run_cell", cell_id="b")]),
        reply(tools=[call("read_cell", cell_id="b")]),
        reply(tools=[call("edit_cell", cell_id="b", source="y = x + 1\nprint('y is', y)")]),
        reply(tools=[call("run_cell", cell_id="b"), call("run_cell", cell_id="c")]),
        "All of it runs.",
    ]
    cells = [
        code("a", "x = 1"),
        code("b", "y = x + '1'\nprint('y is', y)"),
        code("c", "print('z is', y * 2)"),
        code("q", "%%agent\nRun everything."),
    ]
    with (
        FakeAnthropic(answering(script)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
        page_on(kernel, cells) as page,
    ):
        run(kernel, "%reload_ext jupyter_ctx", "q")
        ask(kernel, "Run everything.", "q")
        _, failed, _, edited, again, last = results(server.messages[-1]).values()
        assert "TypeError" in failed
        assert "Code run by the agent, line 1" in failed
        assert "not run" in edited
        assert "y is 2" in again
        assert "z is 4" in last
        shown = [page.cell(name)["outputs"] for name in ("b", "c")]
        assert [[one["text"] for one in outputs] for outputs in shown] == [
            ["y is 2\n"],
            ["z is 4\n"],
        ]
        assert kernel.eval("y") == 2
    results_sent = [b for m in server.messages[1].json["messages"] for b in m["content"]]
    assert [b["is_error"] for b in results_sent if b.get("is_error")] == [True]
