"""Laws of the headless page: what it tells, does and refuses, as bridge.ts does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_ctx.headless.documents import load_document, save_document
from jupyter_ctx.headless.front import split_answer
from jupyter_ctx.headless.page import NotebookPage, build_cell
from jupyter_ctx.ipython.frontend import MAX_CHARS, MAX_PARTS, read_part


def make_page() -> NotebookPage:
    cells = [build_cell(name, "code", f"{name} = 1", {}) for name in ("a", "b", "c")]
    return NotebookPage([nbformat.from_dict(cell) for cell in cells], "/n/out.ipynb")


def ids(page: NotebookPage) -> list[str]:
    return [cell["id"] for cell in page.cells]


def done(page: NotebookPage, op: str, **args: Any) -> dict[str, Any]:
    """Do what must be done, and return the result."""
    answer = page.respond(op, args)
    assert answer["ok"], answer
    result: dict[str, Any] = answer["result"]
    return result


def refusal(page: NotebookPage, op: str, **args: Any) -> dict[str, Any]:
    """Ask for what must be refused, with nothing changed; return the error."""
    before = json.dumps(page.cells)
    answer = page.respond(op, args)
    assert not answer["ok"], answer
    assert json.dumps(page.cells) == before
    error: dict[str, Any] = answer["error"]
    return error


def test_every_change_tells_where_the_cell_stands() -> None:
    """Place, neighbours and what was before come back, as the document then has them."""
    page = make_page()

    new = done(page, "insert_cell", source="x\r\ny", type="code", after="a", id="new")
    moved = done(page, "move_cell", cell_id="c", after=None)
    edited = done(page, "edit_cell", cell_id="b", source="b = 2", expected="b = 1")
    gone = done(page, "delete_cell", cell_id="a", expected="a = 1")

    assert (new["index"], new["above"], new["below"], new["before"]) == (1, "a", "b", None)
    assert new["cell"]["source"] == "x\ny"
    assert (moved["index"], moved["above_before"], moved["below"]) == (0, "b", "a")
    assert (edited["before"]["source"], edited["cell"]["source"]) == ("b = 1", "b = 2")
    assert (gone["index"], gone["above"], gone["below"]) == (1, "c", "new")
    assert ids(page) == ["c", "new", "b"]


@pytest.mark.parametrize(
    ("op", "args", "kind"),
    [
        ("edit_cell", {"cell_id": "b", "source": "2", "expected": "other"}, "stale"),
        ("delete_cell", {"cell_id": "b", "expected": "other"}, "stale"),
        ("delete_cell", {"cell_id": "z", "expected": ""}, "no_cell"),
        ("insert_cell", {"source": "", "type": "code", "after": "z"}, "no_cell"),
        ("insert_cell", {"source": "", "type": "heading", "after": None}, "bad"),
        ("insert_cell", {"source": 7, "type": "code", "after": None}, "bad"),
        ("move_cell", {"cell_id": "b", "after": "b"}, "bad"),
        ("move_cell", {"cell_id": "b", "after": "z"}, "no_cell"),
        ("edit_cell", {"cell_id": "a", "source": "2", "expected": "a = 1"}, "busy"),
        ("edit_cell", {"cell_id": "c", "source": "2", "expected": "c = 1"}, "locked"),
        ("set_outputs", {"cell_id": "b", "outputs": 7, "count": None}, "bad"),
        ("shell", {}, "bad"),
    ],
)
def test_what_does_not_fit_is_refused(op: str, args: dict[str, Any], kind: str) -> None:
    """Stale, gone, running, locked or senseless: the kind says why, and nothing is changed."""
    page = make_page()
    page.running = "a"
    page.cells[2]["metadata"]["editable"] = False

    error = refusal(page, op, **args)

    assert error["kind"] == kind
    if kind == "stale":
        assert error["source"] == "b = 1"


def test_what_was_made_and_not_run_is_known() -> None:
    """A made cell waits until its outputs are set, and again once it is edited; gone, it is not."""
    page = make_page()
    done(page, "insert_cell", source="x", type="code", after=None, id="x")
    done(page, "insert_cell", source="text", type="markdown", after=None, id="t")

    def waiting() -> list[str]:
        return [cell["id"] for cell in page.unrun]

    assert waiting() == ["x"]
    done(page, "set_outputs", cell_id="x", outputs=[], count=None)
    assert waiting() == []
    done(page, "edit_cell", cell_id="x", source="x", expected="x")
    assert waiting() == []
    done(page, "edit_cell", cell_id="x", source="y", expected="x")
    assert waiting() == ["x"]
    assert [cell["id"] for cell in page.made] == ["x", "t"]
    done(page, "delete_cell", cell_id="x", expected="y")
    assert (waiting(), [cell["id"] for cell in page.made]) == ([], ["t"])


def test_a_deleted_cell_comes_back_with_what_it_had() -> None:
    """Inserted with its id, outputs, count and metadata, as /undo does; `trusted` is not kept."""
    page = make_page()
    output = {"output_type": "stream", "name": "stdout", "text": "hi"}
    done(page, "set_outputs", cell_id="b", outputs=[output], count=4)
    page.cells[1]["metadata"]["tags"] = ["kept"]
    gone = done(page, "delete_cell", cell_id="b", expected="b = 1")["before"]
    extra = {"metadata": {**gone["extra"]["metadata"], "trusted": True}}

    more = {"outputs": gone["outputs"], "count": 4, "extra": extra}
    done(page, "insert_cell", source="b = 1", type="code", after="a", id="b", **more)

    cell = page.cells[1]
    assert (cell["id"], cell["execution_count"], cell["outputs"]) == ("b", 4, [output])
    assert cell["metadata"] == {"tags": ["kept"]}
    assert page.unrun == []


def test_an_id_that_is_taken_or_no_id_is_replaced() -> None:
    """Every cell has a valid id of its own."""
    page = make_page()

    for wanted in ("a", "not valid!", "x" * 65, None):
        done(page, "insert_cell", source="", type="raw", after=None, id=wanted)

    assert len(set(ids(page))) == 7
    assert "not valid!" not in ids(page)


def test_what_no_notebook_can_hold_is_written_as_what_it_can(tmp_path: Path) -> None:
    """An invalid output gives way to a line, half a character to U+FFFD's stand-in."""
    page = make_page()
    odd = [{"output_type": "odd"}, 7, {"output_type": "stream", "name": "stdout", "text": "\ud800"}]
    done(page, "set_outputs", cell_id="b", outputs=odd, count=None)
    document = nbformat.v4.new_notebook()
    document.cells = page.cells

    save_document(document, tmp_path / "out.ipynb")

    outputs = load_document(tmp_path / "out.ipynb").cells[1].outputs
    assert ["left out" in output.text for output in outputs] == [True, True, False]
    assert outputs[2].text == "?"
    assert [path.name for path in tmp_path.iterdir()] == ["out.ipynb"]


def test_an_answer_of_any_script_fits_its_messages() -> None:
    """Each part is a valid one of the protocol, and together they are the answer."""
    answer = {"ok": True, "result": {"text": "aé😀\ud800" * 20_000}}

    parts = split_answer("r", "c", answer)

    assert 1 < len(parts) < MAX_PARTS
    assert all(len(json.dumps(part)) < MAX_CHARS for part in parts)
    read = [read_part(part) for part in parts]
    assert json.loads("".join(part.text for part in read if part is not None)) == answer
