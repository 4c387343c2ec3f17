"""Counting tokens without a network: ten times the text, next to the time for one tenth of it.

And how far the estimate of a prompt is off, on recordings that carry the provider's own figures.
"""

from __future__ import annotations

import itertools
import random
import statistics

from jupyter_ctx.models.counting import TiktokenCounter
from tests.replay.trajectories import TRAJECTORIES

from .count_error import WITH_FIGURES, replay
from .table import Row, cpu_seconds, median_seconds, ms, seconds, times

CHARS = 900_000
SENTENCE = "the of kernel table a frame in window und größer 데이터 列 0x3f naïve re-run plot"


def texts(chars: int) -> dict[str, str]:
    """Return texts of so many characters: one letter, words, and what tokenizers are slow at."""
    dice = random.Random(0)
    words = " ".join(dice.choice(SENTENCE.split()) for _ in range(chars // 4))
    return {
        "one letter": "a" * chars,
        "words": words[:chars],
        "digits": "".join(dice.choice("0123456789") for _ in range(chars)),
        "spaces": " " * chars,
        "base64": "".join(dice.choice("ABCDEFabcdef0123456789+/") for _ in range(chars)),
        "emoji": "👩‍🔬" * (chars // 3),
    }


def measure() -> list[Row]:
    """Count that many characters and a tenth of them, each time a text not counted before."""
    counter, number = TiktokenCounter(), itertools.count()
    first_cpu: list[float] = []
    first = seconds(lambda: first_cpu.append(cpu_seconds(lambda: counter.count("warm up"))))

    def count(text: str) -> float:
        return median_seconds(lambda: counter.count(f"{text}{next(number)}"))

    rows = [
        Row("first count in a process: the ranks are loaded", ms(first), "", "", "≤ 100 ms"),
        Row("the same, in processor time", ms(first_cpu[0]), "", "", "≤ 100 ms"),
    ]
    tenths = texts(CHARS // 10)
    for name, text in texts(CHARS).items():
        few, many = count(tenths[name]), count(text)
        what = f"count {CHARS:,} characters ({name}), next to a tenth"
        rows.append(Row(what, ms(many), ms(few), times(many / few), "× 10 is linear"))
    few, many = count(texts(CHARS)["words"]), count(texts(20 * CHARS)["words"])
    what = f"count {20 * CHARS:,} characters (words), next to a twentieth"
    rows.append(Row(what, ms(many), ms(few), times(many / few), "× 20 is linear"))
    return rows + measure_errors()


def measure_errors() -> list[Row]:
    """Replay the recordings with figures: the mean error of an estimated prompt, and the largest.

    Beside it stands the share of the prompt that was estimated. Nothing without the corpus.
    """
    rows = []
    for name in WITH_FIGURES if TRAJECTORIES.is_dir() else ():
        guesses = list(replay(TRAJECTORIES / f"{name}.jsonl"))
        errors = [guess.error for guess in guesses]
        new = statistics.mean(guess.new / guess.billed for guess in guesses)
        what = f"estimate of {len(guesses)} prompts of {name}, off the figure: mean, largest"
        ours = f"{statistics.mean(errors):.2%}, {max(errors):.1%}"
        rows.append(Row(what, ours, f"{new:.1%} new", "", "mean ≤ 2 %"))
    return rows
