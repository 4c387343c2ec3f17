"""The HTTP side: one thread for each connection, HTTP/1.1, streams flushed event by event."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from .errors import ApiError
from .script import Broken, Foreign, Hold

if TYPE_CHECKING:
    from .exchange import Exchange
    from .fake import FakeAnthropic
    from .writing import Event


class ClientGoneError(Exception):
    """The client closed the connection."""


class Gate:
    """A place where streams wait; opening it lets every waiter through, for good."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._waiting, self._opening = socket.socketpair()

    def open(self) -> None:
        """Let waiters through."""
        self._opening.send(b"x")

    def wait(self, client: socket.socket) -> None:
        """Wait until it opens. Raises ClientGoneError if the client goes away before."""
        self.reached.set()
        watched = [self._waiting, client]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self._waiting in ready:
                return
            if not client.recv(1, socket.MSG_PEEK):
                raise ClientGoneError
            watched = [self._waiting]

    def close(self) -> None:
        """Free the sockets."""
        self._waiting.close()
        self._opening.close()


class HttpServer(ThreadingHTTPServer):
    """A server that can close every connection and wait for its threads."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, fake: FakeAnthropic, host: str, port: int) -> None:
        self.fake = fake
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__((host, port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        with self._lock:
            self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Errors of a handler are kept by the handler itself."""

    def close_connections(self) -> None:
        """Close what is open and wait for the threads, 5 seconds each at most."""
        with self._lock:
            opened = list(self._open.items())
        for connection, thread in opened:
            with contextlib.suppress(OSError):  # the other side was quicker
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(5)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpServer

    def do_GET(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the requests are recorded."""

    def _handle(self, body: bytes) -> None:
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        exchange = self.server.fake.begin(self.command, url.path, query, headers, body)
        try:
            self._answer(exchange)
        except ApiError as error:
            exchange.fail(error)
            self._send_json(error.status, error.body(exchange.request_id), exchange, error.headers)
        except (ClientGoneError, ConnectionError):
            exchange.record.gone.set()
            self.close_connection = True
        except Exception as error:  # shown when the server is closed: a fault of script or fake
            self.server.fake.problems.append(error)
            fault = ApiError(400, f"fault in the fake or its script: {error!r}")
            exchange.fail(fault)
            self._send_json(fault.status, fault.body(exchange.request_id), exchange)
        finally:
            exchange.record.done.set()

    def _answer(self, exchange: Exchange) -> None:
        result = exchange.answer()
        for name in exchange.holds:
            self.server.fake.gate(name).wait(self.connection)
        if isinstance(result, Foreign):
            exchange.record.status = result.status
            self._send(result.status, result.content_type, result.body, exchange)
        elif isinstance(result, Broken):
            self._drop()
        elif isinstance(result, list):
            self._stream(result, exchange)
        else:
            self._send_json(200, result, exchange)

    def _send_json(
        self,
        code: int,
        value: object,
        exchange: Exchange,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        data = json.dumps(value, ensure_ascii=False).encode()
        self._send(code, "application/json", data, exchange, headers)

    def _send(
        self,
        code: int,
        content_type: str,
        data: bytes,
        exchange: Exchange,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._begin(code, content_type, exchange, {**(headers or {}), "content-length": len(data)})
        self.wfile.write(data)

    def _begin(
        self, code: int, content_type: str, exchange: Exchange, headers: Mapping[str, object]
    ) -> None:
        self.send_response(code)
        self.send_header("content-type", content_type)
        self.send_header("request-id", exchange.request_id)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()

    def _stream(self, events: list[Event], exchange: Exchange) -> None:
        """Send server-sent events one by one, stopping at holds and breaking where told."""
        headers = {"cache-control": "no-cache", "transfer-encoding": "chunked"}
        begun = False
        sent = 0
        broken = exchange.broken
        for event in events:
            if isinstance(event, Hold):
                self.server.fake.gate(event.name).wait(self.connection)
                continue
            if not begun:
                self._begin(200, exchange.stream_type, exchange, headers)
                begun = True
            if broken is not None and sent == broken.after and not self._break(broken, exchange):
                return
            is_whole = broken is None or broken.how == "stall"
            exchange.record.complete = exchange.is_last(event) and is_whole
            self._chunk(exchange.encode(event))
            self.server.fake.pause()
            sent += 1
        self.wfile.write(b"0\r\n\r\n")

    def _break(self, broken: Broken, exchange: Exchange) -> bool:
        """Do what is broken at this place; return whether the stream goes on."""
        if broken.how == "disconnect":
            self._drop()
        elif broken.how == "truncate":
            self.wfile.write(b"0\r\n\r\n")
        elif broken.how == "corrupt":
            self._chunk(exchange.corrupt_text)
            self.wfile.write(b"0\r\n\r\n")
        elif broken.how == "error":
            self._chunk(exchange.encode_error(broken.detail))
            self.wfile.write(b"0\r\n\r\n")
        elif broken.how == "stall":
            self.server.fake.gate(broken.detail).wait(self.connection)
            return True
        return False

    def _chunk(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _drop(self) -> None:
        """Close the connection with what was promised unsent."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
