"""The fake's own tokenizer: deterministic, linear, and not cl100k.

A text costs its UTF-8 bytes ÷ 3.2, rounded up, so that a cl100k estimate is off by about the
factor of a current model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from .models import FakeModel

BYTES_PER_TOKEN = 3.2
REQUEST_TOKENS = 8
TOOLS_TOKENS = 320
TURN_TOKENS = 4
BLOCK_TOKENS = 3
IMAGE_PATCH_PX = 28


def text_tokens(text: str) -> int:
    """Return the tokens of a text."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def text_for(tokens: int, text: str) -> str:
    """Return the longest start of `text` that costs at most `tokens`."""
    cut = text.encode("utf-8", "surrogatepass")[: int(tokens * BYTES_PER_TOKEN)]
    return cut.decode("utf-8", "ignore")


def json_tokens(value: object) -> int:
    """Return the tokens of a value written as JSON."""
    return text_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def image_tokens(width: int, height: int, model: FakeModel) -> int:
    """Return ceil(w/28) × ceil(h/28), after scaling down to the model's edge and token limits."""
    scale = min(1.0, model.image_edge_px / max(width, height))
    while True:
        columns = math.ceil(max(1, int(width * scale)) / IMAGE_PATCH_PX)
        rows = math.ceil(max(1, int(height * scale)) / IMAGE_PATCH_PX)
        if columns * rows <= model.image_tokens:
            return columns * rows
        scale *= 0.98


def tool_tokens(tool: Mapping[str, Any]) -> int:
    """Return the tokens of one tool definition."""
    return BLOCK_TOKENS + json_tokens(
        {key: value for key, value in tool.items() if key != "cache_control"}
    )


def block_tokens(
    block: Mapping[str, Any], model: FakeModel, sizes: Mapping[int, tuple[int, int]]
) -> int:
    """Return the tokens of one content block; `sizes` holds images' pixels by `id(block)`."""
    kind = block.get("type")
    if kind == "text":
        return BLOCK_TOKENS + text_tokens(block["text"])
    if kind == "image":
        width, height = sizes.get(id(block), (model.image_edge_px, model.image_edge_px))
        return BLOCK_TOKENS + image_tokens(width, height, model)
    if kind == "tool_use":
        return 4 * BLOCK_TOKENS + text_tokens(block["name"]) + json_tokens(block["input"])
    if kind == "tool_result":
        content = block.get("content") or ()
        if isinstance(content, str):
            return 4 * BLOCK_TOKENS + text_tokens(content)
        return 4 * BLOCK_TOKENS + sum(block_tokens(inner, model, sizes) for inner in content)
    return BLOCK_TOKENS + json_tokens(block)
