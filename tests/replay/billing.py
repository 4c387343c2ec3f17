"""What a request reads from the prompt cache and writes to it: the fake's rules, step by step.

The rules are those of `tests/fake_anthropic/cache.py`: entries are written at markers, found by
looking back 20 positions from one, refreshed when read, and die with their TTL; a prefix below the
floor is not cached. The fake lays a whole body out for every request; here only what is new since
the request before is laid out, found by the identity of messages. A test holds the two together.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_ctx.core.blocks import (
    Block,
    Image,
    Json,
    Message,
    Text,
    ToolResult,
    ToolUse,
    images_of,
)
from jupyter_ctx.core.ports import Request
from jupyter_ctx.core.usage import Usage

LOOK_BACK = 20
TTL_S = {"5m": 300.0, "1h": 3_600.0}
UNCACHED, WRITE, READ, OUTPUT = 1.0, 1.25, 0.1, 5.0
"""Prices of a token, as multiples of an uncached input token (those of POLICY.md)."""


class Sizes(Protocol):
    """What the parts of a request cost, in tokens."""

    request_tokens: int
    tools_tokens: int
    message_tokens: int

    def tool(self, tool: Json) -> int:
        """Return the tokens of a tool's definition."""
        ...

    def system(self, text: str) -> int:
        """Return the tokens of the system prompt."""
        ...

    def block(self, block: Block) -> int:
        """Return the tokens of a block."""
        ...


@dataclass(frozen=True, slots=True)
class Charge:
    """The input of one request, in tokens; `marked` is what stands up to its last marker."""

    input: int
    read: int
    write: int
    marked: int
    has_image: bool

    @property
    def uncached(self) -> int:
        """What was neither read nor written."""
        return self.input - self.read - self.write

    @property
    def weighted(self) -> float:
        """What it costs, in weighted tokens, if writes are for five minutes."""
        return UNCACHED * self.uncached + READ * self.read + WRITE * self.write

    def usage(self, output: int) -> Usage:
        """Return the figures as a provider gives them."""
        return Usage(self.uncached, self.read, self.write, output)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A message's blocks: what they are, and their tokens."""

    message: Message
    keys: tuple[int, ...]
    tokens: tuple[int, ...]
    has_image: bool


@dataclass(slots=True)
class _Entry:
    ttl_s: float
    expires_at: float


@dataclass(slots=True)
class _Row:
    """The positions of the last request: digest and tokens up to it; where each message begins.

    `prefix` is how many positions tools and system have; `entered` those an entry lies at, in
    ascending order.
    """

    prefix: int = 0
    digests: list[int] = field(default_factory=list)
    upto: list[int] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    messages: list[_Laid] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    entered: list[int] = field(default_factory=list)
    images: int = 0

    def cut(self, messages: int) -> None:
        """Keep the first `messages` only."""
        if messages >= len(self.messages):
            return
        end = self.starts[messages]
        self.images -= sum(laid.has_image for laid in self.messages[messages:])
        del self.messages[messages:], self.starts[messages:], self.sent[messages:]
        del self.digests[end:], self.upto[end:]
        while self.entered and self.entered[-1] >= end:
            self.entered.pop()


class PromptCache:
    """The cache of one model; requests are charged in the order in which they are begun.

    `floor` is the shortest prefix that is cached, in tokens. Nothing here awaits, so calls that run
    beside each other cannot disturb it.
    """

    def __init__(self, sizes: Sizes, floor: int = 1_024) -> None:
        self.sizes = sizes
        self.floor = floor
        self._ids: dict[Hashable, int] = {}
        self._laid: dict[int, _Laid] = {}
        self._entries: dict[int, _Entry] = {}
        self._frame: tuple[Hashable, ...] = ()
        self._row = _Row()

    def count(self, request: Request) -> int:
        """Return the input tokens of a request; changes no entry."""
        self._lay_out(request)
        return self._row.upto[-1]

    def charge(self, request: Request, now: float) -> Charge:
        """Return what a request begun at `now` (seconds) reads and writes, and do so."""
        self._lay_out(request)
        row, ttl_s = self._row, TTL_S[request.cache_ttl]
        markers = self._markers(request)
        able = [place for place in markers if row.upto[place] >= self.floor]
        hit = max((self._look_back(place, now) for place in able), default=-1)
        read = row.upto[hit] if hit >= 0 else 0
        end = max((row.upto[place] for place in able if place > hit), default=read)
        self._commit(hit, markers, able, now, ttl_s)
        marked = max((row.upto[place] for place in able), default=0)
        return Charge(row.upto[-1], read, max(read, end) - read, marked, row.images > 0)

    def _commit(
        self, hit: int, markers: Sequence[int], able: Sequence[int], now: float, ttl_s: float
    ) -> None:
        row = self._row
        for place in {*(place for place in row.entered if place <= hit), *markers}:
            entry = self._entries.get(row.digests[place])
            if entry is not None and entry.expires_at > now:
                entry.expires_at = max(entry.expires_at, now + entry.ttl_s)
            elif place in able:
                self._entries[row.digests[place]] = _Entry(ttl_s, now + ttl_s)
                if place not in row.entered:
                    row.entered.append(place)
                    row.entered.sort()

    def _look_back(self, place: int, now: float) -> int:
        for back in range(place, max(-1, place - LOOK_BACK), -1):
            entry = self._entries.get(self._row.digests[back])
            if entry is not None and entry.expires_at > now:
                return back
        return -1

    def _markers(self, request: Request) -> list[int]:
        """Return the positions that carry a marker."""
        places, tools = [], len(request.tools)
        for point in request.breakpoints:
            match point.where:
                case "tools" if tools:
                    places.append(tools - 1)
                case "system" if request.system:
                    places.append(self._row.prefix - 1)
                case "message":
                    message = range(len(self._row.starts))[point.message]
                    blocks = len(self._row.messages[message].keys)
                    places.append(self._row.starts[message] + range(blocks)[point.block])
                case _:
                    pass
        return places

    # Laying out -----------------------------------------------------------------------------------

    def _lay_out(self, request: Request) -> None:
        """Bring the row up to date: all that is unlike the request before is laid out anew."""
        row = self._row
        same = list(map(operator.is_, row.sent, request.messages))
        kept = same.index(False) if False in same else len(same)
        row.cut(kept)
        has_image = row.images > 0 or any(map(images_of, request.messages[kept:]))
        settings = (request.thinking, request.effort, has_image)
        frame = (request.model, id(request.tools), request.system, *settings)
        if frame != self._frame:
            self._frame, kept = frame, 0
            self._row = row = self._begin(request)
        digest, total = row.digests[-1], row.upto[-1]
        if kept == 0:
            digest = self._id((digest, *settings))
        role = request.messages[kept - 1].role if kept else ""
        for message in request.messages[kept:]:
            laid = self._lay(message)
            row.sent.append(message)
            row.messages.append(laid)
            row.starts.append(len(row.digests))
            row.images += laid.has_image
            total += self.sizes.message_tokens * (message.role != role)
            role = message.role
            for key, tokens in zip(laid.keys, laid.tokens, strict=True):
                digest, total = self._id((digest, role, key)), total + tokens
                if digest in self._entries:
                    row.entered.append(len(row.digests))
                row.digests.append(digest)
                row.upto.append(total)

    def _begin(self, request: Request) -> _Row:
        """Return a row of tools and system."""
        row, digest = _Row(), self._id(request.model)
        total = self.sizes.request_tokens + (self.sizes.tools_tokens if request.tools else 0)
        parts = [
            *(
                (json.dumps(dict(tool), sort_keys=True), self.sizes.tool(tool))
                for tool in request.tools
            ),
            *([(request.system, self.sizes.system(request.system))] if request.system else []),
        ]
        for text, tokens in parts:
            digest, total = self._id((digest, text)), total + tokens
            if digest in self._entries:
                row.entered.append(len(row.digests))
            row.digests.append(digest)
            row.upto.append(total)
        row.prefix = len(row.digests)
        return row

    def _lay(self, message: Message) -> _Laid:
        known = self._laid.get(id(message))
        if known is None:
            keys = tuple(self._id(_key(block)) for block in message.content)
            tokens = tuple(map(self.sizes.block, message.content))
            known = self._laid[id(message)] = _Laid(message, keys, tokens, bool(images_of(message)))
        return known

    def _id(self, key: Hashable) -> int:
        """Return a number that stands for `key`, always the same."""
        return self._ids.setdefault(key, len(self._ids))


def _key(block: Block) -> Hashable:
    """Return what makes two blocks the same on the wire."""
    match block:
        case Text(text=text):
            return "text", text
        case Image(media_type=media_type, data=data):
            return "image", media_type, data
        case ToolUse(id=id_, name=name, input=input_):
            return "use", id_, name, json.dumps(dict(input_), default=str)
        case ToolResult(tool_use_id=id_, content=content, is_error=is_error):
            return "result", id_, tuple(map(_key, content)), is_error
        case _:
            return "wire", json.dumps(dict(block.wire), sort_keys=True)
