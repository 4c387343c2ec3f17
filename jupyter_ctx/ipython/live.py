"""What a person sees of running code: the first part as it comes, then a count, then the end."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ..config import Settings
from ..core.blocks import Json
from .outputlog import StreamName
from .spool import utf8_bytes

NOTE_EVERY_S = 1.0
"""The count of what is not shown is renewed at most so often (DESIGN.md section 6)."""

LIVE_DISPLAYS = 1_000
"""Displays, updates and clears shown as they come; what follows is counted, and the last state of
each updated display is shown at the end."""

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


class Sink(Protocol):
    """Shows output in the cell that owns the run. Called on any thread, one call at a time.

    It is given redacted, valid text, and publishes past the capture: through the publisher and the
    streams that were in place before the run. What it raises is logged, and it is not asked again.
    """

    def stream(self, name: StreamName, text: str) -> None:
        """Show text of stdout or stderr."""
        ...

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        """Show a MIME bundle, or put it in the place of its `transient["display_id"]`."""
        ...

    def clear(self, wait: bool) -> None:
        """Take away what this run has shown, now or when more comes."""
        ...

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Show an error."""
        ...

    def close(self) -> None:
        """Show what has waited: the run is over."""
        ...


class Live:
    """Passes output on to a sink within bounds: `live_output_head` and `live_output_tail` bytes."""

    def __init__(
        self, sink: Sink, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sink: Sink | None = sink
        self._given = sink
        self._settings = settings
        self._clock = clock
        self._displays = 0
        self._dropped = 0
        self._late: dict[str, tuple[Json, Json, Json]] = {}
        self._restart()

    def _restart(self) -> None:
        self._room = self._settings.live_output_head
        self._hidden_chars = 0
        self._tail: deque[tuple[StreamName, str]] = deque()
        self._tail_bytes = 0
        self._line_open = False
        self.next_at = 0.0 if self._room else self._clock() + NOTE_EVERY_S
        """When text should be passed on again, by the clock: at once while it is still shown."""

    def stream(self, name: StreamName, text: str) -> None:
        """Show text while there is room, else count it and keep the end."""
        shown, rest = _split(text, self._room)
        if shown:
            self._room -= utf8_bytes(shown)
            self._line_open = not shown.endswith("\n")
            self._show_stream(name, shown)
        if not rest:
            return
        self._room = 0
        self._hidden_chars += len(rest)
        self._keep_end(name, rest)
        if (now := self._clock()) >= self.next_at:
            self.next_at = now + NOTE_EVERY_S
            self._show_note(f"[… {self._hidden_chars:,} characters more so far]")

    def display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        """Show a bundle; after `LIVE_DISPLAYS` of them only the last updates, at the end."""
        self._displays += 1
        display_id = str(transient.get("display_id", ""))
        if self._displays <= LIVE_DISPLAYS:
            self._show_display(data, metadata, transient, update)
        elif update:
            self._late[display_id] = (data, metadata, transient)
        else:
            self._dropped += 1

    def clear(self, wait: bool) -> None:
        """Clear what is shown; the text that follows has its full room again."""
        self._displays += 1
        if self._displays <= LIVE_DISPLAYS:
            self._restart()
            self._call(lambda sink: sink.clear(wait))

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Show what was held back, then the error."""
        self.finish()
        self._call(lambda sink: sink.error(ename, evalue, traceback))

    def finish(self) -> None:
        """Show the end of what was not shown."""
        if self._hidden_chars:
            tail_chars = sum(len(text) for _, text in self._tail)
            more = f"{self._hidden_chars:,} characters more; the last {tail_chars:,} follow"
            self._show_note(f"[… {more}]\n")
            for name, text in self._tail:
                self._show_stream(name, text)
            self._hidden_chars = self._tail_bytes = 0
            self._tail.clear()
        late, self._late = self._late, {}
        for data, metadata, transient in late.values():
            self._show_display(data, metadata, transient, True)
        if self._dropped:
            self._show_stream("stdout", f"[{self._dropped:,} more displays not shown]\n")
            self._dropped = 0

    def resume(self) -> None:
        """Show again what follows, though the sink has failed: what broke it is mended."""
        self._sink = self._given

    def close(self) -> None:
        """Show everything there is: the run is over."""
        self.finish()
        self._call(lambda sink: sink.close())

    def _show_note(self, text: str) -> None:
        """Show a line that overwrites the note before it."""
        start, self._line_open = ("\n" if self._line_open else "\r"), False
        self._show_stream("stdout", start + text)

    def _show_stream(self, name: StreamName, text: str) -> None:
        self._call(lambda sink: sink.stream(name, text))

    def _show_display(self, data: Json, metadata: Json, transient: Json, update: bool) -> None:
        self._call(lambda sink: sink.display(data, metadata, transient, update))

    def _keep_end(self, name: StreamName, text: str) -> None:
        most = self._settings.live_output_tail
        kept = _end(text, most)
        if len(kept) < len(text):
            self._tail.clear()
            self._tail_bytes = 0
        self._tail.append((name, kept))
        self._tail_bytes += utf8_bytes(kept)
        while self._tail_bytes > most:
            first_name, first = self._tail.popleft()
            self._tail_bytes -= utf8_bytes(first)
            if self._tail_bytes <= most:
                rest = _end(first, most - self._tail_bytes)
                self._tail.appendleft((first_name, rest))
                self._tail_bytes += utf8_bytes(rest)
                break

    def _call(self, show: Callable[[Sink], None]) -> None:
        if self._sink is None:
            return
        try:
            show(self._sink)
        except Exception:
            _log.exception("The live output stops: it cannot be shown.")
            self._sink = None


def _split(text: str, room: int) -> tuple[str, str]:
    """Split `text` after at most `room` bytes of UTF-8, at a character."""
    if utf8_bytes(text) <= room:
        return text, ""
    shown = text[:room].encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
    return shown, text[len(shown) :]


def _end(text: str, most: int) -> str:
    """Return the last `most` bytes of `text`, from a whole character on."""
    if most <= 0:
        return ""
    return text[-most:].encode("utf-8", "surrogatepass")[-most:].decode("utf-8", "ignore")
