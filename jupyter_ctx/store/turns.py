"""A turn of the transcript as text, for `read_result("turn-<n>")`: no compaction hides it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..core.blocks import Block, Image, Text, Thinking, ToolResult, ToolUse, words_of
from ..core.entries import Entry, MessageEntry


def turn_text(entries: Sequence[Entry], turn: int) -> str | None:
    """Return the messages of a turn as text, None if there is no such turn.

    A turn that was run again after a rewind is given as it was run last. Thinking is left out, and
    the user's own words come before what the program said beside them.
    """
    found = [e for e in entries if isinstance(e, MessageEntry) and e.turn == turn]
    prompts = [i for i, entry in enumerate(found) if entry.kind == "prompt" and entry.step == 0]
    if prompts:
        found = found[prompts[-1] :]
    parts = [part for entry in found for part in _message_parts(entry)]
    return "\n\n".join(parts) + "\n" if parts else None


def entry_text(entry: MessageEntry) -> str:
    """Return one message as text, as `turn_text` has it; "" if nothing in it can be read."""
    return "\n\n".join(_message_parts(entry)[1:])


def prompt_text(entries: Sequence[Entry], turn: int) -> str | None:
    """Return the user's words of a turn, None if there is no such turn.

    A prompt too long to be sent whole has a file of its own, which comes before this.
    """
    for entry in reversed(entries):
        if isinstance(entry, MessageEntry) and entry.kind == "prompt" and entry.turn == turn:
            return words_of(entry.message)
    return None


def _message_parts(entry: MessageEntry) -> list[str]:
    blocks = sorted(entry.message.content, key=_is_beside)
    parts = [part for block in blocks if (part := _block_text(block))]
    return [f"[{entry.kind}]", *parts] if parts else []


def _is_beside(block: Block) -> bool:
    return isinstance(block, Text) and block.part == "notebook"


def _block_text(block: Block) -> str:
    match block:
        case Text(text=text):
            return text
        case Image(media_type=media_type, width_px=width, height_px=height):
            return f"[{media_type}, {width}×{height} px]"
        case ToolUse(id=id_, name=name, input=input_):
            lines = [f"{key}: {_value_text(value)}" for key, value in input_.items()]
            return "\n".join([f"[{name} {id_}]", *lines])
        case ToolResult(tool_use_id=id_, content=content, is_error=is_error):
            head = f"[{'error' if is_error else 'result'} {id_}]"
            return "\n".join([head, *map(_block_text, content)])
        case Thinking():
            return ""
    return f"[{block.wire.get('type', 'block')}]"


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
