"""Breakpoints: at most four, always one on what the previous request wrote."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import (
    Message,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    user,
)
from jupyter_ctx.core.cache import place_breakpoints
from jupyter_ctx.core.ports import Breakpoint

from .strategies import broken_views, valid_views

TOOLS, SYSTEM = Breakpoint("tools"), Breakpoint("system")
fast = settings(max_examples=100, deadline=None)


def at(message: int, block: int = 0) -> Breakpoint:
    return Breakpoint("message", message, block)


def step(calls: int, name: str = "x") -> tuple[Message, Message]:
    uses = [ToolUse(f"{name}{i}", "run_code", {}) for i in range(calls)]
    return assistant(*uses), user(*(ToolResult(use.id, (Text("r"),)) for use in uses))


def position(messages: Sequence[Message], point: Breakpoint) -> int:
    """Return how many blocks of the messages stand before the breakpoint's block."""
    return sum(len(m.content) for m in messages[: point.message]) + point.block


def test_first_request() -> None:
    """Tools, system and the prompt; with no message yet, only the prefix."""
    assert place_breakpoints([user(Text("a"), Text("b"))]) == (TOOLS, SYSTEM, at(0, 1))
    assert place_breakpoints([]) == (TOOLS, SYSTEM)


def test_next_request_marks_where_the_last_one_ended() -> None:
    """The previous request's last message is the user message before the newest reply."""
    messages = [user(Text("go")), *step(2)]

    assert place_breakpoints(messages) == (TOOLS, SYSTEM, at(0), at(2, 1))


def test_two_user_messages_in_a_row() -> None:
    """A note behind the results is the newest; the entry still ends before the reply."""
    messages = [user(Text("go")), *step(1), user(Text("note"))]

    assert place_breakpoints(messages) == (TOOLS, SYSTEM, at(0), at(3))


def test_a_long_step_gets_one_between() -> None:
    """Over 15 blocks between the two, the tools' breakpoint moves to the block halfway."""
    near = [user(Text("go")), *step(8)]
    assert place_breakpoints(near) == (TOOLS, SYSTEM, at(0), at(2, 7))

    far = [user(Text("go")), *step(30)]

    assert place_breakpoints(far) == (SYSTEM, at(0), at(1, 29), at(2, 29))


def test_thinking_and_unknown_blocks_carry_nothing() -> None:
    """A message that ends with thinking is marked before it; one of nothing else, not at all."""
    thought = Thinking({"type": "thinking", "thinking": "hm"})
    paused = [user(Text("go"), Text(" ")), assistant(Text("a"), thought, Opaque({"type": "new"}))]
    assert place_breakpoints(paused) == (TOOLS, SYSTEM, at(0), at(1))

    only_thought = [user(Text("go")), assistant(thought)]
    assert place_breakpoints(only_thought) == (TOOLS, SYSTEM, at(0))

    many = [user(Text("go")), assistant(*[thought] * 20), user(Text("on"))]
    assert place_breakpoints(many) == (TOOLS, SYSTEM, at(0), at(2))


@fast
@given(broken_views)
def test_breakpoints_are_valid(messages: tuple[Message, ...]) -> None:
    """Two to four, each once, in sending order, none on thinking or a blank text."""
    points = place_breakpoints(messages)
    placed = [(point.message, point.block) for point in points if point.where == "message"]

    assert 2 <= len(points) <= 4
    assert SYSTEM in points
    assert placed == sorted(set(placed))
    for message, block in placed:
        marked = messages[message].content[block]
        assert isinstance(marked, (Text, ToolUse, ToolResult)) or hasattr(marked, "data")
        assert not isinstance(marked, Text) or marked.text.strip()


@fast
@given(valid_views(least_turns=1), st.integers(0, 40))
def test_every_request_finds_the_one_before(view: tuple[Message, ...], wide: int) -> None:
    """Whatever a step's width, a breakpoint looks back (20 blocks) at the previous one's last."""
    log = [*view, user(Text("go")), *(step(wide, "w") if wide else ()), *step(1, "z")]
    sent = [index for index, message in enumerate(log) if message.role == "assistant"]

    for earlier, later in pairwise(sent):
        written = position(log, place_breakpoints(log[:earlier])[-1])
        points = [p for p in place_breakpoints(log[:later]) if p.where == "message"]
        assert any(0 <= position(log, point) - written < 20 for point in points)


@fast
@given(valid_views(least_turns=1))
def test_the_newest_message_is_marked(view: tuple[Message, ...]) -> None:
    """The last breakpoint of a request stands on its last message."""
    ends = [index for index, message in enumerate(view) if message.role == "user"]

    for end in ends:
        assert place_breakpoints(view[: end + 1])[-1].message == end
