"""The request as it goes on the wire."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Message, Text, ToolResult, ToolUse, assistant, user
from jupyter_ctx.core.ports import Breakpoint, Request
from jupyter_ctx.models.anthropic_wire import MessageWires, build_params, build_prompt
from jupyter_ctx.models.wiretext import mend

TOOLS = (
    {"name": "inspect", "description": "Look.", "input_schema": {"type": "object"}},
    {"name": "run_code", "description": "Run.", "input_schema": {"type": "object"}},
)
TALK = (
    user(Text("one"), Text("two")),
    assistant(ToolUse("t1", "run_code", {"z": 1, "a": 2})),
    user(ToolResult("t1", (Text("3"),), is_error=True), Text("and?")),
)
MARKS = (
    Breakpoint("tools"),
    Breakpoint("system"),
    Breakpoint("message", 0, 1),
    Breakpoint("message", 2, 0),
)


def request(**changes: Any) -> Request:
    """Return a request with some fields changed."""
    fields: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "system": "Be brief.",
        "tools": TOOLS,
        "messages": TALK,
        "max_tokens": 8000,
        "breakpoints": MARKS,
        "thinking": "adaptive",
    }
    return Request(**{**fields, **changes})


def wire(asked: Request, wires: MessageWires | None = None) -> str:
    """Return the request's JSON."""
    return json.dumps(build_params(asked, wires or MessageWires()))


def test_the_whole_request() -> None:
    """A request is sent with these keys and no others."""
    cache = {"type": "ephemeral", "ttl": "1h"}

    assert build_params(request(cache_ttl="1h", effort="high"), MessageWires()) == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 8000,
        "tools": [TOOLS[0], {**TOOLS[1], "cache_control": cache}],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": cache}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "one"},
                    {"type": "text", "text": "two", "cache_control": cache},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "t1", "name": "run_code", "input": {"z": 1, "a": 2}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "3"}],
                        "is_error": True,
                        "cache_control": cache,
                    },
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
    }


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    """Without cache, tools, system, thinking and effort, none of their keys is on the wire."""
    bare = request(system="", tools=(), breakpoints=(), thinking="off", model="claude-opus-5-5")

    assert list(build_params(bare, MessageWires())) == ["model", "max_tokens", "messages"]
    assert "cache_control" not in wire(bare)


def test_a_later_step_begins_with_the_bytes_of_the_one_before() -> None:
    """Without breakpoints, a grown conversation's JSON is the old one's plus what is new."""
    more = (*TALK, assistant(Text("five")))
    before = json.dumps(MessageWires().build(TALK))
    after = json.dumps(MessageWires().build(more))

    assert after.startswith(before[:-1])


def test_markers_are_put_on_copies() -> None:
    """A marker of one request is not on the next one's wire, though messages are remembered."""
    wires = MessageWires()
    marked = wire(request(), wires)
    plain = wire(request(breakpoints=()), wires)

    assert "cache_control" in marked
    assert "cache_control" not in plain
    assert plain == wire(request(breakpoints=()))
    assert "cache_control" not in TOOLS[1]


def test_only_new_messages_are_built() -> None:
    """The wire form of a message seen in the last request is the same object in the next."""
    wires = MessageWires()
    first = wires.build(TALK)
    second = wires.build((*TALK, assistant(Text("five"))))

    shorter = wires.build(TALK[:1])
    again = wires.build(TALK)

    assert all(old is new for old, new in zip(first, second, strict=False))
    assert shorter[0] is again[0] is first[0]
    assert again[1] is not first[1], "messages that left the conversation are forgotten"


MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant"]),
        st.tuples(st.builds(Text, st.text(min_size=1))),
    ),
    max_size=5,
)


@given(MESSAGES)
def test_equal_requests_have_equal_bytes(messages: list[Message]) -> None:
    """The same request gives the same bytes, whatever was built before."""
    wires = MessageWires()
    asked = request(messages=tuple(messages), breakpoints=(Breakpoint("system"),))
    twin = request(
        messages=tuple(Message(m.role, tuple(m.content)) for m in messages),
        breakpoints=(Breakpoint("system"),),
    )
    wire(request(), wires)

    assert wire(asked, wires) == wire(asked, wires) == wire(twin)


def test_a_count_asks_about_the_same_prompt() -> None:
    """`count_tokens` gets the prompt's arguments, without model and limit."""
    counted = build_prompt(request(), MessageWires())

    assert {"model": "claude-sonnet-5-5", "max_tokens": 8000, **counted} == build_params(
        request(), MessageWires()
    )


VALUES = st.recursive(
    st.text() | st.none() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
@settings(deadline=None)
def test_mending_leaves_valid_text_alone(value: object) -> None:
    """Mending changes no valid value, and always gives UTF-8."""
    assert mend(value) == value


def test_mending_replaces_half_characters() -> None:
    """Lone halves become U+FFFD in every depth, pairs are joined, and the order of keys stays."""
    broken = {"z\ud800": ["a\udc00", {"x": "\ud83d\ude00"}], "a": 1}

    assert list(mend(broken).items()) == [("z�", ["a�", {"x": "😀"}]), ("a", 1)]
