"""Context and cost as programs get them: the JSON of `/context` and `/cost` (DESIGN.md 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from .account import Bill
from .blocks import PART_NAMES, PARTS, Part
from .breaks import find_cache_misses
from .due import find_bill, forecast_steps
from .tokens import Used
from .usage import Usage

if TYPE_CHECKING:
    from .engine import Engine

CONTEXT_MIME = "application/vnd.jupyter-ctx.context+json"
CONTEXT_VERSION = 1


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the context JSON says of model and session; tokens, None where not known.

    `usage` and `cost_usd` are totals of the session (no figure before the first call).
    """

    model: str
    window_tokens: int | None
    window_source: str
    reserve_tokens: int | None
    mode: str
    usage: Usage
    cost_usd: float | None
    compactions: int


def find_context(engine: Engine) -> dict[str, object]:
    """Return the JSON of `/context`; what is still arriving counts as conversation."""
    arriving = engine.streaming_chars // 4
    parts = dict(engine.meter.parts(engine.transcript))
    parts["conversation"] += arriving
    used = engine.meter.shown(engine.transcript)
    facts = SessionFacts(
        model=engine.ports.model.name,
        window_tokens=engine.window,
        window_source=engine.facts.window_source,
        reserve_tokens=engine.reserve,
        mode=engine.limits.compaction,
        usage=engine.spent,
        cost_usd=engine.cost_usd,
        compactions=len(engine.transcript.compactions),
    )
    bill = find_bill(engine)
    return build_context(
        facts,
        Used(used.measured, used.estimated + arriving),
        parts,
        forecast_steps(engine, bill),
        bill,
    )


def build_context(
    facts: SessionFacts,
    used: Used,
    parts: Mapping[Part, int],
    steps_left: int | None,
    bill: Bill | None = None,
) -> dict[str, object]:
    """Return the JSON of `application/vnd.jupyter-ctx.context+json`, version 1.

    `parts` must add up to `used.total`, as `TokenMeter.parts` gives them. `bill` is None where no
    account is kept.
    """
    usage, window = facts.usage, facts.window_tokens
    return {
        "version": CONTEXT_VERSION,
        "model": facts.model,
        "window_tokens": window,
        "window_source": facts.window_source,
        "used_tokens": used.total,
        "measured_tokens": used.measured,
        "estimated_tokens": used.estimated,
        "is_estimate": used.estimated > 0,
        "parts": {part: parts.get(part, 0) for part in PARTS},
        "free_tokens": None if window is None else max(0, window - used.total),
        "reserve_tokens": facts.reserve_tokens,
        "usage": usage_to_json(usage),
        "cost_usd": facts.cost_usd,
        "cache_read_ratio": cache_read_ratio(usage),
        "compactions": facts.compactions,
        "compaction": {
            "mode": facts.mode,
            "account": None if bill is None else float(bill.account),
            "price": None if bill is None else float(bill.price),
            "steps_left": steps_left,
        },
    }


def find_cost(engine: Engine) -> dict[str, object]:
    """Return the JSON of `/cost`, as `Session.cost` says it."""
    usage, transcript, prices = engine.spent, engine.transcript, engine.facts.prices
    return {
        "model": engine.ports.model.name,
        "usage": usage_to_json(usage),
        "cost_usd": engine.cost_usd,
        "cache_read_ratio": cache_read_ratio(usage),
        "price_source": prices.source if prices else None,
        "compactions": [
            {
                "n": entry.n,
                "cost_usd": entry.cost_usd,
                "tokens_before": entry.tokens_before,
                "tokens_after": entry.tokens_after,
            }
            for entry in transcript.compactions
        ],
        "agents": [
            {
                "id": entry.agent_id,
                "description": entry.description,
                "outcome": entry.outcome,
                "steps": entry.steps,
                "seconds": entry.seconds,
                "usage": usage_to_json(entry.usage),
                "cost_usd": entry.cost_usd,
            }
            for entry in transcript.agents
        ],
        "cache_misses": [asdict(miss) for miss in find_cache_misses(transcript.entries)],
    }


def usage_to_json(usage: Usage) -> dict[str, int | None]:
    """Return the totals of a session as its JSON has them; None where no provider said."""
    return {
        "uncached": usage.uncached,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output": usage.output,
    }


def cache_read_ratio(usage: Usage) -> float | None:
    """Return cache reads as a share of all input, None if either is not known."""
    if not usage.input_tokens or usage.cache_read is None:
        return None
    return usage.cache_read / usage.input_tokens


def largest_parts(parts: Mapping[Part, int], count: int = 3) -> tuple[tuple[Part, int], ...]:
    """Return the largest parts with their tokens, the largest first; empty ones never."""
    filled = [(part, parts[part]) for part in PARTS if parts.get(part, 0) > 0]
    return tuple(sorted(filled, key=lambda item: -item[1])[:count])


def describe_largest_parts(parts: Mapping[Part, int], count: int = 3) -> str:
    """Return the largest parts as words: "Results 12,000, System 3,100"."""
    largest = largest_parts(parts, count)
    return ", ".join(f"{PART_NAMES[part]} {tokens:,}" for part, tokens in largest)
