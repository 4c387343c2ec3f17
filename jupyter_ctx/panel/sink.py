"""What running code shows in the panel: the end of what it printed, replaced as it grows."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ..core.blocks import Json
from ..ipython.outputlog import StreamName
from .wire import TAIL_CHARS, tool_output

EVERY_S = 0.1
"""The end is shown again at most so often, and once more at the run's end."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class PanelSink:
    """The sink of one run of `tool_use_id`. Implements `ipython.live.Sink`.

    `later` has a function called in some seconds, so that what is printed before a long silence is
    shown in it; it returns False where nothing can.
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, object]], None],
        turn: int,
        tool_use_id: str,
        later: Callable[[Callable[[], None], float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._turn = turn
        self._id = tool_use_id
        self._later = later
        self._lock = threading.Lock()
        self._is_due = False
        self._clock = clock
        self._text = self._shown = ""
        self._due = 0.0
        self._clears_next = False

    def stream(self, name: StreamName, text: str) -> None:
        """Show text of stdout or stderr."""
        with self._lock:
            if self._clears_next:
                self._text, self._clears_next = "", False
            self._text = f"{self._text}{text}"[-2 * TAIL_CHARS :]
            left = self._due - self._clock()
            if left <= 0:
                self._show()
            elif not self._is_due:
                self._is_due = self._later(self._come_due, left)

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        """Show the plain form of a bundle; an update of one only when the run is over."""
        if not update:
            text = data.get("text/plain")
            shown = "".join(map(str, text)) if isinstance(text, list) else text
            self.stream("stdout", f"{shown or '[' + ', '.join(data) + ']'}\n")

    def clear(self, wait: bool) -> None:
        """Take away what is shown, now or when more comes."""
        self._clears_next = True
        if not wait:
            self.stream("stdout", "")

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Show an error."""
        self.stream("stderr", "\n".join(list(traceback) or [f"{ename}: {evalue}"]) + "\n")

    def close(self) -> None:
        """Show what has waited."""
        with self._lock:
            self._show()

    def _come_due(self) -> None:
        with self._lock:
            self._is_due = False
            self._show()

    def _show(self) -> None:
        if self._text != self._shown:
            self._shown = self._text
            self._due = self._clock() + EVERY_S
            self._tell(tool_output(self._turn, self._id, _ANSI.sub("", self._text)))
