"""Where the live output of the agent's code goes: the cell that asked, or the terminal.

A run may clear only what it has shown itself, never what stood in the cell before it. Outputs of a
cell cannot be taken away one by one; so a run that clears shows what follows in the places of what
it showed, which is what a loop with `clear_output` wants to see.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from ..core.blocks import Json
from .live import Sink
from .outputlog import StreamName

REDRAW_EVERY_S = 0.1
"""Text that is printed after a clear is shown again at most so often."""


class CellSink:
    """Shows outputs through the publisher and the streams in place when it was made."""

    def __init__(
        self, shell: InteractiveShell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._publisher: Any = shell.display_pub
        self._streams: dict[str, Any] = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._clock = clock
        self._places: list[str] = []  # display ids, in order
        self._next = 0
        self._has_cleared = False
        self._clears_next = False
        self._text: _PlacedText | None = None

    def stream(self, name: StreamName, text: str) -> None:
        """Show text of stdout or stderr; after a clear, in a display that can be replaced."""
        self._begin()
        if not self._has_cleared:
            self._streams[name].write(text)
            return
        if self._text is None:
            self._text = _PlacedText(*self._take_place())
        self._text.text += text
        if self._clock() >= self._text.due:
            self._flush()

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        """Show a MIME bundle, or put it in the place of its `transient["display_id"]`."""
        own = transient.get("display_id")
        if update:
            self._publish(data, metadata, str(own), update=True)
            return
        self._begin()
        self._end_text()
        place, is_new = self._take_place(None if own is None else str(own))
        self._publish(data, metadata, place, update=not is_new)

    def clear(self, wait: bool) -> None:
        """Let what follows take the places of what was shown; what is left over goes blank."""
        self._clears_next = True
        if not wait:
            self._begin()
            self._blank_rest()

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Show an error as text: an `error` output would fail the cell, which goes on."""
        lines = list(traceback) or [f"{ename}: {evalue}"]
        self.stream("stderr", "\n".join(lines) + "\n")

    def close(self) -> None:
        """Show everything; blank the places that nothing took."""
        self._flush()
        if self._has_cleared:
            self._blank_rest()
        for stream in self._streams.values():
            stream.flush()

    def _flush(self) -> None:
        """Show printed text that has waited."""
        text = self._text
        if text is not None and text.text != text.shown:
            text.shown = text.text
            self._publish({"text/plain": text.text}, {}, text.place, update=not text.is_new)
            text.is_new = False
            text.due = self._clock() + REDRAW_EVERY_S

    def _begin(self) -> None:
        """Carry out a clear that has waited for the next output."""
        if self._clears_next:
            self._clears_next, self._has_cleared = False, True
            self._end_text()
            self._next = 0

    def _end_text(self) -> None:
        self._flush()
        self._text = None

    def _take_place(self, own: str | None = None) -> tuple[str, bool]:
        """Return the display id of the next place, and whether nothing was shown there yet."""
        at, self._next = self._next, self._next + 1
        if own is None and at < len(self._places):
            return self._places[at], False
        self._places.insert(at, own or uuid.uuid4().hex)
        return self._places[at], True

    def _blank_rest(self) -> None:
        for place in self._places[self._next :]:
            self._publish({"text/plain": ""}, {}, place, update=True)

    def _publish(self, data: Json, metadata: Json, place: str, *, update: bool) -> None:
        for stream in self._streams.values():
            stream.flush()  # the publisher flushes those in place now, which are the capture's
        transient = {"display_id": place}
        self._publisher.publish(dict(data), dict(metadata), transient=transient, update=update)


@dataclass(slots=True)
class _PlacedText:
    """Printed text that stands in a display; `due` is when it may be shown again."""

    place: str
    is_new: bool
    text: str = ""
    shown: str = ""
    due: float = 0.0


class TeeSink:
    """Shows output in two places, in the cell first."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def stream(self, name: StreamName, text: str) -> None:
        """Show text of stdout or stderr."""
        for sink in self._sinks:
            sink.stream(name, text)

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        """Show a MIME bundle, or put it in the place of an earlier one."""
        for sink in self._sinks:
            sink.display(data, metadata, transient, update)

    def clear(self, wait: bool) -> None:
        """Take away what is shown, now or when more comes."""
        for sink in self._sinks:
            sink.clear(wait)

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Show an error."""
        for sink in self._sinks:
            sink.error(ename, evalue, traceback)

    def close(self) -> None:
        """Show what has waited."""
        for sink in self._sinks:
            sink.close()


class TerminalSink:
    """Prints outputs on the streams in place when it was made; of a display, its plain form."""

    def __init__(self) -> None:
        self._streams: dict[str, Any] = {"stdout": sys.stdout, "stderr": sys.stderr}

    def stream(self, name: StreamName, text: str) -> None:
        """Print text of stdout or stderr."""
        stream = self._streams[name]
        stream.write(text)
        stream.flush()

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        """Print the plain form of a bundle, or name its types."""
        text = data.get("text/plain")
        shown = "".join(map(str, text)) if isinstance(text, list) else text
        self.stream("stdout", f"{shown or '[' + ', '.join(data) + ']'}\n")

    def clear(self, wait: bool) -> None:
        """Take nothing back: what is printed stays."""

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Print an error."""
        self.stream("stderr", "\n".join(list(traceback) or [f"{ename}: {evalue}"]) + "\n")

    def close(self) -> None:
        """Nothing is left over."""
