"""A kernel that SIGKILL ends at a write of its turn: the next one goes on with all it had said."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, last_text
from tests.fake_anthropic.record import Recorded
from tests.wire import printing, text_of_messages, without_marks

MODEL = "claude-sonnet-5-5"

ARM = """
import os as _os, signal as _signal
def _arm(point, how, write=_os.write):
    left = [point]
    def counted(fd, data):
        try:
            path = _os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            path = ""
        if "/ctx/" not in path:
            return write(fd, data)
        left[0] -= 1
        if left[0] >= 0:
            return write(fd, data)
        if how != "before":
            write(fd, data[: len(data) // 2] if how == "middle" else data)
        _os.kill(_os.getpid(), _signal.SIGKILL)
    _os.write = counted
"""


def answers(body: dict[str, Any], numbers: itertools.count[int]) -> object:
    """Return the answer to a request: six steps of code, some with a long output, then an end."""
    if "Go on." in last_text(body):
        return "It goes on."
    n = next(numbers)
    if n > 6:
        return "Done."
    code = f"print('{n}' * 40_000)" if n % 2 else f"print('step {n}')"
    return printing(code, f"Step {n}.", thinking=f"thought {n}")


def assert_continued(before: Recorded, after: Recorded) -> None:
    """Every block that was sent before the kill is sent again, in its place, and more."""
    old, new = without_marks(before.messages), without_marks(after.messages)
    assert new[: len(old) - 1] == old[:-1]
    assert new[len(old) - 1][: len(old[-1])] == old[-1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "how"),
    [(3, "middle"), (9, "before"), (14, "after"), (19, "middle"), (24, "before"), (22, "after")],
)
def test_a_killed_kernel_is_resumed(tmp_path: Path, point: int, how: str) -> None:
    """Whatever was sent or shown before the kill is there after it, and the server takes it."""
    numbers = itertools.count(1)
    place = {"JPY_SESSION_NAME": str(tmp_path / "work" / "killed.ipynb")}
    with FakeAnthropic(lambda body: answers(body, numbers)) as server:
        with agent_kernel(tmp_path, server, MODEL, **place) as kernel:
            run(kernel, f"{ARM}\n_arm({point}, {how!r})")
            with pytest.raises(AssertionError, match="kernel died"):
                kernel.execute("%agent Count to six.")
        sent = server.accepted
        with agent_kernel(tmp_path, server, MODEL, **place) as again:
            shown = ask(again, "Go on.")

        assert "It goes on." in str(shown.outputs)
        assert server.refused == []
        resumed = server.accepted[-1]
        assert sent or point < 6
        for record in sent:
            assert "Count to six." in text_of_messages(resumed)
            assert_continued(record, resumed)
