"""The panel, the edits and the widget in Notebook 7, which has no side panels of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply

from .conftest import PATIENCE_MS
from .notebook_page import NotebookPage
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_first_turn import connected
from .test_gallery import AXE
from .test_widget import WidgetPanel

Open: TypeAlias = Callable[..., NotebookPage]

AUDIT = """async () => (await axe.run(
  {include: ['.jctx-side'], exclude: [['[class^="jctx-tok-"]'], ['.cm-content']]},
  {rules: {region: {enabled: false}}}
)).violations.map(({id, nodes}) => [id, nodes.map(one => one.html.slice(0, 160))])"""
"""Left out: the page around the panel, and Lab's colours of code."""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


@pytest.fixture
def seven(lab: LabServer, browser: Browser, server: FakeAnthropic) -> Iterator[Open]:
    """A function that opens a notebook in Notebook 7; its first cell has loaded the agent.

    Other cells are given as (id, source). An error of our own scripts fails the test.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []

    def open_notebook(
        name: str, *more: tuple[str, str], permissions: str = "ask", load: str = ""
    ) -> NotebookPage:
        sources = [("load", f"{connected(server, permissions)}\n{load}"), *more]
        cells = [nbformat.v4.new_code_cell(source, id=cell_id) for cell_id, source in sources]
        kernel = {"name": "python3", "display_name": "Python 3"}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(notebook, lab.root_dir / name)
        blank = context.new_page()
        blank.on("pageerror", lambda error: errors.append(str(error.stack)))
        page = NotebookPage(blank, f"{lab.url}/notebooks/{name}")
        page.run_cell(0)
        return page

    yield open_notebook
    context.close()
    lab.forget()
    assert [error for error in errors if "jupyter-ctx" in error] == []


def test_a_question_is_answered_by_click(seven: Open, server: FakeAnthropic) -> None:
    """The code is shown whole, runs once it was allowed, and the turn goes on."""
    panel = Panel(seven("seven_ask.ipynb")).open()
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    panel.ask("Six times seven")
    expect(panel.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    panel.allow()
    panel.wait_done()

    expect(panel.turn(1)).to_contain_text("It is 42.")
    assert b"42" in server.messages[-1].body


def test_stop_ends_a_turn(seven: Open, server: FakeAnthropic) -> None:
    """What was written stays, the turn says who stopped it, and the next prompt runs."""
    panel = Panel(seven("seven_stop.ipynb")).open()
    server.append(reply("Half of it", Hold("mid"), " and more."), "Next.")
    panel.ask("Write")
    server.wait_held("mid")
    expect(panel.turn(1)).to_contain_text("Half of it")
    panel.stop_button.click()
    panel.wait_done()
    server.release("mid")

    expect(panel.turn(1)).to_contain_text("Stopped by you")
    panel.ask("Again")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Next.")


def test_a_reload_in_mid_turn_picks_it_up(seven: Open, server: FakeAnthropic) -> None:
    """The page loaded anew shows the running turn, and nothing twice."""
    page = seven("seven_reload.ipynb")
    panel = Panel(page).open()
    server.append("First answer.", reply("Half of it", Hold("mid"), " and the rest."))
    panel.ask("One")
    panel.wait_done()
    panel.ask("Two")
    server.wait_held("mid")
    page.command("docmanager:save")
    page.reload()
    panel.open()
    expect(panel.turn(2)).to_contain_text("Half of it", timeout=TURN_MS)
    server.release("mid")
    panel.wait_done()

    expect(panel.turn(2)).to_contain_text("Half of it and the rest.")
    expect(panel.log.get_by_role("article")).to_have_count(2)
    assert panel.log.inner_text().count("First answer.") == 1


def test_an_edit_is_accepted_in_its_cell(seven: Open, server: FakeAnthropic) -> None:
    """The diff stands in the cell, and what was accepted is its source."""
    page = seven("seven_diff.ipynb", ("a", "x = 1"))
    panel = Panel(page).open()
    server.append(
        call("read_cell", cell_id="a"), call("edit_cell", cell_id="a", source="x = 2"), "Done."
    )
    panel.ask("Make it two")
    proposed = page.page.get_by_role("group", name="Proposed edit").first
    expect(proposed).to_be_visible(timeout=TURN_MS)
    accept = proposed.locator(".top").get_by_role("button", name="Accept")
    expect(accept).to_have_attribute("aria-disabled", "false", timeout=TURN_MS)
    accept.click()
    panel.wait_done()

    expect(proposed).to_have_count(0)
    sources = (
        "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells"
        ".map(cell => cell.getSource()).slice(1)"
    )
    assert page.page.evaluate(sources) == ["x = 2"]


def test_the_widget_stands_below_a_running_cell(seven: Open, server: FakeAnthropic) -> None:
    """`%agent` shows question and answer below its cell while it blocks, then plain Markdown."""
    load = "%config JupyterCtx.cell_widget = 'auto'"
    page = seven("seven_widget.ipynb", ("ask", "%agent Six times seven"), load=load)
    server.append(call("run_code", code="print(6 * 7)"), "It is **42**.")
    page.start_cell(1)
    widget = WidgetPanel(page, 1)
    expect(widget.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    widget.allow()
    page.wait_idle()

    expect(widget.root).to_have_count(0)
    expect(widget.static(1).locator("strong").last).to_have_text("42")


def test_code_goes_into_the_notebook_from_an_output(seven: Open, server: FakeAnthropic) -> None:
    """Insert below puts code right below the cell that the panel stands in, and nowhere else."""
    page = seven("seven_insert.ipynb", ("panel", "%agent /panel"), ("print", "print(x)"))
    server.append("Do this:\n\n```python\nx = 6 * 7\n```\n")
    page.run_cell(1)
    panel = WidgetPanel(page, 1)
    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
    panel.ask("What then?")
    insert = panel.turn(1).get_by_role("button", name="Insert below")
    expect(insert).to_be_visible(timeout=TURN_MS)
    insert.click()
    expect(page.page.locator(".jp-Notebook .jp-Cell")).to_have_count(4)
    sources = page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets"
        ".map(cell => cell.model.sharedModel.getSource())"
    )
    assert sources[1:] == ["%agent /panel", "x = 6 * 7", "print(x)"]


def test_the_dark_panel_has_nothing_for_axe(seven: Open, server: FakeAnthropic) -> None:
    """A turn with code and an open question breaks no rule of accessibility, light and dark."""
    page = seven("seven_axe.ipynb")
    panel = Panel(page).open()
    code = "print(6 * 7)"
    server.append(reply(f"With *code*:\n\n```python\n{code}\n```\n", call("run_code", code=code)))
    panel.ask("Six times seven")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    page.page.add_script_tag(path=AXE)
    assert page.page.evaluate(AUDIT) == []
    page.set_theme(dark=True)
    page.page.wait_for_function(
        """() => {
          const { backgroundColor } = getComputedStyle(document.querySelector('.jctx-panel'));
          return backgroundColor.match(/[0-9]+/g).slice(0, 3).every(part => Number(part) < 90);
        }"""
    )
    assert page.page.evaluate(AUDIT) == []
    dark = panel.root.evaluate("node => getComputedStyle(node).color")
    assert sum(int(part) for part in re.findall(r"\d+", dark)[:3]) > 450
    server.append("Done.")
    panel.allow()
    panel.wait_done()
