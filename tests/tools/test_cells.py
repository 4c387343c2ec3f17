"""Laws of the tools that change cells: seen before, read back after, told with place and undo."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.ports import (
    Applied,
    CellChange,
    InsertCell,
    NotebookCell,
    ToolOutput,
)
from jupyter_ctx.errors import ToolError, UnreadError
from jupyter_ctx.testing import FakeKernel, FakeNotebook
from jupyter_ctx.tools import Registry, make_tools
from jupyter_ctx.tools.seen import Seen

from .examples import Texts


class Scene:
    """The tools over a notebook of cells a, b (Markdown) and c; all of them seen unless said."""

    def __init__(self, *, seen: bool = True, notebook: FakeNotebook | None = None) -> None:
        self.kernel = FakeKernel()
        self.notebook = notebook or FakeNotebook()
        self.notebook.cells = [
            NotebookCell("a", "code", "x = 1", 1, ({"output_type": "stream", "text": "o"},)),
            NotebookCell("b", "markdown", "# Title"),
            NotebookCell("c", "code", "print('hi')"),
        ]
        self.seen = Seen()
        if seen:
            for cell in self.notebook.cells:
                self.seen.mark("cell", cell.id, cell.source)
        self.tools: Registry = make_tools(
            self.kernel, Texts(), Settings(), notebook=self.notebook, seen=self.seen
        )

    def call(self, name: str, **arguments: object) -> ToolOutput:
        """Run one call."""
        return asyncio.run(self.tools.run(ToolUse("toolu_1", name, arguments), 50_000))

    def said(self, name: str, **arguments: object) -> str:
        """Run one call that succeeds and return what the model is told."""
        output = self.call(name, **arguments)
        assert isinstance(output.text, str)
        assert not output.is_error
        return output.text

    def refused(self, name: str, **arguments: object) -> str:
        """Run one call that is refused and return why."""
        with pytest.raises(ToolError) as caught:
            self.call(name, **arguments)
        return str(caught.value)

    def finish(self) -> list[str]:
        """End the turn and return what the user is told."""
        return list(asyncio.run(self.tools.finish_turn()))

    @property
    def ids(self) -> list[str]:
        """The notebook's cells, in order."""
        return [cell.id for cell in self.notebook.cells]

    def source(self, cell_id: str) -> str:
        """Return a cell's present source."""
        return next(cell.source for cell in self.notebook.cells if cell.id == cell_id)

    def type(self, cell_id: str, source: str) -> None:
        """Change a cell as the user does."""
        cells = self.notebook.cells
        cells[:] = [replace(cell, source=source) if cell.id == cell_id else cell for cell in cells]


def test_a_cell_is_inserted_where_asked() -> None:
    """C24: below the cell that is named, else at the end; id, place and neighbours are told."""
    scene = Scene()
    below = scene.said("insert_cell", source="y = 2\n", after="a")
    at_end = scene.said("insert_cell", source="# End", cell_type="markdown")

    assert scene.ids == ["a", "new-1", "b", "c", "new-2"]
    assert below == (
        "Inserted code cell `new-1`: 2 of 4, between `a` and `b`. "
        "Read back as written (2 lines); not run."
    )
    assert at_end == (
        "Inserted markdown cell `new-2`: 5 of 5, at the end, below `c`. "
        "Read back as written (1 line)."
    )


def test_a_place_that_is_gone_is_named_by_its_neighbours() -> None:
    """C24: below a deleted cell nothing is inserted; the error names valid neighbours."""
    scene = Scene()
    scene.said("delete_cell", cell_id="b")

    said = scene.refused("insert_cell", source="y", after="b")

    assert said == "Cell `b` is no longer in the notebook. It stood between `a` and `c`."
    assert scene.ids == ["a", "c"]
    scene.said("delete_cell", cell_id="c")
    assert "It stood at the end, below `a`." in scene.refused("move_cell", cell_id="b")


def test_a_place_the_user_deleted_is_named_too() -> None:
    """So is one that was there at an earlier look, whoever deleted it."""
    scene = Scene()
    scene.said("move_cell", cell_id="c", after="b")
    del scene.notebook.cells[0]

    assert "It stood at the top, above `b`." in scene.refused("run_cell", cell_id="a")


def test_an_unknown_cell_lists_near_ids() -> None:
    """The error names near ids; nothing is done."""
    scene = Scene()

    assert "There is no cell `aa`. Nearest: `a`" in scene.refused(
        "edit_cell", cell_id="aa", source=""
    )
    scene.notebook.cells.clear()
    assert "no cell of the notebook is known" in scene.refused("run_cell", cell_id="a")


def test_what_was_not_seen_is_not_written_over() -> None:
    """A cell whose present source the model does not know is told, not changed; then it may be."""
    scene = Scene(seen=False)
    for name, arguments in (("edit_cell", {"source": "no"}), ("delete_cell", {})):
        said = scene.refused(name, cell_id="a" if name == "edit_cell" else "c", **arguments)
        assert "was not read yet in its present form" in said
        assert said.endswith("x = 1" if name == "edit_cell" else "print('hi')")
    assert scene.ids == ["a", "b", "c"]

    scene.said("edit_cell", cell_id="a", source="x = 2")
    scene.said("delete_cell", cell_id="c")

    assert scene.source("a") == "x = 2"
    assert scene.ids == ["a", "b"]


@pytest.mark.parametrize("tool", ["edit_cell", "delete_cell"])
def test_of_a_long_cell_a_refusal_shows_the_head_only(tool: str) -> None:
    """What was shown in part only is not seen: the refusal stays, until it was read whole."""
    scene, more = Scene(), {"source": "x = 2"} if tool == "edit_cell" else {}
    long = "\n".join(f"value_{n} = {n}" for n in range(4_000))
    scene.notebook.cells[0] = replace(scene.notebook.cells[0], source=long)

    first, second = (scene.refused(tool, cell_id="a", **more) for _ in range(2))

    assert first == second
    assert len(first) <= 12_000
    assert "value_0 = 0" in first
    assert scene.source("a") == long
    start = 1
    while start <= 4_000:
        page = scene.said("read_cell", cell_id="a", start_line=start)
        start = int(page.rsplit("value_", 1)[1].split(" ")[0]) + 2
    scene.said(tool, cell_id="a", **more)


def test_what_the_user_wrote_meanwhile_stays() -> None:
    """C22: the write is refused with the present source, and the user's text is untouched."""
    scene = Scene()
    scene.type("a", "x = 'mine'")

    said = scene.refused("edit_cell", cell_id="a", source="x = 2")

    assert "was changed since you saw it" in said
    assert said.endswith("x = 'mine'")
    assert scene.source("a") == "x = 'mine'"


def test_what_the_user_wrote_at_the_last_moment_stays() -> None:
    """Also between the look and the write: the notebook compares once more."""
    scene = Scene()
    scene.notebook.on_apply = lambda: scene.type("a", "x = 'mine'")

    said = scene.refused("edit_cell", cell_id="a", source="x = 2")

    assert "x = 'mine'" in said
    assert scene.source("a") == "x = 'mine'"


def test_an_edit_of_ones_own_needs_no_new_look() -> None:
    """What the model wrote it has seen: edit, insert and edit again without a read."""
    scene = Scene()
    scene.said("insert_cell", source="one")
    scene.said("edit_cell", cell_id="new-1", source="two")
    scene.said("edit_cell", cell_id="new-1", source="three")
    scene.said("delete_cell", cell_id="new-1")

    assert scene.ids == ["a", "b", "c"]


def test_line_ends_are_those_of_an_editor() -> None:
    """CR LF and CR become LF and lone halves of characters are replaced, so a read-back agrees."""
    scene = Scene()

    assert "Read back as written (3 lines)" in scene.said("insert_cell", source="a\r\nb\rc\ud800")
    assert scene.source("new-1") == "a\nb\nc?"
    assert "nothing was changed" in scene.said("edit_cell", cell_id="a", source="x = 1")


def test_a_read_back_that_differs_is_told() -> None:
    """What stands there is told as a difference; the model is never told that it was written."""
    scene = Scene()
    scene.notebook.spoils = True

    said = scene.said("edit_cell", cell_id="a", source="x = 2")

    assert "does not read back as written" in said
    assert "-x = 2\n+x = 2 " in said


def test_a_cell_is_moved() -> None:
    """Below a cell, or to the top; never below itself."""
    scene = Scene()

    assert scene.said("move_cell", cell_id="a", after="c") == (
        "Moved code cell `a`: 3 of 3, at the end, below `c`."
    )
    scene.said("move_cell", cell_id="c")
    assert scene.ids == ["c", "b", "a"]
    assert "below itself" in scene.refused("move_cell", cell_id="c", after="c")


def test_each_change_carries_what_undoes_it() -> None:
    """`edits` hold before and after with the cell above; outputs where the cell is gone."""
    scene = Scene()
    (made,) = scene.call("insert_cell", source="n", after="a").edits
    (edited,) = scene.call("edit_cell", cell_id="a", source="x = 2").edits
    (moved,) = scene.call("move_cell", cell_id="c").edits
    (gone,) = scene.call("delete_cell", cell_id="a").edits

    assert (made.target, made.before) == ("new-1", None)
    assert made.after == json_of("code", "n", "a")
    assert edited.before == json_of("code", "x = 1", None, count=1)
    assert edited.after == json_of("code", "x = 2", None, count=1)
    assert (moved.before or {})["above"] == "b"
    assert (moved.after or {})["above"] is None
    outputs = [{"output_type": "stream", "text": "o"}]
    assert gone.before == json_of("code", "x = 2", "c", count=1, outputs=outputs)
    assert gone.after is None
    assert scene.call("run_cell", cell_id="c").edits == ()


def test_a_deletion_whose_answer_was_lost_can_be_undone_whole() -> None:
    """What the page could not tell of the deleted cell is known from the look before it."""

    class Mute(FakeNotebook):
        """Says nothing of what stood there."""

        async def apply(self, change: CellChange) -> Applied:
            return Applied(replace((await super().apply(change)).cell, type="code"), 0)

    scene = Scene(notebook=Mute())
    output = scene.call("delete_cell", cell_id="b")

    assert output.edits[0].before == json_of("markdown", "# Title", "a")
    assert "which stood between `a` and `c`" in str(output.text)


def json_of(
    kind: str, source: str, above: str | None, count: int | None = None, outputs: Any = ()
) -> dict[str, Any]:
    """Return a cell as an edit holds it."""
    parts: dict[str, Any] = {"count": count, "outputs": list(outputs), "extra": {}}
    return {"type": kind, "source": source, "above": above, **parts}


def test_a_cell_runs_at_once_and_shows_it_when_the_turn_has_ended() -> None:
    """Its outputs come back now; they are put into the cell at the end of the turn, once."""
    scene = Scene()
    said = scene.said("run_cell", cell_id="c")
    assert said == "[cell c ran; its outputs, they go into the cell when the turn has ended]\nhi\n"
    assert not scene.notebook.cells[2].outputs

    assert scene.finish() == []
    assert scene.notebook.cells[2].outputs == (
        {"output_type": "stream", "name": "stdout", "text": "hi\n"},
    )
    scene.notebook.cells[2] = NotebookCell("c", "code", "print('hi')")
    assert scene.finish() == []
    assert not scene.notebook.cells[2].outputs


def test_the_present_source_runs() -> None:
    """X7: an edited cell runs as it stands now; a failing one is an error with what it raised."""
    scene = Scene()
    scene.type("a", "1 / 0")

    output = scene.call("run_cell", cell_id="a")

    assert output.is_error
    assert "ZeroDivisionError" in str(output.text)


def test_what_the_user_was_not_asked_about_does_not_run() -> None:
    """A source that was changed after the user was asked about the cell is told, and not run."""
    scene = Scene()
    scene.seen.note_asked("a", "x = 1")
    scene.type("a", "x = 2")

    assert scene.refused("run_cell", cell_id="a").endswith("run it again.\n\nx = 2")
    assert "x" not in scene.kernel.namespace
    scene.seen.note_asked("a", "x = 2")
    scene.said("run_cell", cell_id="a")
    assert scene.kernel.namespace["x"] == 2


def test_outputs_that_cannot_be_put_into_the_cell_are_told() -> None:
    """A cell that changed or is gone keeps its own outputs; the user is told why."""
    scene = Scene()
    scene.said("run_cell", cell_id="a")
    scene.said("run_cell", cell_id="c")
    scene.type("a", "x = 3")
    del scene.notebook.cells[2]

    notes = scene.finish()

    assert [note.split(" were")[0] for note in notes] == [
        "The outputs of cell a",
        "The outputs of cell c",
    ]
    assert scene.notebook.cells[0].outputs == ({"output_type": "stream", "text": "o"},)


@pytest.mark.parametrize("source", ["%agent go", "  %%agent\ngo", "%%agent"])
def test_a_prompt_does_not_run_within_a_turn(source: str) -> None:
    """A cell that asks the agent is refused, and so is one that is no code."""
    scene = Scene()
    scene.type("a", source)

    assert "asks the agent" in scene.refused("run_cell", cell_id="a")
    assert "is markdown" in scene.refused("run_cell", cell_id="b")


def test_without_a_notebook_nothing_is_ever_done() -> None:
    """C25: what a front end may do later is told as that; else "not applied"; never "done"."""

    class Handed(FakeNotebook):
        async def apply(self, change: CellChange) -> Applied:
            if isinstance(change, InsertCell):
                raise UnreadError("Not applied yet: handed on.")
            raise ToolError("Not applied: no front end.")

    scene = Scene()
    tools = make_tools(
        scene.kernel, Texts(), Settings(), notebook=Handed(scene.notebook.cells), seen=scene.seen
    )
    handed = asyncio.run(tools.run(ToolUse("t", "insert_cell", {"source": "x"}), 50_000))
    assert handed.text == "Not applied yet: handed on."
    assert handed.edits == ()
    with pytest.raises(ToolError, match="Not applied"):
        asyncio.run(tools.run(ToolUse("t", "edit_cell", {"cell_id": "a", "source": ""}), 50_000))


def test_each_kind_of_change_asks_on_its_own() -> None:
    """C29: five groups, so that leave to edit is none to delete or to run."""
    specs = {spec.name: spec for spec in Scene().tools.specs}
    names = ("insert_cell", "edit_cell", "delete_cell", "move_cell", "run_cell")

    assert [specs[name].permission for name in names] == [
        "insert cells",
        "edit cells",
        "delete cells",
        "move cells",
        "run cells",
    ]
    assert not any(specs[name].reads_only for name in names)


def test_an_empty_notebook_takes_a_first_cell() -> None:
    """Without any known cell a new one may still be asked for; it stands alone."""
    scene = Scene()
    scene.notebook.cells.clear()

    assert "1 of 1, alone." in scene.said("insert_cell", source="x")


def test_where_no_front_end_shows_the_cell_its_outputs_are_shown_once() -> None:
    """A cell still runs as the kernel knows it; nothing waits for the turn's end."""
    scene = Scene()
    scene.notebook.source = "kernel"

    assert "shown here only" in scene.said("run_cell", cell_id="c")
    assert scene.finish() == []
