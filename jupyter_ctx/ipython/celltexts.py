"""The large outputs of the cells the user ran, stored as `cell-<cell_id>-<N>`; N is that of In[N].

A text is stored when the model is first told of it, or asks for it, and stays what it was then,
whatever its cell shows later. One that is too long for memory is written to a file of the session
while it is made, redacted, and gets its name by a rename.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import StoreError
from ..tools.outputs import render_outputs
from .spool import Spool

if TYPE_CHECKING:
    from ..core.ports import Cell, SpooledText
    from ..core.redact import Redactor

LARGE_CHARS = 2_000
"""A longer text of a cell's outputs is stored: so much may be shown of one (DESIGN.md 5)."""

MOST_BYTES = 1024 * 1024 * 1024
"""A cell that prints for ever is written down so far; then only its ends are kept."""


class CellSpool(Spool):
    """A spool of what a user's cell prints: without keys, and of bounded size."""

    def __init__(
        self,
        redactor: Redactor,
        handle: int | None = None,
        path: Path | None = None,
        error: OSError | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        super().__init__(handle, path, error)
        self._redact = redactor.stream()
        self._most_bytes = most_bytes

    def write(self, text: str) -> None:
        """Add `text`, which must be valid; what may be the beginning of a key waits."""
        super().write(self._redact.feed(text))
        if self.size_bytes > self._most_bytes and self.path is not None:
            self.discard()
            reason = f"it is over {self._most_bytes:,} bytes"
            self.error = OSError(errno.EFBIG, reason)

    def look(self) -> SpooledText | None:
        """Return what the file holds by now; what waited is no key, for the cell has ended."""
        super().write(self._redact.flush())
        return super().look()

    def write_block(self, text: str) -> None:
        """Add `text` on lines of its own; what waited was no key."""
        super().write(self._redact.flush())
        super().write_block(text)
        super().write(self._redact.flush())


class Shelf(Protocol):
    """Where the session's texts lie. Saving and reading raise StoreError."""

    def save_text(self, name: str, text: str) -> str:
        """Store a text."""
        ...

    def save_spool(self, name: str, path: Path) -> str:
        """Store the text that was written to a spool, which is moved into place."""
        ...

    def has_text(self, name: str) -> bool:
        """Say whether a text of that name can be read."""
        ...

    def read_text(self, name: str) -> str:
        """Return a text."""
        ...


class CellTexts:
    """Stores the outputs of the cells that `cells` returns; any thread may ask.

    `warn` is told, once, that the store cannot be written; the texts can be read all the same.
    """

    def __init__(
        self,
        shelf: Shelf,
        cells: Callable[[], Sequence[Cell]],
        redact: Callable[[str], str],
        warn: Callable[[str], None],
    ) -> None:
        self._shelf = shelf
        self._cells = cells
        self._redact = redact
        self._warn = warn
        self._lock = threading.Lock()
        self._names: dict[tuple[str, int, int], str] = {}
        self._has_warned = False

    def keep(self, cell: Cell) -> str | None:
        """Store the text of a cell's outputs, once, and return its name.

        None: it is short, or it cannot be kept.
        """
        key = (cell.id, cell.count, cell.order)
        with self._lock:
            if key not in self._names:
                name = self._save(cell)
                if name is None:
                    return None
                self._names[key] = name
            return self._names[key]

    def keep_named(self, name: str) -> None:
        """Store the text of that name, if it is one of a cell's outputs and not stored yet."""
        if not name.startswith("cell-") or self._shelf.has_text(name):
            return
        for cell in self._cells():
            if name == f"cell-{cell.id}-{cell.count}" and not cell.is_agent:
                self.keep(cell)

    def names(self) -> Sequence[str]:
        """Return the names of what was stored in this kernel, oldest first."""
        with self._lock:
            return tuple(self._names.values())

    def _save(self, cell: Cell) -> str | None:
        text = None
        if cell.spooled is None:
            text = self._redact(render_outputs(cell.outputs, max_images=0).text)
            if len(text) <= LARGE_CHARS:
                return None
        name, is_there = self._find_name(cell, text)
        if is_there:
            return name
        try:
            if cell.spooled is None:
                self._shelf.save_text(name, text or "")
            elif os.path.lexists(cell.spooled.path):
                self._shelf.save_spool(name, Path(cell.spooled.path))
            else:
                return None  # it was spooled for another session
        except StoreError as error:
            self._tell(error)
        return name if self._shelf.has_text(name) else None

    def _find_name(self, cell: Cell, text: str | None) -> tuple[str, bool]:
        """Return a name for the text, and whether it is stored under it already.

        After a restart the same cell may run under the same N again: its text gets a further
        number, for a name never comes to mean another text.
        """
        name, n = f"cell-{cell.id}-{cell.count}", 1
        while self._shelf.has_text(name):
            moved = cell.spooled is not None and not os.path.lexists(cell.spooled.path)
            if moved or (text is not None and self._shelf.read_text(name) == text):
                return name, True
            n += 1
            name = f"cell-{cell.id}-{cell.count}-{n}"
        return name, False

    def _tell(self, error: StoreError) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(str(error))
