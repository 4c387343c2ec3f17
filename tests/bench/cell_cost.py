"""An ordinary cell in a kernel with the extension loaded, next to one without, in turns."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from tests.kernels import RealKernel, running_kernel

from .table import Row, ms, times

CELLS = 300
NAMES = 1_000
"""So many names the user's namespace has."""

CELL = "x_{n} = {n}\nprint(x_{n})\nx_{n}"


def cell_seconds(kernel: RealKernel, n: int) -> float:
    """Return how long a cell takes, as the front end sees it."""
    start = time.perf_counter()
    kernel.execute(CELL.format(n=n))
    return time.perf_counter() - start


def cpu_seconds(kernel: RealKernel) -> float:
    """Return the processor time the kernel has used so far, all threads together."""
    found: float = kernel.eval("__import__('time').process_time()")
    return found


def measure() -> list[Row]:
    """Run cells in both kernels, one here, one there."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_kernel(Path(folder) / "with") as loaded,
        running_kernel(Path(folder) / "without") as bare,
    ):
        kernels = (loaded, bare)
        assert loaded.execute("%load_ext jupyter_ctx").ok
        for kernel in kernels:
            kernel.execute(f"globals().update({{f'name_{{i}}': i for i in range({NAMES})}})")
            cell_seconds(kernel, 0)
        begun = [cpu_seconds(kernel) for kernel in kernels]
        spent = [[cell_seconds(kernel, n) for kernel in kernels] for n in range(CELLS)]
        cpu = [
            (cpu_seconds(kernel) - begin) / CELLS
            for kernel, begin in zip(kernels, begun, strict=True)
        ]
    ours, theirs = (statistics.median(column) for column in zip(*spent, strict=True))
    return [
        Row(
            "ordinary cell with the extension, next to without (median)",
            ms(ours),
            ms(theirs),
            times(ours / theirs),
            "+ < 1 ms",
        ),
        Row("processor time of the same (mean)", ms(cpu[0]), ms(cpu[1]), times(cpu[0] / cpu[1])),
        Row("what the extension adds, in processor time", ms(cpu[0] - cpu[1]), "", "", "< 1 ms"),
    ]
