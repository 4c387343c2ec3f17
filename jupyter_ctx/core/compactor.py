"""Carry a compaction out: ask for the summary, put back what must not be forgotten, record it.

The transcript changes by one entry at the very end; whatever fails before leaves it as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from ..errors import CompactionError, ModelError, PromptTooLongError, RequestTooLargeError
from . import compaction as pure
from .blocks import Message, Text, text_of, without_thinking
from .cache import place_breakpoints
from .engine import Engine
from .events import CompactionFailed, CompactionFinished, CompactionStarted, CtxEvent
from .ports import Request
from .transcript import CompactionEntry, CompactionFailedEntry, Reinjected, Trigger, kept_messages
from .usage import Usage
from .window import LEAST_OUTPUT, share, summary_budget, window_of

LEAST_DROPPED = 10
"""Where less than a tenth of the summary's budget would be dropped, no summary is asked for."""


@dataclass(slots=True)
class Attempt:
    """One compaction under way, and how it came out."""

    turn: int
    trigger: Trigger
    focus: str = ""
    succeeded: bool = False
    usage: Usage | None = None


async def run_compaction(engine: Engine, attempt: Attempt) -> AsyncGenerator[CtxEvent, None]:
    """Compact once; `attempt.succeeded` tells how it came out. Raises nothing of its own.

    The breaker and the no-progress guard are for who calls it: a user's own wish (`manual`) passes.
    """
    started = engine.ports.clock.monotonic()
    yield CompactionStarted(attempt.turn, len(engine.transcript.compactions) + 1, attempt.trigger)
    try:
        plan = _plan(engine, attempt.trigger)
        summary = ""
        request = _request(engine, plan, attempt.focus)
        for retry in range(engine.limits.compaction_retries + 1):
            reply = engine.new_reply(attempt.turn, 0, 0)
            try:
                async for event in engine.call(request, reply, attempt.turn, 0, silent=True):
                    yield event
            except (PromptTooLongError, RequestTooLargeError):
                if retry == engine.limits.compaction_retries:
                    raise
                request = _shrunk(engine, request, retry + 1)
                continue
            done = reply.done
            assert done is not None  # call() returns only after ReplyDone
            attempt.usage = done.usage
            summary = pure.read_summary(Message("assistant", tuple(reply.blocks)), done.stop_reason)
            break
        entry = await _build_entry(engine, attempt, plan, summary, started)
    except (CompactionError, ModelError) as error:
        yield _failed(engine, attempt, error)
        return
    engine.record(entry)
    attempt.succeeded = True
    yield CompactionFinished(
        attempt.turn,
        entry.n,
        entry.trigger,
        entry.tokens_before,
        entry.tokens_after,
        entry.seconds,
        entry.cost_usd,
    )
    _warn_if_little_gain(engine, entry)


def _failed(
    engine: Engine, attempt: Attempt, error: CompactionError | ModelError
) -> CompactionFailed:
    """Record a failure and return its event; a wish that cost nothing is no failure."""
    if attempt.usage is not None or attempt.trigger != "manual" or isinstance(error, ModelError):
        at = engine.ports.clock.now()
        engine.record(
            CompactionFailedEntry(at, attempt.turn, attempt.trigger, str(error), attempt.usage)
        )
    failures = engine.transcript.failures_in_a_row
    return CompactionFailed(attempt.turn, str(error), failures, engine.is_paused)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the cuts fall: `sent` messages were sent; those from `cut` on stay."""

    sent: int
    cut: int
    summary_tokens: int
    used_tokens: int


def _plan(engine: Engine, trigger: Trigger) -> _Plan:
    view, limits = engine.transcript.view, engine.limits
    window = window_of(limits, engine.facts)
    sent = pure.find_last_sent(view)
    if sent == 0 or (sent == 1 and engine.transcript.active_compaction is not None):
        raise CompactionError("There is nothing to compact yet: one turn must have been answered.")
    tail_tokens = share(limits.tail_tokens, 12_000, window, 0.06)
    cut = pure.find_tail(view, sent, tail_tokens, engine.meter.estimate_message)
    summary_tokens = summary_budget(limits, window)
    estimate = engine.meter.estimate_message
    dropped = sum(estimate(message) for message in view[:cut])
    if dropped < summary_tokens // LEAST_DROPPED and trigger != "manual":
        cut = sent  # room is needed now: better no tail than no compaction
        dropped = sum(estimate(message) for message in view[:cut])
    if dropped < summary_tokens // LEAST_DROPPED:
        raise CompactionError(
            f"There is nothing to compact: only {dropped:,} tokens lie before the newest steps, "
            "which stay as they are."
        )
    return _Plan(sent, cut, summary_tokens, engine.used.total)


def _request(engine: Engine, plan: _Plan, focus: str) -> Request:
    """Return the prompt as last sent plus the instruction, its breakpoints where they were."""
    sent = tuple(engine.transcript.view[: plan.sent])
    instruction = pure.build_instruction(engine.texts.summary, plan.summary_tokens, focus)
    return _compaction_request(engine, sent, instruction, plan.summary_tokens)


def _compaction_request(
    engine: Engine, sent: tuple[Message, ...], instruction: Message, summary_tokens: int
) -> Request:
    window = window_of(engine.limits, engine.facts)
    limit = summary_tokens + 8_000
    if window is not None:
        limit = min(limit, int(window - 1.15 * engine.meter.estimate_request([*sent, instruction])))
    if engine.facts.max_output_tokens is not None:
        limit = min(limit, engine.facts.max_output_tokens)
    base = engine.request_for(sent, max(limit, summary_tokens, LEAST_OUTPUT))
    return Request(
        model=base.model,
        system=base.system,
        tools=base.tools,
        messages=(*sent, instruction),
        max_tokens=base.max_tokens,
        breakpoints=place_breakpoints(sent) if engine.options.prompt_cache else (),
        cache_ttl=base.cache_ttl,
        thinking=base.thinking,
        effort=base.effort,
    )


def _shrunk(engine: Engine, request: Request, attempt: int) -> Request:
    """Return the request made shorter; its thinking is left out, since its prefix changed."""
    messages = pure.shrink(request.messages, attempt)
    bare = tuple(kept for message in messages if (kept := without_thinking(message)))
    return _compaction_request(engine, bare[:-1], bare[-1], request.max_tokens)


async def _build_entry(
    engine: Engine, attempt: Attempt, plan: _Plan, summary: str, started: float
) -> CompactionEntry:
    """Return the entry that will be recorded. Raises CompactionError if it would free nothing."""
    transcript = engine.transcript
    kept = transcript.view[plan.cut :]
    sections = await _sections(engine, kept)
    summary = engine.ports.redactor.text(summary)
    message, items = pure.build_summary_message(engine.texts.resume, summary, sections)
    replaced = transcript.view[: plan.cut]
    turns = transcript.turns_of(replaced) or (transcript.turn, transcript.turn)
    entry = CompactionEntry(
        at=engine.ports.clock.now(),
        n=len(transcript.compactions) + 1,
        turn=attempt.turn,
        trigger=attempt.trigger,
        message=message,
        summary=summary,
        drop_messages=plan.cut,
        drop_thinking=engine.facts.binds_thinking,
        first_turn=turns[0],
        last_turn=turns[1],
        tokens_before=plan.used_tokens,
        tokens_after=0,
        seconds=engine.ports.clock.monotonic() - started,
        cost_usd=engine.price(attempt.usage) if attempt.usage else None,
        usage=attempt.usage,
        reinjected=items,
        focus=attempt.focus or None,
    )
    after = [message, *kept_messages(transcript.view, entry)]
    tokens_after = engine.meter.estimate_request(after)
    if tokens_after >= plan.used_tokens:
        raise CompactionError(
            f"It would free nothing: {tokens_after:,} tokens after, {plan.used_tokens:,} before."
        )
    return replace(entry, tokens_after=tokens_after)


async def _sections(engine: Engine, kept: Sequence[Message]) -> list[pure.Section | None]:
    """Return what is put back, in the order of DESIGN.md 5."""
    limits, transcript = engine.limits, engine.transcript
    window = window_of(limits, engine.facts)
    count = engine.meter.estimate_text
    kept_ids = {id(message) for message in kept}
    prompts = [
        pure.Instruction(turn, _words(message))
        for turn, message in sorted(transcript.prompts.items())
        if id(message) not in kept_ids and _words(message)
    ]
    first_turn = min(transcript.prompts, default=None)
    instructions = pure.choose_instructions(
        prompts, first_turn, share(limits.instructions_tokens, 10_000, window, 0.05), count
    )
    pins = pure.choose_lines(
        "# Pinned by the user; always holds",
        "pin",
        [(str(n), text) for n, text in sorted(transcript.pins.items())],
        share(limits.instructions_tokens, 10_000, window, 0.05),
        count,
    )
    return [instructions, pins, *await _kernel_sections(engine, window), _results(engine, window)]


def _words(message: Message) -> str:
    """Return the user's own words in a prompt, without what was attached to it."""
    return text_of(
        block
        for block in message.content
        if isinstance(block, Text) and block.part == "conversation"
    )


async def _kernel_sections(engine: Engine, window: int | None) -> list[pure.Section | None]:
    """Return the kernel inventory and the recently edited cells."""
    limits, count = engine.limits, engine.meter.estimate_text
    variables = await engine.ports.kernel.load_variables()
    rows = [
        (
            v.name,
            f"`{v.name}`: {v.type}"
            + (f", {v.shape}" if v.shape else "")
            + (f", {v.size}" if v.size else "")
            + (f", from {v.cell}" if v.cell else ""),
        )
        for v in variables
    ]
    inventory = pure.choose_lines(
        "# Names alive in the kernel now",
        "variable",
        rows,
        share(limits.inventory_tokens, 2_000, window, 0.05),
        count,
    )
    cells = [
        cell
        for cell in await engine.ports.kernel.load_cells()
        if cell.is_new_source and not cell.is_agent
    ]
    newest = sorted(cells, key=lambda cell: -cell.order)[: limits.recent_cells]
    redact = engine.ports.redactor.text
    sources = [pure.Source(c.id, f"cell:{c.id} (In[{c.count}])", redact(c.source)) for c in newest]
    budget = share(limits.cells_tokens, 10_000, window, 0.05)
    return [inventory, pure.choose_sources(sources, budget, count)]


def _results(engine: Engine, window: int | None) -> pure.Section | None:
    """Return the list of offloaded results, newest first."""
    rows = [
        (
            fate.tool_use_id,
            f"`{fate.tool_use_id}`: {fate.tool}, {fate.lines:,} lines, {fate.chars:,} characters",
        )
        for fate in reversed(engine.transcript.fates.values())
        if fate.fate == "offload"
    ]
    return pure.choose_lines(
        "# Stored results, newest first; read them with `read_result`",
        "result",
        rows,
        share(engine.limits.results_tokens, 2_000, window, 0.05),
        engine.meter.estimate_text,
    )


def _warn_if_little_gain(engine: Engine, entry: CompactionEntry) -> None:
    freed = 1 - entry.tokens_after / entry.tokens_before
    if freed < engine.limits.least_gain:
        engine.note(
            "warning",
            f"A compaction freed only {freed:.0%} of {entry.tokens_before:,} tokens, "
            "so it is not repeated.",
            f"Largest parts: {engine.largest_parts()}. `/compact` tries again.",
        )


__all__ = ["Attempt", "Reinjected", "run_compaction"]
