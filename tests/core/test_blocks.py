"""Blocks and messages, and their wire form."""

from __future__ import annotations

import pytest

from jupyter_ctx.core.blocks import (
    Block,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    block_to_wire,
    images_of,
    message_to_wire,
    text_of,
    tool_results,
    tool_uses,
    user,
    without_thinking,
)

PICTURE = Image("image/png", "aGk=", 2, 3)
THOUGHT = Thinking({"type": "thinking", "thinking": "hm", "signature": "s"})
WIRE_PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
}


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        (Text("a", "summary"), {"type": "text", "text": "a"}),
        (PICTURE, WIRE_PICTURE),
        (THOUGHT, {"type": "thinking", "thinking": "hm", "signature": "s"}),
        (Opaque({"type": "new", "x": [1]}), {"type": "new", "x": [1]}),
        (
            ToolUse("t", "run_code", {"b": 1, "a": 2}),
            {"type": "tool_use", "id": "t", "name": "run_code", "input": {"b": 1, "a": 2}},
        ),
        (
            ToolResult("t", (Text("r", "results"), PICTURE)),
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": "r"}, WIRE_PICTURE],
            },
        ),
        (
            ToolResult("t", (Text("r"),), is_error=True),
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": "r"}],
                "is_error": True,
            },
        ),
    ],
)
def test_wire_form(block: Block, wire: dict[str, object]) -> None:
    """A block goes out as the Messages API takes it, keys in order; its part stays at home."""
    assert block_to_wire(block) == wire
    assert list(block_to_wire(block)) == list(wire)
    assert message_to_wire(user(block)) == {"role": "user", "content": [wire]}


def test_a_calls_input_keeps_its_order() -> None:
    """The order of keys inside an input is part of the cached bytes."""
    wire = block_to_wire(ToolUse("t", "run_code", {"b": 1, "a": 2}))["input"]

    assert isinstance(wire, dict)
    assert list(wire) == ["b", "a"]


def test_what_a_message_holds() -> None:
    """Calls, results, images (those in results too) and text are found in order."""
    use, result = ToolUse("t", "run_code", {}), ToolResult("t", (Text("r"), PICTURE))

    assert tool_uses(assistant(Text("a"), use)) == (use,)
    assert tool_results(user(result, Text("b"))) == (result,)
    assert images_of(user(result, PICTURE, Text("b"))) == (PICTURE, PICTURE)
    assert text_of([Text("a"), use, Text("b")]) == "a\n\nb"


def test_thinking_can_be_left_out() -> None:
    """A message without thinking is itself; one of nothing else is none."""
    bare = assistant(Text("a"))

    assert without_thinking(bare) is bare
    assert without_thinking(assistant(THOUGHT, Text("a"))) == bare
    assert without_thinking(assistant(THOUGHT)) is None
