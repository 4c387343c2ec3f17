"""Tracebacks for a model: the user's frames whole, those of libraries in short.

IPython shows every frame with its surrounding lines, in colour. What helps is where the user's
code went wrong and what was raised; of a library's frames the line it stopped at is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .terminal import resolve

LIBRARY_FRAMES = 4
"""So many library frames in a row are shown; of more, the first and the last two."""

USER_FRAMES = 30
"""So many frames of the user's code are shown; of more, the first ten and the last twenty."""

FIRST_FRAMES = 10
"""… so many from the start."""

_CARETS = re.compile(r"[ \t|]*[~^]*\^[~^ ]*")
_RULE = re.compile(r"-{20,}")
_FRAME = re.compile(
    r"(?:Cell |Input )?In ?\[\d+\]|Code run by the agent, line \d+|File .{1,500}"
    r"|<ipython-input-[^>]{1,100}>.{0,200}"
    r"|\S.{0,500}? in [\w<>.]{1,200}\(.*"
)
_LIBRARY = re.compile(
    r"(?:site|dist)-packages|[/\\]lib(?:64)?[/\\]python\d|[/\\]Lib[/\\]|<frozen |\.p(?:yx|xi):"
)
_LINK = re.compile(r"<a href='vscode-notebook-cell:[^'<>]{0,500}'>(\d+)</a>")
_HEADER = re.compile(r"^([\w.]{1,200}) {2,}(?=Traceback \(most recent call last\)$)")
_ARROW = re.compile(r"-+> ?\d+")


@dataclass(slots=True)
class _Part:
    """A frame with its lines, or lines between frames."""

    lines: list[str] = field(default_factory=list)
    is_frame: bool = False
    is_library: bool = False


def render_error(ename: str, evalue: str, traceback: list[str]) -> str:
    """Return the traceback as text that ends with what was raised.

    `traceback` holds the lines or blocks of an nbformat `error` output. Colours, rules and lines
    of carets are left out. Never empty.
    """
    raised = resolve(f"{ename}: {evalue}" if evalue else ename).strip() or "an error without a name"
    text = _LINK.sub(r"\1", resolve("\n".join(traceback)))
    lines = [
        _HEADER.sub(r"\1 ", line.rstrip())
        for line in text.split("\n")
        if not _CARETS.fullmatch(line) and not _RULE.fullmatch(line)
    ]
    parts = _bound(list(_split(lines)))
    body = "\n".join(_shorten(iter(parts))).strip("\n")
    is_said = body.rsplit("\n", 1)[-1].startswith(f"{ename}: ")  # a SyntaxError words it otherwise
    if is_said or raised in body[-len(raised) - 2_000 :]:
        return body
    return f"{body}\n{raised}" if body else raised


def _split(lines: list[str]) -> Iterator[_Part]:
    """Yield frames, and what stands between them, in order."""
    part = _Part()
    for line in lines:
        is_frame = bool(_FRAME.match(line))
        if is_frame or (part.is_library and line[:1] not in (" ", "\t", "-")):
            if part.lines:
                yield part
            is_library = is_frame and bool(_LIBRARY.search(line[:600]))
            part = _Part(is_frame=is_frame, is_library=is_library)
        part.lines.append(line)
    if part.lines:
        yield part


def _bound(parts: list[_Part]) -> list[_Part]:
    """Return the parts with at most USER_FRAMES frames of the user's, and a note for the rest."""
    places = [n for n, part in enumerate(parts) if part.is_frame and not part.is_library]
    if len(places) <= USER_FRAMES:
        return parts
    start, end = places[FIRST_FRAMES], places[len(places) - (USER_FRAMES - FIRST_FRAMES)]
    left_out = sum(part.is_frame for part in parts[start:end])
    note = _Part([f"… {left_out:,} frames left out", ""])
    return [*parts[:start], note, *parts[end:]]


def _shorten(parts: Iterator[_Part]) -> Iterator[str]:
    """Yield the lines to show; frames of libraries in a row are shown in short."""
    library: list[_Part] = []
    for part in parts:
        if part.is_library:
            library.append(part)
        elif library and not any(line.strip() for line in part.lines):
            continue  # the blank line between two frames of libraries
        else:
            yield from _in_short(library)
            library = []
            yield from part.lines
    yield from _in_short(library)


def _in_short(frames: list[_Part]) -> Iterator[str]:
    left_out = len(frames) - 3 if len(frames) > LIBRARY_FRAMES else 0
    for n, frame in enumerate(frames):
        if left_out and n == 1:
            yield f"… {left_out} frames of libraries left out"
        if not left_out or n == 0 or n > left_out:
            yield frame.lines[0]
            yield from (line for line in frame.lines[1:] if _is_place(line))


def _is_place(line: str) -> bool:
    """Say whether the line shows where a frame stopped; compiled code has no line to show."""
    return bool(_ARROW.match(line)) and "Could not get source, " not in line
