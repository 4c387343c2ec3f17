"""The tools as a prompt tells them: frozen with the first turn, and anew at a compaction.

Between, a tool may come, go or change (an MCP server, a newer version): its calls follow at once,
what is told keeps its bytes, since every model charges for a changed prefix. On a small window the
tools that one can work without are left out, for all are sent with each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .blocks import Json
from .counts import TOOL_FRAME, as_json
from .entries import CompactionEntry, PrefixEntry

if TYPE_CHECKING:
    from .engine import Engine


def describe_tools(engine: Engine) -> tuple[Json, ...]:
    """Return the tools that there are now as a prompt tells them, without the program's keys.

    An unknown window counts as a large one.
    """
    redactor, window = engine.ports.redactor, engine.window
    return tuple(
        {
            "name": spec.name,
            "description": redactor.text(spec.description),
            "input_schema": redactor.json(spec.input_schema),
        }
        for spec in engine.ports.tools.specs
        if window is None or window >= spec.least_window
    )


def renew_tools(engine: Engine, entry: CompactionEntry) -> tuple[PrefixEntry, int] | None:
    """Return the prefix with the tools of now, and how many tokens it takes more (or less).

    For a compaction about to be recorded, which leaves what `entry` says. None: the tools are those
    already told, or so much larger that the compaction would free too little.
    """
    prefix = engine.transcript.prefix
    if prefix is None:
        return None
    tools = describe_tools(engine)
    if list(map(as_json, tools)) == list(map(as_json, prefix.tools)):
        return None
    more = _count(engine, tools) - _count(engine, prefix.tools)
    most = (1 - engine.limits.least_gain) * entry.tokens_before
    if more > 0 and entry.tokens_after + more > most:
        engine.note("info", "The tools have changed; what is new has no room yet.")
        return None
    return PrefixEntry(engine.ports.clock.now(), prefix.system, tools), more


def _count(engine: Engine, tools: tuple[Json, ...]) -> int:
    texts = (as_json(tool) for tool in tools)
    return sum(engine.meter.estimate_text(text) + TOOL_FRAME for text in texts)
