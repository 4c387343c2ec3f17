"""Text of others made fit to be shown as plain text: no control sequence, no broken character."""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1, and lone surrogates: nothing a terminal would act on.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# Direction marks, zero-width characters, line separators: what makes code look other than it is.
_DECEPTIVE = re.compile("[\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def plain(text: str) -> str:
    """Return `text` for a terminal or a `text/plain` output; newlines and tabs stay.

    Control characters and lone surrogates become U+FFFD; `\\r\\n` becomes a newline.
    """
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def shown_exactly(text: str) -> str:
    """Return `text` so that a reader sees what it is: deceptive characters appear as `\\uXXXX`.

    For what someone must approve. Nothing is cut or folded.
    """

    def spelled(match: re.Match[str]) -> str:
        return f"\\u{ord(match[0]):04x}"

    return _DECEPTIVE.sub(spelled, _CONTROL.sub(spelled, text.replace("\r\n", "\n")))


def one_line(text: str, most: int = 80) -> str:
    """Return the start of `text` on one line, at most `most` characters, `…` where it was cut."""
    line = " ".join(plain(text[: 8 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"
