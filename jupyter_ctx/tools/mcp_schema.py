"""Makes the JSON schema of somebody else's tool one that every provider takes.

What is known to be valid is kept, all else is left out: the server checks its own input anyway. So
a schema can become wider here, never wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .mcp_words import clean_words

MOST_DEPTH = 12
"""Deeper schemas are cut off there: what lies below takes anything."""

MOST_NODES = 2_000
"""A schema of more parts is refused."""

TEXT_CHARS = 1_000
"""Longest text of a description within a schema, in characters."""

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DEFINITION = re.compile(r"[^/~%]{1,100}")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_WORDS = ("title", "description", "format")
_LOCAL = re.compile(r"#/(\$defs|definitions)/([^/~%]{1,100})")


class BadSchemaError(Exception):
    """The tool cannot be called through any schema that would be taken; says why in a clause."""


def clean_schema(schema: object) -> dict[str, object]:
    """Return the schema of an object in keywords and values that are valid.

    Raises BadSchemaError: a required argument that no provider lets through, or too many parts.
    """
    if not isinstance(schema, Mapping):
        return {"type": "object", "properties": {}}
    cleaner = _Cleaner(schema)
    found = cleaner.clean({**schema, "type": "object"}, 0)
    for key in ("anyOf", "oneOf", "allOf", "$ref"):  # refused at the top level
        found.pop(key, None)
    found.setdefault("properties", {})
    named = schema.get("required")
    properties = found["properties"]
    assert isinstance(properties, dict)  # so `clean` makes it
    for name in named if isinstance(named, list) else ():
        if isinstance(name, str) and name not in properties and not _PROPERTY.fullmatch(name):
            raise BadSchemaError(f"it requires an argument named {name[:40]!r}")
    return found


class _Cleaner:
    def __init__(self, root: Mapping[Any, Any]) -> None:
        self._nodes = 0
        self._defs = {
            key: [name for name, inner in table.items() if _is_definition(name, inner)]
            for key in ("$defs", "definitions")
            if isinstance(table := root.get(key), Mapping)
        }

    def clean(self, schema: Mapping[Any, Any], depth: int) -> dict[str, object]:
        """Return what is valid of one schema, keywords in the order they came."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise BadSchemaError(f"its schema has more than {MOST_NODES:,} parts")
        if depth > MOST_DEPTH:
            return {}
        found: dict[str, object] = {}
        for key, value in schema.items():
            if isinstance(key, str) and (kept := self._keyword(key, value, depth)) is not None:
                found[key] = kept
        if isinstance(required := found.get("required"), list):
            known = found.get("properties")
            names = known if isinstance(known, dict) else {}
            found["required"] = [name for name in required if name in names]
        if found.get("required") == []:
            del found["required"]
        return found

    def _keyword(self, key: str, value: Any, depth: int) -> Any:
        """Return the value of a keyword as it may stand, None: it is left out."""
        match key:
            case "type":
                return _type(value)
            case "properties":
                return self._table(value, depth, _PROPERTY)
            case "$defs" | "definitions" if depth == 0:
                return self._table(value, depth, _DEFINITION)
            case "items" | "additionalProperties":
                return self._inner(value, depth)
            case "anyOf" | "oneOf" | "allOf" if isinstance(value, list) and value:
                parts = [self._inner(part, depth) for part in value]
                return None if None in parts else parts
            case "required" if isinstance(value, list):
                return list(dict.fromkeys(name for name in value if isinstance(name, str)))
            case "enum" if isinstance(value, list) and value:
                is_plain = all(one is None or _is_plain(one) for one in value)
                return [_bounded(one) for one in value] if is_plain else None
            case "const" | "default" if _is_plain(value):
                return _bounded(value)
            case "$ref":
                return self._reference(value)
            case _:
                return _simple(key, value)

    def _table(self, value: Any, depth: int, names: re.Pattern[str]) -> dict[str, object] | None:
        if not isinstance(value, Mapping):
            return None
        return {
            name: inner
            for name, part in value.items()
            if isinstance(name, str) and names.fullmatch(name)
            if (inner := self._inner(part, depth)) is not None
        }

    def _inner(self, value: Any, depth: int) -> dict[str, object] | bool | None:
        if isinstance(value, bool):
            return value
        return self.clean(value, depth + 1) if isinstance(value, Mapping) else None

    def _reference(self, value: Any) -> str | None:
        """Keep a reference to a definition of this schema; any other could reach outside."""
        match = _LOCAL.fullmatch(value) if isinstance(value, str) else None
        return value if match and match[2] in self._defs.get(match[1], ()) else None


def _simple(key: str, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in _WORDS and isinstance(value, str):
        return _bounded(value)
    if key in _COUNTS and isinstance(value, int) and is_number and 0 <= value < 2**31:
        return value
    if key in _BOUNDS and is_number and abs(value) < 2**53:
        return value
    if key == "uniqueItems" and isinstance(value, bool):
        return value
    return None


def _type(value: Any) -> Any:
    if isinstance(value, str):
        return value if value in _TYPES else None
    if isinstance(value, list) and value:
        kinds = list(dict.fromkeys(one for one in value if one in _TYPES))
        return kinds or None
    return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int | bool)


def _is_definition(name: Any, value: Any) -> bool:
    is_named = isinstance(name, str) and _DEFINITION.fullmatch(name) is not None
    return is_named and isinstance(value, Mapping | bool)


def _bounded(value: Any) -> Any:
    """Return a plain value; a text without what is not seen, and not too long."""
    if not isinstance(value, str):
        return value
    return clean_words(value[:TEXT_CHARS])
