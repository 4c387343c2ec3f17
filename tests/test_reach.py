"""The generated sequences reach what they are for, and one that fails is made small."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from jupyter_ctx.core.background import STALE
from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.entries import (
    CompactionEntry,
    CompactionFailedEntry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    OverflowEntry,
    RewindEntry,
    SpentEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    UnpinEntry,
)
from jupyter_ctx.core.loop import CONTINUE_TEXT
from jupyter_ctx.core.pins import pin_notice
from jupyter_ctx.core.transcript import Transcript
from tests.laws import Case, make_case
from tests.sequences import Compact, EditSummary, Rewind, Turn, World
from tests.smaller import hold, smallest

pytestmark = pytest.mark.no_cover  # each line is held by a law of its own, elsewhere
MOST_SEEDS = 400


class Seen:
    """What a session went through, read from its log."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries = world.session.transcript.entries
        self.deepest = self.failures = 0
        self.past_a_compaction = self.told_again = False
        transcript, told = Transcript(), set[str]()
        for entry in self.entries:
            undone = set(transcript.undone)
            transcript.append(entry)
            self.deepest = max(self.deepest, transcript.depth)
            self.failures = max(self.failures, transcript.failures_in_a_row)
            self.past_a_compaction |= isinstance(entry, RewindEntry) and transcript.undone > undone
            if isinstance(entry, MessageEntry) and entry.kind == "prompt":
                text = text_of(entry.message.content)
                notices = {pin_notice(*pin) for pin in transcript.pins.items()}
                self.told_again |= any(notice in text for notice in notices & told)
                told |= {notice for notice in notices if notice in text}

    @property
    def prepared(self) -> list[CompactionEntry]:
        """The compactions whose summary was asked for before the newest step came out."""
        asked = [sent.entries for sent in self.world.sent if sent.is_summary]
        return [
            entry
            for at, entry in enumerate(self.entries)
            if isinstance(entry, CompactionEntry)
            and any(
                isinstance(since, MessageEntry | OverflowEntry)
                for since in self.entries[max((n for n in asked if n <= at), default=at) : at]
            )
        ]

    def has(self, entry_type: type, **values: object) -> bool:
        """Say whether there is such an entry."""
        return any(
            isinstance(entry, entry_type) and all(getattr(entry, k) == v for k, v in values.items())
            for entry in self.entries
        )

    def says(self, kind: str, words: str) -> bool:
        """Say whether a message of this kind has these words."""
        return any(
            isinstance(entry, MessageEntry)
            and entry.kind == kind
            and words in text_of(entry.message.content)
            for entry in self.entries
        )


STATES: dict[str, Callable[[Seen], bool]] = {
    "compaction by itself": lambda s: s.has(CompactionEntry, trigger="proactive"),
    "compaction after an overflow": lambda s: s.has(CompactionEntry, trigger="reactive"),
    "compaction by hand": lambda s: s.has(CompactionEntry, trigger="manual"),
    "compaction that leaves thinking out": lambda s: s.has(CompactionEntry, drop_thinking=True),
    "compaction that leaves thinking in": lambda s: s.has(CompactionEntry, drop_thinking=False),
    "compaction on a compaction": lambda s: s.deepest >= 2,
    "compaction on two": lambda s: s.deepest >= 3,
    "compaction whose request was cut": lambda s: any(
        sent.is_summary and "left out to make room" in sent.record.body.decode()
        for sent in s.world.sent
    ),
    "a summary longer than asked for": lambda s: any(
        "longer than asked for" in entry.summary for entry in s.world.session.transcript.compactions
    ),
    "a prepared summary used": lambda s: bool(s.prepared),
    "a prepared summary drained": lambda s: any(e.trigger == "reactive" for e in s.prepared),
    "a prepared summary given up": lambda s: s.has(SpentEntry, reason=STALE),
    "a failed compaction": lambda s: s.has(CompactionFailedEntry),
    "compaction paused after failures": lambda s: s.failures >= 3,
    "rewind": lambda s: s.has(RewindEntry),
    "rewind past a compaction": lambda s: s.past_a_compaction,
    "undo": lambda s: s.has(SummaryUndoEntry),
    "edit": lambda s: s.has(SummaryEditEntry),
    "edit, then undo": lambda s: bool(
        s.world.session.transcript.edited & s.world.session.transcript.undone
    ),
    "an act refused in words": lambda s: s.world.refusals > 0,
    "an overflow": lambda s: s.has(OverflowEntry),
    "a smaller window learnt": lambda s: bool(s.world.session.transcript.learnt_windows),
    "a prompt left out and told of": lambda s: s.has(ExcludeEntry, is_told=True),
    "a refusal": lambda s: s.has(ExcludeEntry, reason="The provider refused to answer."),
    "open calls mended": lambda s: s.has(MessageEntry, kind="repair"),
    "a stopped reply kept": lambda s: s.has(MessageEntry, stop_reason="stopped"),
    "a result offloaded": lambda s: s.has(FateEntry, fate="offload"),
    "a prompt offloaded": lambda s: any(name.startswith("prompt-") for name in s.world.store.texts),
    "an answer asked for again with a higher limit": lambda s: any(
        isinstance(entry, SpentEntry) and entry.reason.startswith("cut by") for entry in s.entries
    ),
    "an answer gone on with": lambda s: s.says("note", CONTINUE_TEXT),
    "an answer paused": lambda s: s.has(MessageEntry, stop_reason="pause_turn"),
    "an answer cut by the window": lambda s: s.has(
        MessageEntry, stop_reason="model_context_window_exceeded"
    ),
    "a budget's nudge": lambda s: s.says("note", "DONE"),
    "a pin told again": lambda s: s.told_again,
    "a pin taken off": lambda s: s.has(UnpinEntry),
    "a model switched": lambda s: sum(isinstance(e, ModelEntry) for e in s.entries) > 1,
    "a window nearly full": lambda s: any(
        sent.record.input_tokens > 0.8 * (sent.record.window_tokens or 0) for sent in s.world.sent
    ),
}


def test_the_sequences_reach_every_state() -> None:
    """Each of these comes up within the first hundreds of seeds: what holds of all, holds there."""
    missing = dict(STATES)
    for seed in itertools.count():
        seen = Seen(make_case(seed).run())
        missing = {name: is_so for name, is_so in missing.items() if not is_so(seen)}
        if not missing:
            return
        assert seed < MOST_SEEDS, sorted(missing)


def has_edit_behind_compaction(case: Case) -> None:
    """Stand for a law that is broken by a summary that was edited and then rewound past."""
    entries = case.run().session.transcript.entries
    kinds = [type(e) for e in entries if isinstance(e, SummaryEditEntry | RewindEntry)]
    assert kinds[:2] != [SummaryEditEntry, RewindEntry]


def test_a_case_that_fails_is_made_small() -> None:
    """Nothing stays that the failure does not need: a turn or two, and the acts it is about."""
    seed = next(
        seed for seed in itertools.count() if _fails(has_edit_behind_compaction, make_case(seed))
    )
    small = smallest(make_case(seed), lambda case: _fails(has_edit_behind_compaction, case))

    assert len(small.acts) < len(make_case(seed).acts)
    kinds = [type(act) for act in small.acts if not isinstance(act, Turn)]
    assert kinds in ([EditSummary, Rewind], [Compact, EditSummary, Rewind])
    turns = [act for act in small.acts if isinstance(act, Turn)]
    assert len(turns) <= 3
    assert all(turn.stop is None for turn in turns)
    with pytest.raises(AssertionError, match=r"EditSummary[^\n]*\n[^\n]*Rewind"):
        hold(small, has_edit_behind_compaction)


def _fails(check: Callable[[Case], object], case: Case) -> bool:
    try:
        check(case)
    except AssertionError:
        return True
    return False
