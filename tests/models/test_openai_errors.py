"""Errors of OpenAI's SDK, its transport and the servers that speak Chat Completions, as ours."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
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
)
from jupyter_ctx.models.openai_errors import translate
from jupyter_ctx.models.refusals import Where, classify, read_refusal
from tests.models.test_errors import subclasses

SECRET = "sk-proj-0123456789abcdef"
WHERE = Where(
    url="https://host/v1",
    model="some-model",
    key_name="OPENAI_API_KEY",
    timeout_s=600.0,
    redact=Redactor({"OPENAI_API_KEY": SECRET}).text,
    api="Chat Completions API",
    address_name="OPENAI_BASE_URL",
)
REQUEST = httpx2.Request("POST", "https://host/v1/chat/completions")


def answer(status: int, body: object, **headers: str) -> CtxError:
    """Return what the SDK's error for this answer becomes, from its bytes on."""
    text = body if isinstance(body, str) else json.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(status, text=text, headers=names, request=REQUEST)
    with openai.OpenAI(api_key="x") as client:
        raised = client._make_status_error_from_response(response)
    found = translate(raised, WHERE)
    assert found is not None
    return found


def error(message: str, **fields: object) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    return {"error": {"message": message, **fields}}


OVERFLOWS: list[tuple[str, int, object, int | None, int | None]] = [
    (
        "OpenAI",
        400,
        error(
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130001 tokens. Please reduce the length of the messages.",
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
        130_001,
        128_000,
    ),
    (
        "OpenAI, newer",
        400,
        error(
            "Your input exceeds the context window of this model. Please adjust your input and try "
            "again.",
            type="invalid_request_error",
            param="input",
            code="context_length_exceeded",
        ),
        None,
        None,
    ),
    (
        "OpenAI, by the minute",
        429,
        error(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit "
            "30000, Requested 41234. The input or output tokens must be reduced.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        None,
        None,
    ),
    (
        "vLLM",
        400,
        error(
            "This model's maximum context length is 32768 tokens. However, your request has 40000 "
            "input tokens. Please reduce the length of the input messages.",
            type="BadRequestError",
            param=None,
            code=400,
        ),
        40_000,
        32_768,
    ),
    (
        "vLLM, older",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length.",
            "type": "BadRequestError",
            "code": 400,
        },
        None,
        4_096,
    ),
    (
        "vLLM, no room for an answer",
        400,
        error("max_tokens must be at least 1, got -186.", type="BadRequestError", code=400),
        None,
        None,
    ),
    (
        "llama.cpp",
        400,
        error(
            "the request exceeds the available context size, try increasing it",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=40_000,
            n_ctx=32_768,
        ),
        40_000,
        32_768,
    ),
    (
        "LM Studio",
        400,
        {
            "error": "Trying to keep the first 5105 tokens when context the overflows. However, "
            "the model is loaded with context length of only 4096 tokens, which is not enough."
        },
        5_105,
        4_096,
    ),
    (
        "LM Studio, older",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the "
            "context length. Try to load the model with a larger context length."
        },
        None,
        None,
    ),
    (
        "Ollama, after it cut the prompt",
        500,
        error("no user query found in messages", type="api_error", param=None, code=None),
        None,
        None,
    ),
    (
        "Gemini",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1100000) exceeds the maximum number of "
                    "tokens allowed (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        1_100_000,
        1_048_576,
    ),
    (
        "OpenRouter",
        400,
        error(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about "
            "140000 tokens (139000 of text input, 1000 in the output).",
            code=400,
        ),
        139_000,
        131_072,
    ),
    (
        "xAI",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 "
            "tokens.",
        },
        537_812,
        131_072,
    ),
    (
        "OpenRouter, of a provider behind it",
        400,
        error(
            "Provider returned error",
            code=400,
            metadata={
                "raw": '{"error": {"message": "This model\'s maximum context length is 8192 '
                'tokens. However, your messages resulted in 9001 tokens."}}',
                "provider_name": "X",
            },
        ),
        9_001,
        8_192,
    ),
    (
        "SGLang",
        400,
        error("The input (40000 tokens) is longer than the model's context length (32768 tokens)."),
        40_000,
        32_768,
    ),
    (
        "SGLang, with the answer",
        400,
        error(
            "Requested token count exceeds the model's maximum context length of 32768 tokens. You "
            "requested a total of 41000 tokens: 40000 tokens from the input messages and 1000 "
            "tokens for the completion."
        ),
        40_000,
        32_768,
    ),
    (
        "vLLM, with the answer",
        400,
        error(
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum "
            "context length is 32768 tokens and your request has 8000 input tokens (32000 > 32768 "
            "- 8000).",
            type="BadRequestError",
            code=400,
        ),
        None,
        32_768,
    ),
    (
        "TGI",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. "
            "Given: 5000 `inputs` tokens and 512 `max_new_tokens`",
            "error_type": "validation",
        },
        5_000,
        4_097,
    ),
    (
        "Moonshot",
        400,
        error("Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)"),
        9_000,
        8_192,
    ),
    (
        "Qwen's own",
        400,
        error(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"
        ),
        None,
        30_720,
    ),
    (
        "Cerebras",
        400,
        error(
            "Please reduce the length of the messages or completion. Current length is 9000 while "
            "limit is 8192",
            code="context_length_exceeded",
        ),
        9_000,
        8_192,
    ),
    (
        "Fireworks",
        400,
        error("The prompt is too long: 41234, model maximum context length: 32767"),
        41_234,
        32_767,
    ),
    (
        "Vertex",
        400,
        error(
            "Unable to submit request because the input token count is 1100000 but model only "
            "supports up to 1048576."
        ),
        1_100_000,
        1_048_576,
    ),
    (
        "Mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
            "32768 maximum context length",
            "type": "invalid_request_error",
            "code": 3051,
        },
        40_000,
        32_768,
    ),
    (
        "GitHub Models",
        413,
        error(
            "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            code="tokens_limit_reached",
        ),
        None,
        8_000,
    ),
]


@pytest.mark.parametrize(
    ("status", "body", "actual", "limit"),
    [row[1:] for row in OVERFLOWS],
    ids=[row[0] for row in OVERFLOWS],
)
def test_an_overflow_in_every_servers_words(
    status: int, body: object, actual: int | None, limit: int | None
) -> None:
    """A prompt over the window is known as that, with the figures that the server gives."""
    found = answer(status, body)

    assert isinstance(found, PromptTooLongError)
    assert (found.actual_tokens, found.limit_tokens) == (actual, limit)


OTHERS: list[tuple[str, int, object, type[ModelError], str]] = [
    (
        "OpenAI, a wrong key",
        401,
        error("Incorrect API key provided: sk-x.", code="invalid_api_key"),
        AuthError,
        "OPENAI_API_KEY",
    ),
    (
        "Gemini, a wrong key",
        400,
        [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}],
        RequestRefusedError,
        "API key not valid",
    ),
    (
        "OpenAI, no such model",
        404,
        error("The model `some-model` does not exist", code="model_not_found"),
        UnknownModelError,
        "/model",
    ),
    (
        "Ollama, no such model",
        404,
        error('model "some-model" not found, try pulling it first', type="api_error"),
        UnknownModelError,
        "pulling it",
    ),
    ("no such API", 404, {"detail": "Not Found"}, RequestRefusedError, "OPENAI_BASE_URL"),
    (
        "OpenAI, no credit",
        429,
        error("You exceeded your current quota.", type="insufficient_quota"),
        RequestRefusedError,
        "credit",
    ),
    (
        "OpenAI, too many",
        429,
        error("Rate limit reached for requests", type="requests", code="rate_limit_exceeded"),
        RateLimitedError,
        "again",
    ),
    (
        "Gemini, too many",
        429,
        [{"error": {"code": 429, "message": "Exhausted.", "status": "RESOURCE_EXHAUSTED"}}],
        RateLimitedError,
        "again",
    ),
    (
        "llama.cpp, loading",
        503,
        error("Loading model", type="unavailable_error", code=503),
        OverloadedError,
        "Loading model",
    ),
    (
        "Ollama, no tools",
        400,
        error("some-model does not support tools", type="api_error"),
        RequestRefusedError,
        "does not support tools",
    ),
    (
        "FastAPI",
        422,
        {"detail": "Field required: messages"},
        RequestRefusedError,
        "Field required",
    ),
    (
        "FastAPI, a list of fields",
        422,
        {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required"}]},
        RequestRefusedError,
        "Field required",
    ),
    (
        "Mistral, fields in the message",
        422,
        {"object": "error", "message": {"detail": [{"loc": ["body", "stream_options"]}]}},
        RequestRefusedError,
        "stream_options",
    ),
    ("a proxy's page", 502, "<html>Bad Gateway</html>", OverloadedError, "a web page"),
    ("too many bytes", 413, "Payload Too Large", RequestTooLargeError, "bytes"),
    ("an empty body", 500, "", OverloadedError, "500"),
]


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS]
)
def test_every_other_error_in_every_servers_words(
    status: int, body: object, kind: type[ModelError], words: str
) -> None:
    """Each server's error is the one of ours that it means, with the server's own words."""
    found = answer(status, body)

    assert type(found) is kind
    assert words in str(found)
    assert "https://host/v1" in str(found)


def test_the_waiting_time_and_the_id_are_the_servers() -> None:
    """`retry-after` and `x-request-id` are carried along."""
    found = answer(429, error("slow"), retry_after="7", x_request_id="req_1")

    assert isinstance(found, RateLimitedError)
    assert (found.retry_after_s, found.request_id) == (7.0, "req_1")


@pytest.mark.parametrize(
    ("body", "headers", "wait"),
    [
        (error("slow"), {"retry_after": "1.5"}, 1.5),
        (error("slow"), {"retry_after": "Fri, 01 Jan 2100 00:00:00 GMT"}, "long"),
        (error("slow"), {"retry_after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        (error("slow"), {"retry_after": "Fri, 31 Dec 9999 23:59:59 -2359"}, "long"),
        (error("slow"), {"retry_after": "9" * 400}, None),
        (error("slow"), {"retry_after": "-5"}, None),
        (error("slow"), {"retry_after_ms": "nan"}, None),
        (error("slow"), {"retry_after_ms": "inf"}, None),
        (error("slow"), {"retry_after_ms": "250"}, 0.25),
        (error("Rate limit reached. Please try again in 7.66s."), {}, 7.66),
        (error("Please try again in 1m2.5s. Visit …"), {}, 62.5),
        (error("Please try again in 6ms."), {}, 0.006),
        (error("Please try again in 1h0m1s."), {}, 3_601.0),
        (error("Please try again in a while."), {}, None),
        (error("Please try again in 20s."), {"retry_after": "3"}, 3.0),
        (
            [
                error(
                    "Quota",
                    code=429,
                    details=[{"@type": "Help"}, {"@type": "RetryInfo", "retryDelay": "34.5s"}],
                )
            ],
            {},
            34.5,
        ),
    ],
)
def test_how_long_to_wait_is_the_servers_word(
    body: object, headers: dict[str, str], wait: float | str | None
) -> None:
    """A wait is a header's, in seconds or as a date, else the body's; an impossible one is none."""
    found = answer(429, body, **headers)

    assert type(found) is RateLimitedError
    if wait == "long":
        assert (found.retry_after_s or 0) > 1e9
    else:
        assert found.retry_after_s == (pytest.approx(wait) if wait is not None else None)


IN_STREAM: list[tuple[object, type[ModelError]]] = [
    (error("Overloaded", type="server_error"), OverloadedError),
    (error("Bad gateway", code=502), OverloadedError),
    (error("slow down", type="rate_limit_exceeded"), RateLimitedError),
    (error("something"), StreamBrokenError),
    ({"error": "something"}, StreamBrokenError),
    (
        error("x", type="exceed_context_size_error", n_prompt_tokens=9, n_ctx=8),
        PromptTooLongError,
    ),
]


@pytest.mark.parametrize(("chunk", "kind"), IN_STREAM)
def test_an_error_in_the_stream(chunk: object, kind: type[ModelError]) -> None:
    """An error that comes after status 200 is classified by its type or code."""
    assert type(classify(read_refusal(None, chunk), WHERE)) is kind


def make(kind: type[BaseException]) -> Exception:
    """Return an instance of an error class of the SDK."""
    response = httpx2.Response(getattr(kind, "status_code", 500), request=REQUEST)
    if issubclass(kind, openai.OAuthError):
        return kind(response=response, body=None)
    if issubclass(kind, openai.APIStatusError):
        return kind("text", response=response, body=error("y"))
    if issubclass(kind, openai.APITimeoutError):
        return kind(REQUEST)
    if issubclass(kind, openai.APIConnectionError):
        return kind(message="text", request=REQUEST)
    if issubclass(kind, openai.APIResponseValidationError):
        return kind(response, None)
    if issubclass(kind, openai.APIError):
        return kind("text", REQUEST, body=None)
    made = kind.__new__(kind, "text")
    assert isinstance(made, Exception)
    return made


SDK = sorted(
    {kind for kind in subclasses(openai.OpenAIError) if kind.__module__.startswith("openai")},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", SDK, ids=lambda kind: kind.__name__)
def test_every_error_of_the_sdk_is_ours(kind: type[BaseException]) -> None:
    """Each class of the SDK's tree becomes one of ours, with a sentence that names the place."""
    found = translate(make(kind), WHERE)

    assert isinstance(found, (ModelError, ConfigError))
    assert "https://host/v1" in str(found) or "some-model" in str(found)


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("kind", list(subclasses(httpx2.HTTPError)), ids=lambda kind: kind.__name__)
def test_every_error_of_the_transport_is_ours(kind: type[BaseException], is_started: bool) -> None:
    """Each transport error, raw or inside the SDK's, is ours; after the start a broken stream."""
    raw = kind.__new__(kind, "reason")
    assert isinstance(raw, Exception)
    wrapped = openai.APIConnectionError(request=REQUEST)
    wrapped.__cause__ = raw
    for one in (raw, wrapped):
        found = translate(one, WHERE, is_started=is_started)
        assert isinstance(found, (ModelError, ConfigError))
        assert isinstance(found, StreamBrokenError) or not is_started


def test_a_key_in_the_servers_words_is_not_shown() -> None:
    """What the server quotes of the key is redacted."""
    found = answer(400, error(f"Bad header Bearer {SECRET}"))

    assert SECRET not in str(found)
    assert "[redacted: OPENAI_API_KEY]" in str(found)


def test_what_is_none_of_ours_stays_what_it_is() -> None:
    """A fault of this program is not dressed up as one of the provider's."""
    assert translate(KeyError("x"), WHERE) is None


def test_figures_that_count_no_tokens_are_none() -> None:
    """A figure of thousands of digits in a server's words is not read, and breaks nothing."""
    found = answer(400, error(f"prompt is too long: {'9' * 5_000} tokens > 8 maximum"))

    assert isinstance(found, PromptTooLongError)
    assert (found.actual_tokens, found.limit_tokens) == (None, None)
