"""Where the prompt cache breakpoints go: a pure function of the messages alone.

What the previous request wrote ends at its last message, which the same function marks again in
the next request; so the entry is found at once, however long the step was. Being pure, the places
of any earlier request can be found again from its messages, also in a resumed session.

    request k      tools* system* … user_k*
    request k + 1  tools* system* … user_k*  reply  user_k+1*
"""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Block, Image, Message, Text, ToolResult, ToolUse
from .ports import Breakpoint

# A marker looks back 20 blocks, itself counted (API.md 5): no two may be further apart than this.
FAR_BLOCKS = 15


def place_breakpoints(messages: Sequence[Message]) -> tuple[Breakpoint, ...]:
    """Return at most four breakpoints for a request of `messages`, in the order they are sent.

    They stand on the last tool, on the system prompt, at the end of the message the previous
    request ended with, and at the end of the newest. When more than 15 blocks lie between those
    two, the tools' breakpoint (which the system's covers) gives its place to one halfway. Never on
    thinking, empty text or a block of unknown type. An adapter leaves out the tools' or the
    system's where there are none.
    """
    tools, system = Breakpoint("tools"), Breakpoint("system")
    newest = _last_markable(messages, len(messages))
    if newest is None:
        return tools, system
    previous = _last_markable(messages, _find_previous_end(messages))
    if previous is None or previous == newest:
        return tools, system, newest
    between = _find_between(messages, previous, newest)
    if between is None:
        return tools, system, previous, newest
    return system, previous, between, newest


def _find_previous_end(messages: Sequence[Message]) -> int:
    """Return how many messages the previous request had: all before the newest reply."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return index
    return 0


def _last_markable(messages: Sequence[Message], end: int) -> Breakpoint | None:
    """Return the last block of `messages[:end]` that can carry a breakpoint."""
    for index in range(end - 1, -1, -1):
        content = messages[index].content
        for block in range(len(content) - 1, -1, -1):
            if _is_markable(content[block]):
                return Breakpoint("message", index, block)
    return None


def _find_between(
    messages: Sequence[Message], previous: Breakpoint, newest: Breakpoint
) -> Breakpoint | None:
    """Return a place halfway between the two, None if they are near enough to each other."""
    between = [
        Breakpoint("message", index, block)
        for index in range(previous.message, newest.message + 1)
        for block in range(len(messages[index].content))
        if (previous.message, previous.block) < (index, block) < (newest.message, newest.block)
    ]
    if len(between) <= FAR_BLOCKS:
        return None
    middle = len(between) // 2
    able = [
        (abs(place - middle), place)
        for place, point in enumerate(between)
        if _is_markable(messages[point.message].content[point.block])
    ]
    return between[min(able)[1]] if able else None


def _is_markable(block: Block) -> bool:
    match block:
        case Text(text=text):
            return bool(text.strip())
        case Image() | ToolUse() | ToolResult():
            return True
        case _:
            return False
