"""The shape of a body: keys, kinds and values."""

from __future__ import annotations

from typing import Any

import pytest

from . import FakeAnthropic
from .raw import TOOL, accept, assistant, body_of, refusal, send, tool_result, tool_use, user

ASKED = assistant(tool_use("t1"))
RESULT = tool_result("t1")


def talk(*messages: Any, **changes: Any) -> dict[str, Any]:
    return body_of(user("Go."), *messages, tools=[TOOL], **changes)


EXTRA: dict[str, dict[str, Any]] = {
    "surprise": body_of(surprise=1),
    "messages.0.name": body_of({**user("Hi."), "name": "me"}),
    "messages.0.content.0.text.part": body_of(user({"type": "text", "text": "Hi.", "part": "x"})),
    "messages.1.content.0.tool_use.part": talk(
        assistant({**tool_use("t1"), "part": "x"}), user(RESULT)
    ),
    "messages.2.content.0.tool_result.name": talk(ASKED, user({**RESULT, "name": "x"})),
    "messages.2.content.0.tool_result.content.0.text.id": talk(
        ASKED, user(tool_result("t1", [{"type": "text", "text": "x", "id": "y"}]))
    ),
    "messages.0.content.0.image.width": body_of(
        user({"type": "image", "source": {"type": "url", "url": "https://x"}, "width": 1})
    ),
    "messages.0.content.0.image.source.base64.name": body_of(
        user(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "", "name": "x"},
            }
        )
    ),
    "messages.1.content.0.thinking.cache_control": talk(
        assistant(
            {
                "type": "thinking",
                "thinking": "",
                "signature": "",
                "cache_control": {"type": "ephemeral"},
            }
        )
    ),
    "messages.0.content.0.text.cache_control.scope": body_of(
        user(
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "scope": "global"}}
        )
    ),
    "system.0.text.name": body_of(system=[{"type": "text", "text": "x", "name": "y"}]),
    "tools.0.custom.reads_only": body_of(tools=[{**TOOL, "reads_only": True}]),
    "tool_choice.auto.name": body_of(
        tools=[TOOL], tool_choice={"type": "auto", "name": "run_code"}
    ),
    "thinking.adaptive.budget_tokens": body_of(
        thinking={"type": "adaptive", "budget_tokens": 2048}
    ),
    "output_config.verbosity": body_of(output_config={"verbosity": "low"}),
    "metadata.session": body_of(metadata={"session": "x"}),
    "diagnostics.id": body_of(diagnostics={"id": "x"}),
}


@pytest.mark.parametrize("path", EXTRA)
def test_unknown_keys_are_refused(server: FakeAnthropic, path: str) -> None:
    """A key the API does not know is named with its path, however deep it stands."""
    assert refusal(server, EXTRA[path]) == f"{path}: Extra inputs are not permitted"


MISSING: dict[str, dict[str, Any]] = {
    "model": body_of(model=None),
    "max_tokens": body_of(max_tokens=None),
    "messages": {"model": "claude-sonnet-5-5", "max_tokens": 10},
    "messages.0.role": body_of({"content": "x"}),
    "messages.0.content": body_of({"role": "user"}),
    "messages.0.content.0.type": body_of(user({"text": "x"})),
    "messages.0.content.0.text.text": body_of(user({"type": "text"})),
    "messages.1.content.0.tool_use.input": talk(
        assistant({"type": "tool_use", "id": "t1", "name": "run_code"})
    ),
    "messages.1.content.0.thinking.signature": talk(
        assistant({"type": "thinking", "thinking": "x"}, "y")
    ),
    "tools.0.custom.input_schema": body_of(tools=[{"name": "x"}]),
    "tools.0.custom.input_schema.type": body_of(tools=[{"name": "x", "input_schema": {}}]),
    "thinking.enabled.budget_tokens": body_of(thinking={"type": "enabled"}),
    "tool_choice.tool.name": body_of(tools=[TOOL], tool_choice={"type": "tool"}),
}


@pytest.mark.parametrize("path", MISSING)
def test_missing_keys_are_refused(server: FakeAnthropic, path: str) -> None:
    """A required key that is not there is named with its path."""
    assert refusal(server, MISSING[path]) == f"{path}: Field required"


WRONG: dict[str, dict[str, Any]] = {
    "max_tokens: Input should be a valid integer": body_of(max_tokens="10"),
    "max_tokens: Input should be greater than or equal to 0": body_of(max_tokens=-1),
    "messages.0.role: Input should be 'user', 'assistant' or 'system'": body_of(
        {"role": "tool", "content": "x"}
    ),
    "messages.0.content: Input should be a valid list": body_of({"role": "user", "content": None}),
    "messages.0.content.0: Input tag 'audio' found": body_of(user({"type": "audio"})),
    "messages.0.content.0.text.text: Input should be a valid string": body_of(
        user({"type": "text", "text": 5})
    ),
    "messages.1.content.0.tool_use.input: Input should be a valid dictionary": talk(
        assistant({**tool_use("t1"), "input": "{}"})
    ),
    "messages.1.content.0.tool_use.id: String should match pattern": talk(
        assistant(tool_use("call:1"))
    ),
    "messages.2.content.0.tool_result.content.0: Input tag 'tool_use'": talk(
        ASKED, user(tool_result("t1", [tool_use("t2")]))
    ),
    "messages.2.content.0.tool_result.is_error: Input should be a valid boolean": talk(
        ASKED, user(tool_result("t1", is_error="yes"))
    ),
    "cache_control.ttl: Input should be '5m' or '1h'": body_of(
        user({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "2h"}})
    ),
    "tools: Input should be a valid list": {**body_of(), "tools": None},
    "tools.0.custom.name: String should match pattern": body_of(tools=[{**TOOL, "name": "a b"}]),
    "tools.1.custom.name: String should match": body_of(tools=[TOOL, {**TOOL, "name": "a" * 129}]),
    "tools.0.custom.description: Input should be a valid string": body_of(
        tools=[{**TOOL, "description": None}]
    ),
    "tools.0.custom.input_schema.type: Input should be 'object'": body_of(
        tools=[{**TOOL, "input_schema": {"type": "array"}}]
    ),
    "JSON schema is invalid": body_of(
        tools=[{**TOOL, "input_schema": {"type": "object", "required": "code"}}]
    ),
    "does not support oneOf, allOf, or anyOf": body_of(
        tools=[{**TOOL, "input_schema": {"type": "object", "anyOf": []}}]
    ),
    "tool_choice: Input tag 'required'": body_of(tools=[TOOL], tool_choice={"type": "required"}),
    "output_config.effort: Input should be": body_of(output_config={"effort": "extreme"}),
    "thinking.enabled.budget_tokens: Input should be greater": body_of(
        thinking={"type": "enabled", "budget_tokens": 1000}
    ),
    "thinking.adaptive.display: Input should be": body_of(
        thinking={"type": "adaptive", "display": "full"}
    ),
    "stop_sequences: each stop sequence must contain": body_of(stop_sequences=[" "]),
    "stream: Input should be a valid boolean": body_of(stream="yes"),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_values_are_refused(server: FakeAnthropic, message: str) -> None:
    """A value of the wrong kind or outside its set is refused with its path."""
    assert message in refusal(server, WRONG[message])


def test_nulls_the_sdk_sends_are_accepted(server: FakeAnthropic) -> None:
    """Blocks as the SDK dumps them, with their null fields, are valid."""
    call = {**tool_use("t1"), "caller": {"type": "direct"}, "toolset_name": None}
    text = {"type": "text", "text": "x", "citations": None, "cache_control": None}

    accept(server, talk(assistant(text, call), user(RESULT), cache_control=None))


def test_count_tokens_has_its_own_keys(server: FakeAnthropic) -> None:
    """count_tokens takes no max_tokens and no stream, and checks the rest alike."""
    path = "/v1/messages/count_tokens"
    counted, answer, _ = send(server, body_of(max_tokens=None), path)
    extra, refused, _ = send(server, body_of(), path)

    assert (counted, extra) == (200, 400)
    assert answer["input_tokens"] > 0
    assert refused["error"]["message"] == "max_tokens: Extra inputs are not permitted"
