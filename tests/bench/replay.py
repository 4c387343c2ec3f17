"""Recorded conversations through the engine: what they cost, next to the optimum and other rules.

Weighted tokens: uncached 1, cache write 1.25, read 0.1, output 5; counts are cl100k's. The optimum
knows the whole future and has the same summary, tail and carry-over. Other systems' rules are in
`tests/replay/policies.py`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.replay.counting import COUNTER
from tests.replay.facts import AFTER, Reach, check_reach
from tests.replay.figures import Figures, cheapest_valid, fitted
from tests.replay.figures import measure as measure_one
from tests.replay.player import play
from tests.replay.policies import POLICIES
from tests.replay.trajectories import TRAJECTORIES, Conversation, join, load_corpus

from .table import Row

WINDOWS = (1_000_000, 200_000, 64_000, 16_000, 8_000)
TOKENS = (1_000_000, 3_000_000)
SEEDS = {1_000_000: range(1, 7), 3_000_000: range(1, 3)}
NO_LIMIT = 100_000_000
FACT_TOKENS = 700_000
PROCESSES = 2


@dataclass(frozen=True)
class Job:
    """One conversation at one window: a recorded one by number, else a joined one."""

    window: int
    tokens: int
    seed: int

    @property
    def conversation(self) -> Conversation:
        """The conversation."""
        if not self.tokens:
            return load_corpus()[self.seed]
        return join(load_corpus(), self.tokens, self.seed, COUNTER.count)


def run_job(job: Job) -> Figures:
    """Return the figures of one job."""
    return measure_one(job.conversation, job.window)


@dataclass(frozen=True)
class Off:
    """Without compactions: input cost over its minimum, prefix breaks, those by a first image."""

    ratio: float
    breaks: int
    images: int


def run_off(job: Job) -> Off:
    """Return what a conversation costs without compactions."""
    played = play(fitted(job.conversation, 200_000), NO_LIMIT, settings={"compaction": "off"})
    images = played.breaks.get("first image", 0)
    ratio = played.input_cost / played.least_input_cost
    return Off(ratio, sum(played.breaks.values()) - images, images)


def run_facts(job: Job) -> list[Reach]:
    """Return which planted facts were out of reach after compactions."""
    with tempfile.TemporaryDirectory() as home:
        return check_reach(fitted(job.conversation, job.window), job.window, Path(home))


def measure(*options: str) -> list[Row]:
    """Return all rows. Options: `--windows=200000,8000`, `--tokens=1000000` (0: no joined ones)."""
    chosen = dict(option.lstrip("-").split("=", 1) for option in options)
    if not TRAJECTORIES.is_dir():
        return [Row("replay", "not measured", f"no corpus at {TRAJECTORIES}", "")]
    windows = _numbers(chosen.get("windows")) or WINDOWS
    lengths = _numbers(chosen.get("tokens")) or TOKENS
    with ProcessPoolExecutor(PROCESSES) as pool:
        jobs = [
            Job(window, tokens, seed)
            for tokens in (*lengths, 0)
            for seed in (SEEDS.get(tokens, range(1, 4)) if tokens else range(len(load_corpus())))
            for window in windows
        ]
        figures = pool.map(run_job, jobs)
        off = pool.map(
            run_off, [job for job in jobs if job.window == windows[0] and not job.tokens]
        )
        facts = pool.map(run_facts, [Job(window, FACT_TOKENS, 1) for window in windows])
        by_job = dict(zip(jobs, figures, strict=True))
        rows = _off_rows(list(off))
        for window, reached in zip(windows, facts, strict=True):
            for tokens in (*lengths, 0):
                some = [
                    f for job, f in by_job.items() if (job.window, job.tokens) == (window, tokens)
                ]
                if some:
                    rows += _rows(some, window, tokens)
            rows.append(_fact_row(reached, window))
    return rows


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",")) if text else ()


def _off_rows(found: Sequence[Off]) -> list[Row]:
    return [
        Row(
            "replay, compaction off: input over each token written once, read once a step",
            _spread([off.ratio for off in some], "{:.3f}"),
            f"{len(some)} recorded conversations, {kind}",
            f"{sum(off.breaks for off in some)} prefix breaks",
            aim,
        )
        for some, kind, aim in (
            ([off for off in found if not off.images], "no images", "≤ 1.05, none"),
            ([off for off in found if off.images], "the first image voids the messages", "≤ 1.05"),
        )
        if some
    ]


def _rows(figures: Sequence[Figures], window: int, tokens: int) -> list[Row]:
    """Return the rows of one window and one length."""
    what = f"{len(figures)} × {tokens // 1_000_000}M tokens" if tokens else "single ones"
    title = f"{_short(window)}, {what}"
    rows = [
        Row(
            f"{title}: cost over the offline optimum",
            f"{_median(f.compactions for f in figures)} compactions",
            f"{_median(f.optimum_compactions for f in figures)} compactions",
            _spread([f.over_optimum for f in figures], "{:.2f}"),
            "≤ 1.20, always ≤ 1.35",
        ),
        Row(
            f"{title}: prefix breaks",
            _counted(figures),
            f"{sum(f.compactions + f.refusals for f in figures):,} compactions and refusals",
            f"{sum(f.unexplained_breaks for f in figures)} unexplained",
            "none unexplained",
        ),
        Row(
            f"{title}: longest call with its answer",
            f"{max(f.peak for f in figures):,}",
            f"{window:,}",
            f"{sum(f.turned_down for f in figures)} over the window",
            f"never over; {sum(len(f.failures) for f in figures)} failures",
        ),
    ]
    if tokens:
        rows += _policy_rows(figures, title, window)
    return rows


def _policy_rows(figures: Sequence[Figures], title: str, window: int) -> list[Row]:
    rows = []
    for policy in POLICIES:
        others = [one.other(policy.name) for one in figures]
        over = sum(other.over for other in others)
        share = over / sum(other.calls for other in others)
        theirs = [o.cost / f.optimum for o, f in zip(others, figures, strict=True)]
        ours = sum(f.cost for f in figures) / sum(other.cost for other in others)
        aim = {1_000_000: "≤ × 0.30", 200_000: "≤ × 0.80"}.get(window, "")
        rows.append(
            Row(
                f"{title}: {policy.name}",
                _spread([f.over_optimum for f in figures], "{:.2f}"),
                _spread(theirs, "{:.2f}") + _why_not_valid(others[0].applies, over, share),
                f"× {ours:.2f}",
                aim if policy.is_threshold else "",
            )
        )
    if window < 200_000:
        name, ours = cheapest_valid(figures)
        aim = "≤ × 1.15" if window >= 64_000 else "≤ × 1.10"
        rows.append(Row(f"{title}: next to the cheapest valid one", "", name, f"× {ours:.2f}", aim))
    return rows


def _why_not_valid(applies: bool, over: int, share: float) -> str:
    words = [] if applies else ["its reserve is over the window"]
    words += [f"{over:,} cut, {share:.1%}"] if over else []
    return f" ({'; '.join(words)})" if words else ""


def _fact_row(reached: Sequence[Reach], window: int) -> Row:
    lost = [fact.mark for reach in reached for fact in reach.lost]
    return Row(
        f"{_short(window)}: planted facts in reach after {', '.join(map(str, AFTER))} compactions",
        ", ".join(f"{reach.planted - len(reach.lost)} of {reach.planted}" for reach in reached),
        "",
        "all" if not lost and len(reached) == len(AFTER) else f"lost: {' '.join(lost[:6])}",
        "all",
    )


def _counted(figures: Sequence[Figures]) -> str:
    causes: Counter[str] = Counter()
    for one in figures:
        causes.update(one.breaks)
    return ", ".join(f"{count:,} {cause}" for cause, count in causes.items()) or "none"


def _median(values: Iterable[int]) -> str:
    return f"{statistics.median(values):,.0f}"


def _spread(values: Sequence[float], form: str) -> str:
    """Return "median [least-most]"."""
    shown: Callable[[float], str] = form.format
    return f"{shown(statistics.median(values))} [{shown(min(values))}–{shown(max(values))}]"


def _short(window: int) -> str:
    return "1M" if window == 1_000_000 else f"{window // 1_000}k"


if __name__ == "__main__":
    from .table import render

    print(render(measure(*sys.argv[1:])))
