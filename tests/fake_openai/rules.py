"""What servers refuse of a body: fields, roles, pairs, ids, images."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from .kinds import Kind, ServerError

BODY = {
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
}
FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "tool": {"role", "content", "tool_call_id"},
    "assistant": {"role", "content", "tool_calls"},
}
ID_CHARS = 64
DESCRIPTION_CHARS = 1_024
MOST_TOOLS = 128
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DUMMY = "skip_thought_signature_validator"


class Checker:
    """Checks one body against the ways of one kind of server. Raises ServerError."""

    def __init__(self, kind: Kind, body: Mapping[str, Any], sees: bool, signed: set[str]) -> None:
        self.kind = kind
        self.body = body
        self.sees = sees
        self.signed = signed

    def check(self) -> None:
        """Check everything."""
        for key in self.body.keys() - BODY:
            self._refuse(f"Unrecognized request argument supplied: {key}")
        for key in {"max_tokens", "max_completion_tokens"} & self.body.keys():
            wanted = self.kind.limit_field
            if wanted and key != wanted:
                self._refuse(
                    f"Unsupported parameter: '{key}' is not supported with this model. Use "
                    f"'{wanted}' instead.",
                    code="unsupported_parameter",
                )
        if "stream_options" in self.body and not self.body.get("stream"):
            self._refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        self._check_tools(self.body.get("tools"))
        messages = self.body.get("messages")
        if not isinstance(messages, list) or not messages:
            self._refuse("[] is too short - 'messages'")
        for place, message in enumerate(messages):
            self._check_message(place, message)
        self._check_pairs(messages)
        if messages[-1]["role"] == "assistant":
            self._refuse("Cannot continue a last message of role assistant")
        if self.kind.signs:
            self._check_signatures(messages)

    def _refuse(self, message: str, **more: Any) -> NoReturn:
        raise ServerError(self.kind, 400, message, **more)

    def _check_tools(self, tools: Any) -> None:
        if tools is None:
            return
        if not isinstance(tools, list) or not tools:
            self._refuse("[] is too short - 'tools'")
        if len(tools) > MOST_TOOLS:
            self._refuse(f"Invalid 'tools': array too long. Expected at most {MOST_TOOLS}")
        names = [tool["function"]["name"] for tool in tools]
        if len(set(names)) != len(names):
            self._refuse("Duplicate function names")
        for tool in tools:
            function = tool["function"]
            whole = tool.keys() == {"type", "function"} and tool["type"] == "function"
            if not whole or function.keys() - {"name", "description", "parameters"}:
                self._refuse(f"Invalid tool: {tool}")
            if not NAME.fullmatch(function["name"]):
                self._refuse(f"Invalid 'tools[0].function.name': {function['name']}")
            if function["parameters"].get("type") != "object":
                self._refuse("Invalid schema for function: schema must be of type object")
            if self.kind.name in ("openai", "lmstudio"):
                self._check_schema(function["parameters"])
            if self.kind.name == "openai":
                self._check_length(
                    "tools[0].function.description", function["description"], DESCRIPTION_CHARS
                )

    def _check_schema(self, schema: Mapping[str, Any]) -> None:
        if "properties" not in schema:
            self._refuse("Invalid schema for function: object schema missing properties")
        for key in {"anyOf", "oneOf", "allOf", "enum", "not"} & schema.keys():
            self._refuse(f"Invalid schema for function: schema must not have '{key}' at the top")

    def _check_length(self, param: str, text: str, most: int) -> None:
        if len(text) > most:
            self._refuse(
                f"Invalid '{param}': string too long. Expected a string with maximum length "
                f"{most}, but got a string with length {len(text)} instead.",
                code="string_above_max_length",
            )

    def _check_message(self, place: int, message: Mapping[str, Any]) -> None:
        role = str(message.get("role"))
        if role not in FIELDS:
            self._refuse(f"Invalid value: '{role}' at messages[{place}].role")
        if role == "system" and place:
            self._refuse("System message must be at the beginning")
        known = FIELDS[role] | ({self.kind.reasoning} if role == "assistant" else set())
        for key in message.keys() - known:
            self._refuse(f"Unknown parameter: 'messages[{place}].{key}'")
        content = message.get("content")
        if role == "assistant":
            calls = message.get("tool_calls")
            if not content and not calls:
                self._refuse(
                    f"messages[{place}]: expected a string content or tool_calls, got null"
                )
            self._check_calls(place, calls)
            if content is not None and not isinstance(content, str):
                self._refuse(f"Invalid type for 'messages[{place}].content'")
        elif isinstance(content, str):
            if not content and role == "user":
                self._refuse(f"messages[{place}]: content is empty")
        else:
            self._check_parts(place, role, content)

    def _check_parts(self, place: int, role: str, parts: Any) -> None:
        if not isinstance(parts, list) or not parts:
            self._refuse(f"Invalid type for 'messages[{place}].content'")
        for part in parts:
            kind = part.get("type")
            if kind == "text" and part.keys() == {"type", "text"} and part["text"]:
                continue
            if kind != "image_url" or role != "user":
                self._refuse("Invalid 'messages' in payload")
            if not self.sees:
                self._refuse("image input is not supported by this model")
            self._check_image(part["image_url"]["url"])

    def _check_image(self, url: str) -> None:
        found = re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,(.+)", url)
        try:
            base64.b64decode(found[2] if found else "!", validate=True)
        except binascii.Error:
            self._refuse("Invalid image URL: expected a base64-encoded data URL")

    def _check_calls(self, place: int, calls: Any) -> None:
        if calls is None:
            return
        if not isinstance(calls, list) or not calls:
            self._refuse(f"[] is too short - 'messages.{place}.tool_calls'")
        allowed = {"id", "type", "function"} | ({"extra_content"} if self.kind.signs else set())
        for call in calls:
            if call.keys() - allowed or call["type"] != "function" or not call["id"]:
                self._refuse(f"Invalid tool call at messages[{place}]: {call}")
            if self.kind.name == "openai":
                self._check_length(f"messages[{place}].tool_calls[0].id", call["id"], ID_CHARS)
            if not NAME.fullmatch(call["function"]["name"]):
                self._refuse(f"Invalid 'messages[{place}].tool_calls[0].function.name'")
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                self._refuse(f"messages[{place}]: arguments are no object")

    def _check_pairs(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Every call is answered right behind its message, every answer has its call."""
        seen: set[str] = set()
        rest: list[str] = []
        for message in [*messages, {"role": "end"}]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in rest:
                    self._refuse(
                        "Invalid parameter: messages with role 'tool' must be a response to a "
                        "preceeding message with 'tool_calls'."
                    )
                rest.remove(message["tool_call_id"])
                continue
            if rest:
                self._refuse(
                    "An assistant message with 'tool_calls' must be followed by tool messages "
                    "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                    f"response messages: {', '.join(rest)}"
                )
            rest = [call["id"] for call in message.get("tool_calls") or ()]
            if len(set(rest)) != len(rest) or seen & set(rest):
                self._refuse("Duplicate value for 'tool_call_id'")
            seen |= set(rest)

    def _check_signatures(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """The first call of each step since the last prompt carries a signature of ours."""
        for message in _since_prompt(messages):
            for call in (message.get("tool_calls") or ())[:1]:
                extra = call.get("extra_content") or {}
                signature = extra.get("google", {}).get("thought_signature")
                if signature != DUMMY and signature not in self.signed:
                    name = call["function"]["name"]
                    self._refuse(
                        "Function call is missing a thought_signature in functionCall parts. "
                        f"Function call `{name}`."
                    )


def _since_prompt(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=0)
    yield from messages[last:]
