"""The points of the sawtooth: what was used after each reply and each compaction."""

from __future__ import annotations

from jupyter_ctx.core.entries import RewindEntry, SummaryUndoEntry
from jupyter_ctx.core.history import UsagePoint, find_usage_points
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.testing import ScriptedModel, make_session, reply

from .strategies import compaction_entry, prompt, reply_entry, results_entry


def test_each_reply_and_each_compaction_is_a_point() -> None:
    """After a reply it is the provider's sum, after a compaction what was left of the window."""
    entries = (
        prompt(),
        reply_entry(usage=Usage(10, 100, 20, 5)),
        results_entry(),
        reply_entry(usage=Usage(1, 130, 40, 9)),
        compaction_entry(n=3, tokens_after=70),
    )

    assert list(find_usage_points(entries)) == [
        UsagePoint(1, 1, 135),
        UsagePoint(1, 1, 180),
        UsagePoint(1, 1, 70, 3),
    ]


def test_a_reply_without_usage_is_no_point() -> None:
    """What nobody told is left out, never 0; a compaction before any reply is of turn 0."""
    entries = (reply_entry(), reply_entry(usage=Usage(None, None, None, 5)))

    assert list(find_usage_points(entries)) == []
    assert list(find_usage_points([compaction_entry()])) == [UsagePoint(0, 0, 100, 1)]


def test_what_was_taken_back_stays_in_the_history() -> None:
    """An undo and a rewind change the view, not what was sent."""
    sent = (prompt(), reply_entry(usage=Usage(10, 0, 0, 5)), compaction_entry())

    after = (*sent, SummaryUndoEntry(0.0, 1), RewindEntry(0.0, 1))

    assert list(find_usage_points(after)) == list(find_usage_points(sent))


def test_a_session_tells_its_history() -> None:
    """The points of a session are its own steps, in order, and a compaction stands between them."""
    words = reply("many words " * 900)
    model = ScriptedModel(words, words, reply("A summary."), reply("Three."))
    session = make_session(model, tail_tokens=0)
    session.ask("one")
    session.ask("two")
    session.compact()
    session.ask("three")

    points = session.usage_history()

    assert [(point.turn, point.step, point.compaction) for point in points] == [
        (1, 1, None),
        (2, 1, None),
        (2, 1, 1),
        (3, 1, None),
    ]
    assert points[-1].used_tokens == session.context()["used_tokens"]
