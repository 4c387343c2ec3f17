"""The outputs of one cell in bounded memory: nbformat outputs, in order, as a notebook has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .bundles import cut_text, note, placeholder, plain_text, value_bytes
from .spool import HEAD_CHARS, Spool, utf8_bytes

if TYPE_CHECKING:
    from ..core.blocks import Json
    from ..core.ports import SpooledText

StreamName = Literal["stdout", "stderr"]
BundleKind = Literal["display_data", "execute_result"]

ENTRY_BYTES = 200
"""What one output costs in memory besides its text; so a million empty ones are bounded too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is held in memory.

    `text_bytes`: text of streams, results, displays and errors together; a longer one is spooled.
    `outputs`: outputs other than streams. `bundle_bytes`: all MIME bundles together.
    """

    text_bytes: int = 8 * 1024 * 1024
    outputs: int = 1_000
    bundle_bytes: int = 32 * 1024 * 1024


@dataclass(slots=True)
class _Entry:
    """One output; a stream's text stands in `parts`, and `size` is that of a bundle, in bytes."""

    output: dict[str, object]
    parts: list[str] | None = None
    size: int = 0

    def to_json(self) -> Json:
        if self.parts is None:
            return dict(self.output)
        self.parts[:] = ["".join(self.parts)]
        return {**self.output, "text": self.parts[0]}


@dataclass(slots=True)
class _State:
    """What `clear` throws away."""

    entries: list[_Entry] = field(default_factory=list)
    by_id: dict[str, list[_Entry]] = field(default_factory=dict)
    text_bytes: int = 0
    bundle_bytes: int = 0
    outputs: int = 0
    dropped: int = 0
    extra_error: _Entry | None = None
    spool: Spool | None = None


class OutputLog:
    """Takes the outputs of a cell as they come; any thread may add.

    Consecutive writes to one stream become one output; an update of a display replaces it where it
    stands; `clear(wait=True)` clears at the next output. Over `limits.text_bytes` or
    `limits.outputs` the whole text (streams, and the plain text of everything else on lines of its
    own) goes to a spool, and `outputs` keeps the head of the streams only. A bundle over
    `limits.bundle_bytes` is replaced by a line that names its types and size. `where` says, in such
    a line, what a spooled text is stored as.
    """

    def __init__(
        self,
        limits: Limits,
        make_spool: Callable[[], Spool] = Spool,
        where: str = "the text of this result",
    ) -> None:
        self._limits = limits
        self._make_spool = make_spool
        self._where = where
        self._lock = threading.RLock()
        self._state = _State()
        self._clear_next = False

    @property
    def held_bytes(self) -> int:
        """About how much memory this takes."""
        state = self._state
        return state.text_bytes + state.bundle_bytes + ENTRY_BYTES * len(state.entries)

    def stream(self, name: StreamName, text: str) -> None:
        """Add valid text to stdout or stderr."""
        with self._lock:
            state = self._next_state()
            if state.spool is not None:
                state.spool.write(text)
                return
            last = state.entries[-1] if state.entries else None
            if last is not None and last.parts is not None and last.output["name"] == name:
                last.parts.append(text)
            else:
                state.entries.append(_Entry({"output_type": "stream", "name": name}, [text]))
                state.text_bytes += ENTRY_BYTES
            state.text_bytes += utf8_bytes(text)
            if state.text_bytes > self._limits.text_bytes:
                self._start_spool()

    def display(
        self,
        data: Json,
        metadata: Json,
        *,
        display_id: str | None = None,
        kind: BundleKind = "display_data",
        count: int | None = None,
    ) -> None:
        """Add a MIME bundle of JSON values; `count` is the execution count of a result."""
        with self._lock:
            state = self._next_state()
            output: dict[str, object] = {"output_type": kind, "data": data, "metadata": metadata}
            if kind == "execute_result":
                output["execution_count"] = count
            self._count_text(plain_text(output))
            if state.outputs >= self._limits.outputs:
                state.dropped += 1
                return
            state.outputs += 1
            entry = _Entry(output)
            self._set_bundle(entry, data, metadata)
            state.entries.append(entry)
            if display_id is not None:
                state.by_id.setdefault(display_id, []).append(entry)

    def update(self, data: Json, metadata: Json, display_id: str) -> None:
        """Put another bundle in the place of every display of that id; none: nothing happens."""
        with self._lock:
            for entry in self._state.by_id.get(display_id, ()):
                self._state.bundle_bytes -= entry.size
                self._set_bundle(entry, data, metadata)

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Add an error; the newest one is always kept."""
        with self._lock:
            state = self._next_state()
            output: dict[str, object] = {
                "output_type": "error",
                "ename": ename,
                "evalue": evalue,
                "traceback": list(traceback),
            }
            self._count_text(plain_text(output))
            output["evalue"] = cut_text(evalue)
            output["traceback"] = [cut_text(line) for line in traceback]
            if state.outputs < self._limits.outputs:
                state.outputs += 1
                state.entries.append(_Entry(output))
            elif state.extra_error is None:
                state.extra_error = _Entry(output)
                state.entries.append(state.extra_error)
            else:
                state.extra_error.output = output
                state.dropped += 1

    def clear(self, wait: bool = False) -> None:
        """Take everything away, now or when the next output comes."""
        with self._lock:
            self._clear_next = True
            if not wait:
                self._next_state()

    def outputs(self) -> tuple[Json, ...]:
        """Return what there is now as nbformat outputs; notes say what is not kept."""
        with self._lock:
            state = self._state
            found = [entry.to_json() for entry in state.entries]
            if state.spool is not None:
                found += _rest_of(state.spool, self._where)
            if state.dropped:
                found.append(note(f"[{state.dropped:,} more outputs were made and not kept]"))
            return tuple(found)

    def finish(self) -> SpooledText | None:
        """Return the whole text if it is in a file, which is complete then; else None."""
        with self._lock:
            return None if self._state.spool is None else self._state.spool.finish()

    def spooled(self) -> SpooledText | None:
        """Return the whole text by now if it is in a file, which may grow; else None."""
        with self._lock:
            return None if self._state.spool is None else self._state.spool.look()

    @property
    def spooled_bytes(self) -> int:
        """How much of the text is in a file."""
        spool = self._state.spool
        return 0 if spool is None or spool.path is None else spool.size_bytes

    def discard(self) -> None:
        """Remove the file of a spooled text; one that was stored meanwhile has another name."""
        with self._lock:
            if self._state.spool is not None:
                self._state.spool.discard()

    def _next_state(self) -> _State:
        """Return the state a new output goes to, after a clear that waited for it."""
        if self._clear_next:
            self._clear_next = False
            if self._state.spool is not None:
                self._state.spool.discard()
            self._state = _State()
        return self._state

    def _count_text(self, text: str) -> None:
        """Count the plain text of an output that is about to be added, and spool it if need be."""
        state = self._state
        state.text_bytes += utf8_bytes(text)
        full = state.outputs >= self._limits.outputs
        if state.spool is None and (full or state.text_bytes > self._limits.text_bytes):
            self._start_spool()
        if state.spool is not None:
            state.spool.write_block(text)

    def _start_spool(self) -> None:
        """Write what is held to a spool; of the streams only the head stays in memory."""
        state = self._state
        state.spool = spool = self._make_spool()
        room = HEAD_CHARS
        kept: list[_Entry] = []
        for entry in state.entries:
            if entry.parts is None:
                spool.write_block(plain_text(entry.output))
                kept.append(entry)
                continue
            for part in entry.parts:
                spool.write(part)
            if room:
                entry.parts = ["".join(entry.parts)[:room]]
                room -= len(entry.parts[0])
                kept.append(entry)
        state.entries = kept
        state.text_bytes = 4 * HEAD_CHARS

    def _set_bundle(self, entry: _Entry, data: Json, metadata: Json) -> None:
        """Make `data` the entry's bundle, or a line that says what it was if there is no room."""
        state = self._state
        size = sum(map(value_bytes, data.values()))
        if state.bundle_bytes + size > self._limits.bundle_bytes:
            data, metadata = placeholder(data, self._limits.bundle_bytes), {}
            size = sum(map(value_bytes, data.values()))
        entry.output["data"], entry.output["metadata"] = data, metadata
        entry.size = size
        state.bundle_bytes += size


def _rest_of(spool: Spool, where: str) -> list[Json]:
    """Return what stands for the text that is not in memory."""
    whole = f"{spool.chars:,} characters in {spool.lines:,} lines"
    if spool.path is not None and spool.error is None:
        return [note(f"[… the text goes on: {whole} in all, stored as {where}]")]
    why = f" and could not be stored: {spool.error}" if spool.error is not None else ""
    missing = note(f"[… the text has {whole}{why}; its end follows]")
    return [missing, {"output_type": "stream", "name": "stdout", "text": spool.tail}]
