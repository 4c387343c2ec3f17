"""What one block takes, in raw tokens by a counter and in fixed ones; and shares of a whole.

Raw tokens are to be multiplied by the learnt factor; with fixed ones (images) it has nothing to do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .blocks import PARTS, Block, Image, Json, Part, Text, Thinking, ToolResult, ToolUse
from .ports import Counter

# What stands around a message and around a tool block on the wire, in raw tokens.
MESSAGE_FRAME, TOOL_FRAME = 4, 10

# API.md 5, images: tokens of a 28 px grid after scaling to the most a model takes.
IMAGE_GRID_PX, MOST_IMAGE_PX, MOST_IMAGE_TOKENS = 28, 2_576, 4_784
UNKNOWN_IMAGE_TOKENS = 1_568


@dataclass(slots=True)
class Count:
    """Tokens by part: `raw` ones, to be multiplied by the factor, and `fixed` ones."""

    raw: dict[Part, int] = field(default_factory=dict)
    fixed: dict[Part, int] = field(default_factory=dict)

    def add(self, part: Part, raw: int, fixed: int = 0) -> None:
        """Add tokens of one part."""
        self.raw[part] = self.raw.get(part, 0) + raw
        self.fixed[part] = self.fixed.get(part, 0) + fixed

    def merge(self, other: Count) -> None:
        """Add all of another count."""
        for part, raw in other.raw.items():
            self.add(part, raw, other.fixed[part])

    @property
    def raw_tokens(self) -> int:
        """The raw tokens of all parts."""
        return sum(self.raw.values())

    @property
    def fixed_tokens(self) -> int:
        """The fixed tokens of all parts."""
        return sum(self.fixed.values())


def count_block(block: Block, counter: Counter) -> tuple[int, int]:
    """Return the raw and the fixed tokens of a block."""
    match block:
        case Text(text=text):
            return counter.count(text), 0
        case Image():
            return 0, image_tokens(block)
        case Thinking(wire=wire):
            return _count_thinking(wire, counter), 0
        case ToolUse(name=name, input=input_):
            return counter.count(name) + counter.count(as_json(input_)) + TOOL_FRAME, 0
        case ToolResult(content=content):
            inner = [count_block(each, counter) for each in content]
            return sum(raw for raw, _ in inner) + TOOL_FRAME, sum(fixed for _, fixed in inner)
        case _:  # Opaque
            return counter.count(as_json(block.wire)), 0


def image_tokens(image: Image) -> int:
    """Return what an image costs: its 28 px squares after scaling (API.md 5).

    An image of unknown size counts as one of full size.
    """
    width, height = image.width_px, image.height_px
    if width <= 0 or height <= 0:
        return UNKNOWN_IMAGE_TOKENS
    scale = min(1.0, MOST_IMAGE_PX / max(width, height))
    columns = math.ceil(width * scale / IMAGE_GRID_PX)
    rows = math.ceil(height * scale / IMAGE_GRID_PX)
    return min(columns * rows, MOST_IMAGE_TOKENS)


def apportion(weights: Mapping[Part, float], total: int) -> dict[Part, int]:
    """Return `total` in whole tokens by weight (largest remainder); the shares add up exactly.

    Without any weight, all of it is `conversation`.
    """
    parts = {part: round(1_000 * weights.get(part, 0)) for part in PARTS}  # exact from here on
    whole = sum(parts.values())
    if whole <= 0:
        return {part: total if part == "conversation" else 0 for part in PARTS}
    shares = {part: total * weight // whole for part, weight in parts.items()}
    by_remainder = sorted(PARTS, key=lambda part: -(total * parts[part] % whole))
    for part in by_remainder[: total - sum(shares.values())]:
        shares[part] += 1
    return shares


def part_of(block: Block) -> Part:
    """Return the part of the gauge that counts a block."""
    match block:
        case Text(part=part):
            return part
        case ToolResult():
            return "results"
        case _:
            return "conversation"


def _count_thinking(wire: Json, counter: Counter) -> int:
    """Return the raw tokens of a thinking block.

    Its text may be a summary or left out; then the signature, whose base64 carries the whole, is
    the better measure: three bytes in four characters, about four bytes a token.
    """
    hidden = max(len(str(wire.get(key, ""))) for key in ("signature", "data"))
    return max(counter.count(str(wire.get("thinking", ""))), hidden * 3 // 16)


def as_json(value: Json) -> str:
    """Return an object as the text that is counted for it."""
    return json.dumps(dict(value), ensure_ascii=False, default=str)
