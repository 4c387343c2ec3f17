"""The file tools in a real kernel: what is written, who is asked, and undo after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agent_kernel import TURN_S, agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.pages import code, page_on

MODEL = "claude-sonnet-5-5"


def results(server: FakeAnthropic) -> str:
    """Return what the tools answered in the newest request."""
    return server.messages[-1].body.decode()


def said(kernel: Any, text: str) -> str:
    """Return what a command shows."""
    return "\n".join(run(kernel, text).bundles("text/plain"))


def test_edits_of_files_are_undone_after_a_restart(tmp_path: Path) -> None:
    """Read, edit, write, search in one turn; then a new process puts each back, newest first."""
    answers: list[Any] = [
        reply(tools=[call("read_file", path="model.py")]),
        reply(
            tools=[
                call("edit_file", path="model.py", old="rate = 1", new="rate = 2"),
                call("write_file", path="notes/new.md", text="# Notes\n"),
                call("search_files", pattern="rate", glob="*.py"),
                call("read_file", path="../secret.txt"),
            ]
        ),
        "Done.",
        "I see.",
    ]
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(
            tmp_path, server, MODEL, JPY_SESSION_NAME=str(tmp_path / "work" / "analysis.ipynb")
        ) as kernel,
    ):
        project = kernel.cwd
        (tmp_path / "secret.txt").write_text("not yours")
        (project / "model.py").write_bytes(b"rate = 1\r\nprint(rate)\r\n")
        ask(kernel, "Double the rate.")
        told = results(server)
        assert (project / "model.py").read_bytes() == b"rate = 2\r\nprint(rate)\r\n"
        assert "model.py:1: rate = 2" in told
        assert "not yours" not in told
        assert "must not hold" in told

        kernel.restart()
        run(kernel, "%load_ext jupyter_ctx")
        first = said(kernel, "%agent /undo")
        assert "Undone: the new file `notes/new.md` (edit 2)." in first
        assert not (project / "notes").exists()
        second = said(kernel, "%agent /undo")
        assert "+rate = 1" in second
        assert (project / "model.py").read_bytes() == b"rate = 1\r\nprint(rate)\r\n"
        refused = kernel.execute("%agent /undo", TURN_S)
        assert not refused.ok
        assert "no edit of the agent to undo" in refused.stderr
        ask(kernel, "And now?")
        assert "The user undid the edit of `model.py`" in results(server)


def test_what_guides_agents_asks_in_every_mode(tmp_path: Path) -> None:
    """In `auto` nobody is asked for a file, but for `.git/` and `AGENTS.md`; `plan` writes none."""
    paths = ("plain.txt", "AGENTS.md", ".git/hooks/pre-commit", "alias/config")
    calls = [call("write_file", path=path, text="x\n") for path in paths]
    answers: list[Any] = [
        reply(tools=calls),
        "Done.",
        reply(tools=[call("write_file", path="planned.txt", text="x\n")]),
        "Done.",
    ]
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        folder = kernel.cwd
        (folder / ".git").mkdir()
        (folder / "alias").symlink_to(".git")
        ask(kernel, "Write them.")
        assert (folder / "plain.txt").exists()
        assert sorted(path.name for path in (folder / ".git").rglob("*")) == []
        assert not (folder / "AGENTS.md").exists()
        assert results(server).count("Denied") == 3
        run(kernel, "%agent /permissions plan")
        ask(kernel, "Write it.")
        assert not (folder / "planned.txt").exists()


def test_edits_of_cells_are_undone_through_the_page(tmp_path: Path) -> None:
    """The page puts cells back where they stood, with their outputs; what a person wrote stays."""
    answers: list[Any] = [
        reply(tools=[call("read_cell", cell_id="b"), call("read_cell", cell_id="c")]),
        reply(
            tools=[
                call("delete_cell", cell_id="b"),
                call("insert_cell", source="new = 1", after="a"),
                call("edit_cell", cell_id="c", source="z = 4"),
            ]
        ),
        "Done.",
    ]
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    cells = [
        code("a", "x = 1"),
        code("b", "y = 2", outputs=[output], output_chars=2, execution_count=1),
        code("c", "z = 3"),
        code("q", "%%agent\nChange them."),
    ]
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
        page_on(kernel, cells) as page,
    ):
        run(kernel, "%reload_ext jupyter_ctx", "q")
        ask(kernel, "Change them.", "q")
        assert page.ids[0] == "a"
        assert "b" not in page.ids
        page.cell("c")["source"] = "mine"
        refused = kernel.execute("%agent /undo", TURN_S, cell_id="q")
        assert not refused.ok
        assert "not as the agent left it" in refused.stderr
        assert page.cell("c")["source"] == "mine"

        rewound = "".join(run(kernel, "%agent /rewind 1", "q").bundles("text/plain"))
        assert page.ids == ["a", "b", "c", "q"]
        assert page.cell("b")["outputs"] == [output]
        assert "Put back: the new cell" in rewound
        assert "Not put back: the edit of cell `c` (edit 3)." in rewound
