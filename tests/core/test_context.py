"""The context JSON, the forecast and the largest parts."""

from __future__ import annotations

from jupyter_ctx.core.account import Bill
from jupyter_ctx.core.blocks import PARTS, Part
from jupyter_ctx.core.context import (
    SessionFacts,
    build_context,
    cache_read_ratio,
    describe_largest_parts,
    largest_parts,
)
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.core.forecast import find_growth, find_steps_left
from jupyter_ctx.core.tokens import Used
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Usage

from .strategies import compaction_entry, prompt, reply_entry, results_entry

PARTS_NOW: dict[Part, int] = {"system": 900, "results": 4_000, "conversation": 100, "tools": 900}
FACTS = SessionFacts(
    model="m",
    window_tokens=8_000,
    window_source="api",
    reserve_tokens=1_600,
    mode="crush",
    usage=Usage(100, 300, 0, 50),
    cost_usd=0.25,
    compactions=2,
)


def test_context_json_is_the_contract() -> None:
    """Exactly the keys and values of DESIGN.md 2, version 1."""
    assert build_context(FACTS, Used(5_000, 900), PARTS_NOW, 3) == {
        "version": 1,
        "model": "m",
        "window_tokens": 8_000,
        "window_source": "api",
        "used_tokens": 5_900,
        "measured_tokens": 5_000,
        "estimated_tokens": 900,
        "is_estimate": True,
        "parts": {
            "system": 900,
            "tools": 900,
            "summary": 0,
            "reinjected": 0,
            "notebook": 0,
            "conversation": 100,
            "results": 4_000,
        },
        "free_tokens": 2_100,
        "reserve_tokens": 1_600,
        "usage": {"uncached": 100, "cache_read": 300, "cache_write": 0, "output": 50},
        "cost_usd": 0.25,
        "cache_read_ratio": 0.75,
        "compactions": 2,
        "compaction": {"mode": "crush", "account": None, "price": None, "steps_left": 3},
    }


def test_the_account_is_in_the_json() -> None:
    """Account and price are floats, in weighted tokens."""
    context = build_context(FACTS, Used(10, 0), {}, None, Bill(12, 345.5, 6, 0.1))

    assert context["compaction"] == {
        "mode": "crush",
        "account": 12.0,
        "price": 345.5,
        "steps_left": None,
    }


def test_unknown_figures_are_null() -> None:
    """Without a window nothing is free; a provider that says nothing has no ratio."""
    unknown = SessionFacts("m", None, "unknown", None, "off", Usage(), None, 0)

    context = build_context(unknown, Used(10, 0), {}, None)

    assert context["free_tokens"] is context["cache_read_ratio"] is None
    assert context["is_estimate"] is False
    assert context["parts"] == dict.fromkeys(PARTS, 0)
    assert cache_read_ratio(Usage(0, 0, 0, 0)) is None
    assert cache_read_ratio(Usage(10, None, 0, 0)) is None


def test_an_overfull_window_has_nothing_free() -> None:
    """Free tokens are never negative."""
    assert build_context(FACTS, Used(9_000, 0), {}, 0)["free_tokens"] == 0


def steps(*totals: int) -> list[MessageEntry]:
    entries = []
    for total in totals:
        entries += [reply_entry(usage=Usage(total - 10, 0, 0, 10)), results_entry()]
    return entries


def test_steps_left_by_the_last_five() -> None:
    """What is left over the mean growth of the last five steps; older steps do not count."""
    transcript = Transcript([prompt(), *steps(100, 900, 1_000, 1_100, 1_200, 1_300, 1_400)])

    assert find_steps_left(find_growth(transcript), Used(1_400, 0), 10_000, 2_000) == 66


def test_steps_left_needs_three_steps() -> None:
    """Below three measured steps, or without a window, there is no forecast."""
    transcript = Transcript([prompt(), *steps(1_000, 1_100)])
    transcript.append(reply_entry(usage=Usage()))
    transcript.append(reply_entry())
    assert find_steps_left(find_growth(transcript), Used(1_100, 0), 10_000, 2_000) is None

    transcript = Transcript([prompt(), *steps(1_000, 1_100, 1_200)])
    assert find_steps_left(find_growth(transcript), Used(1_200, 0), 10_000, 2_000) == 68
    assert find_steps_left(find_growth(transcript), Used(1_200, 0), None, None) is None


def test_steps_left_starts_anew_after_a_compaction() -> None:
    """Growth from before a compaction says nothing about now; nor does a log that does not grow."""
    transcript = Transcript([prompt(), *steps(1_000, 1_100, 1_200), compaction_entry(1, 1)])
    assert find_steps_left(find_growth(transcript), Used(1_200, 0), 10_000, 2_000) is None

    for entry in steps(500, 400, 500):
        transcript.append(entry)
    assert find_steps_left(find_growth(transcript), Used(500, 0), 10_000, 2_000) is None


def test_steps_left_is_never_negative() -> None:
    """At or past the reserve no step is left."""
    transcript = Transcript([prompt(), *steps(7_000, 7_500, 8_500)])

    assert find_steps_left(find_growth(transcript), Used(8_500, 0), 10_000, 2_000) == 0


def test_largest_parts() -> None:
    """The largest first, ties in the gauge's order, empty parts never."""
    assert largest_parts(PARTS_NOW) == (("results", 4_000), ("system", 900), ("tools", 900))
    assert largest_parts({"notebook": 0}) == ()
    assert describe_largest_parts(PARTS_NOW, 2) == "Results 4,000, System 900"
