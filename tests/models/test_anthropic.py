"""The Anthropic adapter through the real SDK, over loopback HTTP."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest

from jupyter_ctx.config import Settings, make_settings
from jupyter_ctx.core.blocks import Message, Text, Thinking, ToolUse, assistant, user
from jupyter_ctx.core.ports import BlockDone, Breakpoint, Delta, ReplyDone, Request, TextPart
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import (
    AuthError,
    CtxError,
    ModelError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    RequestRefusedError,
    RequestTooLargeError,
    StreamBrokenError,
    UnknownModelError,
    UnreachableError,
)
from jupyter_ctx.models.anthropic import AnthropicModel

from . import events as ev
from .raw_server import JSON, SSE, Answer, RawServer, Received, error, sse, sse_bytes

NAME = "claude-sonnet-5-5"
KEY = "sk-ant-0123456789abcdef"
HELLO = ev.reply(ev.thinking(0, "hm"), ev.text(1, "Hel", "lo"))


@asynccontextmanager
async def model_at(
    url: str, settings: Settings | None = None, key: str = KEY, name: str = NAME
) -> AsyncIterator[AnthropicModel]:
    """Give a model that talks to `url`, closed afterwards."""
    environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}
    redactor = Redactor({"ANTHROPIC_API_KEY": KEY})
    model = AnthropicModel(name, settings or make_settings({}), environ, redactor)
    try:
        yield model
    finally:
        await model.aclose()


def ask(*messages: Message, **changes: Any) -> Request:
    """Return a request."""
    fields: dict[str, Any] = {
        "model": NAME,
        "system": "Be brief.",
        "tools": ({"name": "run_code", "input_schema": {"type": "object"}},),
        "messages": messages or (user(Text("hi")),),
        "max_tokens": 100,
        "thinking": "adaptive",
    }
    return Request(**{**fields, **changes})


async def collect(model: AnthropicModel, request: Request | None = None) -> list[Delta]:
    """Return the whole reply."""
    return [delta async for delta in model.stream(request or ask())]


async def fail(*answers: Answer, settings: Settings | None = None) -> CtxError:
    """Return the error that these answers raise."""
    with RawServer(*answers) as server:
        async with model_at(server.url, settings) as model:
            with pytest.raises(CtxError) as caught:
                await collect(model)
    found = caught.value
    assert found.__suppress_context__ or not found.__context__, "the SDK's trace shows its words"
    return found


def key_of(sent: Received) -> str:
    """Return the key of a request, in whichever header the SDK sends it."""
    return sent.headers.get("x-api-key") or sent.headers["authorization"].removeprefix("Bearer ")


# The good path


async def test_a_reply_streams_through_the_sdk() -> None:
    """Deltas come in order, the ReplyDone last, with the usage the provider reported."""
    with RawServer(sse(*HELLO)) as server:
        async with model_at(server.url) as model:
            deltas = await collect(model)

    assert [delta.text for delta in deltas if isinstance(delta, TextPart)] == ["Hel", "lo"]
    assert [type(d.block) for d in deltas if isinstance(d, BlockDone)] == [Thinking, Text]
    assert isinstance(deltas[-1], ReplyDone)
    assert deltas[-1].usage.used_tokens == 170_903


async def test_the_request_on_the_wire() -> None:
    """The key goes as a header, the body is the request and `stream`, nothing else."""
    with RawServer(sse(*HELLO)) as server:
        async with model_at(server.url) as model:
            await collect(model, ask(effort="low", breakpoints=(Breakpoint("system"),)))
    (sent,) = server.requests

    assert sent.path == "/v1/messages"
    assert key_of(sent) == KEY
    assert "anthropic-beta" not in sent.headers
    cache = {"type": "ephemeral", "ttl": "5m"}
    assert json.loads(sent.body) == {
        "model": NAME,
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": cache}],
        "tools": [{"name": "run_code", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low"},
        "stream": True,
    }


async def test_the_same_request_has_the_same_bytes() -> None:
    """Sent again, also by a new model, a request is byte for byte the same; so is its beginning."""
    call = assistant(
        Thinking({"signature": "s=", "type": "thinking", "thinking": "é"}),
        ToolUse("t1", "run_code", {"z": [1.5, None], "a": {"y": 1, "b": "🙂"}}),
    )
    with RawServer(sse(*HELLO)) as server:
        async with model_at(server.url) as model:
            await collect(model, ask(user(Text("hi")), call))
            await collect(model, ask(user(Text("hi")), call))
        async with model_at(server.url) as model:
            await collect(model, ask(user(Text("hi")), call))
            await collect(model, ask(user(Text("hi")), call, user(Text("more"))))
    first, second, third, longer = (sent.body for sent in server.requests)

    assert first == second == third
    start = first[: first.index(b'"more"') if b'"more"' in first else first.rindex(b"]}]")]
    assert longer.startswith(start)
    assert b'{"signature":"s=","type":"thinking","thinking":"\xc3\xa9"}' in first
    assert b'{"z":[1.5,null],"a":{"y":1,"b":"\xf0\x9f\x99\x82"}}' in first


async def test_half_characters_do_not_stop_a_request() -> None:
    """A prompt with half a surrogate pair is sent with U+FFFD in its place."""
    with RawServer(sse(*HELLO)) as server:
        async with model_at(server.url) as model:
            await collect(model, ask(user(Text("a \ud800 b"))))
    (sent,) = server.requests

    assert "a � b" in sent.body.decode()


async def test_a_connection_is_used_again() -> None:
    """Steps of a turn share one connection."""
    with RawServer(sse(*HELLO)) as server:
        async with model_at(server.url) as model:
            for _ in range(3):
                await collect(model)

    assert len(server.connections) == 1


async def test_bytes_in_any_pieces_are_one_stream() -> None:
    """However the network cuts the stream, also within a character, the reply is the same."""
    whole = b"".join(sse_bytes(event) for event in ev.reply(ev.text(0, "naïve 🙂")))
    whole = whole.replace(b"na\\u00efve \\ud83d\\ude42", "naïve 🙂".encode())
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    with RawServer(Answer(pieces=pieces)) as server:
        async with model_at(server.url) as model:
            deltas = await collect(model)

    assert BlockDone(Text("naïve 🙂")) in deltas


# Traps of the SDK: each is a broken stream, or what the provider said


async def test_an_early_end_is_a_broken_stream() -> None:
    """A stream that ends properly, but before the message does, raises."""
    for length in (0, 3, len(HELLO) - 1):
        assert type(await fail(sse(*HELLO[:length]))) is StreamBrokenError


async def test_a_dropped_connection_is_a_broken_stream() -> None:
    """A connection cut in mid-stream raises StreamBrokenError, not the transport's own error."""
    pieces = [sse_bytes(event) for event in HELLO[:4]]
    found = await fail(Answer(pieces=pieces, ending="drop"))

    assert type(found) is StreamBrokenError
    assert "http://127.0.0.1" in str(found)


async def test_a_silent_stream_is_a_broken_stream() -> None:
    """A stream that says nothing for `timeout_s` raises StreamBrokenError that says so."""
    pieces = [sse_bytes(HELLO[0])]
    settings = make_settings({"timeout_s": 0.2})
    found = await fail(Answer(pieces=pieces, ending="stall"), settings=settings)

    assert type(found) is StreamBrokenError
    assert "0.2 s" in str(found)


@pytest.mark.parametrize(
    "chunk",
    [
        b"event: content_block_delta\ndata: {oops\n\n",
        b"event: content_block_delta\ndata: [1]\n\n",
        b"event: content_block_delta\ndata: \xff\xfe\n\n",
        b"<html>oops</html>\n\n",
        b"data: {}\n\n",
    ],
)
async def test_a_bad_chunk_is_a_broken_stream(chunk: bytes) -> None:
    """Bytes that are no event raise StreamBrokenError."""
    assert type(await fail(Answer(pieces=[sse_bytes(HELLO[0]), chunk]))) is StreamBrokenError


async def test_a_json_answer_is_no_stream() -> None:
    """A whole message in place of a stream raises StreamBrokenError."""
    message = json.dumps({"type": "message", "content": []}).encode()

    assert type(await fail(Answer(headers=dict(JSON), pieces=[message]))) is StreamBrokenError


async def test_an_error_in_the_stream_is_what_it_says() -> None:
    """An error event after 200 is the error of its type, also after text has come."""
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    found = await fail(sse(*HELLO[:4], event))

    assert type(found) is OverloadedError
    assert found.retryable
    assert "Overloaded" in str(found)


async def test_an_error_event_without_json_is_a_broken_stream() -> None:
    """An error event whose data is plain text raises, its words quoted."""
    found = await fail(Answer(pieces=[b"event: error\ndata: upstream gone\n\n"]))

    assert type(found) is StreamBrokenError
    assert "upstream gone" in str(found)


async def test_a_server_that_lingers_after_the_end_costs_nothing() -> None:
    """A complete reply is complete, also when its connection breaks after it."""
    pieces = [sse_bytes(event) for event in HELLO]
    for ending in ("drop", "stall"):
        with RawServer(Answer(pieces=pieces, ending=ending)) as server:
            async with model_at(server.url) as model:
                deltas = await collect(model)
        assert isinstance(deltas[-1], ReplyDone)


async def test_one_attempt_is_one_request() -> None:
    """The SDK does not retry: the loop does."""
    with RawServer(error(529, "overloaded_error", "Overloaded")) as server:
        async with model_at(server.url) as model:
            with pytest.raises(OverloadedError):
                await collect(model)

    assert len(server.requests) == 1


# Errors


@pytest.mark.parametrize(
    ("answer", "ours", "words"),
    [
        (error(401, "authentication_error", "invalid x-api-key"), AuthError, "ANTHROPIC_API_KEY"),
        (error(403, "permission_error", "no"), AuthError, "ANTHROPIC_API_KEY"),
        (error(404, "not_found_error", f"model: {NAME}"), UnknownModelError, "/model"),
        (error(402, "billing_error", "pay"), RequestRefusedError, "credit"),
        (error(413, "request_too_large", "big"), RequestTooLargeError, "bytes"),
        (error(400, "invalid_request_error", "odd"), RequestRefusedError, "odd"),
        (error(500, "api_error", "oops"), OverloadedError, "oops"),
        (Answer(404, pieces=[b"<html>nginx</html>"]), RequestRefusedError, "ANTHROPIC_BASE_URL"),
        (Answer(502, pieces=[b"bad gateway"]), OverloadedError, "bad gateway"),
    ],
)
async def test_answers_are_translated(answer: Answer, ours: type[CtxError], words: str) -> None:
    """An error answer comes out as one sentence that names the place, with the cause."""
    found = await fail(answer)

    assert type(found) is ours
    assert words in str(found)
    assert "http://127.0.0.1" in str(found)


async def test_a_prompt_over_the_window_says_by_how_much() -> None:
    """The numbers of the overflow are on the error."""
    words = "prompt is too long: 210000 tokens > 200000 maximum"
    found = await fail(error(400, "invalid_request_error", words))

    assert isinstance(found, PromptTooLongError)
    assert (found.actual_tokens, found.limit_tokens) == (210_000, 200_000)
    assert found.request_id == "req_1"


async def test_a_limit_says_how_long_to_wait() -> None:
    """`retry-after` is on the error."""
    answer = error(429, "rate_limit_error", "slow", **{"retry-after": "7"})
    found = await fail(answer)

    assert isinstance(found, RateLimitedError)
    assert found.retry_after_s == 7


async def test_an_echoed_key_is_redacted() -> None:
    """A provider that quotes the key in its error does not show it."""
    found = await fail(error(401, "authentication_error", f"Incorrect API key: {KEY}"))

    assert KEY not in str(found)
    assert "[redacted: ANTHROPIC_API_KEY]" in str(found)


async def test_a_refused_connection_names_the_address() -> None:
    """With no server there, the error is UnreachableError that names where it looked."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url = f"http://user:pass@127.0.0.1:{port}"
    async with model_at(url) as model:
        for call in (collect, AnthropicModel.load_facts, lambda at: at.count_tokens(ask())):
            with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}") as caught:
                await call(model)
            assert caught.value.retryable
            assert "pass" not in caught.value.url + str(caught.value)
            assert "refused" in str(caught.value)


async def test_a_server_that_hangs_up_unanswered_is_a_broken_stream() -> None:
    """A connection closed before an answer raises StreamBrokenError, which may be tried again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def hang_up() -> None:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connection.close()

        async with model_at(f"http://127.0.0.1:{listener.getsockname()[1]}") as model:
            closing = asyncio.create_task(hang_up())
            with pytest.raises(StreamBrokenError) as caught:
                await collect(model)
            await closing
    assert caught.value.retryable


async def test_no_key_is_said_before_anything_is_sent(tmp_path: object) -> None:
    """Without a key every call to a remote provider raises AuthError that names the variable."""
    environ = {"ANTHROPIC_CONFIG_DIR": str(tmp_path), "ANTHROPIC_BASE_URL": "https://192.0.2.1"}
    model = AnthropicModel(NAME, make_settings({}), environ, Redactor([]))

    for call in (collect, AnthropicModel.load_facts, lambda at: at.count_tokens(ask())):
        with pytest.raises(AuthError, match="ANTHROPIC_API_KEY") as caught:
            await call(model)
        assert not caught.value.retryable


async def test_a_server_on_this_machine_needs_no_key(tmp_path: object) -> None:
    """A loopback base URL without a key is asked with a placeholder."""
    with RawServer(sse(*HELLO)) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_CONFIG_DIR": str(tmp_path)}
        model = AnthropicModel(NAME, make_settings({}), environ, Redactor([]))
        await collect(model)
        await model.aclose()

    assert key_of(server.requests[0]) == "no-key-needed"


async def test_the_sdks_own_profiles_are_honoured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without key and token a profile of the SDK signs the calls; a broken one is an AuthError."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    (tmp_path / "configs").mkdir()
    profile = {"authentication": {"type": "oidc_federation"}}
    (tmp_path / "configs" / "default.json").write_text(json.dumps(profile))
    with RawServer(sse(*HELLO)) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_CONFIG_DIR": str(tmp_path)}
        model = AnthropicModel(NAME, make_settings({}), environ, Redactor([]))
        with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
            await collect(model)
        await model.aclose()
    assert server.requests == []


async def test_a_token_goes_as_a_bearer() -> None:
    """ANTHROPIC_AUTH_TOKEN is sent as the SDK sends it, without a key."""
    with RawServer(sse(*HELLO)) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": "tok-123"}
        model = AnthropicModel(NAME, make_settings({}), environ, Redactor([]))
        await collect(model)
        await model.aclose()
    (sent,) = server.requests

    assert sent.headers["authorization"] == "Bearer tok-123"


async def test_a_bad_token_is_named_by_its_own_variable() -> None:
    """The error about a refused token names ANTHROPIC_AUTH_TOKEN."""
    with RawServer(error(401, "authentication_error", "invalid bearer token")) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": "tok-123"}
        model = AnthropicModel(NAME, make_settings({}), environ, Redactor([]))
        with pytest.raises(AuthError, match="ANTHROPIC_AUTH_TOKEN"):
            await collect(model)
        await model.aclose()


# Stopping


async def wait_for(event: Callable[[float], bool]) -> None:
    """Wait for a thread's event off the loop."""
    assert await asyncio.to_thread(event, 20)


@pytest.mark.parametrize("pieces", [[], [sse_bytes(event) for event in HELLO[:5]]])
async def test_a_cancelled_stream_hangs_up(pieces: list[bytes]) -> None:
    """Cancelling the task that reads, before the first event or after, closes the connection."""
    with RawServer(Answer(pieces=pieces, ending="stall")) as server:
        async with model_at(server.url) as model:
            task = asyncio.create_task(collect(model))
            await wait_for(server.stalled.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await wait_for(server.hung_up.wait)


async def test_stopping_does_not_wait_for_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn stopped while the SDK is being imported ends at once; the import goes on by itself."""
    begun, may_end = threading.Event(), threading.Event()

    def slow(name: str) -> object:
        begun.set()
        assert may_end.wait(20)
        return anthropic

    monkeypatch.setattr(importlib, "import_module", slow)
    async with model_at("http://127.0.0.1:9") as model:
        task = asyncio.create_task(collect(model))
        await wait_for(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not may_end.is_set()
        may_end.set()


async def test_a_closed_iterator_hangs_up() -> None:
    """Closing the iterator after the first delta closes the connection."""
    pieces = [sse_bytes(event) for event in HELLO[:5]]
    with RawServer(Answer(pieces=pieces, ending="stall")) as server:
        async with model_at(server.url) as model:
            deltas = model.stream(ask())
            await anext(deltas)
            await deltas.aclose()  # type: ignore[attr-defined]  # a generator behind the protocol
            await wait_for(server.hung_up.wait)


async def test_a_model_can_be_used_after_a_cancelled_call() -> None:
    """The next call after a cancelled one works."""
    with RawServer(Answer(ending="stall"), sse(*HELLO)) as server:
        async with model_at(server.url) as model:
            task = asyncio.create_task(collect(model))
            await wait_for(server.stalled.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert isinstance((await collect(model))[-1], ReplyDone)


# Facts


def info(**more: object) -> Answer:
    """Return an answer of the Models API."""
    known = {
        "id": NAME,
        "type": "model",
        "display_name": "Claude Sonnet 5.5",
        "created_at": "2026-09-28T00:00:00Z",
        "lifecycle": "active",
    }
    return Answer(headers=dict(JSON), pieces=[json.dumps({**known, **more}).encode()])


async def test_facts_come_from_the_models_api_once() -> None:
    """Window and output limit are the provider's, the rest the table's; it is asked once."""
    types = {"adaptive": {"supported": False}}
    capabilities = {"thinking": {"supported": True, "types": types}}
    answer = info(max_input_tokens=16_000, max_tokens=4_000, capabilities=capabilities)
    with RawServer(answer) as server:
        async with model_at(server.url) as model:
            facts = await model.load_facts()
            assert await model.load_facts() is facts

    assert (facts.window_tokens, facts.window_source) == (16_000, "api")
    assert facts.max_output_tokens == 4_000
    assert facts.label == "Claude Sonnet 5.5"
    assert facts.max_images == 100
    assert not facts.adaptive_thinking
    assert facts.binds_thinking
    assert facts.prices is not None
    assert [sent.path for sent in server.requests] == [f"/v1/models/{NAME}"]


@pytest.mark.parametrize(
    "answer",
    [
        error(404, "not_found_error", "no such endpoint"),
        Answer(404, pieces=[b"<html>"]),
        Answer(405, pieces=[b""]),
        error(400, "invalid_request_error", "odd"),
        error(529, "overloaded_error", "Overloaded"),
        error(429, "rate_limit_error", "slow"),
        info(),
        info(max_input_tokens="many", max_tokens=None, capabilities=[], display_name=7),
        info(max_input_tokens=0, max_tokens=-1),
        Answer(headers=dict(JSON), pieces=[b"[1, 2]"]),
        Answer(headers=dict(JSON), pieces=[b"{oops"]),
        Answer(headers=dict(SSE), pieces=[b"<html>hello</html>"]),
        Answer(ending="stall"),
        Answer(ending="drop"),
    ],
)
async def test_a_provider_that_does_not_say_leaves_the_table(answer: Answer) -> None:
    """Whatever the models endpoint does but refuse the key, the table's figures stand."""
    with RawServer(answer) as server:
        async with model_at(server.url, make_settings({"timeout_s": 0.3})) as model:
            facts = await model.load_facts()

    assert (facts.window_tokens, facts.window_source) == (1_000_000, "table")
    assert facts.max_output_tokens == 128_000
    assert facts.adaptive_thinking
    assert facts.name == NAME


async def test_nothing_known_is_unknown() -> None:
    """A model neither provider nor table knows has no window, and says so."""
    with RawServer(Answer(404)) as server:
        async with model_at(server.url, name="local") as model:
            facts = await model.load_facts()

    assert (facts.window_tokens, facts.window_source) == (None, "unknown")
    assert facts.prices is None


async def test_a_refused_key_shows_when_facts_are_loaded() -> None:
    """401 and 403 at the models endpoint raise AuthError."""
    for status, kind in ((401, "authentication_error"), (403, "permission_error")):
        with RawServer(error(status, kind, "no")) as server:
            async with model_at(server.url) as model:
                with pytest.raises(AuthError):
                    await model.load_facts()


async def test_a_busy_provider_is_asked_again_for_facts() -> None:
    """What a busy provider did not say is asked for the next time."""
    answers = error(529, "overloaded_error", "Overloaded"), info(max_input_tokens=16_000)
    with RawServer(*answers) as server:
        async with model_at(server.url) as model:
            assert (await model.load_facts()).window_source == "table"
            assert (await model.load_facts()).window_source == "api"


# Counting


async def test_the_providers_own_count() -> None:
    """The count asks about the same prompt, and is the provider's number."""
    answer = Answer(headers=dict(JSON), pieces=[b'{"input_tokens": 321}'])
    with RawServer(answer) as server:
        async with model_at(server.url) as model:
            assert await model.count_tokens(ask(effort="low")) == 321
    (sent,) = server.requests

    assert sent.path == "/v1/messages/count_tokens"
    assert set(json.loads(sent.body)) == {
        "model",
        "system",
        "tools",
        "messages",
        "thinking",
        "output_config",
    }


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_server_without_a_count_has_none(status: int) -> None:
    """404, 405 and 501 mean that the server has no count: None."""
    with RawServer(Answer(status, pieces=[b"no"])) as server:
        async with model_at(server.url) as model:
            assert await model.count_tokens(ask()) is None


async def test_an_odd_count_is_none_and_a_refused_one_raises() -> None:
    """An answer without a number is no count; a refusal is an error."""
    with RawServer(Answer(headers=dict(JSON), pieces=[b'{"input_tokens": "x"}'])) as server:
        async with model_at(server.url) as model:
            assert await model.count_tokens(ask()) is None
    with RawServer(error(400, "invalid_request_error", "odd")) as server:
        async with model_at(server.url) as model:
            with pytest.raises(ModelError, match="odd"):
                await model.count_tokens(ask())
