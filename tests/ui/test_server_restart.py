"""JupyterLab's server ends and is started again, with a session in the notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.fake_anthropic import FakeAnthropic

from .conftest import NEWS, PATIENCE_MS, PageFor
from .notebook_page import NotebookPage
from .panel_page import Panel
from .server import LabServer, lasting_port, start_lab
from .test_first_turn import connected
from .test_panel import opened

GONE = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session ?? {};
  return kernel?.connectionStatus !== 'connected';
}"""

CUT = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const { serverSettings } = kernel;
  const real = serverSettings.WebSocket;
  serverSettings.WebSocket = class extends real {
    constructor(url, ...rest) {
      super(url.replace('/channels', '/nowhere'), ...rest);
    }
  };
  window.mend = () => {
    serverSettings.WebSocket = real;
    return kernel.reconnect();
  };
  kernel._ws.close();
}"""
"""The kernel's socket ends, and none that follows gets through until `mend` is called."""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic(["First answer.", "Second answer."]) as fake:
        yield fake
        assert fake.refused == []


def test_a_conversation_goes_on_after_the_server_was_restarted(
    tmp_path: Path, browser: Browser, server: FakeAnthropic
) -> None:
    """C30: with the server away all stays to be read; on the next one it goes on, nothing twice."""
    port = lasting_port()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    with start_lab(tmp_path / "lab", port=port) as lab:
        lab.write_settings(NEWS, '{"fetchNews": "false"}')
        path = lab.write_notebook("survives.ipynb", [connected(server, "auto")])
        page = NotebookPage(context.new_page(), f"{lab.url}/lab/tree/{path}?reset")
        page.run_cell(0)
        panel = Panel(page).open()
        panel.ask("One")
        panel.wait_done()
        page.command("docmanager:save")
    page.page.wait_for_function(GONE)
    expect(panel.turn(1)).to_contain_text("First answer.")  # what was said stays to be read

    with start_lab(tmp_path / "lab", port=port) as lab:
        page.page.goto(f"{lab.url}/lab/tree/{path}?reset")
        page.wait_idle()
        page.run_cell(0)
        panel.open()
        expect(panel.turn(1)).to_contain_text("First answer.")
        panel.ask("Two")
        panel.wait_done()
        expect(panel.turn(2)).to_contain_text("Second answer.")
        expect(panel.log.get_by_role("article")).to_have_count(2)
        assert panel.log.inner_text().count("First answer.") == 1
        assert server.messages[-1].body.count(b"First answer.") == 1
        context.close()


def test_a_page_that_lost_the_server_says_so_until_it_is_back(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """A note stands there meanwhile and the conversation stays; then both go on, nothing twice."""
    page, panel = opened(lab, page_for, server, "cut_off.ipynb")
    panel.ask("One")
    panel.wait_done()
    note = panel.root.get_by_text("No connection to the Jupyter server.")
    expect(note).to_have_count(0)

    page.page.evaluate(CUT)
    expect(note).to_be_visible()
    expect(panel.turn(1)).to_contain_text("First answer.")

    page.page.evaluate("() => window.mend()")
    expect(note).to_have_count(0)
    panel.ask("Two")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Second answer.")
    expect(panel.log.get_by_role("article")).to_have_count(2)
    assert panel.log.inner_text().count("First answer.") == 1
