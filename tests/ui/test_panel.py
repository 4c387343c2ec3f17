"""The agent's panel in a real JupyterLab: a person asks, sees, allows, stops."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply, status

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_first_turn import connected

BLOCK = "import threading; print('it begins', flush=True); threading.Event().wait()"
FIGURE = """\
import matplotlib.pyplot as plt
print('three points')
plt.plot([1, 3, 2])
plt.show()
"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def opened(
    lab: LabServer,
    page_for: PageFor,
    server: FakeAnthropic,
    name: str,
    *more: str,
    permissions: str = "auto",
    settings: str = "",
) -> tuple[NotebookPage, Panel]:
    """Open a notebook whose first cell loads the extension, and the panel beside it."""
    load = f"{settings}\n{connected(server, permissions)}"
    page = page_for(lab.write_notebook(name, [load, *more]))
    page.run_cell(0)
    return page, Panel(page).open()


def test_the_first_run_needs_neither_key_nor_cell(lab: LabServer, page_for: PageFor) -> None:
    """Showing the panel loads the agent; the demo answers, and the namespace is the user's."""
    names = "print(sorted(one for one in globals() if not one.startswith('_i')))"
    page = page_for(lab.write_notebook("first_run.ipynb", [names, names, "print(len(In))"]))
    before = page.run_cell(0)
    panel = Panel(page).open()

    expect(panel.log).to_contain_text("Demo model: no key is set")
    assert page.run_cell(1) == before
    assert page.run_cell(2)[0]["text"] == "4\n"
    panel.ask("What is in the kernel?")
    panel.allow()
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("The kernel holds")


def test_a_turn_is_streamed_with_code_output_and_figure(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Text stands there while more of it comes; a step opens to its code, output and figure."""
    page, panel = opened(lab, page_for, server, "streamed.ipynb", "a = 1", "b = 2")
    server.append(
        reply("I plot it", Hold("mid"), " at once.", call("run_code", code=FIGURE)),
        "Here is **the** cell:\n\n```python\nanswer = 42\n```\n",
    )
    panel.ask("Plot three points")
    server.wait_held("mid")
    expect(panel.turn(1)).to_contain_text("I plot it")
    expect(panel.run_line).to_contain_text("step 1")
    server.release("mid")
    panel.wait_done()

    turn = panel.turn(1)
    expect(turn.locator("strong")).to_have_text("the")
    panel.open_rows(1)
    expect(turn.get_by_text("three points").first).to_be_visible()
    expect(turn.locator(".jctx-outputs img")).to_be_visible(timeout=TURN_MS)
    expect(turn.locator("pre.code").first).to_contain_text("plt.plot([1, 3, 2])")
    assert "three points" not in json.dumps([page.cell_outputs(at) for at in range(3)])


def test_code_of_an_answer_goes_into_the_notebook(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Insert below makes a cell below the active one, Replace puts it in place of its source."""
    page, panel = opened(lab, page_for, server, "insert.ipynb", "a = 1")
    server.append("```python\nanswer = 42\n```\n")
    panel.ask("Answer in code")
    panel.wait_done()
    sources = (
        "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells"
        ".map(cell => cell.getSource()).slice(1)"
    )
    page.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1 }"
    )

    panel.turn(1).get_by_role("button", name="Insert below").click()
    page.page.wait_for_function(f"() => ({sources})().length === 2")
    assert page.page.evaluate(sources) == ["a = 1", "answer = 42"]
    page.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1 }"
    )
    panel.turn(1).get_by_role("button", name="Replace cell 2").click()
    assert page.page.evaluate(sources) == ["answer = 42", "answer = 42"]


@pytest.mark.parametrize("key", ["", "y"])
def test_a_question_is_answered_by_click_and_by_key(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic, key: str
) -> None:
    """The code runs only once it was allowed, and the step says so."""
    name = f"asked_{key or 'click'}.ipynb"
    _, panel = opened(lab, page_for, server, name, permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    panel.ask("Six times seven")
    expect(panel.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    expect(panel.run_line).to_contain_text("Waiting for you")

    panel.allow(key=key)
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("It is 42.")
    expect(panel.question).to_have_count(0)


@pytest.mark.parametrize("key", ["", "y"])
def test_a_blocked_cell_is_answered_in_the_panel(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic, key: str
) -> None:
    """`%agent` blocks the kernel; its question is answered in the panel, and the cell goes on."""
    name = f"blocked_{key or 'click'}.ipynb"
    page, panel = opened(lab, page_for, server, name, "%agent Go on", permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    page.start_cell(1)
    expect(panel.question).to_contain_text("print(6 * 7)", timeout=TURN_MS)
    panel.allow(key=key)

    expect(page.output_area(1)).to_contain_text("It is 42.", timeout=TURN_MS)
    expect(page.page.locator(".jp-Stdin-input")).to_have_count(0)
    expect(panel.turn(1)).to_contain_text("It is 42.")


def test_a_closed_panel_leaves_the_question_to_the_cell(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """What nobody sees is asked where it can be seen: below the cell."""
    page, _ = opened(lab, page_for, server, "closed.ipynb", "%agent Go on", permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    page.command("application:toggle-right-area")
    page.start_cell(1)

    expect(page.page.locator(".jp-Stdin-input")).to_be_visible(timeout=TURN_MS)
    page.answer_input("y")
    expect(page.output_area(1)).to_contain_text("It is 42.", timeout=TURN_MS)


def test_a_denial_tells_the_reason(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The code does not run, and the model hears what to do instead."""
    _, panel = opened(lab, page_for, server, "denied.ipynb", permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"), "As you wish.")
    panel.ask("Six times seven")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    field = panel.begin_denial()
    field.fill("use the id columns")
    field.press("Enter")
    panel.wait_done()

    expect(panel.turn(1)).to_contain_text("Denied")
    assert b"use the id columns" in server.messages[-1].body


def test_a_click_of_a_script_allows_nothing(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C29: only a person's click or key counts, however often a script makes one."""
    _, panel = opened(lab, page_for, server, "synthetic.ipynb", permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    panel.ask("Six times seven")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    panel.begin_denial().press("Escape")  # a person's click counts by now
    allow = panel.question.get_by_role("button", name="Allow once")
    allow.evaluate("button => button.click()")
    allow.evaluate("button => button.dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    panel.question.evaluate(
        "node => node.dispatchEvent(new KeyboardEvent('keydown', { key: 'y', bubbles: true }))"
    )

    expect(panel.question).to_be_visible()
    expect(allow).to_be_enabled()
    assert len(server.messages) == 1
    panel.allow()
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("It is 42.")


def test_stop_while_the_answer_streams(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C27: what was written stays, the turn says who stopped it, and the next prompt runs."""
    _, panel = opened(lab, page_for, server, "stop_stream.ipynb")
    server.append(reply("Half of it", Hold("mid"), " and more."), "Next.")
    panel.ask("Write")
    server.wait_held("mid")
    expect(panel.turn(1)).to_contain_text("Half of it")
    panel.stop_button.click()
    panel.wait_done()
    server.release("mid")

    expect(panel.turn(1)).to_contain_text("Stopped by you")
    expect(panel.turn(1)).to_contain_text("Half of it")
    panel.ask("Again")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Next.")


def test_stop_while_code_runs(lab: LabServer, page_for: PageFor, server: FakeAnthropic) -> None:
    """C27: Ctrl . interrupts code that blocks for ever; the user's cells run afterwards."""
    page, panel = opened(lab, page_for, server, "stop_code.ipynb", "print('free')")
    server.append(call("run_code", code=BLOCK))
    panel.ask("Block")
    expect(panel.turn(1)).to_contain_text("it begins", timeout=TURN_MS)
    page.page.keyboard.press("Control+.")
    panel.wait_done()

    expect(panel.turn(1)).to_contain_text("Stopped by you")
    assert page.run_cell(1)[0]["text"] == "free\n"


def test_stop_while_it_asks(lab: LabServer, page_for: PageFor, server: FakeAnthropic) -> None:
    """C27: the question goes with the turn, and nothing ran."""
    _, panel = opened(lab, page_for, server, "stop_ask.ipynb", permissions="ask")
    server.append(call("run_code", code="print(6 * 7)"))
    panel.ask("Six times seven")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    panel.stop_button.click()
    panel.wait_done()

    expect(panel.question).to_have_count(0)
    expect(panel.turn(1)).to_contain_text("Stopped by you")
    assert len(server.messages) == 1


def test_a_wait_for_the_provider_is_ended_by_a_click(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """It asked for four minutes; Try now sends the same again at once."""
    _, panel = opened(lab, page_for, server, "try_now.ipynb")
    server.append(status(429, retry_after=240), "At last.")
    panel.ask("Go on")
    wait = panel.turn(1).locator(".jctx-note", has_text="Next try in 3:")
    expect(wait).to_be_visible(timeout=TURN_MS)
    wait.get_by_role("button", name="Try now").click()
    panel.wait_done()

    expect(panel.turn(1)).to_contain_text("At last.")
    expect(wait).to_have_count(0)
    assert server.messages[0].body == server.messages[1].body


def test_a_compaction_is_seen_opened_edited_and_undone(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C18: the divider opens to its summary; an edit and an undo are told on it."""
    settings = "import os; os.environ['JUPYTER_CTX_TAIL_TOKENS'] = '0'"
    _, panel = opened(lab, page_for, server, "compacted.ipynb", settings=settings)
    long = "It is a long answer. " * 900
    server.append(long, long, "<summary>The user said hello twice.</summary>")
    for prompt in ("Hello", "Hello again"):
        panel.ask(prompt)
        panel.wait_done()
    panel.ask("/compact")
    divider = panel.log.locator("details.jctx-compact")
    expect(divider).to_contain_text("Compacted", timeout=TURN_MS)
    panel.wait_done()

    divider.locator("summary").first.click()
    expect(divider).to_contain_text("The user said hello twice.")
    divider.get_by_role("button", name="Edit").click()
    divider.get_by_role("textbox", name="Summary").fill("The user greeted.")
    divider.get_by_role("button", name="Save").click()
    expect(divider).to_contain_text("edited by you")
    expect(divider).to_contain_text("The user greeted.")
    divider.get_by_role("button", name=re.compile("Undo")).click()
    expect(divider.locator("summary").first).to_contain_text("undone", timeout=TURN_MS)


def test_a_reload_in_mid_turn_picks_it_up(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C30: the panel is there again, with the running turn, and nothing stands there twice."""
    page, panel = opened(lab, page_for, server, "reload.ipynb")
    server.append("First answer.", reply("Half of it", Hold("mid"), " and the rest."))
    panel.ask("One")
    panel.wait_done()
    panel.ask("Two")
    server.wait_held("mid")
    expect(panel.turn(2)).to_contain_text("Half of it")
    page.page.evaluate("() => window.jupyterapp.restored")
    page.command("docmanager:save")
    page.page.wait_for_function(
        "() => fetch('/lab/api/workspaces').then(r => r.text()).then(t => t.includes('ctx:panel'))"
    )
    page.page.goto(page.page.url.split("?")[0])

    expect(panel.turn(2)).to_contain_text("Half of it", timeout=TURN_MS)
    server.release("mid")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Half of it and the rest.")
    expect(panel.log.get_by_role("article")).to_have_count(2)
    assert panel.log.inner_text().count("First answer.") == 1


def test_a_question_of_a_cell_is_answered_after_a_reload(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The page loaded anew hears of the kernel only by the agent: the main thread is blocked."""
    page, panel = opened(
        lab, page_for, server, "asked_anew.ipynb", "%agent count", permissions="ask"
    )
    server.append(call("run_code", code="print(6 * 7)"), "It is 42.")
    page.start_cell(1)
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    page.command("docmanager:save")
    page.reload()
    panel.open()
    panel.allow()

    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("It is 42.", timeout=TURN_MS)


def test_a_kernel_restart_in_mid_turn_keeps_the_conversation(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C30: the agent is loaded again by itself; what was said stays, and a next prompt runs."""
    page, panel = opened(lab, page_for, server, "restart.ipynb", "print('alive')")
    server.append("First answer.", reply("Half of it", Hold("mid"), " and more."))
    panel.ask("One")
    panel.wait_done()
    panel.ask("Two")
    server.wait_held("mid")
    expect(panel.turn(2)).to_contain_text("Half of it")
    page.restart_kernel()
    server.release("mid")

    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
    expect(panel.turn(1)).to_contain_text("First answer.", timeout=TURN_MS)
    panel.wait_done()
    assert page.run_cell(1)[0]["text"] == "alive\n"
    panel.ask("/context")
    expect(panel.log).to_contain_text("/context", timeout=TURN_MS)


def test_figures_of_a_table_stand_on_the_right(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """In what a command shows, names are on the left, figures on the right, digits of one width."""
    _, panel = opened(lab, page_for, server, "figures.ipynb")
    server.append("First answer.")
    panel.ask("One")
    panel.wait_done()
    for command in ("/context", "/cost"):
        panel.ask(command)
        table = panel.log.get_by_role("article", name=f"Shown by {command}").locator("table").first
        expect(table).to_be_visible(timeout=TURN_MS)
        row = table.locator("tbody tr").first
        name, figure = row.locator("td").first, row.locator("td").last
        expect(name).to_have_css("text-align", "left")
        expect(figure).to_have_css("text-align", "right")
        expect(figure).to_have_css("font-variant-numeric", "tabular-nums")


def test_two_notebooks_have_two_conversations(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """The panel follows the notebook in use; drafts stay, and each edit lands in its own."""
    page, panel = opened(lab, page_for, server, "left.ipynb")
    other = lab.write_notebook("right.ipynb", [connected(server, "auto")])
    server.append(reply("In the left", Hold("left"), call("insert_cell", source="left = 1")))
    panel.ask("Insert left")
    server.wait_held("left")
    panel.prompt.fill("draft of the left")
    page.open(other)
    page.run_cell(0)
    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
    expect(panel.prompt).to_have_value("")
    expect(panel.log).not_to_contain_text("In the left")

    server.append("Done left.")
    server.release("left")
    page.open("left.ipynb")
    expect(panel.prompt).to_have_value("draft of the left")
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("Done left.")
    sources = (
        "path => window.jupyterapp.shell.currentWidget.context.path === path"
        " && window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells"
        ".map(cell => cell.getSource()).slice(1)"
    )
    assert page.page.evaluate(sources, "left.ipynb") == ["left = 1"]
    page.open(other)
    assert page.page.evaluate(sources, other) == []


def test_a_queued_prompt_runs_after_the_turn(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """A prompt that is sent meanwhile waits in sight, and is started by itself."""
    _, panel = opened(lab, page_for, server, "queue.ipynb")
    server.append(reply("One", Hold("mid"), "."), "Two.")
    panel.ask("First")
    server.wait_held("mid")
    panel.ask("Second")
    queue = panel.root.get_by_role("list", name="Queue")
    expect(queue).to_contain_text("Second")
    server.release("mid")

    expect(panel.turn(2)).to_contain_text("Two.", timeout=TURN_MS)
    expect(queue).to_have_count(0)


def test_at_250_pixels_in_the_dark_nothing_overflows(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """In the narrowest panel, with JupyterLab's dark theme, every part stays within it."""
    page, panel = opened(lab, page_for, server, "narrow.ipynb", permissions="ask")
    page.set_theme(dark=True)
    code = "a_rather_long_name_without_any_place_to_break_it = " + "1 + " * 40 + "1"
    server.append("A " + "very" * 40 + " long word and `code`.\n\n```python\n" + code + "\n```\n")
    server.append(call("run_code", code=code))
    panel.ask("Write " + "much" * 30)
    panel.wait_done()
    panel.ask("Run")
    expect(panel.question).to_be_visible(timeout=TURN_MS)
    panel.root.evaluate("node => { node.closest('.jctx-side').style.maxWidth = '250px'; }")
    page.page.wait_for_function(
        "() => document.querySelector('.jctx-notebook:not([hidden])').clientWidth <= 250"
    )

    wide = panel.root.evaluate(
        """root => [...root.querySelectorAll('*')].filter(node =>
          !node.closest('.sr, .under, pre, table') && node.getClientRects().length
          && node.getBoundingClientRect().right > root.getBoundingClientRect().right + 1
        ).map(node => node.outerHTML.slice(0, 200))"""
    )
    assert wide == []
    dark = panel.root.evaluate("node => getComputedStyle(node).backgroundColor")
    assert sum(int(part) for part in re.findall(r"\d+", dark)[:3]) < 200
    server.append("Done.")
    panel.allow()
    panel.wait_done()
