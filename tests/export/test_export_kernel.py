"""Exports of real sessions: a real kernel ran the code, and a fresh one runs the notebook."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_ctx.store.jsonl import load_entries
from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.kernels import RealKernel

MODEL = "claude-sonnet-5-5"
KEY = "jupyter_ctx_export"
PLOT = (
    "from IPython.display import Image, display\n"
    "import base64\n"
    "display(Image(data=base64.b64decode("
    "'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg==')))"
)


def converse(kernel: RealKernel, server_answers: list[object]) -> None:
    """Run cells of the user's and turns that build on each other, with errors among them."""
    run(kernel, "import math\nbase = 20", "own-1")
    server_answers += [
        reply(call("run_code", code="total = base + 1\ntotal")),
        reply(call("run_code", code="undefined_name")),
        reply(call("run_code", code=PLOT)),
        reply(call("inspect", names=["total"])),
        "The *total* is 21. <img src=x onerror=alert(1)> ![p](http://evil.example/p.png)",
    ]
    ask(kernel, "Add one.\n\nThen <b>plot</b>.", "ask-1")
    run(kernel, "grown = total * 2\nprint(grown)", "own-2")
    server_answers += [
        reply(call("run_code", code="print(math.sqrt(grown + 7))")),
        "Seven.",
    ]
    ask(kernel, "And the root?", "ask-2")


def saved(kernel: RealKernel, name: str) -> Path:
    """Export to a name of the kernel's folder; nothing half written is left."""
    run(kernel, f"%agent /export {name}")
    assert [one.name for one in kernel.cwd.iterdir() if one.name.startswith(".")] == []
    return kernel.cwd / name


def test_an_exported_session_runs_in_a_fresh_kernel(tmp_path: Path) -> None:
    """Each form is written whole; the notebook is valid, and runs from the top to the end."""
    answers: list[object] = []
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        converse(kernel, answers)
        notebook_path = saved(kernel, "out.ipynb")
        markdown = saved(kernel, "out.md").read_text(encoding="utf-8")
        lines = saved(kernel, "out.jsonl").read_bytes()
        (folder,) = (kernel.home / "sessions").iterdir()
        stored = (folder / "transcript.jsonl").read_bytes()
        again = kernel.execute("%agent /export out.md")

    notebook = nbformat.read(notebook_path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.metadata[KEY].get("turn", 0) for cell in code] == [0, 1, 1, 1, 0, 2]
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert any("Add one." in text for text in prose)
    assert not any("<img" in text or "![" in text or "<b>" in text for text in prose)
    assert "%load_ext" not in "".join(cell.source for cell in code)
    assert code[1].outputs[0]["text"].strip() == "21"
    assert "image/png" in code[3].outputs[0]["data"]

    before = [texts_of(cell) for cell in code]
    NotebookClient(notebook, timeout=60).execute(cwd=str(tmp_path))
    assert [texts_of(cell) for cell in code] == before
    assert [bool(cell.metadata.get("tags")) for cell in code] == [False, False, True, *[False] * 3]

    assert "## Prompt 2" in markdown
    assert "7.0" in markdown
    assert "[image/png]" in markdown
    assert lines == stored
    assert not again.ok
    assert "out-2.md" in str(again.reply["evalue"])


def texts_of(cell: nbformat.NotebookNode) -> list[str]:
    """Return what a cell shows, without what differs from run to run."""
    shown = []
    for output in cell.outputs:
        data = output.get("data", {})
        text = output.get("text") or data.get("image/png") or data.get("text/plain")
        is_error = output.output_type == "error" or output.get("name") == "stderr"
        shown.append("error" if is_error else str(text).strip())
    return shown


def test_names_come_from_the_title_and_no_file_is_lost(tmp_path: Path) -> None:
    """Without a path the name is the title's, the next time another; a file outside is refused."""
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    with (
        FakeAnthropic(lambda body: "Hello.") as server,
        agent_kernel(tmp_path, server, MODEL, HOME=str(tmp_path / "work")) as kernel,
    ):
        ask(kernel, "Compare: Übersicht / 2024?")
        (kernel.cwd / "link").symlink_to(outside, target_is_directory=True)
        (kernel.cwd / ".hidden").mkdir()
        run(kernel, "%agent /export")
        shown = run(kernel, "%agent /export")
        refused = [
            kernel.execute(f"%agent /export {name}")
            for name in (f"{outside}/a.md", "link/a.md", ".hidden/a.md", "none/a.md", "a.txt")
        ]

    names = sorted(one.name for one in kernel.cwd.iterdir() if one.is_file())
    assert names == ["compare-übersicht-2024-2.ipynb", "compare-übersicht-2024.ipynb"]
    assert "compare-übersicht-2024-2.ipynb: 1 prompt" in shown.bundles("text/plain")[0]
    said = [str(ran.reply["evalue"]) for ran in refused]
    words = [
        "outside of your folders",
        "outside of your folders",
        "hidden",
        "no folder",
        "which form",
    ]
    assert [word in text for word, text in zip(words, said, strict=True)] == [True] * 5, said
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("suffix", [".ipynb", ".md", ".jsonl"])
def test_known_keys_are_in_no_export(tmp_path: Path, suffix: str) -> None:
    """With the setting, a key of a known shape stands neither in the store nor in an export."""
    key = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0" + "xxyyzz"
    answers: list[object] = [
        reply(call("run_code", code=f"print('{key}'[:9], end=''); print('{key}'[9:])")),
        f"It is {key[:20]}{key[20:]}.",
    ]
    with (
        FakeAnthropic(lambda body: answers.pop(0)) as server,
        agent_kernel(tmp_path, server, MODEL) as kernel,
    ):
        run(kernel, "%config JupyterCtx.redact_known_keys = True")
        run(kernel, f"mine = '{key}'\nmine", "own")
        ask(kernel, f"Keep {key} safe.")
        text = saved(kernel, f"out{suffix}").read_text(encoding="utf-8")
        (folder,) = (kernel.home / "sessions").iterdir()
        entries = load_entries(folder / "transcript.jsonl").entries

    assert key not in text
    assert key not in repr(entries)
    assert key not in json.dumps([json.loads(one.body) for one in server.messages])
    assert text.count("[redacted: GitHub token]") >= 3
