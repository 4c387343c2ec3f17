"""A turn of the agent changes the notebook in a real JupyterLab while its own cell runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import Call, FakeAnthropic, Hold, call, reply
from tests.fake_anthropic.script import RequestJson

from .conftest import PageFor
from .notebook_page import NotebookPage
from .server import LabServer
from .test_first_turn import connected

CELLS = """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .map(cell => ({ id: cell.id, type: cell.cell_type, source: cell.getSource() }))"""
ACTIVE = "() => window.jupyterapp.shell.currentWidget.content.activeCell.model.id"
TYPE = """([id, text]) => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
  const cell = cells.find(one => one.id === id);
  cell.updateSource(cell.getSource().length, cell.getSource().length, text);
}"""
HEARS = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const ofKernel = [...kernel._comms.keys()].some(id => /^[0-9a-f]{32}$/.test(id));
  return kernel.connectionStatus === 'connected' && ofKernel;
}"""
UNDO_IN_CELL = """id => {
  const { content } = window.jupyterapp.shell.currentWidget;
  content.widgets.find(one => one.model.id === id).editor.undo();
}"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused, and the whole script must be used."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []
        assert not fake.unused


def write(lab: LabServer, name: str, server: FakeAnthropic, *more: tuple[str, str]) -> str:
    """Write a notebook that loads the extension, asks once, and holds `more` (id, source)."""
    cells = [("load", connected(server, "auto")), ("ask", "%agent Go on"), *more]
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )
    for cell_id, source in cells:
        is_text = source.startswith("#")
        make = nbformat.v4.new_markdown_cell if is_text else nbformat.v4.new_code_cell
        notebook.cells.append(make(source, id=cell_id))
    nbformat.write(notebook, lab.root_dir / name)
    return name


def cells(page: NotebookPage) -> list[dict[str, str]]:
    """Return the notebook in front as its model has it."""
    found: list[dict[str, str]] = page.page.evaluate(CELLS)
    return found


def ids(page: NotebookPage) -> list[str]:
    """Return the ids of its cells, in order."""
    return [cell["id"] for cell in cells(page)]


def source(page: NotebookPage, cell_id: str) -> str:
    """Return one cell's source."""
    return next(cell["source"] for cell in cells(page) if cell["id"] == cell_id)


def run_new(request: RequestJson) -> Call:
    """Return a call that runs the cell which the newest result tells of."""
    text = json.dumps(request["messages"][-1])
    return call("run_cell", cell_id=text.split("cell `")[1].split("`")[0])


def results(server: FakeAnthropic) -> list[str]:
    """Return the texts of the tool results in the last request."""
    blocks: list[Any] = [b for m in server.requests[-1].json["messages"] for b in m["content"]]
    found = [block for block in blocks if block["type"] == "tool_result"]
    return [one["content"][0]["text"] for one in found]


def test_a_turn_works_on_the_notebook(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C24: cells are inserted, edited, run, moved and deleted while the main thread is blocked.

    What was run shows its outputs when the turn has ended; the selection stays where it was.
    """
    server.append(
        call("insert_cell", source="print(6 * 7)", after="b"),
        run_new,
        call("insert_cell", source="## Result *here*", cell_type="markdown"),
        call("read_cell", cell_id="a"),
        call("edit_cell", cell_id="a", source="x = 2"),
        call("move_cell", cell_id="a", after="c"),
        call("read_cell", cell_id="b"),
        call("delete_cell", cell_id="b"),
        reply("Nearly", Hold("end"), " done."),
    )
    path = write(lab, "works.ipynb", server, ("a", "x = 1"), ("b", "y"), ("c", "# Title"))
    page = page_for(path)
    page.run_cell(0)
    page.start_cell(1)
    server.wait_held("end", 60)
    expect(page.output_area(1)).to_contain_text("Nearly")
    assert page.page.evaluate(ACTIVE) == "ask"
    new, text = (name for name in ids(page) if len(name) == 8)
    assert ids(page) == ["load", "ask", new, "c", "a", text]
    assert page.cell_outputs(2) == []

    server.release("end")
    page.wait_idle()
    expect(page.output_area(2)).to_contain_text("42")
    assert source(page, "a") == "x = 2"
    expect(page.page.locator(".jp-MarkdownCell h2")).to_contain_text("Result here")
    assert "between `b` and `c`" in results(server)[0]
    assert "between `c` and `" in results(server)[5]


def test_undo_brings_it_back(lab: LabServer, page_for: PageFor, server: FakeAnthropic) -> None:
    """JupyterLab's own undo takes an edit, a deletion and an insertion back, each on its own."""
    server.append(
        call("read_cell", cell_id="a"),
        call("edit_cell", cell_id="a", source="x = 2"),
        call("insert_cell", source="new"),
        call("read_cell", cell_id="b"),
        call("delete_cell", cell_id="b"),
        "Done.",
    )
    page = page_for(write(lab, "undo.ipynb", server, ("a", "x = 1"), ("b", "y = 1")))
    page.run_cell(0)
    page.run_cell(1)
    assert source(page, "a") == "x = 2"
    new = ids(page)[-1]
    assert ids(page) == ["load", "ask", "a", new]

    page.command("notebook:undo-cell-action")
    assert ids(page) == ["load", "ask", "a", "b", new]
    page.command("notebook:undo-cell-action")
    assert ids(page) == ["load", "ask", "a", "b"]
    page.page.evaluate(UNDO_IN_CELL, "a")
    assert source(page, "a") == "x = 1"


def test_what_the_user_types_meanwhile_stays(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C22: the write is refused with the present source, which is then the whole truth."""
    server.append(
        call("read_cell", cell_id="a"),
        reply("Thinking", Hold("type"), call("edit_cell", cell_id="a", source="x = 2")),
        "I see.",
    )
    page = page_for(write(lab, "typed.ipynb", server, ("a", "x = 1")))
    page.run_cell(0)
    page.start_cell(1)
    server.wait_held("type", 60)
    page.page.evaluate(TYPE, ["a", "  # mine"])
    server.release("type")
    page.wait_idle()

    assert source(page, "a") == "x = 1  # mine"
    assert results(server)[1].endswith("x = 1  # mine")
    assert "Not applied" in results(server)[1]


def test_each_edit_lands_in_the_notebook_that_asked(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Two notebooks are open; the one that did not ask is on top while the edit is made."""
    server.append(
        reply("Wait", Hold("switch"), call("insert_cell", source="first", after="a")),
        "Done.",
    )
    first = write(lab, "first.ipynb", server, ("a", "x = 1"))
    second = write(lab, "second.ipynb", server, ("a", "x = 1"))
    page = page_for(first)
    page.run_cell(0)
    page.start_cell(1)
    server.wait_held("switch", 60)
    page.command("docmanager:open", path=second)
    page.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path === 'second.ipynb'"
        " && window.jupyterapp.shell.currentWidget.context.isReady"
    )
    server.release("switch")
    page.page.wait_for_function(
        "() => [...window.jupyterapp.shell.widgets('main')].some("
        "one => one.context?.path === 'first.ipynb' && one.content.widgets.length === 4)"
    )

    assert ids(page) == ["load", "ask", "a"]
    page.open(first)
    assert [cell["source"] for cell in cells(page)][2:] == ["x = 1", "first"]


def test_a_page_that_is_closed_loses_nothing(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C25: with no page left the tool says "not applied" and gives the text to paste."""
    server.append(
        reply("Wait", Hold("close"), call("insert_cell", source="precious")),
        reply("Told.", Hold("end")),
    )
    page = page_for(write(lab, "closed.ipynb", server, ("a", "x = 1")))
    page.run_cell(0)
    page.start_cell(1)
    server.wait_held("close", 60)
    page.page.close()
    server.release("close")
    server.wait_held("end", 60)

    assert results(server)[0].startswith("Not applied")
    assert results(server)[0].endswith("paste this into it:\n\nprecious")
    server.release("end")


def test_a_page_loaded_anew_answers_again(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """After a reload in mid-turn the edit is made in the page that shows the cell now."""
    server.append(
        reply("Wait", Hold("reload"), call("insert_cell", source="after the reload")),
        "Done.",
    )
    page = page_for(write(lab, "reload.ipynb", server, ("a", "x = 1")))
    page.run_cell(0)
    page.command("docmanager:save")
    page.start_cell(1)
    server.wait_held("reload", 60)
    page.reload()
    page.page.wait_for_function(HEARS)
    server.release("reload")
    page.wait_idle()

    assert cells(page)[-1]["source"] == "after the reload", results(server)
