"""Records the cells the user runs: source, outputs, failure, and the names each one bound.

In a kernel the outputs are seen by the publisher's, the display hook's and the streams' own hooks
(ipykernel's `register_hook`): nothing of the user's is replaced. The streams' hook runs on the
kernel's output thread, the others on the main thread. In a terminal, IPython's own record of the
outputs is read. Output of threads other than the main one is recorded if it is printed, not if it
is displayed.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from ..core.agentcell import is_agent_source
from .bindings import Bindings
from .outputlog import Limits, OutputLog
from .recording import add_history, add_message, describe, error_output
from .spool import Spool, valid_text

if TYPE_CHECKING:  # the rest of core comes with the first turn: loading stays quick
    from ..core.blocks import Json
    from ..core.ports import Cell

CELL_LIMITS = Limits(text_bytes=1024 * 1024, outputs=200, bundle_bytes=4 * 1024 * 1024)
"""What is held of one cell's outputs; of a longer text, the first and last 65,536 characters."""

ALL_BYTES = 64 * 1024 * 1024
"""What is held of all cells' outputs; the oldest go first."""

ALL_SPOOLED_BYTES = 2 * 1024 * 1024 * 1024
"""What lies on disk of all cells' long texts, until they are stored; the oldest go first."""

MAX_CELLS = 5_000
"""So many cells are remembered; the longest not executed go first."""

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


@dataclass(slots=True, eq=False)
class _Record:
    """One cell's newest execution.

    `history` is IPython's own record of the outputs where there are no hooks, until it is read.
    `error` is the error output. `held_bytes` is what the recorder has counted of `log`.
    """

    id: str
    source: str
    count: int
    order: int
    source_order: int
    changed_at: float
    is_agent: bool
    parent: str | None
    log: OutputLog = field(default_factory=lambda: OutputLog(CELL_LIMITS))
    history: Sequence[Any] = ()
    error: Json | None = None
    held_bytes: int = 0

    def to_cell(self) -> Cell:
        from ..core.ports import Cell

        history, self.history = self.history, ()
        for output in history:
            add_history(self.log, output, self.count)
        outputs = self.log.outputs()
        return Cell(
            id=self.id,
            source=self.source,
            count=self.count,
            order=self.order,
            outputs=outputs if self.error is None else (*outputs, self.error),
            spooled=self.log.spooled(),
            failed=self.error is not None,
            source_order=self.source_order,
            is_agent=self.is_agent,
            changed_at=self.changed_at,
        )


_GONE = OutputLog(Limits(outputs=1))
"""What stands for outputs that had to go."""
_GONE.display({"text/plain": "[outputs no longer kept]"}, {})


class CellRecorder:
    """Watches the shell from now on until `close`. Never lets an error of its own into a cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._lock = threading.Lock()
        self._records: dict[str, _Record] = {}
        self._by_parent: dict[str, _Record] = {}
        self._running: list[_Record] = []
        self._order = 0
        self._held_bytes = 0
        self._last: _Record | None = None
        self._paused = 0
        self._bindings = Bindings(shell)
        self.make_spool: Callable[[], Spool] = Spool
        """Where the long text of a cell goes; by default only its ends are kept, in memory."""
        self._closers = contextlib.ExitStack()
        self._sees_streams = self._sees_results = False
        self.early_count = int(shell.execution_count) - 1
        """N of the last In[N] that began before this recorder: what loads the extension, say."""
        self._watch()

    def close(self) -> None:
        """Take every hook away, and remove long texts that nothing stored. Idempotent."""
        self._closers.close()
        with self._lock:
            for record in self._records.values():
                record.log.discard()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing: code that is no cell of the user's runs inside."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def cells(self) -> tuple[Cell, ...]:
        """Return the executed cells, oldest execution first; one per cell id, its newest."""
        with self._lock:
            records = sorted(self._records.values(), key=lambda record: record.order)
        return tuple(record.to_cell() for record in records)

    @property
    def is_running(self) -> bool:
        """Whether a cell of the user's runs."""
        return bool(self._running)

    def labels(self) -> list[tuple[str, int]]:
        """Return id and count of the user's executed cells, oldest execution first; quick."""
        with self._lock:
            records = [record for record in self._records.values() if not record.is_agent]
        return [(one.id, one.count) for one in sorted(records, key=lambda one: one.order)]

    def bound_in(self, name: str) -> str | None:
        """Return which cell bound the name last ("In[3]"); None if it is not known."""
        return self._bindings.bound_in(name)

    def mark_bindings(self) -> None:
        """Note the names that changed as bound by the cell that is running (none: by nobody)."""
        self._bindings.mark(f"In[{self._running[-1].count}]" if self._running else None)

    # Events of the shell -----------------------------------------------------------------------

    def _watch(self) -> None:
        events = self._shell.events
        for name, call in (("pre_run_cell", self._before), ("post_run_cell", self._after)):
            events.register(name, call)
            self._closers.callback(_unregister, events, name, call)
        self._hook(self._shell.display_pub, self._on_display)
        self._sees_results = self._hook(self._shell.displayhook, self._on_display)
        hooked = [self._hook_stream(stream) for stream in (sys.stdout, sys.stderr)]
        self._sees_streams = all(hooked)

    def _before(self, info: Any) -> None:
        if self._paused or not getattr(info, "store_history", True):
            return
        try:
            self._start(info)
        except Exception:
            _log.exception("A cell is not recorded.")

    def _after(self, result: Any) -> None:
        if self._paused or result is None:
            return
        try:
            self._end(result)
        except Exception:
            _log.exception("A cell's end is not recorded.")

    def _start(self, info: Any) -> None:
        count = int(self._shell.execution_count) - 1
        source = str(info.raw_cell)
        cell_id = str(info.cell_id) if getattr(info, "cell_id", None) else f"in-{count}"
        old = self._records.get(cell_id)
        is_known = old is not None and old.source == source
        self._order += 1
        record = _Record(
            id=cell_id,
            source=source,
            count=count,
            order=self._order,
            source_order=old.source_order if old and is_known else self._order,
            changed_at=old.changed_at if old and is_known else time.time(),
            is_agent=is_agent_source(source),
            parent=self._parent_id(),
            log=OutputLog(CELL_LIMITS, lambda: self.make_spool(), f"`cell-{cell_id}-{count}`"),
        )
        self._running.append(record)
        with self._lock:
            self._forget(cell_id)
            self._records[cell_id] = record
            if record.parent is not None:
                self._by_parent[record.parent] = record
            while len(self._records) > MAX_CELLS:
                self._forget(next(iter(self._records)))

    def _end(self, result: Any) -> None:
        info = result.info
        if info is None or not info.store_history:
            return
        record = self._take_running(info)
        if record is None:
            return
        error = result.error_in_exec
        if result.error_before_exec is not None:
            error = result.error_before_exec
        manager = self._shell.history_manager
        if error is not None:
            known = getattr(manager, "exceptions", {}).get(record.count)
            record.error = error_output(known or describe(error))
        if not record.is_agent:
            made = getattr(manager, "outputs", {})
            history = made.get(record.count, ())
            if not self._sees_streams:
                record.history = history
            elif not self._sees_results:
                record.history = [one for one in history if one.output_type == "execute_result"]
        self._bindings.mark(f"In[{record.count}]")
        with self._lock:
            # A cell's last text comes after its end, so the cell before is counted once more.
            for one in (self._last, record):
                self._count(one)
            self._last = record
            self._make_room(record)

    def _take_running(self, info: Any) -> _Record | None:
        """Return the record that ends now: that of the same source, the innermost first."""
        for at in range(len(self._running) - 1, -1, -1):
            if self._running[at].source == info.raw_cell:
                return self._running.pop(at)
        return None

    def _parent_id(self) -> str | None:
        """Return the id of the request that runs the cell; None in a terminal."""
        get_parent = getattr(self._shell, "get_parent", None)
        if get_parent is None:
            return None
        header = (get_parent() or {}).get("header", {})
        return header.get("msg_id") if isinstance(header, Mapping) else None

    def _forget(self, cell_id: str) -> None:
        record = self._records.pop(cell_id, None)
        if record is None:
            return
        self._held_bytes -= record.held_bytes
        record.log.discard()
        if record.parent is not None:
            self._by_parent.pop(record.parent, None)

    def _count(self, record: _Record | None) -> None:
        if record is not None and self._records.get(record.id) is record:
            held = record.log.held_bytes
            self._held_bytes += held - record.held_bytes
            record.held_bytes = held

    def _make_room(self, newest: _Record) -> None:
        """Let the oldest outputs go if all together hold too much."""
        spooled = sum(record.log.spooled_bytes for record in self._records.values())
        for old in self._records.values():
            if self._held_bytes <= ALL_BYTES and spooled <= ALL_SPOOLED_BYTES:
                return
            if old.held_bytes > _GONE.held_bytes and old is not newest:
                self._held_bytes += _GONE.held_bytes - old.held_bytes
                spooled -= old.log.spooled_bytes
                old.log.discard()
                old.held_bytes, old.log = _GONE.held_bytes, _GONE

    # What the kernel sends ----------------------------------------------------------------------

    def _hook(self, target: Any, call: Callable[[Any], Any]) -> bool:
        """Register a hook of a publisher or a display hook; False if it has none."""
        if not hasattr(target, "register_hook"):
            return False
        target.register_hook(call)
        self._closers.callback(target.unregister_hook, call)
        return True

    def _hook_stream(self, stream: Any) -> bool:
        """Hook one of the kernel's streams, on its own thread: the hooks are by thread."""
        thread = getattr(stream, "pub_thread", None)
        if thread is None or not hasattr(stream, "register_hook"):
            return False
        thread.schedule(lambda: stream.register_hook(self._on_stream))
        self._closers.callback(
            lambda: thread.schedule(lambda: stream.unregister_hook(self._on_stream))
        )
        return True

    def _on_stream(self, message: Any) -> Any:
        try:
            if (log := self._log_of(message)) is not None:
                content = message["content"]
                log.stream(content["name"], valid_text(content["text"]))
        except Exception:
            _log.exception("Text of a cell is not recorded.")
        return message

    def _on_display(self, message: Any) -> Any:
        try:
            if (log := self._log_of(message)) is not None:
                add_message(log, message["header"]["msg_type"], message["content"])
        except Exception:
            _log.exception("A display of a cell is not recorded.")
        return message

    def _log_of(self, message: Any) -> OutputLog | None:
        record = self._by_parent.get(message["parent_header"].get("msg_id"))
        if record is None or record.is_agent or record.log is _GONE:
            return None
        return record.log


def _unregister(events: Any, name: str, call: Callable[..., None]) -> None:
    if call in events.callbacks[name]:
        events.unregister(name, call)
