"""Running code as scratch: what is taken, and that the shell is as it was."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import logging
import os
import signal
import sys
import tracemalloc
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ctx.ipython.live import LIVE_DISPLAYS
from jupyter_ctx.ipython.spool import HEAD_CHARS, TAIL_CHARS, Spool
from jupyter_ctx.tools.tracebacks import render_error

from .scratch import SECRET, ListSink, Scratch, kinds, plain_shell, plain_texts, stream_text


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[InteractiveShell]:
    """Give a plain shell of its own."""
    with plain_shell(tmp_path / "ipython") as shell:
        yield shell


@pytest.fixture
def scratch(shell: InteractiveShell, tmp_path: Path) -> Scratch:
    """Give a runner of nested code."""
    return Scratch(shell, tmp_path / "spools")


def state_of(shell: Any) -> dict[str, object]:
    """Return everything a run may replace, to be compared by identity."""
    own = ("display_pub", "displayhook", "payload_manager", "loop_runner", "execution_count")
    methods = ("_showtraceback", "ask_exit", "system", "_tee")
    return {
        **{f"sys.{name}": getattr(sys, name) for name in ("stdin", "stdout", "stderr")},
        **{f"sys.{n}": getattr(sys, n, None) for n in ("displayhook", "excepthook", "last_value")},
        **{f"shell.{name}": getattr(shell, name) for name in own},
        **{f"method {name}": vars(shell).get(name) for name in methods},
        **{f"builtins.{name}": value for name, value in vars(builtins).items()},
        **{f"name {name}": shell.user_ns.get(name) for name in ("_", "__", "_i", "In", "Out")},
        "hook": shell.display_trap.hook,
        "pager": shell.hooks.get("show_in_pager"),
        "sigint": signal.getsignal(signal.SIGINT),
    }


def run_cell(shell: Any, code: str) -> None:
    """Run a cell of the user's."""
    shell.run_cell(code, store_history=True)


# What is taken ---------------------------------------------------------------------------------


def test_streams_keep_their_order_and_are_merged(scratch: Scratch) -> None:
    """Writes to stdout and stderr stand in their order, consecutive ones of a stream as one."""
    execution = scratch.run(
        "import sys\nprint(1)\nprint(2)\nprint('e', file=sys.stderr)\nprint(3)\n'last'"
    )

    assert kinds(execution) == ["stdout", "stderr", "stdout", "execute_result"]
    assert [out.get("text") for out in execution.outputs[:3]] == ["1\n2\n", "e\n", "3\n"]
    assert execution.outputs[3] == {
        "output_type": "execute_result",
        "data": {"text/plain": "'last'"},
        "metadata": {},
        "execution_count": None,
    }
    assert not execution.failed


BURSTS = """
import os, sys
from IPython.display import display
for n in range(30):
    for m in range(100):
        print('out', n, m)
    print('sk-ant-ap', end='')
    print('i03-secret', end='')
    print('err', n, file=sys.stderr)
    for m in range(100):
        print('more', n, m)
    display(n)
    if n == 20:
        if os.fork() == 0:
            print('of the child', flush=True)
            os._exit(0)
        os.wait()
"""


def test_quick_writes_keep_their_order(scratch: Scratch, capfd: pytest.CaptureFixture[str]) -> None:
    """Past the live part many small writes stay in order, keys are found; a fork writes past it."""
    scratch.secrets = [SECRET]
    execution = scratch.run(BURSTS, live_output_head=10)

    assert kinds(execution) == ["stdout", "stderr", "stdout", "display_data"] * 30
    for n in range(30):
        first, error, more, _ = execution.outputs[4 * n : 4 * n + 4]
        lines = "".join(f"out {n} {m}\n" for m in range(100))
        assert first["text"] == lines + "[redacted: ANTHROPIC_API_KEY]"
        assert error["text"] == f"err {n}\n"
        assert more["text"] == "".join(f"more {n} {m}\n" for m in range(100))
    assert capfd.readouterr().out == "of the child\n"


def test_text_after_a_clear_is_shown_at_once(scratch: Scratch) -> None:
    """A burst ends at a clear: what is printed after it is shown while the code goes on."""
    sink = ListSink()
    scratch.shell.user_ns["shown"] = lambda: sink.text
    scratch.run(
        "from IPython.display import clear_output\n"
        "for _ in range(3_000): print('before')\n"
        "clear_output()\nprint('after')\nseen = shown()",
        sink=sink,
        live_output_head=1_000,
    )

    assert "after\n" in scratch.shell.user_ns["seen"]


def test_display_updates_are_applied_in_place(scratch: Scratch) -> None:
    """An update replaces the display of its id where it stands; an unknown id changes nothing."""
    execution = scratch.run(
        "from IPython.display import display, update_display\n"
        "display('a', display_id='x')\nprint('between')\n"
        "update_display('b', display_id='x')\nupdate_display('c', display_id='unknown')"
    )

    assert kinds(execution) == ["display_data", "stdout"]
    assert plain_texts(execution) == ["'b'"]
    assert "transient" not in execution.outputs[0]


@pytest.mark.parametrize(
    ("then", "left"),
    [("", ["new\n"]), ("clear_output()", []), ("clear_output(wait=True)", ["new\n"])],
)
def test_clear_output_takes_away_what_came_before(
    scratch: Scratch, then: str, left: list[str]
) -> None:
    """`clear_output` clears now, with `wait` at the next output, and never if none comes."""
    execution = scratch.run(
        "from IPython.display import clear_output\n"
        f"print('old')\nclear_output(wait=True)\nprint('new')\n{then}"
    )

    assert [out["text"] for out in execution.outputs] == left


def test_an_error_is_an_output(scratch: Scratch) -> None:
    """An exception becomes one error output after what was printed, and the run has failed."""
    execution = scratch.run("print('before')\n1/0")

    assert kinds(execution) == ["stdout", "error"]
    assert execution.outputs[1]["ename"] == "ZeroDivisionError"
    assert execution.outputs[1]["evalue"] == "division by zero"
    assert "1/0" in "".join(execution.outputs[1]["traceback"])  # type: ignore[arg-type]  # JSON
    assert execution.failed
    assert not execution.interrupted


@pytest.mark.parametrize("code", ["x = 1\n1 / 0", "x = 1\ndef f(:", "def f():\n    1 / 0\nf()"])
def test_an_error_names_the_code_and_no_cell(scratch: Scratch, code: str) -> None:
    """A traceback has the line, but no In[N] that the user does not have."""
    (error,) = [one for one in scratch.run(code).outputs if one["output_type"] == "error"]
    lines: Any = error["traceback"]
    shown = render_error(str(error["ename"]), str(error["evalue"]), list(lines))

    assert "Code run by the agent, line 2" in shown
    assert "In[" not in shown


def test_equal_code_does_not_rename_the_users_cell(
    scratch: Scratch, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell whose source the agent runs too keeps its number; what the agent defined has none."""
    source = "def made():\n    1 / 0"
    shell.run_cell(source, store_history=True)
    count = shell.execution_count - 1
    shell.run_cell("mine = made", store_history=True)
    scratch.run(source)
    capsys.readouterr()

    shell.run_cell("mine()", store_history=True)
    mine = capsys.readouterr().out
    shell.run_cell("made()", store_history=True)
    made = capsys.readouterr().out

    assert f"Cell In[{count}], line 2" in mine
    assert "File <ipython-agent-" in made
    assert ":2, in made" in made
    assert not [name for name in vars(shell.compile) if callable(vars(shell.compile)[name])]


@pytest.mark.parametrize(
    ("code", "ename"),
    [
        ("def f(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("exit()", "SystemExit"),
        ("raise MemoryError", "MemoryError"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise ExceptionGroup('g', [ValueError()])", "ExceptionGroup"),
        ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "E"),
    ],
)
def test_every_failure_is_contained(scratch: Scratch, code: str, ename: str) -> None:
    """Whatever ends the code, the run returns, has failed and names the error."""
    execution = scratch.run(code)

    assert execution.failed
    assert ename in [out.get("ename") for out in execution.outputs]


def test_shell_commands_are_captured(scratch: Scratch) -> None:
    """`!cmd` and `%%bash` bring their output."""
    assert stream_text(scratch.run("!echo one")).strip() == "one"
    assert stream_text(scratch.run("%%bash\necho two")).strip() == "two"


def test_help_is_an_output(scratch: Scratch) -> None:
    """What would open in a pager is an output instead."""
    execution = scratch.run("len?")

    assert "number of items" in plain_texts(execution)[0]


def test_a_semicolon_hides_the_result(scratch: Scratch) -> None:
    """A result whose line ends in `;` is not shown."""
    assert scratch.run("1 + 1;").outputs == ()


def test_await_works_without_a_running_loop(scratch: Scratch) -> None:
    """Top-level `await` runs on the shell's own loop."""
    assert plain_texts(scratch.run("import asyncio\nawait asyncio.sleep(0, 'x')")) == ["'x'"]


async def test_await_works_inside_a_running_loop(scratch: Scratch) -> None:
    """Top-level `await` runs on another loop; afterwards the outer loop and task are as before."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    execution = scratch.run("import asyncio\nawait asyncio.sleep(0, 'x')")

    assert plain_texts(execution) == ["'x'"]
    assert asyncio.get_running_loop() is loop
    assert asyncio.current_task() is task
    await asyncio.sleep(0)


def test_threads_are_heard(scratch: Scratch) -> None:
    """What threads print during the run is taken, and no line of it is lost."""
    execution = scratch.run(
        "import threading\n"
        "def work(n):\n    for i in range(500): print(f'{n}:{i}\\n', end='')\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
        "for t in threads: t.start()\nfor t in threads: t.join()"
    )

    expected = sorted(f"{n}:{i}" for n in range(4) for i in range(500))
    assert sorted(stream_text(execution).split()) == expected


def test_odd_values_become_json(scratch: Scratch) -> None:
    """Bytes become base64, NaN null, and what JSON cannot hold its type's name."""
    execution = scratch.run(
        "from IPython.display import display\nloop = []; loop.append(loop)\n"
        "display({'image/png': b'\\x00', 'application/json': {'n': float('nan'), 'o': object()},"
        " 'application/x-loop': loop, 'text/plain': 'a\\ud800'}, raw=True)"
    )

    assert execution.outputs[0]["data"] == {
        "image/png": "AA==",
        "application/json": {"n": None, "o": "<object>"},
        "application/x-loop": "<list>",
        "text/plain": "a\ufffd",
    }


def test_lone_surrogates_are_replaced_and_nuls_kept(scratch: Scratch) -> None:
    """Text is valid UTF-8 live and stored; every other character is as written."""
    sink = ListSink()
    execution = scratch.run(r"print('a\ud800b\x00c\r\n', end='')", sink=sink)

    assert stream_text(execution) == sink.text == "a\ufffdb\x00c\r\n"


# The shell is as it was --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "1",
        "1/0",
        "def f(:",
        "import sys; sys.stdout.close(); sys.stderr.close(); print(1)",
        "import sys; sys.stdout = sys.stderr = None",
        "import sys, io; sys.stdout = io.StringIO(); sys.stdin = None; sys.displayhook = print",
        "import sys; del sys.stdout, sys.stderr",
        "ip = get_ipython(); ip.display_pub = ip.displayhook = None; ip._showtraceback = print",
        "ip = get_ipython(); ip.display_trap.hook = None; ip.execution_count = 99; ip.system = 1",
        "import builtins; del builtins.print, builtins.open; 1/0",
        "import builtins; del builtins.isinstance, builtins.len, builtins.BaseException",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "raise KeyboardInterrupt",
        "for _ in range(3): pass\n__ = In = Out = _i = 5\n_",
        "exit()",
        "import sys; sys.last_value = 1; sys.excepthook = None; raise SystemExit",
        "get_ipython().run_cell('2 + 2', store_history=False)",
    ],
)
def test_everything_is_put_back(
    scratch: Scratch, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Streams, hooks, history names, builtins and the interrupt handler are the same objects."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    run_cell(shell, "41 + 1")
    before = state_of(shell)

    scratch.run(code)

    after = state_of(shell)
    if "excepthook = None" in code:  # the code's own doing, as in any cell
        before.pop("sys.excepthook"), after.pop("sys.excepthook")
    assert {name for name in before if before[name] is not after.get(name)} == set()


def test_history_does_not_grow(scratch: Scratch, shell: InteractiveShell) -> None:
    """In, Out, the execution count and IPython's record of outputs are untouched."""
    run_cell(shell, "41 + 1")
    kept = (list(shell.user_ns["In"]), dict(shell.user_ns["Out"]), shell.execution_count)
    manager: Any = shell.history_manager
    recorded = {count: list(outputs) for count, outputs in manager.outputs.items() if outputs}

    scratch.run("print('text')\n5")

    assert (shell.user_ns["In"], shell.user_ns["Out"], shell.execution_count) == kept
    assert {n: list(outputs) for n, outputs in manager.outputs.items() if outputs} == recorded


def test_a_handler_made_by_the_code_keeps_working(
    scratch: Scratch, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream the code has kept writes, after the run, to the stream then in place."""
    scratch.run(
        "import logging, sys\nlog = logging.getLogger('kept'); log.propagate = False\n"
        "log.addHandler(logging.StreamHandler(sys.stderr))"
    )

    shell.user_ns["log"].warning("later")
    again = scratch.run("log.warning('again')")

    assert capsys.readouterr().err == "later\n"
    assert stream_text(again, "stderr") == "again\n"
    logging.getLogger("kept").handlers.clear()


def test_a_sink_that_fails_does_not_reach_the_code(
    scratch: Scratch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing live display is logged once; the run goes on and everything is stored."""

    class Broken(ListSink):
        def stream(self, name: Any, text: str) -> None:
            raise OSError("the cell is gone")

    execution = scratch.run("print(1)\nprint(2)", sink=Broken())

    assert stream_text(execution) == "1\n2\n"
    assert len(caplog.records) == 1


# Interrupts --------------------------------------------------------------------------------------


def test_an_interrupt_ends_the_code(scratch: Scratch) -> None:
    """SIGINT raises KeyboardInterrupt in the code; the run returns as interrupted."""
    execution = scratch.run(
        "import os, signal, time\nprint('in')\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    )

    assert execution.interrupted
    assert execution.failed
    assert kinds(execution) == ["stdout", "error"]


@pytest.mark.parametrize(("ends", "cancelled"), [("raise KeyboardInterrupt", 1), ("1 / 0", 0)])
def test_an_interrupt_cancels_sparks_jobs(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch, ends: str, cancelled: int
) -> None:
    """What PySpark does on Ctrl-C is done, by its public call, on a stand-in for its context."""
    calls: list[str] = []

    class SparkContext:
        """The class as PySpark keeps it: the context that is live is its attribute."""

        _active_spark_context = types.SimpleNamespace(cancelAllJobs=lambda: calls.append("all"))

    module = types.ModuleType("pyspark")
    module.SparkContext = SparkContext  # type: ignore[attr-defined]  # made here
    monkeypatch.setitem(sys.modules, "pyspark", module)
    scratch.run(ends)

    assert calls == ["all"] * cancelled


@pytest.mark.parametrize("line", ["os.kill(os.getpid(), signal.SIGINT)", "print('x')"])
def test_an_interrupts_traceback_ends_in_the_code(scratch: Scratch, line: str) -> None:
    """The traceback of an interrupt shows where it struck, and no frame of ours."""

    class Signalling(ListSink):
        def stream(self, name: Any, text: str) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            super().stream(name, text)

    execution = scratch.run(f"import os, signal\n{line}\nprint('end')", sink=Signalling())
    trace = "".join(execution.outputs[-1]["traceback"])  # type: ignore[arg-type]  # JSON

    assert "KeyboardInterrupt" in trace
    assert "----> 2" in trace or "----> 3" in trace
    assert "jupyter_ctx" not in trace


def test_an_interrupt_the_code_swallows_still_counts(scratch: Scratch) -> None:
    """Code that catches the KeyboardInterrupt ends as it likes, but the run was interrupted."""
    execution = scratch.run(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    while True: pass\n"
        "except KeyboardInterrupt: print('caught')"
    )

    assert stream_text(execution) == "caught\n"
    assert execution.interrupted
    assert not execution.failed


async def test_an_interrupt_cancels_what_is_awaited(scratch: Scratch) -> None:
    """SIGINT during `await` inside a running loop runs the code's `finally` and ends the run."""
    execution = scratch.run(
        "import asyncio, os, signal\n"
        "asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)\n"
        "try:\n    await asyncio.sleep(60)\nfinally:\n    print('cleaned')"
    )

    assert execution.interrupted
    assert "cleaned\n" in stream_text(execution)


def test_an_interrupt_while_showing_waits_for_the_text(scratch: Scratch) -> None:
    """SIGINT that arrives while output is being shown strikes after it: no text is lost."""

    class Signalling(ListSink):
        def stream(self, name: Any, text: str) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            super().stream(name, text)

    sink = Signalling()
    execution = scratch.run("import time\nprint('whole', end='')\ntime.sleep(60)", sink=sink)

    assert execution.interrupted
    assert stream_text(execution) == sink.text == "whole"


# Redaction ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        f"print({SECRET!r})",
        f"for c in {SECRET!r}: print(c, end='', flush=True)",
        f"print({SECRET[:9]!r}, end=''); print({SECRET[9:]!r})",
        f"{SECRET!r}",
        f"raise ValueError({SECRET!r})",
        f"from IPython.display import display\ndisplay({{'text/x': [{SECRET!r}]}}, raw=True)",
        f"print('x' * 262140 + {SECRET!r} + 'y' * 300000)",
    ],
)
def test_keys_are_taken_out_everywhere(scratch: Scratch, code: str) -> None:
    """A key of the program appears neither live nor stored, in any output, also in pieces."""
    scratch.secrets = [SECRET]
    sink = ListSink()

    execution = scratch.run(code, sink=sink)

    assert SECRET not in repr(execution)
    assert SECRET not in repr(sink.calls)
    assert SECRET not in sink.text
    assert "[redacted: ANTHROPIC_API_KEY]" in repr(execution)


# Bounds ------------------------------------------------------------------------------------------


def test_a_long_log_is_shown_in_part_and_kept_whole(scratch: Scratch) -> None:
    """20,000 lines: the first 256 KiB and the last 16 KiB are shown, every byte is kept (C01)."""
    sink = ListSink()
    whole = "".join(f"line {n} of a long log, as training writes it\n" for n in range(20_000))

    execution = scratch.run(
        "for n in range(20_000): print(f'line {n} of a long log, as training writes it')",
        sink=sink,
    )

    assert stream_text(execution) == whole
    assert sink.text.startswith(whole[: 256 * 1024])
    assert sink.text.endswith(whole[-16 * 1024 :])
    assert len(sink.text) < 256 * 1024 + 16 * 1024 + 2_000
    hidden = len(whole) - 256 * 1024
    assert f"{hidden:,} characters more" in sink.text


def test_a_text_over_the_bound_is_spooled(scratch: Scratch) -> None:
    """Over `spool_bytes` the whole text is in a file, byte for byte, with head, tail and counts."""
    line = "æ→ a line\r\n"
    execution = scratch.run(
        f"import sys\nprint('first')\nfor _ in range(30_000): sys.stdout.write({line!r})\n"
        "print('err', file=sys.stderr)\n'result'",
        spool_bytes=100_000,
    )

    whole = "first\n" + line * 30_000 + "err\n'result'\n"
    spooled = execution.spooled
    assert spooled is not None
    assert Path(spooled.path).read_bytes() == whole.encode()
    assert (spooled.head, spooled.tail) == (whole[:HEAD_CHARS], whole[-TAIL_CHARS:])
    assert (spooled.chars, spooled.lines) == (len(whole), 30_003)
    assert spooled.size_bytes == len(whole.encode())
    assert stream_text(execution) == whole[:HEAD_CHARS]
    assert "30,003 lines" in repr(execution.outputs)
    assert Path(spooled.path).stat().st_mode & 0o777 == 0o600


def test_a_small_text_makes_no_file(scratch: Scratch) -> None:
    """What fits in memory touches no disk."""
    execution = scratch.run("print('x' * 1000)")

    assert execution.spooled is None
    assert not scratch.folder.exists()


def test_a_cleared_text_frees_its_spool(scratch: Scratch) -> None:
    """After `clear_output` the file is gone and what follows starts anew."""
    execution = scratch.run(
        "from IPython.display import clear_output\n"
        "print('x' * 200_000)\nclear_output()\nprint('new')",
        spool_bytes=100_000,
    )

    assert execution.outputs == ({"output_type": "stream", "name": "stdout", "text": "new\n"},)
    assert list(scratch.folder.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_leaves_head_and_tail(scratch: Scratch) -> None:
    """When the spool cannot be written the run goes on; head, tail and the reason are kept."""
    execution = scratch.run(
        "print('first'); print('x' * 300_000); print('last')",
        make_spool=lambda: Spool(os.open("/dev/full", os.O_WRONLY), scratch.folder / "gone"),
        spool_bytes=100_000,
    )

    assert execution.spooled is None
    assert not execution.failed
    assert stream_text(execution).startswith("first\nxxx")
    assert stream_text(execution).endswith("xxx\nlast\n")
    assert "No space left on device" in repr(execution.outputs)


def test_memory_stays_bounded(scratch: Scratch) -> None:
    """100 MB printed, in large and in one huge piece, take less than 32 MB of memory."""
    huge = "y" * 50_000_000
    scratch.shell.user_ns["huge"] = huge
    tracemalloc.start()
    try:
        execution = scratch.run("for _ in range(500): print('x' * 99_999)\nprint(huge)")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert execution.spooled is not None
    assert execution.spooled.size_bytes == 100_000_001
    assert Path(execution.spooled.path).stat().st_size == 100_000_001
    assert peak_bytes < 32_000_000


def test_many_updates_stay_bounded(scratch: Scratch) -> None:
    """Of 20,000 updates the last state is kept and shown; live, a bounded number is sent."""
    sink = ListSink()
    execution = scratch.run(
        "from IPython.display import display\nhandle = display(0, display_id=True)\n"
        "for n in range(20_000): handle.update(n)",
        sink=sink,
    )

    assert plain_texts(execution) == ["19999"]
    assert len(sink.calls) == LIVE_DISPLAYS + 1
    assert sink.calls[-1][1][0] == {"text/plain": "19999"}


def test_many_images_stay_bounded(scratch: Scratch) -> None:
    """Of 10,000 images the first are kept, the rest counted, and the text names each of them."""
    sink = ListSink()
    execution = scratch.run(
        "from IPython.display import display\n"
        "for n in range(10_000): display({'image/png': 'A' * 10_000}, raw=True)",
        sink=sink,
    )

    images = [out for out in execution.outputs if "image/png" in out.get("data", {})]  # type: ignore[operator]  # JSON
    assert len(images) == 1_000
    assert "[9,000 more outputs were made and not kept]" in repr(execution.outputs[-1])
    assert execution.spooled is not None
    assert execution.spooled.lines == 10_000
    assert sink.text == "[9,000 more displays not shown]\n"


def test_large_images_are_replaced_by_a_line(scratch: Scratch) -> None:
    """Past 32 MiB of bundles an image becomes a line that says its type and size."""
    execution = scratch.run(
        "from IPython.display import display\n"
        "for n in range(5): display({'image/png': 'A' * 10_000_000, 'text/plain': 'fig'}, raw=True)"
    )

    assert ["image/png" in out["data"] for out in execution.outputs] == [True] * 3 + [False] * 2  # type: ignore[operator]  # JSON
    assert "image/png (10,000,000 bytes)" in plain_texts(execution)[-1]


def test_a_magics_complaint_stands_there_once(scratch: Scratch) -> None:
    """A UsageError is one line of stderr, for the person and for the model, and a failure."""
    sink = ListSink()
    execution = scratch.run("%no_such_magic", sink=sink)

    assert execution.failed
    assert kinds(execution) == ["stderr"]
    assert stream_text(execution, "stderr").count("no_such_magic") == 1
    assert sink.text == stream_text(execution, "stderr")


def test_a_run_closes_its_sink(scratch: Scratch) -> None:
    """However a run ends, its sink is told once that nothing more comes."""
    for code in ("print(1)", "1 / 0", "exit()"):
        sink = ListSink()
        scratch.run(code, sink=sink)
        assert sink.closed == 1


def test_a_second_copy_of_a_package_leaves_no_module(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was imported while a package was taken out is imported anew, into the first copy."""
    first = importlib.import_module("xml.sax")
    monkeypatch.delitem(sys.modules, "xml.sax.saxutils", raising=False)
    monkeypatch.delattr(first, "saxutils", raising=False)
    scratch.run(
        "import sys\nfor n in [n for n in sys.modules if n.startswith('xml')]: del sys.modules[n]\n"
        "import xml.sax.saxutils"
    )

    assert sys.modules["xml.sax"] is first
    assert not scratch.run("import xml.sax.saxutils\nxml.sax.saxutils.escape").failed
