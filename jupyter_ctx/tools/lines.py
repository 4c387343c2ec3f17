"""A text on one line of bounded length: what lists and labels show of words that are not ours."""

from __future__ import annotations

LABEL_CHARS = 200
"""Longest piece of an output's own words in a description."""


def shorten(text: str, chars: int = LABEL_CHARS) -> str:
    """Return `text` on one line, cut at `chars` characters."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
