"""What the real Messages API refuses in a conversation: roles, texts, pairs, tools, thinking.

Each rule is one function that raises ApiError with a 400; `check_rules` runs them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import invalid
from .models import FakeModel
from .prompt import THINKING_TYPES, Placed, Turn, blocks_of, inner_blocks, walk_blocks

MAX_MESSAGES = 100_000
_ONLY_ROLE = {
    "tool_use": "assistant",
    "tool_result": "user",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "image": "user",
    "document": "user",
    "search_result": "user",
}


def check_rules(
    body: Mapping[str, Any], turns: Sequence[Turn], model: FakeModel, *, may_prefill: bool
) -> None:
    """Check the conversation of a body whose schema is valid. Raises ApiError."""
    _check_roles(body, turns, model)
    _check_texts(body)
    _check_places(turns)
    _check_pairs(turns)
    _check_results(body)
    _check_tools(body, model)
    _check_manual_thinking(body, turns)
    if turns[-1].role == "assistant" and not may_prefill:
        raise invalid(
            "",
            "This model does not support assistant message prefill. The conversation must end with "
            "a user message.",
        )


def _check_roles(body: Mapping[str, Any], turns: Sequence[Turn], model: FakeModel) -> None:
    if not turns:
        raise invalid("messages", "at least one message is required")
    if len(body["messages"]) > MAX_MESSAGES:
        raise invalid("messages", f"at most {MAX_MESSAGES} messages may be provided")
    if turns[0].role != "user":
        raise invalid("messages", 'first message must use the "user" role')
    for before, turn, after in zip(turns, turns[1:], [*turns[2:], None], strict=False):
        if turn.role != "system":
            continue
        path = f"messages.{turn.first}"
        if not model.system_messages:
            raise invalid(f"{path}.role", "Input should be 'user' or 'assistant'")
        if before.role != "user":
            raise invalid(path, "a `system` message must follow a user turn")
        if after is not None and after.role == "user":
            raise invalid(path, "a `system` message must not come before a user turn")


def _check_texts(body: Mapping[str, Any]) -> None:
    for placed in walk_blocks(body):
        if placed.block["type"] == "text" and not placed.block["text"]:
            if placed.block.get("cache_control"):
                message = "cache_control cannot be set for empty text blocks"
                raise invalid(f"{placed.path}.text", message)
            raise invalid("messages", "text content blocks must be non-empty")
    for block in blocks_of(body.get("system")):
        if not block["text"].strip():
            raise invalid("system", "text content blocks must contain non-whitespace text")
    last = len(body["messages"]) - 1
    for index, message in enumerate(body["messages"]):
        blocks = blocks_of(message["content"])
        if not blocks and not (index == last and message["role"] == "assistant"):
            raise invalid(
                f"messages.{index}",
                "all messages must have non-empty content except for the optional final assistant "
                "message",
            )
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if texts and not any(text.strip() for text in texts):
            raise invalid("messages", "text content blocks must contain non-whitespace text")


def _check_places(turns: Sequence[Turn]) -> None:
    for turn in turns:
        for placed in turn.blocks:
            kind = placed.block["type"]
            role = _ONLY_ROLE.get(kind, turn.role)
            if turn.role == "system" and kind != "text":
                raise invalid(placed.path, "`system` messages may only contain text blocks")
            if role != turn.role:
                raise invalid(placed.path, f"`{kind}` blocks can only be in `{role}` messages")
        if turn.role == "assistant" and turn.blocks:
            kind = turn.blocks[-1].block["type"]
            if kind in THINKING_TYPES:
                path = f"messages.{turn.first}"
                raise invalid(path, f"The final block in an assistant message cannot be `{kind}`.")


def _check_pairs(turns: Sequence[Turn]) -> None:
    spoken = [turn for turn in turns if turn.role != "system"]
    for number, turn in enumerate(spoken):
        if turn.role == "assistant":
            following = spoken[number + 1] if number + 1 < len(spoken) else None
            _check_calls(turn, following)
        else:
            _check_answers(spoken[number - 1] if number else None, turn)


def _check_calls(turn: Turn, following: Turn | None) -> None:
    """Each call's id is unique, and answered at the start of the very next user turn."""
    ids = [placed.block["id"] for placed in turn.blocks if placed.block["type"] == "tool_use"]
    twice = [id_ for id_, count in Counter(ids).items() if count > 1]
    if twice:
        path = next(p.path for p in turn.blocks if p.block.get("id") == twice[0])
        raise invalid(path, f"`tool_use` ids must be unique: {twice[0]}")
    answered = {placed.block["tool_use_id"] for placed in _leading_results(following)}
    missing = [id_ for id_ in ids if id_ not in answered]
    if missing:
        raise invalid(
            f"messages.{turn.first}",
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` "
            "block in the next message.",
        )


def _check_answers(before: Turn | None, turn: Turn) -> None:
    """Each result answers one call of the turn before, once."""
    results = [placed for placed in turn.blocks if placed.block["type"] == "tool_result"]
    asked = {
        placed.block["id"]
        for placed in (before.blocks if before is not None else ())
        if placed.block["type"] == "tool_use"
    }
    seen: set[str] = set()
    for placed in results:
        id_ = placed.block["tool_use_id"]
        if id_ not in asked:
            raise invalid(
                placed.path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {id_}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous "
                "message.",
            )
        if id_ in seen:
            raise invalid(
                placed.path,
                f"each tool_use must have a single result. Found multiple `tool_result` blocks "
                f"with id: {id_}",
            )
        seen.add(id_)


def _leading_results(turn: Turn | None) -> list[Placed]:
    results: list[Placed] = []
    for placed in turn.blocks if turn is not None and turn.role == "user" else ():
        if placed.block["type"] != "tool_result":
            break
        results.append(placed)
    return results


def _check_results(body: Mapping[str, Any]) -> None:
    """An error result holds text, and some: seen in reports on the real API."""
    for placed in walk_blocks(body):
        if placed.block["type"] != "tool_result" or not placed.block.get("is_error"):
            continue
        inner = inner_blocks(placed.block)
        if not inner:
            raise invalid(
                f"{placed.path}.tool_result", "content cannot be empty if `is_error` is true"
            )
        if any(block["type"] != "text" for block in inner):
            message = "all content must be type `text` if `is_error` is true"
            raise invalid(f"{placed.path}.tool_result", message)


def _check_tools(body: Mapping[str, Any], model: FakeModel) -> None:
    tools = body.get("tools") or []
    names = [tool["name"] for tool in tools]
    if len(set(names)) != len(names):
        raise invalid("tools", "Tool names must be unique.")
    if not tools and any(
        placed.block["type"] in ("tool_use", "tool_result") for placed in walk_blocks(body)
    ):
        raise invalid(
            "", "Requests which include `tool_use` or `tool_result` blocks must define tools."
        )
    choice = body.get("tool_choice") or {"type": "auto"}
    if "tool_choice" in body and not tools and choice["type"] != "none":
        raise invalid("tool_choice", "may only be specified while providing tools")
    if choice["type"] not in ("any", "tool"):
        return
    if not model.forced_tools:
        raise invalid("tool_choice", f"`{choice['type']}` is not supported for this model.")
    if choice["type"] == "tool" and choice["name"] not in names:
        raise invalid("tool_choice", f"Tool '{choice['name']}' not found in provided tools")
    if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        raise invalid("", "Thinking may not be enabled when tool_choice forces tool use.")


def _check_manual_thinking(body: Mapping[str, Any], turns: Sequence[Turn]) -> None:
    """With manual thinking, an open tool loop starts with a thinking block."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    start: Turn | None = None
    for turn in reversed([turn for turn in turns if turn.role != "system"]):
        if turn.role == "assistant":
            start = turn
        elif not _leading_results(turn):
            break
    if start is None or not _leading_results(turns[-1]):
        return
    kind = start.blocks[0].block["type"]
    if kind not in THINKING_TYPES:
        raise invalid(
            f"{start.blocks[0].path}.type",
            f"Expected `thinking` or `redacted_thinking`, but found `{kind}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block (preceeding the "
            "lastmost set of `tool_use` and `tool_result` blocks).",
        )
