"""`update_plan`: the agent's plan, shown to the user and kept through compactions."""

from __future__ import annotations

from ..core.blocks import Json
from ..core.plan import MOST_ITEM_CHARS, MOST_ITEMS, PlanItem, count_done
from ..core.planning import clean_items
from ..core.ports import ToolOutput, ToolSpec
from ..core.window import SMALL_WINDOW
from .base import Tool, load_description, make_schema


def make_update_plan() -> Tool:
    """Return the tool `update_plan`: the whole plan at once, so the newest call says it all."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        given: list[Json] = arguments["items"]  # type: ignore[assignment]  # by schema
        items = clean_items(
            [PlanItem(str(one["text"]), one["state"]) for one in given]  # type: ignore[arg-type]  # by schema
        )
        if not items:
            return ToolOutput("There is no plan any more.", plan=())
        return ToolOutput(f"The plan has {count_done(items)} of {len(items)} done.", plan=items)

    item = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": MOST_ITEM_CHARS},
            "state": {"type": "string", "enum": ["pending", "in_progress", "done"]},
        },
        "required": ["text", "state"],
        "additionalProperties": False,
    }
    items = {
        "type": "array",
        "items": item,
        "maxItems": MOST_ITEMS,
        "description": "The whole plan in order.",
    }
    spec = ToolSpec(
        "update_plan",
        load_description("update_plan"),
        make_schema({"items": items}, ["items"]),
        reads_only=True,  # of the user's things it changes none
        least_window=SMALL_WINDOW,
    )
    return Tool(spec, run)
