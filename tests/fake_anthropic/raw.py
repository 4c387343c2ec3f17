"""Plain HTTP to the fake, without the SDK: for what the SDK would not send."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .exchange import MESSAGES
from .fake import FakeAnthropic
from .transport import VERSION

MODEL = "claude-sonnet-5-5"
TOOL: dict[str, Any] = {
    "name": "run_code",
    "description": "Run code.",
    "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}},
}


def user(*content: Any) -> dict[str, Any]:
    """Return a user message of texts and blocks."""
    return {"role": "user", "content": [_block(part) for part in content]}


def assistant(*content: Any) -> dict[str, Any]:
    """Return an assistant message of texts and blocks."""
    return {"role": "assistant", "content": [_block(part) for part in content]}


def tool_use(id_: str, **input_: Any) -> dict[str, Any]:
    """Return a call of run_code."""
    return {"type": "tool_use", "id": id_, "name": "run_code", "input": input_}


def tool_result(id_: str, content: Any = "done", **more: Any) -> dict[str, Any]:
    """Return the result of a call."""
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def marked(block: Any, ttl: str | None = None) -> dict[str, Any]:
    """Return the block with a cache marker."""
    marker = {"type": "ephemeral"} | ({"ttl": ttl} if ttl else {})
    return {**_block(block), "cache_control": marker}


def body_of(*messages: Any, **changes: Any) -> dict[str, Any]:
    """Return a valid body; a change to None takes the key away."""
    body: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 1000,
        "messages": list(messages) or [user("Hello.")],
        **changes,
    }
    return {key: value for key, value in body.items() if value is not None}


def send(
    server: FakeAnthropic,
    body: Mapping[str, Any] | bytes,
    path: str = MESSAGES,
    **headers: str | None,
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """POST a body; return status, JSON and headers.

    A header None is left out; `_` in its name stands for `-`.
    """
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = urlsplit(server.url)
    given: dict[str, str | None] = {
        "content-type": "application/json",
        "anthropic-version": VERSION,
        "x-api-key": "k",
    }
    given.update((name.replace("_", "-"), value) for name, value in headers.items())
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    try:
        kept = {name: value for name, value in given.items() if value is not None}
        connection.request("POST", path, data, kept)
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer, {k.lower(): v for k, v in response.getheaders()}
    finally:
        connection.close()


def refusal(server: FakeAnthropic, body: Mapping[str, Any] | bytes, **headers: Any) -> str:
    """POST a body that must be refused with a 400; return the error's message."""
    status, answer, _ = send(server, body, **headers)
    assert status == 400, f"{status}: {answer}"
    assert answer["error"]["type"] == "invalid_request_error", answer
    return str(answer["error"]["message"])


def accept(
    server: FakeAnthropic, body: Mapping[str, Any] | bytes, **headers: Any
) -> dict[str, Any]:
    """POST a body that must be accepted; return the message."""
    status, answer, _ = send(server, body, **headers)
    assert status == 200, f"{status}: {answer}"
    return answer


def _block(part: Any) -> Any:
    return {"type": "text", "text": part} if isinstance(part, str) else part
