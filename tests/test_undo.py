"""Undo: what the agent changed comes back exactly, and nobody else's words are ever lost."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.config import Settings
from jupyter_ctx.core.edits import STORED_CHARS
from jupyter_ctx.core.entries import Edit, EditEntry, EditUndoneEntry
from jupyter_ctx.core.ports import EditCell, NotebookCell, ToolOutput
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import BusyError, CompactionError, PromptError, UndoError
from jupyter_ctx.store.codec import dump_line, load_line
from jupyter_ctx.testing import (
    DenyAll,
    FakeFiles,
    FakeKernel,
    FakeNotebook,
    FakeTools,
    MemoryStore,
    ScriptedModel,
    call,
    make_session,
    reply,
)
from jupyter_ctx.tools import make_tools
from jupyter_ctx.tools.files import FileTools
from jupyter_ctx.tools.filestate import ProjectFiles
from jupyter_ctx.tools.project import Project
from jupyter_ctx.tools.seen import Seen

OUTPUT = {"output_type": "stream", "name": "stdout", "text": "1\n"}
CELLS = (
    NotebookCell("a", "markdown", "# Title"),
    NotebookCell("b", "code", "x = 1", 1, (OUTPUT,), extra={"metadata": {"tags": ["keep"]}}),
    NotebookCell("c", "code", "y = 2"),
)


class NoTexts:
    """A session that has stored nothing."""

    def read_text(self, name):
        return None

    def names(self):
        return ()


class World:
    """A session whose agent has the real tools over a notebook in memory and a folder on disk."""

    def __init__(self, root, *answers, **more):
        self.root = root
        self.notebook = FakeNotebook(list(CELLS))
        project = Project(str(root))
        kernel, seen = FakeKernel(), Seen()
        for cell in CELLS:
            seen.mark("cell", cell.id, cell.source)
        files = FileTools(project, seen)
        tools = make_tools(
            kernel, NoTexts(), Settings(), notebook=self.notebook, seen=seen, files=files
        )
        self.session = make_session(
            ScriptedModel(*answers),
            tools=tools,
            kernel=kernel,
            notebook=self.notebook,
            files=ProjectFiles(project),
            **more,
        )

    def state(self):
        """Everything that an undo puts back."""
        files = {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
        }
        return list(self.notebook.cells), files

    def act(self, name, **arguments):
        """Let the agent make one call, in a turn of its own."""
        self.session.model.answers += [reply(call(name, **arguments)), reply("Done.")]
        return self.session.ask(f"do {name}")


@pytest.fixture
def world(tmp_path):
    (tmp_path / "f.txt").write_bytes(b"one\r\ntwo\r\n")
    made = World(tmp_path)
    made.act("read_file", path="f.txt")
    return made


EDITS = [
    ("insert_cell", {"source": "z", "after": "a"}),
    ("insert_cell", {"source": "top"}),
    ("edit_cell", {"cell_id": "b", "source": "x = 2"}),
    ("delete_cell", {"cell_id": "b"}),
    ("delete_cell", {"cell_id": "a"}),
    ("move_cell", {"cell_id": "c"}),
    ("move_cell", {"cell_id": "a", "after": "c"}),
    ("write_file", {"path": "f.txt", "text": "other\n"}),
    ("write_file", {"path": "new/g.txt", "text": "new\n"}),
    ("edit_file", {"path": "f.txt", "old": "two", "new": "2"}),
]


@pytest.mark.parametrize(("name", "arguments"), EDITS)
def test_each_edit_comes_back_exactly(world, name, arguments):
    """One edit, one entry, one undo: cells with outputs, place and metadata, files to the byte."""
    before = world.state()
    world.act(name, **arguments)
    (entry,) = world.session.transcript.edits
    assert world.state() != before
    assert (entry.n, entry.turn) == (1, 2)

    undo = world.session.undo()

    assert world.state() == before
    assert (undo.n, undo.left) == (1, 0)
    assert world.session.transcript.undone_edits == {1}
    with pytest.raises(PromptError, match="no edit of the agent to undo"):
        world.session.undo()


@settings(deadline=None, max_examples=25)
@given(picks=st.lists(st.sampled_from(EDITS), max_size=7), rewinds=st.booleans())
def test_any_edits_come_back(tmp_path_factory, picks, rewinds):
    """However many, in any order, refused ones among them: undone newest first, all is as before.

    By one `/rewind` as by as many `/undo`.
    """
    root = tmp_path_factory.mktemp("any")
    (root / "f.txt").write_bytes(b"one\r\ntwo\r\n")
    world = World(root)
    world.act("read_file", path="f.txt")
    before = world.state()
    for name, arguments in picks:
        world.act(name, **arguments)
    if rewinds and picks:
        rewind = world.session.rewind(2)
        assert rewind.not_put_back == ()
        assert len(rewind.put_back) == len(world.session.transcript.edits)
    while len(world.session.transcript.undone_edits) < len(world.session.transcript.edits):
        world.session.undo()
    assert world.state() == before


def test_undo_works_after_a_restart(tmp_path):
    """From the stored lines alone, in another process, also where long texts lie in the store."""
    long = "line\n" * STORED_CHARS
    (tmp_path / "f.txt").write_text(long)
    store = MemoryStore()
    world = World(tmp_path, store=store)
    world.act("read_file", path="f.txt")
    before = world.state()
    world.act("write_file", path="f.txt", text=long + "more\n")
    world.act("delete_cell", cell_id="b")
    kept = [entry for entry in store.entries if isinstance(entry, EditEntry)]
    assert {name for name in store.texts if name.startswith("edit-")} == {
        "edit-1-before",
        "edit-1-after",
    }
    assert all(len(dump_line(entry)) < STORED_CHARS for entry in kept)

    entries = [load_line(dump_line(entry)) for entry in store.entries]
    again = World(tmp_path, store=store, entries=entries)
    again.notebook.cells = world.notebook.cells
    again.session.undo()
    again.session.undo()

    assert again.state() == before


def changed_cell(world):
    world.act("edit_cell", cell_id="b", source="x = 2")
    world.notebook.cells[1] = replace(world.notebook.cells[1], source="mine")


def changed_new_cell(world):
    world.act("insert_cell", source="z", after="c")
    world.notebook.cells[-1] = replace(world.notebook.cells[-1], source="mine")


def gone_cell(world):
    world.act("edit_cell", cell_id="b", source="x = 2")
    del world.notebook.cells[1]


def moved_cell(world):
    world.act("move_cell", cell_id="c")
    world.notebook.cells.reverse()


def changed_file(world):
    world.act("edit_file", path="f.txt", old="two", new="2")
    (world.root / "f.txt").write_text("mine")


def changed_new_file(world):
    world.act("write_file", path="g.txt", text="x")
    (world.root / "g.txt").write_text("mine")


def gone_file(world):
    world.act("edit_file", path="f.txt", old="two", new="2")
    (world.root / "f.txt").unlink()


def no_page(world):
    world.act("edit_cell", cell_id="b", source="x = 2")
    world.notebook.source = "kernel"


CONFLICTS = [
    changed_cell,
    changed_new_cell,
    gone_cell,
    moved_cell,
    changed_file,
    changed_new_file,
    gone_file,
    no_page,
]


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_what_somebody_else_did_is_never_lost(world, conflict):
    """Where it is not as the agent left it, nothing is touched; the older edit can be undone."""
    world.act("write_file", path="h.txt", text="h\n")
    conflict(world)
    before = world.state()

    with pytest.raises(UndoError, match=r"Not undone: .* \(edit 2\)\. .* `/undo 1` undoes the new"):
        world.session.undo()

    assert world.state() == before
    assert world.session.transcript.undone_edits == set()
    assert world.session.undo(1).n == 1
    assert not (world.root / "h.txt").exists()


def test_a_change_during_the_undo_is_not_lost(world):
    """What the user types while it is applied makes the front end refuse, and so the undo."""
    world.act("edit_cell", cell_id="b", source="x = 2")

    def type_something():
        world.notebook.cells[1] = replace(world.notebook.cells[1], source="mine")

    world.notebook.on_apply = type_something
    with pytest.raises(UndoError, match="mine"):
        world.session.undo()
    assert world.notebook.cells[1].source == "mine"


@pytest.mark.parametrize(("name", "arguments"), EDITS)
def test_what_the_user_undid_by_hand_counts_as_undone(world, name, arguments):
    """Where it is already as it was, nothing is done twice and the next undo goes on."""
    cells, files = world.state()
    world.act(name, **arguments)
    world.notebook.cells = list(cells)
    for path in world.root.iterdir():
        if path.is_dir():
            (path / "g.txt").unlink()
            path.rmdir()
    (world.root / "f.txt").write_bytes(files["f.txt"])

    assert world.session.undo().n == 1
    assert world.state() == (cells, files)


def test_a_number_that_is_none_is_named():
    """An unknown or undone number is an error that lists those there are."""
    edits = tuple(Edit("file", f"/p/{n}", None, {"text": str(n)}) for n in (1, 2))
    tools = FakeTools(change=lambda: ToolOutput("Done.", edits=edits))
    files = FakeFiles({edit.target: edit.after for edit in edits})
    session = make_session(
        ScriptedModel(reply(call("change")), reply("Done.")), tools=tools, files=files
    )
    session.ask("go")
    assert [entry.n for entry in session.transcript.edits] == [1, 2]
    assert session.plan_undo_edit().n == 2
    session.undo(2)

    with pytest.raises(PromptError, match=r"Edit 2 is undone already; .* undone: 1\."):
        session.undo(2)
    with pytest.raises(PromptError, match="There is no edit 9"):
        session.plan_undo_edit(9)
    session._is_running = True
    with pytest.raises(BusyError):
        session.undo()


def test_a_key_is_never_stored(tmp_path):
    """A text with a key of the program is undone in this process, and elsewhere named as lost."""
    key = "sk-0123456789"
    (tmp_path / "f.txt").write_text(f"KEY = {key}\n")
    store, redactor = MemoryStore(), Redactor([key])
    world = World(tmp_path, store=store, redactor=redactor)
    world.act("read_file", path="f.txt")
    world.act("edit_file", path="f.txt", old="KEY = ", new="TOKEN = ")
    assert key not in "".join(dump_line(e).decode() for e in store.entries)
    assert key not in "".join(store.texts.values())

    again = World(tmp_path, store=store, redactor=redactor, entries=store.entries)
    with pytest.raises(UndoError, match="held a key, which is not stored"):
        again.session.undo()
    world.session.undo()
    assert (tmp_path / "f.txt").read_text() == f"KEY = {key}\n"


def test_a_text_that_cannot_be_stored_costs_a_warning(tmp_path):
    """With a full disk the turn goes on; an undo without its text says so, and changes nothing."""
    (tmp_path / "f.txt").write_text("x" * 2 * STORED_CHARS)
    store = MemoryStore()
    world = World(tmp_path, store=store)
    world.act("read_file", path="f.txt")
    store.fails = True
    assert world.act("write_file", path="f.txt", text="short").outcome == "done"

    with pytest.raises(UndoError, match="cannot be read"):
        world.session.undo()
    assert (tmp_path / "f.txt").read_text() == "short"


def test_large_outputs_of_a_deleted_cell_go_to_the_store(tmp_path):
    """A transcript is read whole, so a picture of a deleted cell is no part of it."""
    world = World(tmp_path)
    large = {"output_type": "display_data", "data": {"image/png": "A" * STORED_CHARS}}
    world.notebook.cells[1] = replace(world.notebook.cells[1], outputs=(large,))
    before = world.state()
    world.act("delete_cell", cell_id="b")
    assert "edit-1-before" in world.session.store.texts

    world.session.undo()
    assert world.state() == before


# What the model is told -------------------------------------------------------------------------


def notices(session):
    """What was told beside the words of the newest prompt."""
    message = session.model.requests[-1].messages[-1]
    return [block.text for block in message.content if block.part == "notebook"]


def test_the_next_prompt_tells_of_an_undo(world):
    """Once, also after a restart in between, and again if that prompt was taken back."""
    world.act("edit_cell", cell_id="b", source="x = 2")
    world.act("write_file", path="g.txt", text="x")
    world.session.undo()
    world.session.undo()
    told = [
        "The user undid the new file `g.txt`, which you made: it is as before.",
        "The user undid the edit of cell `b`, which you made: it is as before.",
    ]
    again = World(world.root, reply("Yes."), entries=world.session.store.entries)
    again.session.ask("and?")
    assert notices(again.session) == told

    world.session.model.answers += [reply("Yes."), reply("Yes."), reply("Yes.")]
    world.session.ask("and?")
    assert notices(world.session) == told
    world.session.ask("and?")
    assert notices(world.session) == []
    world.session.rewind(4)
    world.session.ask("and?")
    assert notices(world.session) == told


def test_a_turn_tells_which_cells_it_changed(world):
    """`last_turn.cells` are the cells of its edits."""
    world.act("insert_cell", source="z")

    assert world.session.last_turn.cells == (world.notebook.cells[-1].id,)


# Rewind -----------------------------------------------------------------------------------------


def test_a_rewind_takes_edits_back_and_says_what_ran(world):
    """Cells and files are as before that turn; code that ran is counted by tool; no notice."""
    before = world.state()
    world.act("edit_cell", cell_id="b", source="x = 2")
    world.act("run_code", code="x = 5")
    world.act("run_cell", cell_id="b")
    world.act("run_cell", cell_id="nowhere")
    world.act("write_file", path="g.txt", text="x")
    plan = world.session.plan_rewind(2)
    assert [entry.n for entry in plan.edits] == [2, 1]
    assert world.state() != before

    rewind = world.session.rewind(2)

    assert world.state() == before
    assert rewind.put_back == (2, 1)
    assert dict(rewind.ran)["run_code"] == 1
    world.session.model.answers.append(reply("Yes."))
    world.session.ask("and?")
    assert notices(world.session) == []


def test_a_rewind_names_what_it_cannot_put_back_and_goes_on(world):
    """One place that somebody changed stays, with its older edits; all others come back."""
    world.act("edit_file", path="f.txt", old="one", new="1")
    world.act("edit_file", path="f.txt", old="two", new="2")
    world.act("edit_cell", cell_id="b", source="x = 2")
    (world.root / "f.txt").write_text("mine")

    rewind = world.session.rewind(2)

    assert rewind.put_back == (3,)
    assert [n for n, _ in rewind.not_put_back] == [2, 1]
    assert "later edit" in rewind.not_put_back[1][1]
    assert (world.root / "f.txt").read_text() == "mine"
    assert world.notebook.cells == list(CELLS)
    assert world.session.transcript.turns == (1,)


def test_denied_code_did_not_run(tmp_path):
    """A call that the user denied is not among what cannot be undone."""
    session = make_session(
        ScriptedModel(reply(call("run_code", code="1")), reply("Hm.")), permissions=DenyAll()
    )
    session.ask("go")

    assert session.plan_rewind(1).ran == ()


def test_a_rewind_that_does_not_fit_touches_no_edit(world, monkeypatch):
    """It is refused before anything is put back."""
    world.act("edit_cell", cell_id="b", source="x = 2")
    before = world.state()
    monkeypatch.setattr("jupyter_ctx.core.rewind.Rewind.refusal", "It does not fit.")

    with pytest.raises(CompactionError, match="does not fit"):
        world.session.rewind(2)
    assert world.state() == before


def test_an_undo_is_recorded_only_once_done(world):
    """A front end that fails half-way leaves no entry that says it was undone."""
    world.act("edit_cell", cell_id="b", source="x = 2")
    asyncio.run(world.notebook.apply(EditCell("b", "other", "x = 2")))

    with pytest.raises(UndoError):
        world.session.undo()
    assert not any(isinstance(e, EditUndoneEntry) for e in world.session.transcript.entries)
