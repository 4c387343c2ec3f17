"""A core Request as the keyword arguments of `client.messages.create`.

Pure and deterministic: an equal request gives equal arguments, keys in the same order, so that the
bytes sent are those sent before plus what is new. Nothing is added that a request does not ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..core.blocks import (
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    message_to_wire,
)
from ..core.ports import Breakpoint, Request
from .facts import thinking_param
from .wires import Wires, describe_unseen

NO_TEXT: Final = "(no text)"
_THINKING_TYPES: Final = frozenset({"thinking", "redacted_thinking"})


class MessageWires(Wires):
    """Remembers the wire form of the last request's messages; one stands for each.

    `sees_images` False: images go as words.
    """

    def __init__(self, *, sees_images: bool = True) -> None:
        self.sees_images = sees_images
        super().__init__(lambda message: [build_message(message, sees_images=sees_images)])


def build_message(message: Message, *, sees_images: bool = True) -> dict[str, object]:
    """Return the message as the API takes it, without what another protocol's model thought."""
    kept = tuple(block for block in message.content if not _is_foreign(block))
    if not sees_images:
        kept = tuple(map(_without_images, kept))
    elif len(kept) == len(message.content):
        return message_to_wire(message)
    return message_to_wire(Message(message.role, kept or (Text(NO_TEXT),)))


def _without_images(block: Block) -> Block:
    """Return the block with words in the place of each image."""
    if isinstance(block, Image):
        return Text(describe_unseen(block))
    if not isinstance(block, ToolResult):
        return block
    content = tuple(
        Text(describe_unseen(each, block.tool_use_id)) if isinstance(each, Image) else each
        for each in block.content
    )
    return replace(block, content=content)


def _is_foreign(block: Block) -> bool:
    return isinstance(block, Thinking) and block.wire.get("type") not in _THINKING_TYPES


def build_params(
    request: Request, wires: MessageWires, *, diagnoses: bool = False
) -> dict[str, Any]:
    """Return the arguments of `messages.create` for `request`, `stream` apart.

    `diagnoses`: a prompt with breakpoints also asks why the cache was missed; a first one sends
    null, so that the next can be compared with it.
    """
    params = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        **build_prompt(request, wires),
    }
    if diagnoses and request.breakpoints:
        params["diagnostics"] = {"previous_message_id": request.previous_message_id}
    return params


def build_prompt(request: Request, wires: MessageWires) -> dict[str, Any]:
    """Return the arguments that make the prompt; also those of `messages.count_tokens`."""
    params: dict[str, Any] = {}
    marks = {point.where for point in request.breakpoints}
    cache = {"cache_control": {"type": "ephemeral", "ttl": request.cache_ttl}}
    if request.tools:
        tools = [dict(tool) for tool in request.tools]
        params["tools"] = [*tools[:-1], {**tools[-1], **(cache if "tools" in marks else {})}]
    if request.system:
        system = {"type": "text", "text": request.system}
        params["system"] = [{**system, **(cache if "system" in marks else {})}]
    params["messages"] = _mark(
        request.messages, wires.build(request.messages), request.breakpoints, cache
    )
    if (thinking := thinking_param(request.model, request.thinking)) is not None:
        params["thinking"] = thinking
    if request.effort:
        params["output_config"] = {"effort": request.effort}
    return params


def _mark(
    originals: Sequence[Message],
    messages: list[dict[str, object]],
    points: Sequence[Breakpoint],
    cache: Mapping[str, object],
) -> list[dict[str, object]]:
    """Return the messages with `cache_control` on the blocks named; the given ones stay as is."""
    marked = list(messages)
    for point in points:
        if point.where != "message":
            continue
        message = marked[point.message]
        blocks = message["content"]
        assert isinstance(blocks, list)
        blocks = list(blocks)
        place = point.block
        if place > 0:
            place -= sum(map(_is_foreign, originals[point.message].content[:place]))
        blocks[place] = {**blocks[place], **cache}
        marked[point.message] = {**message, "content": blocks}
    return marked
