"""Where no page of ours changes the notebook: the next-cell way of the front end in use.

A kernel may hand its front end one text at the end of a cell, which then stands in a new cell below
it, or on a terminal's next prompt. It cannot be seen whether that happened. Some front ends take no
such text, Colab adds it twice (its issue 5176); those get nothing but a plain answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..core.ports import Applied, CellChange, InsertCell
from ..errors import ToolError, UnreadError
from .kernel import MainCaller
from .livepage import by_hand
from .place import find_asker

NO_BRIDGE_TEXT = "Not applied: this front end does not let the kernel change the notebook."


class NextCell:
    """Hands at most one code cell to the front end for each cell that runs.

    `has_cell` says whether the turn is that of a cell: the next cell of any other turn is whichever
    the user runs, and nothing may be handed on with that.
    """

    def __init__(
        self, shell: Any, caller: MainCaller, has_cell: Callable[[], bool] = lambda: True
    ) -> None:
        self._shell = shell
        self._caller = caller
        self._has_cell = has_cell
        self._used: object = None

    async def apply(self, change: CellChange) -> Applied:
        """Hand a new code cell on and raise UnreadError; raise ToolError if it cannot be.

        Nothing is ever read back here, so nothing is ever done.
        """
        insertion = change if isinstance(change, InsertCell) and self._has_cell() else None
        if insertion is not None and await self._caller.call(lambda: self._hand(insertion)):
            raise UnreadError(f"{self._said()}\n\n{by_hand(change)}")
        raise ToolError(f"{NO_BRIDGE_TEXT}\n\n{by_hand(change)}")

    def _hand(self, change: InsertCell) -> bool:
        """Hand a cell on, on the main thread; False if it would not come where it should."""
        shell = self._shell
        client, cell_id = find_asker(shell)
        here = change.after is None or change.after in (cell_id, f"in-{shell.execution_count - 1}")
        if change.type != "code" or change.at_top or not here or "google.colab" in sys.modules:
            return False
        run = (client, cell_id, shell.execution_count)
        if run == self._used or self._is_taken():
            return False
        shell.set_next_input(change.source)
        self._used = run
        return True

    def _is_taken(self) -> bool:
        """Whether there is a text already that this one would replace."""
        if getattr(self._shell, "kernel", None) is None:
            return bool(getattr(self._shell, "rl_next_input", None))
        payloads = self._shell.payload_manager.read_payload()
        return any(payload.get("source") == "set_next_input" for payload in payloads)

    def _said(self) -> str:
        if getattr(self._shell, "kernel", None) is None:
            return (
                "Not run, and in no notebook: this is a terminal. The code is on the user's next "
                "prompt; Enter runs it."
            )
        return (
            "Not applied yet: the cell was handed to the front end, which may add it below the "
            "running cell when the turn has ended. That cannot be read back. Do not insert it "
            "again; tell the user what to do if it does not appear."
        )
