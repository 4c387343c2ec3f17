"""The notebook document behind whatever front end there is. Implements core.ports.Notebook."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ..core.ports import Applied, Cell, CellChange, NotebookCell, NotebookState
from .frontend import NoFrontendError
from .livepage import LivePage
from .nextcell import NextCell


class Document:
    """The notebook of one kernel: as its page shows it, else as far as the kernel ran it."""

    def __init__(
        self,
        page: LivePage | None,
        next_cell: NextCell,
        load_cells: Callable[[], Awaitable[Sequence[Cell]]],
    ) -> None:
        self._page = page
        self._next_cell = next_cell
        self._load_cells = load_cells

    async def load(self) -> NotebookState:
        """Return it as it stands now; never fails: what cannot be seen is not in it."""
        if self._page is not None:
            try:
                return await self._page.load()
            except NoFrontendError:
                pass  # what the kernel ran is known all the same
        cells = [
            NotebookCell(cell.id, "code", cell.source, cell.count, cell.outputs, cell.failed)
            for cell in await self._load_cells()
        ]
        return NotebookState(tuple(cells), "kernel")

    async def apply(self, change: CellChange) -> Applied:
        """Make one change and read it back. Raises ToolError, and UnreadError of what was not."""
        if self._page is not None and self._page.is_there:
            return await self._page.apply(change)
        return await self._next_cell.apply(change)
