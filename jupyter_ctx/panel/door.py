"""Where pages' calls come in: nothing of the panel runs, or is imported, before the first.

A call is carried out on the loop of the turns; before there is one, on the idle main thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from .calls import Call, Calls, RefusedError, refusal_of

if TYPE_CHECKING:
    from .service import PanelService

BUSY_S = 2.0
"""So long a page waits for the main thread; then it hears that the kernel is busy."""

BUSY_TEXT = "The kernel is busy, and no session is open yet. Ask again when it is idle."


class Pages(Protocol):
    """The comms of one kernel."""

    epoch: str

    def tell(self, message: Mapping[str, object], comm_id: str | None = None) -> None:
        """Send a message on one comm, or on all."""
        ...


class Door:
    """Takes calls from any thread and returns at once. Close it on the main thread.

    `post` has a function called on the loop of the turns, False if there is none; `make` makes what
    carries calls out.
    """

    def __init__(
        self,
        kernel: Any,
        pages: Pages,
        post: Callable[[Callable[[], None]], bool],
        make: Callable[[Door], PanelService],
    ) -> None:
        self.epoch = pages.epoch
        self.calls = Calls(self._take, self._refuse)
        self._kernel = kernel
        self._pages = pages
        self._post = post
        self._make = make
        self._lock = threading.Lock()
        self._service: PanelService | None = None
        self._is_closed = False

    def close(self) -> None:
        """Carry out no more calls; what runs for the panel is stopped by the bridge."""
        self._is_closed = True
        if self._service is not None:
            self._service.close()

    def find_call(self) -> object:
        """Return the made-up request under which the agent's code runs now, None if none does."""
        return None if self._service is None else self._service.call_parent

    def leave(self, comm_id: str, client: str | None = None) -> None:
        """A comm is gone, or only one of its pages; from any thread."""
        if self._service is not None:
            self._service.note_closed(comm_id, client)

    @property
    def panels(self) -> frozenset[str]:
        """The comms on which a page has the panel open."""
        return frozenset() if self._service is None else self._service.panels

    def record(self) -> tuple[str, str]:
        """Return the conversation as Markdown that is safe, and as text."""
        return self._find_service().record()

    def open(self) -> None:
        """Have the next turn told from its beginning: a page is about to show it."""
        self._find_service().awaits_page = True

    def tell(self, message: Mapping[str, object], comm_id: str | None = None) -> None:
        """Send a message to one page, or to all."""
        if not self._is_closed:
            self._pages.tell(message, comm_id)

    def on_idle(self, call: Call, function: Callable[[], None]) -> None:
        """Have `function` called on the idle main thread; if that takes over 2 s, on the loop.

        Without a session the page is told then that the kernel is busy.
        """
        waits = threading.Lock()  # whoever takes it acts

        def act() -> None:
            if waits.acquire(blocking=False) and not self._is_closed:
                function()

        def give_up() -> None:
            if not waits.acquire(blocking=False) or self._is_closed:
                return
            if self._service is not None and self._service.has_session:
                self._service.start_loop()
                self._post(function)
            else:
                self._refuse(call, RefusedError("busy", BUSY_TEXT))

        self._kernel.io_loop.add_callback(act)
        control = getattr(getattr(self._kernel, "control_thread", None), "io_loop", None)
        if control is not None:
            control.add_callback(control.call_later, BUSY_S, give_up)

    def _take(self, call: Call) -> None:
        if self._is_closed:
            return

        def carry_out() -> None:
            self._find_service().handle(call)

        service = self._service
        if service is not None and service.has_session and service.is_kept_from_main:
            service.start_loop()
        if not self._post(carry_out):
            self.on_idle(call, carry_out)

    def _find_service(self) -> PanelService:
        with self._lock:
            if self._service is None:
                self._service = self._make(self)
            return self._service

    def _refuse(self, call: Call, error: RefusedError) -> None:
        for message in refusal_of(call, error):
            self.tell(message, call.comm_id)
