"""The strict fake without its sockets: the bytes, the rules and the reader are the real ones.

A request is built by the adapter's own code, judged by the fake's own rules and read by the
adapter's own reader; only HTTP is left out, so that hundreds of turns take seconds.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from jupyter_ctx.config import Settings
from jupyter_ctx.core.ports import Delta, ModelFacts, Request
from jupyter_ctx.errors import ModelError, StreamBrokenError, UnreachableError
from jupyter_ctx.models.anthropic import merge_facts
from jupyter_ctx.models.anthropic_stream import ReplyReader
from jupyter_ctx.models.anthropic_wire import MessageWires, build_params
from jupyter_ctx.models.facts import table_facts
from jupyter_ctx.models.refusals import Where, classify, read_refusal
from tests.fake_anthropic import FakeAnthropic, FakeModel, Hold
from tests.fake_anthropic.errors import ApiError
from tests.fake_anthropic.exchange import Exchange
from tests.fake_anthropic.models import model_info
from tests.fake_anthropic.record import Recorded
from tests.fake_anthropic.script import Broken, Foreign
from tests.fake_anthropic.tokens import text_tokens

URL = "http://fake"
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-ant-test"}
RATIO = 1.35


class NearCounter:
    """Counts what the fake counts, smaller by a constant factor: an estimate that can be learnt."""

    def count(self, text: str) -> int:
        """Return the raw tokens of a text."""
        return -(-text_tokens(text) * 100 // int(RATIO * 100))


@contextmanager
def judge(
    script: Callable[[dict[str, object]], object], models: Mapping[str, FakeModel]
) -> Iterator[FakeAnthropic]:
    """Give a fake that is asked in place; its port is never listened on."""
    fake = FakeAnthropic(script, models=models)
    try:
        yield fake
    finally:
        fake._http.server_close()


def facts_of(name: str, models: Mapping[str, FakeModel]) -> ModelFacts:
    """Return what the adapter would know of the fake's model."""
    info = _namespace(model_info(name, models[name]))
    return merge_facts(table_facts(name, Settings()), info)


def _namespace(value: object) -> Any:
    """Return JSON as an object with attributes, as the SDK gives it."""
    return json.loads(json.dumps(value), object_hook=lambda fields: SimpleNamespace(**fields))


class DirectModel:
    """A `core.ports.Model` that asks the fake in place.

    `point` is awaited wherever the real one waits for the network; `saw` is told every request for
    a message before it is judged.
    """

    def __init__(
        self,
        name: str,
        fake: FakeAnthropic,
        point: Callable[[], Awaitable[None]],
        saw: Callable[[Recorded], None],
    ) -> None:
        self._name = name
        self._fake = fake
        self._point = point
        self._saw = saw
        self._wires = MessageWires()
        self._where = Where(URL, name, "ANTHROPIC_API_KEY", 600, str)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def load_facts(self) -> ModelFacts:
        """Return the facts, as the Models API would tell them."""
        return facts_of(self._name, self._fake.models)

    async def count_tokens(self, request: Request) -> int | None:
        """Return the fake's own count."""
        params = build_params(request, MessageWires())
        del params["max_tokens"]
        exchange = self._begin("/v1/messages/count_tokens", params)
        await self._point()
        answered = self._answer(exchange)
        assert isinstance(answered, dict)
        return int(answered["input_tokens"])

    async def aclose(self) -> None:
        """Nothing to close."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply; one attempt, its faults those of the script."""
        params = {**build_params(request, self._wires), "stream": True}
        exchange = self._begin("/v1/messages", params)
        self._saw(exchange.record)
        await self._point()
        answered = self._answer(exchange)
        if isinstance(answered, Foreign):
            raise classify(read_refusal(answered.status, answered.body.decode()), self._where)
        if isinstance(answered, Broken):
            raise UnreachableError("No connection.", url=URL)
        assert isinstance(answered, list)
        reader = ReplyReader(URL)
        events = [event for event in answered if not isinstance(event, Hold)]
        for sent, event in enumerate(events):
            if exchange.broken is not None and sent == exchange.broken.after:
                raise self._broken(exchange.broken)
            await self._point()
            for delta in reader.feed(event[1]):
                yield delta
        reader.finish()
        exchange.record.complete = exchange.broken is None

    def _begin(self, path: str, params: Mapping[str, object]) -> Exchange:
        body = json.dumps(params, ensure_ascii=False).encode()
        return self._fake.begin("POST", path, {}, HEADERS, body)

    def _answer(self, exchange: Exchange) -> object:
        try:
            return exchange.answer()
        except ApiError as error:
            exchange.fail(error)
            response = SimpleNamespace(headers=error.headers)
            body = error.body(exchange.request_id)
            raise classify(read_refusal(error.status, body, response), self._where) from error
        finally:
            exchange.record.done.set()

    def _broken(self, broken: Broken) -> ModelError:
        if broken.how == "error":
            body = {"error": {"type": broken.detail, "message": "Overloaded"}}
            return classify(read_refusal(None, body), self._where)
        return StreamBrokenError("The answer broke off.")
