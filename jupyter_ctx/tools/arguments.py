"""Checks a call's input against its tool's schema and says in words what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.blocks import Json
from ..core.ports import ToolSpec
from ..errors import ToolError
from .base import find_near, quote_names

if TYPE_CHECKING:
    from fastjsonschema import JsonSchemaValueException

_ARTICLES = {"object": "an object", "array": "an array", "integer": "a whole number"}
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (str, "a string"),
    (int, "a number"),
    (float, "a number"),
    (list, "an array"),
    (Mapping, "an object"),
    (type(None), "null"),
)


def check_arguments(spec: ToolSpec, given: object) -> Json:
    """Return `given` if it is valid against the tool's schema.

    Raises ToolError whose text names the field, what was expected, what was given, and what the
    tool takes.
    """
    import fastjsonschema

    plain = check_object(spec, given)
    schema = {"additionalProperties": False, **spec.input_schema}
    check = fastjsonschema.compile(schema, use_default=False)
    try:
        check(plain)
    except fastjsonschema.JsonSchemaValueException as error:
        said = _say(spec, error)
        raise ToolError(f"{said[0].upper()}{said[1:]}. {_takes(spec)}") from None
    return plain


def check_object(spec: ToolSpec, given: object) -> dict[str, object]:
    """Return `given` if it is an object; nothing else is checked.

    Raises ToolError as `check_arguments`.
    """
    if not isinstance(given, Mapping):
        hint = _json_hint(given, "object")
        raise ToolError(
            f"The input of {spec.name} must be a JSON object, not {_kind(given)}{hint}. "
            f"{_takes(spec)}"
        )
    return dict(given)


def _say(spec: ToolSpec, error: JsonSchemaValueException) -> str:
    """Return the error in words; its path begins with the name of the whole input."""
    field = "".join(
        f"[{part}]" if part.isdigit() else f".{part[:80]}" for part in error.path[1:]
    ).lstrip(".")
    wanted: Any = error.rule_definition
    given: Any = error.value
    match error.rule:
        case "required":
            missing = [name for name in _fields(spec) if name not in given]
            absent = [name for name in missing if name in _required(spec)]
            return f"{quote_names(absent)} is missing"
        case "additionalProperties":
            return "; ".join(
                f"`{str(name)[:80]}` is no argument of {spec.name} (nearest: "
                f"{quote_names(find_near(str(name), _fields(spec)))})"
                for name in list(given)
                if name not in _fields(spec)
            )[:600]
        case "type":
            hint = _json_hint(given, str(wanted))
            return f"`{field}` must be {_article(str(wanted))}, not {_kind(given)}{hint}"
        case "minimum":
            return f"`{field}` is {given}; it must be at least {wanted}"
        case "minItems":
            return f"`{field}` has {len(given)} items; it must have at least {wanted}"
        case "maxItems":
            return f"`{field}` has {len(given):,} items; it may have {wanted} at most"
        case "minLength":
            return f"`{field}` is empty"
        case "maxLength":
            return f"`{field}` has {len(given):,} characters; it may have {wanted:,}"
    return f"`{field}`: {error.message[:200]}"


def _json_hint(given: object, wanted: str) -> str:
    """Return a hint when a string holds the JSON that was meant."""
    if not isinstance(given, str) or wanted == "string":
        return ""
    try:
        meant = json.loads(given[:100_000])
    except (ValueError, RecursionError):
        return ""
    return (
        " that holds JSON: send the JSON itself, without quotes around it"
        if (not isinstance(meant, str))
        else ""
    )


def _takes(spec: ToolSpec) -> str:
    required = _required(spec)
    listed = [name if name in required else f"{name} (optional)" for name in _fields(spec)]
    return f"{spec.name} takes: {', '.join(listed)}." if listed else f"{spec.name} takes nothing."


def _fields(spec: ToolSpec) -> list[str]:
    properties = spec.input_schema.get("properties")
    return list(properties) if isinstance(properties, Mapping) else []


def _required(spec: ToolSpec) -> list[str]:
    required = spec.input_schema.get("required")
    return list(required) if isinstance(required, list) else []


def _article(kind: str) -> str:
    return _ARTICLES.get(kind, f"a {kind}")


def _kind(value: object) -> str:
    return next((said for kind, said in _KINDS if isinstance(value, kind)), type(value).__name__)
