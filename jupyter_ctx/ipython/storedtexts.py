"""The stored texts of a session, as the tool `read_result` finds them by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import StoreError

if TYPE_CHECKING:
    from ..store.sessions import AnySession
    from .celltexts import CellTexts


class StoredTexts:
    """The stored texts of a session, as `read_result` reads them; `cells` stores more."""

    def __init__(self, stored: AnySession, cells: CellTexts | None = None) -> None:
        self._stored = stored
        self._cells = cells

    def read_text(self, name: str) -> Any:
        """Return a text, a long one as the path of its file; None if there is none of that name."""
        if self._cells is not None:
            self._cells.keep_named(name)
        path = self._stored.find_path(name)
        if path is not None:
            return path
        try:
            return self._stored.read_text(name)
        except StoreError:
            if name in self.names():
                raise
            return None

    def names(self) -> Sequence[str]:
        """Return the names of all results, prompts, turns and cells' outputs, oldest first."""
        from ..core.entries import FateEntry, MessageEntry

        names: list[str] = []
        for entry in self._stored.entries:
            match entry:
                case FateEntry(tool_use_id=tool_use_id):
                    names.append(tool_use_id)
                case MessageEntry(kind="prompt", turn=turn):
                    names += [f"prompt-{turn}", f"turn-{turn}"]
                case _:
                    pass
        names += () if self._cells is None else self._cells.names()
        return list(dict.fromkeys(names))
