"""The models the fake offers, and their entries in the Models API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EFFORTS = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True)
class FakeModel:
    """What one model accepts.

    `window` and `max_output` are tokens. `binds_thinking`: thinking is refused after an edited
    prefix. `thinking`: the `thinking.type` values it takes. `omits_thinking`: the text of thinking
    is left out unless `display` is `summarized`. `cache_floor`: tokens; a shorter prefix is not
    cached. `many_images`: images in one request. `image_edge_px`, `image_tokens`: a larger image
    is scaled down to these. `forced_tools`: takes `tool_choice` any and tool.
    `system_messages`: takes `role: "system"` in messages. `prefill`: takes a last assistant
    message.
    """

    window: int = 200_000
    max_output: int = 64_000
    binds_thinking: bool = False
    cache_floor: int = 1_024
    many_images: int = 100
    image_edge_px: int = 2_576
    image_tokens: int = 4_784
    thinking: tuple[str, ...] = ("adaptive", "enabled", "disabled", "between_tools")
    omits_thinking: bool = True
    efforts: tuple[str, ...] = EFFORTS
    forced_tools: bool = True
    system_messages: bool = False
    prefill: bool = False
    line: str = "sonnet"


ADAPTIVE_ONLY = ("adaptive", "disabled", "between_tools")

DEFAULT_MODELS = {
    "claude-sonnet-5-5": FakeModel(
        window=1_000_000,
        max_output=128_000,
        binds_thinking=True,
        cache_floor=512,
        many_images=600,
        forced_tools=False,
        system_messages=True,
    ),
    "claude-opus-5-5": FakeModel(
        window=1_000_000,
        max_output=128_000,
        binds_thinking=True,
        cache_floor=512,
        many_images=600,
        thinking=ADAPTIVE_ONLY,
        forced_tools=False,
        system_messages=True,
        line="opus",
    ),
    "claude-haiku-4-5": FakeModel(
        cache_floor=4_096,
        image_edge_px=1_568,
        image_tokens=1_568,
        thinking=("enabled", "disabled"),
        omits_thinking=False,
        efforts=(),
        prefill=True,
        line="haiku",
    ),
}


def model_info(name: str, model: FakeModel) -> dict[str, Any]:
    """Return the model as GET /v1/models/{id} gives it."""
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "deprecated_at": None,
        "retires_at": None,
        "lifecycle": "active",
        "line": model.line,
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": _capabilities(model),
    }


def list_models(models: Mapping[str, FakeModel], query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page of GET /v1/models."""
    names = list(models)
    if query.get("after_id") in names:
        names = names[names.index(query["after_id"]) + 1 :]
    page = names[: int(query.get("limit", 20))]
    return {
        "data": [model_info(name, models[name]) for name in page],
        "has_more": len(page) < len(names),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _capabilities(model: FakeModel) -> dict[str, Any]:
    yes, no = {"supported": True}, {"supported": False}
    types = ("adaptive", "between_tools", "disabled", "enabled")
    return {
        "batch": yes,
        "citations": yes,
        "code_execution": no,
        "context_management": {"supported": False},
        "effort": {
            "supported": bool(model.efforts),
            **{effort: {"supported": effort in model.efforts} for effort in EFFORTS},
        },
        "image_input": yes,
        "pdf_input": yes,
        "server_tools": {"supported": False, "web_search": no, "code_execution": no},
        "structured_outputs": yes,
        "thinking": {
            "supported": bool({"adaptive", "enabled"} & set(model.thinking)),
            "types": {kind: {"supported": kind in model.thinking} for kind in types},
        },
    }
