"""Tokens as cl100k counts them, each text once: what the bill is made of, and the estimate.

Frames around messages and tool blocks are those of the engine's own estimate, so that the factor
which it learns is about 1 and the figures speak of decisions alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from jupyter_ctx.core.blocks import Block, Image, Json, Text, ToolResult, ToolUse
from jupyter_ctx.core.counts import MESSAGE_FRAME, TOOL_FRAME, image_tokens
from jupyter_ctx.models.counting import TiktokenCounter


@dataclass(slots=True)
class MemoCounter:
    """Counts cl100k tokens and remembers every text; implements `core.ports.Counter`."""

    counter: TiktokenCounter = field(default_factory=TiktokenCounter)
    known: dict[str, int] = field(default_factory=dict)

    def count(self, text: str) -> int:
        """Return the tokens of `text`."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self.counter.count(text)
        return found


COUNTER = MemoCounter()


class Cl100kSizes:
    """What each part of a request costs, in cl100k tokens. A `billing.Sizes`."""

    request_tokens = 0
    tools_tokens = 0
    message_tokens = MESSAGE_FRAME

    def tool(self, tool: Json) -> int:
        """Return the tokens of a tool's definition."""
        return COUNTER.count(json.dumps(dict(tool), ensure_ascii=False)) + TOOL_FRAME

    def block(self, block: Block) -> int:
        """Return the tokens of a block."""
        count = COUNTER.count
        match block:
            case Text(text=text):
                return count(text)
            case Image():
                return image_tokens(block)
            case ToolUse(name=name, input=input_):
                written = json.dumps(dict(input_), ensure_ascii=False, default=str)
                return count(name) + count(written) + TOOL_FRAME
            case ToolResult(content=content):
                return TOOL_FRAME + sum(map(self.block, content))
            case _:
                return count(json.dumps(dict(block.wire), ensure_ascii=False))

    def system(self, text: str) -> int:
        """Return the tokens of the system prompt."""
        return COUNTER.count(text)
