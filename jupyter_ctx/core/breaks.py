"""Why a prompt's beginning changes: the breaks that are intended, and the misses they explain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .entries import (
    CompactionEntry,
    Entry,
    ExcludeEntry,
    MessageEntry,
    ModelEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)

Cause: TypeAlias = Literal[
    "compaction",
    "rewind",
    "model_switch",
    "summary_edit",
    "summary_undo",
    "refusal",
    "left_out",
    "repair",
    "prefix",
    "settings",
]
"""`left_out`: a prompt that failed is not sent again; `prefix`: system and tools, frozen anew."""

REFUSED = "The provider refused to answer."
"""The reason that an ExcludeEntry gives for a refused exchange."""


def find_cause(entry: Entry) -> Cause | None:
    """Return why the prompt's beginning changes with `entry`, None if it does not."""
    match entry:
        case CompactionEntry():
            return "compaction"
        case RewindEntry():
            return "rewind"
        case ModelEntry():
            return "model_switch"
        case SummaryEditEntry():
            return "summary_edit"
        case SummaryUndoEntry():
            return "summary_undo"
        case ExcludeEntry(reason=reason):
            return "refusal" if reason == REFUSED else "left_out"
        case RepairEntry():
            return "repair"
        case PrefixEntry():
            return "prefix"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class ExplainedMiss:
    """A cache miss as the provider told it with the reply of a step, and what we know of it.

    `reason` is the provider's word, `tokens` what it would have read (None: it did not say).
    `cause` is the newest intended break since the reply before, None if there was none.
    """

    turn: int
    step: int
    reason: str
    tokens: int | None
    cause: Cause | None


def find_cache_misses(entries: Iterable[Entry]) -> Iterator[ExplainedMiss]:
    """Yield every miss that was told, oldest first."""
    cause: Cause | None = None
    is_answered = False
    for entry in entries:
        if is_answered:  # what came before the first reply broke nothing
            cause = find_cause(entry) or cause
        if not isinstance(entry, MessageEntry) or entry.kind != "reply":
            continue
        if (miss := entry.cache_miss) is not None:
            yield ExplainedMiss(entry.turn, entry.step, miss.reason, miss.tokens, cause)
        cause, is_answered = None, True
