"""`read_result`: reads a stored result, or one of the session's own texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ..core.blocks import Json
from ..core.ports import ToolOutput, ToolSpec
from ..errors import StoreError, ToolError
from .base import Tool, find_near, load_description, make_schema, quote_names
from .pages import LINE_FIELDS, Slice, Source, read_page
from .search import search_text

PATTERN_CHARS = 2_000
"""Longest pattern, in characters."""


class ResultReader(Protocol):
    """Finds the texts of one session. Both methods are called on a worker thread."""

    def read_text(self, name: str) -> Source | None:
        """Return the text of a `tool_use_id` or of such a name, None if unknown.

        A long one comes as the path of its UTF-8 file. Raises StoreError if it cannot be read.
        """
        ...

    def names(self) -> Sequence[str]:
        """Return every name that `read_text` knows, oldest first."""
        ...


def make_read_result(results: ResultReader) -> Tool:
    """Return the tool `read_result`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        text = await asyncio.to_thread(_read, results, arguments, cap_chars)
        return ToolOutput(text)

    fields = {
        "tool_use_id": {
            "type": "string",
            "description": "The name of the stored text.",
        },
        **LINE_FIELDS,
        "pattern": {
            "type": "string",
            "minLength": 1,
            "maxLength": PATTERN_CHARS,
            "description": "A Python regex.",
        },
    }
    spec = ToolSpec(
        "read_result",
        load_description("read_result"),
        make_schema(fields, ["tool_use_id"]),
        reads_only=True,
        offloads=False,
    )
    return Tool(spec, run)


def _read(results: ResultReader, arguments: Json, cap_chars: int) -> str:
    wanted = Slice.of(arguments)
    source = _find(results, str(arguments["tool_use_id"]))
    pattern = arguments.get("pattern")
    if pattern is None:
        return read_page(source, wanted, cap_chars)
    if wanted.start_char is not None:
        raise ToolError("`start_char` and `pattern` do not go together: leave one out.")
    return search_text(source, str(pattern), wanted, cap_chars)


def _find(results: ResultReader, name: str) -> Source:
    """Return the text of that name. Raises ToolError that lists near names."""
    try:
        source = results.read_text(name)
    except StoreError as error:
        raise ToolError(f"The text of `{name[:80]}` cannot be read: {error}") from error
    if source is not None:
        return source
    names = results.names()
    if not names:
        raise ToolError(f"There is no stored text `{name[:80]}`: nothing is stored yet.")
    near = quote_names(find_near(name, names))
    raise ToolError(f"There is no stored text `{name[:80]}`. Nearest: {near}.")
