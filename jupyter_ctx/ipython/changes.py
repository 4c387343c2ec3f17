"""How the notebook is changed: by the page that shows it, else by the next-cell way."""

from __future__ import annotations

from ..core.ports import Applied, CellChange
from .livepage import LivePage
from .nextcell import NextCell


class Changes:
    """Makes changes, one at a time, by whichever way there is. `page` None: there is no link."""

    def __init__(self, page: LivePage | None, next_cell: NextCell) -> None:
        self._page = page
        self._next_cell = next_cell

    async def __call__(self, change: CellChange) -> Applied:
        """Make one change and read it back. Raises ToolError, and UnreadError of what was not."""
        if self._page is not None and self._page.is_there:
            return await self._page.apply(change)
        return await self._next_cell.apply(change)
