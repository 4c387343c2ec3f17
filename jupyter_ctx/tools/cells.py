"""`insert_cell`, `edit_cell`, `delete_cell`, `move_cell`, `run_cell`: the agent's hands on cells.

Every change is read back before it is told, and told with its place and neighbours. A cell whose
present source the model has not seen is not changed: the answer is that source. A cell runs in the
kernel at once, as `run_code` does; its outputs are put into it when the turn has ended.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..core.agentcell import is_agent_source
from ..core.blocks import Json
from ..core.entries import Edit
from ..core.ports import (
    Applied,
    CellChange,
    DeleteCell,
    EditCell,
    InsertCell,
    Kernel,
    MoveCell,
    Notebook,
    NotebookCell,
    NotebookState,
    SetOutputs,
    ToolOutput,
    ToolSpec,
)
from ..errors import ToolError, UnreadError
from .base import Handler, Tool, find_near, load_description, make_schema, quote_names
from .python import run_source
from .seen import Seen, digest_of

MOST_ORDERS = 50
"""So many orders of the notebook's cells are remembered, to say where a cell that is gone stood."""

PRESENT_CHARS = 12_000
"""So much is shown of a cell that was not as expected, in characters."""

_ID: Mapping[str, object] = {"type": "string", "description": "Its id."}
_SOURCE: Mapping[str, object] = {"type": "string", "description": "The whole source."}


@dataclass(slots=True)
class CellTools:
    """The tools over one notebook; `tools` are those of the registry.

    `finish` is to be called when a turn has ended.
    """

    kernel: Kernel
    notebook: Notebook
    seen: Seen
    _orders: list[list[str]] = field(default_factory=list)
    _ran: dict[str, tuple[str, SetOutputs]] = field(default_factory=dict)

    @property
    def tools(self) -> list[Tool]:
        """The five tools."""
        kind: Mapping[str, object] = {
            "type": "string",
            "enum": ["code", "markdown", "raw"],
            "description": "Default: code.",
        }
        below: Mapping[str, object] = {
            "type": "string",
            "description": "A cell's id. Default: at the end.",
        }
        move: Mapping[str, object] = {
            "type": "string",
            "description": "A cell's id. Default: to the top.",
        }
        new = {"source": _SOURCE, "cell_type": kind, "after": below}
        return [
            _tool("insert_cell", new, ["source"], self._insert),
            _tool("edit_cell", {"cell_id": _ID, "source": _SOURCE}, None, self._edit),
            _tool("delete_cell", {"cell_id": _ID}, None, self._delete),
            _tool("move_cell", {"cell_id": _ID, "after": move}, ["cell_id"], self._move),
            _tool("run_cell", {"cell_id": _ID}, None, self._run),
        ]

    async def finish(self) -> list[str]:
        """Put the outputs of the cells that ran into them; return what could not be, in words."""
        ran, self._ran = self._ran, {}
        if not ran:
            return []
        state = await self.notebook.load()
        sources = {cell.id: cell.source for cell in state.cells}
        notes = []
        for cell_id, (source, change) in ran.items():
            try:
                if sources.get(cell_id) != source:
                    raise ToolError("its source changed since, or it is gone")
                await self.notebook.apply(change)
            except ToolError as error:
                why = str(error).split("\n", 1)[0].rstrip(".")
                notes.append(f"The outputs of cell {cell_id} were not put into it: {why}.")
        return notes

    # The tools ------------------------------------------------------------------------------------

    async def _insert(self, arguments: Json, cap_chars: int) -> ToolOutput:
        state = await self._load()
        after = arguments.get("after")
        below = None if after is None else self._find(state, str(after)).id
        kind = arguments.get("cell_type", "code")
        change = InsertCell(_lines(arguments["source"]), kind, below)  # type: ignore[arg-type]  # the schema has these only
        return await self._apply(change, "Inserted", len(state.cells) + 1)

    async def _edit(self, arguments: Json, cap_chars: int) -> ToolOutput:
        state = await self._load()
        cell = self._find(state, str(arguments["cell_id"]))
        source = _lines(arguments["source"])
        self._refuse_unseen(cell, cap_chars)
        if source == cell.source:
            return ToolOutput(f"Cell `{cell.id}` has this source already; nothing was changed.")
        change = EditCell(cell.id, source, cell.source)
        return await self._apply(change, "Edited", len(state.cells))

    async def _delete(self, arguments: Json, cap_chars: int) -> ToolOutput:
        state = await self._load()
        cell = self._find(state, str(arguments["cell_id"]))
        self._refuse_unseen(cell, cap_chars)
        change = DeleteCell(cell.id, cell.source)
        return await self._apply(change, "Deleted", len(state.cells) - 1, state)

    async def _move(self, arguments: Json, cap_chars: int) -> ToolOutput:
        state = await self._load()
        cell = self._find(state, str(arguments["cell_id"]))
        after = arguments.get("after")
        below = None if after is None else self._find(state, str(after)).id
        if below == cell.id:
            raise ToolError(f"Cell `{cell.id}` cannot stand below itself.")
        return await self._apply(MoveCell(cell.id, below), "Moved", len(state.cells))

    async def _run(self, arguments: Json, cap_chars: int) -> ToolOutput:
        state = await self._load()
        cell = self._find(state, str(arguments["cell_id"]))
        if cell.type != "code":
            raise ToolError(f"Cell `{cell.id}` is {cell.type}: there is nothing to run.")
        if is_agent_source(cell.source):
            raise ToolError(f"Cell `{cell.id}` asks the agent: it cannot run within a turn.")
        self._refuse_unasked(cell, cap_chars)
        execution, output = await run_source(self.kernel, cell.source)
        is_live = state.source == "front end"
        if is_live:
            change = SetOutputs(cell.id, tuple(execution.outputs))
            self._ran[cell.id] = (cell.source, change)
        if not isinstance(output.text, str):
            return output
        where = "they go into the cell when the turn has ended" if is_live else "shown here only"
        said = output.text or "(no output)"
        return replace(output, text=f"[cell {cell.id} ran; its outputs, {where}]\n{said}")

    # Behind them ----------------------------------------------------------------------------------

    async def _load(self) -> NotebookState:
        state = await self.notebook.load()
        order = [cell.id for cell in state.cells]
        if order not in self._orders[-1:]:
            self._orders = [*self._orders, order][-MOST_ORDERS:]
        return state

    def _find(self, state: NotebookState, cell_id: str) -> NotebookCell:
        """Return the cell of that id. Raises ToolError that names near ones."""
        for cell in state.cells:
            if cell.id == cell_id:
                return cell
        if not state.cells:
            raise ToolError(f"There is no cell `{cell_id[:80]}`: no cell of the notebook is known.")
        present = [cell.id for cell in state.cells]
        neighbours = self._neighbours(cell_id, present)
        if neighbours:
            raise ToolError(
                f"Cell `{cell_id[:80]}` is no longer in the notebook. It stood {neighbours}."
            )
        near = quote_names(find_near(cell_id, present))
        raise ToolError(f"There is no cell `{cell_id[:80]}`. Nearest: {near}.")

    def _neighbours(self, cell_id: str, present: Sequence[str]) -> str:
        """Say between which cells that are still there a gone one stood last; "" if unknown."""
        order = next((order for order in reversed(self._orders) if cell_id in order), None)
        if order is None:
            return ""
        at, left = order.index(cell_id), set(present)
        above = next((one for one in reversed(order[:at]) if one in left), None)
        below = next((one for one in order[at + 1 :] if one in left), None)
        return _between(above, below)

    def _refuse_unseen(self, cell: NotebookCell, cap_chars: int) -> None:
        """Raise ToolError with the present source if the model does not know it; then it does."""
        if self.seen.is_present("cell", cell.id, cell.source):
            return
        was_seen = self.seen.has("cell", cell.id)
        why = "was changed since you saw it" if was_seen else "was not read yet in its present form"
        head = f"Not applied: cell `{cell.id}` {why}."
        raise ToolError(self._with_source(head, "the change still fits, make it", cell, cap_chars))

    def _with_source(self, head: str, wish: str, cell: NotebookCell, cap_chars: int) -> str:
        """Return a refusal with the present source, which is then seen; of a long one the head.

        `wish` says what may be done again then, or once the whole of it was read.
        """
        room = min(cap_chars, PRESENT_CHARS) - len(head) - 250
        if len(cell.source) <= room:
            self.seen.mark("cell", cell.id, cell.source)
            return f"{head} Its source now is below; if {wish} again.\n\n{cell.source}"
        shown = cell.source[: max(0, room)]
        return (
            f"{head} It is long: {len(cell.source):,} characters. Read the whole of it by "
            f"read_cell; if {wish} again. The first {len(shown):,} are:\n\n{shown}"
        )

    def _refuse_unasked(self, cell: NotebookCell, cap_chars: int) -> None:
        """Raise ToolError if the user was asked about another source than would run now."""
        asked = self.seen.take_asked(cell.id)
        if asked is None or asked == digest_of(cell.source):
            return
        head = f"Not run: cell `{cell.id}` was changed after the user was asked about it."
        wish = "it is still what should run, run it"
        raise ToolError(self._with_source(head, wish, cell, cap_chars))

    async def _apply(
        self, change: CellChange, done: str, count: int, state: NotebookState | None = None
    ) -> ToolOutput:
        try:
            applied = await self.notebook.apply(change)
        except UnreadError as error:
            return ToolOutput(str(error))
        if state is not None and applied.before is None:
            applied = _as_it_stood(applied, state)
        cell = applied.cell
        if isinstance(change, DeleteCell):
            self.seen.forget("cell", cell.id)
        elif not isinstance(change, MoveCell):
            self.seen.mark("cell", cell.id, cell.source)
        self._orders.append(self._order_after(applied, change))
        edit = Edit("cell", cell.id, _before(applied, change), _after(applied, change))
        return ToolOutput(_say(applied, change, done, count), edits=(edit,))

    def _order_after(self, applied: Applied, change: CellChange) -> list[str]:
        """Return the notebook's order as it is known to be after a change."""
        order = [one for one in self._orders[-1] if one != applied.cell.id]
        if not isinstance(change, DeleteCell):
            order.insert(applied.index, applied.cell.id)
        return order


def _tool(
    name: str,
    fields: Mapping[str, Mapping[str, object]],
    required: Sequence[str] | None,
    run: Handler,
) -> Tool:
    """Return one tool; `required` None: every field."""
    schema = make_schema(fields, list(fields) if required is None else required)
    group = name.replace("_", " ") + "s"
    spec = ToolSpec(name, load_description(name), schema, reads_only=False, permission=group)
    return Tool(spec, run)


def _lines(source: object) -> str:
    """Return a source as an editor holds it: one kind of line end, no halves of characters."""
    text = str(source).replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode("utf-8")


def _as_it_stood(applied: Applied, state: NotebookState) -> Applied:
    """Return a deletion whose answer was lost, with the cell as it was seen right before it."""
    ids = [cell.id for cell in state.cells]
    at = ids.index(applied.cell.id)
    above, below = ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None
    return Applied(state.cells[at], at, above, below, state.cells[at], above)


def _before(applied: Applied, change: CellChange) -> Json | None:
    if applied.before is None:
        return None
    return _as_json(applied.before, applied.above_before, isinstance(change, DeleteCell))


def _after(applied: Applied, change: CellChange) -> Json | None:
    if isinstance(change, DeleteCell):
        return None
    return _as_json(applied.cell, applied.above, with_outputs=False)


def _as_json(cell: NotebookCell, above: str | None, with_outputs: bool) -> Json:
    """Return all that is needed to put a cell back; outputs only where they would be lost."""
    return {
        "type": cell.type,
        "source": cell.source,
        "above": above,
        "outputs": [dict(one) for one in cell.outputs] if with_outputs else [],
        "count": cell.count,
        "extra": dict(cell.extra) if with_outputs else {},
    }


def _say(applied: Applied, change: CellChange, done: str, count: int) -> str:
    """Return what was done, where it stands, and what was read back."""
    cell, place = applied.cell, _between(applied.above, applied.below)
    if isinstance(change, DeleteCell):
        return f"Deleted cell `{cell.id}`, which stood {place}; {count} left."
    where = f"{done} {cell.type} cell `{cell.id}`: {applied.index + 1} of {count}, {place}."
    if isinstance(change, MoveCell):
        return where
    written = change.source if isinstance(change, InsertCell | EditCell) else cell.source
    if cell.source == written:
        lines = written.count("\n") + 1
        said = f"Read back as written ({lines} line{'s' if lines > 1 else ''})"
        return f"{where} {said}; not run." if cell.type == "code" else f"{where} {said}."
    diff = "\n".join(
        difflib.unified_diff(written.split("\n"), cell.source.split("\n"), "written", "now", "", "")
    )
    return f"{where} It does not read back as written:\n\n{diff}"


def _between(above: str | None, below: str | None) -> str:
    """Say where a cell stands, by its neighbours."""
    if above is None and below is None:
        return "alone"
    if above is None:
        return f"at the top, above `{below}`"
    if below is None:
        return f"at the end, below `{above}`"
    return f"between `{above}` and `{below}`"
