"""Two real kernels on one notebook and one home, as two windows that started a kernel each."""

from __future__ import annotations

from pathlib import Path

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.core.repair import repair
from jupyter_ctx.core.view import build_view
from jupyter_ctx.store.jsonl import load_entries
from jupyter_ctx.store.sessions import transcript_file
from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.pages import code, page_on
from tests.wire import answering, results, text_of_messages

MODEL = "claude-sonnet-5-5"
TURNS = 50


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


def test_fifty_turns_each_interleaved(tmp_path: Path) -> None:
    """Of two kernels on one session the second goes on with a copy; both logs are valid and whole.

    All fifty turns of one are a single cell, so that its kernel and the other's work at once.
    """
    place = {
        "JPY_SESSION_NAME": str(tmp_path / "work" / "analysis.ipynb"),
        "JUPYTER_CTX_HOME": str(tmp_path / "shared"),
    }
    script = answering(["Begun."] * 2 + ["Noted."] * (2 * TURNS))
    told = {name: [f"{name} begins"] for name in ("first", "second")}
    with (
        FakeAnthropic(script) as server,
        agent_kernel(tmp_path / "a", server, MODEL, **place) as first,
        agent_kernel(tmp_path / "b", server, MODEL, **place) as second,
    ):
        both = {"first": first, "second": second}
        for name, kernel in both.items():
            ask(kernel, f"{name} begins")
        cells = {
            name: kernel.submit(
                "from jupyter_ctx import current_session\n"
                f"for n in range({TURNS}):\n"
                f"    assert current_session().ask(f'{name} {{n}}').outcome == 'done'"
            )
            for name, kernel in both.items()
        }
        for name, kernel in both.items():
            assert kernel.collect(cells[name], 120).ok
            told[name] += [f"{name} {n}" for n in range(TURNS)]
        look = "__import__('jupyter_ctx').current_session().id"
        ids = {name: str(kernel.eval(look)) for name, kernel in both.items()}
        assert server.refused == []

    assert ids["first"] != ids["second"]
    for name, session_id in ids.items():
        loaded = load_entries(transcript_file(tmp_path / "shared", session_id))
        assert loaded.warnings == ()
        prompts = [e for e in loaded.entries if isinstance(e, MessageEntry) and e.kind == "prompt"]
        said = [text_of(e.message.content).splitlines()[-1] for e in prompts]
        assert said[-len(told[name]) :] == told[name]
        view = build_view(loaded.entries)
        assert repair(view) == view
