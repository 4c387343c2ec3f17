"""What follows a model call, row by row of `recovery.next_action`, through the real SDK."""

import json
from dataclasses import replace

import pytest

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.entries import PrefixEntry
from jupyter_ctx.core.events import (
    CompactionFinished,
    CompactionStarted,
    NoteAdded,
    RetryScheduled,
    StepDiscarded,
    TurnFinished,
)
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.testing import MemoryStore
from tests.both import assert_append_only, on_both
from tests.fake_anthropic import (
    FakeAnthropic,
    Hold,
    Text,
    call,
    disconnect,
    foreign,
    last_text,
    max_tokens,
    pause,
    refuse,
    reply,
    status,
    too_long,
    truncate,
    window_exceeded,
)
from tests.fake_anthropic.checks import assert_healthy
from tests.talk import MODEL, run
from tests.wire import (
    SUMMARY,
    answering,
    blocks,
    filler,
    is_summary,
    of,
    plain_talk,
    printing,
    steps,
    summaries,
    text_of_messages,
    window,
    without_marks,
)

HALF_CALL = call("run_code", _raw='{"code": "print(1')


def json_400(**error):
    return foreign(json.dumps({"error": error}), code=400, content_type="application/json")


OVERFLOWS = {
    "anthropic": (too_long(210_000, 200_000), 210_000, 200_000),
    "anthropic, with the answer": (
        status(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        190_000,
        180_000,
    ),
    "openai": (
        json_400(
            code="context_length_exceeded",
            message="This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130001 tokens. Please reduce the length of the messages.",
        ),
        130_001,
        128_000,
    ),
    "vllm": (
        json_400(
            type="BadRequestError",
            code=400,
            message="This model's maximum context length is 32768 tokens. However, you requested "
            "40000 tokens in the messages, Please reduce the length of the messages.",
        ),
        40_000,
        32_768,
    ),
    "llama.cpp": (
        json_400(
            type="exceed_context_size_error",
            code=400,
            message="the request exceeds the available context size, try increasing it",
            n_prompt_tokens=40_000,
            n_ctx=32_768,
        ),
        40_000,
        32_768,
    ),
    "gemini": (
        json_400(
            status="INVALID_ARGUMENT",
            message="The input token count (1100000) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
        1_100_000,
        None,
    ),
    "without numbers": (status(400, "Input is too long for requested model."), None, None),
}


@on_both
@pytest.mark.parametrize("form", OVERFLOWS)
def test_w13_too_long_in_every_form_compacts_once(fake, form):
    """W13: over the window in any provider's words: one compaction, one retry, numbers learnt."""
    answer, actual, limit = OVERFLOWS[form]
    script = [filler(4_000), filler(4_000), answer, "Summary.", "Done."]
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "one")
        run(session, "two")
        known = session.facts
        events = run(session, "three")

        assert events[-1].outcome == "done"
        assert [event.trigger for event in of(events, CompactionFinished)] == ["reactive"]
        assert [is_summary(record) for record in server.messages] == [*[False] * 3, True, False]
        assert session.facts.window_tokens == (limit or known.window_tokens)
        assert session.facts.window_source == (known.window_source if limit is None else "error")
        if actual is not None and limit is not None:
            entry = session.find_compaction()
            assert entry.tokens_before > 8_000
        assert not server.unused


@on_both
def test_w13_what_was_refused_teaches_the_estimate(fake):
    """W13: the provider's count of what was refused changes what the next texts are taken for."""
    before_after = []
    script = [filler(3_000), "Hm.", too_long(90_000, 80_000), "Summary.", "Done."]
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "one")
        run(session, "two")
        meter = session._engine.meter
        before_after.append(meter.factor)
        run(session, "three " * 3_000)
        before_after.append(meter.factor)
        assert session.find_compaction().tokens_before >= 90_000

    assert before_after[1] > 1.3 * before_after[0]


@on_both
def test_w13_a_second_time_is_shown_with_the_largest_parts(fake):
    """W13: too long again after the compaction: no loop, the numbers, and a note for next turn."""
    twice = too_long(210_000, 200_000)
    script = [filler(4_000), filler(4_000), twice, "Summary.", too_long(205_000, 200_000), "Hi."]
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "one")
        run(session, "two")
        events = run(session, "three: a long one")
        assert events[-1].outcome == "failed"
        for words in ("205,000", "200,000", "Largest parts", "Conversation"):
            assert words in events[-1].error
        assert len(summaries(server.messages)) == 1
        run(session, "four")
        newest = json.dumps(server.messages[-1].messages[-1])
        assert "was not sent" in newest
        assert "205,000" in newest
        assert not server.unused


def test_w15_a_call_cut_by_the_windows_end_is_not_run():
    """W15: the partial text is kept, the half call is not run; one compaction, then it goes on."""
    script = [filler(4_000), window_exceeded("Partial, ", HALF_CALL), "Summary.", "and the rest."]
    with FakeAnthropic(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "one")
        events = run(session, "two")

        assert [is_summary(record) for record in server.messages] == [False, False, True, False]
        assert not session._ports.tools.calls
        assert not blocks(server.messages[-1], "tool_use")
        assert "Partial, " in json.dumps(server.messages[-1].messages)
        assert "two" not in json.dumps(server.messages[-1].messages[1:])
        assert [event.outcome for event in of(events, TurnFinished)] == ["done"]
        assert_healthy(server)


def test_w15_a_second_window_stop_ends_the_turn_with_a_note():
    """W15: after one compaction in the step, the window's end is the answer's, and said so."""
    script = [filler(4_000), window_exceeded("A"), "Summary.", window_exceeded("B"), "Hi."]
    with FakeAnthropic(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "one")
        events = run(session, "two")
        assert events[-1].stop_reason == "model_context_window_exceeded"
        assert any("not complete" in note.title for note in of(events, NoteAdded))
        assert len(summaries(server.messages)) == 1
        assert run(session, "three")[-1].outcome == "done"
        assert_healthy(server)


@on_both
def test_w16_the_output_limit_is_raised_once_then_continued_three_times(fake):
    """W16: a reply cut in mid-call is asked for with 64,000, then goes on at most three times."""
    cut = [max_tokens(f"Part {n}. ", HALF_CALL) for n in range(5)]
    with fake([*cut, "Next."]) as server, plain_talk(server) as session:
        events = run(session)
        limits = [record.json["max_tokens"] for record in server.messages]

        first = 32_000 if fake is FakeAnthropic else 8_000  # more for a model that thinks
        assert limits == [first, 64_000, 64_000, 64_000, 64_000]
        assert not session._ports.tools.calls
        assert len(of(events, StepDiscarded)) == 1
        assert events[-1].stop_reason == "max_tokens"
        assert any("not complete" in note.title for note in of(events, NoteAdded))
        said = [text_of(m.content) for m in session.transcript.view if m.role == "assistant"]
        assert said == [f"Part {n}. " for n in range(1, 5)]
        assert run(session, "And?")[-1].outcome == "done"
        assert_healthy(server)


@on_both
def test_w16_the_raise_stays_within_the_models_maximum(fake):
    """W16: where the model writes no more than the limit, nothing is raised: it is continued."""
    with fake([max_tokens("A "), "b."], models=window(200_000)) as server:
        with plain_talk(server) as session:
            assert run(session)[-1].outcome == "done"
        raised = [] if fake is FakeAnthropic else [64_000]  # refused: it tells no limit before
        limits = [record.json["max_tokens"] for record in server.messages]
        assert limits == [8_000, *raised, 8_000]
        assert_healthy(server)


def test_a_paused_answer_is_sent_back_five_times():
    """`pause_turn`: the same again with what came appended, at most five times, then a note."""
    with FakeAnthropic([*[pause(f"At {n}. ") for n in range(6)], "Hi."]) as server:
        with plain_talk(server) as session:
            events = run(session)
            assert len(server.messages) == 6
            assert all(record.messages[-1]["role"] == "assistant" for record in server.messages[1:])
            assert events[-1].stop_reason == "pause_turn"
            assert any("not complete" in note.title for note in of(events, NoteAdded))
            assert run(session, "And?")[-1].outcome == "done"
        assert_append_only(server.messages)
        assert_healthy(server)


@on_both
def test_a_refusal_in_mid_turn_takes_its_turn_along(fake):
    """`refusal`: the provider's words end the turn; none of it is sent again, and it is paid."""
    script = ["Fine.", printing("print(1)"), refuse("Not this.", "I cannot"), "Yes."]
    with fake(script) as server, plain_talk(server) as session:
        run(session, "one")
        events = run(session, "two")
        assert (events[-1].outcome, events[-1].stop_reason) == ("failed", "refusal")
        assert "Not this." in events[-1].error
        run(session, "three")
        sent = json.dumps(server.messages[-1].messages)
        assert "two" not in sent
        assert "I cannot" not in sent
        assert "Fine." in sent
        assert session.total_usage.input_tokens == sum(
            record.input_tokens for record in server.messages
        )
        assert_append_only(server.messages)
        assert_healthy(server)


@on_both
def test_w12_a_busy_provider_is_given_up_after_eight_tries(fake):
    """W12: eight tries with a countdown each, the same bytes; then one sentence, nothing lost."""
    with fake([*[status(529)] * 8, "At last."]) as server, plain_talk(server) as session:
        events = run(session, "go")
        waits = of(events, RetryScheduled)

        assert events[-1].outcome == "failed"
        assert [(e.attempt, e.attempts) for e in waits] == [(n, 8) for n in range(2, 9)]
        assert [e.wait_s for e in waits] == session._ports.clock.sleeps
        most = [min(30, 0.5 * 2**n) for n in range(7)]
        assert all(m / 2 <= e.wait_s <= m for m, e in zip(most, waits, strict=True))
        assert len({record.body for record in server.messages}) == 1
        assert not session.transcript.view
        assert run(session, "go")[-1].outcome == "done"
        assert server.messages[-1].body == server.messages[0].body
        assert not of(events, CompactionStarted)


@on_both
def test_w12_retry_after_is_a_floor_and_too_long_a_one_ends_it(fake):
    """W12: 429 with `retry-after: 7` waits at least 7 s; one beyond five minutes is not waited."""
    script = [status(429, retry_after=7), "Hi.", status(429, retry_after=400)]
    with fake(script) as server, plain_talk(server) as session:
        clock = session._ports.clock
        began = clock.now()
        events = run(session, "one")
        assert of(events, RetryScheduled)[0].wait_s >= 7
        assert clock.now() - began >= 7
        events = run(session, "two")
        assert events[-1].outcome == "failed"
        assert not of(events, RetryScheduled)
        assert "400 s" in events[-1].error


@on_both
@pytest.mark.parametrize("broken", [truncate, disconnect])
def test_a_broken_stream_leaves_no_half_message(fake, broken):
    """A stream broken in mid-call: the step begins anew with the same bytes; no tool ran."""
    half = reply("I run it.", tools=[call("run_code", code="print('once')")])
    place = 7 if fake is FakeAnthropic else 4  # in the call
    script = [broken(answer=half, after_events=place), half, "Done."]
    with fake(script) as server, plain_talk(server) as session:
        events = run(session)
        assert events[-1].outcome == "done"
        assert len(of(events, StepDiscarded)) == len(of(events, RetryScheduled)) == 1
        assert server.messages[0].body == server.messages[1].body
        assert len(session._ports.tools.calls) == 1
        assert len(session.transcript.view) == 4
        assert_healthy(server)


@on_both
def test_a_summary_broken_off_is_asked_for_again(fake):
    """W12: what goes wrong with a compaction's own call is waited out like any other."""
    faults = iter([status(529), truncate("half"), "## Task\nGo on."])
    script = answering([*steps(40, 60), "Done."], lambda: None)

    def answer(body):
        given = script(body)
        return next(faults, "## Task\nGo on.") if callable(given) else given

    with fake(answer, models=window(12_000)) as server, plain_talk(server) as session:
        events = run(session, "Count.")
        first = summaries(server.messages)[:3]

        assert len({record.body for record in first}) == 1
        assert events[-1].outcome == "done"
        assert len(of(events, CompactionFinished)) == len(summaries(server.messages)) - 2
        assert_healthy(server)


def test_a_switch_leaves_no_thinking_that_is_refused():
    """What another model thought is never refused: it is sent as it came, or left out."""
    other = "claude-opus-5-5"
    models = {**window(200_000), **window(200_000, other)}
    script = answering([*steps(3), "One.", *steps(2), "Two.", *steps(2), "Three."])
    with FakeAnthropic(script, models=models) as server, plain_talk(server) as session:
        run(session, "one")
        session.switch_model(other)
        run(session, "two")
        session.switch_model(MODEL)
        assert run(session, "three")[-1].outcome == "done"
        assert_healthy(server)


THINKING_REFUSALS = [
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    "different conversation: the content before it has changed since it was created.",
    "messages.5.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant "
    "message cannot be modified. These blocks must remain as they were in the original response.",
    "messages.3.content.1: Invalid `signature` in `redacted_thinking` block",
]


@pytest.mark.parametrize("words", THINKING_REFUSALS)
def test_refused_thinking_is_left_out_once_and_for_all(words):
    """Thinking that a provider refuses leaves the view; the same step is sent again without it.

    Nothing else changes, the user is told, and what is thought from then on is kept again.
    """
    script = [*steps(2), "One.", status(400, words), *steps(1), "Two.", "Three."]
    with FakeAnthropic(script, models=window(200_000)) as server, plain_talk(server) as session:
        run(session, "one")
        events = run(session, "two")
        assert events[-1].outcome == "done"
        refused, again, after = server.messages[3:6]
        assert blocks(refused, "thinking")
        assert not blocks(again, "thinking")
        assert without_marks(again.messages) == without_marks(refused.messages, thinking=False)
        assert len(blocks(after, "thinking")) == 1
        assert len([n for n in of(events, NoteAdded) if "thinking" in n.title]) == 1
        view = list(session.transcript.view)
        assert list(Transcript(session._ports.store.entries).view) == view
        run(session, "three")
        assert assert_append_only(server.messages[4:]) == 0
        assert not server.unused


def test_thinking_bound_to_an_edited_prefix_is_left_out():
    """A log whose system prompt was changed by hand goes on: the strict server refuses it once."""
    store = MemoryStore()
    script = [*steps(2), "One.", "Two."]
    with FakeAnthropic(script, models=window(200_000)) as server:
        with plain_talk(server, store=store) as session:
            run(session, "one")
        edited = [
            replace(entry, system="You are someone else.")
            if isinstance(entry, PrefixEntry)
            else entry
            for entry in store.entries
        ]
        with plain_talk(server, entries=edited) as session:
            assert run(session, "two")[-1].outcome == "done"
        assert [record.status for record in server.messages] == [200, 200, 200, 400, 200]


def test_thinking_refused_again_ends_the_turn_with_the_providers_words():
    """A second refusal in the same step is shown; there is no loop."""
    script = [*steps(1), "One.", *[status(400, THINKING_REFUSALS[0])] * 2, "Two."]
    with FakeAnthropic(script, models=window(200_000)) as server, plain_talk(server) as session:
        run(session, "one")
        events = run(session, "two")
        assert events[-1].outcome == "failed"
        assert "different conversation" in events[-1].error
        assert run(session, "three")[-1].outcome == "done"
        assert not server.unused


@on_both
def test_w13_a_prepared_summary_makes_the_room(fake):
    """W13: too long while a summary is prepared: that one is put in force and the step sent again.

    No other is asked for, and the turn goes on.
    """
    asked, refused = [], []
    left = iter([filler(5_400), filler(5_400), *steps(60, 5)])

    def answer(body):
        if last_text(body).startswith(INSTRUCTION_OPEN):
            asked.append(body)
            return reply(Hold("summary"), Text(SUMMARY))
        if asked and not refused:
            refused.append(body)
            server.release("summary")  # only now: one that is ready would have been used already
            return too_long(16_400, 16_000)
        return "Done." if refused else next(left)

    models = window(16_000)
    with fake(answer, models=models) as server:
        with plain_talk(server, prepare_calls=3, compaction="crush") as session:
            run(session, "Fill the window.")
            run(session, "Fill it more.")
            events = run(session, "Count.")
        assert events[-1].outcome == "done"
        assert len(summaries(server.messages)) == 1
        assert len(of(events, CompactionFinished)) == 1
        first, *_ = [n for n, record in enumerate(server.messages) if record.status == 400]
        *_, last = [record for record in server.messages if not is_summary(record)]
        assert last.input_tokens < server.messages[first].input_tokens / 2
        assert text_of_messages(last).count("Count.") == 1
        assert not server.refused
