"""Errors of the SDK, its transport and the provider, as ours."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import (
    AuthError,
    ConfigError,
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
from jupyter_ctx.models.anthropic_errors import translate
from jupyter_ctx.models.refusals import (
    MOST_WORDS,
    Refusal,
    Where,
    classify,
    find_overflow,
    read_refusal,
    read_retry_after,
)

SECRET = "sk-ant-0123456789abcdef"
WHERE = Where(
    url="https://host",
    model="claude-sonnet-5-5",
    key_name="ANTHROPIC_API_KEY",
    timeout_s=600.0,
    redact=Redactor({"ANTHROPIC_API_KEY": SECRET}).text,
)
REQUEST = httpx2.Request("POST", "https://host/v1/messages")


def body(kind: str, message: str, **more: object) -> dict[str, Any]:
    """Return an error body in Anthropic's form."""
    return {"type": "error", "error": {"type": kind, "message": message, **more}}


def answer(status: int, error: object, **headers: str) -> CtxError:
    """Return what the SDK's error for this answer becomes."""
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    client = anthropic.Anthropic(api_key="x")
    raised = client._make_status_error("text", body=error, response=response)
    client.close()
    found = translate(raised, WHERE)
    assert found is not None
    return found


def subclasses(root: type[BaseException]) -> Iterator[type[BaseException]]:
    """Yield every class below `root`, and `root`."""
    yield root
    for below in root.__subclasses__():
        yield from subclasses(below)


def sdk_classes() -> list[type[BaseException]]:
    """Return every error class of the SDK, those of its own corners included."""
    for part in ("lib.credentials", "types", "types.shared"):
        package = importlib.import_module(f"anthropic.{part}")
        for module in pkgutil.iter_modules(package.__path__):
            if part == "lib.credentials" or "error" in module.name:
                importlib.import_module(f"{package.__name__}.{module.name}")
    found = {c for c in subclasses(anthropic.AnthropicError) if c.__module__.startswith("anthr")}
    return sorted(found, key=lambda c: (c.__module__, c.__name__))


def make(kind: type[BaseException]) -> Exception:
    """Return an instance of an SDK or transport error class."""
    if issubclass(kind, anthropic.APIStatusError):
        status = getattr(kind, "status_code", 500)
        response = httpx2.Response(status if isinstance(status, int) else 500, request=REQUEST)
        return kind("text", response=response, body=body("x", "y"))
    if issubclass(kind, anthropic.APITimeoutError):
        return kind(REQUEST)
    if issubclass(kind, anthropic.APIConnectionError):
        return kind(message="text", request=REQUEST)
    if issubclass(kind, anthropic.APIResponseValidationError):
        return kind(httpx2.Response(200, request=REQUEST), None)
    if issubclass(kind, anthropic.APIError):
        return kind("text", REQUEST, body=None)
    try:
        made = kind("text")
    except TypeError:  # its text is made of other things
        made = kind.__new__(kind, "text")
    assert isinstance(made, Exception)
    return made


@pytest.mark.parametrize("kind", sdk_classes(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_sdk_is_ours(kind: type[BaseException]) -> None:
    """Each class of the SDK's tree becomes one of ours, with a sentence that names the place."""
    found = translate(make(kind), WHERE)

    assert isinstance(found, (ModelError, ConfigError))
    assert "https://host" in str(found) or "claude-sonnet-5-5" in str(found)


TRANSPORT = sorted(
    {
        *subclasses(httpx2.HTTPError),
        *subclasses(httpx2.StreamError),
        httpx2.InvalidURL,
        httpx2.CookieConflict,
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("kind", TRANSPORT, ids=lambda kind: kind.__name__)
def test_every_error_of_the_transport_is_ours(
    kind: type[BaseException], is_wrapped: bool, is_started: bool
) -> None:
    """Each transport error, raw or inside the SDK's, is ours; after the start a broken stream."""
    raw = kind.__new__(kind, "reason")
    assert isinstance(raw, Exception)
    error: Exception = raw
    if is_wrapped:
        error = anthropic.APIConnectionError(request=REQUEST)
        error.__cause__ = raw
    found = translate(error, WHERE, is_started=is_started)

    assert isinstance(found, (ModelError, ConfigError))
    assert "https://host" in str(found)
    if is_started and kind is not httpx2.CookieConflict:
        assert isinstance(found, StreamBrokenError)


def test_every_exported_transport_error_is_in_the_list() -> None:
    """The transport exports no error class that the test above leaves out."""
    exported = {
        kind
        for name in httpx2.__all__
        if isinstance(kind := getattr(httpx2, name), type) and issubclass(kind, Exception)
    }

    assert exported <= set(TRANSPORT)


@pytest.mark.parametrize(
    ("kind", "ours"),
    [
        (httpx2.ConnectError, UnreachableError),
        (httpx2.ConnectTimeout, UnreachableError),
        (httpx2.ProxyError, UnreachableError),
        (httpx2.ReadTimeout, OverloadedError),
        (httpx2.RemoteProtocolError, StreamBrokenError),
        (httpx2.ReadError, StreamBrokenError),
        (httpx2.WriteError, StreamBrokenError),
        (httpx2.LocalProtocolError, RequestRefusedError),
        (httpx2.UnsupportedProtocol, ConfigError),
    ],
)
def test_before_an_answer(kind: type[Exception], ours: type[CtxError]) -> None:
    """What fails before an answer is told apart: no connection, silence, a drop, a bad request."""
    assert type(translate(kind("reason"), WHERE)) is ours


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), AssertionError()])
def test_mistakes_of_ours_are_not_dressed_up(error: Exception) -> None:
    """An exception that is none of SDK, transport or wire is not translated."""
    assert translate(error, WHERE) is None


def test_ours_stay() -> None:
    """An error of ours is itself."""
    error = StreamBrokenError("x")

    assert translate(error, WHERE) is error


CASES: list[tuple[int, object, type[CtxError], str]] = [
    (400, body("invalid_request_error", "messages: bad"), RequestRefusedError, "messages: bad"),
    (401, body("authentication_error", "invalid x-api-key"), AuthError, "ANTHROPIC_API_KEY"),
    (403, body("permission_error", "no access to it"), AuthError, "claude-sonnet-5-5"),
    (403, body("forbidden", "Request not allowed"), RequestRefusedError, "region"),
    (403, body("permission_error", "Not available in your region."), RequestRefusedError, "region"),
    (400, body("invalid_request_error", "Your country is not supported"), RequestRefusedError,
     "region"),
    (451, "", RequestRefusedError, "region"),
    (402, body("billing_error", "Payment required"), RequestRefusedError, "credit"),
    (400, body("invalid_request_error", "Your credit balance is too low to access the API"),
     RequestRefusedError, "credit"),
    (400, body("invalid_request_error", "You have reached your specified API usage limits."),
     RequestRefusedError, "credit"),
    (429, body("rate_limit_error", "Limit", details={"error_code": "contract_spend_limit_reached"}),
     RequestRefusedError, "credit"),
    (429, body("rate_limit_error", "too fast: maximum context length is 1"), RateLimitedError,
     "later"),
    (404, body("not_found_error", "model: claude-nope"), UnknownModelError, "/model"),
    (404, "<html><body>nginx</body></html>", RequestRefusedError, "ANTHROPIC_BASE_URL"),
    (404, {"detail": "Not Found"}, RequestRefusedError, "ANTHROPIC_BASE_URL"),
    (408, "", OverloadedError, "later"),
    (409, body("conflict_error", "again"), OverloadedError, "again"),
    (413, body("request_too_large", "Request exceeds the maximum size"), RequestTooLargeError,
     "bytes"),
    (422, body("x", "odd"), RequestRefusedError, "odd"),
    (500, body("api_error", "Internal server error"), OverloadedError, "later"),
    (502, "<!DOCTYPE html><title>Bad gateway</title>", OverloadedError, "web page"),
    (503, "", OverloadedError, "later"),
    (529, body("overloaded_error", "Overloaded"), OverloadedError, "Overloaded"),
    (302, "", RequestRefusedError, "302"),
    (418, [1], RequestRefusedError, "418"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "error", "ours", "named"), CASES)
def test_answers_by_status(status: int, error: object, ours: type[CtxError], named: str) -> None:
    """Each kind of answer is one error whose text names cause or next step, and the place."""
    found = answer(status, error)

    assert type(found) is ours
    assert named in str(found)
    assert "https://host" in str(found)
    assert "\n" not in str(found)
    assert "<" not in str(found), "no markup of a web page"
    assert isinstance(found, ModelError)
    assert found.status == status


def test_what_may_be_sent_again() -> None:
    """Busy providers may be asked again, refusals not; a provider that says no is obeyed."""
    busy = answer(529, body("overloaded_error", "Overloaded"))
    final = answer(529, body("overloaded_error", "Overloaded"), **{"x-should-retry": "false"})

    assert isinstance(busy, ModelError)
    assert isinstance(final, ModelError)
    assert busy.retryable
    assert not final.retryable
    for status in (400, 401, 402, 403, 404, 413, 501):
        refused = answer(status, body("x", "y"))
        assert isinstance(refused, ModelError)
        assert not refused.retryable, status


def test_the_wait_a_provider_asks_for() -> None:
    """`retry-after: 7` is seven seconds; a date counts from now; junk is no wish."""
    found = answer(429, body("rate_limit_error", "slow"), **{"retry-after": "7"})

    assert isinstance(found, RateLimitedError)
    assert found.retry_after_s == 7
    assert "in 7 s" in str(found)
    date = {"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}
    assert read_retry_after(date, now=40) == 60
    assert read_retry_after(date, now=400) == 0
    assert read_retry_after({"retry-after-ms": "1500", "retry-after": "9"}, now=0) == 1.5
    for junk in ("soon", "-5", "nan", "1e9999", ""):
        assert read_retry_after({"retry-after": junk}, now=0) is None


def test_the_request_id_is_kept() -> None:
    """The provider's request id comes from the header, else the body."""
    by_header = answer(500, body("api_error", "x"), **{"request-id": "req_h"})
    by_body = answer(500, {**body("api_error", "x"), "request_id": "req_b"})

    assert isinstance(by_header, ModelError)
    assert isinstance(by_body, ModelError)
    assert (by_header.request_id, by_body.request_id) == ("req_h", "req_b")


OVERFLOWS: list[tuple[int, object, int | None, int | None]] = [
    (400, body("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
     210_000, 200_000),
    (400, body("invalid_request_error", "prompt is too long: 210,000 tokens > 200,000 maximum"),
     210_000, 200_000),
    (413, body("invalid_request_error", "Prompt is too long"), None, None),
    (400, body("invalid_request_error",
     "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease"),
     198_000, 191_808),
    (400, {"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 5000,
     "n_ctx": 4096, "message": "the request exceeds the available context size, try increasing"}},
     5000, 4096),
    (400, {"error": {"code": "context_length_exceeded", "message": "This model's maximum context "
     "length is 8192 tokens. However, your messages resulted in 9000 tokens."}}, 9000, 8192),
    (400, {"error": {"type": "BadRequestError", "code": 400, "message": "This model's maximum "
     "context length is 4096 tokens. However, you requested 5000 tokens. Please reduce"}},
     5000, 4096),
    (400, {"error": {"code": 400, "message": "The input token count (1048577) exceeds the maximum "
     "number of tokens allowed (1048576)."}}, 1_048_577, 1_048_576),
    (400, {"message": "Input is too long for requested model."}, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "error", "actual", "limit"), OVERFLOWS)
def test_a_prompt_over_the_window(
    status: int, error: object, actual: int | None, limit: int | None
) -> None:
    """Every known form of the error gives its numbers, None where it says none."""
    found = answer(status, error)

    assert isinstance(found, PromptTooLongError)
    assert (found.actual_tokens, found.limit_tokens) == (actual, limit)
    assert "/compact" in str(found)
    if actual is not None:
        assert f"{actual:,}" in str(found)


def test_ordinary_refusals_are_no_overflow() -> None:
    """Words about other limits do not pass for a prompt over the window."""
    for words in (
        "max_tokens: 200000 > 128000, which is the maximum",
        "messages.3: image exceeds 10 MB maximum: 12 MB > 10 MB",
        "This request would exceed your rate limit of 40,000 input tokens per minute",
    ):
        assert find_overflow(Refusal(400, words=words)) is None


def test_an_error_event_has_the_status_of_its_type() -> None:
    """An error within a stream is what its type says; an unknown one is a broken stream."""
    kinds = {
        "overloaded_error": OverloadedError,
        "api_error": OverloadedError,
        "rate_limit_error": RateLimitedError,
        "invalid_request_error": RequestRefusedError,
        "authentication_error": AuthError,
        "of_a_later_version": StreamBrokenError,
    }
    for kind, ours in kinds.items():
        found = classify(read_refusal(None, body(kind, "words")), WHERE)
        assert type(found) is ours
        assert "words" in str(found)


def test_keys_are_redacted_before_words_are_cut() -> None:
    """No part of a key is in an error's text, also where the quotation is cut in its middle."""
    for lead in range(MOST_WORDS - len(SECRET), MOST_WORDS + 1):
        words = "x" * lead + SECRET + " and more"
        found = str(answer(400, body("invalid_request_error", words)))
        assert SECRET[:12] not in found
    raw = json.dumps({"oops": SECRET})
    assert SECRET not in str(answer(500, raw))
    cause = httpx2.RemoteProtocolError(f"bad header {SECRET}")
    assert SECRET not in str(translate(cause, WHERE))


def test_long_words_are_cut() -> None:
    """A provider's answer of a megabyte is quoted with 500 characters, in one line."""
    found = str(answer(400, "line\n" * 200_000))

    assert len(found) < MOST_WORDS + 200
    assert "\n" not in found
