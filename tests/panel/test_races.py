"""Stop, queue and session where they meet: each press and each prompt counts for what it meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import RealKernel, running_kernel
from .client import PanelPage, Refusal, panel_page
from .conftest import KEY, LOAD


def run(code: str) -> Any:
    return call("run_code", code=code)


def test_a_second_stop_leaves_the_prompt_that_waited(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Pressed again before the page knows that the next prompt has begun, Stop is not for that."""
    server.append(reply("First.", Hold("never")), reply("Second.", Hold("then")))
    page.open()
    page.call("submit", text="one")
    page.call("submit", text="two")
    page.wait_text("First.")
    seen = page.next_seq
    assert page.call("stop", seq=seen)["stopped"] is True
    page.wait_text("Second.")
    assert page.call("stop", seq=seen)["stopped"] is False
    server.release("then")
    assert page.wait_for("turn_finished", turn=2)["outcome"] == "done"
    server.release("never")


def test_stop_of_a_prompt_that_waited(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A page that has heard of it stops it as any other."""
    server.append("First.", reply("Second.", Hold("never")))
    page.open()
    free.execute("1")
    page.call("submit", text="one")
    page.call("submit", text="two")
    page.wait_text("Second.")
    assert page.call("stop", seq=page.next_seq)["stopped"] is True
    assert page.wait_for("turn_finished", turn=2)["outcome"] == "stopped"
    server.release("never")


def test_stop_in_a_compaction_changes_nothing(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A compaction that is stopped is refused in a sentence, and what waited runs after it."""
    free.execute("%config JupyterCtx.window_tokens = 32_000")
    server.append("A long answer. " * 900, "A long answer. " * 900, reply("Sum", Hold("sum")))
    page.open()
    for n in (1, 2):
        page.call("submit", text=f"prompt {n}")
        page.wait_for("turn_finished", turn=n)
    free.execute("1")  # what follows a turn's last item is done
    page.call("submit", text="/compact")
    page.wait_for("compaction_started")
    page.call("submit", text="waits")
    server.append("After.")
    page.call("stop", seq=page.next_seq)
    assert page.wait_for("turn_finished", turn=3)["text"] == "After."
    assert page.of("compaction_finished") == []
    server.release("sum")


def test_stop_never_strikes_the_users_cell(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """However often it is pressed, before and after the turn's end, a running cell goes on."""
    server.append(reply("A.", Hold("a"), run("1")))
    page.open()
    page.call("submit", text="go")
    page.wait_text("A.")
    cell = free.submit(
        "import time, os\nprint('on', flush=True)\n"
        "while not os.path.exists('gate'):\n    time.sleep(0.01)\nprint('done')"
    )
    free.wait_for_text(cell, "on")
    for _ in range(10):
        page.call("stop")
    page.wait_for("turn_finished", outcome="stopped")
    for _ in range(10):
        page.call("stop")
    (free.cwd / "gate").touch()
    assert free.collect(cell).ok
    server.release("a")


def test_many_stops_in_code_end_with_the_turn(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """No interrupt of twenty that come at once is left for the cell behind the code."""
    page.open()
    free.execute("import signal; before = signal.getsignal(signal.SIGINT)")
    for n in range(1, 4):
        server.append(reply(run(f"import time; print('on{n}'); time.sleep(60)")))
        page.call("submit", text="go")
        page.wait_for("tool_output", text=f"on{n}\n")
        ids = [page.send_call("stop", {}) for _ in range(20)]
        cell = free.submit("sum(range(3_000_000))")
        for one in ids:
            page.wait_answer(one)
        assert free.collect(cell).ok
        page.wait_for("turn_finished", turn=n)
    assert free.eval("signal.getsignal(signal.SIGINT) is before") is True


def test_what_is_printed_before_a_silence_is_shown_in_it(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """The last line of running code is shown though nothing more is printed."""
    server.append(reply(run("print('one')\nprint('two')\nimport time; time.sleep(60)")))
    page.open()
    page.call("submit", text="go")
    page.wait_for("tool_output", text="one\ntwo\n")
    page.call("stop")
    page.wait_for("turn_finished", outcome="stopped")


def test_a_prompt_is_not_tried_for_ever(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Where a turn that nobody drives keeps the session, a prompt comes back with the reason."""
    server.append("First.")
    page.open()
    page.call("submit", text="go")
    page.wait_for("turn_finished")
    free.execute("1")  # what follows a turn's last item is done
    held = (
        "import jupyter_ctx\nheld = jupyter_ctx.current_session().run('mine')\n"
        "await held.__anext__()"
    )
    assert free.execute(held).ok
    page.call("submit", text="second")
    assert page.wait_for("failed")["text"] == "second"
    assert len(page.of("queued")) <= 1
    assert free.execute("await held.aclose()").ok


def test_a_notebook_whose_name_is_no_text(server: FakeAnthropic, tmp_path: Path) -> None:
    """Neither that nor a prompt with half a character in it takes the panel away."""
    name = os.fsdecode(b"\xff<img src=x onerror=alert(1)>.ipynb")
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "JPY_SESSION_NAME": str(tmp_path / "work" / name),
    }
    server.append("Hello.")
    with running_kernel(tmp_path, env) as kernel:
        kernel.execute(LOAD)
        with panel_page(kernel) as page:
            assert "\ufffd" in page.open()["session"]["notebook"]
            page.call("submit", text="a\ud800<b>")
            page.wait_for("turn_finished", outcome="done")
            assert "\ufffd" in page.wait_for("session", turns=1)["notebook"]
            page.call("submit", text="/context")
            assert page.wait_for("shown", command="/context")


def test_of_two_pages_that_answer_one_counts(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Every answer but the first is told that the question is gone; so is one that comes late."""
    server.append(reply(run("n = globals().get('n', 0) + 1")), "Done.")
    page.open()
    with panel_page(kernel) as other:
        other.open()
        page.call("submit", text="go")
        question = other.wait_for("question")
        args = {"question": question["id"], "sha256": question["sha256"]}
        answers = [(page, "once"), (other, "deny"), (page, "once"), (other, "once")]
        ids = [(one, one.send_call("decide", {**args, "choice": how})) for one, how in answers]
        kinds = [kind_of(one, call_id) for one, call_id in ids]
        assert sorted(kinds) == ["gone", "gone", "gone", "ok"]
        page.wait_for("turn_finished", outcome="done")
        with pytest.raises(Refusal, match="gone"):
            other.call("decide", **args, choice="always")
    assert len(page.of("question_closed")) == 1


def kind_of(page: PanelPage, call_id: str) -> str:
    """Return how a call was answered: "ok", or the kind of its refusal."""
    try:
        page.wait_answer(call_id)
    except Refusal as error:
        return error.kind
    return "ok"
