"""The prompt cache: entries written at markers, found by looking back, aged by a clock.

The prompt is a row of positions, one for each tool, system block and top-level block of the
messages (a marker inside a tool result stands at the result's position). A position's digest
covers everything up to it; the digests of the messages also cover tool_choice, thinking, effort
and whether any image is present.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .errors import invalid
from .models import FakeModel
from .prompt import THINKING_TYPES, Turn, blocks_of, canonical, extend, inner_blocks, walk_blocks
from .tokens import (
    BLOCK_TOKENS,
    REQUEST_TOKENS,
    TOOLS_TOKENS,
    TURN_TOKENS,
    block_tokens,
    tool_tokens,
)

MAX_MARKERS = 4
LOOK_BACK = 20
TTL_S = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True)
class Position:
    """One place of the prompt. `upto_tokens` counts everything up to it and itself."""

    path: str
    digest: str
    upto_tokens: int
    ttl: str | None
    cacheable: bool = True


@dataclass(frozen=True)
class Plan:
    """What one request reads and writes, in tokens; `hit` is the last position read, -1 if none."""

    hit: int
    markers: tuple[int, ...]
    read_tokens: int
    write_5m_tokens: int
    write_1h_tokens: int
    input_tokens: int

    def usage(self) -> dict[str, Any]:
        """Return the input figures of the usage object."""
        written = self.write_5m_tokens + self.write_1h_tokens
        return {
            "input_tokens": self.input_tokens - self.read_tokens - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": self.read_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m_tokens,
                "ephemeral_1h_input_tokens": self.write_1h_tokens,
            },
            "output_tokens": 0,
            "server_tool_use": None,
            "service_tier": "standard",
        }


@dataclass
class _Entry:
    ttl_s: float
    expires_at: float


class PromptCache:
    """The entries of every model."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}

    def plan(self, name: str, model: FakeModel, row: Sequence[Position], now: float) -> Plan:
        """Return what a request started at `now` (seconds) reads and writes; changes nothing."""
        marked = [
            index
            for index, position in enumerate(row)
            if position.ttl is not None and position.upto_tokens >= model.cache_floor
        ]
        hit = max((self._look_back(name, row, index, now) for index in marked), default=-1)
        read = row[hit].upto_tokens if hit >= 0 else 0
        ends = {
            ttl: max(
                (row[i].upto_tokens for i in marked if i > hit and row[i].ttl == ttl), default=0
            )
            for ttl in TTL_S
        }
        hour = max(read, ends["1h"])
        return Plan(
            hit=hit,
            markers=tuple(index for index, position in enumerate(row) if position.ttl is not None),
            read_tokens=read,
            write_1h_tokens=hour - read,
            write_5m_tokens=max(hour, ends["5m"]) - hour,
            input_tokens=row[-1].upto_tokens if row else 0,
        )

    def commit(
        self, name: str, model: FakeModel, row: Sequence[Position], plan: Plan, now: float
    ) -> None:
        """Write and refresh the entries of a request that began to be answered."""
        for index, position in enumerate(row):
            entry = self._alive(name, position.digest, now)
            if entry is not None and (index <= plan.hit or position.ttl is not None):
                entry.expires_at = max(entry.expires_at, now + entry.ttl_s)
            elif position.ttl is not None and position.upto_tokens >= model.cache_floor:
                ttl_s = TTL_S[position.ttl]
                self._entries[name, position.digest] = _Entry(ttl_s, now + ttl_s)

    def _look_back(self, name: str, row: Sequence[Position], index: int, now: float) -> int:
        for place in range(index, max(-1, index - LOOK_BACK), -1):
            if self._alive(name, row[place].digest, now):
                return place
        return -1

    def _alive(self, name: str, digest: str, now: float) -> _Entry | None:
        entry = self._entries.get((name, digest))
        return entry if entry is not None and entry.expires_at > now else None


def lay_out(
    body: Mapping[str, Any],
    turns: Sequence[Turn],
    model: FakeModel,
    *,
    dropped: Mapping[str, str],
    thinking_tokens: Mapping[str, int],
    sizes: Mapping[int, tuple[int, int]],
) -> list[Position]:
    """Return the prompt as positions, counted and hashed; dropped thinking is not in it."""
    row: list[Position] = []
    digest, total = "", REQUEST_TOKENS
    for index, tool in enumerate(body.get("tools") or ()):
        digest = extend(digest, canonical(tool))
        total += tool_tokens(tool) + (0 if index else TOOLS_TOKENS)
        row.append(Position(f"tools.{index}", digest, total, _ttl(tool)))
    digest = extend(digest, _dump((body.get("output_config") or {}).get("format")), "system")
    for index, block in enumerate(blocks_of(body.get("system"))):
        digest = extend(digest, canonical(block))
        total += block_tokens(block, model, {})
        row.append(Position(f"system.{index}", digest, total, _ttl(block)))
    digest = extend(digest, *_settings(body))
    for turn in turns:
        total += TURN_TOKENS
        for placed in turn.blocks:
            if placed.path in dropped:
                continue
            block = placed.block
            is_thinking = block["type"] in THINKING_TYPES
            digest = extend(digest, turn.role, canonical(block))
            total += (
                BLOCK_TOKENS + thinking_tokens.get(placed.path, 0)
                if is_thinking
                else block_tokens(block, model, sizes)
            )
            row.append(Position(placed.path, digest, total, _ttl(block), not is_thinking))
    return _mark_automatically(body, row)


def check_markers(body: Mapping[str, Any], row: Sequence[Position]) -> None:
    """Refuse more than four markers, and an hour's marker after one of five minutes."""
    count = sum(1 for _ in _own_markers(body)) + bool(body.get("cache_control"))
    if count > MAX_MARKERS:
        raise invalid(
            "",
            f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {count}.",
        )
    marked = [position for position in row if position.ttl is not None]
    for before, after in pairwise(marked):
        if before.ttl == "5m" and after.ttl == "1h":
            raise invalid(
                f"{after.path}.cache_control.ttl",
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
                "block. Note that blocks are processed in the following order: `tools`, `system`, "
                "`messages`.",
            )


def _own_markers(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    everything = [
        *(body.get("tools") or ()),
        *blocks_of(body.get("system")),
        *(placed.block for placed in walk_blocks(body)),
    ]
    return [block for block in everything if block.get("cache_control")]


def _ttl(block: Mapping[str, Any]) -> str | None:
    marker = block.get("cache_control")
    for inner in inner_blocks(block):
        marker = marker or inner.get("cache_control")
    return marker.get("ttl", "5m") if marker else None


def _mark_automatically(body: Mapping[str, Any], row: list[Position]) -> list[Position]:
    """Put the body's own `cache_control` on the last position that can be cached."""
    marker = body.get("cache_control")
    places = [index for index, position in enumerate(row) if position.cacheable]
    if marker and places and row[places[-1]].ttl is None:
        last = row[places[-1]]
        row[places[-1]] = Position(
            last.path, last.digest, last.upto_tokens, marker.get("ttl", "5m")
        )
    return row


def _settings(body: Mapping[str, Any]) -> tuple[str, ...]:
    has_image = any(placed.block["type"] == "image" for placed in walk_blocks(body))
    effort = (body.get("output_config") or {}).get("effort")
    kept = (body.get("tool_choice"), body.get("thinking"), effort, has_image)
    return tuple(_dump(value) for value in kept)


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True)
