"""The fake refuses what servers refuse: else passing on it would prove nothing."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from . import FakeOpenAI
from .fake import MODEL
from .kinds import Name

USER = {"role": "user", "content": "Go."}
TOOL = {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}
EMPTY = {"type": "object", "properties": {}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def tool(**changes: Any) -> dict[str, Any]:
    """Return a tool that is taken, but for `changes`."""
    function = {"name": "f", "description": "", "parameters": EMPTY, **changes}
    return {"type": "function", "function": function}


def calling(*ids: str, **more: Any) -> dict[str, Any]:
    """Return a reply that calls `f` once for each id."""
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": id_, "type": "function", "function": function, **more} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id_: str, content: Any = "1") -> dict[str, Any]:
    """Return a call's result."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def send(server: FakeOpenAI, *messages: Any, **changes: Any) -> tuple[int, str]:
    """POST a body; return the status and the answer's text."""
    url = urlsplit(server.url)
    body = {"model": MODEL, "messages": list(messages), "stream": True, **changes}
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    try:
        headers = {"authorization": "Bearer k"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    """A server that says "ok" to every accepted request."""
    with FakeOpenAI(lambda body: "ok") as running:
        yield running


REFUSED: dict[str, tuple[list[Any], str]] = {
    "no messages": ([], "too short"),
    "a call without its result": ([USER, calling("a"), USER], "did not have response"),
    "one of two results": ([USER, calling("a", "b"), result("a"), USER], "did not have response"),
    "a result without its call": ([USER, result("a")], "must be a response"),
    "a result too late": ([USER, calling("a"), USER, result("a")], "did not have response"),
    "two results": ([USER, calling("a"), result("a"), result("a")], "must be a response"),
    "an id twice": (
        [USER, calling("a"), result("a"), calling("a"), result("a")],
        "Duplicate value",
    ),
    "an image in a result": ([USER, calling("a"), result("a", [IMAGE])], "Invalid 'messages'"),
    "a late system prompt": ([USER, {"role": "system", "content": "x"}], "at the beginning"),
    "an unknown role": ([{"role": "developer2", "content": "x"}], "Invalid value"),
    "an empty reply": ([USER, {"role": "assistant", "content": None}, USER], "got null"),
    "a reply at the end": ([USER, {"role": "assistant", "content": "x"}], "Cannot continue"),
    "a field nobody knows": ([{**USER, "cache_control": {}}], "Unknown parameter"),
    "another server's reasoning": (
        [USER, {"role": "assistant", "content": "x", "reasoning": "y"}, USER],
        "Unknown parameter",
    ),
    "broken base64": (
        [{"role": "user", "content": [{**IMAGE, "image_url": {"url": "data:,x"}}]}],
        "base64",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(server: FakeOpenAI, case: str) -> None:
    """Each broken conversation is a 400 that says why."""
    messages, words = REFUSED[case]
    status, text = send(server, *messages)

    assert status == 400
    assert words in json.loads(text)["error"]["message"]


def test_what_is_accepted(server: FakeOpenAI) -> None:
    """A conversation by the rules gets its answer, results in any order, images to the user."""
    seen = {"role": "user", "content": [IMAGE, {"type": "text", "text": "?"}]}
    talk = [{"role": "system", "content": "s"}, USER, calling("a", "b"), result("b"), result("a")]
    status, text = send(server, *talk, seen)

    assert status == 200
    assert text.endswith("data: [DONE]\n\n")
    assert server.refused == []


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("openai", {"max_tokens": 9}, "max_completion_tokens"),
        ("vllm", {"temperature": 1}, "Unrecognized"),
        ("vllm", {"stream": False, "stream_options": {}}, "only allowed"),
        ("vllm", {"tools": [TOOL]}, "type object"),
        ("vllm", {"tools": []}, "too short"),
        ("vllm", {"tool_choice": "auto"}, "Unrecognized"),
        ("openai", {"tools": [tool(parameters={"type": "object"})]}, "missing properties"),
        ("lmstudio", {"tools": [tool(parameters={"type": "object"})]}, "missing properties"),
        ("openai", {"tools": [tool(parameters={**EMPTY, "anyOf": []})]}, "anyOf"),
        ("openai", {"tools": [tool(description="x" * 1_025)]}, "maximum length 1024"),
        ("openai", {"tools": [tool(name="x" * 65)]}, "function.name"),
        ("openai", {"tools": [tool(name=f"f{n}") for n in range(129)]}, "array too long"),
        (
            "openai",
            {"messages": [USER, calling("x" * 65), result("x" * 65)]},
            "maximum length 64",
        ),
        ("vllm", {"model": "other"}, "does not exist"),
    ],
)
def test_what_is_refused_beside_the_messages(
    kind: Name, changes: dict[str, Any], words: str
) -> None:
    """Fields, tools and names that a server does not take are refused."""
    with FakeOpenAI(["x"], kind=kind) as server:
        status, text = send(server, USER, **changes)

    assert status in (400, 404)
    assert words in text


def test_gemini_wants_its_signature() -> None:
    """A step's first call without the signature that came with it is refused, since the prompt."""
    own = {"extra_content": {"google": {"thought_signature": "made up"}}}
    with FakeOpenAI(["x"], kind="gemini") as server:
        bare = send(server, USER, calling("a"), result("a"))
        false = send(server, USER, calling("a", **own), result("a"))
        old = send(server, USER, calling("a"), result("a"), USER)

    assert [bare[0], false[0], old[0]] == [400, 400, 200]
    assert "missing a thought_signature" in bare[1]
