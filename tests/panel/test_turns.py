"""Turns of the panel in a real kernel: the main thread stays the user's."""

from __future__ import annotations

from ..fake_anthropic import FakeAnthropic, call, reply
from ..kernels import RealKernel
from .client import PanelPage


def test_a_turn_streams_and_runs_code_on_the_idle_kernel(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A prompt of the panel runs to its end with no cell; what it did is told in order."""
    server.append(reply("Let me look.", call("run_code", code="x = 6 * 7\nprint(x)")), "It is 42.")
    opened = page.open()
    assert opened["items"] == []
    assert opened["first_turn"] is None

    assert page.call("submit", text="what is it?", images=[])["queued"] is False
    done = page.wait_for("turn_finished")

    assert done["outcome"] == "done"
    assert done["text"] == "It is 42."
    assert free.eval("x") == 42
    started = page.wait_for("turn_started")
    assert (started["prompt"], started["origin"]) == ("what is it?", "panel")
    assert page.of("tool_output")[-1]["text"] == "42\n"
    order = [kind for kind in page.kinds if kind in ("tool_started", "tool_finished")]
    assert order == ["tool_started", "tool_finished"]
    assert page.text == "Let me look.It is 42."
