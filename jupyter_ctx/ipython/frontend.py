"""The kernel's end of the notebook bridge: asks the page about the notebook, and hears its answers.

Requests go out on the gauge's comms. Answers come in on the control channel, so that they arrive
while a cell runs, or as ordinary comm messages when the kernel is idle. An answer may come in
parts, none over 64 KB. All pages on a kernel hear a request: each answers "notebook"; everything
else names the one page it is for, so that no edit is made twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .place import asking_page

if TYPE_CHECKING:
    from ..core.blocks import Json

PROTOCOL = 1
LOOK_S = 10.0
"""How long a page may take to tell of the notebook: one that is there takes some 10 ms, one that is
being loaded anew some 5 s."""
AGAIN_S = 0.5
"""How often it is asked again meanwhile: a page hears nothing that was said before it came."""
EDIT_S = 5.0
"""How long it may take to make a change."""
MOST_WAITS = 10
"""So many times that long a long answer may take, if its parts keep coming."""
GRACE_S = 0.3
"""So long after the first answer, that of a page which fits better is waited for."""
SHORT_S = 0.5
"""How long is waited for a page once one was silent, until it is heard again."""

MAX_CHARS = 64 * 1024
"""Longest text of one message, in characters and in bytes: longer ones are not taken."""
MAX_PARTS = 1_024
MAX_ID_CHARS = 128
MOST_PAGES = 16
"""So many pages may be in the middle of an answer to one request: the parts are kept until then."""

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


class NoFrontendError(Exception):
    """No page answered in time, or there is none."""


class RefusedError(Exception):
    """The page did not do it. `kind` says why in a word, `details` what belongs to it.

    Kinds: `no_cell` (no cell of that id), `stale` (`source`: the present one), `busy` (the cell
    runs or waits to), `typing` (the person writes in it), `read_only`, `locked` (its metadata
    forbids it), `twice` (several cells have that id), `bad` (the request makes no sense), `failed`
    (the page could not).
    """

    def __init__(self, kind: str, message: str, details: Json) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details


class Comms(Protocol):
    """The comms of one kernel, as the gauge keeps them."""

    @property
    def pages(self) -> int:
        """How many comms a page has answered or opened."""
        ...

    def owns(self, comm_id: object) -> bool:
        """Whether that is the id of one of them."""
        ...

    def tell(self, message: Mapping[str, object], comm_id: str | None = None) -> None:
        """Send a message on one comm, or on all."""
        ...

    def note_page(self, comm_id: str) -> None:
        """A page was heard on that comm."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """One message of an answer: `part` of `parts`, from 1, by page `client` to request `id`."""

    id: str
    client: str
    part: int
    parts: int
    text: str


@dataclass(slots=True)
class _Request:
    """A request under way. `fits` says how well a page's answer fits, of `best` at most."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[str, str, Json]]
    page: str | None
    fits: Callable[[str, Json], int]
    best: int
    has_news: bool = False
    parts: dict[str, dict[int, str]] = field(default_factory=dict)
    is_heard: bool = False
    answers: list[tuple[int, str, str, Json]] = field(default_factory=list)

    def add(self, comm_id: str, part: Part) -> None:
        """Take a part; on the request's loop."""
        if self.future.done() or self.page not in (None, part.client):
            return
        if part.client not in self.parts and len(self.parts) >= MOST_PAGES:
            return
        self.has_news = self.is_heard = True
        parts = self.parts.setdefault(part.client, {})
        parts[part.part] = part.text
        if len(parts) < part.parts:
            return
        del self.parts[part.client]
        answer = _read_answer("".join(parts[n] for n in sorted(parts)))
        if answer is not None:
            self._weigh(comm_id, part.client, answer)

    def _weigh(self, comm_id: str, client: str, answer: Json) -> None:
        rank = self.fits(client, answer)
        if rank >= self.best:
            self.future.set_result((comm_id, client, answer))
            return
        self.answers.append((rank, comm_id, client, answer))
        if len(self.answers) == 1:
            self.loop.call_later(GRACE_S, self._settle)

    def _settle(self) -> None:
        """Take the answer that fits best, the earliest of equals."""
        if not self.future.done():
            _, comm_id, client, answer = max(self.answers, key=lambda one: one[0])
            self.future.set_result((comm_id, client, answer))


class FrontendLink:
    """Asks the pages that show this kernel's notebook. Close it when done.

    `find_asker` returns the running cell's client (the page that asked for it) and id, each None if
    not known: of several pages that one is believed. `is_busy` says whether a cell runs. `on_call`
    is given what is no answer, on the thread that heard it, and says whether it was a page's call.
    `find_call` returns the request under which the agent's own code runs on the idle main thread.
    """

    find_call: Callable[[], object] = staticmethod(lambda: None)

    on_call: Callable[[str, object], bool] = staticmethod(lambda comm_id, data: False)

    shows_widgets = False
    """Whether a page has said that it shows widgets of the kind of `panel.widget`."""

    def __init__(
        self,
        kernel: Any,
        comms: Comms,
        find_asker: Callable[[], tuple[str | None, str | None]] = lambda: (None, None),
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._kernel = kernel
        self._comms = comms
        self._find_asker = find_asker
        self._is_busy = is_busy
        self._parent: object = None
        self._lock = threading.Lock()
        self._requests: dict[str, _Request] = {}
        self._greetings: set[str] = set()
        self._page: tuple[str, str] | None = None
        self._looked_for: tuple[str | None, str | None] | None = None
        self._is_silent = False
        self._is_closed = False
        self._handlers = getattr(kernel, "control_handlers", None)
        self._previous: Any = None
        self._handler = self._on_control  # one object, so that it can be told from another
        if isinstance(self._handlers, dict):
            self._previous = self._handlers.get("comm_msg")
            self._handlers["comm_msg"] = self._handler

    @property
    def has_page(self) -> bool:
        """Whether a page was heard since the extension was loaded; it may be gone again."""
        return self._comms.pages > 0

    @property
    def is_silent(self) -> bool:
        """Whether the last look went unanswered, and nothing was heard since."""
        return self._is_silent

    @property
    def needs_look(self) -> bool:
        """Whether `notebook` has to be asked first, to know the page that is meant now."""
        return self._page is None or self._looked_for != self._find_asker()

    def greet(self, comm_id: str) -> None:
        """Ask whoever is on a new comm for a word: it comes even while a cell runs."""
        request_id = secrets.token_urlsafe(16)
        with self._lock:
            self._greetings.add(request_id)
        self._comms.tell(_message(request_id, "hello", {}, None), comm_id)

    async def request(self, op: str, args: Json, timeout_s: float | None = None) -> Json:
        """Return what a page answers to operation `op`.

        `notebook` is asked of every page; of several, the one where the running cell was started
        is believed, else one that shows that cell, else the first. Every other operation is asked
        of the page that answered it last. Raises NoFrontendError if no part of an answer came in
        `timeout_s` (10 s for `notebook`, 5 s else; less while pages are silent), RefusedError if
        the page says no.
        """
        is_look = op == "notebook"
        page = None if is_look else self._page
        if self._is_closed or not self.has_page or (page is None and not is_look):
            raise NoFrontendError("No page shows this notebook.")
        if timeout_s is None:
            timeout_s = LOOK_S if is_look else EDIT_S
        if is_look and self._is_silent:
            timeout_s = min(timeout_s, SHORT_S)
        self._parent = None if asking_page.get() is not None else self._find_parent()
        loop = asyncio.get_running_loop()
        fits, best = self._judge() if is_look else (lambda client, answer: 0, 0)
        client = page[1] if page else None
        waiting = _Request(loop, loop.create_future(), client, fits, best)
        request_id = secrets.token_urlsafe(16)
        with self._lock:
            self._requests[request_id] = waiting
        try:
            comm_id = page[0] if page and self._comms.owns(page[0]) else None
            message = _message(request_id, op, args, client)

            def ask() -> None:
                self._comms.tell(message, comm_id)

            ask()  # a page that has answered a request does not do so again
            told, client, answer = await _wait_for(waiting, timeout_s, ask if is_look else None)
        except TimeoutError:
            self._is_silent = self._is_silent or is_look
            raise NoFrontendError(f"No page answered in {timeout_s:g} s.") from None
        finally:
            with self._lock:
                del self._requests[request_id]
        self._is_silent = False
        if is_look:
            self._page, self._looked_for = (told, client), self._find_asker()
        return _result_of(answer)

    def hear(self, comm_id: str, data: object) -> bool:
        """Take a page's message; from any thread. Return whether it was awaited, or is a call.

        Any other changes nothing.
        """
        part = read_part(data)
        if part is None:
            if is_ours := self.on_call(comm_id, data):
                self._comms.note_page(comm_id)
            return is_ours
        self._comms.note_page(comm_id)
        self._is_silent = False
        with self._lock:
            waiting = self._requests.get(part.id)
            is_greeting = part.id in self._greetings
        if is_greeting:
            self._hear_greeting(part)
        if waiting is None:
            return False
        try:
            waiting.loop.call_soon_threadsafe(waiting.add, comm_id, part)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits for the answer
            _log.debug("An answer came after its loop was closed.")
        return True

    def _hear_greeting(self, part: Part) -> None:
        """Take what a page says of itself; short, or it is none of ours."""
        answer = _read_answer(part.text) if part.parts == 1 else None
        match answer:
            case {"ok": True, "result": {"widgets": True}}:
                self.shows_widgets = True

    def close(self) -> None:
        """Put back the control handler that was there; no request is answered any more."""
        self._is_closed = True
        if isinstance(self._handlers, dict) and self._handlers.get("comm_msg") is self._handler:
            if self._previous is None:
                del self._handlers["comm_msg"]
            else:
                self._handlers["comm_msg"] = self._previous

    def _judge(self) -> tuple[Callable[[str, Json], int], int]:
        """Return how well a page's answer fits the running cell, and the best there can be."""
        client, cell_id = self._find_asker()

        def fits(page: str, answer: Json) -> int:
            if client is not None and page == client:
                return 2
            return int(cell_id is not None and _shows(answer, cell_id))

        return fits, 2 if client is not None else int(cell_id is not None)

    def _on_control(self, stream: Any, ident: Any, message: Any) -> Any:
        """Take what is ours and pass on the rest; on the control channel's thread."""
        content = message.get("content")
        comm_id = content.get("comm_id") if isinstance(content, Mapping) else None
        if not self._is_closed and isinstance(comm_id, str) and self._comms.owns(comm_id):
            if self.hear(comm_id, content.get("data")):
                self._stay_busy()
            return None
        if self._previous is not None:
            return self._previous(stream, ident, message)
        return None

    def _find_parent(self) -> object:
        """Return the request that runs the cell; in the context of the turn."""
        get_parent = getattr(self._kernel, "get_parent", None)
        return None if get_parent is None else get_parent("shell")

    def _stay_busy(self) -> None:
        """Have the kernel say, after this message, that its cell still runs.

        ipykernel says "idle" at the end of each control message, and front ends believe it.
        """
        loop = getattr(getattr(self._kernel, "control_thread", None), "io_loop", None)
        if loop is not None:
            loop.add_callback(self._say_busy)

    def remember_cell(self) -> None:
        """Note the request that runs the cell; on the main thread."""
        self._parent = self._find_parent()

    def stay_busy(self) -> None:
        """The same after an ordinary comm message; on the thread that handles it.

        A subshell, which has a loop of its own, says "idle" as soon as it is handled.
        """
        if threading.current_thread() is threading.main_thread():
            return
        try:
            asyncio.get_running_loop().call_soon(self._say_busy)
        except RuntimeError:  # no subshell's thread
            _log.debug("There is no loop here.")

    def _say_busy(self) -> None:
        kernel = self._kernel
        parent = self.find_call()
        if not parent and self._is_busy():
            parent = self._parent or self._find_parent()
        if parent:
            state = {"execution_state": "busy"}
            topic = f"kernel.{kernel.ident}.status".encode()
            kernel.session.send(kernel.iopub_socket, "status", state, parent=parent, ident=topic)


def read_part(data: object) -> Part | None:
    """Return the part of an answer that a page's message holds; None if it is no valid one."""
    if not isinstance(data, Mapping) or data.get("version") != PROTOCOL:
        return None
    request_id, client, text = data.get("id"), data.get("client"), data.get("text")
    part, parts = data.get("part"), data.get("parts")
    if data.get("type") != "reply" or not _is_id(request_id) or not _is_id(client):
        return None
    if type(part) is not int or type(parts) is not int or not 1 <= part <= parts <= MAX_PARTS:
        return None
    if not isinstance(text, str) or len(text) > MAX_CHARS:
        return None
    if len(text.encode("utf-8", "surrogatepass")) > MAX_CHARS:
        return None
    return Part(str(request_id), str(client), part, parts, text)


async def _wait_for(
    waiting: _Request, timeout_s: float, ask: Callable[[], None] | None
) -> tuple[str, str, Json]:
    """Return the answer; raise TimeoutError if for so long no part of it came, or not its end.

    `ask` asks again; it is called until something was heard.
    """
    now = quiet_since = waiting.loop.time()
    last = now + MOST_WAITS * timeout_s
    while True:
        end = min(quiet_since + timeout_s, last)
        waiting.has_news = False
        await asyncio.wait({waiting.future}, timeout=max(0.0, min(end - now, AGAIN_S)))
        if waiting.future.done():
            return waiting.future.result()
        now = waiting.loop.time()
        if waiting.has_news:
            quiet_since = now
        if now >= (last if waiting.has_news else end):
            raise TimeoutError
        if ask is not None and not waiting.is_heard:
            ask()


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS


def _read_answer(text: str) -> Json | None:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        _log.debug("A page's answer is no JSON.")
        return None
    return answer if isinstance(answer, dict) and isinstance(answer.get("ok"), bool) else None


def _result_of(answer: Json) -> Json:
    """Return the result of an answer. Raises RefusedError if it is a refusal."""
    result = answer.get("result")
    if answer.get("ok") is True and isinstance(result, Mapping):
        return result
    error = answer.get("error")
    details: Json = error if isinstance(error, Mapping) else {}
    kind, message = details.get("kind"), details.get("message")
    raise RefusedError(
        kind if isinstance(kind, str) else "failed",
        message if isinstance(message, str) else "the page gave no reason",
        details,
    )


def _shows(answer: Json, cell_id: str) -> bool:
    result = answer.get("result")
    cells = result.get("cells") if isinstance(result, Mapping) else None
    return isinstance(cells, list) and any(
        isinstance(cell, Mapping) and cell.get("id") == cell_id for cell in cells
    )


def _message(request_id: str, op: str, args: Json, page: str | None) -> dict[str, object]:
    return {
        "version": PROTOCOL,
        "type": "request",
        "id": request_id,
        "op": op,
        "args": dict(args),
        "to": page,
    }
