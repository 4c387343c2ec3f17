"""A reply as it arrives: what is shown, what is kept, and what must not be sent back."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from jupyter_ctx.core.blocks import Block, Image, Opaque, Text, Thinking, ToolUse
from jupyter_ctx.core.events import TextDelta, TextFinished, ThinkingDelta
from jupyter_ctx.core.ports import BlockDone, Delta, ReplyDone, TextPart, ThinkingPart, ToolPart
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.reply import Reply
from jupyter_ctx.core.usage import Usage

KEY = "sk-ant-0123456789"
THOUGHT = Thinking({"type": "thinking", "thinking": "hm", "signature": "s"})


def fill(*deltas: Delta, seen: Iterable[str] = ()) -> Reply:
    """Return a reply after these deltas."""
    reply = Reply(Redactor({"THE_KEY": KEY}), frozenset(seen), 1, "jctx_1_1_9")
    for delta in deltas:
        reply.take(delta, 1)
    return reply


def done(*blocks: Block) -> list[Delta]:
    return [BlockDone(block) for block in blocks]


def test_what_arrives_is_shown_and_kept() -> None:
    """Text is told as it comes and once whole, thinking as it comes; a begun call is not shown."""
    reply = fill()
    deltas: list[Delta] = [
        *(ThinkingPart("h"), ThinkingPart("m"), BlockDone(THOUGHT)),
        *(TextPart("Hello "), TextPart("there."), BlockDone(Text("Hello there."))),
        *(ToolPart("a", "make"), BlockDone(ToolUse("a", "make", {}))),
        ReplyDone("tool_use", Usage(1, 0, 0, 1)),
    ]
    events = [event for delta in deltas for event in reply.take(delta, 3)]

    thoughts = [event.text for event in events if isinstance(event, ThinkingDelta)]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert ("".join(thoughts), "".join(texts)) == ("hm", "Hello there.")
    assert events[-1] == TextFinished(3, 1, "Hello there.")
    assert reply.blocks == [THOUGHT, Text("Hello there."), ToolUse("a", "make", {})]
    assert reply.done is not None
    assert reply.is_whole(reply.blocks)
    assert not reply.is_whole(reply.blocks[:1])


@pytest.mark.parametrize(
    "changed",
    [
        Text(""),
        Text(f"the key is {KEY}"),
        ToolUse("seen", "make", {}),
        ToolUse("not a wire id!", "make", {}),
        ToolUse("", "make", {}),
        ToolUse("x" * 129, "make", {}),
        ToolUse("a", "make", {"key": KEY}),
        Opaque({"type": "server_tool_use", "input": {"key": KEY}}),
    ],
)
def test_thinking_behind_what_was_changed_is_left_out(changed: Block) -> None:
    """A block that is not as it came takes the thinking behind it along, not that before it."""
    later = Thinking({"type": "thinking", "thinking": "so", "signature": "t"})
    reply = fill(*done(THOUGHT, changed, later, Text("Yes.")), seen={"seen"})

    assert reply.blocks[0] == THOUGHT
    assert later not in reply.blocks
    assert reply.blocks[-1] == Text("Yes.")
    assert KEY not in repr(reply.blocks)
    assert not reply.is_whole(reply.blocks)


def test_what_was_not_changed_keeps_its_thinking() -> None:
    """Blocks of a kind that is not known, and pictures, stay as they came."""
    opaque, picture = Opaque({"type": "server_tool_use"}), Image("image/png", "aGk=", 1, 1)
    later = Thinking({"type": "thinking", "thinking": "so", "signature": "t"})
    blocks: list[Block] = [THOUGHT, opaque, picture, later, Text("Yes.")]

    assert fill(*done(*blocks)).blocks == blocks


def test_two_calls_of_one_id_get_two() -> None:
    """No id is used twice, in a reply or in the session."""
    uses = [ToolUse("a", "make", {}), ToolUse("a", "make", {}), ToolUse("b", "make", {})]
    reply = fill(*done(*uses), seen={"b"})

    ids = [block.id for block in reply.blocks if isinstance(block, ToolUse)]
    assert ids == ["a", "jctx_1_1_9_1", "jctx_1_1_9_2"]


def test_a_stopped_reply_keeps_the_text_so_far() -> None:
    """Finished blocks and half a text stay; thinking at the end, and a blank half, do not."""
    half = fill(*done(THOUGHT, Text("One.")), TextPart("Two and a ha"))
    assert half.kept_after_stop() == (THOUGHT, Text("One."), Text("Two and a ha"))
    assert fill(*done(Text("One.")), TextPart(" \n")).kept_after_stop() == (Text("One."),)
    assert fill(*done(Text("One."), THOUGHT)).kept_after_stop() == (Text("One."),)
    assert fill(ThinkingPart("hm")).kept_after_stop() == ()


def test_a_stream_that_broke_begins_anew() -> None:
    """Nothing of the first try is kept, and its texts' numbers are not given again."""
    reply = fill(*done(Text(KEY)), TextPart("Tw"))
    reply.restart()

    assert (reply.blocks, reply.partial, reply.done, reply.is_changed) == ([], "", None, False)
    assert reply.take(TextPart("Two"), 1)
    assert reply.take(BlockDone(Text("Two")), 1)[-1] == TextFinished(1, 3, "Two")
