"""A core Request as the body of a Chat Completions call.

Pure and deterministic, message by message: what a message becomes depends on that message and the
model alone, never on what comes later, so that the list sent is the list sent before plus what is
new. The transcript keeps the originals; only here are they translated.

    Messages API                          Chat Completions
    system                                a first message of role `system`
    assistant: thinking, text, tool_use   one message: `content`, `tool_calls`, reasoning fields
    user: results, images, text           one `tool` message for each result, then one `user`
                                          message with the results' images and everything else

Reasoning goes back to the model that wrote it, under the names it came with, and to no other.
Tools whose names the protocol does not take go under shorter ones (`sent_name`), here alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..core.blocks import Block, Image, Json, Message, Text, Thinking, ToolResult, ToolUse
from ..core.ports import Request
from .wires import Wires, describe_unseen

REASONING: Final = "reasoning"
"""The type of a Thinking block made here; other protocols leave such blocks out."""
PLACEHOLDER: Final = "[Image/media content loaded - see attached file]"
NO_TEXT: Final = "(no text)"
FAILED: Final = "[error]\n"
"""In front of a failed call's result, since the protocol has no mark for it."""
NAME_CHARS: Final = 64
"""Longest name of a tool that OpenAI takes, in characters; the Messages API takes 128."""
_TAKEN_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARS}}}")
_NOT_TAKEN: Final = re.compile(r"[^A-Za-z0-9_-]")
_SIGNED: Final = re.compile(r"(models/)?gemini-([3-9]|\d\d)")
_UNSIGNED_CALL: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Gemini 3 refuses a step whose first call has no signature of its own; this is the value that
Google's page on thought signatures names for calls that another model made."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server takes, where servers differ.

    `output_field` is what the output limit is called. `sees_images` False: images go as words.
    `tells_usage`: it takes `stream_options`. `most_output` is the longest answer it grants.
    `takes_system` False: the system prompt goes before the first prompt's words; `takes_effort` and
    `takes_reasoning` False: neither is sent. `most_description` and `most_id` are the longest text
    of a tool's description and id of a call, in characters.
    """

    output_field: str = "max_tokens"
    sees_images: bool = True
    tells_usage: bool = True
    most_output: int | None = None
    takes_system: bool = True
    takes_effort: bool = True
    takes_reasoning: bool = True
    most_description: int | None = None
    most_id: int | None = None


def build_params(request: Request, model: str, dialect: Dialect, wires: Wires) -> dict[str, Any]:
    """Return the body of `POST /chat/completions` for `request`, `stream` apart.

    `model` is its name at the server; `wires` remember what `build_message` made before.
    """
    longest = min(request.max_tokens, dialect.most_output or request.max_tokens)
    params: dict[str, Any] = {"model": model, dialect.output_field: longest}
    if request.tools:
        most = dialect.most_description
        params["tools"] = [build_tool(tool, most) for tool in request.tools]
    params["messages"] = _with_system(request.system, wires.build(request.messages), dialect)
    if dialect.tells_usage:
        params["stream_options"] = {"include_usage": True}
    if request.effort and dialect.takes_effort:
        params["reasoning_effort"] = request.effort
    return params


def _with_system(
    system: str, messages: list[dict[str, object]], dialect: Dialect
) -> list[dict[str, object]]:
    """Return the messages behind the system prompt, or with it at their beginning."""
    if not system:
        return messages
    if dialect.takes_system:
        return [{"role": "system", "content": system}, *messages]
    first = messages[0] if messages else {}
    if first.get("role") != "user":
        return [{"role": "user", "content": system}, *messages]
    content = first["content"]
    if isinstance(content, list):
        together: object = [{"type": "text", "text": system}, *content]
    else:
        together = f"{system}\n\n{content}"
    return [{"role": "user", "content": together}, *messages[1:]]


def sent_id(id_: str, most: int | None) -> str:
    """Return the id a call is sent under: its own, or one of `most` characters made from it."""
    if most is None or (len(id_) <= most and (most >= NAME_CHARS // 2 or id_.isalnum())):
        return id_
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[: min(most, 32)]


def sent_name(name: str) -> str:
    """Return the name a tool is sent under: its own, or a shorter one where that is not taken.

    A shorter one depends on the name alone and ends in a digest of it, so that two names that
    begin alike stay two.
    """
    if _TAKEN_NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_NOT_TAKEN.sub('_', name)[: NAME_CHARS - 9]}_{digest}"


def own_names(tools: Sequence[Json]) -> dict[str, str]:
    """Return the own name of each tool that is sent under another, by that other name."""
    names = [str(tool["name"]) for tool in tools]
    return {sent: name for name in names if (sent := sent_name(name)) != name}


def build_tool(tool: Json, most_description: int | None = None) -> dict[str, object]:
    """Return a tool as Chat Completions takes it; its description cut to `most_description`."""
    schema = tool.get("input_schema", {"type": "object"})
    if isinstance(schema, Mapping) and "properties" not in schema:
        schema = {**schema, "properties": {}}  # OpenAI and LM Studio refuse an object without
    description = str(tool.get("description", ""))
    if most_description is not None and len(description) > most_description:
        description = description[: most_description - 1] + "…"
    function = {
        "name": sent_name(str(tool["name"])),
        "description": description,
        "parameters": schema,
    }
    return {"type": "function", "function": function}


def build_message(message: Message, model: str, dialect: Dialect) -> list[dict[str, object]]:
    """Return what one message becomes: one message or more, never none."""
    if message.role == "assistant":
        return [_build_reply(message, model, dialect)]
    results = [block for block in message.content if isinstance(block, ToolResult)]
    tools = [_build_result(result, dialect) for result in results]
    loaded = [image for result in results for image in _images(result.content)]
    others = [block for block in message.content if not isinstance(block, ToolResult)]
    parts = _build_parts([*(loaded if dialect.sees_images else ()), *others], dialect)
    if parts or not tools:
        return [*tools, {"role": "user", "content": _plain(parts)}]
    return tools


# Replies ---------------------------------------------------------------------------------------


def reasoning(model: str, fields: Mapping[str, object], shown: str = "") -> Thinking:
    """Return what a model thought as a block: `fields` go back as they came, `shown` is its text.

    A block with the field `tool_call` belongs to the call that follows it.
    """
    wire = {"type": REASONING, "model": model, "thinking": shown, "fields": dict(fields)}
    return Thinking(wire)


def _build_reply(message: Message, model: str, dialect: Dialect) -> dict[str, object]:
    """Return a reply: its text, its calls, and the fields that only its own model gets back."""
    texts = [block.text for block in message.content if isinstance(block, Text)]
    extras: dict[str, object] = {}
    calls: list[dict[str, object]] = []
    of_call: Json = {}
    for block in message.content:
        match block:
            case Thinking(wire=wire):
                fields = _fields_for(wire, model)
                if isinstance(found := fields.get("tool_call"), Mapping):
                    of_call = found
                elif dialect.takes_reasoning:
                    extras.update(fields)
            case ToolUse():
                calls.append({**of_call, **_build_call(block, dialect)})
                of_call = {}
            case _:
                pass
    text = "\n\n".join(texts)
    reply: dict[str, object] = {"role": "assistant", "content": text or None}
    if not text and not calls:
        reply["content"] = NO_TEXT
    reply = {**extras, **reply}
    if calls and _SIGNED.match(model):
        calls[0].setdefault("extra_content", _UNSIGNED_CALL)
    if calls:
        reply["tool_calls"] = calls
    return reply


def _fields_for(wire: Json, model: str) -> Json:
    """Return a thinking block's fields if `model` wrote it, else none."""
    fields = wire.get("fields")
    is_own = wire.get("type") == REASONING and wire.get("model") == model
    return fields if is_own and isinstance(fields, Mapping) else {}


def _build_call(use: ToolUse, dialect: Dialect) -> dict[str, object]:
    arguments = json.dumps(dict(use.input), ensure_ascii=False)
    return {
        "id": sent_id(use.id, dialect.most_id),
        "type": "function",
        "function": {"name": sent_name(use.name), "arguments": arguments},
    }


# Prompts and results ---------------------------------------------------------------------------


def _build_result(result: ToolResult, dialect: Dialect) -> dict[str, object]:
    """Return a result as text; its images stand behind all results, if the model sees any."""
    texts = [
        block.text if isinstance(block, Text) else _stand_in(block, dialect, result.tool_use_id)
        for block in result.content
    ]
    text = (FAILED if result.is_error else "") + "\n".join(texts)
    id_ = sent_id(result.tool_use_id, dialect.most_id)
    return {"role": "tool", "tool_call_id": id_, "content": text}


def _stand_in(image: Image, dialect: Dialect, id_: str = "") -> str:
    """Return what stands in an image's place where it cannot."""
    if dialect.sees_images:
        return PLACEHOLDER
    return describe_unseen(image, id_)


def _images(content: Sequence[Text | Image]) -> list[Image]:
    return [block for block in content if isinstance(block, Image)]


def _build_parts(blocks: Sequence[Block], dialect: Dialect) -> list[dict[str, object]]:
    """Return a prompt's parts; what other protocols alone understand is left out."""
    parts: list[dict[str, object]] = []
    for block in blocks:
        match block:
            case Text(text=text) if text:
                parts.append({"type": "text", "text": text})
            case Image(media_type=kind, data=data) if dialect.sees_images:
                url = {"url": f"data:{kind};base64,{data}"}
                parts.append({"type": "image_url", "image_url": url})
            case Image():
                parts.append({"type": "text", "text": _stand_in(block, dialect)})
            case _:
                pass
    return parts


def _plain(parts: list[dict[str, object]]) -> object:
    """Return parts as one text where they are nothing else: every server takes that."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(str(part["text"]) for part in parts) or NO_TEXT
    return parts
