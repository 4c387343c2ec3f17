"""Text of others made fit to be shown as plain text: no control sequence, no broken character."""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1, and lone surrogates: nothing a terminal would act on.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# What is not seen, or moves what is: direction marks, fillers and joiners of no width, line
# separators, spaces other than the common one (Default_Ignorable_Code_Point, Zs, and a few more).
_DECEPTIVE = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U00013440\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

_ROW = re.compile(r"^ +| +$| {2,}")


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
        code = ord(match[0])
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return _DECEPTIVE.sub(spelled, _CONTROL.sub(spelled, text.replace("\r\n", "\n")))


def on_one_line(text: str) -> str:
    """Return `text` on one line, whole, with nothing in it that hides: a name that is asked about.

    Newlines and tabs appear as `\\n` and `\\t`, and of several spaces in a row, or at an end, each
    as `\\u0020`: a row of them looks like one.
    """
    spelled = shown_exactly(text).replace("\n", "\\n").replace("\t", "\\t")
    return _ROW.sub(lambda row: "\\u0020" * len(row[0]), spelled)


def one_line(text: str, most: int = 80) -> str:
    """Return the start of `text` on one line, at most `most` characters, `…` where it was cut."""
    line = " ".join(plain(text[: 8 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"
