"""`%load_ext jupyter_ctx` in a live kernel, next to `%load_ext autoreload` in another.

The package is compiled first, as an installer leaves it: a checkout whose sources changed, in a
Python told to write no bytecode, would be compiled anew by every kernel.
"""

from __future__ import annotations

import compileall
import statistics
import tempfile
from pathlib import Path

from tests.kernels import ROOT, RealKernel, running_kernel

from .table import Row, ms, times

KERNELS = 7
HEAVY = ("anthropic", "openai", "mcp", "tiktoken", "rich", "PIL", "jsonschema", "httpx2")
"""Modules that loading must not import."""

LOAD = """
import sys, time
begin = time.perf_counter()
get_ipython().run_line_magic('load_ext', {name!r})
spent = time.perf_counter() - begin
"""


def load_seconds(kernel: RealKernel, name: str) -> float:
    """Return how long loading an extension takes in a kernel that has run one cell."""
    kernel.execute("1 + 1")
    assert kernel.execute(LOAD.format(name=name)).ok
    found: float = kernel.eval("spent")
    return found


def measure() -> list[Row]:
    """Load each in fresh kernels, in turns."""
    assert compileall.compile_dir(ROOT / "jupyter_ctx", quiet=1)
    ours: list[float] = []
    theirs: list[float] = []
    heavy: set[str] = set()
    for _ in range(KERNELS):
        with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder)) as kernel:
            before = set(kernel.eval(f"[m for m in {HEAVY!r} if m in __import__('sys').modules]"))
            ours.append(load_seconds(kernel, "jupyter_ctx"))
            heavy |= set(kernel.eval(f"[m for m in {HEAVY!r} if m in sys.modules]")) - before
        with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder)) as kernel:
            theirs.append(load_seconds(kernel, "autoreload"))
    our, their = statistics.median(ours), statistics.median(theirs)
    return [
        Row(
            "%load_ext jupyter_ctx, next to autoreload (median)",
            ms(our),
            ms(their),
            times(our / their),
            "≤ 50 ms",
        ),
        Row("the same, fastest", ms(min(ours)), ms(min(theirs)), times(min(ours) / min(theirs))),
        Row("heavy modules it imports", ", ".join(sorted(heavy)) or "none", "", "", "none"),
    ]
