"""Servers that answer oddly, byte by byte: what the adapter makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.ports import Delta, ReplyDone, Request
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import (
    ConfigError,
    ModelError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    RequestRefusedError,
    StreamBrokenError,
)
from jupyter_ctx.models.openai import OpenAIModel
from tests.models.raw_server import JSON, SSE, Answer, RawServer
from tests.models.test_openai import message_of

KEY = "sk-test-0123456789"
NAMES = Redactor({"OPENAI_API_KEY": KEY})


def model_at(url: str, **environ: str) -> OpenAIModel:
    """Return a model at the address `url`."""
    settings = make_settings({"base_url": url})
    return OpenAIModel("openai:m", settings, {"OPENAI_API_KEY": KEY, **environ}, NAMES)


async def ask(url: str, **environ: str) -> list[Delta]:
    """Return the reply to one prompt."""
    model = model_at(url, **environ)
    request = Request("openai:m", "", (), (user(Text("Well?")),), 1000)
    try:
        return [delta async for delta in model.stream(request)]
    finally:
        await model.aclose()


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk with one choice."""
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def data(*chunks: Mapping[str, Any]) -> bytes:
    """Return chunks as they go over the wire."""
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)


FINE = data(chunk(content="Fine."), chunk("stop")) + b"data: [DONE]\n\n"
WHOLE = {
    "id": "c1",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Fine."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}
USED = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}

ANSWERS: dict[str, Answer] = {
    "in one piece": Answer(pieces=[FINE]),
    "byte by byte": Answer(pieces=[FINE[n : n + 1] for n in range(len(FINE))]),
    "squeezed": Answer(headers={**SSE, "content-encoding": "gzip"}, pieces=[gzip.compress(FINE)]),
    "not streamed": Answer(headers=JSON, pieces=[json.dumps(WHOLE, indent=1).encode()]),
    "without [DONE]": Answer(pieces=[FINE[: FINE.index(b"data: [DONE]")]]),
    "without the last line's end": Answer(pieces=[FINE.removesuffix(b"data: [DONE]\n\n").rstrip()]),
    "with comments": Answer(pieces=[b": OPENROUTER PROCESSING\n\n", FINE, b": bye\n\n"]),
    "with usage null": Answer(pieces=[data({**chunk(), "usage": None}), FINE]),
    "with a null delta": Answer(pieces=[data({"choices": [{"delta": None}]}), FINE]),
    "with lines of a carriage return": Answer(pieces=[FINE.replace(b"\n", b"\r\n")]),
    "dropped behind its end": Answer(
        pieces=[data(chunk(content="Fine."), chunk("stop"), USED)], ending="drop"
    ),
    "an error behind its end": Answer(
        pieces=[data(chunk(content="Fine."), chunk("stop"), {"error": {"message": "late"}})]
    ),
    "rubbish behind its end": Answer(
        pieces=[data(chunk(content="Fine."), chunk("stop")), b"data: {oops\n\n"]
    ),
}


@pytest.mark.parametrize("how", ANSWERS)
async def test_an_answer_in_any_form_is_read(how: str) -> None:
    """However the bytes of a whole answer come, it is the same answer."""
    with RawServer(ANSWERS[how]) as server:
        deltas = await ask(f"{server.url}/v1")

    assert message_of(deltas).content == (Text("Fine."),)
    assert isinstance(deltas[-1], ReplyDone)
    assert deltas[-1].stop_reason == "end_turn"


async def test_a_connection_left_open_behind_a_reply_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that ends its answer and neither says so nor hangs up is not waited for."""
    monkeypatch.setattr("jupyter_ctx.models.openai.AFTERWORD_S", 0.1)
    whole = data(chunk(content="Fine."), chunk("stop"), USED)
    with RawServer(Answer(pieces=[whole], ending="stall")) as server:
        deltas = await ask(f"{server.url}/v1")
        assert server.hung_up.wait(20)

    assert message_of(deltas).content == (Text("Fine."),)
    assert isinstance(deltas[-1], ReplyDone)
    assert deltas[-1].usage.input_tokens == 7


def error(message: object, **fields: object) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    return {"error": {"message": message, **fields}}


def told(body: object, status: int = 200) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, JSON, [json.dumps(body).encode()])


BROKEN: dict[str, tuple[Answer, type[ModelError], str]] = {
    "200 with an error": (told(error("no room", code=503)), OverloadedError, "no room"),
    "200 with a list": (told([error("slow", code=429)]), RateLimitedError, "slow"),
    "200 with a text": (told({"error": "went wrong"}), StreamBrokenError, "went wrong"),
    "a page": (
        Answer(headers={"content-type": "text/html"}, pieces=[b"<html>log in</html>"]),
        StreamBrokenError,
        "a web page",
    ),
    "nothing at all": (Answer(), StreamBrokenError, "ended before"),
    "[DONE] alone": (Answer(pieces=[b"data: [DONE]\n\n"]), StreamBrokenError, "ended before"),
    "an error without a field": (
        Answer(pieces=[data(chunk(content="x"), {"object": "error", "message": "m", "code": 500})]),
        OverloadedError,
        "m",
    ),
    "an error in a choice": (
        Answer(pieces=[data({"choices": [{"error": {"code": 502, "message": "gone"}}]})]),
        OverloadedError,
        "gone",
    ),
    "an error in a list in the stream": (
        Answer(pieces=[b'data: [{"error": {"code": 503, "message": "busy"}}]\n\n']),
        OverloadedError,
        "busy",
    ),
    "an error in the middle of a call": (
        Answer(
            pieces=[
                data(
                    chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]),
                    error("over", code="server_error"),
                )
            ]
        ),
        OverloadedError,
        "over",
    ),
    "dropped in the middle of a call": (
        Answer(
            pieces=[data(chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]))],
            ending="drop",
        ),
        StreamBrokenError,
        "broke off",
    ),
    "bytes that are no text": (
        Answer(pieces=[b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n']),
        StreamBrokenError,
        "send the prompt again",
    ),
    "squeezed and cut": (
        Answer(headers={**SSE, "content-encoding": "gzip"}, pieces=[gzip.compress(FINE)[:20]]),
        StreamBrokenError,
        "send the prompt again",
    ),
    "no credit, in the stream": (
        Answer(pieces=[data(error("no credit", code="insufficient_quota"))]),
        RequestRefusedError,
        "no credit",
    ),
    "too many, in the stream, by its code": (
        Answer(pieces=[data(error("slow", type="requests", code="rate_limit_exceeded"))]),
        RateLimitedError,
        "slow",
    ),
    "too many, in the stream, in digits": (
        Answer(pieces=[data(error("slow", code="429"))]),
        RateLimitedError,
        "slow",
    ),
    "too long, in the stream": (
        Answer(pieces=[data(error("too long", code="context_length_exceeded"))]),
        PromptTooLongError,
        "too long",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_an_answer_that_is_none_says_why(how: str) -> None:
    """What is no answer is the error it means, in the server's words where it has any."""
    answer, kind, words = BROKEN[how]
    with RawServer(answer) as server, pytest.raises(kind) as caught:
        await ask(f"{server.url}/v1")

    assert type(caught.value) is kind
    assert words in str(caught.value)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_nothing_follows_to_another_address(code: int) -> None:
    """Neither key nor prompt goes where an answer points to; the error says where that is."""
    with RawServer(Answer(pieces=[FINE])) as other:
        away = Answer(code, {"location": f"{other.url}/v1/chat/completions"})
        with RawServer(away) as server, pytest.raises(RequestRefusedError) as caught:
            await ask(f"{server.url}/v1")

    assert other.requests == []
    assert f"{other.url}/v1" in str(caught.value)
    assert "set OPENAI_BASE_URL" in str(caught.value) or "base_url" in str(caught.value)


@pytest.mark.parametrize("proxy", ["foo://x", "socks9://127.0.0.1:1"])
async def test_a_proxy_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """A proxy in the environment that cannot be one is a ConfigError that names the variables."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigError, match="HTTP_PROXY"):
        await ask("http://example.invalid/v1")


@pytest.mark.parametrize(
    "url", ["user:secret@host/v1", "ftp://user:secret@host", "http://user:secret@host:99999"]
)
def test_a_password_in_an_address_that_is_none_is_not_shown(url: str) -> None:
    """What stands before the host of an address is in no error's text."""
    with pytest.raises(ConfigError) as caught:
        model_at(url)

    assert "secret" not in str(caught.value)


def test_a_key_in_the_addresses_query_is_not_shown() -> None:
    """What errors and notes call an address has no user, password, query or fragment."""
    assert model_at("http://u:p@host/v1/?key=secret#x").base_url == "http://host/v1"


async def test_a_query_in_the_address_goes_with_every_request() -> None:
    """An address such as Azure's, with a query, is asked at the right path, the query behind it."""
    with RawServer(Answer(pieces=[FINE])) as server:
        await ask(f"{server.url}/openai/deployments/d/?api-version=2024-10-21")

    assert [received.path for received in server.requests] == [
        "/openai/deployments/d/chat/completions?api-version=2024-10-21"
    ]
