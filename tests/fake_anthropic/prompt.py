"""A request's prompt laid out in order: tools, system, then the merged turns, block by block."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

THINKING_TYPES = ("thinking", "redacted_thinking")
_DEFAULTS: dict[str, object] = {"caller": {"type": "direct"}}


@dataclass(frozen=True)
class Placed:
    """A block and where it stands in the body (`messages.3.content.1`)."""

    path: str
    block: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """Neighbouring messages of one role, merged."""

    role: str
    blocks: tuple[Placed, ...]
    first: int


def blocks_of(content: object) -> list[dict[str, Any]]:
    """Return a content's blocks; a text stands for one text block, "" for none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def place_blocks(message: Mapping[str, Any], index: int) -> tuple[Placed, ...]:
    """Return a message's blocks with their paths."""
    return tuple(
        Placed(f"messages.{index}.content.{number}", block)
        for number, block in enumerate(blocks_of(message["content"]))
    )


def merge_turns(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Return the messages as turns: neighbours of one role become one."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        placed = place_blocks(message, index)
        if turns and turns[-1].role == message["role"]:
            last = turns[-1]
            turns[-1] = Turn(last.role, last.blocks + placed, last.first)
        else:
            turns.append(Turn(message["role"], placed, index))
    return turns


def inner_blocks(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks inside a tool result."""
    return blocks_of(block.get("content")) if block.get("type") == "tool_result" else []


def walk_blocks(body: Mapping[str, Any]) -> Iterator[Placed]:
    """Yield every block of the messages, those inside tool results after their holder."""
    for index, message in enumerate(body["messages"]):
        for placed in place_blocks(message, index):
            yield placed
            for number, inner in enumerate(inner_blocks(placed.block)):
                yield Placed(f"{placed.path}.content.{number}", inner)


def plain(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block as the server understands it: no marker, no default, known keys sorted.

    The order of keys inside `input` and `input_schema` stays: there it is part of the prompt.
    """
    kept = {
        key: block[key]
        for key in sorted(block)
        if key != "cache_control" and block[key] is not None and block[key] != _DEFAULTS.get(key)
    }
    if block.get("type") == "tool_result":
        kept["content"] = [plain(inner) for inner in inner_blocks(block)]
    return kept


def canonical(block: Mapping[str, Any]) -> str:
    """Return `plain(block)` as JSON text."""
    return json.dumps(plain(block), ensure_ascii=False, separators=(",", ":"))


def extend(digest: str, *texts: str) -> str:
    """Return the digest of everything so far and `texts`."""
    hasher = hashlib.sha256(digest.encode())
    for text in texts:
        hasher.update(b"\0")
        hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


def prefix_of_tools_and_system(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the digests after the tools and after the system prompt."""
    tools = extend("", *(canonical(tool) for tool in body.get("tools") or ()))
    return tools, extend(tools, *(canonical(block) for block in blocks_of(body.get("system"))))


def prefix_hashes(body: Mapping[str, Any]) -> list[str]:
    """Return short digests after the tools, after the system prompt, and after each message."""
    hashes = list(prefix_of_tools_and_system(body))
    for message in body["messages"]:
        blocks = blocks_of(message["content"])
        hashes.append(extend(hashes[-1], message["role"], *map(canonical, blocks)))
    return [digest[:16] for digest in hashes]
