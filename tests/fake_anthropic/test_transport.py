"""What is refused before a body is understood, and the form of errors."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from . import FakeAnthropic
from .raw import accept, body_of, refusal, send, user
from .transport import MAX_BODY_BYTES


def test_error_body_and_request_id(server: FakeAnthropic, client: anthropic.Anthropic) -> None:
    """An error has type, message and request id in the body, and the id as a header."""
    status, answer, headers = send(server, body_of(max_tokens=None))

    assert status == 400
    assert answer["type"] == "error"
    assert answer["error"] == {
        "type": "invalid_request_error",
        "message": "max_tokens: Field required",
    }
    assert answer["request_id"] == headers["request-id"]
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**body_of(max_tokens=-1))
    assert caught.value.request_id == "req_fake00000002"
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("header", [{"x_api_key": "right"}, {"authorization": "Bearer right"}])
def test_right_key_is_accepted(header: dict[str, str]) -> None:
    """The key is taken from x-api-key or as a bearer token."""
    with FakeAnthropic(["ok"], api_key="right") as server:
        accept(server, body_of(), **{"x_api_key": None, **header})


@pytest.mark.parametrize("header", [{"x_api_key": "wrong"}, {"x_api_key": None}])
def test_wrong_key_is_refused(header: dict[str, Any]) -> None:
    """A wrong or missing key is a 401 authentication_error."""
    with FakeAnthropic(["ok"], api_key="right") as server:
        status, answer, _ = send(server, body_of(), **header)

    assert (status, answer["error"]["type"]) == (401, "authentication_error")


def test_version_header(server: FakeAnthropic) -> None:
    """The version header is required and must be a known one."""
    assert "header is required" in refusal(server, body_of(), anthropic_version=None)
    assert "not a valid version" in refusal(server, body_of(), anthropic_version="2020-01-01")


def test_sampling_parameters(server: FakeAnthropic) -> None:
    """Sampling parameters are unknown in the present version, known in the old one."""
    for name, value in {"temperature": 0.5, "top_p": 0.9, "top_k": 5}.items():
        message = refusal(server, body_of(**{name: value}))
        assert message == f"{name}: Extra inputs are not permitted"
    accept(server, body_of(temperature=0.5), anthropic_version="2023-06-01")


def test_unknown_model(server: FakeAnthropic, client: anthropic.Anthropic) -> None:
    """A model that is not offered is a 404 not_found_error, also in the Models API."""
    status, answer, _ = send(server, body_of(model="claude-none"))

    assert (status, answer["error"]["type"]) == (404, "not_found_error")
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("claude-none")


def test_unknown_path(server: FakeAnthropic) -> None:
    """Any other path is a 404."""
    assert send(server, body_of(), "/v1/complete")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"a": NaN}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud83d"}',
    ],
    ids=["empty", "torn", "list", "nan", "not UTF-8", "lone surrogate"],
)
def test_body_is_no_json(server: FakeAnthropic, body: bytes) -> None:
    """A body that is no JSON object in UTF-8 is refused, a lone surrogate included."""
    refusal(server, body)


def test_body_over_32_mb(server: FakeAnthropic, client: anthropic.Anthropic) -> None:
    """A body over 32 MB is a 413 request_too_large; count_tokens has the same limit."""
    large = body_of(user("x" * MAX_BODY_BYTES))

    with pytest.raises(anthropic.ContentTooLargeError):
        client.messages.create(**large)
    status, answer, _ = send(server, large, "/v1/messages/count_tokens")
    assert (status, answer["error"]["type"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("key", "value", "beta"),
    [
        ("context_management", {"edits": []}, "context-management-2025-06-27"),
        ("compaction", {"type": "summarize"}, "compact-2026-09-04"),
        ("thread", {"type": "create"}, "message-threads-2026-08-12"),
        ("output_config", {"task_budget": {}}, "task-budgets-2026-03-13"),
        (
            "thinking",
            {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
            "thinking-binding-controls-2026-08-01",
        ),
    ],
)
def test_beta_parameters_need_their_header(
    server: FakeAnthropic, key: str, value: object, beta: str
) -> None:
    """A beta parameter is unknown without its header."""
    assert "Extra inputs are not permitted" in refusal(server, body_of(**{key: value}))
    accept(server, body_of(**{key: value}), anthropic_beta=f"other, {beta}")
