"""`remember`: a fact that the user stated, kept for later sessions of the project."""

from __future__ import annotations

from ..core.blocks import Json
from ..core.memory import MOST_FACT_CHARS, make_fact
from ..core.ports import Memory, ToolOutput, ToolSpec
from ..core.window import SMALL_WINDOW
from ..errors import StoreError, ToolError
from .base import Tool, load_description, make_schema

OFF_TEXT = "Nothing is kept across sessions here. It holds in this session; tell the user so."
KNOWN_TEXT = "It was kept already."
KEPT_TEXT = "Kept for later sessions. The user sees it and can take it back."


def make_remember(memory: Memory) -> Tool:
    """Return the tool `remember`."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        fact = make_fact(str(arguments["text"]))
        if not fact:
            raise ToolError(f"A fact is one sentence of at most {MOST_FACT_CHARS} characters.")
        if not memory.is_on:
            raise ToolError(OFF_TEXT)
        try:
            kept = tuple(await memory.add([fact]))
        except StoreError as error:
            raise ToolError(f"It could not be kept. {error}") from error
        return ToolOutput(KEPT_TEXT if kept else KNOWN_TEXT, remembered=kept)

    text = {
        "type": "string",
        "minLength": 1,
        "maxLength": MOST_FACT_CHARS,
        "description": "One short sentence that makes sense by itself.",
    }
    spec = ToolSpec(
        "remember",
        load_description("remember"),
        make_schema({"text": text}, ["text"]),
        reads_only=True,  # it touches neither kernel nor project, and the user can take it back
        least_window=SMALL_WINDOW,
    )
    return Tool(spec, run)
