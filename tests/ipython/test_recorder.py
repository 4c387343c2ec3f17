"""What is recorded of the cells a user runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.ipython.recorder import CellRecorder

from ..kernels import RealKernel, running_kernel
from .scratch import plain_shell

PROLOGUE = """
from jupyter_ctx.ipython import recorder as recorder_module
from jupyter_ctx.ipython.recorder import CellRecorder
from IPython.display import display, update_display, clear_output
import sys
if 'recorder' in globals(): recorder.close()
recorder = CellRecorder(get_ipython())
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKernel]:
    """Give one kernel process for the tests of this file."""
    with running_kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


@pytest.fixture
def kernel(process: RealKernel) -> RealKernel:
    """Give a kernel that records from its next cell on, with a new recorder."""
    assert process.execute(PROLOGUE).ok
    return process


def next_count(kernel: RealKernel) -> int:
    """Return N of the next cell's In[N]."""
    count: int = kernel.eval("get_ipython().execution_count")
    return count


def cells(kernel: RealKernel) -> list[dict[str, Any]]:
    """Return what is recorded, without the cell that asks and the one that loaded."""
    found: list[dict[str, Any]] = kernel.eval(
        "[{n: getattr(c, n) for n in c.__slots__} for c in recorder.cells()]"
    )
    return found


def test_outputs_are_recorded_as_the_notebook_has_them(kernel: RealKernel) -> None:
    """Streams, displays, updates, clears, results and errors equal what the front end got."""
    sources = [
        "print(1)\nprint(2, file=sys.stderr)\nprint(3)\n'result'",
        "display({'text/plain': 'a'}, raw=True, display_id='x')\nprint('b')\n"
        "update_display({'text/plain': 'c'}, raw=True, display_id='x')",
        "print('old')\nclear_output()\nprint('new')",
        "import asyncio\nprint('before')\nawait asyncio.sleep(0)\nprint('after')\n5",
        "print('x')\n1/0",
        "def f(:",
    ]
    first = next_count(kernel)
    ran = [kernel.execute(source) for source in sources]

    recorded = cells(kernel)
    assert [cell["source"] for cell in recorded] == sources
    assert [list(cell["outputs"]) for cell in recorded] == [one.outputs for one in ran]
    assert [cell["failed"] for cell in recorded] == [False] * 4 + [True] * 2
    assert [cell["count"] for cell in recorded] == list(range(first, first + 6))


def test_figures_are_recorded(kernel: RealKernel) -> None:
    """A figure drawn without show() is an output of its cell."""
    ran = kernel.execute("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")

    (cell,) = cells(kernel)
    assert list(cell["outputs"]) == ran.outputs
    assert "image/png" in cell["outputs"][0]["data"]


def test_a_cell_is_known_by_the_front_ends_id(kernel: RealKernel) -> None:
    """One record a cell id, its newest execution, in the order executed; without id `in-N`.

    A source that stays the same keeps the place where it was new.
    """
    n = next_count(kernel) + 2
    kernel.execute("a = 1", cell_id="one")
    kernel.execute("b = 2", cell_id="two")
    kernel.execute("c = 3")
    kernel.execute("a = 1", cell_id="one")
    kernel.execute("b = 22", cell_id="two")

    found = [(c["id"], c["count"], c["source_order"] - c["order"]) for c in cells(kernel)]
    assert found == [(f"in-{n}", n, 0), ("one", n + 1, -3), ("two", n + 2, 0)]


def test_a_cell_is_as_old_as_its_present_source(kernel: RealKernel) -> None:
    """A source run again keeps the time it was first known at; a new one has a later time."""

    def changed_at(cell_id: str) -> float:
        return next(float(c["changed_at"]) for c in cells(kernel) if c["id"] == cell_id)

    kernel.execute("a = 1", cell_id="aged")
    first = changed_at("aged")
    kernel.execute("a = 1", cell_id="aged")
    again = changed_at("aged")
    kernel.execute("a = 2", cell_id="aged")

    assert 0 < first == again < changed_at("aged")


def test_cells_that_ask_the_agent_are_marked_and_their_outputs_left(kernel: RealKernel) -> None:
    """A cell that begins with the magic is told as the agent's, without what it showed."""
    kernel.execute("%%agent\nhello", cell_id="asks")  # no such magic here: it fails, and is a cell
    kernel.execute("print(1)", cell_id="own")
    found = {c["id"]: c for c in cells(kernel) if c["id"] in ("asks", "own")}

    assert (found["asks"]["is_agent"], found["own"]["is_agent"]) == (True, False)
    assert "stream" not in {output["output_type"] for output in found["asks"]["outputs"]}
    assert found["own"]["outputs"]


def test_other_runs_are_not_cells(kernel: RealKernel) -> None:
    """Runs without history and runs while paused are not recorded."""
    kernel.execute("x = 1", store_history=False)
    kernel.execute("with recorder.paused(): get_ipython().run_cell('y = 2', store_history=True)")

    assert [cell["source"][:4] for cell in cells(kernel)] == ["with"]


def test_output_of_a_thread_goes_to_its_cell(kernel: RealKernel) -> None:
    """What a thread that kept its context prints later belongs to the cell that started it."""
    kernel.execute(
        "import threading, contextvars\ngo = threading.Event()\n"
        "def work():\n    go.wait()\n    print('late', flush=True)\n"
        "thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))\n"
        "thread.start()"
    )
    kernel.execute("go.set(); thread.join()")

    assert [cell["outputs"] for cell in cells(kernel)] == [
        ({"output_type": "stream", "name": "stdout", "text": "late\n"},),
        (),
    ]


def test_it_survives_a_reset(kernel: RealKernel) -> None:
    """After `%reset` cells are still recorded and the names are gone."""
    n = next_count(kernel) + 2
    kernel.execute("import builtins\nbuiltins.kept = recorder\nx = 1")
    kernel.execute("%reset -f")
    kernel.execute("y = 2\nprint('on')")

    texts = kernel.eval("[c.outputs for c in kept.cells()][-1]")
    assert texts == ({"output_type": "stream", "name": "stdout", "text": "on\n"},)
    assert kernel.eval("(kept.bound_in('x'), kept.bound_in('y'))") == (None, f"In[{n}]")
    kernel.execute("kept.close()")


def test_an_error_of_ours_does_not_reach_the_cell(kernel: RealKernel) -> None:
    """When the recorder fails in a callback or a hook, the user's cell shows exactly its own."""
    kernel.execute(
        "def fail(*args): raise RuntimeError('ours')\n"
        "recorder._start = recorder._end = recorder._log_of = fail"
    )
    ran = kernel.execute("print('mine')\ndisplay({'text/plain': 'd'}, raw=True)\n5")

    assert ran.ok
    assert [out.get("name", out["output_type"]) for out in ran.outputs] == [
        "stdout",
        "display_data",
        "execute_result",
    ]


def test_close_leaves_the_shell_as_it_was(kernel: RealKernel) -> None:
    """After `close` no callback and no hook of ours is left, and nothing more is recorded."""
    kernel.execute("recorder.close(); recorder.close()")
    ran = kernel.execute("print('more')")

    ours = "[f for n in ('pre_run_cell', 'post_run_cell')"
    ours += (
        " for f in get_ipython().events.callbacks[n] if getattr(f, '__self__', None) is recorder]"
    )
    assert ran.text == "more\n"
    assert kernel.eval(f"len({ours})") == 0
    assert kernel.eval("len(get_ipython().display_pub._hooks)") == 0
    assert kernel.eval("len(get_ipython().displayhook._hooks)") == 0
    assert [cell["source"] for cell in cells(kernel)] == ["recorder.close(); recorder.close()"]


def test_a_large_output_keeps_head_and_tail(kernel: RealKernel) -> None:
    """Of a cell's 3 MB of text the first and last 64 Ki characters are held, the rest counted."""
    kernel.execute("for n in range(300_000, 330_000): print(f'{n:0>99}')")

    (cell,) = cells(kernel)
    texts = [out["text"] for out in cell["outputs"] if "text" in out]
    assert (len(texts[0]), len(texts[-1])) == (65_536, 65_536)
    assert texts[0].startswith("0" * 93 + "300000\n")
    assert texts[-1].endswith("329999\n")
    assert "3,000,000 characters in 30,000 lines" in repr(cell["outputs"][1])


def test_all_outputs_together_are_bounded(kernel: RealKernel) -> None:
    """When all cells hold too much, the oldest outputs go, and say so."""
    kernel.execute("recorder_module.ALL_BYTES = 50_000  # restored below")
    for n in range(4):
        kernel.execute(f"print('{n}' * 20_000)")

    kernel.execute("pass")
    kernel.execute("recorder_module.ALL_BYTES = 64 * 1024 * 1024")
    shown = [repr(cell["outputs"])[:80] for cell in cells(kernel)[1:5]]
    assert ["no longer kept" in text for text in shown] == [True, True, False, False]


def test_names_are_known_by_the_cell_that_bound_them(kernel: RealKernel) -> None:
    """A name belongs to the last cell that bound it; one from before, or deleted, to none."""
    n = next_count(kernel)
    kernel.execute("a = [1]\nb = [2]")
    kernel.execute("b = [3]\nc = b")
    kernel.execute("a.append(2)\ndel c")

    names = ("sys", "a", "b", "c")
    found = kernel.eval(f"[recorder.bound_in(name) for name in {names}]")
    assert found == [None, f"In[{n}]", f"In[{n + 1}]", None]

    kernel.execute("del a\nd = 1")
    kernel.execute("a = [1]\nd = 2")
    found = kernel.eval("[recorder.bound_in(name) for name in ('a', 'b', 'd')]")
    assert found == [f"In[{n + 4}]", f"In[{n + 1}]", f"In[{n + 4}]"]


def test_without_the_kernels_hooks_ipythons_record_is_read(tmp_path: Path) -> None:
    """In a shell without hooks (a terminal) streams, displays, results and errors are recorded."""
    with plain_shell(tmp_path) as plain:
        shell: Any = plain
        recorder = CellRecorder(shell)
        shell.run_cell("import sys\nprint(1)\nprint(2, file=sys.stderr)\n3", store_history=True)
        shell.run_cell("1/0", store_history=True)
        first, second = recorder.cells()
        recorder.close()

    assert [out.get("text", out.get("data")) for out in first.outputs] == [
        "1\n",
        "2\n",
        {"text/plain": "3"},
    ]
    assert [out["output_type"] for out in second.outputs] == ["error"]
    assert (first.id, second.failed) == ("in-1", True)
