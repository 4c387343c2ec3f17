"""How far the estimate is off: the next prompt as the meter sees it, next to what was billed.

The recordings carry the figures that the provider reported. Each reply's figure is the base, what
came since is counted and multiplied by the factor learnt so far; the next figure tells the truth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_ctx.core.blocks import Block, Image, Message, Text, ToolResult, ToolUse, tool_results
from jupyter_ctx.core.entries import Kind, MessageEntry, ModelEntry, RepairEntry
from jupyter_ctx.core.tokens import TokenMeter
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.models.counting import TiktokenCounter
from jupyter_ctx.models.facts import find_row

WITH_FIGURES = (
    "coding-refactor-two-compactions",
    "coding-tui-many-user-turns",
    "ml-async-grpo-benchmark",
)
"""The recordings whose replies carry a Claude model's usage."""
ABORTED_TOKENS = 1
"""A reply of one token was cut off; what it is in the next prompt, nobody knows."""


@dataclass(frozen=True, slots=True)
class Guess:
    """One prompt in tokens: as estimated before it was sent, what of that was new, as billed."""

    estimated: int
    new: int
    billed: int

    @property
    def error(self) -> float:
        """How far the whole is off, as a share of what was billed."""
        return abs(self.estimated - self.billed) / self.billed


def replay(path: Path) -> Iterator[Guess]:
    """Yield a guess for each prompt of a recording that only grew since the figure before.

    A prompt that is shorter than the one before was compacted or rewound by the recorded tool: the
    meter is told that the figures are void.
    """
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    model = max(lines[0]["meta"]["models"].items(), key=lambda item: item[1])[0].replace(".", "-")
    meter = TokenMeter(TiktokenCounter(), find_row(model).factor_prior)
    transcript = Transcript()

    def add(entry: MessageEntry | ModelEntry | RepairEntry) -> None:
        transcript.append(entry)
        meter.observe(entry, transcript)

    add(ModelEntry(0.0, model))
    for line in lines[1:]:
        message, usage = _message(line), _usage(line.get("usage"))
        if message.role == "user":
            kind: Kind = "results" if tool_results(message) else "prompt"
            add(MessageEntry(0.0, 1, 1, kind, message))
            continue
        used = meter.used(transcript)
        billed = (usage.input_tokens or 0) if usage else 0
        if usage and used.measured and billed < used.measured:
            add(RepairEntry(0.0, tuple(transcript.view), "the prompt was shortened"))
        elif usage and used.measured:
            yield Guess(used.total, used.estimated, billed)
        raw = meter.raw_new(transcript)
        reason = "end_turn" if usage and usage.output != ABORTED_TOKENS else "stopped"
        add(MessageEntry(0.0, 1, 1, "reply", message, model, usage, raw, reason))


def _usage(told: Mapping[str, int] | None) -> Usage | None:
    if told is None:
        return None
    return Usage(told["input"], told["cache_read"], told["cache_write"], told["output"])


def _message(line: Mapping[str, Any]) -> Message:
    return Message(line["role"], tuple(map(_block, line["content"])))


def _block(wire: Mapping[str, Any]) -> Block:
    match wire["type"]:
        case "text":
            return Text(wire["text"])
        case "tool_use":
            return ToolUse(wire["id"], wire["name"], wire["input"])
        case "image":
            return Image(wire["source"]["media_type"], wire["source"]["data"], 0, 0)
        case "tool_result":
            inner = tuple(map(_block, wire["content"]))
            shown = tuple(block for block in inner if isinstance(block, Text | Image))
            return ToolResult(wire["tool_use_id"], shown, bool(wire.get("is_error")))
        case other:
            raise ValueError(f"a recording has no block of type {other!r}")
