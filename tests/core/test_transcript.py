"""The append-only transcript and its view."""

from __future__ import annotations

from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Message, Text, Thinking, user
from jupyter_ctx.core.entries import (
    CompactionFailedEntry,
    Entry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    PinEntry,
    PrefixEntry,
    RewindEntry,
    SessionEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    UnpinEntry,
)
from jupyter_ctx.core.repair import repair
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.view import build_view, kept_messages

from .strategies import (
    Maker,
    compaction_entry,
    logs,
    prompt,
    reply_entry,
    results_entry,
    valid_views,
)

fast = settings(max_examples=100, deadline=None)


def texts(transcript: Transcript) -> list[str]:
    return [block.text for m in transcript.view for block in m.content if isinstance(block, Text)]


@fast
@given(logs())
def test_view_is_the_fold_of_the_entries(entries: list[Entry]) -> None:
    """At every length, the transcript's view is build_view of its entries."""
    transcript = Transcript()

    for count, entry in enumerate(entries, start=1):
        transcript.append(entry)
        assert tuple(transcript.view) == build_view(entries[:count])
    assert list(transcript.entries) == entries
    assert tuple(Transcript(entries).view) == tuple(transcript.view)


@fast
@given(logs(("turn", "step", "step", "compaction", "note")), st.data())
def test_rewind_restores_the_earlier_view(entries: list[Entry], data: st.DataObject) -> None:
    """After a rewind to a turn the view is what it was before that turn's prompt, byte for byte."""
    prompts = [e for e in entries if isinstance(e, MessageEntry) and e.kind == "prompt"]
    target = data.draw(st.sampled_from(prompts))
    before = build_view(entries[: entries.index(target)])

    transcript = Transcript([*entries, RewindEntry(0.0, target.turn)])

    assert tuple(transcript.view) == before
    assert max(transcript.prompts, default=0) < target.turn


@fast
@given(logs(("turn", "step", "step", "compaction", "rewind", "note")), st.data())
def test_rewind_twice(entries: list[Entry], data: st.DataObject) -> None:
    """A rewind leaves every earlier turn within reach of another, unless one cut it off before."""
    alive = Transcript(entries).prompts
    if not alive:
        return
    turn = data.draw(st.sampled_from(sorted(alive)))
    at = next(i for i, e in enumerate(entries) if getattr(e, "message", None) is alive[turn])

    assert build_view([*entries, RewindEntry(0.0, turn)]) == build_view(entries[:at])


@fast
@given(logs(("turn", "step", "compaction")), logs(("turn", "step", "note")))
def test_undo_restores_the_exact_log(before: list[Entry], since: list[Entry]) -> None:
    """An undone compaction gives back what it replaced, then what was said since."""
    compaction = compaction_entry(99, 2, "the summary", drop_thinking=True)
    said = [e for e in since if isinstance(e, MessageEntry)]

    view = build_view([*before, compaction, *said, SummaryUndoEntry(0.0, 99)])

    assert view == (*build_view(before), *(entry.message for entry in said))


@fast
@given(logs(("turn", "step", "step", "compaction")), st.booleans(), st.data())
def test_rewind_after_undo(entries: list[Entry], drop: bool, data: st.DataObject) -> None:
    """A turn begun after a compaction that was undone since begins behind what came back."""
    undo = SummaryUndoEntry(0.0, 99, drop_thinking=drop)
    log = [*entries, compaction_entry(99, 2), *data.draw(_turns_since())]
    turn = data.draw(st.sampled_from([201, 202]))
    at = next(i for i, e in enumerate(log) if isinstance(e, MessageEntry) and e.turn == turn)

    rewound = build_view([*log, undo, RewindEntry(0.0, turn)])

    assert rewound == build_view([*log[:at], undo])


@st.composite
def _turns_since(draw: st.DrawFn) -> list[Entry]:
    maker, entries = Maker(draw, made=1_000), list[Entry]()
    for turn in (201, 202):
        entries.append(prompt(maker.name("prompt"), turn))
        only_thought = Thinking({"type": "thinking", "thinking": maker.name("t")})
        entries += [reply_entry(only_thought), reply_entry(Text(maker.name("reply")))]
    return entries


@fast
@given(valid_views(least_turns=1), st.booleans(), st.data())
def test_a_cut_before_a_reply_splits_no_pair(
    view: tuple[Message, ...], drop: bool, data: st.DataObject
) -> None:
    """A compaction that keeps whole steps leaves a view that needs no repair."""
    replies = [index for index, message in enumerate(view) if message.role == "assistant"]
    cut = data.draw(st.sampled_from(replies))
    compaction = compaction_entry(1, cut, drop_thinking=drop)

    after = (compaction.message, *kept_messages(view, compaction))

    assert repair(after) == after


def test_excluded_messages_do_not_come_back_by_an_undo() -> None:
    """A refused exchange that a compaction had kept stays out when the compaction is undone."""
    transcript = Transcript([prompt("one"), reply_entry(Text("first")), prompt("two", 2)])
    transcript.append(compaction_entry(1, 2))
    transcript.append(reply_entry(Text("refused")))
    transcript.append(ExcludeEntry(0.0, transcript.messages_since_prompt(2), "refusal"))

    transcript.append(SummaryUndoEntry(0.0, 1))

    assert texts(transcript) == ["one", "first"]


def test_exclusion_reaches_through_two_compactions() -> None:
    """What was left out of the newest tail is gone from the tails before it, too."""
    thought = reply_entry(Thinking({"type": "thinking", "thinking": "hm"}))
    transcript = Transcript([prompt("one"), reply_entry(Text("a")), thought, prompt("two", 2)])
    transcript.append(compaction_entry(1, 1, "first", drop_thinking=True))
    transcript.append(compaction_entry(2, 1, "second"))
    assert texts(transcript) == ["second", "a", "two"]

    transcript.append(ExcludeEntry(0.0, 1, "refusal"))
    transcript.append(SummaryUndoEntry(0.0, 2))
    assert texts(transcript) == ["first", "a"]
    transcript.append(SummaryUndoEntry(0.0, 1))

    assert texts(transcript) == ["one", "a"]


def test_the_summary_is_never_excluded() -> None:
    """However many messages are left out, the summary the view begins with stays."""
    transcript = Transcript([prompt("one"), compaction_entry(1, 1), reply_entry(Text("a"))])

    transcript.append(ExcludeEntry(0.0, 99, "refusal"))

    assert texts(transcript) == ["summary"]
    assert transcript.active_compaction is not None


def test_an_excluded_turn_cannot_be_rewound_to() -> None:
    """A turn that was left out is forgotten; rewinding to it changes nothing."""
    transcript = Transcript([prompt("one"), reply_entry(Text("a")), prompt("two", 2)])
    transcript.append(results_entry(Text("more")))
    transcript.append(ExcludeEntry(0.0, 3, "refusal"))
    transcript.append(prompt("three", 3))

    transcript.append(RewindEntry(0.0, 2))

    assert texts(transcript) == ["one", "three"]
    assert set(transcript.prompts) == {1, 3}


def test_edited_summary_takes_the_old_ones_place() -> None:
    """An edit changes the first message of the view, and what the transcript tells of it."""
    transcript = Transcript([prompt("one"), compaction_entry(1, 1), reply_entry(Text("a"))])

    transcript.append(SummaryEditEntry(0.0, 1, user(Text("mine")), "mine"))

    assert texts(transcript) == ["mine", "a"]
    assert transcript.compactions[0].summary == "mine"
    assert transcript.active_compaction == transcript.compactions[0]


def test_edit_of_a_replaced_summary_shows_after_the_undo() -> None:
    """A summary edited while a later one stands in its place is the edited one when it returns."""
    transcript = Transcript([prompt("one"), compaction_entry(1, 1, "first"), prompt("two", 2)])
    transcript.append(compaction_entry(2, 1, "second"))
    transcript.append(SummaryEditEntry(0.0, 1, user(Text("mine")), "mine"))
    assert texts(transcript) == ["second", "two"]

    transcript.append(SummaryUndoEntry(0.0, 2))

    assert texts(transcript) == ["mine", "two"]


def test_unknown_targets_change_nothing() -> None:
    """A rewind, edit or undo that names nothing known leaves view and prompts as they were."""
    transcript = Transcript([prompt("one"), compaction_entry(1, 1), prompt("two", 2)])
    before = tuple(transcript.view)

    transcript.append(RewindEntry(0.0, 7))
    transcript.append(RewindEntry(0.0, 0))
    transcript.append(SummaryEditEntry(0.0, 9, user(Text("no")), "no"))
    transcript.append(SummaryUndoEntry(0.0, 9))

    assert tuple(transcript.view) == before
    assert set(transcript.prompts) == {1, 2}


def test_replaced_messages_can_be_seen_again() -> None:
    """An open compaction tells what it took out of the view, an undone or unknown one nothing."""
    one, two = prompt("one"), reply_entry(Text("a"))
    transcript = Transcript([one, two, compaction_entry(1, 1)])
    assert transcript.replaced_by(1) == (one.message,)

    transcript.append(compaction_entry(2, 2, "second"))
    assert transcript.replaced_by(2) == (user(Text("summary", "summary")), two.message)
    assert transcript.replaced_by(3) == ()

    transcript.append(SummaryUndoEntry(0.0, 2))
    transcript.append(SummaryUndoEntry(0.0, 1))
    assert transcript.replaced_by(1) == ()
    assert transcript.active_compaction is None


def test_the_depth_is_how_many_undos_there_are() -> None:
    """Each compaction adds one that can be undone, an undo takes one, a rewind all it goes past."""
    transcript = Transcript([prompt("one"), reply_entry(Text("a")), prompt("two", 2)])
    depths = []
    for entry in (
        *(compaction_entry(1, 1), compaction_entry(2, 1), SummaryUndoEntry(0.0, 2)),
        *(compaction_entry(3, 1), RewindEntry(0.0, 2)),
    ):
        transcript.append(entry)
        depths.append(transcript.depth)

    assert depths == [1, 2, 1, 2, 0]


def test_facts_follow_the_entries() -> None:
    """Session, prefix, model, fates, pins, turns and failures are those of the newest entries."""
    session = SessionEntry(0.0, "id", None, "/", "1")
    prefix = PrefixEntry(0.0, "system", ())
    first, second = (FateEntry(0.0, "a", fate, "t", 1, 1) for fate in ("keep", "offload"))
    failed = CompactionFailedEntry(0.0, 1, "proactive", "no text")
    transcript = Transcript([session, prefix, ModelEntry(0.0, "m"), first, second])
    for entry in (PinEntry(0.0, 1, "x"), PinEntry(0.0, 2, "y"), UnpinEntry(0.0, 1), failed, failed):
        transcript.append(entry)

    assert (transcript.session, transcript.prefix, transcript.model) == (session, prefix, "m")
    assert transcript.fates == {"a": first}
    assert transcript.pins == {2: "y"}
    assert (transcript.turn, transcript.failures_in_a_row) == (0, 2)

    transcript.append(prompt("one", 4))
    transcript.append(compaction_entry(1, 1))

    assert (transcript.turn, transcript.failures_in_a_row) == (4, 0)


def test_turns_of_messages() -> None:
    """Messages tell the turns they are of, a summary those it replaced; nothing tells None."""
    transcript = Transcript([prompt("one"), reply_entry(Text("a")), prompt("two", 2)])
    assert transcript.turns_of(transcript.view) == (1, 2)

    transcript.append(compaction_entry(1, 3, first_turn=1, last_turn=2))

    assert transcript.turns_of(transcript.view) == (1, 2)
    assert transcript.turns_of([user(Text("elsewhere"))]) is None
    assert transcript.messages_since_prompt(2) == 0


class Shut(dict[int, Message]):
    """Prompts that can be added to, but not gone through."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("the earlier prompts were gone through")

    keys = values = items = __iter__


def test_an_entry_costs_what_is_new() -> None:
    """No entry but those that take something back makes the transcript look at earlier prompts."""
    transcript = Transcript([prompt("one")])
    transcript.prompts = Shut(transcript.prompts)

    for entry in (reply_entry(), prompt("two", 2), results_entry(), compaction_entry(1, 1)):
        transcript.append(entry)

    assert transcript.turn == 2
    with pytest.raises(AssertionError, match="gone through"):
        transcript.append(RewindEntry(0.0, 2))
