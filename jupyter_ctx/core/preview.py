"""What stays in the message of a text that went to the store: facts about it, its head and tail.

Pure and deterministic: the same text and the same room give the same bytes for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .ports import SpooledText

# Characters: a gap line, a MIME list and a path at their longest.
GAP_CHARS, MIME_CHARS, PATH_CHARS = 60, 160, 160
ERROR_SEARCH_CHARS = 64 * 1024
# The header shrinks with the room: below the first no hints, below the second the handle alone.
FULL_HEADER_FROM, SHORT_HEADER_FROM = 700, 200
LEAST_BODY_CHARS = 4
ERROR_LINE_CHARS = 200

_INVALID = re.compile("[\x00\ud800-\udfff]")
_ERROR_LINE = re.compile(
    r"^[A-Za-z_][A-Za-z0-9_.]{0,200}(?:Error|Exception|Warning|Interrupt|Exit|Iteration)\b.*$",
    re.MULTILINE,
)


def clean_text(text: str) -> str:
    """Return `text` as the wire takes it: lone surrogates and NULs become U+FFFD, one for one."""
    return _INVALID.sub("\ufffd", text)


def name_line(name: str) -> str:
    """Return a name that others gave on one line; what is not seen, or ends a line, is spelled."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in name
    )


def count_lines(text: str) -> int:
    """Return the number of lines; a newline at the very end begins no further one."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def build_preview(
    text: str | SpooledText,
    tool_use_id: str,
    path: str | None,
    *,
    mime_types: Sequence[str] = (),
    is_error: bool = False,
    most_chars: int = 2_000,
    path_chars: int = 0,
) -> str:
    """Return the text that stands for `text`: at most `most_chars` characters, never empty.

    It names size, line count, MIME types, `path` and how to read on, then shows head and tail, cut
    at line ends where that costs little. Of an error the tail is the larger part, and the line that
    names the error is in it. `path` None: it could not be stored. With very little room only the
    handle and a few characters are left, which may be more than `most_chars`. Of head and tail no
    more is shown than beside a path of `path_chars` characters, so that a size which was counted
    before the path was known still holds.
    """
    source = _Source.of(text)
    where = _clip_path(path) if path is not None else "kept in memory only"
    header = _build_header(source, tool_use_id, where, mime_types, most_chars)
    spare = max(0, path_chars - len(where)) if where in header else 0
    room = max(LEAST_BODY_CHARS, most_chars - len(header) - 1 - spare)
    if room < GAP_CHARS * 2:
        body = source.tail[-room:] if is_error else source.head[:room]
        return f"{header}\n{body}"
    return f"{header}\n{_build_body(source, room - GAP_CHARS, is_error)}"


class _Source:
    """A text of which perhaps only the two ends are at hand."""

    def __init__(self, head: str, tail: str, chars: int, lines: int) -> None:
        self.head, self.tail, self.chars, self.lines = head, tail, chars, lines

    @classmethod
    def of(cls, text: str | SpooledText) -> _Source:
        if isinstance(text, SpooledText):
            return cls(clean_text(text.head), clean_text(text.tail), text.chars, text.lines)
        return cls(text, text, len(text), count_lines(text))


def _build_header(
    source: _Source,
    tool_use_id: str,
    where: str,
    mime_types: Sequence[str],
    most_chars: int,
) -> str:
    chars, lines = f"{source.chars:,} characters", f"{source.lines:,} lines"
    handle = f'read_result(tool_use_id="{tool_use_id}")'
    if most_chars < SHORT_HEADER_FROM:
        return f"[{chars}: {handle}]"
    if most_chars < FULL_HEADER_FROM:
        return f"[{chars}, {lines}: {handle}; {where}]"
    kinds = _clip(", ".join(mime_types), MIME_CHARS)
    kinds = f" ({kinds})" if kinds else ""
    return (
        f"[{chars}, {lines}{kinds}: {where}. Below: its beginning and its end. "
        f"{handle[:-1]}, start_line=…, end_line=…) reads on, pattern=… searches it.]"
    )


def _clip(text: str, most: int) -> str:
    """Return `text` on one line, at most `most` characters."""
    line = clean_text(" ".join(text[: most * 2].split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def _clip_path(path: str) -> str:
    return path if len(path) <= PATH_CHARS else "…" + path[1 - PATH_CHARS :]


def _build_body(source: _Source, room: int, is_error: bool) -> str:
    """Return head, a line that says what is left out, and tail; `room` is for head and tail."""
    if source.chars <= room:
        return source.head
    error = _find_error_line(source.tail[-ERROR_SEARCH_CHARS:]) if is_error else ""
    for_head = room // 4 if is_error else room // 2
    head = _cut_head(source.head, for_head)
    tail = _cut_tail(source.tail, room - len(head))
    if error and error not in tail:
        shown = error[: min(ERROR_LINE_CHARS, room // 2)]
        tail = f"{shown}\n{_cut_tail(source.tail, room - len(head) - len(shown) - 1)}"
    gap = _describe_gap(source, head, tail)
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{gap}\n{tail}"


def _describe_gap(source: _Source, head: str, tail: str) -> str:
    if head.endswith("\n") and source.tail.endswith("\n" + tail):
        first, last = head.count("\n") + 1, source.lines - count_lines(tail)
        return f"[… lines {first:,} to {last:,} left out …]"
    return f"[… {max(0, source.chars - len(head) - len(tail)):,} characters left out …]"


def _find_error_line(tail: str) -> str:
    """Return the last line that names an error ("ValueError: …"), else the last line with text."""
    named = [match.group() for match in _ERROR_LINE.finditer(tail)]
    if named:
        return named[-1]
    lines = tail.rstrip().rsplit("\n", 1)
    return lines[-1]


def _cut_head(text: str, most: int) -> str:
    """Return at most `most` first characters, up to a line's end if one is in the latter half."""
    cut = text[:most]
    end = cut.rfind("\n") + 1
    return cut[:end] if end * 2 >= most else cut


def _cut_tail(text: str, most: int) -> str:
    """Return at most `most` (> 0) last characters, from a line's begin if one is in their half."""
    cut = text[-most:]
    begin = cut.find("\n", 0, len(cut) - 1) + 1
    return cut[begin:] if begin and begin * 2 <= most else cut
