"""What recording costs an ordinary cell, and a 300 MB output next to the disk's plain write speed.

Run `python -m tests.bench.kernel_costs`; it prints ratios measured side by side in one run.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from tests.kernels import RealKernel, running_kernel

CELLS = 200
OUTPUT_BYTES = 300_000_000

CELL = "x_{n} = {n}\nprint(x_{n})\nx_{n}"

RUN = """
import os, resource, time
from pathlib import Path
from tests.ipython.scratch import Scratch
scratch = Scratch(get_ipython(), Path('spools'))
scratch.run('1')
piece = 'x' * 99 + '\\n'
piece *= 10_000

def plain_write():
    data, start = piece.encode(), time.perf_counter()
    with open('plain', 'wb', buffering=0) as file:
        for _ in range(BYTES // len(data)): file.write(data)
        os.fsync(file.fileno())
    return time.perf_counter() - start

def captured(code):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    it = scratch.run(code)
    os.sync()
    seconds = time.perf_counter() - start
    assert it.spooled.size_bytes == BYTES, it.spooled
    os.unlink(it.spooled.path)
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
"""


def cell_seconds(kernel: RealKernel, names: int) -> float:
    """Return the median time of an ordinary cell, as the front end sees it."""
    kernel.execute(f"globals().update({{f'name_{{i}}': i for i in range({names})}})")
    times = []
    for n in range(CELLS):
        start = time.perf_counter()
        kernel.execute(CELL.format(n=n))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def callback_seconds(kernel: RealKernel) -> float:
    """Return the median time of both callbacks together, measured inside the kernel."""
    kernel.execute(
        "import time, statistics\nspent = []\n"
        "def timed(f):\n    def call(*args):\n        start = time.perf_counter(); f(*args)\n"
        "        spent.append(time.perf_counter() - start)\n    return call\n"
        "callbacks = get_ipython().events.callbacks\n"
        "for name in ('pre_run_cell', 'post_run_cell'):\n"
        "    callbacks[name] = [timed(f) if 'CellRecorder' in repr(f) else f"
        " for f in callbacks[name]]"
    )
    for n in range(CELLS):
        kernel.execute(CELL.format(n=n))
    median: float = kernel.eval("2 * statistics.mean(sorted(spent)[:-20])")
    return median


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder)) as kernel:
        without = cell_seconds(kernel, 1_000)
        kernel.execute("from jupyter_ctx.ipython.recorder import CellRecorder")
        kernel.execute("recorder = CellRecorder(get_ipython())")
        with_it = cell_seconds(kernel, 1_000)
        print(
            f"ordinary cell, 1,000 names: {without * 1e3:.2f} ms without, {with_it * 1e3:.2f} with"
        )
        print(f"  callbacks alone: {callback_seconds(kernel) * 1e3:.3f} ms")
        kernel.execute(RUN.replace("BYTES", str(OUTPUT_BYTES)))
        plain: float = kernel.eval("plain_write()")
        print(f"300 MB plainly written: {plain:.2f} s")
        codes: dict[str, str] = {
            "in pieces of 1 MB": "for _ in range(300): print(piece, end='')",
            "in lines of 100": "for _ in range(3_000_000): print('x' * 99)",
            "at once": "print(piece * 300, end='')",
        }
        for name, code in codes.items():
            seconds, more_mb = kernel.eval(f"captured({code!r})")
            print(
                f"300 MB captured {name}: {seconds:.2f} s = {plain / seconds:.2f} of plain speed,"
                f" {more_mb:.0f} MB more memory"
            )


if __name__ == "__main__":
    main()
