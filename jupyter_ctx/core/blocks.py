"""Content blocks and messages, as values, and their wire form (that of the Messages API)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Json: TypeAlias = Mapping[str, object]
Role: TypeAlias = Literal["user", "assistant"]
Part: TypeAlias = Literal[
    "system", "tools", "summary", "reinjected", "notebook", "conversation", "results"
]

TITLE_CHARS = 80
_CELL_NAME = re.compile(r"`read_result` with `(cell-[^`\n]{1,200})`\]")
IMAGE_PLACEHOLDER = "[Image left out to make room]"
STORED_IMAGE_PLACEHOLDER = "[Image left out to make room; it is stored with the result {id}]"

PARTS: tuple[Part, ...] = (
    "system",
    "tools",
    "summary",
    "reinjected",
    "notebook",
    "conversation",
    "results",
)
PART_NAMES: Mapping[Part, str] = {
    "system": "System",
    "tools": "Tools",
    "summary": "Summary",
    "reinjected": "Re-injected",
    "notebook": "Notebook",
    "conversation": "Conversation",
    "results": "Results",
}
"""What the parts are called wherever a person reads of them."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a message; never empty on the wire.

    `part` says which part of the gauge counts it; it is stored but never sent.
    """

    text: str
    part: Part = "conversation"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: `data` is base64, `width_px` and `height_px` its size as sent."""

    media_type: str
    data: str
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class Thinking:
    """A `thinking` or `redacted_thinking` block, kept exactly as it came, signature included."""

    wire: Json


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A request by the model to run one tool.

    `id` is unique in the transcript; the answering ToolResult carries it as `tool_use_id`.
    `input` is the parsed JSON object as the model wrote it, keys in its order; it may be off the
    tool's schema, which is found when it is run.
    """

    id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one ToolUse; `content` is never empty."""

    tool_use_id: str
    content: tuple[Text | Image, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block of a type this version does not know; replayed exactly as it came."""

    wire: Json


Block: TypeAlias = Text | Image | Thinking | ToolUse | ToolResult | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation; `content` is never empty."""

    role: Role
    content: tuple[Block, ...]


def user(*content: Block) -> Message:
    """Return a user message."""
    return Message("user", content)


def assistant(*content: Block) -> Message:
    """Return an assistant message."""
    return Message("assistant", content)


def tool_uses(message: Message) -> tuple[ToolUse, ...]:
    """Return the message's calls, in order."""
    return tuple(block for block in message.content if isinstance(block, ToolUse))


def tool_results(message: Message) -> tuple[ToolResult, ...]:
    """Return the message's results, in order."""
    return tuple(block for block in message.content if isinstance(block, ToolResult))


def images_of(message: Message) -> tuple[Image, ...]:
    """Return the message's images, those inside results included, in order."""
    return tuple(
        inner
        for block in message.content
        for inner in (block.content if isinstance(block, ToolResult) else (block,))
        if isinstance(inner, Image)
    )


def text_of(content: Iterable[Block]) -> str:
    """Return the text blocks, joined by blank lines."""
    return "\n\n".join(block.text for block in content if isinstance(block, Text))


def words_of(prompt: Message) -> str:
    """Return the user's own words in a prompt, without what was attached to it."""
    return text_of(b for b in prompt.content if isinstance(b, Text) and b.part == "conversation")


def cell_names(prompt: Message) -> tuple[str, ...]:
    """Return the names of the cells' outputs that a prompt's notebook update says are stored."""
    texts = (b.text for b in prompt.content if isinstance(b, Text) and b.part == "notebook")
    return tuple(name for text in texts for name in _CELL_NAME.findall(text))


def title_of(prompt: Message) -> str:
    """Return a title for what begins with `prompt`: its first line with text, cut."""
    lines = (line.strip() for line in words_of(prompt).splitlines())
    line = next(filter(None, lines), "")
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def without_thinking(message: Message) -> Message | None:
    """Return the message without its thinking, None if nothing else is in it."""
    kept = tuple(block for block in message.content if not isinstance(block, Thinking))
    if len(kept) == len(message.content):
        return message
    return Message(message.role, kept) if kept else None


def without_images(message: Message) -> Message:
    """Return the message with a line in place of each image; one of a result names the result."""
    if not images_of(message):
        return message
    return Message(message.role, tuple(map(_without_images, message.content)))


def _without_images(block: Block) -> Block:
    match block:
        case Image():
            return Text(IMAGE_PLACEHOLDER)
        case ToolResult(tool_use_id=id_, content=content, is_error=is_error):
            line = Text(STORED_IMAGE_PLACEHOLDER.format(id=id_), "results")
            kept = (line if isinstance(inner, Image) else inner for inner in content)
            return ToolResult(id_, tuple(kept), is_error)
        case _:
            return block


def without_last_thinking(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return a reply's blocks without thinking at their end, where providers refuse it."""
    kept = list(blocks)
    while kept and isinstance(kept[-1], Thinking):
        kept.pop()
    return tuple(kept)


def json_bytes(value: object) -> int:
    """Return how many bytes `value` takes as JSON in UTF-8: a little more than on the wire."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def block_to_wire(block: Block) -> dict[str, object]:
    """Return the block as the Messages API takes it; the same block gives the same bytes."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(media_type=media_type, data=data):
            source = {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "image", "source": source}
        case ToolUse(id=id_, name=name, input=input_):
            return {"type": "tool_use", "id": id_, "name": name, "input": dict(input_)}
        case ToolResult(tool_use_id=id_, content=content, is_error=is_error):
            wire: dict[str, object] = {
                "type": "tool_result",
                "tool_use_id": id_,
                "content": [block_to_wire(inner) for inner in content],
            }
            if is_error:
                wire["is_error"] = True
            return wire
        case _:  # Thinking, Opaque
            return dict(block.wire)


def message_to_wire(message: Message) -> dict[str, object]:
    """Return the message as the Messages API takes it."""
    return {"role": message.role, "content": [block_to_wire(block) for block in message.content]}
