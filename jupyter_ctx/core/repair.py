"""Mend a view that the provider would refuse: calls without results, results without calls.

The rule (API.md 5): every `tool_use` is answered in the very next user message, results first and
in call order, one each; no result without its call; no empty text; the first message is the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from .blocks import Block, Image, Message, Text, ToolResult, ToolUse, tool_results, tool_uses

INTERRUPTED_TEXT = (
    "tool call was interrupted and did not produce a result, "
    "you may retry this call if the result is still needed"
)
LOST_START_TEXT = "[The beginning of this conversation could not be read.]"
NO_OUTPUT_TEXT = "(no output)"


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` in a form the provider takes; a valid view comes back as it is.

    A call without a result gets an error result; a result further down is moved to its call; a
    result without a call, or a second one, is dropped. Messages of one role are joined only where
    a pair needs it. A view that begins with a reply gets a user message before it. Total, and
    idempotent.
    """
    cleaned = [kept for message in messages if (kept := _clean(message)) is not None]
    strays = _find_strays(cleaned)
    mended: list[Message] = []
    index = 0
    while index < len(cleaned):
        message = cleaned[index]
        index += 1
        if message.role == "user":
            mended += _without_results([message])
            continue
        while tool_uses(message) and _role_at(cleaned, index) == "assistant":
            joined = _clean(Message("assistant", message.content + cleaned[index].content))
            message = joined or message
            index += 1
        mended.append(message)
        if tool_uses(message):
            end = index
            while _role_at(cleaned, end) == "user":
                end += 1
            mended += _answer(message, cleaned[index:end], strays)
            index = end
    if mended and mended[0].role == "assistant":
        mended.insert(0, Message("user", (Text(LOST_START_TEXT),)))
    return tuple(mended)


def orphan_results(view: Sequence[Message]) -> tuple[ToolResult, ...]:
    """Return the error results that the open calls of the last message need, in call order."""
    return tuple(interrupted(use.id) for use in tool_uses(view[-1])) if view else ()


def interrupted(tool_use_id: str) -> ToolResult:
    """Return the result of a call that was interrupted."""
    return ToolResult(tool_use_id, (Text(INTERRUPTED_TEXT, "results"),), is_error=True)


def _role_at(messages: Sequence[Message], index: int) -> str | None:
    return messages[index].role if index < len(messages) else None


def _answer(
    reply: Message, run: Sequence[Message], strays: Mapping[str, ToolResult]
) -> Iterator[Message]:
    """Yield the user messages after `reply`, the first of which answers each of its calls."""
    calls = [use.id for use in tool_uses(reply)]
    rest = [block for message in run[1:] for block in message.content]
    is_paired = bool(run) and not any(isinstance(block, ToolResult) for block in rest)
    if is_paired and _result_ids(run[0]) == calls and _results_lead(run[0]):
        yield from run
        return
    found: dict[str, ToolResult] = {}
    for message in run:
        for result in tool_results(message):
            found.setdefault(result.tool_use_id, result)
    answers = tuple(found.get(id_) or strays.get(id_) or interrupted(id_) for id_ in calls)
    first = tuple(b for b in run[0].content if not isinstance(b, ToolResult)) if run else ()
    yield Message("user", answers + first)
    yield from _without_results(run[1:])


def _find_strays(messages: Sequence[Message]) -> dict[str, ToolResult]:
    """Return, by id, the first result that comes anywhere after its call, if the call is unique."""
    calls = Counter(use.id for message in messages for use in tool_uses(message))
    seen: set[str] = set()
    strays: dict[str, ToolResult] = {}
    for message in messages:
        for result in tool_results(message):
            id_ = result.tool_use_id
            if id_ in seen and calls[id_] == 1:
                strays.setdefault(id_, result)
        seen.update(use.id for use in tool_uses(message))
    return strays


def _result_ids(message: Message) -> list[str]:
    return [result.tool_use_id for result in tool_results(message)]


def _results_lead(message: Message) -> bool:
    count = len(tool_results(message))
    return all(isinstance(block, ToolResult) for block in message.content[:count])


def _without_results(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages without any result; one that then says nothing is left out."""
    for message in messages:
        if not tool_results(message):
            yield message
            continue
        content = tuple(block for block in message.content if not isinstance(block, ToolResult))
        kept = _clean(Message(message.role, content))
        if kept is not None:
            yield kept


def _clean(message: Message) -> Message | None:
    """Return the message without what no provider takes, itself if it is clean, None if empty.

    Left out: empty texts, blank ones where the message has no other text, calls of the user,
    results of the assistant, and the second call of one id.
    """
    has_text = any(isinstance(b, Text) and b.text.strip() for b in message.content)
    kept: list[Block] = []
    ids: set[str] = set()
    for block in message.content:
        match block:
            case Text(text=text):
                if text and (has_text or text.strip()):
                    kept.append(block)
            case ToolUse(id=id_):
                if message.role == "assistant" and id_ not in ids:
                    ids.add(id_)
                    kept.append(block)
            case ToolResult():
                if message.role == "user":
                    kept.append(_clean_result(block))
            case _:
                kept.append(block)
    if not kept:
        return None
    if len(kept) == len(message.content) and all(map(_is_same, kept, message.content)):
        return message
    return Message(message.role, tuple(kept))


def _clean_result(result: ToolResult) -> ToolResult:
    kept: tuple[Text | Image, ...] = tuple(
        block for block in result.content if not isinstance(block, Text) or block.text
    )
    if kept and len(kept) == len(result.content):
        return result
    none: tuple[Text | Image, ...] = (Text(NO_OUTPUT_TEXT, "results"),)
    return ToolResult(result.tool_use_id, kept or none, result.is_error)


def _is_same(left: object, right: object) -> bool:
    return left is right
