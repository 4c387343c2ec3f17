"""Counting tokens without a network: ten times the text, next to the time for one tenth of it."""

from __future__ import annotations

import itertools
import random

from jupyter_ctx.models.counting import TiktokenCounter

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
    return [*rows, Row(what, ms(many), ms(few), times(many / few), "× 20 is linear")]
