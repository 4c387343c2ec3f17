"""One row for each figure: what was measured, beside what, and what is to be reached."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HEAD = ("measure", "ours", "beside it", "ratio", "reach")


@dataclass(frozen=True)
class Row:
    """A figure, the one measured beside it in the same run, their ratio, and the aim."""

    measure: str
    ours: str
    beside: str
    ratio: str
    reach: str = ""


def render(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [HEAD, *((row.measure, row.ours, row.beside, row.ratio, row.reach) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    head, *body = (
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([head, rule, *body])


def ms(seconds: float) -> str:
    """Return "3.42 ms"."""
    return f"{seconds * 1e3:,.2f} ms"


def times(ratio: float) -> str:
    """Return "× 1.23"."""
    return f"× {ratio:.2f}"


def seconds(run: Callable[[], object]) -> float:
    """Return how long `run` takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return how much processor time `run` takes, which a busy machine changes little."""
    start = time.process_time()
    run()
    return time.process_time() - start


def median_seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Return the median of how long `run` takes."""
    return statistics.median(seconds(run) for _ in range(repeats))
