"""Cases that users reported, as a person meets them in a real JupyterLab with the panel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS
from .server import LabServer
from .test_panel import opened

CONTEXT = "application/vnd.jupyter-ctx.context+json"
SOURCES = """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .map(cell => cell.getSource()).slice(1)"""
SLOW = """
import threading
for n in range(3):
    print('tick', n, flush=True)
threading.Event().wait()
"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def context(page: NotebookPage, cell: int) -> dict[str, Any]:
    """Run the cell that asks `%agent /context`; return its JSON."""
    (found,) = [one["data"] for one in page.run_cell(cell) if CONTEXT in one.get("data", {})]
    told: dict[str, Any] = found[CONTEXT]
    return told


def test_the_gauge_counts_from_before_the_first_reply(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C11: an estimate before any request, the provider's sum after it, less after a compaction.

    The parts add up to the total at each point.
    """
    settings = "import os; os.environ['JUPYTER_CTX_TAIL_TOKENS'] = '0'"
    cells = ["%agent /context", *(f"x_{n} = {n}" for n in range(5))]
    page, panel = opened(lab, page_for, server, "c11.ipynb", *cells, settings=settings)
    for at in range(2, 7):
        page.run_cell(at)
    told = [context(page, 1)]
    assert server.messages == []
    long = "It is a long answer. " * 900
    for prompt, answer in (("One", "Short."), ("Two", long), ("Three", long)):
        server.append(answer)
        panel.ask(prompt)
        panel.wait_done()
        told.append(context(page, 1))
    server.append("<summary>The user asked three things.</summary>")
    panel.ask("/compact")
    expect(panel.log.locator("details.jctx-compact")).to_contain_text("Compacted", timeout=TURN_MS)
    panel.wait_done()
    told.append(context(page, 1))

    used = [one["used_tokens"] for one in told]
    assert [sum(one["parts"].values()) for one in told] == used
    assert used[0] > 0
    assert told[0]["measured_tokens"] == 0
    assert all(one["measured_tokens"] > 0 for one in told[1:4])
    assert used[1] < used[2] < used[3]
    assert used[4] < used[3]


def test_a_long_cell_leaves_gauge_and_stop_alive(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C28, C27: while code blocks the kernel its output comes, the panel answers, and Stop stops.

    What it printed stands in its own turn, and the user's cell that waited runs next, alone.
    """
    page, panel = opened(lab, page_for, server, "c28.ipynb", "print('mine')")
    server.append(call("run_code", code=SLOW), "Never asked for.")
    panel.ask("Run it")
    expect(panel.turn(1)).to_contain_text("tick 2", timeout=TURN_MS)
    expect(panel.run_line).to_contain_text("Running code")
    page.start_cell(1)  # waits behind it
    panel.root.locator(".jctx-gauge").first.click()
    expect(page.page.get_by_role("dialog", name="Context")).to_be_visible()
    page.page.keyboard.press("Escape")
    panel.prompt.fill("/he")
    expect(panel.root.get_by_role("listbox", name="Completions")).to_contain_text("/help")
    panel.prompt.fill("")
    panel.stop_button.click()
    panel.wait_done()

    expect(panel.turn(1)).to_contain_text("Stopped by you")
    assert len(server.messages) == 1
    expect(page.output_area(1)).to_contain_text("mine", timeout=TURN_MS)
    assert "tick" not in str(page.cell_outputs(1))


def test_one_insertion_is_one_cell(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """X5, C24, C25: the page makes exactly one cell, and one alone where nothing answered in time.

    With the front end's comms cut off the tool says "not applied" and what to paste.
    """
    page, panel = opened(lab, page_for, server, "x5.ipynb", "a = 1")
    server.append(call("insert_cell", source="new = 1"), "Inserted.")
    panel.ask("Insert")
    panel.wait_done()
    assert page.page.evaluate(SOURCES) == ["a = 1", "new = 1"]

    server.append(
        reply("Wait", Hold("drop"), call("insert_cell", source="lost = 1")),
        reply("Told.", Hold("end")),
    )
    panel.ask("Insert again")
    server.wait_held("drop")
    page.page.evaluate(
        """() => { // the page is there, and answers nothing any more
          const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
          kernel.sendControlMessage = () => ({ done: new Promise(() => undefined) });
        }"""
    )
    server.release("drop")
    server.wait_held("end", 60)
    said = server.messages[-1].json["messages"][-1]["content"][-1]["content"][0]["text"]
    assert said.startswith("Not applied")
    assert "lost = 1" in said
    assert page.page.evaluate(SOURCES).count("lost = 1") <= 1
    server.release("end")
