"""What a project's settings file and `.mcp.json` would add, part by part."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ..config import EXTENSION_KEYS, GUARDED_SETTINGS, make_settings
from ..errors import ConfigError
from .offers import Kind, Offer, digest_of
from .reading import Found

MOST_SHOWN = 20_000
"""A part of more characters cannot be shown whole, so nobody can trust it."""
MOST_DEPTH = 50
"""JSON that is nested deeper is not used: no settings are, and it could exhaust the stack."""
TOO_LONG = f"it is too long to be shown whole ({MOST_SHOWN:,} characters)"


def settings_offers(found: Found, source: str) -> Iterator[Offer]:
    """Yield what a settings file would add: settings, hooks, MCP servers."""
    values = _load(found)
    if isinstance(values, str):
        yield Offer("settings", source, source, found.path, fault=values)
        return
    parts = {key: values.pop(key) for key in EXTENSION_KEYS if key in values}
    if values:
        yield _settings_offer(values, source, found.path)
    for key, value in parts.items():
        kind: Kind = "hooks" if key == "hooks" else "mcpServers"
        yield _offer(kind, _names_of(value), source, found.path, value)


def mcp_offers(found: Found, source: str) -> Iterator[Offer]:
    """Yield the MCP servers of a `.mcp.json`, if it has any."""
    values = _load(found)
    if isinstance(values, str):
        yield Offer("mcpServers", source, source, found.path, fault=values)
    elif (servers := values.get("mcpServers")) not in (None, {}):
        yield _offer("mcpServers", _names_of(servers), source, found.path, servers)


def allowed_settings(values: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that a project's file may set."""
    return {name: value for name, value in values.items() if name not in GUARDED_SETTINGS}


def _load(found: Found) -> dict[str, object] | str:
    """Return the JSON object of a file, or why there is none."""
    if found.fault:
        return found.fault
    try:
        values = json.loads(found.text)
    except (ValueError, RecursionError):
        return "it is no valid JSON"
    if _is_deep(values):
        return f"it is nested deeper than {MOST_DEPTH} levels"
    return values if isinstance(values, dict) else "it must hold one JSON object"


def _is_deep(value: object) -> bool:
    """Say whether JSON is nested so deep that writing it out could fail."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return any(isinstance(one, dict | list) for one in level)


def _settings_offer(values: Mapping[str, object], source: str, path: str) -> Offer:
    allowed = allowed_settings(values)
    passed = ", ".join(sorted(set(values) - set(allowed)))
    offer = _offer("settings", ", ".join(sorted(allowed)), source, path, values)
    note = f"Passed over, since no project may set it: {passed}." if passed else ""
    fault = offer.fault
    if not allowed:
        fault = "it sets nothing that a project may set"
    try:
        make_settings(allowed)
    except ConfigError as error:
        fault = str(error)
    text = _shown(allowed) if allowed else ""
    return Offer(
        "settings", offer.name, source, path, offer.digest, text, fault, value=allowed, note=note
    )


def _offer(kind: Kind, name: str, source: str, path: str, value: object) -> Offer:
    text = _shown(value)
    fault = TOO_LONG if len(text) > MOST_SHOWN else ""
    if not isinstance(value, dict):
        fault = f"`{kind}` must be a JSON object"
    return Offer(
        kind, name or source, source, path, digest_of(value), text[:MOST_SHOWN], fault, value=value
    )


def _names_of(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, dict) else ""


def _shown(value: object) -> str:
    """Return JSON for people: in ASCII, so that no character hides what would run."""
    return json.dumps(value, indent=2, ensure_ascii=True)
