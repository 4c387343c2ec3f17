"""Edits that the agent proposes are answered in their cells, in a real JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, FloatRect, Locator, expect

from tests.fake_anthropic import Call, FakeAnthropic, call, reply
from tests.notebooks import ROOT

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_cells import TYPE, UNDO_IN_CELL, ids, results, source
from .test_first_turn import connected

OLD = "m = df.merge(users, on='email', how='inner')\ncohort = m.groupby('month')"
NEW = (
    "m = df.merge(users, on='user_id', how='left',\n"
    "             validate='m:1')\ncohort = m.groupby('month')"
)
HOLD = """() => {
  const real = window.setTimeout;
  window.held = [];
  window.setTimeout = (act, ms, ...args) =>
    ms === 500 ? -window.held.push(() => act(...args)) : real(act, ms, ...args);
}"""
"""What is to happen in half a second waits until `held` is called."""
SET = """([id, text]) => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .find(one => one.id === id).setSource(text)"""

KILL = """path => {
  const found = [...window.jupyterapp.shell.widgets('main')].find(
    one => one.context?.path === path);
  return found.sessionContext.shutdown();
}"""
"""End the kernel of the notebook at a path, wherever it is shown."""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused, and the whole script must be used."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []
        assert not fake.unused


def write(
    lab: LabServer, name: str, server: FakeAnthropic, *more: tuple[str, str], mode: str = "ask"
) -> str:
    """Write a notebook that loads the extension and holds `more` (id, source)."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )
    for cell_id, text in (("load", connected(server, mode)), *more):
        is_text = text.startswith("#")
        make = nbformat.v4.new_markdown_cell if is_text else nbformat.v4.new_code_cell
        notebook.cells.append(make(text, id=cell_id))
    nbformat.write(notebook, lab.root_dir / name)
    return name


def opened(page: NotebookPage) -> Panel:
    """Load the extension, and open the panel beside the notebook."""
    page.run_cell(0)
    return Panel(page).open()


def both_loaded(page_for: PageFor, first: str, second: str) -> NotebookPage:
    """Load the extension in two notebooks; the first is in front.

    Only then may a panel be opened: it loads the extension by itself, and begins a session before
    the cell that says which provider it has was run.
    """
    page = page_for(first)
    page.run_cell(0)
    page.open(second)
    page.run_cell(0)
    page.open(first)
    return page


def proposes(*edits: tuple[str, str]) -> list[Any]:
    """Return a script: read the cells, propose all edits in one step, end."""
    reads = [call("read_cell", cell_id=cell_id) for cell_id in dict(edits)]
    proposals = [call("edit_cell", cell_id=cell_id, source=text) for cell_id, text in edits]
    return [reply(*reads), reply(*proposals), "Done."]


def changes(*calls: Call, read: str = "") -> list[Any]:
    """Return a script: read a cell, if one is named, make all calls in one step, end."""
    return [*([call("read_cell", cell_id=read)] if read else []), reply(*calls), "Done."]


def group(page: NotebookPage, name: str) -> Locator:
    """Return the change of that name that is proposed in the notebook in front."""
    return page.page.get_by_role("group", name=name)


def asked(page: NotebookPage, server: FakeAnthropic, *calls: Call, read: str = "") -> Panel:
    """Load the extension, and have the agent ask for changes."""
    server.append(*changes(*calls, read=read))
    panel = opened(page)
    panel.ask("Go on")
    return panel


def press(proposed: Locator, key: str) -> None:
    """Press a key in a proposal, once it takes an answer."""
    button(proposed, "Reject")
    proposed.focus()
    proposed.page.keyboard.press(key)


def reject(proposed: Locator, reason: str = "") -> None:
    """Reject by click, with a reason."""
    button(proposed, "Reject").click()
    proposed.get_by_role("textbox", name="Why it is rejected").fill(reason)
    proposed.locator(".deny").get_by_role("button", name="Reject").click()


def box(found: Locator) -> FloatRect:
    """Return where something stands in the window."""
    there = found.bounding_box()
    assert there is not None
    return there


def diff(page: NotebookPage, at: int = 0) -> Locator:
    """Return the edit that is proposed in a cell, the first of several."""
    return page.page.get_by_role("group", name="Proposed edit").nth(at)


def button(proposed: Locator, name: str) -> Locator:
    """Return Accept or Reject, once it takes an answer."""
    found = proposed.locator(".top").get_by_role("button", name=name)
    expect(found).to_have_attribute("aria-disabled", "false", timeout=TURN_MS)
    return found


def saved(lab: LabServer, name: str) -> dict[str, Any]:
    """Return the notebook's file."""
    found: dict[str, Any] = json.loads((lab.root_dir / name).read_text())
    return found


def test_an_edit_is_accepted_in_its_cell(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """What is shown is made of the cell, by one step that Lab's undo takes back, and only there.

    The panel's question is answered with it; neither file nor metadata know of it.
    """
    server.append(*proposes(("a", NEW)))
    name = write(lab, "accept.ipynb", server, ("a", OLD), ("b", "y = 1"))
    page = page_for(name)
    panel = opened(page)
    before = page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells[1].metadata"
    )
    panel.ask("Fix the join")
    proposed = diff(page)
    expect(proposed).to_be_visible(timeout=TURN_MS)
    expect(proposed).to_have_attribute(
        "aria-label", "Proposed edit of cell 2 of 3: 2 lines added, 1 removed"
    )
    expect(proposed).to_contain_text("+2 −1, turn 1")
    expect(proposed.locator(".cm-deletedLine")).to_have_attribute("data-head", "1   −")
    expect(proposed.locator(".cm-changedLine").first).to_have_attribute("data-head", "  1 +")
    expect(panel.question).to_be_visible()
    assert source(page, "a") == OLD

    button(proposed, "Accept").click()
    panel.wait_done()
    expect(proposed).to_have_count(0)
    expect(panel.question).to_have_count(0)
    assert source(page, "a") == NEW
    after = page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells[1].metadata"
    )
    assert after == before
    assert "".join(saved(lab, name)["cells"][1]["source"]) == OLD
    expect(page.page.get_by_text("Edited by the agent, turn 1")).to_be_visible(timeout=TURN_MS)
    page.page.evaluate(UNDO_IN_CELL, "a")
    assert source(page, "a") == OLD
    expect(page.page.get_by_text("Edited by the agent")).to_have_count(0)


def test_an_edit_is_rejected_by_keys_with_a_reason(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """R asks why, Enter sends it; the letters reach neither Lab's shortcuts nor the cell."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "reject.ipynb", server, ("a", OLD)))
    panel = opened(page)
    panel.ask("Fix the join")
    proposed = diff(page)
    button(proposed, "Reject")
    proposed.focus()
    page.page.keyboard.press("r")
    reason = proposed.get_by_role("textbox", name="Why it is rejected (optional)")
    expect(reason).to_be_focused()
    page.page.keyboard.press("Escape")
    expect(proposed).to_be_focused()
    page.page.keyboard.press("r")
    page.page.keyboard.type("rather keep a")
    page.page.keyboard.press("Enter")

    panel.wait_done()
    expect(proposed).to_have_count(0)
    assert source(page, "a") == OLD
    assert ids(page) == ["load", "a"]
    assert results(server)[-1] == "Denied by the user: rather keep a"


def test_only_a_person_accepts_and_not_at_once(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """A script's click or key is none; a person's counts once the edit was to be seen for 0.5 s."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "trusted.ipynb", server, ("a", OLD)))
    panel = opened(page)
    page.page.evaluate(HOLD)
    panel.ask("Fix the join")
    proposed = diff(page)
    accept = proposed.get_by_role("button", name="Accept")
    page.page.wait_for_function("() => window.held.length > 0", timeout=TURN_MS)
    expect(accept).to_have_attribute("aria-disabled", "true")
    accept.click(force=True)
    proposed.focus()
    page.page.keyboard.press("a")
    page.page.evaluate("() => window.held.forEach(act => act())")

    button(proposed, "Accept")
    accept.evaluate("node => node.click()")
    proposed.evaluate(
        "node => node.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }))"
    )
    expect(accept).to_be_visible()
    button(proposed, "Reject").click()
    proposed.locator(".deny").get_by_role("button", name="Reject").click()
    panel.wait_done()
    assert source(page, "a") == OLD
    assert results(server)[-1] == "Denied by the user: no reason given"


def test_a_cell_that_changed_since_shows_both(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """What was not shown is not accepted: the edit waits until the cell is again what it was."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "stale.ipynb", server, ("a", OLD)))
    panel = opened(page)
    panel.ask("Fix the join")
    proposed = diff(page)
    button(proposed, "Accept")
    editor = page.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".jp-InputArea-editor")
    expect(editor).to_be_hidden()

    page.page.evaluate(TYPE, ["a", "\nmine = 1"])
    expect(proposed).to_contain_text("Cell 2 of 2 changed since; showing both")
    expect(editor).to_be_visible()
    expect(editor).to_contain_text("mine = 1")
    accept = proposed.get_by_role("button", name="Accept")
    expect(accept).to_have_attribute("aria-disabled", "true")
    button(proposed, "Reject")
    accept.click(force=True)
    proposed.focus()
    page.page.keyboard.press("a")
    expect(accept).to_be_visible()
    page.page.evaluate(SET, ["a", OLD])
    expect(proposed).not_to_contain_text("changed since")
    expect(editor).to_be_hidden()
    button(proposed, "Accept").click()
    panel.wait_done()
    assert source(page, "a") == NEW


def test_the_panel_cannot_put_an_edit_over_what_a_person_wrote(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """An answer in the panel closes the edit in the cell; one that is stale changes nothing."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "stale_panel.ipynb", server, ("a", OLD)))
    panel = opened(page)
    panel.ask("Fix the join")
    button(diff(page), "Accept")
    page.page.evaluate(TYPE, ["a", "\nmine = 1"])
    panel.allow()
    panel.wait_done()
    expect(diff(page)).to_have_count(0)
    assert source(page, "a") == f"{OLD}\nmine = 1"
    assert "Not applied" in results(server)[-1]


def test_several_edits_are_gone_through_and_accepted_together(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Edits of one step stand in their cells at once; the bar counts them, J and K go through."""
    edits = (("a", "x = 2"), ("b", "y = 2"), ("c", "z = 2"))
    server.append(*proposes(*edits))
    names = (("a", "x = 1"), ("b", "y = 1"), ("c", "z = 1"))
    page = page_for(write(lab, "several.ipynb", server, *names))
    panel = opened(page)
    panel.ask("Count on")
    bar = page.page.get_by_role("toolbar", name="Proposed changes")
    expect(bar).to_contain_text("3 proposed changes 1 of 3", timeout=TURN_MS)
    for at in range(3):
        button(diff(page, at), "Accept")
    diff(page, 0).focus()
    page.page.keyboard.press("j")
    expect(diff(page, 1)).to_be_focused()
    expect(bar).to_contain_text("2 of 3")
    page.page.keyboard.press("k")
    page.page.keyboard.press("k")
    expect(diff(page, 2)).to_be_focused()
    bar.get_by_role("button", name="Next change").click()
    expect(diff(page, 0)).to_be_focused()

    bar.get_by_role("button", name="Accept all").click()
    panel.wait_done()
    expect(bar).to_be_hidden()
    assert [source(page, name) for name, _ in edits] == [text for _, text in edits]


def test_an_answer_ahead_counts_only_for_what_was_shown(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """An edit accepted before it is asked about is asked about again if its cell changed since."""
    server.append(*proposes(("a", "x = 2"), ("b", "y = 2"), ("c", "z = 2")))
    names = (("a", "x = 1"), ("b", "y = 1"), ("c", "z = 1"))
    page = page_for(write(lab, "ahead.ipynb", server, *names))
    panel = opened(page)
    panel.ask("Count on")
    button(diff(page, 2), "Accept").click()
    expect(diff(page, 2)).to_contain_text("Accepted")
    button(diff(page, 1), "Accept").click()
    expect(diff(page, 1)).to_contain_text("Accepted")
    page.page.evaluate(TYPE, ["b", "  # mine"])
    button(diff(page, 0), "Accept").click()

    expect(diff(page, 0)).to_have_attribute(
        "aria-label", "Proposed edit of cell 3 of 4: 1 line added, 1 removed", timeout=TURN_MS
    )
    button(diff(page, 0), "Reject").click()
    page.page.keyboard.press("Enter")
    panel.wait_done()
    assert [source(page, name) for name in "abc"] == ["x = 2", "y = 1  # mine", "z = 2"]


def test_an_edit_that_was_made_is_pointed_out_and_undone(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """In `edits` nothing is asked; the line below the cell shows the change and takes it back.

    It goes when the person takes the cell over, or runs it.
    """
    server.append(*proposes(("a", "x = 2"), ("b", "y = 2"), ("c", "z = 2")))
    names = (("a", "x = 1"), ("b", "y = 1"), ("c", "z = 1"))
    page = page_for(write(lab, "standing.ipynb", server, *names, mode="edits"))
    panel = opened(page)
    panel.ask("Count on")
    panel.wait_done()
    lines = page.page.locator(".jctx-standing")
    expect(lines).to_have_count(3, timeout=TURN_MS)
    expect(lines.first).to_contain_text("Edited by the agent, turn 1 · Show change · Undo")
    lines.first.get_by_role("button", name="Show change").click()
    expect(lines.first.locator(".cm-deletedLine")).to_have_text("x = 1")
    lines.first.get_by_role("button", name="Undo").evaluate("node => node.click()")
    lines.first.get_by_role("button", name="Undo").click()
    expect(lines).to_have_count(2, timeout=TURN_MS)
    assert source(page, "a") == "x = 1"
    assert source(page, "b") == "y = 2"

    page.page.evaluate(TYPE, ["b", "  # mine"])
    expect(lines).to_have_count(1)
    page.run_cell(3)
    expect(lines).to_have_count(0)


def test_each_notebook_has_its_own(lab: LabServer, page_for: PageFor) -> None:
    """Two notebooks with a kernel each: an edit is proposed, accepted and made in its own."""
    with (
        FakeAnthropic(proposes(("a", "x = 2"))) as one,
        FakeAnthropic(proposes(("a", "x = 3"))) as other,
    ):
        first = write(lab, "own_one.ipynb", one, ("a", "x = 1"))
        second = write(lab, "own_other.ipynb", other, ("a", "x = 1"))
        page = both_loaded(page_for, first, second)
        Panel(page).open().ask("Go on")
        button(diff(page), "Accept")
        page.open(second)
        panel = Panel(page).open()
        expect(panel.turn(1)).to_have_count(0)
        panel.ask("Go on")
        visible = page.page.locator(".jctx-proposal [role=group]:visible")
        expect(visible).to_have_count(1, timeout=TURN_MS)
        button(visible, "Accept").click()
        Panel(page).wait_done()
        assert source(page, "a") == "x = 3"
        page.command("docmanager:open", path="own_one.ipynb")
        page.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.context?.path === 'own_one.ipynb'"
        )
        assert source(page, "a") == "x = 1"
        button(visible, "Accept").click()
        Panel(page).wait_done()
        assert source(page, "a") == "x = 2"


def test_an_edit_is_still_proposed_after_a_reload(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The kernel goes on waiting; the page that comes back shows what is asked."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "reloaded.ipynb", server, ("a", OLD)))
    opened(page).ask("Fix the join")
    button(diff(page), "Accept")
    page.command("docmanager:save")
    page.reload()
    panel = Panel(page).open()
    button(diff(page), "Accept").click()
    panel.wait_done()
    assert source(page, "a") == NEW


def test_the_bundle_brings_no_editor_of_its_own() -> None:
    """CodeMirror's state and view are Lab's: a second copy of them knows no extension of Lab's."""
    lab_extension = ROOT / "jupyter_ctx" / "labextension" / "static"
    modules = ROOT / "labextension" / "node_modules" / "@codemirror"
    marks = {"state": "Unrecognized extension value", "view": "cm-announced"}
    bundle = "".join(path.read_text() for path in lab_extension.glob("*.js"))
    assert "cm-deletedChunk" in bundle
    for package, mark in marks.items():
        assert mark in (modules / package / "dist" / "index.js").read_text()
        assert mark not in bundle


def test_a_cell_that_asks_the_agent_is_answered_in_the_edited_cell(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The answer is heard while `%agent` blocks the kernel; nobody is asked by `input()`."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "cell.ipynb", server, ("ask", "%agent Go on"), ("a", OLD)))
    opened(page)
    page.start_cell(1)
    button(diff(page), "Accept").click()
    expect(page.output_area(1)).to_contain_text("Done.", timeout=TURN_MS)
    expect(page.page.locator(".jp-Stdin-input")).to_have_count(0)
    assert source(page, "a") == NEW


INSERT = call("insert_cell", source="y = 2\nz = 3", after="a")
DELETE = call("delete_cell", cell_id="a")
MOVE = call("move_cell", cell_id="a", after="c")
THREE = (("a", "x = 1\nx"), ("b", "y = 1"), ("c", "# Title"))


def test_a_new_cell_stands_where_it_would_be(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Its whole source is drawn below its neighbour; a click on Accept makes the cell there."""
    page = page_for(write(lab, "new.ipynb", server, *THREE))
    panel = asked(page, server, INSERT)
    proposed = group(page, "Proposed new code cell below cell 2 of 4: 2 lines")
    expect(proposed).to_contain_text("New code cell +2, turn 1")
    expect(proposed.locator(".cm-line").first).to_have_attribute("data-head", "1 +")
    expect(proposed.locator(".cm-line").last).to_have_text("z = 3")
    cell = page.page.locator(".jp-Notebook .jp-Cell")
    above, below = box(cell.nth(1).locator(".jp-InputArea-editor")), box(cell.nth(2))
    assert above["y"] + above["height"] <= box(proposed)["y"]
    assert box(proposed)["y"] + box(proposed)["height"] <= below["y"] + below["height"]
    assert ids(page) == ["load", "a", "b", "c"]
    button(proposed, "Accept").click()
    panel.wait_done()
    expect(proposed).to_have_count(0)
    assert [one for one in ids(page) if one not in ("load", "a", "b", "c")] == [ids(page)[2]]
    assert source(page, ids(page)[2]) == "y = 2\nz = 3"
    expect(page.page.get_by_text("Added by the agent, turn 1")).to_be_visible(timeout=TURN_MS)


def test_a_new_cell_is_rejected_by_keys(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """R and a reason leave the notebook as it was; the letters make no cell of Lab's."""
    page = page_for(write(lab, "new_no.ipynb", server, *THREE))
    panel = asked(page, server, call("insert_cell", source="# New", cell_type="markdown"))
    proposed = group(page, "Proposed new Markdown cell at the end: 1 line")
    press(proposed, "r")
    page.page.keyboard.type("a b")
    page.page.keyboard.press("Enter")
    panel.wait_done()
    expect(proposed).to_have_count(0)
    assert ids(page) == ["load", "a", "b", "c"]
    assert results(server)[-1] == "Denied by the user: a b"


def test_a_deletion_strikes_the_whole_cell(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The source is struck in place of the editor, the outputs named; the key A deletes it."""
    page = page_for(write(lab, "delete.ipynb", server, ("a", "x = 1\nx"), ("b", "y = 1")))
    page.run_cell(0)
    page.run_cell(1)
    panel = asked(page, server, DELETE, read="a")
    proposed = group(page, "Proposed deletion of cell 2: 2 lines removed, with its outputs")
    expect(proposed).to_contain_text("Delete cell 2 −2, with its outputs, turn 1")
    expect(proposed.locator(".cm-deletedLine")).to_have_text(["x = 1", "x"])
    expect(
        page.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".jp-InputArea-editor")
    ).to_be_hidden()
    press(proposed, "a")
    panel.wait_done()
    assert ids(page) == ["load", "b"]
    page.command("notebook:undo-cell-action")
    assert source(page, "a") == "x = 1\nx"


def test_a_deletion_is_rejected_and_stale_where_its_cell_changed(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Of a rendered Markdown cell the source is struck; what was written since is not deleted."""
    page = page_for(write(lab, "delete_no.ipynb", server, ("a", "# Title"), ("b", "y = 1")))
    panel = asked(page, server, DELETE, read="a")
    proposed = group(page, "Proposed deletion of cell 2 of 3: 1 line removed")
    rendered = page.page.locator(".jp-MarkdownCell .jp-RenderedMarkdown h1")
    expect(rendered).to_be_hidden()
    button(proposed, "Accept")
    page.page.evaluate(TYPE, ["a", "\nmine"])
    expect(proposed).to_contain_text("Cell 2 of 3 changed since; showing both")
    accept = proposed.get_by_role("button", name="Accept")
    expect(accept).to_have_attribute("aria-disabled", "true")
    press(proposed, "a")
    expect(accept).to_be_visible()
    reject(proposed, "it is mine")
    panel.wait_done()
    expect(rendered).to_be_visible()
    assert source(page, "a") == "# Title\nmine"
    assert results(server)[-1] == "Denied by the user: it is mine"


def test_a_move_is_shown_at_both_places(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The cell says where it goes, its new place shows it whole; a click on Accept moves it."""
    page = page_for(write(lab, "move.ipynb", server, *THREE))
    panel = asked(page, server, MOVE)
    proposed = group(page, "Proposed move of cell 2 of 4 below cell 4 of 4")
    expect(proposed).to_contain_text("Cell 2 of 4 moves here turn 1")
    expect(proposed.locator(".cm-line")).to_have_text(["x = 1", "x"])
    cell = page.page.locator(".jp-Notebook .jp-Cell")
    expect(cell.nth(3).get_by_role("group")).to_have_count(1)
    mark = cell.nth(1).locator(".jctx-moves")
    expect(mark).to_have_text("Moves below cell 4 of 4 · Show")
    mark.get_by_role("button", name="Show").click()
    expect(proposed).to_be_focused()
    button(proposed, "Accept").click()
    panel.wait_done()
    assert ids(page) == ["load", "b", "c", "a"]
    expect(page.page.locator(".jctx-moves, .jctx-proposal")).to_have_count(0)


def test_a_move_to_the_top_is_rejected_by_keys(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """It is drawn above the first cell; Escape goes back, a second R and Enter send the no."""
    page = page_for(write(lab, "move_no.ipynb", server, *THREE))
    panel = asked(page, server, call("move_cell", cell_id="c"))
    proposed = group(page, "Proposed move of cell 4 of 4 to the top")
    assert box(proposed)["y"] < box(page.page.locator(".jp-InputArea-editor").first)["y"]
    press(proposed, "r")
    page.page.keyboard.press("Escape")
    expect(proposed).to_be_focused()
    page.page.keyboard.press("r")
    page.page.keyboard.press("Enter")
    panel.wait_done()
    expect(page.page.locator(".jctx-moves, .jctx-proposal")).to_have_count(0)
    assert ids(page) == ["load", "a", "b", "c"]


def test_all_kinds_are_gone_through_and_answered_together(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """They stand from top to bottom as they will; Accept all makes them, each by its question."""
    edit = call("edit_cell", cell_id="b", source="y = 2")
    drop = call("delete_cell", cell_id="c")
    first = call("insert_cell", source="one", after="a")
    second = call("insert_cell", source="two", after="a")
    server.append(reply(call("read_cell", cell_id="b"), call("read_cell", cell_id="c")))
    page = page_for(write(lab, "all.ipynb", server, *THREE))
    panel = asked(page, server, first, second, edit, drop)
    bar = page.page.get_by_role("toolbar", name="Proposed changes")
    expect(bar).to_contain_text("4 proposed changes 1 of 4", timeout=TURN_MS)
    groups = page.page.locator(".jctx-proposal [role=group]")
    expect(groups).to_have_count(4)
    expect(groups.nth(0)).to_contain_text("two")
    expect(groups.nth(1)).to_contain_text("one")
    bar.get_by_role("button", name="Next change").focus()
    for at in (1, 2, 3, 0):
        page.page.keyboard.press("j")
        expect(groups.nth(at)).to_be_focused()
        button(groups.nth(at), "Reject")
    accept = bar.get_by_role("button", name="Accept all")
    expect(accept).to_have_attribute("aria-disabled", "false")
    accept.click()
    panel.wait_done()
    expect(bar).to_be_hidden()
    order = [source(page, one) for one in ids(page)]
    assert order[1:] == ["x = 1\nx", "two", "one", "y = 2"]


def test_a_new_cell_whose_neighbour_goes_can_only_be_rejected(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """It says so at the end of the notebook; Reject all of the bar is not needed for one."""
    page = page_for(write(lab, "lost.ipynb", server, *THREE))
    panel = asked(page, server, INSERT)
    proposed = group(page, "Proposed new code cell")
    button(proposed, "Accept")
    page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(1)"
    )
    expect(proposed).to_contain_text("The cell above it is gone")
    button(proposed, "Reject")
    accept = proposed.get_by_role("button", name="Accept")
    expect(accept).to_have_attribute("aria-disabled", "true")
    reject(proposed)
    panel.wait_done()
    assert ids(page) == ["load", "b", "c"]


def test_a_change_that_is_answered_elsewhere_goes(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The panel's answer, Stop and the kernel's death each take what is drawn away."""
    page = page_for(write(lab, "elsewhere.ipynb", server, *THREE))
    panel = asked(page, server, MOVE)
    drawn = page.page.locator(".jctx-moves, .jctx-proposal")
    expect(drawn).to_have_count(2)
    panel.allow()
    panel.wait_done()
    expect(drawn).to_have_count(0)
    assert ids(page) == ["load", "b", "c", "a"]

    server.append(reply(call("insert_cell", source="n", after="b")))
    panel.ask("Again")
    expect(drawn).to_have_count(1)
    panel.stop_button.click()
    panel.wait_done()
    expect(drawn).to_have_count(0)

    server.append(reply(call("insert_cell", source="n", after="b")))
    panel.ask("Once more")
    expect(drawn).to_have_count(1)
    page.restart_kernel()
    expect(drawn).to_have_count(0)
    assert ids(page) == ["load", "b", "c", "a"]


def test_a_change_in_a_collapsed_section_is_shown_by_the_bar(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """One that nobody can see is counted above the notebook; Next opens its section."""
    page = page_for(write(lab, "section.ipynb", server, ("h", "# Part"), ("a", "x = 1")))
    page.page.evaluate(
        "() => {"
        " window.jupyterapp.shell.currentWidget.content.widgets[1].headingCollapsed = true; }"
    )
    expect(page.page.locator(".jp-Notebook .jp-Cell").nth(2)).to_be_hidden()
    panel = asked(page, server, INSERT)
    bar = page.page.get_by_role("toolbar", name="Proposed changes")
    expect(bar).to_contain_text("1 proposed change")
    proposed = page.page.locator(".jctx-proposal [role=group]")
    expect(proposed).to_be_hidden()
    bar.get_by_role("button", name="Next change").click()
    expect(proposed).to_be_focused()
    expect(bar).to_be_hidden()
    press(proposed, "a")
    panel.wait_done()
    assert len(ids(page)) == 4


@pytest.mark.parametrize("mode", ["contentVisibility", "defer", "full"])
def test_a_change_far_off_in_a_windowed_notebook_is_found(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic, mode: str
) -> None:
    """However a long notebook is drawn: the bar counts a change out of sight, and Next shows it."""
    lab.write_settings(
        "@jupyterlab/notebook-extension:tracker", json.dumps({"windowingMode": mode})
    )
    try:
        more = [(f"c{n}", f"x_{n} = {n}") for n in range(200)]
        page = page_for(write(lab, f"windowed_{mode}.ipynb", server, *more))
        panel = asked(page, server, call("insert_cell", source="far = 1", after="c190"))
        bar = page.page.get_by_role("toolbar", name="Proposed changes")
        expect(bar).to_contain_text("1 proposed change")
        proposed = page.page.locator(".jctx-proposal [role=group]")
        expect(proposed).not_to_be_in_viewport()
        bar.get_by_role("button", name="Next change").click()
        expect(proposed).to_be_focused()
        press(proposed, "a")
        panel.wait_done()
        at = ids(page).index("c190")
        assert source(page, ids(page)[at + 1]) == "far = 1"
    finally:
        lab.write_settings("@jupyterlab/notebook-extension:tracker", "{}")


def test_a_new_cell_in_one_notebook_and_a_deletion_in_another(
    lab: LabServer, page_for: PageFor
) -> None:
    """Each stands in its own; a kernel that dies takes only what is drawn in its own away."""
    with (
        FakeAnthropic([reply(INSERT)]) as one,
        FakeAnthropic(changes(DELETE, read="a")) as other,
    ):
        first, second = (
            write(lab, name, its, *THREE)
            for name, its in (("two_one.ipynb", one), ("two_other.ipynb", other))
        )
        page = both_loaded(page_for, first, second)
        Panel(page).open().ask("Go on")
        button(group(page, "Proposed new code cell"), "Accept")
        page.open(second)
        panel = Panel(page).open()
        expect(panel.turn(1)).to_have_count(0)
        panel.ask("Go on")
        deletion = group(page, "Proposed deletion of cell 2 of 4")
        button(deletion, "Accept")
        drawn = page.page.locator(".jctx-proposal")
        expect(drawn).to_have_count(2)
        page.page.evaluate(KILL, "two_one.ipynb")
        expect(drawn).to_have_count(1)
        button(deletion, "Accept").click()
        panel.wait_done()
        assert ids(page) == ["load", "b", "c"]
        page.command("docmanager:open", path="two_one.ipynb")  # its kernel is never idle again
        page.page.wait_for_function(
            "path => window.jupyterapp.shell.currentWidget?.context?.path === path",
            arg="two_one.ipynb",
        )
        assert ids(page) == ["load", "a", "b", "c"]
        expect(drawn).to_have_count(0)


def test_a_new_cell_is_still_proposed_after_a_reload_and_in_dark(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The page that comes back draws it once, in either theme."""
    page = page_for(write(lab, "new_reload.ipynb", server, *THREE))
    asked(page, server, INSERT)
    button(group(page, "Proposed new code cell"), "Accept")
    page.command("docmanager:save")
    page.reload()
    panel = Panel(page).open()
    page.set_theme(dark=True)
    proposed = group(page, "Proposed new code cell")
    expect(proposed).to_have_count(1)
    button(proposed, "Accept").click()
    panel.wait_done()
    assert len(ids(page)) == 5


def test_a_script_answers_no_new_cell(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Neither in the cell nor in the bar counts what is no person's press, or comes at once."""
    page = page_for(write(lab, "script.ipynb", server, *THREE))
    panel = opened(page)
    page.page.evaluate(HOLD)
    server.append(*changes(INSERT, call("insert_cell", source="end")))
    panel.ask("Go on")
    bar = page.page.get_by_role("toolbar", name="Proposed changes")
    expect(bar).to_contain_text("2 proposed changes")
    bar.get_by_role("button", name="Reject all").click(force=True)
    groups = page.page.locator(".jctx-proposal [role=group]")
    groups.first.focus()
    page.page.keyboard.press("a")
    expect(groups.locator(".top").get_by_role("button", name="Accept")).to_have_count(2)
    page.page.wait_for_function("() => window.held.length >= 3")
    page.page.evaluate("() => window.held.splice(0).forEach(act => act())")
    all_of_them = bar.get_by_role("button", name="Reject all")
    expect(all_of_them).to_have_attribute("aria-disabled", "false")
    all_of_them.evaluate("node => node.click()")
    bar.get_by_role("button", name="Accept all").evaluate("node => node.click()")
    groups.first.evaluate(
        "node => node.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }))"
    )
    expect(groups).to_have_count(2)
    all_of_them.click()
    panel.wait_done()
    expect(groups).to_have_count(0)
    assert ids(page) == ["load", "a", "b", "c"]


def test_a_cell_that_goes_takes_what_is_drawn_in_it_along(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """A person deletes the cell that is to be edited: no script fails, the panel still asks."""
    server.append(*proposes(("a", NEW)))
    page = page_for(write(lab, "gone.ipynb", server, ("a", OLD), ("b", "y")))
    panel = opened(page)
    panel.ask("Go on")
    button(diff(page), "Accept")
    page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(1)"
    )
    expect(page.page.locator(".jctx-proposal")).to_have_count(0)
    panel.begin_denial().press("Enter")
    panel.wait_done()
    assert page.errors == []


def test_a_new_cell_is_answered_in_notebook_7(
    lab: LabServer, page_for: PageFor, browser: Browser, server: FakeAnthropic
) -> None:
    """The same is drawn and answered in Notebook 7."""
    path = write(lab, "seven_new.ipynb", server, *THREE)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    blank = context.new_page()
    try:
        errors: list[str] = []
        blank.on("pageerror", lambda error: errors.append(str(error.stack)))
        page = NotebookPage(blank, f"{lab.url}/notebooks/{path}")
        panel = asked(page, server, INSERT)
        proposed = group(page, "Proposed new code cell below cell 2 of 4: 2 lines")
        button(proposed, "Accept").click()
        panel.wait_done()
        assert len(ids(page)) == 5
        assert [error for error in errors if "jupyter-ctx" in error] == []
    finally:
        context.close()
