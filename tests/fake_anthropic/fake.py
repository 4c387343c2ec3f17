"""The server that tests talk to: `FakeAnthropic`."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from .cache import PromptCache
from .errors import ApiError
from .exchange import MESSAGES, Exchange
from .models import DEFAULT_MODELS, FakeModel
from .record import Recorded
from .script import Answer, Given, Script, as_answer
from .server import Gate, HttpServer
from .thinking import Ledger


class FakeAnthropic:
    """A strict Messages API on a loopback port; use it as a context manager.

    `script` answers the accepted POST /v1/messages, see `script.py`. `models` maps names to what
    they accept. `api_key` None accepts any key or none. `clock` (a function, or an object with
    `now()`, seconds) rules the cache. `has_count_tokens` and `has_models` False answer 404, as some
    compatible servers do. `pace_s` waits between events, for watching. Leaving the block raises
    what went wrong inside the script or the fake itself.
    """

    path = MESSAGES

    def __init__(
        self,
        script: Script = (),
        *,
        models: Mapping[str, FakeModel] | None = None,
        api_key: str | None = None,
        clock: Any = time.time,
        host: str = "127.0.0.1",
        port: int = 0,
        has_count_tokens: bool = True,
        has_models: bool = True,
        pace_s: float = 0.0,
    ) -> None:
        self.models = dict(DEFAULT_MODELS if models is None else models)
        self.api_key = api_key
        self.has_count_tokens = has_count_tokens
        self.has_models = has_models
        self.requests: list[Recorded] = []
        self.problems: list[Exception] = []
        self.cache = PromptCache()
        self.ledger = Ledger()
        self.paused: set[str] = set()
        self.lock = threading.RLock()
        self._arrived = threading.Condition(self.lock)
        self._now: Callable[[], float] = getattr(clock, "now", clock)
        self._pace_s = pace_s
        self._talk: Callable[[dict[str, Any]], Any] | None = script if callable(script) else None
        self._answers: deque[Given] = deque(() if callable(script) else script)
        self._gates: dict[str, Gate] = {}
        self._http = HttpServer(self, host, port)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="fake-anthropic", daemon=True
        )

    # The public face --------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The base URL, for `ANTHROPIC_BASE_URL`."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    @property
    def messages(self) -> list[Recorded]:
        """The POST /v1/messages, failed ones included."""
        return [record for record in list(self.requests) if record.path == self.path]

    @property
    def accepted(self) -> list[Recorded]:
        """The POST /v1/messages that were answered with 200."""
        return [record for record in self.messages if record.status == 200]

    @property
    def refused(self) -> list[Recorded]:
        """The requests that broke a rule: [] in a healthy conversation."""
        return [record for record in list(self.requests) if record.refused]

    @property
    def unused(self) -> list[Given]:
        """The answers not yet given."""
        return list(self._answers)

    def drop_unused(self) -> None:
        """Forget the answers not yet given."""
        self._answers.clear()

    def append(self, *answers: Given) -> None:
        """Add answers to the end of the script."""
        self._answers.extend(answers)

    def wait_for(self, count: int, timeout: float = 20.0) -> list[Recorded]:
        """Wait until `count` POST /v1/messages have arrived; return them. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.messages) >= count, timeout):
                raise TimeoutError(f"{len(self.messages)} of {count} requests after {timeout} s")
        return self.messages

    def wait_held(self, name: str, timeout: float = 20.0) -> None:
        """Wait until a stream stands at the hold `name`. Raises TimeoutError."""
        if not self.gate(name).reached.wait(timeout):
            raise TimeoutError(f"no stream reached the hold {name!r} in {timeout} s")

    def release(self, name: str) -> None:
        """Let streams pass the hold `name`, now and later."""
        self.gate(name).open()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if self.problems and error is None:
            raise self.problems[0]

    def close(self) -> None:
        """Stop the server, free what is held, and wait for its threads."""
        self._http.shutdown()
        with self.lock:
            gates = list(self._gates.values())
        for gate in gates:
            gate.open()
        self._http.close_connections()
        self._http.server_close()
        self._thread.join(5)
        for gate in gates:
            gate.close()

    # What the HTTP side calls -----------------------------------------------------------------

    def begin(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> Exchange:
        """Record a request and return its exchange."""
        with self._arrived:
            number = len(self.requests) + 1
            record = Recorded(number, method, path, query, headers, body, self._now())
            self.requests.append(record)
            self._arrived.notify_all()
        return self._exchange(record)

    def _exchange(self, record: Recorded) -> Exchange:
        return Exchange(self, record)

    def gate(self, name: str) -> Gate:
        """Return the hold of that name."""
        with self.lock:
            if name not in self._gates:
                self._gates[name] = Gate()
            return self._gates[name]

    def pause(self) -> None:
        """Wait between two events, if watching was asked for."""
        if self._pace_s:
            time.sleep(self._pace_s)

    def next_answer(self, body: dict[str, Any]) -> Answer:
        """Take the next answer from the script. Raises ApiError when there is none left."""
        if self._talk is not None:
            return as_answer(self._talk(body))
        with self.lock:
            if not self._answers:
                raise ApiError(400, "the script has no answer left for this request")
            given = self._answers.popleft()
        return as_answer(given(body) if callable(given) else given)
