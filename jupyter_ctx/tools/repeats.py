"""Lines that come again and again, counted."""

from __future__ import annotations

import re

LEAST = 10
"""Neighbouring lines, or blocks of up to four, are counted from so many times on …"""

LEAST_CHARS = 500
"""… when together they have so many characters: a short text stays as it was printed."""

_RUN = re.compile(rf"^(?=[^\n]*\S)((?:[^\n]{{0,400}}\n){{1,4}}?)\1{{{LEAST - 1},}}", re.MULTILINE)


def count_repeats(text: str) -> str:
    """Return `text` with each run of equal lines as its first and a line that counts the others.

    A run that its last line ends without a newline keeps that line. Linear in the text's length.
    """
    return _RUN.sub(_counted, text)


def _counted(run: re.Match[str]) -> str:
    if len(run[0]) < LEAST_CHARS:
        return run[0]
    lines = run[1].count("\n")
    what = "line" if lines == 1 else f"{lines} lines"
    times = len(run[0]) // len(run[1]) - 1
    return f"{run[1]}[the {what} above {times:,} more times]\n"
