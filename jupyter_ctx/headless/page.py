"""A notebook as its headless front end holds it: told to the kernel, and changed for it.

Does what labextension/src/lab/bridge.ts does for JupyterLab, on the document of nbformat. Every
change is made whole or refused. No person works in the notebook here, so nobody is in the way; a
cell that runs, or that its own metadata locks, is not touched all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .documents import name_cell

JsonDict: TypeAlias = dict[str, Any]

OUTPUT_CHARS = 2_000_000
"""Longest outputs of one cell that are told, in characters of JSON; longer ones are left out."""

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Refused(Exception):
    """The page does not do it: `kind` is a word of ipython.frontend.RefusedError."""

    def __init__(self, kind: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details


class NotebookPage:
    """The cells of one notebook, in the form of nbformat 4.5: each with an id of its own.

    `path` is the absolute path of its file. `running` is the cell that runs, None if none does.
    """

    def __init__(self, cells: list[JsonDict], path: str) -> None:
        self.cells = cells
        self.path = path
        self.running: str | None = None
        self._made: dict[str, bool] = {}

    @property
    def made(self) -> list[JsonDict]:
        """The cells that were inserted over the link and are still there, in order."""
        return [cell for cell in self.cells if cell["id"] in self._made]

    @property
    def unrun(self) -> list[JsonDict]:
        """The code cells among them that did not run as they stand now, in order."""
        return [cell for cell in self.made if cell["cell_type"] == "code" and self._waits(cell)]

    def note_run(self, cell_id: str) -> None:
        """Note that a cell ran as it stands now."""
        if cell_id in self._made:
            self._made[cell_id] = True

    def respond(self, op: str, args: Mapping[str, Any]) -> JsonDict:
        """Do what the kernel asks; say what stands there then, or why it was not done."""
        try:
            return {"ok": True, "result": self._do(op, args)}
        except Refused as refused:
            error = {**refused.details, "kind": refused.kind, "message": str(refused)}
            return {"ok": False, "error": error}

    def _do(self, op: str, args: Mapping[str, Any]) -> JsonDict:
        match op:
            case "hello":
                return {}
            case "notebook":
                return self._tell(args.get("outputs"))
            case "insert_cell":
                return self._insert(args)
            case "edit_cell":
                return self._edit(args)
            case "delete_cell":
                return self._delete(args)
            case "move_cell":
                return self._move(args)
            case "set_outputs":
                return self._set_outputs(args)
            case _:
                raise Refused("bad", f"{op!r} is nothing that can be done here")

    # One operation each -------------------------------------------------------------------------

    def _tell(self, wanted: object) -> JsonDict:
        """Tell all cells; outputs of those named by `wanted` only, True: of all."""
        ids = set(wanted) if isinstance(wanted, list) else set()
        cells = [self._state(cell, wanted is True or cell["id"] in ids) for cell in self.cells]
        return {"path": self.path, "can_edit": True, "active": self.running, "cells": cells}

    def _insert(self, args: Mapping[str, Any]) -> JsonDict:
        kind, source = args.get("type"), lines_of(_text(args, "source"))
        if kind not in ("code", "markdown", "raw"):
            raise Refused("bad", "the type is code, markdown or raw")
        after = _text_or_none(args, "after")
        end = 0 if args.get("at_top") is True else len(self.cells)
        at = end if after is None else self._find(after) + 1
        outputs = args.get("outputs")
        outputs = outputs if isinstance(outputs, list) else []
        extra = args.get("extra")
        cell_id = self._free_id(_text_or_none(args, "id"), source)
        cell = build_cell(cell_id, kind, source, extra if isinstance(extra, Mapping) else {})
        if kind == "code":
            cell["outputs"] = read_outputs(outputs)
            cell["execution_count"] = _count(args.get("count"))
        self.cells.insert(at, cell)
        self._made[cell_id] = bool(outputs)
        return self._standing(at, None, None)

    def _edit(self, args: Mapping[str, Any]) -> JsonDict:
        at = self._take(args, "editable")
        cell = self.cells[at]
        before = self._state(cell, False)
        self._must_stand(cell, args)
        source = lines_of(_text(args, "source"))
        if source != cell["source"] and cell["id"] in self._made:
            self._made[cell["id"]] = False
        cell["source"] = source
        return self._standing(at, before, self._above(at))

    def _delete(self, args: Mapping[str, Any]) -> JsonDict:
        at = self._take(args, "deletable")
        cell = self.cells[at]
        self._must_stand(cell, args)
        before, above = self._state(cell, True), self._above(at)
        del self.cells[at]
        self._made.pop(cell["id"], None)
        places = {"above": above, "below": self._id_at(at), "above_before": above}
        return {"cell": before, "index": at, "before": before, **places}

    def _move(self, args: Mapping[str, Any]) -> JsonDict:
        at = self._take(args, "editable")
        cell, above = self.cells[at], self._above(at)
        before = self._state(cell, False)
        after = _text_or_none(args, "after")
        if after == cell["id"]:
            raise Refused("bad", "a cell cannot stand below itself")
        anchor = None if after is None else self.cells[self._find(after)]
        del self.cells[at]
        at = 0 if anchor is None else self._find(anchor["id"]) + 1
        self.cells.insert(at, cell)
        return self._standing(at, before, above)

    def _set_outputs(self, args: Mapping[str, Any]) -> JsonDict:
        at = self._take(args, None)
        cell, outputs = self.cells[at], args.get("outputs")
        if cell["cell_type"] != "code" or not isinstance(outputs, list):
            raise Refused("bad", "only a code cell has outputs")
        before = self._state(cell, False)
        cell["outputs"] = read_outputs(outputs)
        cell["execution_count"] = _count(args.get("count"))
        self.note_run(cell["id"])
        return self._standing(at, before, self._above(at))

    # What stands there --------------------------------------------------------------------------

    def _state(self, cell: JsonDict, with_outputs: bool) -> JsonDict:
        """Return a cell as it is told; `outputs` None: not asked for, or too long."""
        outputs = cell.get("outputs", [])
        chars = len(json.dumps(outputs, ensure_ascii=False)) if outputs else 0
        return {
            "id": cell["id"],
            "type": cell["cell_type"],
            "source": cell["source"],
            "execution_count": cell.get("execution_count"),
            "failed": any(output["output_type"] == "error" for output in outputs),
            "busy": cell["id"] == self.running,
            "outputs": outputs if with_outputs and chars <= OUTPUT_CHARS else None,
            "output_chars": chars,
            "extra": {key: cell[key] for key in ("metadata", "attachments") if key in cell},
        }

    def _standing(self, at: int, before: JsonDict | None, above_before: str | None) -> JsonDict:
        return {
            "cell": self._state(self.cells[at], False),
            "index": at,
            "above": self._above(at),
            "below": self._id_at(at + 1),
            "before": before,
            "above_before": above_before,
        }

    def _above(self, at: int) -> str | None:
        return self._id_at(at - 1) if at else None

    def _id_at(self, at: int) -> str | None:
        return str(self.cells[at]["id"]) if at < len(self.cells) else None

    def _find(self, cell_id: str) -> int:
        for at, cell in enumerate(self.cells):
            if cell["id"] == cell_id:
                return at
        raise Refused("no_cell", f"there is no cell {cell_id}", id=cell_id)

    def _waits(self, cell: JsonDict) -> bool:
        return not self._made[cell["id"]] and bool(cell["source"].strip())

    def _free_id(self, wanted: str | None, source: str) -> str:
        used = {cell["id"] for cell in self.cells}
        if wanted is not None and _CELL_ID.fullmatch(wanted) and wanted not in used:
            return wanted
        return name_cell(source, used)

    # What is respected --------------------------------------------------------------------------

    def _take(self, args: Mapping[str, Any], permission: str | None) -> int:
        """Return the place of the cell that `args` name, if it may be changed."""
        at = self._find(_text(args, "cell_id"))
        cell = self.cells[at]
        if cell["id"] == self.running:
            raise Refused("busy", "the cell runs, or waits to run")
        if permission is not None and cell["metadata"].get(permission) is False:
            raise Refused("locked", f"the cell is marked as not {permission}")
        return at

    def _must_stand(self, cell: JsonDict, args: Mapping[str, Any]) -> None:
        source = cell["source"]
        if lines_of(source) != lines_of(_text(args, "expected")):
            raise Refused("stale", "the source is another one now", source=source)


def build_cell(cell_id: str, kind: str, source: str, extra: Mapping[str, Any]) -> JsonDict:
    """Return a cell of nbformat 4.5; of `extra` its metadata and attachments are taken."""
    metadata, attachments = extra.get("metadata"), extra.get("attachments")
    known = dict(metadata) if isinstance(metadata, Mapping) else {}
    known.pop("trusted", None)  # no file says that of itself
    cell: JsonDict = {"id": cell_id, "cell_type": kind, "metadata": known, "source": source}
    if kind == "code":
        return {**cell, "execution_count": None, "outputs": []}
    if isinstance(attachments, Mapping) and attachments:
        cell["attachments"] = dict(attachments)
    return cell


def read_outputs(outputs: Sequence[object]) -> list[JsonDict]:
    """Return outputs that a file may hold; a line takes the place of one that is not valid."""
    return [read_output(output) for output in outputs]


def read_output(output: object) -> JsonDict:
    """Return one output that a file may hold, else a line that says so."""
    import nbformat

    if isinstance(output, Mapping):
        made: JsonDict = nbformat.from_dict(dict(output))
        try:
            nbformat.validate(made, ref="output", version=4)
        except nbformat.ValidationError:
            pass
        else:
            return made
    text = "[an output that no notebook can hold was left out]\n"
    left: JsonDict = nbformat.v4.new_output("stream", name="stderr", text=text)
    return left


def lines_of(source: str) -> str:
    """Return a source as an editor holds it: one kind of line end."""
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str):
        raise Refused("bad", f"{name} is no text")
    return value


def _text_or_none(args: Mapping[str, Any], name: str) -> str | None:
    return None if args.get(name) is None else _text(args, name)


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
