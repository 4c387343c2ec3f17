"""What the agent edited comes back after a compaction as it stands then: in a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.pages import code, page_on
from tests.wire import answering, filler, head_of, summaries

MODEL = "claude-sonnet-5-5"
TITLE = "# Cells and files edited or run most recently"


def put_back(server: FakeAnthropic) -> str:
    """Return what the newest request's first message says of recent cells and files."""
    head = head_of(server.messages[-1])
    assert TITLE in head
    return head[head.index(TITLE) :]


def test_edited_files_and_cells_come_back_as_they_stand(tmp_path: Path) -> None:
    """C15: edited files and cells come back in their present form; what is gone is named."""
    script: list[Any] = [
        reply(tools=[call("read_file", path="mine.py"), call("read_cell", cell_id="b")]),
        reply(
            tools=[
                call("edit_file", path="mine.py", old="rate = 1", new="rate = 2"),
                call("write_file", path="notes/new.md", text="# Notes of the agent\n"),
                call("write_file", path="gone.md", text="# To be deleted\n"),
                call("edit_cell", cell_id="b", source="y = 3  # by the agent"),
                call("insert_cell", source="new = 1", after="b"),
            ]
        ),
        "Done.",
        filler(30_000),
        "And so on.",
        "Yes.",
    ]
    cells = [code("a", "x = 1"), code("b", "y = 2"), code("q", "%%agent\nChange them.")]
    with (
        FakeAnthropic(answering(script)) as server,
        agent_kernel(
            tmp_path, server, MODEL, JPY_SESSION_NAME=str(tmp_path / "work" / "analysis.ipynb")
        ) as kernel,
        page_on(kernel, cells) as page,
    ):
        (kernel.cwd / "mine.py").write_text("rate = 1\n")
        run(kernel, "%reload_ext jupyter_ctx", "q")
        ask(kernel, "Change them.", "q")
        (kernel.cwd / "mine.py").write_text("rate = 2\nadded = 'by the user'\n")
        (kernel.cwd / "gone.md").unlink()
        page.cell("b")["source"] = "y = 4  # by the user"
        del page.cells[2]
        ask(kernel, "And?", "q")
        ask(kernel, "And then?", "q")
        run(kernel, "%agent /compact")
        ask(kernel, "Go on?", "q")
        told = put_back(server)
        assert len(summaries(server.messages)) == 1
    assert "## mine.py\n```\nrate = 2\nadded = 'by the user'\n" in told
    assert "## notes/new.md\n```\n# Notes of the agent\n" in told
    assert "y = 4  # by the user" in told
    assert "by the agent" not in told
    lost = next(line for line in told.split("\n") if line.startswith("Edited by you"))
    assert "gone.md (it is no longer there)" in lost
    assert "(it is no longer in the notebook)" in lost
    assert "To be deleted" not in told


def test_after_a_restart_the_transcript_says_which_files(tmp_path: Path) -> None:
    """A resumed session's files come back too; none outside the project, none that was undone."""
    names = [f"f{n}.md" for n in range(7)]
    script: list[Any] = [
        reply(tools=[call("write_file", path=name, text=f"text of {name}\n") for name in names]),
        "Done.",
        filler(30_000),
        "And so on.",
        "Yes.",
    ]
    with (
        FakeAnthropic(answering(script)) as server,
        agent_kernel(
            tmp_path, server, MODEL, JPY_SESSION_NAME=str(tmp_path / "work" / "analysis.ipynb")
        ) as kernel,
    ):
        ask(kernel, "Write them.")
        run(kernel, "%agent /undo")
        (tmp_path / "secret.md").write_text("not yours")
        (kernel.cwd / "f5.md").unlink()
        (kernel.cwd / "f5.md").symlink_to(tmp_path / "secret.md")
        kernel.restart()
        run(kernel, "%load_ext jupyter_ctx")
        ask(kernel, "And?", "q")
        ask(kernel, "And then?", "q")
        run(kernel, "%agent /compact")
        ask(kernel, "Go on?")
        told = put_back(server)
        whole = head_of(server.messages[-1])
    assert [name for name in names if f"text of {name}" in told] == names[:5]
    assert "f5.md (it lies outside this project)" in told
    assert "f6.md" not in told
    assert "not yours" not in whole
