"""What is refused in a conversation whose shape is valid."""

from __future__ import annotations

from typing import Any

import pytest

from . import FakeAnthropic, FakeModel
from .raw import TOOL, accept, assistant, body_of, marked, refusal, tool_result, tool_use, user

TEXT = {"type": "text", "text": "and"}
SYSTEM = {"role": "system", "content": "Be brief."}


def talk(*messages: Any, **changes: Any) -> dict[str, Any]:
    return body_of(user("Go."), *messages, **{"tools": [TOOL], **changes})


def calls(*ids: str) -> dict[str, Any]:
    return assistant(*(tool_use(id_) for id_ in ids))


def results(*ids: str) -> dict[str, Any]:
    return user(*(tool_result(id_) for id_ in ids))


NO_RESULT = "`tool_use` ids were found without `tool_result` blocks immediately after"
NO_CALL = "unexpected `tool_use_id` found in `tool_result` blocks"

PAIRS: dict[str, tuple[dict[str, Any], str]] = {
    "no result": (talk(calls("a"), user("Well?")), f"messages.1: {NO_RESULT}: a"),
    "one of two": (talk(calls("a", "b"), results("a")), f"messages.1: {NO_RESULT}: b"),
    "a turn late": (
        talk(calls("a"), user("Well?"), assistant("Hm."), results("a")),
        NO_RESULT,
    ),
    "text before": (talk(calls("a"), user(TEXT, tool_result("a"))), NO_RESULT),
    "text between": (
        talk(calls("a", "b"), user(tool_result("a"), TEXT, tool_result("b"))),
        f"{NO_RESULT}: b",
    ),
    "text between, in merged messages": (
        talk(calls("a", "b"), results("a"), user("and"), results("b")),
        f"{NO_RESULT}: b",
    ),
    "no call": (talk(assistant("Hm."), results("a")), f"messages.2.content.0: {NO_CALL}: a"),
    "no call, first": (body_of(results("a"), tools=[TOOL]), NO_CALL),
    "another call": (talk(calls("a"), user(tool_result("a"), tool_result("x"))), NO_CALL),
    "answered before": (talk(calls("a"), results("a"), assistant("Hm."), results("a")), NO_CALL),
    "two results": (
        talk(calls("a"), results("a", "a")),
        "each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
    ),
    "same id twice": (talk(calls("a", "a"), results("a")), "`tool_use` ids must be unique"),
    "same id in merged messages": (
        talk(calls("a"), calls("a"), results("a")),
        "`tool_use` ids must be unique",
    ),
    "open at the end": (talk(calls("a")), NO_RESULT),
}


@pytest.mark.parametrize("case", PAIRS)
def test_broken_pairs_are_refused(server: FakeAnthropic, case: str) -> None:
    """Each call is answered once, at the start of the very next user turn, and nothing else is."""
    body, message = PAIRS[case]

    assert message in refusal(server, body)


def test_whole_pairs_are_accepted(server: FakeAnthropic) -> None:
    """Results in any order, text after them, merged messages, ids used again later: all fine."""
    accept(server, talk(calls("a", "b"), results("b", "a"), user("and")))
    accept(server, talk(calls("a"), calls("b"), results("a"), user(tool_result("b"), TEXT)))
    accept(server, talk(calls("a"), results("a"), calls("a"), results("a")))
    accept(server, talk(calls("a"), user(tool_result("a", ""))))
    accept(server, talk(calls("a"), user({"type": "tool_result", "tool_use_id": "a"})))


def test_error_results_hold_text_only(server: FakeAnthropic) -> None:
    """A result with is_error must have content, and only text."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}
    text = {"type": "text", "text": "x"}

    empty = refusal(server, talk(calls("a"), user(tool_result("a", [], is_error=True))))
    mixed = refusal(server, talk(calls("a"), user(tool_result("a", [text, image], is_error=True))))

    assert empty.endswith("content cannot be empty if `is_error` is true")
    assert mixed.endswith("all content must be type `text` if `is_error` is true")
    accept(server, talk(calls("a"), user(tool_result("a", [text], is_error=True))))
    accept(server, talk(calls("a"), user(tool_result("a", [text, image]))))


EMPTY = "messages: text content blocks must be non-empty"
BLANK = "messages: text content blocks must contain non-whitespace text"
TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "empty": (body_of(user("")), EMPTY),
    "empty beside another": (body_of(user("x", "")), EMPTY),
    "empty in a result": (
        talk(calls("a"), user(tool_result("a", [{"type": "text", "text": ""}]))),
        EMPTY,
    ),
    "empty of the assistant": (talk(assistant(""), user("x")), EMPTY),
    "blank": (body_of(user(" \n")), BLANK),
    "blank beside a call": (talk(assistant(" ", tool_use("a")), results("a")), BLANK),
    "blank as a plain text": (body_of({"role": "user", "content": " "}), BLANK),
    "empty content": (
        body_of({"role": "user", "content": []}),
        "messages.0: all messages must have non-empty content",
    ),
    "empty plain text": (
        body_of({"role": "user", "content": ""}),
        "messages.0: all messages must have non-empty content",
    ),
    "empty assistant message": (
        talk({"role": "assistant", "content": []}, user("x")),
        "messages.1: all messages must have non-empty content",
    ),
    "blank system": (
        body_of(system=[{"type": "text", "text": " "}]),
        "system: text content blocks must contain non-whitespace text",
    ),
    "marker on empty text": (
        body_of(user("x", marked(""))),
        "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_empty_texts_are_refused(server: FakeAnthropic, case: str) -> None:
    """Empty text is refused anywhere, blank text when its message has no other."""
    body, message = TEXTS[case]

    assert message in refusal(server, body)


def test_blank_text_beside_other_text_is_accepted(server: FakeAnthropic) -> None:
    """A blank text is fine where the message has another text."""
    accept(server, body_of(user("x", " ")))


PLACES: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": (body_of() | {"messages": []}, "at least one message is required"),
    "assistant first": (body_of(assistant("x"), user("y")), "first message must use"),
    "prefill": (talk(assistant("The answer is")), "does not support assistant message prefill"),
    "call of the user": (talk(assistant("x"), user(tool_use("a"))), "`tool_use` blocks can only"),
    "result of the assistant": (
        talk(calls("a"), results("a"), assistant(tool_result("a")), user("x")),
        "`tool_result` blocks can only be in `user` messages",
    ),
    "image of the assistant": (
        talk(
            assistant({"type": "image", "source": {"type": "url", "url": "https://x"}}), user("x")
        ),
        "`image` blocks can only be in `user` messages",
    ),
    "system first": (body_of(SYSTEM, user("x")), "first message must use"),
    "system after the assistant": (
        talk(assistant("x"), SYSTEM),
        "must follow a user turn",
    ),
    "system before the user": (
        talk(SYSTEM, user("x"), assistant("y"), user("z")),
        "must not come before a user turn",
    ),
    "system with an image": (
        talk(
            {
                "role": "system",
                "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}],
            }
        ),
        "may only contain text",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_wrong_places_are_refused(server: FakeAnthropic, case: str) -> None:
    """Roles and blocks stand only where the API takes them."""
    body, message = PLACES[case]

    assert message in refusal(server, body)


def test_system_messages_by_model(server: FakeAnthropic) -> None:
    """A system message after the newest user turn is taken by models that have them, only."""
    accept(server, talk(SYSTEM))
    accept(server, talk(calls("a"), results("a"), SYSTEM, assistant("x"), user("y")))
    assert "messages.1.role" in refusal(server, talk(SYSTEM, model="claude-haiku-4-5"))


def test_prefill_by_model(server: FakeAnthropic) -> None:
    """An older model takes a last assistant message."""
    accept(server, talk(assistant("The answer is"), model="claude-haiku-4-5"))


TOOLS: dict[str, tuple[dict[str, Any], str]] = {
    "tools left out": (
        talk(calls("a"), results("a"), tools=None),
        "Requests which include `tool_use` or `tool_result` blocks must define tools.",
    ),
    "no tools": (talk(calls("a"), results("a"), tools=[]), "must define tools"),
    "same name": (body_of(tools=[TOOL, TOOL]), "tools: Tool names must be unique."),
    "choice without tools": (body_of(tool_choice={"type": "auto"}), "may only be specified"),
    "any": (talk(tool_choice={"type": "any"}), "`any` is not supported for this model"),
    "tool": (
        talk(tool_choice={"type": "tool", "name": "run_code"}),
        "`tool` is not supported for this model",
    ),
    "unknown tool": (
        talk(model="claude-haiku-4-5", tool_choice={"type": "tool", "name": "x"}),
        "Tool 'x' not found",
    ),
    "forced while thinking": (
        talk(
            model="claude-haiku-4-5",
            max_tokens=2000,
            tool_choice={"type": "any"},
            thinking={"type": "enabled", "budget_tokens": 1024},
        ),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
}


@pytest.mark.parametrize("case", TOOLS)
def test_wrong_tools_are_refused(server: FakeAnthropic, case: str) -> None:
    """A history with calls needs tools; names are unique; a tool is forced only where taken."""
    body, message = TOOLS[case]

    assert message in refusal(server, body)


def test_a_call_of_a_tool_that_is_gone_is_accepted(server: FakeAnthropic) -> None:
    """The history may hold calls of tools that are no longer offered."""
    accept(server, talk(calls("a"), results("a"), tools=[{**TOOL, "name": "other"}]))


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "max_tokens": (
        body_of(max_tokens=128_001),
        "max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens",
    ),
    "pre-warm with stream": (body_of(max_tokens=0, stream=True), "max_tokens: 0 is not supported"),
    "budget": (
        body_of(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=1024),
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    ),
    "manual thinking": (
        body_of(
            model="claude-opus-5-5",
            thinking={"type": "enabled", "budget_tokens": 1024},
            max_tokens=2000,
        ),
        '"thinking.type.enabled" is not supported for this model.',
    ),
    "adaptive thinking": (
        body_of(model="claude-haiku-4-5", thinking={"type": "adaptive"}),
        '"thinking.type.adaptive" is not supported',
    ),
    "effort": (
        body_of(model="claude-haiku-4-5", output_config={"effort": "low"}),
        "does not support the effort parameter",
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_the_model_does_not_take(server: FakeAnthropic, case: str) -> None:
    """Output limit, thinking and effort depend on the model."""
    body, message = SETTINGS[case]

    assert message in refusal(server, body)


def test_prompt_over_the_window() -> None:
    """A prompt over the window is refused with both numbers; max_tokens does not count."""
    models = {"claude-sonnet-5-5": FakeModel(window=2_000, max_output=2_000)}
    with FakeAnthropic(["ok"], models=models) as server:
        message = refusal(server, body_of(user("x" * 6400)))
        accept(server, body_of(user("x" * 3200), max_tokens=2_000))

        assert message == "prompt is too long: 2015 tokens > 2000 maximum"
        assert server.messages[0].input_tokens == 2015
        assert not server.unused


def test_output_is_cut_at_the_limits() -> None:
    """A reply longer than max_tokens, or than the window's rest, stops there with that reason."""
    models = {"claude-sonnet-5-5": FakeModel(window=1_100, max_output=1_000)}
    with FakeAnthropic(["y" * 4000] * 2, models=models) as server:
        short = accept(server, body_of(max_tokens=10))
        long = accept(server, body_of(user("x" * 3200), max_tokens=500))

    assert short["stop_reason"] == "max_tokens"
    assert short["usage"]["output_tokens"] == 10
    assert short["content"][0]["text"] == "y" * 32
    assert long["stop_reason"] == "model_context_window_exceeded"
    used = long["usage"]
    assert used["input_tokens"] + used["output_tokens"] == 1_100


def test_pre_warming(server: FakeAnthropic) -> None:
    """max_tokens 0 brings an empty message, and takes no answer from the script."""
    assert accept(server, body_of(max_tokens=0))["content"] == []


def test_one_refusal_takes_no_answer() -> None:
    """A refused request leaves the script as it was, and is listed as refused."""
    with FakeAnthropic(["ok"]) as server:
        refusal(server, body_of(user("")))

        assert server.unused == ["ok"]
        assert [record.number for record in server.refused] == [1]
