"""What a person at the terminal is told while a cell of the agent runs.

The answer goes to stdout, block by block as each is whole; everything else to stderr.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from ..ipython.plaintext import plain

KIND = "jupyter_ctx"
"""In a display's metadata: what it is (ipython/render.py)."""
ANSWER = "answer"
LINE = "line"
DENIED = "no one can be asked here"
WAY = "set JUPYTER_CTX_PERMISSIONS=auto"
"""How a denial ends that the kernel says (ipython/permissions.py) …"""
FLAG = "--permissions auto lets the agent act"
"""… and how it ends at this command, which has a flag for it."""
HINT = f"Nobody can be asked here: {FLAG}, edits lets it edit."


class Told:
    """Hears the displays of one cell. `everything`: all of them are the answer, as of a command."""

    def __init__(self, out: TextIO, err: TextIO, *, everything: bool = False) -> None:
        self._out = out
        self._err = err
        self._everything = everything
        self._open: tuple[str | None, str] | None = None
        self._lines: dict[str | None, str] = {}
        self._is_first = True
        self.was_denied = False

    def __call__(self, display_id: str | None, content: Mapping[str, Any]) -> None:
        """Hear of a display, new or in the place of what it showed before."""
        data, metadata = content.get("data", {}), content.get("metadata", {})
        kind = metadata.get(KIND) if isinstance(metadata, Mapping) else None
        text = data.get("text/plain", "")
        text = text if isinstance(text, str) else ""
        if self._open is not None and display_id != self._open[0]:
            self.end()
        if kind == ANSWER or self._everything:
            self._open = display_id, text
        elif self._open is not None and display_id == self._open[0]:
            self._open = None  # its stream broke: it comes again
        if kind == LINE:
            self._line(display_id, text)

    def end(self) -> None:
        """Print the text that is still open."""
        if self._open is not None and (text := plain(self._open[1]).strip()):
            space = "" if self._is_first else "\n"
            print(f"{space}{text}", file=self._out, flush=True)
            self._is_first = False
        self._open = None

    def _line(self, display_id: str | None, text: str) -> None:
        """Print a line once it tells how something ended."""
        text = " ".join(plain(text).split())
        if not text or text.endswith("…") or self._lines.get(display_id) == text:
            return
        self._lines[display_id] = text
        self.was_denied = self.was_denied or DENIED in text
        print(text.replace(WAY, FLAG), file=self._err, flush=True)
