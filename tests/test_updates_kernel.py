"""The notebook, as the agent is told of it and reads it: real kernel, strict server, wire bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, Recorded, call, reply
from tests.fake_anthropic.checks import assert_append_only
from tests.kernels import RealKernel
from tests.pages import code, page_on

MODEL = "claude-sonnet-5-5"


@dataclass
class Stage:
    """A kernel, the server, and the answers still to come."""

    kernel: RealKernel
    server: FakeAnthropic
    answers: list[Any] = field(default_factory=list)

    def ask(self, *answers: Any, cell_id: str | None = None) -> list[str]:
        """Run one turn and return the texts of its prompt: updates first, then the words."""
        self.answers[:] = answers or ["Done."]
        first = len(self.server.messages)
        ask(self.kernel, "Go on.", cell_id)
        assert not self.answers
        (prompt,) = self.server.messages[first].messages[-1:]
        return [block["text"] for block in prompt["content"]]

    @property
    def last(self) -> Recorded:
        """The last request."""
        return self.server.messages[-1]

    def results(self) -> list[str]:
        """Return the texts of the last request's tool results."""
        blocks = [block for m in self.last.messages for block in m["content"]]
        found = [block for block in blocks if block["type"] == "tool_result"]
        return [json.dumps(block["content"], ensure_ascii=False) for block in found]


@contextmanager
def staged(folder: Path, **env: str) -> Iterator[Stage]:
    stage = Stage(None, None)  # type: ignore[arg-type]  # set below
    with (
        FakeAnthropic(lambda body: stage.answers.pop(0)) as server,
        agent_kernel(folder, server, MODEL, **env) as kernel,
    ):
        stage.kernel, stage.server = kernel, server
        yield stage
        assert not [record.error for record in server.messages if record.refused]
        assert assert_append_only(server.messages) == []


def test_a_kernel_without_a_page(tmp_path: Path) -> None:
    """What ran at first, then only what changed; nothing of it at all when nothing did."""
    with staged(tmp_path) as stage:
        run(stage.kernel, "total = 1\nprint('counted')", "c1")
        first = stage.ask()
        assert "c1 | In[2] | ok | total = 1 | stdout (8 characters)" in first[0]
        assert "total (int, In[2])" in first[0]
        assert stage.ask() == ["Go on."]

        stage.kernel.execute("total = [1]\nprint('again'); 1/0", cell_id="c1")
        told = stage.ask()
        assert len(told) == 2
        assert "- c1, code: source changed; the user ran it: In[5], failed" in told[0]
        assert "print('again'); 1/0" in told[0]
        assert "ZeroDivisionError" in told[0]
        assert "total (int → list" in told[0]
        assert stage.ask() == ["Go on."]


def test_what_the_agent_does_is_not_told_back(tmp_path: Path) -> None:
    """Names its code made, took or filled are known to it; a cell of the user's after that is not.

    What a rewound turn made is told.
    """
    make = reply(tools=[call("run_code", code="made = [1]\nfilled.append(2)\ndel gone")])
    with staged(tmp_path) as stage:
        run(stage.kernel, "filled, gone, kept = [1], 2, 3", "c1")
        stage.ask()
        stage.ask(make, "Made.")
        assert stage.ask() == ["Go on."]
        run(stage.kernel, "kept = 4", "c2")
        told = stage.ask()[0]
        assert "Bound anew: kept" in told
        assert "made" not in told
        assert "filled" not in told


def test_a_kernel_restart_lists_no_names_that_are_gone(tmp_path: Path) -> None:
    """C30: one notice says that all names are gone; the update tells what ran since."""
    env = {"JPY_SESSION_NAME": str(tmp_path / "work" / "a.ipynb")}
    with staged(tmp_path, **env) as stage:
        run(stage.kernel, "total = 1", "c1")
        stage.ask()
        stage.kernel.restart()
        run(stage.kernel, "%load_ext jupyter_ctx")
        run(stage.kernel, "other = 2", "c2")
        told = stage.ask()

        assert len(told) == 3
        assert "restarted" in told[0]
        assert "gone: total" not in told[1]
        assert "- c2, code: the user ran it: In[2], ok" in told[1]
        assert "New names: other (int, In[2])" in told[1]


def test_the_page_tells_of_what_never_ran(tmp_path: Path) -> None:
    """C22, reading: a cell that was read and then changed by the user is told, and read anew.

    Its three sources are told apart: what ran, what stands there now, what the model saw last.
    """
    read = reply(tools=[call("read_cell", cell_id="c1")])
    with staged(tmp_path) as stage:
        cells = [
            code("m1", "# Analysis", type="markdown"),
            code("c1", "total = 1"),
            code("c2", "never_run()"),
            code("q1", "%%agent\nGo on."),
        ]
        with page_on(stage.kernel, cells) as page:
            run(stage.kernel, "%reload_ext jupyter_ctx", "warm")
            run(stage.kernel, "total = 1", "c1")
            page.cell("c1").update(execution_count=3)
            first = stage.ask(read, "Read.", cell_id="q1")
            assert "[notebook: 4 cells: 3 code" in first[0]
            assert "m1 | # Analysis\nc1 | In[3] | ok | total = 1\n" in first[0]
            assert "c2 | In[ ] | not run | never_run()" in first[0]
            assert "q1 | In[4] | ok | `%agent` (a prompt to you)" in first[0]
            assert "Go on." not in first[0]
            assert "[cell c1, In[3], ok; outputs: none]\\ntotal = 1" in stage.results()[-1]

            page.cell("c1")["source"] = "total = 2"
            page.cells.insert(1, code("n1", "new = 1"))
            told = stage.ask(read, "Read.", cell_id="q1")
            assert "- c1, code: source changed; edited since it ran\n```\ntotal = 2\n```" in told[0]
            assert "- n1, code: new, below m1\n```\nnew = 1\n```" in told[0]
            assert "edited since it ran" in stage.results()[-1]
            assert "total = 2" in stage.results()[-1]
            assert stage.ask(cell_id="q1") == ["Go on."]

            edit = reply(
                tools=[
                    call("edit_cell", cell_id="n1", source="new = 2"),
                    call("insert_cell", source="made = 1", after="n1"),
                    call("run_cell", cell_id="n1"),
                ]
            )
            stage.ask(edit, "Edited.", cell_id="q1")
            assert page.cell("n1")["source"] == "new = 2"
            assert stage.ask(cell_id="q1") == ["Go on."]
            page.cell("n1")["source"] = "new = 3"
            assert "- n1, code: source changed\n```\nnew = 3\n```" in stage.ask(cell_id="q1")[0]


def test_the_file_is_read_where_no_page_is(tmp_path: Path) -> None:
    """C08: headings and cells that never ran come from the file, which is never written."""
    path = tmp_path / "work" / "a.ipynb"
    path.parent.mkdir(parents=True)
    cells = [
        {"id": "m1", "cell_type": "markdown", "metadata": {}, "source": "# Saved"},
        {"id": "c9", "cell_type": "code", "metadata": {}, "source": "x = 9", "outputs": []},
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": cells}))
    before = path.stat().st_mtime_ns
    read = reply(tools=[call("read_cell", cell_id="m1", section=True)])
    with staged(tmp_path, JPY_SESSION_NAME=str(path)) as stage:
        first = stage.ask(read, "Read.")

        assert "as it is saved on disk" in first[0]
        assert "m1 | # Saved\nc9 | In[ ] | not run | x = 9" in first[0]
        assert "x = 9" in stage.results()[-1]
    assert path.stat().st_mtime_ns == before


def test_a_big_namespace_stays_small(tmp_path: Path) -> None:
    """Five thousand names cost a bounded text and a bounded line of the transcript."""
    with staged(tmp_path) as stage:
        run(stage.kernel, "globals().update({f'name_{n}': n for n in range(5_000)})", "c1")
        first = stage.ask()
        run(stage.kernel, "globals().update({f'name_{n}': str(n) for n in range(5_000)})", "c1")
        told = stage.ask()
        (path,) = stage.kernel.home.glob("sessions/*/transcript.jsonl")
        longest = max(map(len, path.read_text().split("\n")))

    assert len(first[0]) < 4_000
    assert len(told[0]) < 8_000
    assert longest < 200_000
    assert "and 4," in first[0]


@pytest.mark.parametrize("code_run", ["import jupyter_ctx", "x = 1; del x", "_hidden = 1"])
def test_what_makes_no_name(tmp_path: Path, code_run: str) -> None:
    """A cell that leaves no name behind is told as run, with no list of names."""
    with staged(tmp_path) as stage:
        stage.ask()
        run(stage.kernel, code_run, "c1")
        told = stage.ask()[0]

    assert "- c1, code: the user ran it" in told
    assert "names" not in told or code_run.startswith("import")
