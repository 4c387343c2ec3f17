"""Turns of the panel in a real kernel: the main thread stays the user's."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import RealKernel
from .client import PanelPage, Refusal

CALL = "jupyter_ctx_call"

OUTSIDE = """
import os, threading
go = threading.Event()
def later():
    go.wait()
    print("late")
thread = threading.Thread(target=later)
thread.start()
os.system("echo raw")
print("shown")
"""


def run(code: str) -> Any:
    return call("run_code", code=code)


def test_a_turn_streams_and_runs_code_on_the_idle_kernel(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A prompt of the panel runs to its end with no cell; what it did is told in order."""
    server.append(reply("Let me look.", run("x = 6 * 7\nprint(x)")), "It is 42.")
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


def test_what_the_code_of_a_cell_s_turn_prints_stands_in_both_places(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The panel shows the end of what a running tool prints, also below `%agent`."""
    server.append(reply(run("print('halfway')")), "Done.")
    page.open()
    ran = free.execute("%agent go")
    started = page.wait_for("tool_started")

    tail = page.wait_for("tool_output")
    assert (tail["tool_use_id"], tail["text"]) == (started["tool_use_id"], "halfway\n")
    assert "halfway" in ran.text


def test_a_result_is_told_with_what_it_takes_of_the_window(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Each result is counted, about, before the next step: a longer one takes more."""
    server.append(reply(run("print('a' * 10)"), run("print('word ' * 400)")), "Done.")
    page.open()
    page.call("submit", text="go")
    page.wait_for("turn_finished", outcome="done")

    used = [item["tool_use_id"] for item in page.of("tool_finished")]
    counted = page.of("result_counted")
    assert [item["tool_use_id"] for item in counted] == used
    assert 0 < counted[0]["tokens"] < 100 < counted[1]["tokens"] < 4_000
    kinds = page.kinds
    assert kinds.index("result_counted") < kinds.index("step_started", kinds.index("tool_finished"))


def test_a_cell_runs_in_the_middle_of_a_turn(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """While the model answers the kernel is free, and a cell's outputs are its own."""
    server.append(reply("First.", Hold("middle"), " Rest.", run(OUTSIDE)), "Done.")
    page.open()
    page.call("submit", text="go")
    page.wait_text("First.")

    ran = free.execute("print('mine')\n1 + 1")
    assert ran.text == "mine\n"
    assert ran.bundles("text/plain") == ["2"]
    server.release("middle")
    page.wait_for("turn_finished", outcome="done")

    later = free.execute("go.set()\nthread.join()\nprint('mine too')")
    assert later.text == "mine too\n"
    assert "shown" in page.of("tool_output")[-1]["text"]
    cells = [m for m in page.others if m["parent_header"].get("msg_type") == "execute_request"]
    told = [m["content"]["text"] for m in cells if m["msg_type"] == "stream"]
    assert "raw\n" not in told
    assert "shown\n" not in told


def test_a_call_waits_while_a_cell_runs(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The agent's code waits until the user's cell has ended; the panel is told so."""
    server.append(reply("So:", Hold("cell"), run("order.append('agent')")), "Done.")
    page.open()
    free.execute("order = []")
    page.call("submit", text="go")
    page.wait_text("So:")
    cell = free.submit("print('asks')\ninput('?')\norder.append('cell')", allow_stdin=True)
    free.wait_for_text(cell, "asks")

    server.release("cell")
    page.wait_for("tool_started")
    page.wait_for("kernel_awaited", is_waiting=True)
    assert page.open()["is_kernel_awaited"] is True
    assert page.of("tool_finished") == []
    assert free.collect(cell, stdin_replies=["on"]).ok
    page.wait_for("turn_finished", outcome="done")

    assert free.eval("order") == ["cell", "agent"]
    assert page.of("kernel_awaited")[-1]["is_waiting"] is False


def test_a_cell_that_awaits_is_not_run_into(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Also a cell in the middle of an `await` is run to its end before the agent's code runs."""
    server.append(reply("So:", Hold("cell"), run("order.append('agent')")), "Done.")
    page.open()
    gate = free.cwd / "gate"
    free.execute("import asyncio, os\norder = []")
    code = (
        "print('awaits')\nwhile not os.path.exists('gate'):\n    await asyncio.sleep(0.01)\n"
        "order.append('cell')"
    )
    page.call("submit", text="go")
    page.wait_text("So:")
    cell = free.submit(code)
    free.wait_for_text(cell, "awaits")
    server.release("cell")
    page.wait_for("tool_started")
    page.call("complete", text="/he", cursor=3)  # the call before has been put on the main thread
    assert page.of("tool_finished") == []

    gate.touch()
    assert free.collect(cell).ok
    page.wait_for("turn_finished", outcome="done")
    assert free.eval("order") == ["cell", "agent"]


def test_history_of_the_user_is_not_touched(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """`In`, `Out`, `_` and the execution count are after a turn what they were before."""
    server.append(reply(run("7 * 7"), run("[1, 2]")), "Done.")
    page.open()
    free.execute("41 + 1")
    before = free.eval("(len(In), sorted(Out), _, get_ipython().execution_count)")
    page.call("submit", text="go")
    page.wait_for("turn_finished", outcome="done")

    assert free.eval("(len(In), sorted(Out), _, get_ipython().execution_count)") == before
    assert [item["is_error"] for item in page.of("tool_finished")] == [False, False]


def test_the_kernel_says_busy_while_code_runs_and_only_then(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Busy while the agent's code runs, idle while the model answers; never idle within a cell."""
    server.append(reply(run("1"), "x"), reply("Then.", Hold("end")))
    page.open()
    page.call("submit", text="go")
    page.wait_text("Then.")
    page.wait_for("tool_finished")
    calls = [state for parent, state in page.states if parent == CALL]
    assert calls
    assert calls == ["busy", "idle"] * (len(calls) // 2)

    cell = free.submit("print('asks')\ninput('?')", allow_stdin=True)
    free.wait_for_text(cell, "asks")
    page.states.clear()
    page.call("complete", text="/he", cursor=3)
    page.wait_state("execute_request", "busy")
    assert page.states[-1] == ("execute_request", "busy")
    server.release("end")
    page.wait_for("turn_finished")
    free.collect(cell, stdin_replies=["on"])


def test_code_that_asks_is_told_that_nobody_can_be_asked(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """`input()` in the agent's code fails at once in a turn of the panel, and works in a cell."""
    server.append(reply(run("input('?')")), "Done.")
    page.open()
    free.execute("input('?')", stdin_replies=["yes"])
    page.call("submit", text="go")

    assert "EOFError" in page.wait_for("tool_finished")["text"]
    page.wait_for("turn_finished", outcome="done")
    assert free.execute("input('?')", stdin_replies=["yes"]).ok


def test_a_prompt_names_what_is_attached(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Mentions and images of a panel's prompt reach the model as those of a cell do."""
    server.append("I see.")
    free.execute("total = 1234")
    page.open()
    image = {"media_type": "image/png", "data": base64.b64encode(png()).decode(), "name": "a.png"}
    page.call("submit", text="what is @total?", images=[image])
    page.wait_for("turn_finished", outcome="done")

    blocks = server.messages[-1].json["messages"][-1]["content"]
    assert [one["source"]["media_type"] for one in blocks if one["type"] == "image"] == [
        "image/png"
    ]
    assert any("1234" in one.get("text", "") for one in blocks)
    labels = [one["label"] for one in page.wait_for("turn_started")["attachments"]]
    assert labels == ["a.png", "@total, as it is now"]


def test_a_prompt_that_cannot_run_gives_its_text_back(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """An unknown mention, a broken image, an unknown command: nothing is sent, nothing is lost."""
    page.open()
    page.call("submit", text="what is @nothing_here?")
    failed = page.wait_for("failed")
    assert failed["text"] == "what is @nothing_here?"
    assert "@nothing_here" in failed["title"]
    for args in (
        {"text": "hi", "images": [{"media_type": "image/png", "data": "AAAA", "name": "b"}]},
        {"text": "/nonsense"},
        {"text": "  "},
        {"text": 7},
    ):
        with pytest.raises(Refusal):
            page.call("submit", **args)
    assert server.messages == []


def test_commands_show_what_they_show(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A slash command of the panel shows Markdown, text and JSON; `/new` clears the page."""
    page.open()
    page.call("submit", text="/context")
    shown = page.wait_for("shown", command="/context")
    assert "application/vnd.jupyter-ctx.context+json" in shown["data"]
    first = page.wait_for("session")["id"]
    page.call("submit", text="/new")
    page.wait_for("shown", command="/new")
    page.wait_for("cleared")
    assert page.open()["session"]["id"] != first


def png() -> bytes:
    """Return a picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts
