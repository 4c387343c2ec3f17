"""The cheapest set of compaction points in hindsight, for the log that the engine made.

Same messages, summary, tail and carry-over as the engine's; only when to compact is free, with the
whole future known. Exact: what a compaction before call j leaves does not depend on those before
it, since the tail's beginning only moves forward, so a dynamic programme over the last point is
enough. A test holds it against trying every set. All costs are in weighted tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from jupyter_ctx.core.blocks import Message, words_of
from jupyter_ctx.core.compaction import build_instruction
from jupyter_ctx.core.entries import CompactionEntry, FateEntry, MessageEntry
from jupyter_ctx.core.reinjection import Instruction, choose_instructions, choose_lines
from jupyter_ctx.core.window import Limits, share_of, summary_budget
from jupyter_ctx.prompts import load_prompt

from .billing import OUTPUT, READ, UNCACHED, WRITE
from .counting import COUNTER, Cl100kSizes
from .player import Played

TITLE_TOKENS, HEADING_TOKENS = 15, 6
"""What stands around a re-injected section, and around one instruction in it."""


@dataclass(frozen=True)
class Plan:
    """A log as the programme sees it, in tokens. Call t (from 0) sends all messages before reply t.

    `sent[t]` are the tokens of those messages, `output[t]` those of the reply. A compaction before
    call t (from 1) leaves `head[t]` and the messages from token `cut[t]` on. `prefix` is system and
    tools, `instruction` what asks for a summary, `summary` the answer.
    """

    window: int
    prefix: int
    instruction: int
    summary: int
    sent: Sequence[int]
    output: Sequence[int]
    head: Sequence[int]
    cut: Sequence[int]

    @property
    def calls(self) -> int:
        """How many calls there are."""
        return len(self.sent)


@dataclass(slots=True)
class Schedule:
    """Compaction points (the calls before which there is one), and what they cost in all."""

    points: tuple[int, ...]
    cost: float


def cost_of(plan: Plan, points: Sequence[int]) -> float | None:
    """Return what the log costs with compactions before these calls, None if it does not fit."""
    total, before, last = 0.0, 0, -1
    for call in range(plan.calls):
        if call in points:
            if before + plan.instruction + plan.summary > plan.window:
                return None
            total += READ * before + UNCACHED * plan.instruction + OUTPUT * plan.summary
            last, before = call, plan.prefix
        prompt = plan.prefix + plan.sent[call]
        if last >= 0:
            prompt += plan.head[last] - plan.cut[last]
        if prompt + plan.output[call] > plan.window:
            return None
        total += READ * before + WRITE * (prompt - before) + OUTPUT * plan.output[call]
        before = prompt
    return total


def find_optimum(plan: Plan) -> Schedule:
    """Return the cheapest schedule. Raises ValueError if none fits the window."""
    calls = plan.calls
    sent, output = np.array(plan.sent, float), np.array(plan.output, float)
    sums = np.concatenate([[0.0], np.cumsum(sent)])
    # What the prompt has beside the messages sent, for a last compaction before each call.
    extra = plan.prefix + np.array(plan.head, float) - np.array(plan.cut, float)
    extra[0] = plan.prefix
    begun = np.full(calls, np.inf)  # the least cost up to and with call k, right after a compaction
    begun[0] = WRITE * (extra[0] + sent[0])
    came_from = np.zeros(calls, int)
    fee = UNCACHED * plan.instruction + OUTPUT * plan.summary
    for j in range(1, calls + 1):
        last = j - 1
        need = max(output[last], plan.instruction + plan.summary if j < calls else 0.0)
        fits = extra[:j] + sent[last] + need <= plan.window
        # Calls k + 1 to j - 1 read the prompt of the call before; a summary reads the last one.
        reads = sums[last] - sums[:j] + (last - np.arange(j)) * extra[:j]
        if j < calls:
            reads = reads + sent[last] + extra[:j]
        costs = np.where(fits, begun[:j] + READ * reads + WRITE * (sent[last] - sent[:j]), np.inf)
        best = int(np.argmin(costs))
        if j == calls:
            return _traced(plan, came_from, best, float(costs[best]))
        came_from[j] = best
        first = READ * plan.prefix + WRITE * (extra[j] + sent[j] - plan.prefix)
        begun[j] = costs[best] + fee + first
    raise ValueError("There is no call.")


def _traced(plan: Plan, came_from: np.ndarray, last: int, cost: float) -> Schedule:
    if not np.isfinite(cost):
        raise ValueError("No set of compactions fits the window.")
    points = []
    while last > 0:
        points.append(last)
        last = int(came_from[last])
    return Schedule(tuple(reversed(points)), cost + OUTPUT * sum(plan.output))


# The plan of a log --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Log:
    """A played session's messages in order, with what was known when each came."""

    messages: list[Message] = field(default_factory=list)
    replies: list[int] = field(default_factory=list)
    prompts: list[tuple[int, Instruction]] = field(default_factory=list)
    stored: list[tuple[str, str]] = field(default_factory=list)
    stored_before: list[int] = field(default_factory=list)
    points: list[int] = field(default_factory=list)


def _read(played: Played) -> _Log:
    log = _Log()
    for entry in played.session.transcript.entries:
        match entry:
            case MessageEntry(message=message, kind=kind, turn=turn):
                if kind == "prompt":
                    instruction = Instruction(turn, words_of(message))
                    log.prompts.append((len(log.messages), instruction))
                elif kind == "reply":
                    log.replies.append(len(log.messages))
                    log.stored_before.append(len(log.stored))
                log.messages.append(message)
            case FateEntry(fate="offload", tool_use_id=id_, tool=tool, lines=lines, chars=chars):
                row = f"`{id_}`: {tool}, {lines:,} lines, {chars:,} characters"
                log.stored.append((id_, row))
            case CompactionEntry():
                log.points.append(len(log.replies))
            case _:
                pass
    return log


def points_of(played: Played) -> tuple[int, ...]:
    """Return the calls before which the engine compacted."""
    return tuple(dict.fromkeys(_read(played).points))


def plan_of(played: Played) -> Plan:
    """Return the log of a played session as a plan: its budgets are those of the session."""
    log, sizes = _read(played), Cl100kSizes()
    window, limits = played.window, Limits.of(played.session.settings)
    tokens = [
        sizes.message_tokens + sum(map(sizes.block, message.content)) for message in log.messages
    ]
    upto = [0, *np.cumsum(tokens).tolist()]
    budget = summary_budget(limits, window)
    summaries = [sent.output for sent in played.sent if sent.is_summary]
    summary = round(sum(summaries) / len(summaries)) if summaries else int(0.9 * budget)
    prefix = played.session.transcript.prefix
    assert prefix is not None  # every session has one
    asked = build_instruction(load_prompt("summary"), budget, "")
    cuts = list(_cuts(log, tokens, share_of(limits, "tail_tokens", window)))
    intro = COUNTER.count(load_prompt("resume")) + sizes.message_tokens + TITLE_TOKENS
    carry = _carry_over(log, limits, window)
    return Plan(
        window=window,
        prefix=sizes.system(prefix.system) + sum(map(sizes.tool, prefix.tools)),
        instruction=sum(map(sizes.block, asked.content)),
        summary=summary,
        sent=[upto[index] for index in log.replies],
        output=[tokens[index] - sizes.message_tokens for index in log.replies],
        head=[
            intro + summary + carry(cut, stored)
            for cut, stored in zip(cuts, log.stored_before, strict=True)
        ],
        cut=[upto[cut] for cut in cuts],
    )


def _cuts(log: _Log, tokens: Sequence[int], budget: int) -> Iterator[int]:
    """Yield, for a compaction before each call, the first message that stays."""
    yield 0
    for last in log.replies[:-1]:
        begin, spent = last, 0
        for index in range(last - 1, 0, -1):
            spent += tokens[index]
            if spent > budget:
                break
            if log.messages[index].role == "assistant":
                begin = index
        yield begin


def _carry_over(log: _Log, limits: Limits, window: int) -> Callable[[int, int], int]:
    """Return what a compaction puts back, in tokens, by first message kept and results stored."""
    instructions_budget = share_of(limits, "instructions_tokens", window)
    results_budget = share_of(limits, "results_tokens", window)
    places = [place for place, _ in log.prompts]
    count = COUNTER.count

    @cache
    def instructions(prompts: int) -> int:
        known = [instruction for _, instruction in log.prompts[:prompts]]
        section = choose_instructions(
            known, 1, instructions_budget, count, most_tokens=window * 2 // 5
        )
        if section is None:
            return 0
        return TITLE_TOKENS + sum(item.tokens + HEADING_TOKENS for item in section.items)

    @cache
    def results(stored: int) -> int:
        rows = log.stored[:stored][::-1]
        section = choose_lines("", "result", rows, results_budget, count)
        return TITLE_TOKENS + sum(item.tokens + 1 for item in section.items) if section else 0

    def carry(cut: int, stored: int) -> int:
        return instructions(int(np.searchsorted(places, cut))) + results(stored)

    return carry
