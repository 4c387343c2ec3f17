"""Where the outputs of a captured run meet: redacted, in order, into the log and on to the person.

As far as an interrupt goes every function here runs whole: `nested.InterruptGuard` knows this
module and puts the interrupt off until the caller checks.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from time import monotonic

from ..core.redact import Redactor
from .bundles import clean_bundle, text_of
from .live import Live
from .outputlog import OutputLog, StreamName
from .spool import valid_text

CHUNK_CHARS = 256 * 1024
"""Text past the live part is handled in pieces of this size: the cost is in bytes, not in lines."""


BURST_CHARS = 16 * 1024
"""Past the live part, so much may be written before it is passed on, if it comes quickly."""

WRITE_CHARS = 64
"""What one write counts for besides its text: a burst has some hundred writes at most."""

BURST_S = 0.02
"""Writes that come faster than so are a burst: then a note may be late by the burst's length."""


class Burst:
    """What a stream may put aside by itself: `texts`, of so many characters as there is `room`."""

    __slots__ = ("room", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.room = 0

    def take(self) -> list[str]:
        """Return the texts and forget them; another thread may be adding to them."""
        taken = self.texts[: len(self.texts)]
        del self.texts[: len(taken)]
        return taken


class Collector:
    """Takes what a run writes, displays and raises; any thread may bring it.

    `bursts` gives each stream what it may add to without asking: room is there only while writes
    come quickly, nothing else comes between, and text is not shown as it comes.
    """

    def __init__(self, log: OutputLog, live: Live, redactor: Redactor) -> None:
        self._log = log
        self._live = live
        self._redactor = redactor
        self._lock = threading.RLock()
        self._name: StreamName = "stdout"
        self._redact = redactor.stream()
        self.bursts: dict[StreamName, Burst] = {"stdout": Burst(), "stderr": Burst()}
        self._pending: list[str] = []
        self._pending_chars = 0
        self._written_at = 0.0
        self.has_error = False

    def write(self, name: StreamName, text: str) -> None:
        """Take text of stdout or stderr, after what its stream has put aside."""
        with self._lock:
            if name != self._name:
                if not text:
                    return
                self._settle()
                self._name = name
            self._take_burst()
            if len(text) > CHUNK_CHARS:
                for start in range(0, len(text), CHUNK_CHARS):
                    self._drain()
                    self._pending.append(text[start : start + CHUNK_CHARS])
            else:
                self._pending.append(text)
            self._pending_chars += len(text)
            now, before = monotonic(), self._written_at
            self._written_at = now
            if self._pending_chars >= CHUNK_CHARS or now >= self._live.next_at:
                self._drain()
            if self._live.next_at and now - before < BURST_S:
                self.bursts[name].room = BURST_CHARS

    def flush(self) -> None:
        """Pass on what waits for more; the beginning of a possible secret goes on waiting."""
        with self._lock:
            self._drain()

    def display(
        self,
        data: Mapping[str, object],
        metadata: Mapping[str, object],
        transient: Mapping[str, object],
        update: bool,
    ) -> None:
        """Take a MIME bundle, or the update of the display `transient["display_id"]`."""
        display_id = transient.get("display_id")
        clean, meta = self._bundle(data), self._bundle(metadata)
        with self._lock:
            self._settle()
            if display_id is None:
                if not update:
                    self._log.display(clean, meta)
                    self._live.display(clean, meta, {}, False)
                return
            known = str(display_id)
            if update:
                self._log.update(clean, meta, known)
            else:
                self._log.display(clean, meta, display_id=known)
            self._live.display(clean, meta, {"display_id": known}, update)

    def result(self, data: Mapping[str, object], metadata: Mapping[str, object]) -> None:
        """Take the value of the last expression."""
        clean, meta = self._bundle(data), self._bundle(metadata)
        with self._lock:
            self._settle()
            self._log.display(clean, meta, kind="execute_result")
            self._live.display(clean, meta, {}, False)

    def paged(self, data: object) -> None:
        """Take what was meant for a pager: a MIME bundle or text."""
        bundle = data if isinstance(data, Mapping) else {"text/plain": str(data)}
        self.display(bundle, {}, {}, False)

    def clear(self, wait: bool) -> None:
        """Take everything away, now or at the next output."""
        with self._lock:
            self._settle()
            self._log.clear(wait)
            self._live.clear(wait)

    def show_traceback(
        self, etype: type[BaseException], evalue: BaseException, stb: Sequence[str]
    ) -> None:
        """Take an error as IPython shows it."""
        self._error(etype.__name__, text_of(evalue), stb)

    def exception(self, error: BaseException, *, with_traceback: bool) -> None:
        """Take an error that IPython has not shown as one."""
        lines = traceback.format_exception(error) if with_traceback else []
        self._error(type(error).__name__, text_of(error), lines)

    def tell(self, text: str) -> None:
        """Take a word of ours about the run, shown though the code broke what shows its output."""
        with self._lock:
            self._settle()
            self._live.resume()
            self.write("stderr", text)

    def finish(self) -> None:
        """Pass on everything there is: the run is over."""
        with self._lock:
            self._settle()
            for name in self.bursts:  # put aside by a thread while the other stream took over
                self._name = name
                self._settle()
            self._live.close()

    def _error(self, ename: str, evalue: str, lines: Sequence[str]) -> None:
        clean = [self._clean(str(line)) for line in lines]
        ename, evalue = self._clean(ename), self._clean(evalue)
        with self._lock:
            self._settle()
            self.has_error = True
            self._log.error(ename, evalue, clean)
            self._live.error(ename, evalue, clean)

    def _clean(self, text: str) -> str:
        return self._redactor.text(valid_text(text))

    def _bundle(self, data: Mapping[str, object]) -> dict[str, object]:
        return self._redactor.json(clean_bundle(data))

    def _take_burst(self) -> None:
        if taken := self.bursts[self._name].take():
            self._pending += taken
            self._pending_chars += sum(map(len, taken))

    def _drain(self) -> None:
        self._take_burst()
        if not self._pending:
            return
        text, self._pending, self._pending_chars = "".join(self._pending), [], 0
        self._emit(self._redact.feed(valid_text(text)))

    def _settle(self) -> None:
        """Pass on the running stream's text, all of it: another output follows."""
        self.bursts[self._name].room = 0
        self._drain()
        self._emit(self._redact.flush())

    def _emit(self, text: str) -> None:
        if text:
            self._log.stream(self._name, text)
            self._live.stream(self._name, text)
