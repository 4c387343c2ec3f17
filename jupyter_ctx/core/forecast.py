"""How fast a conversation grows, and so how many steps still fit."""

from __future__ import annotations

from .entries import (
    CompactionEntry,
    ExcludeEntry,
    MessageEntry,
    ModelEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from .tokens import Used
from .transcript import Transcript

# DESIGN.md 7, Gauge: the mean growth of the last 5 steps; nothing below 3 steps of history.
GROWTH_STEPS, LEAST_STEPS = 5, 3

_BREAKS = (
    CompactionEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    RewindEntry,
    RepairEntry,
    ExcludeEntry,
    ModelEntry,
    PrefixEntry,
)


def find_growth(transcript: Transcript) -> float | None:
    """Return by how many tokens the last 5 steps grew, on average.

    None: fewer than 3 steps were measured since the last compaction.
    """
    figures = _last_figures(transcript)
    if len(figures) < LEAST_STEPS:
        return None
    return (figures[0] - figures[-1]) / (len(figures) - 1)


def find_steps_left(
    growth: float | None, used: Used, window: int | None, reserve: int | None
) -> int | None:
    """Return how many steps that grow by `growth` still fit before the reserve is reached.

    0: a compaction is due. None: window or growth are not known, or the conversation does not grow.
    """
    if window is None or reserve is None or growth is None or growth <= 0:
        return None
    return max(0, int((window - used.total - reserve) / growth))


def _last_figures(transcript: Transcript) -> list[int]:
    """Return what was used after each of the last 6 measured steps, newest first."""
    figures: list[int] = []
    for entry in reversed(transcript.entries):
        if isinstance(entry, _BREAKS) or len(figures) > GROWTH_STEPS:
            break
        if isinstance(entry, MessageEntry) and entry.kind == "reply" and entry.usage is not None:
            used = entry.usage.used_tokens
            if used is not None:
                figures.append(used)
    return figures
