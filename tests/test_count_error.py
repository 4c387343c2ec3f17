"""The calibrated estimate next to what a provider billed, on recorded conversations."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from tests.bench.count_error import WITH_FIGURES, replay
from tests.replay.trajectories import find_corpus


@pytest.mark.parametrize("name", WITH_FIGURES)
def test_the_estimate_of_a_prompt_is_within_two_per_cent(name: str) -> None:
    """On average over a recording; and its margin of 15 % is over the figure nearly always."""
    guesses = list(replay(find_corpus() / f"{name}.jsonl"))
    errors = [guess.error for guess in guesses]
    under = [g for g in guesses if g.estimated + 0.15 * g.new < 0.995 * g.billed]

    assert len(guesses) > 50
    assert statistics.mean(errors) <= 0.02
    assert len(under) <= 0.02 * len(guesses)


def test_a_prompt_is_compared_only_while_it_grows(tmp_path: Path) -> None:
    """The first figure and one after a cut are bases alone; in between, what is new is guessed."""

    def said(role: str, text: str, *figures: int) -> str:
        names = ("input", "cache_read", "cache_write", "output")
        usage = {"usage": dict(zip(names, figures, strict=True))} if figures else {}
        return json.dumps({"role": role, "content": [{"type": "text", "text": text}], **usage})

    lines = [
        json.dumps({"meta": {"models": {"claude-sonnet-4.5": 4}}}),
        said("user", "word " * 1_000),
        said("assistant", "yes", 100, 1_000, 0, 10),
        said("user", "word " * 1_000),
        said("assistant", "yes", 100, 2_000, 100, 10),
        said("user", "cut"),
        said("assistant", "yes", 1_500, 0, 0, 10),
        said("user", "word " * 100),
        said("assistant", "yes", 1_640, 0, 0, 10),
    ]
    path = tmp_path / "recording.jsonl"
    path.write_text("\n".join(lines))
    first, last = replay(path)

    assert (first.billed, last.billed) == (2_200, 1_640)
    assert first.estimated == 1_110 + first.new
    assert last.estimated == 1_510 + last.new
    assert first.error < 0.05
    assert last.error < 0.1
