"""Searches a stored text for a pattern, within a time limit that holds whatever the pattern is.

Python's `re` cannot be interrupted and holds the interpreter's lock, so that one pattern like
`(a+)+$` would freeze the whole kernel, the user's thread included. The search therefore runs in a
process of its own (`search_child.py`, isolated, standard library only, about 20 ms to start) that
is killed when its time is over; what it had found by then is kept. It reads a file by itself, in
pieces, so that the size of the text does not matter here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolError
from .pages import Slice, Source, find_line, open_source
from .terminal import resolve

MAX_HITS = 100
"""So many hits are listed."""

LIMIT_S = 2.0
"""Longest search, in seconds."""

HIT_CHARS = 400
"""A longer line is shown in part, around the hit, in characters."""

NOTE_CHARS = 200
"""Room kept for the line that says what was searched."""

PLACE_CHARS = 60
"""Room kept in a hit for its place."""

_CHILD = Path(__file__).with_name("search_child.py")


@dataclass(slots=True)
class _Found:
    """What the search told: `hits` as lines to show, where it was, whether it ended by itself."""

    hits: list[str]
    line: int
    is_cut: bool = False
    is_late: bool = False


def search_text(
    source: Source, pattern: str, wanted: Slice, cap_chars: int, *, limit_s: float = LIMIT_S
) -> str:
    """Return the lines of `wanted` that `pattern` (a Python regex) matches, with their numbers.

    At most MAX_HITS hits and `cap_chars` characters; the last line says what was searched and
    where to go on. Raises ToolError: bad pattern, nothing found in time, no such line.
    """
    with open_source(source) as stream:
        position = find_line(stream, wanted.start_line)
    room = max(100, cap_chars - NOTE_CHARS)
    order: dict[str, object] = {
        "pattern": pattern,
        "path": str(source) if isinstance(source, Path) else None,
        "offset": position.offset,
        "first_line": wanted.start_line,
        "last_line": wanted.end_line,
        "most": MAX_HITS,
        "line_chars": min(HIT_CHARS, max(100, room - PLACE_CHARS)),
    }
    text = b"" if isinstance(source, Path) else source.encode("utf-8", "replace")
    said, is_late = run_child(
        _CHILD, json.dumps(order).encode() + b"\n" + text[position.offset :], limit_s
    )
    found = _read(said, room, wanted.start_line)
    found.is_late = is_late
    return _report(found, wanted, position.total_lines, limit_s)


def run_child(script: Path, order: bytes, limit_s: float) -> tuple[bytes, bool]:
    """Return what a child process said, and whether its time was over first. Raises ToolError."""
    if not sys.executable:
        raise ToolError("`pattern` cannot be used here: no Python executable is known.")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script)],
            input=order,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return expired.stdout or b"", True
    except OSError as error:
        raise ToolError(f"`pattern` cannot be used here: {error}.") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        raise ToolError(f"The search failed: {reason[:200] or done.returncode}.")
    return done.stdout, False


def _read(said: bytes, room: int, first_line: int) -> _Found:
    """Return the hits that fit. Raises ToolError on a bad pattern."""
    found = _Found([], first_line)
    for answer in answers_of(said):
        if "error" in answer:
            raise ToolError(f"`pattern` is no Python regular expression: {answer['error']}.")
        if "text" not in answer:
            found.line = int(str(answer.get("at") or answer.get("done")))
            continue
        line, char = int(str(answer["line"])), int(str(answer["char"]))
        place = f"{line} (character {char:,})" if char else f"{line}"
        hit = f"{place}: {resolve(str(answer['text']))[:HIT_CHARS]}"
        if len(hit) + 1 > room:
            found.is_cut = True
            break
        room -= len(hit) + 1
        found.hits.append(hit)
        found.line = line
    found.is_cut = found.is_cut or len(found.hits) == MAX_HITS
    return found


def answers_of(said: bytes) -> Iterator[dict[str, object]]:
    """Yield the child's answers; a half one at the end, where it was killed, is left out."""
    for line in said.split(b"\n")[:-1]:
        yield json.loads(line)


def _report(found: _Found, wanted: Slice, total_lines: int, limit_s: float) -> str:
    """Return the hits and the line that says what was searched."""
    if found.is_late and not found.hits:
        raise ToolError(
            f"The search was stopped after {limit_s:g} s without a hit, at about line "
            f"{found.line:,} of {total_lines:,}; simplify the pattern or narrow the lines."
        )
    last = total_lines if wanted.end_line is None else min(wanted.end_line, total_lines)
    if found.is_late or found.is_cut:
        last = found.line
    hits = f"{len(found.hits):,} {'hit' if len(found.hits) == 1 else 'hits'}"
    stopped = f"; stopped after {limit_s:g} s" if found.is_late else ""
    more = ""
    if found.is_late or found.is_cut:
        more = (
            f"; go on with start_line={last + 1}"
            if last < total_lines
            else "; there may be more, so narrow the pattern"
        )
    note = (
        f"[{hits} in lines {wanted.start_line:,}–{last:,} of {total_lines:,}{stopped}{more}]"
        if total_lines
        else "[the text is empty]"
    )
    return "\n".join([*found.hits, note])
