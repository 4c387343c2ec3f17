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
