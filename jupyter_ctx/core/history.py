"""How full the window was over the life of a session: the points of its sawtooth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .entries import CompactionEntry, Entry, MessageEntry


@dataclass(frozen=True, slots=True)
class UsagePoint:
    """What was used of the window, in tokens, right after a reply or right after a compaction.

    `turn` and `step` are of the last reply before it (0: none yet). After a reply `used_tokens` is
    the provider's own figure, input and output together, and `compaction` is None; after compaction
    n, `compaction` is n and `used_tokens` an estimate.
    """

    turn: int
    step: int
    used_tokens: int
    compaction: int | None = None


def find_usage_points(entries: Iterable[Entry]) -> Iterator[UsagePoint]:
    """Yield every point, oldest first.

    What was undone, rewound or left out since was sent all the same, so it stays in. A reply whose
    usage the provider did not tell gives no point.
    """
    turn = step = 0
    for entry in entries:
        match entry:
            case MessageEntry(kind="reply", usage=usage):
                turn, step = entry.turn, entry.step
                used = None if usage is None else usage.used_tokens
                if used is not None:
                    yield UsagePoint(turn, step, used)
            case CompactionEntry(n=n, tokens_after=after):
                yield UsagePoint(turn, step, after, n)
            case _:
                pass
