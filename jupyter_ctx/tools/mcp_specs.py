"""The tools that an MCP server lists, as the model is told of them: named, bounded, made valid.

What a server says of its tools goes into every request, so one bad schema or name would have every
request refused. Names are spelled in what all providers take, a schema keeps only what is known to
be valid JSON Schema, texts lose what cannot be seen, and all of it has a budget.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.ports import ToolSpec
from .mcp_schema import BadSchemaError, clean_schema
from .mcp_words import clean_words, show_name

PREFIX = "mcp"
TOOL_NAME_CHARS = 64
"""Longest name of a tool, in characters: OpenAI's bound; Anthropic's is 128."""

DESCRIPTION_CHARS = 2_000
"""So much of a tool's description is told, in characters (DESIGN.md 9)."""

SCHEMA_CHARS = 12_000
"""A tool whose schema is longer as JSON is left out, in characters."""

MOST_TOOLS = 128
"""So many tools of one server are told at most."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool as its server lists it; nothing of it is checked."""

    name: str
    description: str
    input_schema: object


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server brings: specs with the name that the server itself knows each by.

    `left_out` says of each other tool why it is not told, a clause each.
    """

    tools: tuple[tuple[ToolSpec, str], ...] = ()
    left_out: tuple[str, ...] = ()


def make_offer(server: str, listed: Iterable[Listed], most_chars: int) -> Offer:
    """Return what is told of the tools of `server`: at most `most_chars` of JSON in all.

    The same list gives the same offer. Of equal names the first counts.
    """
    tools: dict[str, tuple[ToolSpec, str]] = {}
    seen: set[str] = set()
    left_out: list[str] = []
    room = most_chars
    for tool in listed:
        shown = show_name(tool.name)
        if tool.name in seen:
            left_out.append(f"{shown}: it is listed twice")
            continue
        seen.add(tool.name)
        try:
            spec = _make_spec(server, tool, tools)
        except BadSchemaError as error:
            left_out.append(f"{shown}: {error}")
            continue
        chars = _count_chars(spec)
        if len(tools) >= MOST_TOOLS or chars > room:
            why = f"more than {MOST_TOOLS} tools" if chars <= room else "no room is left for it"
            left_out.append(f"{shown}: {why}")
            continue
        room -= chars
        tools[spec.name] = spec, tool.name
    return Offer(tuple(tools[name] for name in sorted(tools)), tuple(left_out))


def server_prefix(server: str) -> str:
    """Return what the names of a server's tools begin with: `mcp__server__`."""
    return f"{PREFIX}__{_spell(server, 24)}__"


def _make_spec(server: str, tool: Listed, taken: Mapping[str, object]) -> ToolSpec:
    """Return the spec. Raises BadSchemaError if no request with it would be taken."""
    prefix = server_prefix(server)
    name = prefix + _spell(tool.name, TOOL_NAME_CHARS - len(prefix))
    if name in taken:
        name = prefix + _marked(tool.name, TOOL_NAME_CHARS - len(prefix))
    schema = clean_schema(tool.input_schema)
    if len(json.dumps(schema)) > SCHEMA_CHARS:
        raise BadSchemaError(f"its schema is over {SCHEMA_CHARS:,} characters")
    said = clean_words(tool.description[: 4 * DESCRIPTION_CHARS])
    if len(said) > DESCRIPTION_CHARS:
        said = f"{said[: DESCRIPTION_CHARS - 2].rstrip()} …"
    about = f'A tool of the MCP server "{show_name(server)}".'
    description = f"{about} {said}" if said else about
    return ToolSpec(name, description, schema, reads_only=False, permission=f"use {name}")


def _spell(name: str, most_chars: int) -> str:
    """Return `name` in the letters a tool's name may have; one that is too long ends in a mark."""
    spelled = _OTHER.sub("_", name)
    if not spelled or len(spelled) > most_chars:
        return _marked(name, most_chars)
    return spelled


def _marked(name: str, most_chars: int) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_OTHER.sub('_', name)[: most_chars - 9]}_{digest}"


def _count_chars(spec: ToolSpec) -> int:
    schema = json.dumps(dict(spec.input_schema), ensure_ascii=False)
    return len(spec.name) + len(spec.description) + len(schema)


def sum_up(left_out: Sequence[str]) -> str:
    """Return what was left out in a few words, "" if nothing was."""
    more = f"; … and {len(left_out) - 3:,} more" if len(left_out) > 3 else ""
    return f"{'; '.join(left_out[:3])}{more}"
