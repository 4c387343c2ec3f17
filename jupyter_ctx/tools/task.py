"""`task`: has a sub-agent do a part of the work and brings back its answer.

The core starts the sub-agent (`core/agents.py`), since it goes on from the conversation itself;
here stands what the model is told of the tool, and what a call must be.
"""

from __future__ import annotations

from ..core.blocks import Json
from ..core.ports import ToolOutput, ToolSpec
from ..core.window import SMALL_WINDOW
from ..errors import ToolError
from .base import Tool, load_description, make_schema

DESCRIPTION_CHARS = 100
"""Longest description, in characters: it stands on one line, and in questions."""

BLANK_TEXT = "The prompt is blank: write in it what the sub-agent is to do."


def make_task() -> Tool:
    """Return the tool `task`; its text is the task as the sub-agent gets it."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        prompt = str(arguments["prompt"])
        if not prompt.strip():
            raise ToolError(BLANK_TEXT)
        return ToolOutput(prompt)

    fields = {
        "description": {
            "type": "string",
            "minLength": 1,
            "maxLength": DESCRIPTION_CHARS,
            "description": "Three to six words for the user.",
        },
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "What to find or do, and what to answer with.",
        },
    }
    spec = ToolSpec(
        "task",
        load_description("task"),
        make_schema(fields, ["description", "prompt"]),
        reads_only=True,
        least_window=SMALL_WINDOW,
    )
    return Tool(spec, run)
