"""A loopback HTTP server that says exactly what a test tells it to, faults included."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """One answer: a status, headers, the body in pieces, and how it ends.

    `end` closes the body properly, `drop` cuts the connection, `stall` says nothing more until the
    client hangs up.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(SSE))
    pieces: Sequence[bytes] = ()
    ending: Literal["end", "drop", "stall"] = "end"


def sse(*events: dict[str, Any]) -> Answer:
    """Return a whole stream of events."""
    return Answer(pieces=[sse_bytes(event) for event in events])


def sse_bytes(event: dict[str, Any]) -> bytes:
    """Return one event as it stands on the wire."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def error(status: int, kind: str, message: str, **headers: str) -> Answer:
    """Return an error in Anthropic's form."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return Answer(status, {**JSON, **headers}, [json.dumps(body).encode()])


@dataclass
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class RawServer:
    """Serves the answers in order, the last one again and again; `requests` holds what came.

    `hung_up` is set when a client left a stalled answer.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[Received] = []
        self.connections: set[tuple[str, int]] = set()
        self.hung_up = threading.Event()
        self.stalled = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """The address requests go to."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def _make_handler(server: RawServer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.requests.append(Received(self.command, self.path, headers, body))
                server.connections.add(self.client_address)
                self._answer(server._next())

            do_GET = do_POST

            def _answer(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in answer.pieces:
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
                if answer.ending == "end":
                    self.wfile.write(b"0\r\n\r\n")
                    return
                if answer.ending == "stall":
                    server.stalled.set()
                    self.connection.recv(1)
                    server.hung_up.set()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        return Handler
