"""The engine against a strict server, through the real SDK: what is sent, and what it costs."""

import itertools

import pytest

from jupyter_ctx.core.blocks import PART_NAMES, PARTS, text_of, tool_results
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    NoteAdded,
    RetryScheduled,
    TurnFinished,
)
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.core.repair import INTERRUPTED_TEXT
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.testing import FakeKernel, FakeTools, MemoryStore
from tests.both import on_both, spoken
from tests.fake_anthropic import (
    NO_USAGE,
    FakeAnthropic,
    FakeModel,
    call,
    corrupt,
    disconnect,
    error_event,
    last_text,
    max_tokens,
    no_stop_reason,
    refuse,
    reply,
    status,
    too_long,
    truncate,
    window_exceeded,
)
from tests.fake_anthropic.checks import (
    assert_append_only,
    assert_healthy,
    assert_markers,
    assert_never_over_window,
    assert_prefix_read,
    cache_read_ratio,
)
from tests.talk import MODEL, run
from tests.wire import plain_talk

SMALL = {MODEL: FakeModel(window=16_000, max_output=8_000, binds_thinking=True, cache_floor=512)}


def is_summary(record):
    return last_text(record.json).startswith(INSTRUCTION_OPEN)


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def steps(count, lines=30):
    """Replies that each run code printing some lines, with thinking."""
    for n in range(count):
        code = f"for i in range({lines}): print('step {n} line', i, i * 37 % 101)"
        yield reply(f"Step {n}.", thinking=f"thought {n}", tools=[call("run_code", code=code)])


def answering(script, summary="## Task\nGo on with the count. Steps so far are done."):
    """Answer summaries with `summary` and everything else from `script`."""
    script = iter(script)

    def answer(body):
        return summary if last_text(body).startswith(INSTRUCTION_OPEN) else next(script)

    return answer


def test_thirty_turns_only_append_and_read_the_cache():
    """W01, W02, C20: thirty turns with tools; no block ever changes and ≥ 90 % is read back."""
    script = itertools.chain.from_iterable(
        (*steps(1), reply(f"Turn {n} done.", thinking="so")) for n in range(30)
    )
    with FakeAnthropic(list(script)) as server, plain_talk(server) as session:
        for n in range(30):
            assert run(session, f"turn {n}")[-1].outcome == "done"
            session.context()
        assert_healthy(server)
        assert assert_append_only(server.messages) == []
        assert_markers(server.messages)
        assert_prefix_read(server.messages)
        assert cache_read_ratio(server.messages, 3) >= 0.9  # turn 2 begins with it


def test_a_long_step_still_finds_the_cache():
    """W02: a message of 60 blocks leaves a breakpoint within 20 blocks of the last one."""
    many = reply(tools=[call("run_code", code=f"print({n})") for n in range(60)])
    with FakeAnthropic([*steps(3), many, "Done."]) as server, plain_talk(server) as session:
        run(session, "x " * 2_000)
        assert_healthy(server)
        assert_markers(server.messages)
        assert_prefix_read(server.messages)


def test_the_cache_can_be_switched_off():
    """With `prompt_cache` off no request carries a breakpoint."""
    with FakeAnthropic(["Hi."]) as server, plain_talk(server, prompt_cache=False) as session:
        run(session)
        assert b"cache_control" not in server.messages[0].body


@pytest.mark.parametrize("binds", [True, False])
def test_compaction_reads_the_cache_and_goes_on(binds):
    """W03, W05, W08, C13: the summary request extends one already sent and reads ≥ 90 % of it.

    The turn goes on by itself between two tool rounds; no request is refused, none over the window.
    """
    models = {MODEL: FakeModel(window=12_000, max_output=8_000, binds_thinking=binds)}
    script = answering([*steps(60, 80), "Counted."])
    with FakeAnthropic(script, models=models) as server, plain_talk(server) as session:
        events = run(session, "Count to sixty. REMEMBER-ME-VERBATIM")
        summaries = [record for record in server.messages if is_summary(record)]

        assert events[-1].outcome == "done"
        assert len(of(events, TurnFinished)) == 1
        assert len(summaries) == len(of(events, CompactionFinished)) >= 3
        assert_healthy(server)
        assert_never_over_window(server.messages)
        assert len(assert_append_only(server.messages, is_side=is_summary)) == len(summaries)
        assert_markers(server.messages, is_side=is_summary)
        for record in summaries:
            assert record.plan.read_tokens >= 0.9 * record.plan.input_tokens
            assert "stop_sequences" not in record.json
            assert "tool_choice" not in record.json
        for record in server.messages:
            assert b"REMEMBER-ME-VERBATIM" in record.body
            assert record.body.count(b"REMEMBER-ME-VERBATIM") == 1
        for record in server.messages:
            first = str(record.json["messages"][0])
            if "<summary>" in first:
                assert record.json["messages"][1]["role"] == "assistant"


@on_both
def test_a_resumed_session_sends_the_same_bytes(fake):
    """W19, W20: a session loaded from its entries sends what its twin sends, byte for byte."""
    store = MemoryStore()
    begin = [
        reply(thinking="hm", tools=[call("run_code", code="print('x' * 70_000)")]),
        "First answer.",
    ]
    with fake([*begin, "Twin."]) as server, plain_talk(server, store=store) as session:
        run(session, "one")
        kept = list(store.entries)
        run(session, "two")
        twin = server.messages[-1].body
    with fake(["Resumed."]) as server, plain_talk(server, entries=kept) as session:
        run(session, "two")
        assert server.messages[-1].body == twin
        assert (
            list(Transcript(kept).view)
            == list(session.transcript.view)[: len(Transcript(kept).view)]
        )


@on_both
def test_parallel_results_one_with_an_image_one_interrupted(fake):
    """W18: three calls, an image, an interrupt: one message, results first, in order."""
    from tests.pictures import png

    class Tools(FakeTools):
        async def run(self, use, cap_chars):
            if use.name == "slow":
                self.calls.append(use)
                return ToolOutput("KeyboardInterrupt", is_error=True, interrupted=True)
            return await super().run(use, cap_chars)

    tools = Tools(plot=lambda: ToolOutput("figure", (png(40, 30),)), slow=lambda: "")
    three = reply(tools=[call("plot"), call("slow"), call("run_code", code="print(1)")])
    with fake([three, "Again."]) as server, plain_talk(server, tools=tools) as session:
        assert run(session, "one")[-1].outcome == "stopped"
        assert run(session, "two")[-1].outcome == "done"
        assert_healthy(server)
        results = tool_results(session.transcript.view[2])
        assert [len(r.content) for r in results] == [2, 1, 1]
        assert text_of(results[2].content) == INTERRUPTED_TEXT


@on_both
@pytest.mark.parametrize(
    "fault",
    [
        status(529),
        status(500),
        status(429, retry_after=7),
        disconnect(),
        disconnect(after_events=3),
        truncate(),
        corrupt(),
        no_stop_reason(),
        error_event("overloaded_error"),
    ],
    ids=lambda fault: (
        type(fault).__name__ + str(getattr(fault, "status", getattr(fault, "how", "")))
    ),
)
def test_a_fault_is_tried_again_with_the_same_bytes(fake, fault):
    """W12: busy, broken or cut: the same bytes again, no half message, the turn is done."""
    with fake([fault, "Whole."]) as server, plain_talk(server) as session:
        events = run(session)
        assert events[-1].outcome == "done"
        assert len(of(events, RetryScheduled)) == 1
        assert server.messages[0].body == server.messages[1].body
        assert [text_of(m.content) for m in session.transcript.view] == ["go", "Whole."]
        if getattr(fault, "headers", None):
            assert of(events, RetryScheduled)[0].wait_s >= 7


@on_both
def test_too_long_compacts_once_and_retries_once(fake):
    """W13: a prompt found too long is compacted once and sent once more; a second time is told."""
    big = "w " * 3_000
    script = [reply(big), reply(big), too_long(210_000, 200_000), "Summary.", "Done."]
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        for n in range(3):
            events = run(session, f"turn {n}")
        assert events[-1].outcome == "done"
        assert [e.trigger for e in of(events, CompactionFinished)] == ["reactive"]
        assert session.facts.window_tokens == 200_000
        assert not server.unused


@on_both
def test_a_compaction_that_is_itself_too_long_is_cut(fake):
    """W13: the oldest turns leave the summary's request in whole pairs, at most three times."""
    big = "w " * 1_000
    answers = [reply(big) for _ in range(8)]
    script = [*answers, *[too_long(210_000, 200_000)] * 3, "Summary.", "Done."]
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        for n in range(9):
            events = run(session, f"turn {n}")
        assert events[-1].outcome == "done"
        lengths = [len(r.messages) for r in server.messages if is_summary(r)]
        assert lengths == sorted(lengths, reverse=True)
        assert len(set(lengths)) == 3
        refused = [r for r in server.refused if r.status == 400 and "too long" not in str(r.error)]
        assert refused == []


def test_a_switch_to_a_smaller_window_compacts_first():
    """What is over the new model's window is compacted before anything else is sent to it."""
    models = {
        MODEL: FakeModel(window=200_000, max_output=8_000, binds_thinking=True),
        "claude-haiku-4-5": FakeModel(window=8_000, max_output=4_000),
    }
    script = answering([*steps(24, 60), "Done.", "Hello."])
    with FakeAnthropic(script, models=models) as server, plain_talk(server) as session:
        run(session, "Count.")
        assert session.context()["used_tokens"] > 8_000
        session.switch_model("claude-haiku-4-5")
        sent = len(server.messages)
        events = run(session, "And now?")

        assert events[-1].outcome == "done", events[-1].error
        assert [e.trigger for e in of(events, CompactionFinished)] == ["proactive"]
        assert is_summary(server.messages[sent])
        assert len(server.messages) == sent + 2
        assert server.refused == []


def test_a_tail_of_another_models_thinking_survives_the_switch_back():
    """A compaction under a model that binds nothing leaves no thinking that another one binds."""
    models = {
        MODEL: FakeModel(window=200_000, max_output=8_000, binds_thinking=True),
        "claude-sonnet-5": FakeModel(window=200_000, max_output=8_000),
    }
    script = answering([*steps(6, 60), "Done.", "Hello.", "Back."])
    with (
        FakeAnthropic(script, models=models) as server,
        plain_talk(server, tail_tokens=2_000) as session,
    ):
        run(session, "Count.")
        session.switch_model("claude-sonnet-5")
        run(session, "And now?")
        session.compact()
        session.switch_model(MODEL)

        assert run(session, "Again?")[-1].outcome == "done"
        assert "tool_use" in str(server.messages[-1].json["messages"])
        assert server.refused == []


@on_both
def test_the_breaker_opens_after_three_failures(fake):
    """W10: after three failed summaries no fourth is asked for until the user asks."""
    script = answering([*steps(40, 80), "Done."], summary=max_tokens("half a summ"))
    models = {MODEL: FakeModel(window=8_000, max_output=8_000, binds_thinking=True)}
    with fake(script, models=models) as server, plain_talk(server) as session:
        events = run(session, "Count.")
        summaries = [record for record in server.messages if is_summary(record)]

        assert len(summaries) == 3
        assert [e.paused for e in of(events, CompactionFailed)] == [False, False, True]
        assert session.state == "paused"
        assert events[-1].outcome == "failed"
        assert "tokens" in events[-1].error
        assert_never_over_window(server.messages)
        assert_healthy(server)


@pytest.mark.parametrize("case", ["reinjected", "prefix", "one result"])
def test_no_progress_ends_in_words(case):
    """W11: what no compaction can cure brings at most one of little gain, then a clear message."""
    settings: dict[str, object] = {}
    window, script, tools = 16_000, [*steps(40, 60), "Done."], FakeTools()
    prompt = "Count."
    if case == "reinjected":
        prompt = "Keep every word. " * 450
    elif case == "prefix":
        window = 2_500
    else:
        script = [call("run_code", code="print('0123456789' * 120_000)"), "Done."]
    models = {MODEL: FakeModel(window=window, max_output=8_000, binds_thinking=True)}
    with (
        FakeAnthropic(answering(script), models=models) as server,
        plain_talk(server, tools=tools, **settings) as session,
    ):
        events = run(session, prompt)
        gains = [1 - e.tokens_after / e.tokens_before for e in of(events, CompactionFinished)]
        assert sum(gain < 0.1 for gain in gains) <= 1
        assert_never_over_window(server.messages)
        assert not [r for r in server.refused if "too long" not in str(r.error)]
        if events[-1].outcome == "failed":
            assert "Largest parts, in tokens: " in events[-1].error
            assert any(f"{PART_NAMES[part]} " in events[-1].error for part in PARTS)


def test_usage_is_the_gauge():
    """W23: the gauge is the provider's own sum; after a compaction old usage is ignored."""
    figures = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 150_000,
        "cache_read_input_tokens": 20_000,
        "output_tokens": 900,
    }
    script = [reply("w " * 3_000), reply("Hi.", usage=figures), "Summary."]
    with FakeAnthropic(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session)
        run(session)
        assert session.context()["used_tokens"] == 170_903
        assert session.context()["is_estimate"] is False
        session.compact()
        assert session.context()["used_tokens"] < 20_000
        assert session.context()["is_estimate"] is True
        assert sum(session.context()["parts"].values()) == session.context()["used_tokens"]


def test_what_is_charged_beside_the_answer_is_in_the_cost_only():
    """W23: compaction tokens in `iterations` are paid, 1-hour writes at their own price.

    They fill no window: the gauge is the top-level sum.
    """
    one = {"input_tokens": 100_000, "output_tokens": 2_000, "cache_read_input_tokens": 0}
    written = {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 4_000}
    beside = {**one, "cache_creation_input_tokens": 5_000, "cache_creation": written}
    figures = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 20_000,
        "output_tokens": 900,
        "iterations": [{"type": "compaction", **beside}, {"type": "message", **one}],
    }
    with FakeAnthropic([reply("Hi.", usage=figures)]) as server, plain_talk(server) as session:
        run(session)
        assert session.context()["used_tokens"] == 20_903
        prices = session.facts.prices
        paid = [Usage(3, 20_000, 0, 900), Usage(100_000, 0, 5_000, 2_000, 4_000)]
        assert session.total_cost_usd == pytest.approx(sum(map(prices.cost_usd, paid)))
        assert prices.cost_usd(paid[1]) > prices.cost_usd(Usage(100_000, 0, 5_000, 2_000))
        assert session.total_usage.output == 2_900


@on_both
def test_missing_usage_is_an_estimate(fake):
    """W23: a server without usage leaves an estimate, never 0, and the turn works."""
    with fake([reply("Hi.", usage=NO_USAGE)]) as server, plain_talk(server) as session:
        events = run(session)
        assert events[-1].outcome == "done"
        assert session.context()["is_estimate"] is True
        assert session.context()["used_tokens"] > 100


def test_the_output_limit_and_the_window_stop():
    """W15, W16: cut replies run no tool; partial text is kept; the log stays valid."""
    half = max_tokens("Half ", call("run_code", _raw='{"code": "bo'))
    script = [half, half, "rest.", "ok"]
    with FakeAnthropic(script) as server, plain_talk(server) as session:
        assert run(session)[-1].outcome == "done"
        assert run(session, "more")[-1].outcome == "done"
        assert_healthy(server)
        assert not session._ports.tools.calls
    big = "w " * 3_000
    script = [reply(big), window_exceeded("Partial"), "Summary.", "and the rest."]
    with FakeAnthropic(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session)
        events = run(session, "more")
        assert len(of(events, CompactionFinished)) == 1
        assert events[-1].outcome == "done"
        assert "Partial" in str(server.messages[-1].json["messages"])
        assert_healthy(server)


@on_both
def test_a_refusal_is_told_in_the_providers_words(fake):
    """A refusal ends the turn; the exchange is left out; the next prompt goes through."""
    script = [refuse("This asks for harm."), "Fine."]
    with fake(script) as server, plain_talk(server) as session:
        events = run(session, "bad")
        assert events[-1].stop_reason == "refusal"
        assert "This asks for harm." in events[-1].error
        run(session, "good")
        assert spoken(server.messages[-1]) == ["user"]
        assert_healthy(server)


@on_both
def test_odd_replies_are_survived(fake):
    """A tool that does not exist, arguments off schema, an id twice: results, not failures."""
    from jupyter_ctx.errors import ToolError

    def picky(**input_):
        raise ToolError("`n` must be a number.")

    script = [
        reply(tools=[call("fly", to="moon"), call("picky", n="x")]),
        reply(tools=[call("run_code", _id="same", code="print(1)")]),
        reply(tools=[call("run_code", _id="same", code="print(2)")]),
        "Done.",
    ]
    with (
        fake(script) as server,
        plain_talk(server, tools=FakeTools(picky=picky)) as session,
    ):
        assert run(session)[-1].outcome == "done"
        assert_healthy(server)


@on_both
def test_recent_cells_come_back_in_their_present_form(fake):
    """C15: after a compaction the cells run last with new source are there, by id, newest first."""
    from jupyter_ctx.core.ports import Cell

    kernel = FakeKernel(
        {"df": object()},
        [
            Cell("aaa", "a = 'old and untouched'", 1, 8, source_order=1),
            Cell("bbb", "b = 'second, present form'", 4, 4),
            Cell("ccc", "c = 'newest, present form'", 5, 5),
            Cell("ddd", "%agent do it", 6, 6, is_agent=True),
            Cell("eee", "e = 'older than the two'", 2, 2),
        ],
    )
    large = call("run_code", code="for i in range(2_000): print('row', i)")
    script = answering([large, *steps(30, 80), "Done."])
    with (
        fake(script, models=SMALL) as server,
        plain_talk(server, tools=FakeTools(kernel), recent_cells=2) as session,
    ):
        events = run(session)
        entry = session.find_compaction()
        text = text_of(entry.message.content)

        assert of(events, CompactionFinished)
        assert text.index("newest, present form") < text.index("second, present form")
        assert "untouched" not in text
        assert "older than the two" not in text
        assert "cell:eee (In[2])" in text
        assert (
            text.index("# Names alive")
            < text.index("# Stored results")
            < text.index("dited or run most recently")
        )
        assert "%agent do it" not in text
        assert "`df`" in text
        assert {item.kind for item in entry.reinjected} >= {"instruction", "variable", "cell"}


@on_both
def test_model_off_and_manual(fake):
    """`manual` compacts only on command; `off` never; both say so rather than drop text."""
    for mode in ("manual", "off"):
        script = answering([*steps(60, 80), "Done."])
        with (
            fake(script, models=SMALL) as server,
            plain_talk(server, compaction=mode) as session,
        ):
            events = run(session)
            assert events[-1].outcome == "failed"
            assert "Prompt too long" in events[-1].error
            assert not of(events, CompactionFinished)
            assert_never_over_window(server.messages)
            if mode == "manual":
                session.compact()
                assert session.context()["used_tokens"] < 10_000


def test_the_cost_of_a_session():
    """Every call is in the cost: replies, summaries, and 1-hour writes at their own price."""
    script = [reply("w " * 3_000), "x", "Summary."]
    with (
        FakeAnthropic(script) as server,
        plain_talk(server, cache_ttl="1h", tail_tokens=0) as session,
    ):
        run(session)
        run(session)
        session.compact()
        usage = session.total_usage
        assert usage.cache_write_1h == usage.cache_write
        assert usage.input_tokens == sum(r.plan.input_tokens for r in server.messages)
        assert session.facts.prices is not None
        assert session.total_cost_usd == pytest.approx(session.facts.prices.cost_usd(usage))


@on_both
def test_notes_name_what_was_reduced(fake):
    """C10: a prompt that cannot fit is stored and previewed; the request fits; no word is lost."""
    with fake(["Ok."], models=SMALL) as server, plain_talk(server) as session:
        book = "In the beginning there was a table. " * 20_000
        events = run(session, book)
        assert events[-1].outcome == "done"
        assert_never_over_window(server.messages)
        assert "prompt-1" in last_text(server.messages[0].json)
        assert of(events, NoteAdded)
