"""What an export is made of, and how it reaches the disk: examples and laws, without a kernel."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Text, ToolUse
from jupyter_ctx.core.ports import Cell, ToolOutput
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import PromptError, StoreError
from jupyter_ctx.export.files import find_free, name_of, save_file
from jupyter_ctx.export.forms import OUTPUT_CHARS, clean_output, cut
from jupyter_ctx.export.items import Answer, Code, Note, Prompt, Step, read_conversation
from jupyter_ctx.export.markdown import OUTPUT_CHARS as PAGE_CHARS
from jupyter_ctx.export.source import Source
from jupyter_ctx.export.writer import Writer
from jupyter_ctx.headless.export import export
from jupyter_ctx.ipython.exports import make_style
from jupyter_ctx.store.codec import entry_to_json
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import (
    DenyAll,
    FakeSession,
    FakeTools,
    ScriptedModel,
    call,
    make_session,
    reply,
)


def source_of(session: FakeSession, *cells: Cell, redactor: Redactor | None = None) -> Source:
    """Return a session over fakes as it is exported."""
    entries = tuple(session.transcript.entries)
    return Source(session.id, entries, session.store, redactor or Redactor(), "0", cells)


def writer() -> Writer:
    """Return the writer as the program makes it."""
    return Writer(entry_to_json, make_style())


def notebook_of(source: Source, folder: Path) -> nbformat.NotebookNode:
    """Return the notebook of a session, valid."""
    path = writer().save(source, folder / "n.ipynb").path
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def test_turns_are_told_in_order_with_their_calls() -> None:
    """Prompts, answers, code and other calls stand as they came, the user's words as typed."""
    model = ScriptedModel(
        reply(Text("Let me see."), call("run_code", code="1 + 1")),
        reply(call("inspect", names=["df"])),
        reply("Two."),
    )
    session = make_session(model)
    session.ask("What is\n*one* and one?")
    conversation = read_conversation(source_of(session))

    kinds = [type(item) for item in conversation.items]
    assert kinds == [Prompt, Answer, Code, Step, Answer]
    assert conversation.title == "What is"
    assert conversation.items[0] == Prompt(1, "What is\n*one* and one?")


def test_what_was_taken_back_is_not_exported() -> None:
    """A rewound turn is in the lines of the transcript, and in no form for people."""
    session = make_session(ScriptedModel(reply("One."), reply("Secret plan."), reply("Three.")))
    for text in ("First.", "Second."):
        session.ask(text)
    session.rewind(2)
    session.ask("Third.")
    items = read_conversation(source_of(session)).items

    assert [item.text for item in items if isinstance(item, Prompt)] == ["First.", "Third."]
    assert Answer(2, "Secret plan.") not in items


def test_a_compaction_takes_nothing_out_of_an_export() -> None:
    """What a summary replaced is all there, and a line says that it was summarised."""
    long = reply("word " * 9_000)
    session = make_session(
        ScriptedModel(long, long, reply("Summary."), reply("Three.")), tail_tokens=0
    )
    for text in ("First.", "Second."):
        session.ask(text)
    session.compact()
    session.ask("Third.")
    items = read_conversation(source_of(session)).items

    assert [type(item) for item in items] == [Prompt, Answer, Prompt, Answer, Note, Prompt, Answer]


def test_code_that_was_denied_stands_as_text(tmp_path: Path) -> None:
    """What the user did not allow is no code cell: running the notebook does not run it."""
    model = ScriptedModel(reply(call("run_code", code="import os")), reply("A pity."))
    session = make_session(model, permissions=DenyAll())
    session.ask("Do it.")
    notebook = notebook_of(source_of(session), tmp_path)

    assert [cell.cell_type for cell in notebook.cells].count("code") == 0
    assert any("import os" in cell.source for cell in notebook.cells)


def test_the_users_cells_stand_where_they_were_first_run(tmp_path: Path) -> None:
    """Each stands before the prompts that came after it; lines that load the program are gone."""
    session = make_session(ScriptedModel(reply("One."), reply("Two.")))
    session.ask("First.")
    at = session.clock.now() + 1
    session.clock.time += 10
    session.ask("Second.")
    stopped = {"output_type": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
    cells = [
        Cell("a", "%load_ext jupyter_ctx\nx = 1", 1, 1, changed_at=0.5),
        Cell("b", "x + 1", 2, 2, changed_at=at),
        Cell("c", "%agent hello", 3, 3, changed_at=at, is_agent=True),
        Cell("d", "%load_ext jupyter_ctx", 4, 4, changed_at=at),
        Cell("e", "while True: pass", 5, 5, (stopped,), True, changed_at=at + 1),
    ]
    items = read_conversation(source_of(session, *cells)).items

    said = [str(getattr(item, "source", "") or getattr(item, "text", "")).strip() for item in items]
    assert said == ["x = 1", "First.", "One.", "x + 1", "while True: pass", "Second.", "Two."]
    whole = [item.is_whole for item in items if isinstance(item, Code)]
    assert whole == [True, True, False]


def test_a_cell_that_the_agent_ran_is_code_with_its_source(tmp_path: Path) -> None:
    """What `run_cell` ran is the source of its cell, and its outputs come without our words."""
    told = ToolOutput("[cell b ran; its outputs, shown here only]\n4\n")
    model = ScriptedModel(
        reply(call("run_cell", cell_id="b"), call("run_cell", cell_id="gone")), reply("Four.")
    )
    tools = FakeTools(run_cell=lambda cell_id: told)
    session = make_session(model, tools=tools)
    session.ask("Run it.")
    source = replace(source_of(session), sources={"b": "2 + 2"})
    items = read_conversation(source).items

    assert [item.source for item in items if isinstance(item, Code)] == ["2 + 2"]
    assert [item.name for item in items if isinstance(item, Step)] == ["run_cell"]
    code = [c for c in notebook_of(source, tmp_path).cells if c.cell_type == "code"]
    assert [out["text"] for cell in code for out in cell.outputs] == ["4\n"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MIMES = st.sampled_from(
    ["text/plain", "text/html", "image/png", "application/json", "application/x+json", "odd", ""]
)
OUTPUTS = st.fixed_dictionaries(
    {},
    optional={
        "output_type": st.sampled_from(["stream", "error", "display_data", "execute_result", "x"]),
        "name": JSON,
        "text": JSON,
        "ename": JSON,
        "evalue": JSON,
        "traceback": JSON,
        "data": st.dictionaries(MIMES, JSON, max_size=3) | JSON,
        "metadata": JSON,
        "extra": JSON,
    },
)


@given(OUTPUTS)
def test_whatever_was_stored_makes_a_valid_output(output: dict[str, object]) -> None:
    """An output of any form is written as nbformat has it, or left out."""
    made = clean_output(output)
    cell = nbformat.v4.new_code_cell("1", id="a")
    cell["outputs"] = [] if made is None else [nbformat.from_dict(made)]

    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


def test_a_long_text_keeps_both_ends() -> None:
    """A text over the bound says how much is left out."""
    text = cut("a" * 600 + "b" * 600, 1_000)

    assert text.startswith("a" * 500 + "\n[… 200 characters are left out …]\n")
    assert text.endswith("b" * 500)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Compare: sales / 2024?", "compare-sales-2024"),
        ("../../etc/passwd", "etc-passwd"),
        ("Ümläute und 日本語", "ümläute-und-日本語"),
        ("con", "session-con"),
        ("…\x1b[31m\u202e", "31m"),
        ("", "session"),
        ("\ud800", "session"),
        ("x" * 500, "x" * 60),
    ],
)
def test_a_title_makes_a_plain_name(title: str, name: str) -> None:
    """A name has letters, digits and hyphens, whatever the title holds."""
    assert name_of(title, ".md") == f"{name}.md"


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """It is named, with a free name beside it; a dangling link is there too; `over` replaces."""
    path = tmp_path / "a.md"
    path.write_text("mine")
    (tmp_path / "a-2.md").symlink_to(tmp_path / "nowhere")

    with pytest.raises(StoreError, match=r"a\.md is there already.*a-3\.md"):
        save_file(path, b"new")
    assert path.read_text() == "mine"
    with pytest.raises(StoreError, match="there already"):
        save_file(tmp_path / "a-2.md", b"new")
    save_file(path, b"new", over=True)
    assert path.read_text() == "new"
    assert find_free(path).name == "a-3.md"
    assert sorted(os.listdir(tmp_path)) == ["a-2.md", "a.md"]


def test_without_hard_links_nothing_is_written_over_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that has none the name is taken first, so the law holds there as well."""

    def refuse(*names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a.md"
    save_file(path, b"one")
    with pytest.raises(StoreError, match="there already"):
        save_file(path, b"two")

    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_folder_that_cannot_be_written_keeps_no_half_file(tmp_path: Path) -> None:
    """A failure is one sentence that names the file."""
    with pytest.raises(StoreError, match="could not be written"):
        save_file(tmp_path / "none" / "a.md", b"x")
    (tmp_path / "a.md").mkdir()
    with pytest.raises(StoreError):
        save_file(tmp_path / "a.md", b"x", over=True)

    assert os.listdir(tmp_path) == ["a.md"]


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    """The forms there are are named, and nothing is written."""
    session = make_session(ScriptedModel(reply("One.")))
    session.ask("Hello.")

    with pytest.raises(PromptError, match=r"\.ipynb, \.md, \.jsonl"):
        writer().save(source_of(session), tmp_path / "a.html")
    assert os.listdir(tmp_path) == []


def test_own_keys_are_in_no_form(tmp_path: Path) -> None:
    """A key that got into the transcript is in no export, and the lines stay entries."""
    key = 'key-"0123456789'
    session = make_session(ScriptedModel(reply(f"It is {key}.")))
    session.ask(f"Mine is {key}.")
    source = source_of(session, Cell("a", f"k = '{key}'", 1, 1), redactor=Redactor([key]))
    for suffix in (".ipynb", ".md", ".jsonl"):
        text = writer().save(source, tmp_path / f"a{suffix}").path.read_text(encoding="utf-8")
        assert key not in text
        assert json.dumps(key)[1:-1] not in text
        assert "redacted: ANTHROPIC_API_KEY" in text.replace("\\", "")
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert len([json.loads(line) for line in lines]) == len(source.entries)


def test_the_shell_exports_a_stored_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By id, by notebook, or the newest of this folder; nothing of the session is changed."""
    home, here = tmp_path / "ctx", tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    stored = SessionStore(home).create("one", notebook=str(here / "n.ipynb"), cwd=str(here))
    session = make_session(
        ScriptedModel(reply(call("run_code", code="1 + 1")), reply("Two.")),
        store=stored,  # type: ignore[arg-type]  # the real one takes the fake's place
        entries=stored.entries,
    )
    session.ask("One and one?")
    before = (home / "sessions" / "one" / "transcript.jsonl").read_bytes()
    environ = {"JUPYTER_CTX_HOME": str(home)}

    def shell(wanted: str | None, output: Path | None, force: bool) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        status = export(wanted, output, force, environ, out, err)
        return status, out.getvalue(), err.getvalue()

    assert shell(None, None, False)[:2] == (
        0,
        "Exported to one-and-one.ipynb: 1 prompt, 1 piece of code with outputs.\n",
    )
    assert shell("one", Path("b.jsonl"), False)[0] == 0
    assert shell(str(here / "n.ipynb"), Path("c.md"), False)[0] == 0
    status, _, said = shell("one", Path("c.md"), False)
    assert status == 1
    assert "c-2.md" in said
    assert shell("one", Path("c.md"), True)[0] == 0
    assert shell("two", Path("d.md"), False)[0] == 1
    assert sorted(os.listdir(here)) == ["b.jsonl", "c.md", "one-and-one.ipynb"]
    assert (here / "b.jsonl").read_bytes() == before
    assert (home / "sessions" / "one" / "transcript.jsonl").read_bytes() == before


@pytest.mark.parametrize(("suffix", "most"), [(".ipynb", OUTPUT_CHARS), (".md", PAGE_CHARS)])
def test_no_part_of_a_key_is_left_where_a_text_is_cut(
    tmp_path: Path, suffix: str, most: int
) -> None:
    """A key on the border of what is left out of a long output is taken out before it is cut."""
    key = "topsecret-" + "".join(f"{n:02}" for n in range(15))
    at = most // 2 - 20
    text = "x" * at + key + "y" * (2 * most) + key + "z" * at
    session = make_session(ScriptedModel(reply(call("run_code", code="1")), reply("One.")))
    session.ask("Go.")
    output = {"output_type": "stream", "name": "stdout", "text": text}
    cell = Cell("mine", "print(secret)", 1, 1, outputs=(output,))
    source = source_of(session, cell, redactor=Redactor([key]))

    path = writer().save(source, tmp_path / f"n{suffix}").path

    written = path.read_text("utf-8")
    assert "characters are left out" in written
    assert "topsecret" not in written
    assert key[-4:] not in written


def test_stored_outputs_that_are_none_are_left_out(tmp_path: Path) -> None:
    """A stored result whose file was edited is exported as far as it holds outputs."""
    odd: list[Any] = [None, 1, "x", [], {}, {"output_type": "stream"}, {"output_type": "error"}]
    whole = {"output_type": "stream", "name": "stdout", "text": "whole\n"}
    stored = SessionStore(tmp_path).create("a")
    model = ScriptedModel(reply(ToolUse("toolu_1", "run_code", {"code": "1"})), reply("One."))
    session = make_session(model)
    session.ask("Go.")
    stored.save_result("toolu_1", "run_code", ToolOutput("whole", outputs=(*odd, whole)))
    source = replace(source_of(session), texts=stored)

    notebook = notebook_of(source, tmp_path)
    writer().save(source, tmp_path / "n.md")
    stored.close()

    (code,) = (cell for cell in notebook.cells if cell.cell_type == "code")
    assert code.outputs[-1]["text"] == "whole\n"
    assert "whole" in (tmp_path / "n.md").read_text("utf-8")
