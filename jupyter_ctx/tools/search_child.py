"""Searches a text with a regular expression; runs as a process of its own, which can be killed.

Started by `search.py`, never imported by it.
Standard input: one line of JSON with `pattern`, `path` (None: the text follows on standard input),
`offset` (bytes), `first_line`, `last_line`, `most` (hits), `line_chars`; then the text.
Standard output: one JSON object a line: `{"line", "char", "text"}` for a hit (`char` from 1 where
the line was too long to show whole, else 0), `{"at": line}` now and then, `{"error"}` for a bad
pattern, `{"done": last line searched}` at the end.
"""

import io
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

PIECE_CHARS = 1_000_000
"""A longer line is searched in pieces of this length, so that memory stays bounded."""

OVERLAP_CHARS = 10_000
"""So much of a piece is looked at again with the next one; a longer match may be missed."""

REPORT_LINES = 20_000
"""The place reached is told after so many lines."""


def say(**fields: object) -> None:
    """Write one object at once: what was said before a kill is what counts."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def read_pieces(lines: io.TextIOWrapper) -> Iterator[tuple[int, int, str, bool]]:
    """Yield line number (from 0), characters before, text, and whether the line ends with it."""
    number, before, kept = 0, 0, ""
    while piece := lines.readline(PIECE_CHARS):
        text, ends = kept + piece, piece.endswith("\n")
        yield number, before, text.removesuffix("\n"), ends
        if ends:
            number, before, kept = number + 1, 0, ""
        else:
            kept = text[-OVERLAP_CHARS:]
            before += len(text) - len(kept)
    if kept:
        yield number, before, kept, True


def find_hits(
    pattern: re.Pattern[str], text: str, is_last: bool, line_chars: int
) -> Iterator[tuple[int, str]]:
    """Yield place and excerpt of each hit: one for a short line, every match of a long one."""
    if is_last and len(text) <= line_chars:
        if pattern.search(text):
            yield 0, text
        return
    limit = len(text) if is_last else len(text) - OVERLAP_CHARS
    for match in pattern.finditer(text):
        if match.start() >= limit and not is_last:
            return
        start = max(0, match.start() - line_chars // 4)
        yield match.start() + 1, text[start : start + line_chars]


def main(source: BinaryIO) -> None:
    """Search as told."""
    order: dict[str, Any] = json.loads(source.readline())
    try:
        pattern = re.compile(order["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        say(error=str(error))
        return
    if order["path"] is None:
        search(order, pattern, source)
        return
    with open(order["path"], "rb") as file:
        file.seek(order["offset"])
        search(order, pattern, file)


def search(order: dict[str, Any], pattern: re.Pattern[str], source: BinaryIO) -> None:
    """Search the rest of `source`, saying each hit when it is found."""
    lines = io.TextIOWrapper(source, "utf-8", errors="replace", newline="\n")
    hits = 0
    line = order["first_line"]
    last_line = order["last_line"]
    for number, before, text, is_last in read_pieces(lines):
        line = order["first_line"] + number
        if last_line is not None and line > last_line:
            line = last_line
            break
        if number % REPORT_LINES == REPORT_LINES - 1:
            say(at=line - 1)
        for place, excerpt in find_hits(pattern, text, is_last, order["line_chars"]):
            say(line=line, char=before + place if place or before else 0, text=excerpt)
            hits += 1
            if hits == order["most"]:
                return
    say(done=line)


if __name__ == "__main__":
    main(sys.stdin.buffer)
