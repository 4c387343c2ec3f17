"""The widget below a running cell, and `/panel`, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply, status
from tests.fake_anthropic.script import Given
from tests.ipython.hostile import HOSTILE

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_first_turn import connected
from .test_hostile_text import FIND

VIEW = "application/vnd.jupyter.widget-view+json"

BUSY = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'busy'"

BLOCKS = 15
"""So many hostile texts make up one answer, each a block of its own."""

INSIDE = f"root => [...root.querySelectorAll('.jctx-answer .jctx-md, pre')].flatMap({FIND})"

FORGE = """button => {
  button.click();
  const detail = { op: 'insert', text: 'evil' };
  for (const node of document.querySelectorAll('.jp-Cell, .jp-Cell *')) {
    node.dispatchEvent(new CustomEvent('jctx-act', { bubbles: true, cancelable: true, detail }));
  }
}"""
"""A script of the page presses Insert below, and asks for it everywhere by itself."""

Open: TypeAlias = Callable[..., NotebookPage]


class WidgetPanel(Panel):
    """The panel, or the running turn, in the output of one cell."""

    def __init__(self, page: NotebookPage, index: int) -> None:
        super().__init__(page)
        self.root = page.output_area(index).locator(".jctx-widget")
        self.prompt = self.root.get_by_role("textbox", name="Prompt")
        self.log = self.root.get_by_role("log", name="Conversation")
        self.question = self.root.get_by_role("group", name="Permission request")
        self.stop_button = self.root.locator("button.stop").last
        self.run_line = self.root.locator(".jctx-run [role=status]")

    def static(self, index: int) -> Locator:
        """Return the Markdown below cell `index`."""
        return self.page.output_area(index).locator(".jp-RenderedMarkdown")


@pytest.fixture
def opened(lab: LabServer, page_for: PageFor) -> Open:
    """A function that opens a notebook whose first cell has loaded the agent, with the widget."""

    def open_notebook(
        name: str, server: FakeAnthropic, *cells: str, permissions: str = "ask"
    ) -> NotebookPage:
        load = f"{connected(server, permissions)}\n%config JupyterCtx.cell_widget = 'auto'"
        page = page_for(lab.write_notebook(name, [load, *cells]))
        page.run_cell(0)
        return page

    return open_notebook


def saved(lab: LabServer, page: NotebookPage, name: str) -> nbformat.NotebookNode:
    """Save the notebook and return what is in its file."""
    page.command("docmanager:save")
    notebook: nbformat.NotebookNode = nbformat.read(lab.root_dir / name, as_version=4)
    return notebook


def test_a_turn_is_live_and_then_static(lab: LabServer, opened: Open) -> None:
    """Run line, call, question and Stop are in the cell while it blocks; then plain Markdown is.

    A wait for the provider is ended, the question answered and the turn stopped by clicks, and the
    file knows of no widget.
    """
    script: list[Given] = [
        status(429, retry_after=240),
        reply("Let me look.", call("run_code", code="x = 6 * 7")),
        reply("It is *slow*", Hold("slow"), "."),
    ]
    with FakeAnthropic(script) as server:
        page = opened("live.ipynb", server, "%agent Go on", "print(x)")
        page.start_cell(1)
        live = WidgetPanel(page, 1)
        live.root.get_by_role("button", name="Try now").click(timeout=TURN_MS)
        expect(live.question).to_contain_text("x = 6 * 7", timeout=TURN_MS)
        expect(live.run_line).to_contain_text("Waiting for you")
        expect(page.output_area(1)).to_contain_text("Let me look.")
        live.allow()
        server.wait_held("slow", 60)
        page.page.wait_for_function(BUSY)
        expect(live.root.locator(".jctx-tools")).to_contain_text("Ran code")
        live.stop_button.click()
        expect(page.output_area(1)).to_contain_text("Stopped by you", timeout=TURN_MS)
        server.release("slow")
        page.wait_idle()

        expect(live.root).to_have_count(0)
        assert page.run_cell(2)[0]["text"] == "42\n"
        notebook = saved(lab, page, "live.ipynb")
        assert "widgets" not in notebook.metadata
        text = nbformat.writes(notebook)
        assert VIEW not in text
        assert "Let me look." in text


def test_the_panel_answers_and_survives_a_reload(lab: LabServer, opened: Open) -> None:
    """`/panel` shows the chat, takes a prompt, and is there again when the page was loaded anew.

    Below it stands the conversation as Markdown. When the kernel is gone it says so in a line.
    """
    with FakeAnthropic(["The *first* answer.", "The second."]) as server:
        page = opened("panel.ipynb", server, "%agent /panel")
        page.run_cell(1)
        panel = WidgetPanel(page, 1)
        expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
        panel.ask("What is it?")
        expect(panel.turn(1).locator("em")).to_have_text("first", timeout=TURN_MS)
        expect(panel.static(1).last).to_contain_text("The first answer.", timeout=TURN_MS)
        text = nbformat.writes(saved(lab, page, "panel.ipynb"))
        assert "The *first* answer." in text
        assert "anywidget" not in text

        page.reload()
        panel = WidgetPanel(page, 1)
        expect(panel.turn(1)).to_contain_text("The first answer.", timeout=TURN_MS)
        panel.ask("And then?")
        expect(panel.turn(2)).to_contain_text("The second.", timeout=TURN_MS)
        expect(panel.turn(1)).to_have_count(1)

        page.restart_kernel()
        expect(panel.root).to_contain_text("%agent /panel", timeout=TURN_MS)
        expect(panel.root).to_contain_text("is gone")


def test_code_goes_into_the_notebook_from_an_output(lab: LabServer, opened: Open) -> None:
    """Insert below puts code right below the cell that the panel stands in, for a person only."""
    with FakeAnthropic(["Do this:\n\n```python\nx = 6 * 7\n```\n"]) as server:
        page = opened("insert.ipynb", server, "%agent /panel", "print(x)")
        page.run_cell(1)
        panel = WidgetPanel(page, 1)
        expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
        panel.ask("What then?")
        insert = panel.turn(1).get_by_role("button", name="Insert below")
        expect(insert).to_be_visible(timeout=TURN_MS)
        expect(panel.turn(1).get_by_role("button", name="Replace cell")).to_have_count(0)

        insert.evaluate(FORGE)
        expect(page.page.locator(".jp-Notebook .jp-Cell")).to_have_count(3)
        insert.click()
        expect(page.page.locator(".jp-Notebook .jp-Cell")).to_have_count(4)
        sources = page.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.widgets"
            ".map(cell => cell.model.sharedModel.getSource())"
        )
        assert sources[1:] == ["%agent /panel", "x = 6 * 7", "print(x)"]


def test_hostile_text_is_inert_in_the_widget(lab: LabServer, opened: Open) -> None:
    """No payload runs a script, loads anything or leaves an element that could."""
    parts = [HOSTILE[at : at + BLOCKS] for at in range(0, len(HOSTILE), BLOCKS)]
    with FakeAnthropic([reply(*part) for part in parts]) as server:
        page = opened("widget_hostile.ipynb", server, "%agent /panel", permissions="auto")
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.run_cell(1)
        panel = WidgetPanel(page, 1)
        expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
        for number in range(1, len(parts) + 1):
            panel.ask(f"Answer {number}")
            expect(panel.turn(number)).to_contain_text("tokens", timeout=TURN_MS)
        expect(panel.log.locator(".jctx-answer")).to_have_count(len(HOSTILE))
        assert panel.root.evaluate(INSIDE) == []

        assert page.page.evaluate("() => window.pwned") is None
        assert [url for url in asked if "attacker.invalid" in url] == []
