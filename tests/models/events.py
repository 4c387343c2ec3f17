"""Events of a streamed reply, as the Messages API writes them."""

from __future__ import annotations

import json
from typing import Any

Event = dict[str, Any]

USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 150_000,
    "cache_read_input_tokens": 20_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100_000, "ephemeral_1h_input_tokens": 50_000},
    "output_tokens": 1,
}


def start(usage: object = USAGE, message_id: str = "msg_1") -> Event:
    """Return `message_start`."""
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [],
        "stop_reason": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}


def block(index: int, first: Event, *deltas: Event, stop: bool = True) -> list[Event]:
    """Return a block's events."""
    end = [{"type": "content_block_stop", "index": index}] if stop else []
    return [
        {"type": "content_block_start", "index": index, "content_block": first},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        *end,
    ]


def text(index: int, *pieces: str) -> list[Event]:
    """Return a text block's events."""
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block(index, {"type": "text", "text": ""}, *deltas)


def thinking(index: int, *pieces: str, signature: str = "sig=") -> list[Event]:
    """Return a thinking block's events."""
    first = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = ({"type": "thinking_delta", "thinking": piece} for piece in pieces)
    return block(index, first, *deltas, {"type": "signature_delta", "signature": signature})


def tool(index: int, *pieces: str, id_: str = "toolu_1", name: str = "run_code") -> list[Event]:
    """Return a tool call's events; `pieces` together are its input's JSON."""
    first = {"type": "tool_use", "id": id_, "name": name, "input": {}}
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return block(index, first, *deltas)


def end(reason: str | None = "end_turn", output: int = 900, **delta: object) -> list[Event]:
    """Return `message_delta` and `message_stop`."""
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None, **delta},
            "usage": {"output_tokens": output},
        },
        {"type": "message_stop"},
    ]


def reply(*blocks: list[Event], reason: str = "end_turn") -> list[Event]:
    """Return a whole reply's events."""
    return [start(), {"type": "ping"}, *(e for one in blocks for e in one), *end(reason)]


def clone(event: Event) -> Event:
    """Return `event` as it is after a trip over the wire."""
    copy: Event = json.loads(json.dumps(event))
    return copy
