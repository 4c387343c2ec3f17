"""The keyboard of the panel, pressed in a real JupyterLab; zoom, motion and forced colours."""

from __future__ import annotations

import string
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS
from .server import LabServer
from .test_first_turn import connected
from .test_panel import opened
from .test_widget import WidgetPanel

OTHER_KEYS = [
    *(letter for letter in string.ascii_lowercase if letter not in "yan"),
    *("d", "d", "0", "0", "1", "Delete", "Shift+M", "Shift+L", "Space", "Escape"),
]
"""Every letter that answers nothing, and the other keys of Lab's command mode."""

CELLS = """() => JSON.stringify(window.jupyterapp.shell.currentWidget.content.model
  .sharedModel.cells.map(cell => [cell.id, cell.cell_type, cell.getSource()]))"""

WIDE = """root => [...root.querySelectorAll('*')].filter(node =>
  !node.closest('.sr, .under, pre, table') && node.getClientRects().length
  && node.getBoundingClientRect().right > root.getBoundingClientRect().right + 1
).map(node => node.outerHTML.slice(0, 200))"""
"""What lies outside the panel, as HTML."""

HIDDEN = """root => [...root.querySelectorAll('button, textarea, h3, pre')].filter(node => {
  if (node.closest('.sr, .under, details:not([open]) > :not(summary)')) return false;
  const { width, height } = node.getBoundingClientRect();
  const style = getComputedStyle(node);
  return node.getClientRects().length > 0 && (width < 8 || height < 8
    || style.visibility !== 'visible' || style.opacity === '0');
}).map(node => node.outerHTML.slice(0, 200))"""
"""Controls and words that take no room or cannot be seen."""

MOVES = """root => [...root.querySelectorAll('*')].filter(node => {
  const { transitionDuration, animationName } = getComputedStyle(node);
  return animationName !== 'none' || transitionDuration.split(',').some(one => parseFloat(one) > 0);
}).map(node => node.outerHTML.slice(0, 200))"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def press_others(page: NotebookPage, focused: Locator) -> None:
    """Press every key that answers nothing while `focused` has the focus."""
    before = page.page.evaluate(CELLS)
    for key in OTHER_KEYS:
        focused.focus()
        page.page.keyboard.press(key)
    assert page.page.evaluate(CELLS) == before


def test_no_key_of_a_question_reaches_the_notebook(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Y, A and N answer; every other key of Lab's command mode changes no cell and answers not."""
    page, panel = opened(
        lab, page_for, server, "letters.ipynb", "a = 1", "b = 2", permissions="ask"
    )
    page.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".jp-InputPrompt").click()
    server.append(call("run_code", code="print(6 * 7)"), call("run_code", code="print(7 * 7)"))
    panel.ask("Calculate")
    expect(panel.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    press_others(page, panel.question)
    press_others(page, panel.log)
    expect(panel.question).to_contain_text("print(6 * 7)")
    assert len(server.messages) == 1

    before = page.page.evaluate(CELLS)
    expect(panel.begin_denial(key="n")).to_be_focused()
    page.page.keyboard.press("Escape")
    expect(panel.question.get_by_role("button", name="Allow once")).to_be_visible()
    expect(panel.run_line).to_contain_text("Waiting for you")  # Esc stops no turn
    server.append("Done.")
    panel.allow(key="a")
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("Done.")
    assert len(server.messages) == 3  # the second was not asked about
    assert page.page.evaluate(CELLS) == before


def test_no_key_of_a_question_in_a_cell_reaches_the_notebook(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """In the widget, within the notebook itself, Lab's command-mode keys do nothing either."""
    load = f"{connected(server, 'ask')}\n%config JupyterCtx.cell_widget = 'auto'"
    page = page_for(lab.write_notebook("letters_cell.ipynb", [load, "%agent count", "b = 2"]))
    page.run_cell(0)
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    page.start_cell(1)
    widget = WidgetPanel(page, 1)
    expect(widget.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    press_others(page, widget.question)
    expect(widget.question).to_contain_text("print(6 * 7)")
    assert len(server.messages) == 1

    before = page.page.evaluate(CELLS)
    widget.allow(key="y")
    page.wait_idle()
    expect(page.output_area(1)).to_contain_text("It is 42.")
    assert page.page.evaluate(CELLS) == before


def test_f6_goes_round_the_panel(lab: LabServer, page_for: PageFor, server: FakeAnthropic) -> None:
    """Question, conversation, prompt, head, and round again; Shift F6 goes back."""
    page, panel = opened(lab, page_for, server, "f6.ipynb", permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"))
    panel.ask("Calculate")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    keyboard = page.page.keyboard
    head = panel.root.locator(".jctx-head button").first
    panel.prompt.focus()
    for there in (head, panel.question, panel.log, panel.prompt, head):
        keyboard.press("F6")
        expect(there).to_be_focused()
    for there in (panel.prompt, panel.log, panel.question):
        keyboard.press("Shift+F6")
        expect(there).to_be_focused()
    panel.stop_button.click()
    panel.wait_done()


def test_history_and_completion_by_keys(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Up and down bring prompts back; the list is moved in, taken from, and closed by Esc."""
    page, panel = opened(lab, page_for, server, "history.ipynb", "table_of_costs = 1")
    page.run_cell(1)
    server.append("One.", reply("Half", Hold("mid"), " and whole."))
    panel.ask("the first prompt")
    panel.wait_done()
    panel.ask("the second prompt")
    server.wait_held("mid")
    keyboard = page.page.keyboard
    panel.prompt.click()
    keyboard.type("a draft")
    for key, text in (
        ("ArrowUp", "the second prompt"),
        ("ArrowUp", "the first prompt"),
        ("ArrowDown", "the second prompt"),
        ("ArrowDown", "a draft"),
    ):
        keyboard.press(key)
        expect(panel.prompt).to_have_value(text)

    panel.prompt.fill("")
    listed = panel.root.get_by_role("listbox", name="Completions")
    keyboard.type("/he")
    expect(listed.get_by_role("option").first).to_contain_text("/help", timeout=TURN_MS)
    keyboard.press("Escape")
    expect(listed).to_have_count(0)
    expect(panel.stop_button).to_be_enabled()  # Esc stops no turn
    panel.prompt.fill("")
    keyboard.type("show @table")
    expect(listed.get_by_role("option").first).to_contain_text("table_of_costs", timeout=TURN_MS)
    keyboard.press("Tab")
    expect(panel.prompt).to_have_value("show @table_of_costs ")
    keyboard.press("Shift+Enter")
    expect(panel.prompt).to_have_value("show @table_of_costs \n")
    server.release("mid")
    panel.wait_done()


def test_rows_are_gone_through_by_keys(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Up and down go from row to row of the conversation, right opens one, left closes it."""
    page, panel = opened(lab, page_for, server, "rows.ipynb")
    server.append(call("run_code", code="print('first row')"), "Between.")
    server.append(call("run_code", code="print('second row')"), "Done.")
    for prompt in ("One", "Two"):
        panel.ask(prompt)
        panel.wait_done()
    first, second = (panel.turn(n).locator("details").first for n in (1, 2))
    keyboard = page.page.keyboard
    first.locator("summary").first.focus()
    keyboard.press("ArrowRight")
    expect(first).to_have_attribute("open", "")
    expect(first).to_contain_text("first row")
    keyboard.press("ArrowLeft")
    expect(first).not_to_have_attribute("open", "")
    keyboard.press("ArrowDown")
    expect(second.locator("summary").first).to_be_focused()
    keyboard.press("ArrowUp")
    expect(first.locator("summary").first).to_be_focused()


@pytest.mark.parametrize("colors", ["none", "active"])
def test_zoom_motion_and_colours_hide_nothing(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic, colors: str
) -> None:
    """At 200 %, without motion, with forced colours: nothing overflows, is hidden, or moves."""
    page, panel = opened(lab, page_for, server, f"zoom_{colors}.ipynb", permissions="ask")
    page.page.emulate_media(
        reduced_motion="reduce", forced_colors="active" if colors == "active" else "none"
    )
    server.append("An answer with `code`.\n\n```python\nx = 1\n```\n")
    panel.ask("Write")
    panel.wait_done()
    server.append(call("run_code", code="a_name = " + "1 + " * 40 + "1"))
    panel.ask("Run")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    page.page.set_viewport_size({"width": 640, "height": 400})  # 1280 × 800 at 200 %
    page.page.wait_for_function("() => innerWidth === 640")
    panel.root.evaluate("() => new Promise(done => requestAnimationFrame(() => done(null)))")

    assert panel.root.evaluate(WIDE) == []
    assert panel.root.evaluate(HIDDEN) == []
    assert panel.root.evaluate(MOVES) == []
    for part in (panel.prompt, panel.stop_button):
        expect(part).to_be_in_viewport(ratio=1)
    allow = panel.question.get_by_role("button", name="Allow once")
    allow.scroll_into_view_if_needed()
    expect(allow).to_be_in_viewport(ratio=1)
    border = panel.question.evaluate("node => getComputedStyle(node).borderLeftWidth")
    assert border == "4px"
    server.append("Done.")
    panel.allow()
    panel.wait_done()
