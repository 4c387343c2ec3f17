"""A question takes the focus of a real JupyterLab, and gives it back."""

from __future__ import annotations

import nbformat
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic, call
from tests.fake_anthropic.script import Given

from .conftest import PageFor
from .notebook_page import NotebookPage
from .server import LabServer
from .test_first_turn import TURN_MS, connected, question

ACTIVE = "index => window.jupyterapp.shell.currentWidget.content.activeCellIndex === index"


def opened(lab: LabServer, page_for: PageFor, server: FakeAnthropic, name: str) -> NotebookPage:
    """Open a notebook of three cells: loads, asks, prints; the first has run."""
    sources = (connected(server, "ask"), "%agent Go on", "print('next')")
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, lab.root_dir / name)
    page = page_for(name)
    page.run_cell(0)
    return page


def ask(page: NotebookPage) -> None:
    """Run the asking cell with Shift Enter, which makes the next one active."""
    page.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".jp-InputPrompt").click()
    page.page.keyboard.press("Shift+Enter")
    expect(question(page)).to_be_focused(timeout=TURN_MS)


def test_after_an_answer_the_next_cell_is_active(lab: LabServer, page_for: PageFor) -> None:
    """Whoever runs cell after cell with Shift Enter does not ask the same again."""
    script: list[Given] = [
        call("run_code", code="6 * 7"),
        call("run_code", code="7 * 7"),
        "It is 42.",
    ]
    with FakeAnthropic(script) as server:
        page = opened(lab, page_for, server, "questions.ipynb")
        ask(page)
        page.page.keyboard.type("y")
        page.page.keyboard.press("Enter")
        expect(page.output_area(1)).to_contain_text("7 * 7", timeout=TURN_MS)
        expect(question(page)).to_have_count(
            1, timeout=TURN_MS
        )  # JupyterLab keeps the answered one for a while
        expect(question(page)).to_be_focused(timeout=TURN_MS)
        page.page.keyboard.type("y")
        page.page.keyboard.press("Enter")
        expect(page.output_area(1)).to_contain_text("It is 42.", timeout=TURN_MS)

        page.page.wait_for_function(ACTIVE, arg=2)
        page.page.keyboard.press("Shift+Enter")
        expect(page.output_area(2)).to_have_text("next")

        assert len(server.messages) == 3


def test_a_question_that_was_stopped_leaves_no_field(lab: LabServer, page_for: PageFor) -> None:
    """Stop at a question takes its field away, and the next cell is active."""
    with FakeAnthropic([call("run_code", code="6 * 7")]) as server:
        page = opened(lab, page_for, server, "stopped_question.ipynb")
        ask(page)
        page.interrupt()

        expect(page.output_area(1)).to_contain_text("Stopped by you", timeout=TURN_MS)
        expect(question(page)).to_have_count(0)
        page.page.wait_for_function(ACTIVE, arg=2)
        assert page.run_cell(2)[0]["text"] == "next\n"
