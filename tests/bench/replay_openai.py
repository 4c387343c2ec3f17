"""Recorded conversations over Chat Completions, next to the same over the Messages API.

The real session and SDK over HTTP, the strict fake of each protocol. Tokens are the fakes' own, so
shares are to be compared, not sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.replay.counting import COUNTER
from tests.replay.trajectories import TRAJECTORIES, join, load_corpus
from tests.replay.wired import COMPLETIONS, MESSAGES, Wired, play_wired

from .table import Row, times

WINDOWS = (200_000, 64_000, 16_000)
TOKENS = 200_000
PROCESSES = 2


def run_job(window: int, protocol: str) -> Wired:
    """Return the figures of the joined conversation at one window over one protocol."""
    conversation = join(load_corpus(), TOKENS, 1, COUNTER.count)
    return play_wired(conversation, window, protocol)


def measure(*options: str) -> list[Row]:
    """Return all rows. Option: `--windows=200000,8000`."""
    chosen = dict(option.lstrip("-").split("=", 1) for option in options)
    if not TRAJECTORIES.is_dir():
        return [Row("replay_openai", "not measured", f"no corpus at {TRAJECTORIES}", "")]
    windows = tuple(map(int, chosen.get("windows", "").split(","))) if chosen else WINDOWS
    jobs = [(window, protocol) for window in windows for protocol in (COMPLETIONS, MESSAGES)]
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = list(pool.map(run_job, *zip(*jobs, strict=True)))
    pairs = zip(found[::2], found[1::2], strict=True)
    return [row for ours, beside in pairs for row in compare(ours, beside)]


def compare(ours: Wired, beside: Wired) -> list[Row]:
    """Return the rows of one window: Chat Completions, the Messages API beside it."""
    title = f"{ours.window // 1_000}k, {TOKENS // 1_000}k tokens joined, Chat Completions"
    return [
        Row(
            f"{title}: of the prompts' tokens read from the cache",
            _share(ours),
            f"{_share(beside)}, Messages API",
            times(ours.share / beside.share),
        ),
        Row(
            f"{title}: requests that do not begin with the one before",
            f"{ours.breaks:,}",
            f"{ours.explained:,} compactions and refusals",
            f"{ours.unexplained} unexplained",
            f"none; {_failed([ours, beside])} failures",
        ),
        Row(
            f"{title}: cached tokens as the session counts them",
            f"{ours.counted:,}",
            f"{ours.cached:,}, as the server reports",
            "equal" if ours.counted == ours.cached else "DIFFER",
            "equal",
        ),
    ]


def _share(one: Wired) -> str:
    return f"{one.share:.1%} of {one.prompt:,} in {one.requests:,} requests"


def _failed(both: Sequence[Wired]) -> int:
    return sum(len(one.failures) for one in both)
