"""Words of an MCP server made fit to be told: bounded, and nothing in them acts or hides."""

from __future__ import annotations

import unicodedata

from .terminal import resolve

NAME_CHARS = 60
"""So much of a name is shown, in characters."""

_UNSEEN = ("Cf", "Cc", "Co", "Cn", "Zl", "Zp")


def clean_words(text: str) -> str:
    """Return a text without what acts on a terminal or is not seen at all; newlines stay."""
    kept = (one for one in resolve(text) if one in "\n\t" or not _is_unseen(one))
    return "".join(kept).strip()


def show_name(name: str) -> str:
    """Return a name as it may be shown: one line, at most NAME_CHARS."""
    return " ".join(clean_words(name[: 4 * NAME_CHARS]).split())[:NAME_CHARS] or "(no name)"


def clip_words(text: str, most_chars: int) -> str:
    """Return a text on one line, at most `most_chars` long."""
    line = " ".join(clean_words(text[: 4 * most_chars]).split())
    return line if len(line) <= most_chars else f"{line[: most_chars - 1]}…"


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN
