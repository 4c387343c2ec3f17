"""The agent's edits of cells and files: kept as entries, and put back by undo and rewind.

Rule: what stands in a place is put back only while it is what the agent left there, so nothing that
somebody else wrote is ever lost. Everything needed is in the entries and the store: an undo works
after a restart as before it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import PromptError, StoreError, ToolError, UndoError
from .blocks import Json, ToolResult, text_of, tool_results, tool_uses
from .entries import Edit, EditEntry, EditUndoneEntry, MessageEntry
from .ports import DeleteCell, EditCell, InsertCell, MoveCell, Notebook, NotebookState
from .repair import INTERRUPTED_TEXT
from .transcript import Transcript

if TYPE_CHECKING:
    from .engine import Engine

STORED_CHARS = 64 * 1024
"""A longer text of an edit goes to the store, in characters: a transcript is read whole."""

CODE_TOOLS = ("run_code", "run_cell")
"""What these did cannot be undone."""

LoadText = Callable[[str], str]
"""Returns a stored text of the session. Raises StoreError."""


@dataclass(frozen=True, slots=True)
class EditUndo:
    """An undo: edit `n`, whole, and `left`, how many others can be undone then.

    `title` says what it is, as in "the edit of `a.py`".
    """

    n: int
    edit: Edit
    left: int
    title: str


# Keeping ----------------------------------------------------------------------------------------


def record_edits(engine: Engine, turn: int, edits: Iterable[Edit]) -> None:
    """Record the edits that a tool made, each with the next number.

    Their long texts are stored beside. One that holds a key of the program is kept whole in memory
    only, since keys are never stored.
    """
    for edit in edits:
        n = max((entry.n for entry in engine.transcript.edits), default=0) + 1
        kept = replace(
            edit,
            before=_kept(engine, f"edit-{n}-before", edit.before),
            after=_kept(engine, f"edit-{n}-after", edit.after),
        )
        if any(state and state.get("is_redacted") for state in (kept.before, kept.after)):
            engine.whole_edits[n] = edit
        engine.record(EditEntry(engine.ports.clock.now(), n, turn, kept))


def _kept(engine: Engine, name: str, state: Json | None) -> Json | None:
    """Return one side of an edit as the transcript keeps it."""
    if state is None:
        return None
    clean = engine.ports.redactor.json(state)
    if clean != state:
        clean = {**clean, "is_redacted": True}
    text, outputs = clean.get("text"), clean.get("outputs")
    if isinstance(text, str) and len(text) > STORED_CHARS:
        return _stored(engine, name, clean, "text", text)
    if outputs and len(dumped := json.dumps(outputs)) > STORED_CHARS:
        return _stored(engine, name, clean, "outputs", dumped)
    return clean


def _stored(engine: Engine, name: str, state: Json, part: str, text: str) -> Json:
    try:
        engine.ports.store.save_text(name, text)
    except StoreError as error:
        engine.warn_store(error)
    return {**{key: value for key, value in state.items() if key != part}, "stored": name}


def _whole(engine: Engine, entry: EditEntry, load_text: LoadText) -> Edit:
    """Return an edit with all its texts. Raises UndoError if they are not known any more."""
    if entry.n in engine.whole_edits:
        return engine.whole_edits[entry.n]
    edit = entry.edit
    if any(state and state.get("is_redacted") for state in (edit.before, edit.after)):
        raise UndoError("Its text held a key, which is not stored, so it cannot be put back.")
    try:
        before, after = (_read(edit, state, load_text) for state in (edit.before, edit.after))
    except (StoreError, ValueError) as error:
        raise UndoError(f"Its stored text cannot be read: {error}") from error
    return replace(edit, before=before, after=after)


def _read(edit: Edit, state: Json | None, load_text: LoadText) -> Json | None:
    name = None if state is None else state.get("stored")
    if state is None or not isinstance(name, str):
        return state
    text = load_text(name)
    part, value = ("text", text) if edit.kind == "file" else ("outputs", json.loads(text))
    return {**{key: kept for key, kept in state.items() if key != "stored"}, part: value}


# Undo -------------------------------------------------------------------------------------------


def open_edits(transcript: Transcript) -> list[EditEntry]:
    """Return the edits that are not undone, the newest first."""
    undone = transcript.undone_edits
    return [entry for entry in reversed(transcript.edits) if entry.n not in undone]


def plan_undo_edit(engine: Engine, n: int | None, load_text: LoadText) -> EditUndo:
    """Return the undo of edit `n`, None: of the newest that is not undone. Changes nothing.

    Raises PromptError if there is none, UndoError if what stood there is not known any more.
    """
    transcript = engine.transcript
    left = open_edits(transcript)
    if n is None and not left:
        raise PromptError("There is no edit of the agent to undo.")
    entry = left[0] if n is None else next((one for one in left if one.n == n), None)
    if entry is None:
        is_known = any(one.n == n for one in transcript.edits)
        numbers = ", ".join(str(one.n) for one in left[:20]) or "none"
        why = f"Edit {n} is undone already" if is_known else f"There is no edit {n}"
        raise PromptError(f"{why}; those that can be undone: {numbers}.")
    title = title_of_edit(engine, entry.edit)
    try:
        edit = _whole(engine, entry, load_text)
    except UndoError as error:
        raise _refused(engine, entry, str(error)) from error
    return EditUndo(entry.n, edit, len(left) - 1, title)


async def undo_edit(engine: Engine, n: int | None, load_text: LoadText) -> EditUndo:
    """Put edit `n` back, None: the newest that is not undone, and record it.

    Raises PromptError if there is none, UndoError if what stands there is not what the agent left,
    or cannot be put back; nothing is changed then.
    """
    undo = plan_undo_edit(engine, n, load_text)
    entry = next(one for one in engine.transcript.edits if one.n == undo.n)
    try:
        await _put_back(engine, undo.edit)
    except ToolError as error:
        raise _refused(engine, entry, str(error)) from error
    engine.record(EditUndoneEntry(engine.ports.clock.now(), undo.n))
    return undo


def _refused(engine: Engine, entry: EditEntry, why: str) -> UndoError:
    """Return the error that says why, and which edit may be undone instead."""
    others = [one for one in open_edits(engine.transcript) if one.n != entry.n]
    others = [one for one in others if one.edit.target != entry.edit.target] or others
    hint = ""
    if others:
        hint = f" `/undo {others[0].n}` undoes {title_of_edit(engine, others[0].edit)}."
    title = title_of_edit(engine, entry.edit)
    return UndoError(f"Not undone: {title} (edit {entry.n}). {why}{hint}")


async def undo_since(
    engine: Engine, edits: Sequence[EditEntry], load_text: LoadText
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Put back `edits`, newest first; return the numbers of those, and of the others with a reason.

    Where one cannot be put back, neither can earlier ones of the same place; the rest goes on.
    """
    done: list[int] = []
    kept: list[tuple[int, str]] = []
    stuck: set[str] = set()
    for entry in edits:
        if entry.edit.target in stuck:
            kept.append((entry.n, "A later edit of it could not be put back."))
            continue
        try:
            await _put_back(engine, _whole(engine, entry, load_text))
        except (ToolError, UndoError) as error:
            kept.append((entry.n, str(error)))
            stuck.add(entry.edit.target)
            continue
        engine.record(EditUndoneEntry(engine.ports.clock.now(), entry.n))
        done.append(entry.n)
    return tuple(done), tuple(kept)


async def _put_back(engine: Engine, edit: Edit) -> None:
    """Make the place as it was before the edit. Raises ToolError; nothing is changed then."""
    if edit.kind == "file":
        await engine.ports.files.put(edit.target, edit.before, edit.after)
        return
    await _put_cell(engine.ports.notebook, edit)


async def _put_cell(notebook: Notebook, edit: Edit) -> None:
    before, after = edit.before, edit.after
    state = await notebook.load()
    if state.source != "front end":
        raise ToolError("No front end shows the notebook now: open it, then undo again.")
    now = next((cell for cell in state.cells if cell.id == edit.target), None)
    if before is None or after is None:
        if (now is None) == (before is None):
            return  # somebody undid it in the front end
        if before is not None:
            await notebook.apply(_insertion(edit.target, before, state))
            return
    if now is None:
        raise ToolError(f"Cell `{edit.target}` is no longer in the notebook.")
    left = _str(after, "source")
    if before is None:
        _check_source(edit.target, now.source, left)
        await notebook.apply(DeleteCell(edit.target, left))
        return
    was, above = _str(before, "source"), before.get("above")
    if was == left:
        await _move_back(notebook, state, edit, None if above is None else str(above))
    elif now.source != was:
        _check_source(edit.target, now.source, left)
        await notebook.apply(EditCell(edit.target, was, left))


async def _move_back(
    notebook: Notebook, state: NotebookState, edit: Edit, above: str | None
) -> None:
    ids = [cell.id for cell in state.cells]
    at = ids.index(edit.target)
    stands_below = ids[at - 1] if at else None
    if stands_below == above:
        return
    if stands_below != (edit.after or {}).get("above"):
        raise ToolError(f"Cell `{edit.target}` does not stand where the agent moved it any more.")
    await notebook.apply(MoveCell(edit.target, above))


def _check_source(cell_id: str, now: str, left: str) -> None:
    if now != left:
        raise ToolError(
            f"Cell `{cell_id}` is not as the agent left it any more, so it stays as it is."
        )


def _insertion(cell_id: str, before: Json, state: NotebookState) -> InsertCell:
    """Return the change that puts a deleted cell back: where it stood, else at the end."""
    above, count, kind = before.get("above"), before.get("count"), before.get("type")
    outputs, extra = before.get("outputs"), before.get("extra")
    is_there = any(cell.id == above for cell in state.cells)
    return InsertCell(
        source=_str(before, "source"),
        type=kind if kind == "markdown" or kind == "raw" else "code",
        after=str(above) if is_there else None,
        at_top=above is None,
        id=cell_id,
        outputs=tuple(outputs) if isinstance(outputs, list | tuple) else (),
        count=count if isinstance(count, int) else None,
        extra=extra if isinstance(extra, dict) else {},
    )


def _str(state: Json | None, name: str) -> str:
    return str((state or {}).get(name, ""))


# Telling ----------------------------------------------------------------------------------------


def title_of_edit(engine: Engine, edit: Edit) -> str:
    """Return what an edit is, in words: "the edit of cell `c1`", "the new file `a.py`"."""
    if edit.kind == "file":
        name = f"`{engine.ports.files.name(edit.target)}`"
        return f"the new file {name}" if edit.before is None else f"the edit of {name}"
    cell = f"cell `{edit.target}`"
    if edit.before is None:
        return f"the new {cell}"
    if edit.after is None:
        return f"the deletion of {cell}"
    is_move = edit.before.get("source") == edit.after.get("source")
    return f"the move of {cell}" if is_move else f"the edit of {cell}"


def undone_notices(engine: Engine) -> tuple[str, ...]:
    """Return what the next prompt tells of edits that the user undid since the last one in force.

    Those of turns that are no longer in the conversation are not told: the model knows of none.
    """
    transcript = engine.transcript
    numbers: list[int] = []
    for entry in reversed(transcript.entries):
        match entry:
            case EditUndoneEntry(n=n):
                numbers.append(n)
            case MessageEntry(kind="prompt", turn=turn, message=message):
                if transcript.prompts.get(turn) is message:
                    break
            case _:
                pass
    edits = {entry.n: entry for entry in transcript.edits}
    told = [edits[n] for n in reversed(numbers) if n in edits]
    return tuple(
        f"The user undid {title_of_edit(engine, entry.edit)}, which you made: it is as before."
        for entry in told
        if entry.turn in transcript.prompts
    )


def find_ran(transcript: Transcript, turns: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """Return how often code ran in these turns, by tool; calls that did not run are left out.

    What sub-agents ran counts as the tool `task`'s.
    """
    calls = {
        use.id: use.name
        for entry in transcript.entries
        if isinstance(entry, MessageEntry) and entry.turn in turns
        for use in tool_uses(entry.message)
        if use.name in CODE_TOOLS
    }
    counts = Counter(
        calls[result.tool_use_id]
        for entry in transcript.entries
        if isinstance(entry, MessageEntry) and entry.turn in turns
        for result in tool_results(entry.message)
        if result.tool_use_id in calls and _has_run(result)
    )
    counts["task"] += sum(agent.ran for agent in transcript.agents if agent.turn in turns)
    return tuple(sorted((+counts).items()))


def _has_run(result: ToolResult) -> bool:
    text = text_of(result.content)
    return not (result.is_error and text.startswith(("Denied", INTERRUPTED_TEXT)))
