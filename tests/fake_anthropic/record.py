"""What is kept of each request, and a clock for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .cache import Plan, Position


class ManualClock:
    """A clock that tests set; `advance` moves it by seconds."""

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self._now_s = now_s

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move on."""
        self._now_s += seconds


@dataclass(eq=False)
class Recorded:
    """One request, as bytes and as understood, with what was answered.

    `status` is None until the answer begins. `error` is the body's error object. `refused`: a rule
    said no (a scripted fault is no refusal). `usage` is what was reported, None if nothing.
    `reply` holds the content blocks as sent; `complete`: the whole answer was sent, with a stop
    reason. `input_tokens` counts the whole prompt, `window_tokens` is the model's. `plan` says what
    the cache did, `row` the prompt's positions. `prefix_hashes` cover the tools, the system prompt,
    and each message in turn. `at` is the clock in seconds. `gone` is set when the client went away,
    `done` when nothing more will be sent.
    """

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float
    status: int | None = None
    error: dict[str, Any] | None = None
    refused: bool = False
    usage: dict[str, Any] | None = None
    reply: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str | None = None
    complete: bool = False
    message_id: str | None = None
    input_tokens: int = 0
    window_tokens: int | None = None
    plan: Plan | None = None
    row: list[Position] = field(default_factory=list)
    prefix_hashes: list[str] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    _json: Any = None

    @property
    def json(self) -> dict[str, Any]:
        """The body as parsed JSON."""
        if self._json is None:
            self._json = json.loads(self.body)
        parsed: dict[str, Any] = self._json
        return parsed

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages."""
        found: list[dict[str, Any]] = self.json["messages"]
        return found

    @property
    def last_text(self) -> str:
        """The last text of the newest message, "" if it has none."""
        return last_text(self.json)


def last_text(body: Mapping[str, Any]) -> str:
    """Return the last text of a request's newest message, "" if it has none.

    A callable script tells a compaction request from a step by it.
    """
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    texts: list[str] = [block["text"] for block in content if block["type"] == "text"]
    return texts[-1] if texts else ""
