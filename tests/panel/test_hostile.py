"""What is sent to the panel, and what code prints, never breaks it: in a real kernel."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from typing import Any

import pytest

from jupyter_ctx.panel.calls import MAX_BEGUN_CHARS, MAX_PART_CHARS, Call, Calls, RefusedError
from jupyter_ctx.panel.log import PanelLog
from jupyter_ctx.panel.ops import OPS

from ..fake_anthropic import FakeAnthropic, Hold, call, reply
from ..kernels import RealKernel
from .client import PanelPage, Refusal, panel_page

LONE = "\ud800"
"""Half a character: no message with it can be written."""

ARGUMENTS = (
    *("turns", "before", "text", "images", "id", "question", "sha256", "choice", "word", "reason"),
    *("cursor", "n", "focus", "tool_use_id", "start", "turn", "settings", "mode", "name"),
)
ODD: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 10**400, float("nan"), "x", LONE, "\0", [], {}, {"__proto__": {}}),
    "x" * 100_001,
)


def run(code: str) -> Any:
    return call("run_code", code=code)


def is_well(page: PanelPage) -> bool:
    """Whether the page is answered."""
    return bool(page.call("complete", text="/he", cursor=3)["items"])


def test_an_id_that_cannot_be_sent_back_is_dropped(free: RealKernel, page: PanelPage) -> None:
    """A call or a page named in no valid text is not heard, and its comm goes on."""
    page.open()
    page.send_escaped(page.part(LONE, '{"op":"open","args":{}}'))
    page.send_escaped({**page.part("a", "{}"), "client": LONE})
    page.send_escaped(page.part(f"b{LONE}", "no json"))
    page.send_escaped({**page.part("c", "{}"), "version": 2, "client": LONE})
    assert is_well(page)


def test_every_operation_refuses_odd_arguments(free: RealKernel, page: PanelPage) -> None:
    """Whatever the arguments are, an operation answers, and the next call is answered too."""
    page.open()
    for op in OPS:
        for value in ODD:
            if op == "compact" or (op == "submit" and isinstance(value, str)):
                continue  # these run
            with contextlib.suppress(Refusal):
                page.call(op, **dict.fromkeys(ARGUMENTS, value))
    for n, text in enumerate(("", "[]", "null", "{}", "[" * 19_000, "1" * 19_000)):
        call_id = f"odd-{n}"
        page.send(page.part(call_id, text))
        with pytest.raises(Refusal):
            page.wait_answer(call_id)
    assert is_well(page)


def test_odd_pictures_are_refused(free: RealKernel, page: PanelPage) -> None:
    """A picture that is none, too large or a bomb is named in a refusal; nothing is sent."""
    page.open()
    size = struct.pack(">II", 60_000, 60_000)
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + size + b"\x08\x02\0\0\0" * 3
    odd: tuple[Any, ...] = (
        "",
        "!!!",
        LONE,
        "A" * 7_500_000,
        base64.b64encode(bomb).decode(),
        "PHN2Zz4=",
        None,
        {},
    )
    for data in odd:
        image = {"media_type": "image/png", "data": data, "name": LONE}
        with pytest.raises(Refusal):
            page.call("submit", text="x", images=[image])
    lists: tuple[Any, ...] = ([None], [[]], {}, "x", [{}] * 21, [{"__proto__": 1}])
    for images in lists:
        with pytest.raises(Refusal):
            page.call("submit", text="x", images=images)
    assert is_well(page)


def test_calls_that_never_end_take_bounded_room() -> None:
    """Of calls that come in part the oldest are forgotten, by number and by size together."""
    taken: list[Call] = []
    refused: list[RefusedError] = []
    calls = Calls(taken.append, lambda call, error: refused.append(error))

    def hear(call_id: str, part: int, parts: int) -> None:
        told = {"id": call_id, "client": "p", "part": part, "parts": parts, "text": "x" * 60_000}
        assert calls.hear("comm", {"version": 1, "type": "call", **told})

    longest = 7_800_000 // 60_000
    assert longest * 60_000 * 2 < MAX_BEGUN_CHARS
    for n in range(3):
        for part in range(1, longest + 1):
            hear(f"long-{n}", part, longest + 1)
    hear("long-2", longest + 1, longest + 1)
    hear("long-0", longest + 1, longest + 1)
    assert [call.id for call in taken] == ["long-2"]
    assert refused == []
    assert MAX_PART_CHARS > 60_000


def test_a_flood_leaves_the_kernel_responsive(free: RealKernel, page: PanelPage) -> None:
    """After 10,000 calls of which only a part comes, another page is answered."""
    page.open()
    for n in range(10_000):
        page.send(page.part(f"never-{n}", "x" * 100, 1, 2))
    with panel_page(free) as other:
        assert is_well(other)


def test_a_page_opens_behind_a_long_queue(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """However long what waits is together, a page that comes later opens the panel."""
    server.append(reply("First.", Hold("end")))
    page.open()
    page.call("submit", text="go")
    page.wait_text("First.")
    for n in range(20):
        page.call("submit", text=f"{n}" + "\N{GRINNING FACE}" * 50_000)
    found = page.open()
    assert len(found["queue"]) == 20
    for one in found["queue"]:
        page.call("unqueue", id=one["id"])
    server.release("end")
    page.wait_for("turn_finished")


def test_what_is_told_can_always_be_sent() -> None:
    """Half a character and what is no number, anywhere in an item, go out as what JSON can say."""
    sent: list[Any] = []
    log = PanelLog("e", sent.append, lambda function, delay_s: False)
    inner = {"a": [LONE, float("nan")], LONE: ("x\0", 1.5)}
    log.add({"kind": "shown", "notebook": f"a{LONE}", "data": inner})
    json.dumps(sent, ensure_ascii=False, allow_nan=False).encode()
    assert sent[0]["items"][0]["notebook"] == "a\ufffd"
    assert sent[0]["items"][0]["data"]["a"] == ["\ufffd", None]


def test_what_code_prints_is_valid_text(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """Half characters and NULs in what code prints, shows and raises reach the page as U+FFFD."""
    code = (
        f"print('a{chr(92)}ud800b{chr(92)}x00c')\n"
        f"display({{'text/plain': 'x{chr(92)}udfff'}}, raw=True)\n"
        f"raise ValueError('{chr(92)}ud800')"
    )
    server.append(reply(run(code)), "Done.")
    page.open()
    page.call("submit", text="go")
    page.wait_for("turn_finished", outcome="done")
    assert page.of("tool_output")[-1]["text"].startswith("a\ufffdb\ufffdc\n")
    assert is_well(page)


def test_a_thread_of_the_users_keeps_its_output(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """What a thread of the user's shows while the agent's code runs is its cell's, not the call's.

    A thread that an earlier call started is the agent's.
    """
    server.append(
        reply(
            run(
                "agents = threading.Event()\n"
                "def mine():\n    agents.wait()\n    print('of agent')\n"
                "one = threading.Thread(target=mine); one.start()"
            )
        ),
        reply(run("go.set(); thread.join(); agents.set(); one.join(); print('in call')")),
        "Done.",
    )
    page.open()
    cell = free.execute(
        "import threading\ngo = threading.Event()\ndef work():\n    go.wait()\n"
        "    print('of user')\n    display('shown of user')\n"
        "thread = threading.Thread(target=work)\nthread.start()"
    )
    assert cell.ok
    page.call("submit", text="go")
    page.wait_for("turn_finished", outcome="done")
    assert page.of("tool_finished")[-1]["text"] == "of agent\nin call\n"
    told = [m for m in page.others if m["msg_type"] in ("stream", "display_data")]
    assert "of user" in "".join(m["content"].get("text", "") for m in told)
    assert any("shown of user" in str(m["content"].get("data")) for m in told)


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(3)",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys, io; sys.stdout = io.StringIO(); print('x')",
        "import os; os.close(1); os.close(2)",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import threading; threading.Thread.start = None",
        "raise KeyboardInterrupt",
        "import builtins\nfor name in list(vars(builtins)):\n    delattr(builtins, name)",
    ],
)
def test_code_that_breaks_what_it_can(
    free: RealKernel, server: FakeAnthropic, page: PanelPage, code: str
) -> None:
    """Afterwards streams, threads and the handler of SIGINT are the user's own, as before."""
    look = "(signal.getsignal(signal.SIGINT), threading.Thread.start, sys.stdout, sys.stderr)"
    free.execute(f"import signal, threading, sys\nbefore = {look}")
    server.append(reply(run(code)))
    if "Keyboard" not in code:  # which is a Stop
        server.append("Done.")
    page.open()
    page.call("submit", text="go")
    page.wait_for("turn_finished")
    ran = free.execute(f"print('out'); print('err', file=sys.stderr)\nnow = {look}")
    assert (ran.text, ran.stderr) == ("out\n", "err\n")
    assert free.eval("[one is other for one, other in zip(before, now)]") == [True] * 4


def test_code_that_swallows_stop_is_stopped(
    free: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """A loop around `except BaseException` ends when Stop is pressed."""
    server.append(
        reply(
            run(
                "import time\nprint('on')\nwhile True:\n    try:\n        time.sleep(0.05)\n"
                "    except BaseException:\n        print('caught')\n"
            )
        )
    )
    page.open()
    page.call("submit", text="go")
    page.wait_for("tool_output")
    page.call("stop")
    page.call("stop")
    page.wait_for("turn_finished", outcome="stopped")
    assert free.execute("1 + 1").ok


def test_a_prompt_is_estimated_before_it_is_sent(free: RealKernel, page: PanelPage) -> None:
    """Text and images count, a mention is told apart, and sizes that are none are refused."""
    page.open()
    short = page.call("estimate", text="Plot it.", images=[])
    long = page.call("estimate", text="Plot it. " * 50_000, images=[])
    image = {"width_px": 640, "height_px": 480}
    more = page.call("estimate", text="Plot it. See @df", images=[image])

    assert 0 < short["tokens"] < 30
    assert 100_000 < long["tokens"] < 400_000
    assert more["tokens"] > short["tokens"] + 300
    assert [one["mentions"] for one in (short, more)] == [0, 1]
    odd: tuple[Any, ...] = ({}, [1], [{"width_px": 1}], [image] * 1_000)
    for images in odd:
        with pytest.raises(Refusal):
            page.call("estimate", text="x", images=images)
