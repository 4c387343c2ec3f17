"""Floods of output, and a disk that takes no more, in a real kernel with the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent_kernel import TURN_S, agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.wire import answering, printing, results

MODEL = "claude-sonnet-5-5"
PEAK_MB = (
    "int(next(line for line in open('/proc/self/status') if line[:6] == 'VmHWM:').split()[1])"
    " // 1024"
)
"""The most memory the process ever had, in MB; getrusage() counts that of the one it came from."""

UPDATES = """from IPython.display import display
handle = display(0, display_id=True)
for n in range(100_000): handle.update(n)"""
FOR_EVER = UPDATES.replace("for n in range(100_000)", "print('it runs')\nn = 0\nwhile True")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the kernel lives."""
    return tmp_path


def test_floods_stay_bounded(folder: Path) -> None:
    """300 MB in lines and in one, and 100,000 updates: bounded memory and messages, all stored."""
    codes = ("for _ in range(3_000): print('x' * 99_999)", "print('y' * 299_999_999)", UPDATES)
    script = [one for code in codes for one in (printing(code), "Done.")]
    with (
        FakeAnthropic(answering(script)) as server,
        agent_kernel(folder, server, MODEL) as kernel,
    ):
        ask(kernel, "Go")
        before = kernel.eval(PEAK_MB)
        assert before < 400
        one_line = ask(kernel, "Go")
        assert len(one_line.messages) < 100
        assert kernel.eval(PEAK_MB) < before + 750  # the line itself, and what `print` makes of it
        updated = ask(kernel, "Go")
        assert len(updated.messages) < 1_200
        first, second, third = results(server.messages[-1]).values()
        assert first.startswith("[300,000,000 characters, 3,000 lines")
        assert second.startswith("[300,000,000 characters, 1 line")
        assert third == "99999"
        sizes = sorted(path.stat().st_size for path in kernel.home.rglob("*.txt"))
        assert sizes[-2:] == [300_000_000, 300_000_000]


def test_updates_without_an_end_can_be_stopped(folder: Path) -> None:
    """Stop reaches code that does nothing but update a display; the next turn works (C27)."""
    with (
        FakeAnthropic(answering([printing(FOR_EVER), "Again."])) as server,
        agent_kernel(folder, server, MODEL) as kernel,
    ):
        request = kernel.submit("%%agent\nGo")
        kernel.wait_for_text(request, "it runs")
        kernel.interrupt()
        kernel.collect(request, TURN_S)
        ask(kernel, "And now?")
        assert server.refused == []


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
def test_a_file_that_cannot_be_written_stays_whole(folder: Path, tool: str) -> None:
    """Where the disk takes a part of the new text only, the old file stays, and no other is left.

    The session's own log finds no room either; the turn goes on.
    """
    old = "".join(f"line {n}\n" for n in range(2_000))
    added = "more text " * 300
    change = (
        call("edit_file", path="data.txt", old="line 1999", new=added)
        if tool == "edit_file"
        else call("write_file", path="data.txt", text=old + added)
    )
    script = [
        reply(tools=[call("read_file", path="data.txt", start_line=1_990)]),
        reply(tools=[change]),
        reply(tools=[call("write_file", path="new/deep/data.txt", text=added * 7)]),
        "I see.",
    ]
    with (
        FakeAnthropic(answering(script)) as server,
        agent_kernel(folder, server, MODEL) as kernel,
    ):
        (kernel.cwd / "data.txt").write_text(old)
        limit = len(old) + 1_000
        run(kernel, f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, -1))")
        ask(kernel, "Add it.")
        _, *said = results(server.messages[-1]).values()
        assert len(said) == 2
        assert all("cannot be written: File too large" in text for text in said), said
        assert all("Nothing was changed" in text for text in said), said
        assert (kernel.cwd / "data.txt").read_text() == old
        assert [path.name for path in kernel.cwd.iterdir()] == ["data.txt"]
        refused = kernel.execute("%agent /undo", TURN_S)
        assert "no edit of the agent to undo" in refused.stderr
