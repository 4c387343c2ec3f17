"""The shape of a request body: every key and every block, as the API's own types have them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from .errors import invalid
from .models import FakeModel

Check: TypeAlias = Callable[[Any, str], None]

TOOL_NAME = r"^[a-zA-Z0-9_-]{1,128}$"
ID = r"^[a-zA-Z0-9_-]+$"
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


# Small checks -------------------------------------------------------------------------------


def _text(pattern: str = "", least: int = 0, most: int = 0) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            raise invalid(path, "Input should be a valid string")
        if len(value) < least:
            raise invalid(path, f"String should have at least {least} character")
        if most and len(value) > most:
            raise invalid(path, f"String should have at most {most} characters")
        if pattern and not re.fullmatch(pattern, value):
            raise invalid(path, f"String should match pattern '{pattern}'")

    return check


def _whole(least: int) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid(path, "Input should be a valid integer")
        if value < least:
            raise invalid(path, f"Input should be greater than or equal to {least}")

    return check


def _flag(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise invalid(path, "Input should be a valid boolean")


def _anything(value: Any, path: str) -> None:
    """Accept it: not modelled here."""


def _number(value: Any, path: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise invalid(path, "Input should be a valid number")


def _mapping(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise invalid(path, "Input should be a valid dictionary")


def _one_of(*values: str) -> Check:
    def check(value: Any, path: str) -> None:
        if value not in values:
            quoted = [f"'{known}'" for known in values]
            listed = " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
            raise invalid(path, f"Input should be {listed}")

    return check


def _nullable(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def _list_of(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise invalid(path, "Input should be a valid list")
        for index, item in enumerate(value):
            inner(item, f"{path}.{index}")

    return check


def _object(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    known = {**required, **optional}

    def check(value: Any, path: str) -> None:
        _mapping(value, path)
        for key in required:
            if key not in value:
                raise invalid(_join(path, key), "Field required")
        for key, item in value.items():
            if key not in known:
                raise invalid(_join(path, key), "Extra inputs are not permitted")
            known[key](item, _join(path, key))

    return check


def _tagged(variants: Mapping[str, Check]) -> Check:
    """Check an object by its `type`; the tag becomes part of the path."""

    def check(value: Any, path: str) -> None:
        _mapping(value, path)
        if "type" not in value:
            raise invalid(f"{path}.type", "Field required")
        kind = value["type"]
        if kind not in variants:
            listed = ", ".join(f"'{known}'" for known in variants)
            raise invalid(
                path,
                f"Input tag '{kind}' found using 'type' does not match any of the expected tags: "
                f"{listed}",
            )
        variants[kind](value, f"{path}.{kind}")

    return check


def _text_or(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            inner(value, path)

    return check


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# Blocks ---------------------------------------------------------------------------------------

_marker = _nullable(_object({"type": _one_of("ephemeral")}, {"ttl": _one_of("5m", "1h")}))
_kind = _text()
_text_block = _object(
    {"type": _kind, "text": _text()},
    {"cache_control": _marker, "citations": _nullable(_list_of(_anything))},
)
_base64 = _object({"type": _kind, "media_type": _one_of(*_IMAGE_TYPES), "data": _text()}, {})
_image_block = _object(
    {
        "type": _kind,
        "source": _tagged(
            {
                "base64": _base64,
                "url": _object({"type": _kind, "url": _text()}, {}),
                "file": _object({"type": _kind, "file_id": _text()}, {}),
            }
        ),
    },
    {
        "cache_control": _marker,
        "transformations": _nullable(
            _object({}, {"oversized_image": _one_of("downsize", "error")})
        ),
    },
)
_document_block = _object(
    {"type": _kind, "source": _mapping},
    {
        "cache_control": _marker,
        "citations": _nullable(_mapping),
        "context": _nullable(_text()),
        "title": _nullable(_text()),
    },
)
_search_result_block = _object(
    {
        "type": _kind,
        "source": _text(),
        "title": _text(),
        "content": _list_of(_tagged({"text": _text_block})),
    },
    {"cache_control": _marker, "citations": _mapping},
)
_result_content = _tagged(
    {
        "text": _text_block,
        "image": _image_block,
        "document": _document_block,
        "search_result": _search_result_block,
    }
)
_block = _tagged(
    {
        "text": _text_block,
        "image": _image_block,
        "document": _document_block,
        "search_result": _search_result_block,
        "thinking": _object({"type": _kind, "thinking": _text(), "signature": _text()}, {}),
        "redacted_thinking": _object({"type": _kind, "data": _text()}, {}),
        "tool_use": _object(
            {"type": _kind, "id": _text(ID), "name": _text(least=1, most=200), "input": _mapping},
            {"cache_control": _marker, "caller": _mapping, "toolset_name": _nullable(_text())},
        ),
        "tool_result": _object(
            {"type": _kind, "tool_use_id": _text(ID)},
            {
                "cache_control": _marker,
                "content": _text_or(_list_of(_result_content)),
                "is_error": _flag,
                "toolset_name": _nullable(_text()),
            },
        ),
        "server_tool_use": _mapping,
        "web_search_tool_result": _mapping,
    }
)
_message = _object(
    {"role": _one_of("user", "assistant", "system"), "content": _text_or(_list_of(_block))}, {}
)


# Tools ----------------------------------------------------------------------------------------


def _input_schema(value: Any, path: str) -> None:
    _mapping(value, path)
    if "type" not in value:
        raise invalid(f"{path}.type", "Field required")
    _one_of("object")(value["type"], f"{path}.type")
    if {"oneOf", "allOf", "anyOf"} & set(value):
        raise invalid(path, "input_schema does not support oneOf, allOf, or anyOf at the top level")
    fault = _schema_fault(json.dumps(value))
    if fault is not None:
        raise invalid(
            path, f"JSON schema is invalid. It must match JSON Schema draft 2020-12: {fault}"
        )


@functools.lru_cache(maxsize=1_024)
def _schema_fault(schema: str) -> str | None:
    """Return what is wrong with a JSON schema; each is looked at once, as each request has all."""
    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return error.message
    return None


_custom_tool = _object(
    {"name": _text(TOOL_NAME), "input_schema": _input_schema},
    {
        "type": _nullable(_one_of("custom")),
        "description": _text(),
        "cache_control": _marker,
        "allowed_callers": _list_of(_text()),
        "defer_loading": _flag,
        "eager_input_streaming": _nullable(_flag),
        "input_examples": _list_of(_mapping),
        "strict": _flag,
    },
)


def _tool(value: Any, path: str) -> None:
    _mapping(value, path)
    if value.get("type") not in (None, "custom"):
        raise invalid(path, f"the fake does not model tools of type {value['type']!r}")
    _custom_tool(value, f"{path}.custom")


_parallel = {"disable_parallel_tool_use": _flag}
_tool_choice = _tagged(
    {
        "auto": _object({"type": _kind}, _parallel),
        "any": _object({"type": _kind}, _parallel),
        "tool": _object({"type": _kind, "name": _text()}, _parallel),
        "none": _object({"type": _kind}, {}),
    }
)


# The body -------------------------------------------------------------------------------------

_FORMAT = _object({"type": _one_of("json_schema"), "schema": _mapping}, {})
_SAMPLING: dict[str, Check] = {"temperature": _number, "top_p": _number, "top_k": _whole(0)}
_BOTH: dict[str, Check] = {
    "cache_control": _marker,
    "speed": _nullable(_one_of("standard", "fast")),
    "system": _text_or(_list_of(_tagged({"text": _text_block}))),
    "tool_choice": _tool_choice,
    "tools": _list_of(_tool),
}
_CREATE: dict[str, Check] = {
    "container": _anything,
    "diagnostics": _nullable(_object({}, {"previous_message_id": _nullable(_text())})),
    "inference_geo": _nullable(_text()),
    "metadata": _object({}, {"user_id": _nullable(_text(most=256))}),
    "service_tier": _one_of("auto", "standard_only"),
    "stop_sequences": _list_of(_text()),
    "stream": _flag,
}
_BETA_KEYS = {
    "context_management": ("context-management-2025-06-27", "compact-2026-01-12"),
    "compaction": ("compact-2026-09-04",),
    "mcp_servers": ("mcp-client-2025-04-04", "mcp-client-2025-11-20", "mcp-client-2026-09-15"),
    "thread": ("message-threads-2026-08-12",),
    "fallbacks": ("server-side-fallback-2026-06-01", "server-side-fallback-2026-07-01"),
    "fallback_credit_token": ("fallback-credit-2026-06-01", "fallback-credit-2026-07-01"),
    "output_format": ("structured-outputs-2025-11-13",),
}
BINDING_BETA = "thinking-binding-controls-2026-08-01"


def check_schema(
    body: dict[str, Any], *, counting: bool, old_version: bool, betas: frozenset[str]
) -> None:
    """Check keys, kinds and values of a body. Raises ApiError with the path of the first fault.

    `counting`: a body of count_tokens. `old_version` still takes sampling parameters.
    """
    optional = {**_BOTH, "thinking": _thinking(betas), "output_config": _output_config(betas)}
    if not counting:
        optional |= _CREATE
    if old_version:
        optional |= _SAMPLING
    for key, names in _BETA_KEYS.items():
        if betas & set(names):
            optional[key] = _anything
    required: dict[str, Check] = {"model": _text(least=1), "messages": _list_of(_message)}
    if not counting:
        required["max_tokens"] = _whole(0)
    _object(required, optional)(body, "")


def check_model_settings(body: Mapping[str, Any], model: FakeModel) -> None:
    """Check what depends on the model: max_tokens, thinking, effort, stop sequences."""
    _check_max_tokens(body, model)
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if kind is not None and kind not in model.thinking:
        raise invalid(
            f"thinking.{kind}",
            f'"thinking.type.{kind}" is not supported for this model.',
        )
    if kind == "enabled" and thinking["budget_tokens"] >= body.get("max_tokens", 10**9):
        raise invalid("", "`max_tokens` must be greater than `thinking.budget_tokens`.")
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None and effort not in model.efforts:
        raise invalid("output_config.effort", "This model does not support the effort parameter.")
    if any(not sequence.strip() for sequence in body.get("stop_sequences") or ()):
        raise invalid("stop_sequences", "each stop sequence must contain non-whitespace")


def _check_max_tokens(body: Mapping[str, Any], model: FakeModel) -> None:
    limit = body.get("max_tokens")
    if limit is None:
        return
    if limit > model.max_output:
        raise invalid(
            "max_tokens",
            f"{limit} > {model.max_output}, which is the maximum allowed number of output tokens "
            f"for {body['model']}",
        )
    if limit == 0 and body.get("stream"):
        raise invalid("max_tokens", "0 is not supported with stream")


def _thinking(betas: frozenset[str]) -> Check:
    shows = ["summarized", "omitted"]
    shows += ["updates"] if "thinking-display-updates-2026-08-18" in betas else []
    more: dict[str, Check] = {"display": _nullable(_one_of(*shows))}
    if BINDING_BETA in betas:
        binding = _object(
            {}, {"prefix_mismatch_behavior": _nullable(_one_of("error", "drop_block"))}
        )
        more["block_binding"] = _nullable(binding)
    budget = {"type": _kind, "budget_tokens": _whole(1024)}
    bare = _object({"type": _kind}, {})
    return _tagged(
        {
            "adaptive": _object({"type": _kind}, more),
            "enabled": _object(budget, more),
            "disabled": bare,
            "between_tools": bare,
        }
    )


def _output_config(betas: frozenset[str]) -> Check:
    optional: dict[str, Check] = {
        "effort": _nullable(_one_of("low", "medium", "high", "xhigh", "max")),
        "format": _nullable(_FORMAT),
    }
    if "task-budgets-2026-03-13" in betas:
        optional["task_budget"] = _anything
    return _object({}, optional)
