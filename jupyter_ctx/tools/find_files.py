"""`search_files`: files of the project by name, and lines in them by a regular expression.

The walk is made by a process of its own (`walk_child.py`), which is killed when its time is over:
neither a pattern nor a folder of a million files can hold up the kernel. What it had found counts.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from ..core.blocks import Json
from ..core.ports import ToolOutput, ToolSpec
from ..errors import ToolError
from .base import Tool, load_description, make_schema
from .globs import is_wild, to_regex
from .project import Project, shown_name
from .results import PATTERN_CHARS
from .search import HIT_CHARS, MAX_HITS, answers_of, run_child
from .terminal import resolve

LIMIT_S = 5.0
"""Longest search, in seconds: a walk reads many files, where a stored text is one."""

GLOB_CHARS = 500
"""Longest glob, in characters."""

NOTE_CHARS = 300
"""Room kept for the line that says what was searched."""

_CHILD = Path(__file__).with_name("walk_child.py")


@dataclass(slots=True)
class _Found:
    """What the walk told: `hits` as lines to show, and its last tally."""

    hits: list[str] = field(default_factory=list)
    tally: Json = field(default_factory=dict)
    is_cut: bool = False
    is_late: bool = False


def make_search_files(project: Project) -> Tool:
    """Return the tool `search_files`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        pattern = arguments.get("pattern")
        glob = str(arguments.get("glob") or "").strip()
        wanted = None if pattern is None else str(pattern)
        return ToolOutput(await asyncio.to_thread(find, project, wanted, glob, cap_chars))

    fields = {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "maxLength": PATTERN_CHARS,
            "description": "A Python regex. Default: names alone.",
        },
        "glob": {
            "type": "string",
            "maxLength": GLOB_CHARS,
            "description": "As `*.py` (in any folder) or `src/**/*.{py,md}`. Default: all.",
        },
    }
    spec = ToolSpec(
        "search_files",
        load_description("search_files"),
        make_schema(fields),
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)


def find(
    project: Project, pattern: str | None, glob: str, cap_chars: int, *, limit_s: float = LIMIT_S
) -> str:
    """Return the files, or with `pattern` the lines, at most MAX_HITS and `cap_chars` characters.

    The last line says what was searched. Raises ToolError: bad pattern, a glob that leads out of
    the project, nothing found in time.
    """
    room = max(200, cap_chars - NOTE_CHARS)
    order = {
        **_order_of(project, glob),
        "root": project.root,
        "pattern": pattern,
        "most": MAX_HITS,
        "line_chars": min(HIT_CHARS, room // 2),
    }
    said, is_late = run_child(_CHILD, json.dumps(order).encode() + b"\n", limit_s)
    found = _read(said, room)
    found.is_late = is_late
    if is_late and not found.hits:
        raise ToolError(
            f"The search was stopped after {limit_s:g} s without a hit; narrow it by `glob`, "
            "or simplify the pattern."
        )
    return "\n".join([*found.hits, _report(found, pattern, limit_s)])


def _order_of(project: Project, glob: str) -> dict[str, object]:
    """Return which files the glob means. Raises ToolError: it leads out of the project."""
    if glob.startswith(project.root + os.sep):
        glob = glob[len(project.root) + 1 :]
    glob = glob.removeprefix("./")
    parts = [part for part in glob.split("/") if part]
    if glob.startswith(("/", "~")) or ".." in parts:
        raise ToolError(
            f"`glob` must stay in the project, `{project.root}`: name files from there, without "
            "`..`."
        )
    if any(ord(char) < 32 or "\ud800" <= char <= "\udfff" for char in glob):
        raise ToolError("`glob` holds a control character, which no glob has.")
    named = "/".join(parts)
    if parts and (glob.endswith("/") or _is_folder(project, named)):
        parts.append("**")
    wild = next((at for at, part in enumerate(parts) if is_wild(part)), len(parts) - 1)
    regex = to_regex("/".join(parts)) if parts else ".*"
    return {
        "glob": regex if len(parts) != 1 else f"(?:.*/)?{regex}",
        "prefix": parts[: max(0, wild)] if len(parts) > 1 else [],
        "name": parts[-1] if parts and not is_wild(parts[-1]) else "",
        "dots": [to_regex(part) for part in parts[:-1] if part.startswith(".")],
    }


def _is_folder(project: Project, name: str) -> bool:
    return not is_wild(name) and os.path.isdir(os.path.join(project.root, name))


def _read(said: bytes, room: int) -> _Found:
    """Return the hits that fit. Raises ToolError on a bad pattern."""
    found = _Found()
    for answer in answers_of(said):
        if "error" in answer:
            raise ToolError(f"`pattern` is no Python regular expression: {answer['error']}.")
        if "path" not in answer:
            found.tally = answer
            continue
        hit = _line_of(answer)
        if found.is_cut or len(hit) + 1 > room:
            found.is_cut = True
            continue
        room -= len(hit) + 1
        found.hits.append(hit)
    found.is_cut = found.is_cut or bool(found.tally.get("is_cut")) or len(found.hits) == MAX_HITS
    return found


def _line_of(answer: Json) -> str:
    name = shown_name(str(answer["path"]))
    if "line" not in answer:
        size = answer["size"]
        return f"{name} ({size:,} bytes)"
    cell = f":cell {shown_name(str(answer['cell']))[:80]}" if answer["cell"] else ""
    char = f" (character {answer['char']:,})" if answer["char"] else ""
    text = resolve(str(answer["text"]))[:HIT_CHARS]
    return f"{name}{cell}:{answer['line']}{char}: {text}"


def _report(found: _Found, pattern: str | None, limit_s: float) -> str:
    """Return the line that says what was searched."""
    tally = found.tally
    noun = "file" if pattern is None else "hit"
    said = [f"{len(found.hits):,} {noun}{'' if len(found.hits) == 1 else 's'}"]
    if pattern is not None and tally.get("is_done"):
        files = tally["files"]
        said[0] += f" in {files:,} {'file' if files == 1 else 'files'}"
    if found.is_late:
        said.append(f"stopped after {limit_s:g} s, so there may be more: narrow it by `glob`")
    elif found.is_cut:
        said.append("there may be more: narrow it")
    for name, what in (("binary", "binary"), ("large", "large"), ("denied", "unreadable")):
        if tally.get(name):
            said.append(f"{tally[name]:,} {what} not searched")
    return f"[{'; '.join(said)}]"
