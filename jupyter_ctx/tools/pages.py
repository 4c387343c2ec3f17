"""Reads some lines of a text of any size, in bounded memory, and names where to go on.

Lines count from 1 and end at `\\n`; both ends of a range are included. A line over LINE_CHARS
shows its head; `start_char` (from 1) reads on within it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ..core.blocks import Json
from ..errors import ToolError
from .base import int_of
from .terminal import resolve

Source: TypeAlias = "Path | str"
"""A text: a UTF-8 file, or the text itself."""

LINE_CHARS = 2_000
"""A longer line shows its head only, in characters."""

NOTE_CHARS = 240
"""Room kept for the notes that name where to go on."""

CHUNK_BYTES = 1024 * 1024
"""A stored text is read in pieces of so many bytes."""

LINE_FIELDS: Mapping[str, Mapping[str, object]] = {
    "start_line": {"type": "integer", "minimum": 1},
    "end_line": {"type": "integer", "minimum": 1, "description": "The last line, included."},
    "start_char": {"type": "integer", "minimum": 1, "description": "Within a long start_line."},
}


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a text is wanted.

    `end_line` None: as much as fits; `start_char` None: whole lines.
    """

    start_line: int = 1
    end_line: int | None = None
    start_char: int | None = None

    @classmethod
    def of(cls, arguments: Json) -> Slice:
        """Return the slice that a tool's arguments name. Raises ToolError if it is upside down."""
        start = int_of(arguments.get("start_line")) or 1
        end = int_of(arguments.get("end_line"))
        if end is not None and end < start:
            raise ToolError(f"`end_line` is {end}; it must be at least start_line ({start}).")
        return cls(start, end, int_of(arguments.get("start_char")))


@dataclass(frozen=True, slots=True)
class Position:
    """Where a line begins, in bytes, and how many lines the text has."""

    offset: int
    total_lines: int


def open_source(source: Source) -> BinaryIO:
    """Return the text as bytes. Raises ToolError when the file cannot be read."""
    if isinstance(source, str):
        return io.BytesIO(source.encode("utf-8", "replace"))
    try:
        return source.open("rb")
    except OSError as error:
        raise ToolError(f"The stored text cannot be read: {error.strerror or error}.") from error


def find_line(stream: BinaryIO, line: int) -> Position:
    """Return where `line` begins and how many lines there are.

    Reads the whole stream once, a chunk at a time. Raises ToolError if there is no such line.
    """
    offset, seen, size, last = 0 if line == 1 else -1, 0, 0, b"\n"
    while chunk := stream.read(CHUNK_BYTES):
        ends = chunk.count(b"\n")
        if offset < 0 and seen + ends >= line - 1:
            at = -1
            for _ in range(line - 1 - seen):
                at = chunk.index(b"\n", at + 1)
            offset = size + at + 1
        seen, size, last = seen + ends, size + len(chunk), chunk[-1:]
    total = seen + (last != b"\n")
    if line > max(1, total):
        raise ToolError(f"`start_line` is {line:,}; the text has {total:,} lines.")
    return Position(offset, total)


def open_lines(stream: BinaryIO, offset: int) -> io.TextIOWrapper:
    """Return the text from byte `offset` on; its lines end at `\\n` only."""
    stream.seek(offset)
    return io.TextIOWrapper(stream, "utf-8", errors="replace", newline="\n")


def read_page(source: Source, wanted: Slice, cap_chars: int) -> str:
    """Return the wanted lines, at most `cap_chars` characters, and where to go on if any are left.

    A text that fits whole comes back as it is. Raises ToolError (no such line or character, file
    that cannot be read).
    """
    with open_source(source) as stream:
        return read_stream(stream, wanted, cap_chars)


def read_stream(stream: BinaryIO, wanted: Slice, cap_chars: int) -> str:
    """The same of an open file of UTF-8 text, which may be closed by it."""
    room = max(100, cap_chars - NOTE_CHARS)
    position = find_line(stream, wanted.start_line)
    if not position.total_lines:
        return "(the text is empty)"
    with open_lines(stream, position.offset) as lines:
        if wanted.start_char is not None:
            return _read_within(lines, wanted.start_line, wanted.start_char, position, room)
        return _read_lines(lines, wanted, position, room)


def _read_lines(lines: io.TextIOWrapper, wanted: Slice, position: Position, room: int) -> str:
    total = position.total_lines
    end = total if wanted.end_line is None else min(wanted.end_line, total)
    shown: list[str] = []
    line = wanted.start_line
    ends_open = False
    while line <= end:
        text, chars, ends_open = _read_line(lines, min(LINE_CHARS, room))
        note = _long_line_note(line, chars, len(text)) if chars > len(text) else ""
        text = f"{resolve(text)[:room]}{note}"
        if shown and len(text) + 1 > room:
            break
        shown.append(text)
        room -= len(text) + 1
        line += 1
    body = "\n".join(shown)
    if wanted.start_line == 1 and line > total:
        return body if ends_open or not shown else body + "\n"
    more = f"; go on with start_line={line}" if line <= end else ""
    return f"{body}\n[lines {wanted.start_line:,}–{line - 1:,} of {total:,}{more}]"


def _read_line(lines: io.TextIOWrapper, most: int) -> tuple[str, int, bool]:
    """Return the head of the next line, its characters in all, and whether the text ends in it."""
    piece = lines.readline(most + 1)
    if piece.endswith("\n"):
        return piece[:-1], len(piece) - 1, False
    if len(piece) <= most:
        return piece, len(piece), True
    head, chars = piece[:most], len(piece)
    while piece := lines.readline(CHUNK_BYTES):
        if piece.endswith("\n"):
            return head, chars + len(piece) - 1, False
        chars += len(piece)
    return head, chars, True


def _long_line_note(line: int, chars: int, shown: int) -> str:
    return (
        f"… [line {line} has {chars:,} characters; "
        f"go on with start_line={line}, start_char={shown + 1}]"
    )


def _read_within(
    lines: io.TextIOWrapper, line: int, start_char: int, position: Position, room: int
) -> str:
    """Return a part of one line, from `start_char` on."""
    skipped = 0
    while skipped < start_char - 1:
        piece = lines.readline(min(CHUNK_BYTES, start_char - 1 - skipped))
        if not piece or piece.endswith("\n"):
            chars = skipped + len(piece.removesuffix("\n"))
            raise ToolError(
                f"`start_char` is {start_char:,}; line {line} has {chars:,} characters."
            )
        skipped += len(piece)
    text, rest, _ = _read_line(lines, room)
    if not rest and start_char > 1:
        raise ToolError(f"`start_char` is {start_char:,}; line {line} has {skipped:,} characters.")
    last = skipped + len(text)
    more = ""
    if rest > len(text):
        more = f"; go on with start_line={line}, start_char={last + 1}"
    elif line < position.total_lines:
        more = f"; go on with start_line={line + 1}"
    place = f"line {line:,}, characters {start_char:,}–{last:,} of {skipped + rest:,}"
    return f"{resolve(text)[:room]}\n[{place}{more}]"
