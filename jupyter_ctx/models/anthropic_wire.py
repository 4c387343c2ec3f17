"""A core Request as the keyword arguments of `client.messages.create`.

Pure and deterministic: an equal request gives equal arguments, keys in the same order, so that the
bytes sent are those sent before plus what is new. Nothing is added that a request does not ask for.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.blocks import Message, message_to_wire
from ..core.ports import Breakpoint, Request
from .facts import thinking_param


class MessageWires:
    """Remembers the wire form of the messages of the last request, so that only new ones are built.

    By identity: the transcript hands out the same Message objects step after step.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._wires: list[dict[str, object]] = []

    def build(self, messages: Sequence[Message]) -> list[dict[str, object]]:
        """Return the messages as the API takes them, without breakpoints. Not to be changed."""
        same = self._count_same(messages)
        del self._messages[same:], self._wires[same:]
        self._messages += messages[same:]
        self._wires += map(message_to_wire, messages[same:])
        return list(self._wires)

    def _count_same(self, messages: Sequence[Message]) -> int:
        """Return how many messages are those of the last request, from the first on."""
        known = self._messages
        if len(known) <= len(messages) and all(map(operator.is_, known, messages)):
            return len(known)  # as it nearly always is: 10,000 are looked at in 0.3 ms
        same = list(map(operator.is_, known, messages))
        return same.index(False) if False in same else len(same)


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
    params["messages"] = _mark(wires.build(request.messages), request.breakpoints, cache)
    if (thinking := thinking_param(request.model, request.thinking)) is not None:
        params["thinking"] = thinking
    if request.effort:
        params["output_config"] = {"effort": request.effort}
    return params


def _mark(
    messages: list[dict[str, object]], points: Sequence[Breakpoint], cache: Mapping[str, object]
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
        blocks[point.block] = {**blocks[point.block], **cache}
        marked[point.message] = {**message, "content": blocks}
    return marked


def mend(value: object) -> Any:
    """Return `value`, strings within it mended: halves of surrogate pairs become U+FFFD.

    JSON can carry such halves, UTF-8 cannot.
    """
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, Mapping):
        return {mend(key): mend(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mend(inner) for inner in value]
    return value


def mend_text(text: str) -> str:
    """Return `text` as valid Unicode: two halves are joined, a lone one becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
