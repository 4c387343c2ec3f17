"""Scripted faults, as the SDK sees them."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

from . import (
    NO_USAGE,
    Call,
    FakeAnthropic,
    Raw,
    Text,
    corrupt,
    disconnect,
    error_event,
    foreign,
    max_tokens,
    no_stop_reason,
    pause,
    refuse,
    reply,
    stall,
    status,
    too_large,
    too_long,
    truncate,
    window_exceeded,
)
from .raw import TOOL, accept, assistant, body_of, refusal, send, tool_result, tool_use, user


def streamed(answer: Any, **changes: Any) -> tuple[anthropic.types.Message, FakeAnthropic]:
    """Stream one answer through the SDK; return the message as it stood at the end."""
    with (
        FakeAnthropic([answer]) as server,
        anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0) as client,
        client.messages.stream(**body_of(**changes)) as stream,
    ):
        return stream.get_final_message(), server


@pytest.mark.parametrize(
    ("answer", "error", "kind"),
    [
        (status(429, retry_after=7), anthropic.RateLimitError, "rate_limit_error"),
        (status(500), anthropic.InternalServerError, "api_error"),
        (status(529), anthropic.InternalServerError, "overloaded_error"),
        (status(403, "region refused"), anthropic.PermissionDeniedError, "permission_error"),
        (status(402, "credit"), anthropic.APIStatusError, "billing_error"),
        (too_large(), anthropic.APIStatusError, "request_too_large"),
        (too_long(210_000, 200_000), anthropic.BadRequestError, "invalid_request_error"),
    ],
)
def test_statuses(answer: Any, error: type[anthropic.APIStatusError], kind: str) -> None:
    """A scripted status becomes the SDK's error, and counts as no refusal."""
    with pytest.raises(error) as caught:
        streamed(answer)

    assert caught.value.type == kind
    assert caught.value.status_code == answer.status


def test_faults_are_no_refusals() -> None:
    """A scripted error leaves `refused` empty, is recorded, and carries its headers."""
    with FakeAnthropic([status(429, retry_after=7)]) as server:
        code, _, headers = send(server, body_of())

    assert (code, headers["retry-after"]) == (429, "7")
    assert server.refused == []
    assert server.messages[0].error == {"type": "rate_limit_error", "message": "Rate limited"}


@pytest.mark.parametrize("after", [0, 1, 3])
def test_disconnect(after: int) -> None:
    """A dropped connection is a transport error, before the response or in the stream."""
    with pytest.raises((httpx2.RemoteProtocolError, anthropic.APIConnectionError)):
        streamed(disconnect(after))


def test_truncate_raises_nothing_in_the_sdk() -> None:
    """A stream without message_stop ends quietly: no stop reason, a cut call."""
    whole = reply(Call("run_code", code="x" * 200))
    message, server = streamed(truncate(whole, after_events=6), tools=[TOOL])

    assert message.stop_reason is None
    assert not server.messages[0].complete


def test_corrupt() -> None:
    """A chunk that is no JSON raises a decoding error."""
    with pytest.raises(json.JSONDecodeError):
        streamed(corrupt())


def test_error_event_in_the_stream() -> None:
    """An error event after status 200 is an error of its type."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        streamed(error_event("overloaded_error", after=2))

    assert caught.value.type == "overloaded_error"


def test_no_stop_reason() -> None:
    """A whole stream may lack a stop reason."""
    message, server = streamed(no_stop_reason("text"))

    assert message.stop_reason is None
    assert message.content[0].model_dump()["text"] == "text"
    assert not server.messages[0].complete


def test_stall() -> None:
    """A stalled stream goes on when released."""
    with (
        FakeAnthropic([stall("s", "whole text", after_events=3)]) as server,
        anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0) as client,
        client.messages.stream(**body_of()) as stream,
    ):
        server.wait_held("s")
        server.release("s")
        assert stream.get_final_text() == "whole text"


def test_foreign_response() -> None:
    """A proxy's page is a status error, and with status 200 no message."""
    with pytest.raises(anthropic.InternalServerError):
        streamed(foreign())
    with (
        FakeAnthropic([foreign("<p>hello</p>", code=200)]) as server,
        pytest.raises(ValueError, match=r"."),
    ):
        send(server, body_of())


@pytest.mark.parametrize("answer", [truncate(), corrupt()])
def test_torn_whole_answers(answer: Any) -> None:
    """Without a stream, a torn answer is half of its JSON."""
    with FakeAnthropic([answer]) as server, pytest.raises(json.JSONDecodeError):
        send(server, body_of())


def test_refusal_has_details() -> None:
    """A refusal carries the provider's words."""
    message, _ = streamed(refuse("Not this."))

    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert message.stop_details.explanation == "Not this."


def test_cut_replies() -> None:
    """max_tokens and window_exceeded keep the partial text; a cut call has part of its JSON."""
    cut = max_tokens("So", Call("run_code", _raw='{"code": "1 +'))
    with FakeAnthropic([cut]) as server:
        answer = accept(server, body_of(tools=[TOOL]))
    message, _ = streamed(window_exceeded("So"))

    assert answer["stop_reason"] == "max_tokens"
    assert answer["content"][1]["input"] == {}
    assert message.stop_reason == "model_context_window_exceeded"


def test_pause_goes_on_with_its_own_content() -> None:
    """A paused reply may come back as the last message; another prefill may not."""
    block = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}}
    with FakeAnthropic([pause(Text("Searching."), Raw(block)), "Done."]) as server:
        content = accept(server, body_of())["content"]
        assert "prefill" in refusal(server, body_of(user("Hello."), assistant("Searching.")))
        accept(server, body_of(user("Hello."), {"role": "assistant", "content": content}))


def test_usage_of_the_script() -> None:
    """A script may replace figures of the usage, or leave usage out."""
    given = {"input_tokens": 3, "cache_creation_input_tokens": 150_000, "output_tokens": 900}
    message, server = streamed(reply("x", usage=given))
    with FakeAnthropic([reply("x", usage=NO_USAGE)]) as other:
        answer = accept(other, body_of())

    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 900)
    assert message.usage.cache_creation is not None
    assert message.usage.cache_creation.ephemeral_5m_input_tokens == 150_000
    assert "usage" not in answer
    assert server.messages[0].usage is not None


def test_same_id_may_be_scripted() -> None:
    """Some servers repeat ids: a script may set them."""
    script = [Call("run_code", _id="call_0"), Call("run_code", _id="call_0")]
    with FakeAnthropic(script) as server:
        accept(server, body_of(tools=[TOOL]))
        more = (assistant(tool_use("call_0")), user(tool_result("call_0")))
        accept(server, body_of(user("Hello."), *more, tools=[TOOL]))

    assert [record.reply[0]["id"] for record in server.messages] == ["call_0", "call_0"]


def test_servers_without_count_and_models() -> None:
    """A compatible server may lack count_tokens and the Models API."""
    with (
        FakeAnthropic(has_count_tokens=False, has_models=False) as server,
        anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve("claude-sonnet-5-5")
        with pytest.raises(anthropic.NotFoundError):
            client.messages.count_tokens(model="claude-sonnet-5-5", messages=[user("x")])  # type: ignore[list-item]  # a plain dict
