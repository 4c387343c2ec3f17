"""What a call of an MCP tool brought, as any other result: outputs, a text, pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mcp import types

from ..core.blocks import Json
from ..core.ports import ToolOutput
from .mcp_words import clip_words
from .media import describe_media
from .outputs import render_outputs

PICTURES = ("image/png", "image/jpeg", "image/gif")
WORD_CHARS = 300
"""Longest name or address of a resource that is told, in characters."""


def make_output(result: types.CallToolResult) -> ToolOutput:
    """Return the result in the model's form; an error is text only, since the API wants it so."""
    outputs = tuple(_outputs(result))
    rendered = render_outputs(outputs)
    return ToolOutput(
        rendered.text,
        images=() if result.is_error else rendered.images,
        outputs=outputs,
        mime_types=rendered.mime_types,
        is_error=bool(result.is_error),
    )


def _outputs(result: types.CallToolResult) -> Iterator[Json]:
    """Yield one nbformat output for each block; what is only structured comes as JSON."""
    for block in result.content:
        yield _output(block)
    if not result.content and result.structured_content is not None:
        yield _text(json.dumps(result.structured_content, ensure_ascii=False, indent=1))


def _output(block: types.ContentBlock) -> Json:
    if isinstance(block, types.TextContent):
        return _text(block.text)
    if isinstance(block, types.ImageContent | types.AudioContent):
        return _media(block.mime_type, block.data)
    if isinstance(block, types.ResourceLink):
        about = [block.name, block.uri, block.mime_type or "", block.description or ""]
        said = " · ".join(clip_words(one, WORD_CHARS) for one in about if one)
        return _text(f"[resource: {said}]")
    inner = block.resource
    if isinstance(inner, types.TextResourceContents):
        return _text(f"[resource: {clip_words(inner.uri, WORD_CHARS)}]\n{inner.text}")
    return _media(inner.mime_type or "application/octet-stream", inner.blob)


def _media(mime: str, data: str) -> Json:
    """Return a picture as an output; anything else as a line, so that nothing of it can act."""
    if mime in PICTURES:
        return {"output_type": "display_data", "data": {mime: data}, "metadata": {}}
    return _text(describe_media(clip_words(mime, 80), data))


def _text(text: str) -> Json:
    end = "" if text.endswith("\n") else "\n"
    return {"output_type": "stream", "name": "stdout", "text": f"{text}{end}"}
