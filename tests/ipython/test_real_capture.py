"""Running code as scratch in a real ipykernel, and in a real terminal IPython."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from ..kernels import ROOT, RealKernel, running_kernel

PROLOGUE = """
import asyncio
from pathlib import Path
from tests.ipython.scratch import CellSink, ListSink, Scratch, kinds, plain_texts, stream_text
ip = get_ipython()
scratch = Scratch(ip, Path('spools'))
def run(code, live=False, **settings):
    global it
    it = scratch.run(code, sink=CellSink(ip) if live else None, **settings)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKernel]:
    """Give one kernel for the tests of this file, with `run(code)` and its outcome `it`."""
    with running_kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        assert kernel.execute(PROLOGUE).ok
        yield kernel


def run(kernel: RealKernel, code: str) -> None:
    """Run `code` nested in a cell that must itself succeed and show nothing."""
    ran = kernel.execute(f"run({code!r})")
    assert (ran.ok, ran.outputs) == (True, [])


def test_a_figure_is_captured_without_show(kernel: RealKernel) -> None:
    """A matplotlib figure that was only drawn is an output of the run, as PNG."""
    run(kernel, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn');")

    assert kernel.eval("kinds(it)") == ["stdout", "display_data"]
    assert kernel.eval("it.outputs[1]['data']['image/png'][:8]") == "iVBORw0K"


def test_a_frame_is_captured_with_its_html(kernel: RealKernel) -> None:
    """A pandas frame brings text and HTML."""
    run(kernel, "import pandas as pd\npd.DataFrame({'a': [1, 2]})")

    assert kernel.eval("sorted(it.outputs[0]['data'])") == ["text/html", "text/plain"]


def test_await_works_in_a_cell(kernel: RealKernel) -> None:
    """Top-level `await` works although the kernel's loop is busy with the outer cell."""
    run(kernel, "import asyncio\nawait asyncio.sleep(0.01)\n'slept'")

    assert kernel.eval("plain_texts(it)") == ["'slept'"]


def test_await_works_in_an_awaiting_cell(kernel: RealKernel) -> None:
    """Top-level `await` works nested in a cell that awaits itself, which goes on afterwards."""
    ran = kernel.execute(
        "import asyncio\nawait asyncio.sleep(0)\n"
        "run('await asyncio.sleep(0.01)\\n7')\nawait asyncio.sleep(0)\nprint(plain_texts(it))"
    )

    assert ran.text == "['7']\n"


def test_a_client_lives_on_between_runs(kernel: RealKernel) -> None:
    """What one run leaves open on its loop can be awaited in the next."""
    ran = kernel.execute(
        "from jupyter_ctx.ipython.nested import NestedLoop\nscratch.loop = NestedLoop()\n"
        "run('queue = asyncio.Queue(); task = asyncio.ensure_future(queue.get());"
        " await asyncio.sleep(0)')\n"
        "run('await queue.put(5)\\nawait task')\nprint(plain_texts(it))\nscratch.loop.close()"
    )

    assert ran.text == "['5']\n"


def test_shell_commands_are_captured(kernel: RealKernel) -> None:
    """`!cmd` and `%%bash` bring their output."""
    run(kernel, "!echo one")
    assert kernel.eval("stream_text(it).strip()") == "one"
    run(kernel, "%%bash\necho two")
    assert kernel.eval("stream_text(it).strip()") == "two"


def test_what_goes_around_python_stays_in_the_cell(kernel: RealKernel) -> None:
    """`os.system` writes to the descriptor: its output is the cell's, not the run's."""
    ran = kernel.execute("run('import os\\nos.system(\"echo around\")\\nprint(1)')")
    shown = kernel.execute("import time\nwhile False: pass")

    assert "around" in ran.text + shown.text
    assert kernel.eval("stream_text(it)") == "1\n"


def test_exit_does_not_end_the_kernel(kernel: RealKernel) -> None:
    """`exit()` and `sys.exit()` fail the run; the reply asks for no exit and the kernel lives."""
    for code in ("exit()", "import sys; sys.exit()", "quit"):
        ran = kernel.execute(f"run({code!r})")
        assert ran.reply["payload"] == []

    assert kernel.eval("it.failed") is True


def test_questions_can_be_asked(kernel: RealKernel) -> None:
    """`input()` inside the run asks the front end."""
    ran = kernel.execute("run(\"input('name? ')\")", stdin_replies=["Ada"])

    assert ran.questions == ["name? "]
    assert kernel.eval("plain_texts(it)") == ["'Ada'"]


def test_a_run_inside_a_run(kernel: RealKernel) -> None:
    """A run started by a run's code has its own outputs; the outer one goes on capturing."""
    run(
        kernel,
        "print('outer')\n_inner = scratch.run('print(1)\\nawait asyncio.sleep(0)')\n"
        "print('again')\nstream_text(_inner)",
    )

    assert kernel.eval("stream_text(it)") == "outer\nagain\n"
    assert kernel.eval("plain_texts(it)") == ["'1\\n'"]


def test_live_output_is_the_cells(kernel: RealKernel) -> None:
    """Output appears in the cell that runs, in order, while it is made."""
    ran = kernel.execute(
        "run(\"from IPython.display import display\\nprint('a')\\ndisplay({'text/plain': 'b'},"
        " raw=True)\\nprint('c')\", live=True)"
    )

    assert [out.get("text", out.get("data")) for out in ran.outputs] == [
        "a\n",
        {"text/plain": "b"},
        "c\n",
    ]


def test_a_slow_run_shows_its_progress(kernel: RealKernel) -> None:
    """What was printed is shown while the code still waits for the next thing (C28)."""
    request = kernel.submit("run(\"print('ready')\\ninput('?')\", live=True)", allow_stdin=True)
    kernel.wait_for_text(request, "ready")

    assert kernel.collect(request, stdin_replies=["go"]).ok


def test_a_long_log_keeps_every_byte(kernel: RealKernel) -> None:
    """20,000 lines: the cell shows the beginning and the end, the run keeps all (C01)."""
    ran = kernel.execute(
        "run(\"for n in range(20_000): print(f'line {n} of a log someone keeps')\", live=True)",
        timeout=150,
    )
    whole = "".join(f"line {n} of a log someone keeps\n" for n in range(20_000))

    assert ran.text.startswith(whole[: 256 * 1024])
    assert ran.text.endswith(whole[-16 * 1024 :])
    assert len(ran.text) < 300_000
    assert kernel.eval("len(stream_text(it))") == len(whole)


def test_an_interrupt_ends_a_sleep(kernel: RealKernel) -> None:
    """Stop ends code that sleeps a minute, long before that; the kernel goes on (C27)."""
    request = kernel.submit("run(\"print('in')\\nimport time\\ntime.sleep(60)\", live=True)")
    kernel.wait_for_text(request, "in\n")
    kernel.interrupt()

    assert kernel.collect(request, timeout=30).ok
    assert kernel.eval("(it.interrupted, stream_text(it))") == (True, "in\n")
    assert kernel.execute("print('usable')").text == "usable\n"


def test_an_interrupt_ends_an_await(kernel: RealKernel) -> None:
    """Stop ends code that awaits; its `finally` runs."""
    request = kernel.submit(
        "run(\"try:\\n  print('in')\\n  await asyncio.sleep(60)\\n"
        "finally: print('out')\", live=True)"
    )
    kernel.wait_for_text(request, "in\n")
    kernel.interrupt()

    assert kernel.collect(request, timeout=30).ok
    assert kernel.eval("(it.interrupted, stream_text(it))") == (True, "in\nout\n")


def test_the_terminal_captures_too(tmp_path: Path) -> None:
    """In terminal IPython streams, results, `!cmd`, `await` and errors are captured alike."""
    env = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "TERM": "dumb"}
    env |= {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    args = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"]
    (tmp_path / "prologue.py").write_text(PROLOGUE)
    child = pexpect.spawn(
        sys.executable, args, env=env, cwd=str(tmp_path), encoding="utf-8", timeout=60
    )
    try:
        child.expect(r"In \[1\]: ")
        child.sendline("%run -i prologue.py")
        child.expect(r"In \[2\]: ")
        code = "print('a')\n!echo b\nimport asyncio\nawait asyncio.sleep(0)\n1/0"
        child.sendline(f"run({code!r})")
        child.expect(r"In \[3\]: ")
        assert "ZeroDivisionError" not in str(child.before)
        child.sendline("print('<', stream_text(it).split(), it.outputs[-1]['ename'], '>')")
        child.expect(r"< \['a', 'b'\] ZeroDivisionError >")
        child.sendline("exit()")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
