"""Edits that the agent proposes are answered in their cells, in a real JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from tests.fake_anthropic import FakeAnthropic, call, reply
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
        notebook.cells.append(nbformat.v4.new_code_cell(text, id=cell_id))
    nbformat.write(notebook, lab.root_dir / name)
    return name


def opened(page: NotebookPage) -> Panel:
    """Load the extension, and open the panel beside the notebook."""
    page.run_cell(0)
    return Panel(page).open()


def proposes(*edits: tuple[str, str]) -> list[Any]:
    """Return a script: read the cells, propose all edits in one step, end."""
    reads = [call("read_cell", cell_id=cell_id) for cell_id in dict(edits)]
    proposals = [call("edit_cell", cell_id=cell_id, source=text) for cell_id, text in edits]
    return [reply(*reads), reply(*proposals), "Done."]


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
    bar = page.page.get_by_role("toolbar", name="Proposed edits")
    expect(bar).to_contain_text("3 proposed edits 1 of 3", timeout=TURN_MS)
    for at in range(3):
        button(diff(page, at), "Accept")
    diff(page, 0).focus()
    page.page.keyboard.press("j")
    expect(diff(page, 1)).to_be_focused()
    expect(bar).to_contain_text("2 of 3")
    page.page.keyboard.press("k")
    page.page.keyboard.press("k")
    expect(diff(page, 2)).to_be_focused()
    bar.get_by_role("button", name="Next edit").click()
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
        page = page_for(write(lab, "own_one.ipynb", one, ("a", "x = 1")))
        opened(page).ask("Go on")
        button(diff(page), "Accept")
        page.open(write(lab, "own_other.ipynb", other, ("a", "x = 1")))
        panel = opened(page)
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
