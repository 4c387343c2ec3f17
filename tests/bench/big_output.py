"""Code that prints 300 MB in a `%agent` turn, next to a plain write of the same bytes.

And next to the same code printing into a file and into nothing: what Python itself takes for so
many prints. A turn has a cost of its own, so one that prints a line is shown too.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.kernels import RealKernel

from .table import Row, times

OUTPUT_BYTES = 300_000_000
MODEL = "claude-sonnet-5-5"

SETUP = f"""
import contextlib, os, resource, time
piece = ('x' * 99 + '\\n') * 10_000
count = {OUTPUT_BYTES} // len(piece)

def plain_write():
    data, start = piece.encode(), time.perf_counter()
    with open('plain', 'wb', buffering=0) as file:
        for _ in range(count):
            file.write(data)
        os.fsync(file.fileno())
    os.unlink('plain')
    return time.perf_counter() - start

def print_to_file(code):
    start = time.perf_counter()
    with open('printed', 'w') as file, contextlib.redirect_stdout(file):
        exec(code, globals())
        file.flush()
        os.fsync(file.fileno())
    os.unlink('printed')
    return time.perf_counter() - start

def print_to_nothing(code):
    start = time.perf_counter()
    with open(os.devnull, 'w') as file, contextlib.redirect_stdout(file):
        exec(code, globals())
    return time.perf_counter() - start

def most_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
"""
CODES = {
    "in pieces of 1 MB": "for _ in range(count): print(piece, end='')",
    "in lines of 100": f"for _ in range({OUTPUT_BYTES // 100}): print('x' * 99)",
    "at once": "print(piece * count, end='')",
}


def turn_seconds(kernel: RealKernel) -> float:
    """Return how long a turn takes, its files on the disk."""
    start = time.perf_counter()
    ask(kernel, "Print it.")
    run(kernel, "os.sync()")
    return time.perf_counter() - start


def measure() -> list[Row]:
    """Run one turn for each way of printing; each in a kernel that has had two turns before."""
    rows = []
    for name, code in CODES.items():
        warm, big = (reply(tools=[call("run_code", code=each)]) for each in ("print(1)", code))
        with (
            tempfile.TemporaryDirectory() as folder,
            FakeAnthropic([warm, "Warm.", warm, "Warm.", big, "Done."]) as server,
            agent_kernel(Path(folder), server, MODEL) as kernel,
        ):
            run(kernel, SETUP)
            turn_seconds(kernel)
            small = turn_seconds(kernel)
            plain: float = kernel.eval("plain_write()")
            printed: float = kernel.eval(f"print_to_file({code!r})")
            nowhere: float = kernel.eval(f"print_to_nothing({code!r})")
            before: int = kernel.eval("most_memory()")  # with what the code itself takes
            ours = turn_seconds(kernel)
            more = (kernel.eval("most_memory()") - before) / 1e6
            (text,) = kernel.home.glob("tool-results/*/*.txt")
            assert text.stat().st_size == OUTPUT_BYTES
        rows += [
            Row(
                f"300 MB printed {name}: the whole turn, next to a plain write",
                f"{ours:.2f} s",
                f"{plain:.2f} s",
                times(ours / plain),
                "≤ × 2",
            ),
            Row(
                "… next to the same code printing into a file",
                f"{ours:.2f} s",
                f"{printed:.2f} s",
                times(ours / printed),
            ),
            Row(
                "… next to the same code printing into nothing",
                f"{ours:.2f} s",
                f"{nowhere:.2f} s",
                times(ours / nowhere),
            ),
            Row("… next to a turn that prints a line", f"{ours:.2f} s", f"{small:.2f} s", ""),
            Row("… its extra memory", f"{more:.0f} MB", "300 MB", f"× {more / 300:.2f}", "< 64 MB"),
        ]
    return rows
