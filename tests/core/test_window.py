"""The window: reserve, when to compact, how long an answer may be, and when not to try again."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.config import Settings
from jupyter_ctx.core.entries import RewindEntry, SummaryUndoEntry
from jupyter_ctx.core.tokens import Used
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.core.window import (
    Limits,
    is_stuck,
    output_limit,
    reserve_tokens,
    share_of,
    should_compact,
    summary_budget,
    window_of,
)

from .strategies import compaction_entry, facts, prompt, reply_entry


def test_limits_are_the_settings() -> None:
    """Every limit is a setting of the same name with the same default."""
    assert Limits() == Limits.of(Settings())
    changed = Settings(tail_tokens=7, max_result_chars={"run_code": 5})

    assert Limits.of(changed) == Limits(tail_tokens=7, max_result_chars={"run_code": 5})
    assert {spec.name for spec in dataclasses.fields(Limits)} <= {
        spec.name for spec in dataclasses.fields(Settings)
    }


@pytest.mark.parametrize(
    ("told", "source", "wanted", "window"),
    [
        (200_000, "api", 0, 200_000),
        (200_000, "api", 16_000, 16_000),
        (200_000, "api", 900_000, 200_000),
        (200_000, "table", 900_000, 900_000),
        (None, "unknown", 32_000, 32_000),
        (None, "unknown", 0, None),
    ],
)
def test_window(told: int | None, source: str, wanted: int, window: int | None) -> None:
    """A set window counts, but never above one that the provider itself has told."""
    assert window_of(Limits(window_tokens=wanted), facts(told, window_source=source)) == window


@pytest.mark.parametrize(
    ("preset", "window", "most_output", "reserve"),
    [
        ("crush", 200_001, 64_000, 20_000),
        ("crush", 200_000, 64_000, 40_000),
        ("crush", 8_000, 64_000, 1_600),
        ("claude-code", 200_000, 64_000, 33_000),
        ("claude-code", 200_000, 8_000, 21_000),
        ("claude-code", 200_000, None, 33_000),
        ("claude-code", 16_000, None, 3_200),
        ("manual", 1_000_000, 64_000, 20_000),
        ("off", 16_000, 64_000, 3_200),
        ("crush", None, 64_000, None),
    ],
)
def test_reserve(
    preset: str, window: int | None, most_output: int | None, reserve: int | None
) -> None:
    """The reserve is what DESIGN.md 5 says for the preset, None where the window is not known."""
    known = facts(window, max_output_tokens=most_output)

    assert reserve_tokens(Limits(compaction=preset), known) == reserve


def test_set_reserve() -> None:
    """A reserve set by hand counts, up to half of the window."""
    assert reserve_tokens(Limits(reserve_tokens=1_000), facts(8_000)) == 1_000
    assert reserve_tokens(Limits(reserve_tokens=9_000), facts(8_000)) == 4_000


@pytest.mark.parametrize("preset", ["crush", "claude-code"])
def test_compaction_is_due_at_the_reserve(preset: str) -> None:
    """Due from `window - used = reserve` on, and not one token before."""
    limits = Limits(compaction=preset)

    assert should_compact(Used(6_400, 0), limits, facts(8_000))
    assert not should_compact(Used(6_399, 0), limits, facts(8_000))


def test_compaction_decides_on_the_cautious_figure() -> None:
    """The estimated part counts 1.15 times when it is decided."""
    assert should_compact(Used(0, 5_565), Limits(), facts(8_000))
    assert not should_compact(Used(0, 5_564), Limits(), facts(8_000))


@pytest.mark.parametrize("preset", ["manual", "off"])
def test_manual_and_off_are_never_due(preset: str) -> None:
    """These presets never compact by themselves, nor does any with an unknown window."""
    assert not should_compact(Used(9_000, 0), Limits(compaction=preset), facts(8_000))
    assert not should_compact(Used(9_000, 0), Limits(), facts(None))


@pytest.mark.parametrize(
    ("wanted", "used", "window", "most_output", "keep", "limit"),
    [
        (8_000, Used(10_000, 0), 200_000, 64_000, 0, 8_000),
        (8_000, Used(3_000, 1_000), 8_000, 64_000, 0, 3_850),
        (8_000, Used(3_000, 1_000), 8_000, 64_000, 1_000, 2_850),
        (8_000, Used(7_900, 0), 8_000, 64_000, 0, 256),
        (64_000, Used(1, 0), 200_000, 32_000, 0, 32_000),
        (8_000, Used(1, 0), None, None, 0, 8_000),
    ],
)
def test_output_limit(
    wanted: int, used: Used, window: int | None, most_output: int | None, keep: int, limit: int
) -> None:
    """The answer may be as long as wanted, as window and model allow, and at least 256."""
    known = facts(window, max_output_tokens=most_output)

    assert output_limit(wanted, used, Limits(), known, keep_tokens=keep) == limit


@given(st.one_of(st.just(12_000), st.integers(0, 100_000)), st.integers(1, 2_000_000))
def test_shares_are_bounded(setting: int, window: int) -> None:
    """A default takes at most its fraction, a changed setting at most 50,000 and a quarter."""
    got = share_of(Limits(tail_tokens=setting), "tail_tokens", window)

    assert 0 <= got <= min(setting, 50_000)
    assert got <= window * (0.06 if setting == 12_000 else 0.25)


def test_shares() -> None:
    """Without a window a budget is what was set; the summary's is 5 % of a small one."""
    assert share_of(Limits(), "instructions_tokens", None) == 10_000
    raised = Limits(instructions_tokens=90_000)
    assert share_of(raised, "instructions_tokens", None) == 50_000
    assert share_of(raised, "instructions_tokens", 1_000_000) == 50_000
    assert share_of(Limits(), "tail_tokens", 100_000) == 6_000
    assert share_of(Limits(), "tail_tokens", 64_000) == 2_880
    assert summary_budget(Limits(), 10_000) == 500
    assert summary_budget(Limits(), 1_000_000) == 3_000


def test_shares_of_a_small_window() -> None:
    """Under 9,000 tokens: no tail but one that was set, a shorter summary, few results named."""
    assert share_of(Limits(), "tail_tokens", 9_000) == 405
    assert share_of(Limits(), "tail_tokens", 8_999) == 0
    assert share_of(Limits(tail_tokens=400), "tail_tokens", 8_000) == 400
    assert share_of(Limits(), "results_tokens", 9_000) == 450
    assert share_of(Limits(), "results_tokens", 8_000) == 100
    assert share_of(Limits(), "instructions_tokens", 8_000) == 400
    assert summary_budget(Limits(), 8_000) == 320


# No progress ------------------------------------------------------------------------------------


def stuck(transcript: Transcript, total: int, window: int | None = 16_000) -> bool:
    return is_stuck(transcript, Used(total, 0), Limits(), facts(window))


def after(before: int, after: int) -> Transcript:
    entry = compaction_entry(1, 1, tokens_before=before, tokens_after=after)
    return Transcript([prompt(), entry])


def test_a_compaction_with_little_gain_is_not_repeated() -> None:
    """Freed under 10 %: stuck until what could be dropped has grown by 10 % of the window."""
    transcript = after(10_000, 9_001)

    assert stuck(transcript, 9_001)
    assert stuck(transcript, 9_001 + 1_599)
    assert not stuck(transcript, 9_001 + 1_600)


def test_a_compaction_with_gain_may_be_repeated() -> None:
    """Freed 10 % or more, or none yet at all: nothing stands in the way."""
    assert not stuck(after(10_000, 9_000), 9_000)
    assert not stuck(Transcript([prompt()]), 15_000)


def test_an_estimate_that_was_too_low_is_no_growth() -> None:
    """The first figure after the compaction counts as what was left, if it is more."""
    transcript = after(10_000, 9_500)
    transcript.append(reply_entry(usage=Usage(12_000, 0, 0, 100)))
    transcript.append(prompt("more"))
    transcript.append(reply_entry(usage=Usage(12_400, 0, 0, 100)))

    assert stuck(transcript, 12_500)
    assert not stuck(transcript, 13_600)


def test_a_figure_of_another_prompt_is_not_what_was_left() -> None:
    """Behind a rewind, an undo or another compaction a figure says nothing of the one in force."""
    big, usage = prompt("big", 2), Usage(15_000, 0, 0, 100)
    for back in ([RewindEntry(0.0, 2)], [compaction_entry(2, 1), SummaryUndoEntry(0.0, 2)]):
        transcript = after(10_000, 9_500)
        for entry in (big, *back, reply_entry(usage=usage)):
            transcript.append(entry)

        assert transcript.active_compaction is not None
        assert transcript.active_compaction.n == 1
        assert not stuck(transcript, 15_000)


def test_an_undone_compaction_holds_nothing_back() -> None:
    """The guard looks at the compaction in force; without a window it stays shut."""
    transcript = after(10_000, 9_900)
    assert stuck(transcript, 90_000, window=None)

    transcript.append(SummaryUndoEntry(0.0, 1))

    assert not stuck(transcript, 10_000)
