"""Beside the panel: notebooks are renamed and reopened, kernels die, versions do not fit."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.fake_anthropic import FakeAnthropic, Hold, reply

from .conftest import PageFor
from .notebook_page import NotebookPage
from .panel_page import TURN_MS, Panel
from .server import LabServer
from .test_panel import opened
from .test_panel_lab import fault, write_kernel, write_with_kernel

RENAME = "path => window.jupyterapp.shell.currentWidget.context.rename(path)"
PATH = "path => window.jupyterapp.shell.currentWidget?.context?.path === path"
PID = "import os; print(os.getpid())"
DIES = """
import os, pathlib, sys
if not pathlib.Path({flag!r}).exists():
    sys.exit(1)
"""
NO_KERNEL = re.compile(r"The kernel is dead\.|This notebook has no kernel\.")
"""Which of them depends on when the server gave up."""
OTHER = """
import jupyter_ctx.ipython.frontend as frontend, jupyter_ctx.ipython.gauge as gauge
import jupyter_ctx.panel.calls as calls
frontend.PROTOCOL = gauge.PROTOCOL = calls.VERSION = {version}
"""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []


def rename(page: NotebookPage, path: str) -> None:
    """Rename the notebook in front, as its file browser does."""
    page.page.evaluate(RENAME, path)
    page.page.wait_for_function(PATH, arg=path)


def test_a_renamed_notebook_keeps_its_conversation(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Renamed between turns and while one runs: all stays, once, also when it is opened again."""
    page, panel = opened(lab, page_for, server, "named.ipynb")
    server.append("First answer.", reply("Half of it", Hold("mid"), " and the rest."))
    panel.ask("One")
    panel.wait_done()
    rename(page, "renamed.ipynb")
    panel.ask("Two")
    server.wait_held("mid")
    rename(page, "renamed twice.ipynb")
    server.release("mid")
    panel.wait_done()

    expect(panel.turn(2)).to_contain_text("Half of it and the rest.")
    expect(panel.log.get_by_role("article")).to_have_count(2)
    page.command("docmanager:save")
    page.command("application:close")
    expect(fault(page)).to_contain_text("Open a notebook to begin.")
    page.open("renamed twice.ipynb")
    expect(panel.turn(2)).to_contain_text("Half of it and the rest.", timeout=TURN_MS)
    expect(panel.log.get_by_role("article")).to_have_count(2)
    server.append("Third.")
    panel.ask("Three")
    panel.wait_done()
    expect(panel.turn(3)).to_contain_text("Third.")
    assert server.messages[-1].body.count(b"First answer.") == 1


def test_a_renamed_notebook_finds_its_session_in_a_new_kernel(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C30: closed with its kernel shut down and opened again, it goes on with what was said."""
    page, panel = opened(lab, page_for, server, "moved.ipynb")
    server.append("First answer.", "Second answer.")
    panel.ask("One")
    panel.wait_done()
    rename(page, "moved away.ipynb")
    page.command("docmanager:save")
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.command("application:close")
    page.open("moved away.ipynb")
    page.run_cell(0)

    expect(panel.turn(1)).to_contain_text("First answer.", timeout=TURN_MS)
    panel.ask("Two")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Second answer.")
    expect(panel.log.get_by_role("article")).to_have_count(2)
    assert server.messages[-1].body.count(b"First answer.") == 1


def test_a_kernel_killed_in_mid_turn_comes_back(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """SIGKILL cuts the turn off; the kernel that follows has the agent, and its conversation."""
    page, panel = opened(lab, page_for, server, "killed.ipynb", PID)
    server.append(reply("Half of it", Hold("mid"), " and more."))
    pid = int(page.run_cell(1)[0]["text"])
    panel.ask("Write")
    server.wait_held("mid")
    expect(panel.turn(1)).to_contain_text("Half of it")
    os.kill(pid, signal.SIGKILL)
    page.page.get_by_role("dialog").get_by_role("button", name="Ok").click(timeout=TURN_MS)
    server.release("mid")
    page.wait_idle()
    assert int(page.run_cell(1)[0]["text"]) != pid

    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
    expect(panel.turn(1)).to_contain_text("The kernel ended before the turn did.")
    page.run_cell(0)
    server.append("Still here.")
    panel.ask("Are you there?")
    panel.wait_done()
    expect(panel.turn(2)).to_contain_text("Still here.")
    expect(panel.log.get_by_role("article")).to_have_count(2)


def test_a_kernel_that_cannot_start_is_said_to_be_dead(lab: LabServer, page_for: PageFor) -> None:
    """The panel says so and what to do; once it can start, choosing it again brings the agent."""
    flag = lab.root_dir / "may_start"
    write_kernel(lab, "broken", DIES.format(flag=str(flag)))
    page = page_for(lab.write_notebook("sound.ipynb", ["1"]))
    page.command("jupyter-ctx:show-panel")
    broken = write_with_kernel(lab, "broken.ipynb", "broken")
    page.command("docmanager:open", path=broken)
    page.page.wait_for_function(PATH, arg=broken)

    expect(fault(page)).to_contain_text(NO_KERNEL, timeout=TURN_MS)
    expect(fault(page)).to_contain_text("Kernel menu")
    flag.touch()
    page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext"
        ".changeKernel({ name: 'broken' }).then(() => null)"
    )
    page.wait_idle()
    expect(Panel(page).prompt).to_be_enabled(timeout=TURN_MS)


@pytest.mark.parametrize(("version", "word"), [(0, "older"), (2, "newer")])
def test_a_package_of_another_protocol_is_refused(
    lab: LabServer, page_for: PageFor, version: int, word: str
) -> None:
    """The panel says which side is old and what to type, takes no prompt, and breaks nothing."""
    cells = [OTHER.format(version=version), "%load_ext jupyter_ctx", "print('free')"]
    page = page_for(lab.write_notebook(f"protocol_{version}.ipynb", cells))
    page.run_cell(0)
    page.run_cell(1)
    page.command("jupyter-ctx:show-panel")

    expect(fault(page)).to_contain_text(f"in this kernel is {word} than this page.")
    expect(fault(page)).to_contain_text("pip install --upgrade jupyter-ctx")
    insert = fault(page).get_by_role("button", name="Insert as cell")
    expect(insert).to_have_count(1 if word == "older" else 0)  # what a cell can mend
    expect(Panel(page).prompt).to_be_disabled()
    assert page.run_cell(2)[0]["text"] == "free\n"
    page.set_source(0, OTHER.format(version=1))
    page.run_cell(0)
    page.set_source(1, "%reload_ext jupyter_ctx")
    page.run_cell(1)
    expect(Panel(page).prompt).to_be_enabled(timeout=TURN_MS)


WRONG = """
import jupyter_ctx.ipython.extension
import comm
ours = [one for one in comm.get_comm_manager().comms.values() if one.target_name == "jupyter_ctx"]
epoch = {epoch!r}
wrong = [
    {{}}, {{"version": 1}}, {{"version": 1, "type": "panel"}}, {{"version": "1", "type": "hello"}},
    {{"version": 1, "type": "panel", "epoch": epoch, "seq": -1, "items": 7}},
    {{"version": 1, "type": "panel", "epoch": 5, "seq": [], "items": [{{"kind": "text_delta"}}]}},
    {{"version": 1, "type": "panel", "epoch": epoch, "seq": 0, "items": [{{"kind": "odd"}}]}},
    {{"version": 99, "type": "panel", "epoch": epoch, "seq": 0, "items": []}},
    {{"version": 1, "type": "answer", "id": 1, "to": None, "part": "x", "parts": 2**70, "text": 9}},
    {{"version": 1, "type": "request", "id": "r", "op": "no_such", "args": [], "to": None}},
    {{"version": 1, "type": "request", "id": "r2", "op": "insert_cell", "args": {{}}, "to": 5}},
    {{"version": 99, "type": "request", "id": "r3", "op": "insert_cell",
     "args": {{"source": "harm = 1", "cell_type": "code"}}, "to": None}},
    {{"version": 1, "type": "context", "context": {{"parts": "none"}}}},
    {{"version": 1, "type": ["hello"], "epoch": {{}}}},
]
for each in ours:
    for message in wrong:
        each.send(message)
print(len(ours) > 0)
"""


def test_wrong_messages_of_a_kernel_break_nothing(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """Of a version or shape that nobody speaks: refused; nothing is changed, the next turn runs."""
    page, panel = opened(lab, page_for, server, "wrong.ipynb", WRONG.format(epoch="none"), "1")
    server.append("First.", "Second.")
    panel.ask("One")
    panel.wait_done()
    assert page.run_cell(1)[0]["text"] == "True\n"

    expect(panel.prompt).to_be_enabled(timeout=TURN_MS)
    panel.ask("Two")
    panel.wait_done()
    expect(panel.turn(1)).to_contain_text("First.")
    expect(panel.turn(2)).to_contain_text("Second.")
    expect(panel.log.get_by_role("article")).to_have_count(2)
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 3
