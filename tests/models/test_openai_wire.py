"""Our messages as Chat Completions takes them."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import (
    Block,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    user,
)
from jupyter_ctx.core.ports import Breakpoint, Request
from jupyter_ctx.models.anthropic_wire import MessageWires
from jupyter_ctx.models.anthropic_wire import build_params as build_for_messages
from jupyter_ctx.models.openai_wire import (
    FAILED,
    NO_TEXT,
    PLACEHOLDER,
    Dialect,
    build_message,
    build_params,
    own_names,
    reasoning,
    sent_name,
)
from jupyter_ctx.models.wires import Wires

MODEL = "some-model"
SEEING, BLIND = Dialect(), Dialect(sees_images=False)
PICTURE = Image("image/png", "aGk=", 640, 480)
TOOL = {"name": "run_code", "description": "Run.", "input_schema": {"type": "object"}}


def wires(dialect: Dialect = SEEING, model: str = MODEL) -> Wires:
    """Return wires that remember nothing yet."""
    return Wires(lambda message: build_message(message, model, dialect))


def build(*messages: Message, dialect: Dialect = SEEING, model: str = MODEL) -> list[Any]:
    """Return what messages become."""
    return wires(dialect, model).build(messages)


def request(*messages: Message, **changes: Any) -> Request:
    """Return a request of `messages`."""
    fields: dict[str, Any] = {"model": f"openai:{MODEL}", "system": "Be brief.", "tools": (TOOL,)}
    return Request(**{**fields, "messages": messages, "max_tokens": 900, **changes})


def test_the_whole_request() -> None:
    """A request is sent with these keys and no others, the model without our prefix."""
    asked = request(user(Text("hi")), effort="high", breakpoints=(Breakpoint("system"),))
    schema = {"type": "object", "properties": {}}
    function = {"name": "run_code", "description": "Run.", "parameters": schema}

    assert build_params(asked, MODEL, SEEING, wires()) == {
        "model": MODEL,
        "max_tokens": 900,
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "stream_options": {"include_usage": True},
        "reasoning_effort": "high",
    }


def test_what_a_server_does_not_take_is_not_sent() -> None:
    """By its dialect a server gets the limit under another name, lower, and no usage options."""
    dialect = Dialect("max_completion_tokens", tells_usage=False, most_output=100)
    bare = build_params(request(user(Text("x")), tools=(), system=""), MODEL, dialect, wires())

    assert list(bare) == ["model", "max_completion_tokens", "messages"]
    assert bare["max_completion_tokens"] == 100


def test_results_come_first_and_their_images_behind_all_of_them() -> None:
    """Each result is a `tool` message of text; the step's images follow in one user message."""
    results = user(
        ToolResult("a", (Text("figure"), PICTURE)),
        ToolResult("b", (Text("boom"),), is_error=True),
        Text("[Stopped by the user]"),
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}

    assert build(results) == [
        {"role": "tool", "tool_call_id": "a", "content": f"figure\n{PLACEHOLDER}"},
        {"role": "tool", "tool_call_id": "b", "content": f"{FAILED}boom"},
        {"role": "user", "content": [image, {"type": "text", "text": "[Stopped by the user]"}]},
    ]


def test_a_model_without_sight_gets_words() -> None:
    """A text-only model is told type, pixels and where an image is stored, and gets text alone."""
    results = user(ToolResult("a", (PICTURE,)))
    attached = user(Text("See:"), PICTURE)

    assert build(results, dialect=BLIND) == [
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": "[Image: image/png, 640 × 480 px. This model sees no images; it is stored "
            "with the result a.]",
        }
    ]
    (told,) = build(attached, dialect=BLIND)
    assert told["content"] == (
        "See:\n\n[Image: image/png, 640 × 480 px. This model sees no images.]"
    )


def test_reasoning_goes_back_to_its_own_model_only() -> None:
    """A model gets its reasoning under the names it came with; another gets none of it."""
    signed = {"tool_call": {"extra_content": {"google": {"thought_signature": "s"}}}}
    said = assistant(
        reasoning(MODEL, {"reasoning_content": "hm", "reasoning_details": [{"id": 1}]}, "hm"),
        Thinking({"type": "thinking", "thinking": "of Claude", "signature": "x"}),
        Text("I look."),
        reasoning(MODEL, signed),
        ToolUse("a", "run_code", {"z": 1, "a": "é"}),
        ToolUse("b", "run_code", {}),
    )
    calls = [
        {
            "id": "a",
            "type": "function",
            "function": {"name": "run_code", "arguments": '{"z": 1, "a": "é"}'},
            "extra_content": {"google": {"thought_signature": "s"}},
        },
        {"id": "b", "type": "function", "function": {"name": "run_code", "arguments": "{}"}},
    ]

    assert build(said) == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "reasoning_details": [{"id": 1}],
            "tool_calls": calls,
        }
    ]
    (elsewhere,) = build(said, model="another")
    assert set(elsewhere) == {"role", "content", "tool_calls"}
    assert "extra_content" not in elsewhere["tool_calls"][0]


def test_gemini_gets_the_sign_for_a_call_that_another_made() -> None:
    """The first call of a step that another model made carries the value Google names for it."""
    said = assistant(ToolUse("a", "run_code", {}), ToolUse("b", "run_code", {}))
    (sent,) = build(said, model="gemini-3-pro")
    (older,) = build(said, model="gemini-2.5-pro")

    first, second = sent["tool_calls"]
    assert first["extra_content"]["google"]["thought_signature"]
    assert "extra_content" not in second
    assert "extra_content" not in older["tool_calls"][0]


def test_no_message_is_empty() -> None:
    """What leaves nothing that another protocol knows still is a message with text."""
    foreign = Opaque({"type": "server_tool_use", "id": "s"})

    assert build(assistant(foreign)) == [{"role": "assistant", "content": NO_TEXT}]
    assert build(user(foreign)) == [{"role": "user", "content": NO_TEXT}]


def test_claude_gets_no_reasoning_of_another_protocol() -> None:
    """The Messages API gets the block out of the way, its breakpoint on the block it was on."""
    said = assistant(reasoning(MODEL, {"reasoning": "hm"}), Text("one"), Text("two"))
    alone = assistant(reasoning(MODEL, {"reasoning": "hm"}))
    points = (Breakpoint("message", 1, 1),)
    asked = request(user(Text("x")), said, alone, model="claude-sonnet-5-5", breakpoints=points)
    _, sent, rest = build_for_messages(asked, MessageWires())["messages"]

    assert [block["text"] for block in sent["content"]] == ["one", "two"]
    assert ["cache_control" in block for block in sent["content"]] == [True, False]
    assert [block["type"] for block in rest["content"]] == ["text"]


# The law of the prefix ---------------------------------------------------------------------------

JSON = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
TEXT = st.builds(Text, st.text(min_size=1, max_size=20))
IMAGE = st.builds(
    Image, st.just("image/png"), st.just("aGk="), st.integers(1, 900), st.integers(1, 900)
)
THOUGHT = st.builds(reasoning, st.sampled_from([MODEL, "another"]), OBJECT) | st.builds(
    Thinking, st.fixed_dictionaries({"type": st.just("thinking"), "thinking": st.text()})
)


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Draw a conversation: prompts, replies with calls, their results with images."""
    talk: list[Message] = []
    for turn in range(draw(st.integers(1, 4))):
        attached = draw(st.lists(TEXT | IMAGE, min_size=1, max_size=3))
        talk.append(user(*attached))
        calls = [
            ToolUse(f"t{turn}_{n}", "run_code", draw(OBJECT))
            for n in range(draw(st.integers(0, 3)))
        ]
        said: list[Block] = draw(st.lists(TEXT | THOUGHT, max_size=2))
        talk.append(assistant(*said, *calls, *([] if calls else [Text("Done.")])))
        if calls:
            results: list[Block] = [
                ToolResult(
                    use.id,
                    tuple(draw(st.lists(TEXT | IMAGE, min_size=1, max_size=3))),
                    draw(st.booleans()),
                )
                for use in calls
            ]
            talk.append(user(*results, *draw(st.lists(TEXT, max_size=1))))
    return talk


@given(talks(), st.booleans(), st.data())
def test_a_prefix_of_the_talk_is_a_prefix_of_what_is_sent(
    talk: list[Message], sees: bool, data: st.DataObject
) -> None:
    """What messages become never depends on what follows: the list sent only grows, as bytes."""
    dialect = Dialect(sees_images=sees)
    length = data.draw(st.integers(0, len(talk)))
    whole = [json.dumps(message) for message in build(*talk, dialect=dialect)]
    part = [json.dumps(message) for message in build(*talk[:length], dialect=dialect)]

    assert whole[: len(part)] == part
    assert len(part) >= length


@given(talks(), st.booleans())
def test_every_result_stands_right_behind_its_call(talk: list[Message], sees: bool) -> None:
    """Each call is answered by the `tool` messages directly behind it, in order, text only."""
    sent = build(*talk, dialect=Dialect(sees_images=sees))
    for place, message in enumerate(sent):
        ids = [call["id"] for call in message.get("tool_calls", ())]
        answers = sent[place + 1 : place + 1 + len(ids)]

        assert [answer.get("tool_call_id") for answer in answers] == ids
        assert all(isinstance(answer["content"], str) for answer in answers)


@given(talks())
def test_a_blind_model_is_sent_no_image(talk: list[Message]) -> None:
    """Nothing of what a text-only model is sent is anything but text."""
    sent = build(*talk, dialect=BLIND)

    assert all(
        message["content"] is None or isinstance(message["content"], str) for message in sent
    )


@given(talks())
def test_what_was_built_before_changes_nothing(talk: list[Message]) -> None:
    """The same request gives the same bytes, whatever was built before, part by part or whole."""
    grown = wires()
    built = [grown.build(talk[:length]) for length in range(len(talk) + 1)]

    assert json.dumps(built[-1]) == json.dumps(build(*talk))


@given(st.lists(st.text(min_size=1), unique=True, max_size=6))
def test_any_tool_has_a_name_that_is_taken_and_leads_back(names: list[str]) -> None:
    """Names are sent as OpenAI takes them, no two alike, the same for ever; each leads back."""
    sent = [sent_name(name) for name in names]
    back = own_names([{"name": name} for name in names])

    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in sent)
    assert list(map(sent_name, sent)) == sent
    assert [back.get(name, name) for name in sent] == names


def test_a_name_that_is_taken_is_sent_as_it_is() -> None:
    """64 letters are a name; of two longer ones that begin alike two are made."""
    taken = "mcp__server__" + "x" * 51
    one, two = sent_name(taken + "_one"), sent_name(taken + "_two")

    assert sent_name(taken) == taken
    assert one != two
    assert one[:55] == two[:55] == taken[:55]


def test_a_server_without_system_prompts_gets_it_with_the_first_prompt() -> None:
    """The system prompt stands before the first prompt's words, or before its parts."""
    dialect = Dialect(takes_system=False)
    plain = build_params(request(user(Text("hi"))), MODEL, dialect, wires())
    shown = build_params(request(user(PICTURE)), MODEL, dialect, wires())
    (later,) = (build_params(request(assistant(Text("A."))), MODEL, dialect, wires()),)

    assert plain["messages"] == [{"role": "user", "content": "Be brief.\n\nhi"}]
    assert shown["messages"][0]["content"][0] == {"type": "text", "text": "Be brief."}
    assert [message["role"] for message in later["messages"]] == ["user", "assistant"]


def test_the_same_id_is_sent_with_a_call_and_its_result() -> None:
    """Where ids are too long, a call and its result go under one other id, of that length."""
    talk = [
        assistant(ToolUse("x" * 70, "run_code", {}), ToolUse("b" * 9, "run_code", {})),
        user(ToolResult("x" * 70, (Text("1"),)), ToolResult("b" * 9, (Text("2"),))),
    ]
    for most, length in ((64, 32), (9, 9)):
        asked, *results = build(*talk, dialect=Dialect(most_id=most))
        ids = [call["id"] for call in asked["tool_calls"]]

        assert ids == [answer["tool_call_id"] for answer in results]
        assert len(ids[0]) == length
        assert ids[1] == "b" * 9


def test_empty_text_beside_an_image_is_left_out() -> None:
    """No part of a message is an empty text, which servers refuse."""
    (sent,) = build(user(Text(""), PICTURE))

    assert [part["type"] for part in sent["content"]] == ["image_url"]
