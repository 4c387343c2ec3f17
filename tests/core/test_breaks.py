"""Cache misses that a provider told, and the intended breaks that explain them."""

from __future__ import annotations

from dataclasses import replace

from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.breaks import ExplainedMiss, find_cache_misses
from jupyter_ctx.core.entries import (
    CacheMiss,
    Entry,
    MessageEntry,
    ModelEntry,
    PrefixEntry,
    RewindEntry,
    SummaryUndoEntry,
)

from .strategies import compaction_entry, prompt, reply_entry

MISS = CacheMiss("messages_changed", 900)


def missed(turn: int, miss: CacheMiss | None = MISS) -> MessageEntry:
    """Return a reply with which a miss was told."""
    return replace(reply_entry(), turn=turn, step=1, cache_miss=miss)


def causes(*entries: Entry) -> list[str | None]:
    """Return the causes of the misses that the entries tell."""
    return [miss.cause for miss in find_cache_misses(entries)]


def test_a_miss_has_turn_step_and_the_providers_words() -> None:
    """Turn, step, reason and tokens are those of the reply it came with."""
    entries = [prompt(), reply_entry(), prompt("two", 2), missed(2)]

    assert list(find_cache_misses(entries)) == [ExplainedMiss(2, 1, "messages_changed", 900, None)]
    assert list(find_cache_misses([prompt(), reply_entry()])) == []


def test_the_newest_break_since_the_reply_before_explains_it() -> None:
    """A break explains the next reply's miss and no later one."""
    broken = (compaction_entry(1, 2), SummaryUndoEntry(0.0, 1))

    assert causes(reply_entry(), broken[0], missed(2), missed(3)) == ["compaction", None]
    assert causes(reply_entry(), *broken, missed(2)) == ["summary_undo"]
    assert causes(reply_entry(), RewindEntry(0.0, 1), missed(2, None), missed(3)) == [None]


def test_what_came_before_the_first_reply_explains_nothing() -> None:
    """A session begins with a model and a prefix: no prompt was there to change."""
    begin = (ModelEntry(0.0, "m"), PrefixEntry(0.0, "s", ()))

    assert causes(*begin, missed(1)) == [None]
    assert causes(*begin, reply_entry(), ModelEntry(0.0, "n"), missed(2)) == ["model_switch"]


def test_only_replies_are_told_of() -> None:
    """A message of the user's carries no miss, whatever a file says."""
    odd = MessageEntry(0.0, 1, 0, "note", user(Text("x")), cache_miss=MISS)

    assert causes(reply_entry(), RewindEntry(0.0, 1), odd, missed(2)) == ["rewind"]
