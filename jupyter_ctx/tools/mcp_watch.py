"""Keeps an eye on one connection to an MCP server: whether it lives, and that it does not flood."""

from __future__ import annotations

import asyncio
from collections import deque

from .mcp_words import clip_words

MOST_MESSAGE_BYTES = 16 * 2**20
"""The largest message of a server, in bytes; one that sends more is let go."""

MOST_LINES = 5_000
"""So many messages and other lines may come from one call to the next; then it is let go."""

KEPT_CHARS = 2_000
"""So much of what a server says beside its messages is kept, in characters: the end."""

SAID_CHARS = 160
"""So much of that is told where a connection failed, in characters."""


class Watch:
    """One connection. `ended` is set once it is over, and `reason` says why, in a clause.

    `is_closing`: we end it ourselves, so how the other side then ends is no reason.
    """

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.reason = ""
        self.is_closing = False
        self._lines = 0
        self._said: deque[bytes] = deque(maxlen=8)

    def end(self, reason: str) -> None:
        """The connection is over; the first reason counts."""
        if not self.is_closing:
            self.reason = self.reason or reason
        self.ended.set()

    def begin_call(self) -> None:
        """A call begins: what came before it is forgiven."""
        self._lines = 0

    def count(self) -> None:
        """A message or another line came; too many of them are a flood."""
        self._lines += 1
        if self._lines > MOST_LINES:
            self.end(f"it sent more than {MOST_LINES:,} messages that nobody asked for")

    def hear(self, piece: bytes) -> None:
        """Keep the end of what the server says beside its messages."""
        self._said.append(piece[-KEPT_CHARS:])

    @property
    def said(self) -> str:
        """The end of what it said, on one line; "" if nothing."""
        text = b"".join(self._said).decode("utf-8", "replace")[-KEPT_CHARS:]
        line = clip_words(text, KEPT_CHARS)
        return line if len(line) <= SAID_CHARS else f"…{line[-SAID_CHARS:]}"
