"""The front end of one kernel, without a person: runs cells, and is the page of the agent in it.

One thread does all: it waits for the kernel's messages, folds outputs in, and answers at once what
the kernel asks of the notebook, on the control channel, in parts (ipython/frontend.py has the
other end). No cell may ask for input.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ..ipython.frontend import PROTOCOL
from .cells import CellOutputs, Displays
from .page import JsonDict, NotebookPage

READY_S = 60.0
"""How long a kernel may take to start."""
STOP_S = 10.0
"""How long a stopped cell may take to end before its kernel is killed; a turn needs 2 s."""
AGAIN_S = 3.0
"""After so long a stopped cell is interrupted again: a kernel between two cells hears nothing."""
POLL_MS = 50
"""So long is a message waited for at once: a stop is heard at least so often."""
PART_CHARS = 16_000
"""So long is a part of an answer at most: a character is up to 4 bytes, a message 64 KB."""
REMEMBERED = 256
"""So many answered requests are remembered, so that one heard twice is done once."""


class KernelGoneError(Exception):
    """The kernel did not start, died or was killed. The text is a sentence for the person."""


@dataclass(slots=True)
class Stop:
    """Whether what runs is to stop: Ctrl-C once stops the cell, twice kills the kernel.

    `deadline` is by time.monotonic(), None: there is none. `reason` says what stopped it.
    """

    presses: int = 0
    deadline: float | None = None
    reason: str = ""

    @property
    def is_due(self) -> bool:
        """Whether to stop; the deadline counts."""
        if not self.reason and self.presses:
            self.reason = "Stopped by you."
        if not self.reason and self.deadline is not None and time.monotonic() >= self.deadline:
            self.reason = "Stopped: the time is over (--timeout)."
        return bool(self.reason)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear SIGINT and SIGTERM meanwhile; the third acts as it always does."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

        def hear(signum: int, frame: FrameType | None) -> None:
            self.presses += 1
            if self.presses > 2:
                raise KeyboardInterrupt

        for one in old:
            signal.signal(one, hear)
        try:
            yield
        finally:
            for one, handler in old.items():
                signal.signal(one, handler)


@dataclass(slots=True)
class Ran:
    """How a cell ended: the content of the kernel's reply."""

    reply: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.reply.get("status") == "ok"

    @property
    def error(self) -> str:
        """Its error in one line: "NameError: name 'x' is not defined"; "" if there is none."""
        if self.ok:
            return ""
        name, value = str(self.reply.get("ename", "")), str(self.reply.get("evalue", ""))
        said = " ".join(value.split())
        if name == "UsageError":
            return said
        return f"{name}: {said}" if said else name or "it was not run"


@dataclass
class Front:
    """One kernel and its channels, for as long as `start` is entered.

    `session_id` is that of the agent's session, None before it said so.
    """

    manager: Any
    client: Any
    page: NotebookPage
    stop: Stop
    log: Any
    session_id: str | None = None
    _displays: Displays = field(default_factory=Displays)
    _answered: list[str] = field(default_factory=list)
    _open_replies: set[str] = field(default_factory=set)
    _stopped_at: float | None = None
    _interrupt_at: float = 0.0

    def run(
        self,
        source: str,
        cell: JsonDict | None = None,
        on_display: Callable[[str | None, Mapping[str, Any]], None] = lambda name, content: None,
    ) -> Ran:
        """Run a source to its end; with a `cell`, as that cell, whose outputs are renewed.

        Without one it is no part of the history. Raises KernelGoneError.
        """
        outputs: list[JsonDict] = []
        if cell is not None:
            cell.update(outputs=outputs, execution_count=None)
            self.page.running = cell["id"]
        try:
            request = self._send(source, cell)
            self._follow(request, CellOutputs(outputs, self._displays, on_display))
            ran = Ran(self._reply(request))
        finally:
            self.page.running = None
        if cell is not None:
            count = ran.reply.get("execution_count")
            cell["execution_count"] = count if isinstance(count, int) else None
            self.page.note_run(cell["id"])
        return ran

    def evaluate(self, expression: str) -> object:
        """Return the value of an expression in the kernel, by its repr; None if it has none.

        Raises KernelGoneError.
        """
        request = self._send("", None, {"it": expression})
        self._follow(request, CellOutputs([], self._displays))
        told = self._reply(request).get("user_expressions", {}).get("it", {})
        try:
            return ast.literal_eval(told["data"]["text/plain"])
        except (KeyError, ValueError, SyntaxError):
            return None

    def settle(self) -> None:
        """Wait until the kernel has taken every answer of the page. Raises KernelGoneError."""
        end = time.monotonic() + STOP_S
        while self._open_replies and time.monotonic() < end:
            self._mind(None)
            self._hear(None, None)

    # The cell -----------------------------------------------------------------------------------

    def _send(
        self, source: str, cell: JsonDict | None, expressions: Mapping[str, str] | None = None
    ) -> str:
        content = {
            "code": source,
            "silent": False,
            "store_history": cell is not None,
            "user_expressions": dict(expressions or {}),
            "allow_stdin": False,
            "stop_on_error": True,
        }
        metadata = {} if cell is None else {"cellId": cell["id"]}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def _follow(self, request: str, outputs: CellOutputs) -> None:
        """Fold in what the cell sends until the kernel is idle again."""
        self._stopped_at, self._interrupt_at = None, 0.0
        while not self._hear(request, outputs):
            self._mind(request)

    def _reply(self, request: str) -> Mapping[str, Any]:
        end = time.monotonic() + STOP_S
        while time.monotonic() < end:
            if self.client.shell_channel.socket.poll(POLL_MS):
                message = self.client.shell_channel.get_msg(timeout=1)
                if message["parent_header"].get("msg_id") == request:
                    content: Mapping[str, Any] = message["content"]
                    return content
            self._mind(None)
        raise KernelGoneError("The kernel gave no reply.")

    def _hear(self, request: str | None, outputs: CellOutputs | None) -> bool:
        """Take the next message, if one comes soon; return whether it ends the request."""
        channel = self.client.iopub_channel
        if not channel.socket.poll(POLL_MS):
            return False
        message = channel.get_msg(timeout=1)
        kind, content = message["header"]["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id")
        if kind == "comm_msg":
            self._on_comm(content)
        elif kind == "status" and content.get("execution_state") == "idle":
            self._open_replies.discard(parent)
            return request is not None and parent == request
        elif outputs is not None and parent == request:
            outputs.add(kind, content)
        return False

    def _mind(self, request: str | None) -> None:
        """Interrupt the cell if it is to stop; see whether the kernel is still there."""
        if not self.manager.is_alive():
            raise KernelGoneError(f"The kernel died.{self.last_words()}")
        if request is None or not self.stop.is_due:
            return
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
        if now >= self._interrupt_at:
            self._interrupt_at = now + AGAIN_S
            self.manager.interrupt_kernel()
        elif self.stop.presses > 1 or now > self._stopped_at + STOP_S:
            self.manager.shutdown_kernel(now=True)
            raise KernelGoneError(f"{self.stop.reason} The kernel was killed.")

    def last_words(self) -> str:
        """Return, with a space before, the last line that the kernel wrote outside of its cells."""
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - 2_000))
        lines = self.log.read().decode("utf-8", "replace").strip().splitlines()
        return f" Its last words: {lines[-1][:300]}" if lines else ""

    # The page -----------------------------------------------------------------------------------

    def _on_comm(self, content: Mapping[str, Any]) -> None:
        """Hear what the agent says: answer a request, note the session."""
        data = content.get("data")
        if not isinstance(data, Mapping) or data.get("version") != PROTOCOL:
            return
        if data.get("type") == "hello" and isinstance(data.get("session"), str):
            self.session_id = data["session"]
        if data.get("type") == "request" and data.get("to") in (None, self._name):
            self._answer(str(content["comm_id"]), data)

    @property
    def _name(self) -> str:
        """The page's name: the client that runs the cells."""
        return str(self.client.session.session)

    def _answer(self, comm_id: str, request: Mapping[str, Any]) -> None:
        request_id, args = str(request.get("id")), request.get("args")
        if request_id in self._answered:
            return
        self._answered = [*self._answered[1 - REMEMBERED :], request_id]
        answer = self.page.respond(str(request.get("op")), args if isinstance(args, dict) else {})
        for part in split_answer(request_id, self._name, answer):
            message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": part})
            self._open_replies.add(message["header"]["msg_id"])
            self.client.control_channel.send(message)


def split_answer(request_id: str, client: str, answer: JsonDict) -> list[JsonDict]:
    """Return the messages that carry an answer, none over 64 KB."""
    text = json.dumps(answer)
    pieces = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
    return [
        {
            "version": PROTOCOL,
            "type": "reply",
            "id": request_id,
            "client": client,
            "part": at,
            "parts": len(pieces),
            "text": piece,
        }
        for at, piece in enumerate(pieces, 1)
    ]


@contextlib.contextmanager
def start(
    kernel: str, folder: str, env: Mapping[str, str], page: NotebookPage, stop: Stop
) -> Iterator[Front]:
    """Give the front end of a new kernel in `folder`; it is shut down at the end.

    Raises KernelGoneError if it does not start.
    """
    from jupyter_client.manager import KernelManager

    manager: Any = KernelManager(kernel_name=kernel)
    with tempfile.TemporaryFile("a+b") as log, contextlib.ExitStack() as undo:
        undo.callback(manager.cleanup_resources)
        try:
            manager.start_kernel(env=dict(env), cwd=folder, stdout=log, stderr=log)
            undo.callback(_shut_down, manager)
            client: Any = manager.client()
            client.start_channels()
            undo.callback(client.stop_channels)
            client.wait_for_ready(timeout=READY_S)
        except (RuntimeError, OSError) as error:
            front = Front(manager, None, page, stop, log)
            raise KernelGoneError(
                f"Kernel {kernel} did not start: {error}.{front.last_words()}"
            ) from None
        with stop.listening():
            yield Front(manager, client, page, stop, log)


def _shut_down(manager: Any) -> None:
    """End the kernel; it may close its session first."""
    if manager.has_kernel:
        manager.shutdown_kernel(now=not manager.is_alive())
