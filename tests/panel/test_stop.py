"""Stop, from the panel, at every stage of a turn; a cell of the user's is never interrupted."""

from __future__ import annotations

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import RealKernel
from .client import PanelPage

LOOP = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.01)"


def test_while_the_model_answers(free: RealKernel, server: FakeAnthropic, page: PanelPage) -> None:
    """A stream is left at once; the turn ends as stopped, and the next prompt runs."""
    server.append(reply("Half", Hold("never"), " more"), "Again.")
    page.open()
    page.call("submit", text="go")
    page.wait_text("Half")
    assert page.call("stop")["stopped"] is True
    page.wait_for("turn_finished", outcome="stopped")
    page.call("submit", text="on")
    page.wait_for("turn_finished", outcome="done")
    free.execute("1")  # what follows a turn's last item is done
    assert page.call("stop")["stopped"] is False


def test_while_code_runs(free: RealKernel, server: FakeAnthropic, page: PanelPage) -> None:
    """Code on the idle main thread is interrupted, and the kernel's own handler is put back."""
    server.append(reply(call("run_code", code=LOOP)))
    page.open()
    before = free.eval("repr(__import__('signal').getsignal(2))")
    page.call("submit", text="go")
    page.wait_for("tool_output")
    page.call("stop")
    assert page.wait_for("tool_finished")["interrupted"] is True
    page.wait_for("turn_finished", outcome="stopped")
    assert free.eval("repr(__import__('signal').getsignal(2))") == before


def test_while_a_question_waits(kernel: RealKernel, server: FakeAnthropic, page: PanelPage) -> None:
    """The question is closed with its turn: a later answer finds none."""
    server.append(reply(call("run_code", code="x = 1")))
    page.open()
    page.call("submit", text="go")
    question = page.wait_for("question")
    page.call("stop")
    closed = page.wait_for("question_closed", id=question["id"])
    assert closed["how"] == "expired"
    page.wait_for("turn_finished", outcome="stopped")
    assert kernel.eval("'x' in globals()") is False


def test_while_a_call_waits_behind_a_cell(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The turn ends at once, its code never runs, and the cell that runs goes on unharmed."""
    server.append(reply("So:", Hold("cell"), call("run_code", code="ran = True")))
    page.open()
    page.call("submit", text="go")
    page.wait_text("So:")
    cell = free.submit("print('asks')\nanswer = input('?')", allow_stdin=True)
    free.wait_for_text(cell, "asks")
    server.release("cell")
    page.wait_for("tool_started")
    page.call("stop")
    page.wait_for("turn_finished", outcome="stopped")
    assert free.collect(cell, stdin_replies=["fine"]).ok
    assert free.eval("(answer, 'ran' in globals())") == ("fine", False)


def test_a_turn_below_a_cell(free: RealKernel, server: FakeAnthropic, page: PanelPage) -> None:
    """The panel stops what runs below a cell, while that blocks the main thread."""
    server.append(reply(call("run_code", code=LOOP)))
    page.open()
    cell = free.submit("%agent go")
    page.wait_for("tool_started")
    free.wait_for_text(cell, "begun")
    page.call("stop")
    ran = free.collect(cell)
    assert not ran.ok
    assert "Stopped by you" in ran.stderr
    page.wait_for("turn_finished", outcome="stopped")


def test_a_turn_that_has_not_begun_behind_a_cell(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A prompt given while a cell runs waits for that, and can be stopped meanwhile."""
    page.open()
    cell = free.submit("print('asks')\nanswer = input('?')", allow_stdin=True)
    free.wait_for_text(cell, "asks")
    page.call("submit", text="go")
    page.wait_for("turn_started")
    page.call("stop")
    page.wait_for("turn_finished", outcome="stopped")
    assert free.collect(cell, stdin_replies=["fine"]).ok
    assert server.messages == []
