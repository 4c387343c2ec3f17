"""What a permission question shows: the code, the diff or the source, whole. Pure.

Nothing is cut or folded, and characters that would make it look other than it is are spelled out.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.acting import Actor
from ..core.blocks import Json, ToolUse
from ..core.ports import CellType, NotebookCell, NotebookState, ToolSpec
from .markdown import escape, fence
from .plaintext import on_one_line, one_line, shown_exactly
from .rules import Act, Made

DIFF_LINES = 2_000
"""Where a text has more lines, the lines that differ are not compared one by one: that takes long.
They are shown as taken out and put in together."""

CONTEXT_LINES = 3
"""So many lines are shown around each difference, as `diff -u` does."""

SHORT_CHARS = 8
"""So many characters of a UUID are shown at least: its first group."""

DESCRIPTION_CHARS = 100
"""So much of a sub-agent's task is shown in a question."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_FENCES: dict[CellType, str] = {"code": "python", "markdown": "markdown", "raw": "text"}
_KNOWN_ARGUMENTS = {
    "edit cells": {"cell_id", "source"},
    "delete cells": {"cell_id"},
    "run cells": {"cell_id"},
    "move cells": {"cell_id", "after"},
    "insert cells": {"source", "cell_type", "after"},
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One call as it is asked about: what it does, a title, and a text.

    `info` is the language of the text, as a fence names it: `python`, `markdown`, `diff`, `json`,
    `text`.
    """

    act: Act
    title: str
    text: str
    info: str = "text"

    @property
    def plain(self) -> str:
        """The question for a place that shows text."""
        return f"{self.title}\n\n{shown_exactly(self.text)}"

    @property
    def markdown(self) -> str:
        """The question as Markdown in which nothing acts."""
        return f"{escape(self.title)}\n\n{fence(shown_exactly(self.text), self.info)}"


def group_of(spec: ToolSpec) -> str:
    """Return the group of calls that a tool belongs to."""
    return one_line(spec.permission or f"use {spec.name}")


def ask_plainly(use: ToolUse, spec: ToolSpec) -> Asked:
    """Return the question about a call of which only its own arguments are known."""
    act = Act(group_of(spec))
    title = f"The agent asks to {act.verb}:"
    code = use.input.get("code")
    if isinstance(code, str) and set(use.input) == {"code"}:
        return Asked(act, title, code, "python")
    return Asked(act, title, json.dumps(dict(use.input), indent=2, ensure_ascii=False), "json")


def asked_by(actor: Actor, asked: Asked) -> Asked:
    """Return the question with the sub-agent named that asks, by its task in one line."""
    who = f"The sub-agent “{on_one_line(actor.description)[:DESCRIPTION_CHARS]}” asks"
    return replace(asked, title=asked.title.replace("The agent asks", who, 1))


# Cells ------------------------------------------------------------------------------------------


def ask_of_cell(use: ToolUse, spec: ToolSpec, state: NotebookState, made: Made) -> Asked:
    """Return the question about a call of a cell tool, with the cell as it stands now.

    Of a cell that is not there, or a call that the tool will refuse, only the arguments are shown.
    """
    verb, given = group_of(spec), use.input
    if not set(given) <= _KNOWN_ARGUMENTS.get(verb, set()):
        return ask_plainly(use, spec)
    if verb == "insert cells":
        return _ask_insert(use, spec, state)
    at = _find(state, given.get("cell_id"))
    if at is None:
        return ask_plainly(use, spec)
    cell = state.cells[at]
    where, name = _describe(state, at, made), short_id(cell.id, state)
    is_made = cell.id in made.cells
    info = _FENCES[cell.type]
    match verb:
        case "edit cells":
            source = given.get("source")
            if not isinstance(source, str):
                return ask_plainly(use, spec)
            act = Act(verb, cell.id, is_made, name=name)
            # A source ends without a newline; both get one, so that the diff does not speak of it.
            diff = unified(f"{cell.source}\n", f"{source}\n")
            return Asked(act, f"The agent asks to edit {where}:", diff, "diff")
        case "delete cells":
            act = Act(verb, cell.id, made.cells.get(cell.id) == cell.source)
            gone = f"The agent asks to delete {where}"
            return Asked(act, f"{gone}{_outputs_too(cell)}:", cell.source, info)
        case "run cells":
            act = Act(verb, cell.id, is_made, digest_of(cell.source), name=name)
            return Asked(act, f"The agent asks to run {where}:", cell.source, info)
        case _:
            act = Act(verb, cell.id, is_made, name=name)
            to = _below(state, given.get("after"), "to the top")
            return Asked(act, f"The agent asks to move {where} {to}:", cell.source, info)


def short_id(cell_id: str, state: NotebookState) -> str:
    """Return a cell's id as a question shows it, on one line.

    Of a UUID, which nobody reads, that is its beginning and `…`: 8 characters, or as many as no
    other cell's id begins with. Any other id is shown whole.
    """
    if _UUID.fullmatch(cell_id):
        others = [cell.id for cell in state.cells if cell.id != cell_id]
        for chars in range(SHORT_CHARS, len(cell_id)):
            if not any(other.startswith(cell_id[:chars]) for other in others):
                return f"{cell_id[:chars]}…"
    return on_one_line(cell_id)


def digest_of(text: str) -> str:
    """Return the sha256 of what was shown, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _ask_insert(use: ToolUse, spec: ToolSpec, state: NotebookState) -> Asked:
    source, kind = use.input.get("source"), use.input.get("cell_type", "code")
    if not isinstance(source, str) or kind not in _FENCES:
        return ask_plainly(use, spec)
    info = next(fence for name, fence in _FENCES.items() if name == kind)
    to = _below(state, use.input.get("after"), "at the end")
    return Asked(Act(group_of(spec)), f"The agent asks to insert a {kind} cell {to}:", source, info)


def _find(state: NotebookState, cell_id: object) -> int | None:
    return next((at for at, cell in enumerate(state.cells) if cell.id == cell_id), None)


def _describe(state: NotebookState, at: int, made: Made) -> str:
    """Return which cell it is: "cell 1a2b3c4d… (In[3], 4 of 12, made by the agent)"."""
    cell = state.cells[at]
    known = [f"In[{cell.count}]"] if cell.count is not None else []
    known.append(f"{at + 1} of {len(state.cells)}")
    if cell.id not in made.cells:
        known.append("not the agent's")
    elif made.cells[cell.id] == cell.source:
        known.append("made by the agent")
    else:
        known.append("made by the agent, changed by you since")
    return f"cell {short_id(cell.id, state)} ({', '.join(known)})"


def _below(state: NotebookState, after: object, default: str) -> str:
    if after is None:
        return default
    at = _find(state, after)
    if at is None:
        return f"below cell {on_one_line(str(after))}, which is not there"
    return f"below cell {short_id(state.cells[at].id, state)}"


def _outputs_too(cell: NotebookCell) -> str:
    return ", with its outputs" if cell.outputs else ""


# Files ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileNow:
    """A file as a call of a file tool finds it.

    `path` is its real path, `name` as the project calls it; `text` None: there is none, or nobody
    can say (then `fault` says why).
    """

    path: str
    name: str
    text: str | None = None
    fault: str = ""
    always_asks: bool = False


def ask_of_file(use: ToolUse, spec: ToolSpec, now: FileNow, made: Made) -> Asked:
    """Return the question about a call of a file tool: the path, and what it changes."""
    act = Act(group_of(spec), now.path, now.path in made.files, always_asks=now.always_asks)
    name = on_one_line(now.name)
    why = ", which is asked about in every mode" if now.always_asks else ""
    fault = f" ({now.fault})" if now.fault else ""
    given = use.input
    match given:
        case {"text": str(text)} if set(given) == {"path", "text"}:
            if now.text is None:
                verb = "write over" if now.fault else "create"
                return Asked(act, f"The agent asks to {verb} {name}{why}{fault}:", text)
            title = f"The agent asks to write over {name}{why}:"
            return Asked(act, title, unified(now.text, text), "diff")
        case {"old": str(old), "new": str(new)} if set(given) == {"path", "old", "new"}:
            title = f"The agent asks to edit {name}{why}"
            if old and now.text is not None and now.text.count(old) == 1:
                changed = now.text.replace(old, new)
                return Asked(act, f"{title}:", unified(now.text, changed), "diff")
            fault = fault or " (what it wants to replace does not stand there exactly once)"
            return Asked(act, f"{title}{fault}:", unified(old, new), "diff")
    asked = ask_plainly(use, spec)
    return Asked(Act(act.verb, always_asks=act.always_asks), asked.title, asked.text, asked.info)


def given_path(use: ToolUse) -> str | None:
    """Return the path that a call names, None if it names none."""
    path: Json | object = use.input.get("path")
    return path if isinstance(path, str) else None


# Differences ------------------------------------------------------------------------------------


def unified(before: str, after: str) -> str:
    """Return the unified diff without its two head lines; linear time where texts are long.

    A newline that only one of them ends with is seen, as `diff` shows it.
    """
    old, new = _lines(before), _lines(after)
    if old == new:
        return "(no change)"
    if max(len(old), len(new)) > DIFF_LINES:
        return "\n".join(_one_hunk(old, new))
    return "\n".join([*difflib.unified_diff(old, new, lineterm="", n=CONTEXT_LINES)][2:])


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n\\ No newline at the end"]


def _one_hunk(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return one hunk from the first line that differs to the last."""
    first, most = 0, min(len(old), len(new))
    while first < most and old[first] == new[first]:
        first += 1
    last = 0
    while last < most - first and old[-1 - last] == new[-1 - last]:
        last += 1
    top, end = max(0, first - CONTEXT_LINES), min(last, CONTEXT_LINES)
    out, into = old[first : len(old) - last], new[first : len(new) - last]
    above, below = old[top:first], old[len(old) - last : len(old) - last + end]
    same = len(above) + len(below)
    head = f"@@ -{top + 1},{same + len(out)} +{top + 1},{same + len(into)} @@"
    return [
        head,
        *(f" {line}" for line in above),
        *(f"-{line}" for line in out),
        *(f"+{line}" for line in into),
        *(f" {line}" for line in below),
    ]
