"""Recorded conversations over HTTP, in small: what both protocols must show, and the figures."""

from __future__ import annotations

import pytest

from tests.bench import replay_openai
from tests.fake_anthropic import Recorded
from tests.replay.trajectories import load_corpus, small_conversation
from tests.replay.wired import COMPLETIONS, MESSAGES, Wired, count_breaks, play_wired


def _is_sound(found: Wired) -> bool:
    """Whether nothing failed, only compactions broke a prefix, and the cache was counted right."""
    return (found.failures, found.unexplained, found.counted) == ((), 0, found.cached)


@pytest.mark.parametrize("protocol", [COMPLETIONS, MESSAGES])
def test_our_own_conversation_over_http(protocol: str) -> None:
    """On a small window: compactions alone break the prefix, and the cache serves the rest."""
    found = play_wired(small_conversation(6, 8), 16_000, protocol)

    assert _is_sound(found), found
    assert found.breaks == found.explained >= 2
    assert found.share >= 0.9


def test_a_recorded_conversation_over_chat_completions() -> None:
    """The shortest recording on a window it does not fit in: no break beyond compactions."""
    shortest = min(load_corpus(), key=lambda conversation: conversation.steps)
    found = play_wired(shortest, 16_000, COMPLETIONS)

    assert _is_sound(found), found
    assert found.share >= 0.8


def test_figures_of_two_protocols_stand_side_by_side() -> None:
    """Three rows a window, the other path's share beside ours."""
    ours = Wired(COMPLETIONS, 16_000, 10, 1_000, 900, 900, 3, 2, ("One failed.",))
    beside = Wired(MESSAGES, 16_000, 10, 1_000, 950, 950, 2, 2, ())
    rows = replay_openai.compare(ours, beside)

    assert [(row.ours, row.ratio) for row in rows] == [
        ("90.0% of 1,000 in 10 requests", "× 0.95"),
        ("3", "1 unexplained"),
        ("900", "equal"),
    ]
    assert rows[1].reach == "none; 1 failures"


def _sent(number: int, *digests: str) -> Recorded:
    record = Recorded(number, "POST", "/", {}, {}, b"", 0.0)
    record.prefix_hashes = list(digests)
    return record


@pytest.mark.parametrize(
    ("rows", "breaks"),
    [
        ([("step", "t", "s", "a"), ("step", "t", "s", "a", "b")], 0),
        ([("step", "t", "s", "a"), ("step", "t", "s", "a")], 0),
        ([("step", "t", "s", "a"), ("step", "t", "s", "x", "y")], 1),
        ([("step", "t", "s", "a", "b"), ("step", "t", "s", "a")], 1),
        ([("step", "t", "s", "a"), ("summary", "t", "s", "a", "b", "i"), ("step", "t", "s")], 1),
        ([("step", "t", "s", "a"), ("summary", "t", "s", "a", "i"), ("step", "t", "s", "a")], 0),
        ([("step", "t", "s", "a"), ("summary", "t", "s", "x", "i"), ("step", "t", "s", "a")], 1),
    ],
)
def test_a_break_is_counted(rows: list[tuple[str, ...]], breaks: int) -> None:
    """Each request that does not begin with all of the one before counts, and no other."""
    requests = [_sent(n, *digests) for n, (_, *digests) in enumerate(rows)]
    kinds = {n: kind for n, (kind, *_) in enumerate(rows)}

    assert count_breaks(requests, lambda record: kinds[record.number] == "summary") == breaks
