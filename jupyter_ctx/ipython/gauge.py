"""Feeds the gauge in JupyterLab's status bar over a comm, target `jupyter_ctx`, protocol 1.

On every comm first a hello, then the context whenever it moves, at most every 100 ms. The context
last sent is kept, so that a page that comes later gets it without a look at the running session.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from comm import create_comm

from .._version import __version__

if TYPE_CHECKING:
    from ..core.events import CtxEvent

TARGET = "jupyter_ctx"
PROTOCOL = 1
EVERY_S = 0.1
MOST_OPENED = 32
"""So many comms that pages opened are kept: a page that is reloaded leaves its own open."""

_NOW = ("TurnStarted", "TurnFinished")
_MOVES = (
    "ContextChanged",
    "StepFinished",
    "CompactionStarted",
    "CompactionFinished",
    "CompactionFailed",
)
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


class Look(NamedTuple):
    """A look at the session: its id and state, the context JSON, and its costs by kind in USD.

    `costs` has the keys of the JSON's `usage`; None where a price is not known.
    """

    session: str
    state: str
    context: Mapping[str, object]
    costs: Mapping[str, float] | None = None


class Gauge:
    """The comms of one kernel. `look` gives what the gauge shows (`Look`), None before a turn.

    `manager` is the kernel's comm manager.
    """

    def __init__(
        self,
        manager: Any,
        look: Callable[[], Look | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = secrets.token_hex(8)
        """Names this load of the extension, for the panel; in every hello."""
        self._manager = manager
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._comms: dict[str, Any] = {}
        self._session: str | None = None
        self._last: dict[str, object] = _context("idle", None)
        self._due = 0.0
        self._waits = False
        self._answered: set[str] = set()
        self._aside: set[str] = set()
        self._heard: dict[
            str, None
        ] = {}  # of the comms that pages opened, the last heard at the end
        self._on_comm: Callable[[str], None] | None = None
        self._on_data: Callable[[str, object], object] | None = None
        self._on_close: Callable[[str], None] = lambda comm_id: None
        manager.register_target(TARGET, self._opened)
        self._adopt(create_comm(target_name=TARGET, data={}))

    @property
    def pages(self) -> int:
        """How many comms a page has answered or opened."""
        with self._lock:
            return len(self._answered)

    def owns(self, comm_id: object) -> bool:
        """Whether that is the id of one of the comms."""
        with self._lock:
            return comm_id in self._comms

    def tell(self, message: Mapping[str, object], comm_id: str | None = None) -> None:
        """Send a message on one comm, or on all; so also if that comm is gone.

        A page is told by its name what is for it; it may have spoken on the comm of one that left.
        """
        with self._lock:
            comm = None if comm_id is None else self._comms.get(comm_id)
        if comm is None:
            self._broadcast(message)
        else:
            self._send(comm, message)

    def note_page(self, comm_id: str) -> None:
        """Note that a page was heard on a comm; not if the comm is gone meanwhile."""
        with self._lock:
            if comm_id in self._comms and comm_id not in self._aside:
                self._answered.add(comm_id)
                if comm_id in self._heard:
                    self._heard[comm_id] = self._heard.pop(comm_id)

    def join(self, comm: Any) -> None:
        """Take a comm whose pages show no notebook that could be asked about: a widget's."""
        with self._lock:
            self._aside.add(comm.comm_id)
        self._adopt(comm)
        comm.on_msg(lambda message: self._greet(comm, message))

    def attach(
        self,
        on_comm: Callable[[str], None],
        on_data: Callable[[str, object], object],
        on_close: Callable[[str], None] = lambda comm_id: None,
    ) -> None:
        """Tell of each comm, those there are included, of what pages say on them, and of its end.

        What is called must return at once: it may be on any thread.
        """
        self._on_comm, self._on_data, self._on_close = on_comm, on_data, on_close
        with self._lock:
            known = list(self._comms)
        for comm_id in known:
            on_comm(comm_id)

    def close(self) -> None:
        """Close every comm and forget the target."""
        self._manager.unregister_target(TARGET, self._opened)
        with self._lock:
            comms, self._comms = list(self._comms.values()), {}
        for comm in comms:
            with contextlib.suppress(Exception):  # a front end that is gone cannot be told
                comm.close()

    def notice(self, event: CtxEvent) -> None:
        """Send what moved; called with every event, on the thread that shows it."""
        name = type(event).__name__
        if name in _NOW:
            self.send()
        elif name in _MOVES:
            self._waits = True
            self.flush()

    def flush(self) -> float | None:
        """Send what has waited long enough; return in how many seconds to call again, or None."""
        if not self._waits:
            return None
        left = self._due - self._clock()
        if left > 0:
            return left
        self.send()
        return None

    def send(self) -> None:
        """Send the context now."""
        self._waits = False
        self._due = self._clock() + EVERY_S
        found = self._look()
        if found is None:
            message = _context("idle", None)
        else:
            session, state, context, costs = found
            message = _context(state, context, costs)
            if session != self._session:
                self._session = session
                self._broadcast(self._hello())
        self._last = message
        self._broadcast(message)

    def _opened(self, comm: Any, message: object) -> None:
        """A page opened a comm: on the main thread, or that of a subshell."""
        with self._lock:
            self._heard[comm.comm_id] = None
        self._adopt(comm)
        self.note_page(comm.comm_id)
        self._drop_silent()

    def _drop_silent(self) -> None:
        """Close what pages opened and were not heard on for longest, beyond `MOST_OPENED`."""
        with self._lock:
            silent = list(self._heard)[:-MOST_OPENED]
            comms = [comm for one in silent if (comm := self._comms.get(one)) is not None]
        for comm in comms:
            self._forget(comm)
            with contextlib.suppress(Exception):  # a page that is gone cannot be told
                comm.close()

    def _adopt(self, comm: Any) -> None:
        if hasattr(comm, "_reply_subshell_for"):
            # ipykernel 7.4 sends a page's message to where the kernel last sent from: to the main
            # thread, behind the running cell. None leaves the page's own choice in force.
            comm._reply_subshell_for = None
        with self._lock:
            self._comms[comm.comm_id] = comm
        comm.on_close(lambda message: self._forget(comm))
        comm.on_msg(lambda message: self._hear(comm, message))
        for message in (self._hello(), self._last):
            self._send(comm, message)
        if self._on_comm is not None:
            self._on_comm(comm.comm_id)

    def _hear(self, comm: Any, message: Any) -> None:
        """Note that a page is there, and pass on what it says."""
        self.note_page(comm.comm_id)
        if self._on_data is not None:
            self._on_data(comm.comm_id, message["content"]["data"])

    def _greet(self, comm: Any, message: Any) -> None:
        """Tell a page that has come to a widget what its others were told."""
        data = message["content"]["data"]
        if isinstance(data, dict) and data.get("type") == "hello":
            for told in (self._hello(), self._last):
                self._send(comm, told)

    def _forget(self, comm: Any) -> None:
        with self._lock:
            self._comms.pop(comm.comm_id, None)
            self._answered.discard(comm.comm_id)
            self._aside.discard(comm.comm_id)
            self._heard.pop(comm.comm_id, None)
        self._on_close(comm.comm_id)

    def _hello(self) -> dict[str, object]:
        return {
            "version": PROTOCOL,
            "type": "hello",
            "package_version": __version__,
            "session": self._session,
            "epoch": self.epoch,
        }

    def _broadcast(self, message: Mapping[str, object]) -> None:
        with self._lock:
            comms = list(self._comms.values())
        for comm in comms:
            self._send(comm, message)

    def _send(self, comm: Any, message: Mapping[str, object]) -> None:
        """Send to one page; a page that cannot be reached never disturbs the turn."""
        try:
            comm.send(dict(message))
        except (TypeError, ValueError):  # what is to be told is no JSON; the page is there
            _log.exception("A message to a page could not be written.")
        except Exception:
            _log.debug("The gauge's comm could not be reached.", exc_info=True)
            self._forget(comm)


def _context(
    phase: str,
    context: Mapping[str, object] | None,
    costs: Mapping[str, float] | None = None,
) -> dict[str, object]:
    # Never a key `state`: nbclient takes a comm message that has one for a widget's.
    head = {"version": PROTOCOL, "type": "context", "phase": phase}
    return {**head, "context": context, "costs": costs}
