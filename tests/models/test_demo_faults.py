"""What the demo does on command, seen through whole sessions: no key, no network."""

from __future__ import annotations

import pytest

from jupyter_ctx.core.blocks import Thinking
from jupyter_ctx.core.events import (
    CompactionFinished,
    RetryScheduled,
    StepDiscarded,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
)
from jupyter_ctx.models.demo_faults import REFUSED, WAIT_S, WORDS, find_commands
from jupyter_ctx.testing import FakeKernel
from tests.models.test_demo import demo_session, run
from tests.wire import of


@pytest.fixture
def session():
    return demo_session(FakeKernel({"prices": [3, 1, 2]}))


def thinking_in(session):
    return [
        block
        for message in session.transcript.view
        for block in message.content
        if isinstance(block, Thinking)
    ]


def test_it_thinks_before_each_answer(session):
    """Thinking is streamed, kept, and in no form that another model would be sent."""
    events = run(session, "demo: think, then run `1 + 1`.")

    assert events[-1].outcome == "done"
    assert len(of(events, ThinkingDelta)) > 5
    assert {block.wire["model"] for block in thinking_in(session)} == {"demo"}
    assert [event.name for event in of(events, ToolStarted)] == ["run_code"]


@pytest.mark.parametrize(("word", "wait"), [("overloaded", None), ("limit", WAIT_S)])
def test_it_is_asked_again_after_a_wait(session, word, wait):
    """A busy provider is tried again by the session's own rule, and the turn is done."""
    events = run(session, f"demo: {word}. Run `1 + 1`.")
    retries = of(events, RetryScheduled)

    assert events[-1].outcome == "done"
    assert len(retries) == 1
    assert wait is None or retries[0].wait_s >= wait


def test_an_answer_that_breaks_off_is_thrown_away_and_asked_again(session):
    """What came of a broken answer is discarded; the whole one counts."""
    events = run(session, "demo: cut. Run `1 + 1`.")

    assert events[-1].outcome == "done"
    assert len(of(events, StepDiscarded)) == 1
    assert len(of(events, ToolStarted)) == 1


def test_an_overflow_is_compacted_and_answered(session):
    """A prompt that is refused as too long leads to a compaction, and the turn goes on."""
    for n in range(3):
        run(session, f"Run `{n} + 1`.")
    events = run(session, "demo: overflow. Run `'the end'`.")

    assert events[-1].outcome == "done", events[-1].error
    assert of(events, CompactionFinished)
    assert of(events, ToolStarted)


def test_a_cut_answer_is_gone_on_with(session):
    """An answer at its limit is asked for anew or gone on with, and the turn is done."""
    events = run(session, "demo: long. Run `1 + 1`.")

    assert events[-1].outcome == "done"
    assert [event.name for event in of(events, ToolStarted)] == ["run_code"]


def test_a_refused_key_ends_the_turn_each_time(session):
    """Without a usable key the turn fails with a sentence that says what to do."""
    for _ in range(2):
        events = run(session, "demo: key")
        assert events[-1].outcome == "failed"
        assert "demo: key" in events[-1].error
    assert run(session, "Run `1 + 1`.")[-1].outcome == "done"


def test_a_refusal_ends_the_turn(session):
    """A refusal ends the turn with what to do and no half an answer; the next is as ever."""
    events = run(session, "demo: refuse")

    assert events[-1].stop_reason == "refusal"
    assert events[-1].error == f"The provider refused to answer. {REFUSED}"
    assert not of(events, TextDelta)
    assert run(session, "Run `1 + 1`.")[-1].outcome == "done"


def test_a_fault_comes_once_for_a_prompt(session):
    """The same prompt again has its fault again, once; what is no command is no fault."""
    for _ in range(2):
        events = run(session, "demo: overloaded. Run `1 + 1`.")
        assert len(of(events, RetryScheduled)) == 1
    assert find_commands("the demo: nothing of it, demo:Think!") == ["think"]
    assert all(find_commands(f"demo: {word}") == [word] for word in WORDS)
