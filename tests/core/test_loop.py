"""A turn from prompt to end, over fakes: what is recorded, what is sent, and every way out."""

import asyncio
import itertools

import pytest

from jupyter_ctx.core.blocks import (
    Text,
    block_to_wire,
    message_to_wire,
    text_of,
    tool_results,
    tool_uses,
)
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    NoteAdded,
    ResultOffloaded,
    RetryScheduled,
    StepDiscarded,
    StepFinished,
    TextDelta,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_ctx.core.ports import Allowed, ModelFacts, ToolOutput
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.repair import INTERRUPTED_TEXT, repair
from jupyter_ctx.core.usage import Prices, Usage
from jupyter_ctx.core.view import build_view
from jupyter_ctx.errors import (
    BusyError,
    CompactionError,
    OverloadedError,
    PromptError,
    PromptTooLongError,
    RateLimitedError,
    RequestRefusedError,
    StreamBrokenError,
)
from jupyter_ctx.testing import (
    DenyAll,
    FakeClock,
    FakeTools,
    MemoryStore,
    ScriptedModel,
    call,
    make_session,
    reply,
    thinking,
)


def run(session, text="go"):
    """Run one turn and return its events."""
    events = []
    session.ask(text, on_event=events.append)
    return events


def kinds(events):
    return [type(event).__name__ for event in events]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def wire(messages):
    return [message_to_wire(message) for message in messages]


def assert_append_only(requests):
    """Each request begins with the one before it, byte for byte, and with the same prefix."""
    for before, after in itertools.pairwise(requests):
        assert after.system == before.system
        assert after.tools == before.tools
        assert wire(after.messages)[: len(before.messages)] == wire(before.messages)


def small(window=8_000, **more):
    return ModelFacts("scripted", window, "api", 4_000, factor_prior=1.0, **more)


def test_a_turn_without_tools():
    """Prompt, reply, end: events in order, and the view holds both messages."""
    session = make_session(ScriptedModel(reply("Hello there.")))
    events = run(session, "hi")

    assert isinstance(events[0], TurnStarted)
    assert isinstance(events[-1], TurnFinished)
    assert "".join(e.text for e in of(events, TextDelta)) == "Hello there."
    assert of(events, TextFinished)[0].text == "Hello there."
    assert events[-1].outcome == "done"
    assert [m.role for m in session.transcript.view] == ["user", "assistant"]
    assert str(session.last_turn) == "Hello there."


def test_tools_run_and_their_results_follow_at_once():
    """Results stand in the very next user message, in call order, and the turn goes on."""
    model = ScriptedModel(
        reply("Look:", call("run_code", code="print(6*7)"), call("run_code", code="1/0")),
        reply("42."),
    )
    session = make_session(model)
    events = run(session)
    uses = tool_uses(session.transcript.view[1])
    results = tool_results(session.transcript.view[2])

    assert [r.tool_use_id for r in results] == [u.id for u in uses]
    assert text_of(results[0].content) == "42\n"
    assert results[1].is_error
    assert len(of(events, ToolStarted)) == len(of(events, ToolFinished)) == 2
    assert_append_only(model.requests)


def test_nothing_is_told_before_it_is_stored():
    """When an event tells of a message, the store has it already."""
    store = MemoryStore()
    session = make_session(ScriptedModel(reply("Hello.")), store=store)
    seen = []
    session.ask("hi", on_event=lambda e: seen.append((type(e).__name__, len(store.entries))))
    stored = dict(reversed(seen))

    assert stored["StepFinished"] == stored["TurnFinished"] == len(store.entries)
    assert build_view(store.entries) == tuple(session.transcript.view)


def test_a_result_over_the_cap_is_offloaded_once_and_stays():
    """A large result leaves a preview; later requests carry the same bytes."""
    model = ScriptedModel(
        reply(call("run_code", code="for i in range(20000): print('line', i)")),
        reply(call("run_code", code="print(1)")),
        reply("Done."),
    )
    session = make_session(model)
    events = run(session)
    use = tool_uses(session.transcript.view[1])[0]
    shown = text_of(tool_results(session.transcript.view[2])[0].content)

    assert len(of(events, ResultOffloaded)) == 1
    assert session.transcript.fates[use.id].fate == "offload"
    assert "line 0" in shown
    assert "line 19999" in shown
    assert use.id in shown
    assert len(shown) < 3_000
    assert session.results[use.id].text.splitlines()[9_999] == "line 9999"
    assert_append_only(model.requests)


def test_an_empty_result_is_named():
    """A tool that prints nothing leaves a sentence, never an empty block."""
    session = make_session(ScriptedModel(reply(call("run_code", code="x = 1")), reply("ok")))
    run(session)

    result = tool_results(session.transcript.view[2])[0]
    assert text_of(result.content) == "(run_code completed with no output)"


def test_an_unknown_tool_is_an_error_result():
    """A tool that does not exist costs an error result, not the turn."""
    session = make_session(ScriptedModel(reply(call("fly", to="moon")), reply("I cannot.")))
    events = run(session)

    assert tool_results(session.transcript.view[2])[0].is_error
    assert events[-1].outcome == "done"


def test_a_denied_call_reaches_the_model():
    """A denial is an error result in the user's words, and no error of the turn."""
    session = make_session(
        ScriptedModel(reply(call("run_code", code="1")), reply("Then not.")),
        permissions=DenyAll("not that file"),
    )
    events = run(session)
    result = tool_results(session.transcript.view[2])[0]

    assert result.is_error
    assert text_of(result.content) == "Denied by the user: not that file"
    assert of(events, ToolFinished)[0].denied
    assert not of(events, ToolStarted)
    assert events[-1].outcome == "done"


def test_the_wait_for_a_permission_is_not_the_time_of_the_call():
    """A call's seconds begin when it is allowed: the person's thinking is not its run."""
    clock = FakeClock()

    class Slow(DenyAll):
        async def check(self, use, spec):
            clock.time += 20
            return Allowed()

    session = make_session(
        ScriptedModel(reply(call("run_code", code="1")), reply("Done.")),
        permissions=Slow(),
        clock=clock,
    )
    events = run(session)

    assert of(events, ToolFinished)[0].seconds == 0
    assert events[-1].seconds == 20


def test_retries_wait_and_send_the_same():
    """529 and 429 wait, honour retry-after, and send the same request again."""
    model = ScriptedModel(
        OverloadedError("busy", status=529),
        RateLimitedError("slow", retry_after_s=7),
        reply("At last."),
    )
    session = make_session(model)
    events = run(session)

    assert events[-1].outcome == "done"
    assert [e.attempt for e in of(events, RetryScheduled)] == [2, 3]
    assert session.clock.sleeps[1] >= 7
    assert model.requests[0] == model.requests[1] == model.requests[2]


def test_a_wait_is_ended_by_the_user_and_no_other():
    """The try is made at once, counted as any; a word about a wait that is over does nothing."""
    busy = OverloadedError("busy", status=529)
    session = make_session(ScriptedModel(busy, busy, reply("At last.")))
    told = []

    async def watch():
        async for event in session.run("go"):
            if isinstance(event, RetryScheduled):
                key = (event.turn, event.step)
                told.append([session.try_now(*key, n) for n in (1, event.attempt, 9)])
                await asyncio.sleep(0)  # the loop hears it while the event is looked at
        return event

    assert asyncio.run(watch()).outcome == "done"
    assert told == [[False, True, False]] * 2
    assert session.clock.sleeps == [0, 0]
    assert not session.try_now(1, 1, 2)


def test_a_stream_that_breaks_leaves_no_half_message():
    """A broken stream is tried again, and what was shown of it is said to be void."""

    class Breaks(ScriptedModel):
        async def stream(self, request):
            first = not self.requests
            async for delta in super().stream(request):
                yield delta
                if first:
                    raise StreamBrokenError("cut")

    session = make_session(Breaks(reply("One two three."), reply("Whole.")))
    events = run(session)

    assert len(of(events, StepDiscarded)) == 1
    assert [text_of(m.content) for m in session.transcript.view] == ["go", "Whole."]


def test_a_failed_first_step_leaves_the_prompt_out():
    """A turn that was never answered can be sent again without standing there twice."""
    model = ScriptedModel(RequestRefusedError("quota used up", status=402), reply("Hello."))
    session = make_session(model)
    events = run(session, "hi")

    assert events[-1].outcome == "failed"
    assert events[-1].error == "quota used up"
    assert not session.transcript.view
    run(session, "hi")
    assert [text_of(m.content) for m in model.requests[1].messages] == ["hi"]


def test_a_failure_in_mid_turn_keeps_the_steps():
    """Steps that were done stay, and the next prompt goes on from a valid log."""
    model = ScriptedModel(
        reply(call("run_code", code="print(1)")),
        RequestRefusedError("no", status=400),
        reply("Good."),
    )
    session = make_session(model)
    run(session, "first")
    view = list(session.transcript.view)
    run(session, "second")

    assert repair(view) == tuple(view)
    assert "failed" in text_of(view[-1].content)
    assert_append_only([model.requests[0], model.requests[1], model.requests[2]])


@pytest.mark.parametrize("at", ["first_token", "mid_stream", "tool", "between_tools"])
def test_stop_anywhere_leaves_a_valid_log(at):
    """Stop at any point ends the turn, keeps what was finished, and the next prompt works."""

    class Stops(ScriptedModel):
        async def stream(self, request):
            if at == "first_token" and len(self.requests) == 0:
                self.requests.append(request)
                session.cancel()
                await asyncio.sleep(3600)
            async for delta in super().stream(request):
                yield delta
                if at == "mid_stream" and len(self.requests) == 1:
                    session.cancel()
                    await asyncio.sleep(3600)

    class Tools(FakeTools):
        async def run(self, use, cap_chars):
            if at == "tool" and len(self.calls) == 0:
                self.calls.append(use)
                session.cancel()
                await asyncio.sleep(3600)
            if at == "between_tools" and len(self.calls) == 1:
                self.kernel.interrupts = True
            return await super().run(use, cap_chars)

    answers = {
        "first_token": [],
        "mid_stream": [reply("One two three four.")],
        "tool": [reply("Now", call("run_code", code="1"), call("run_code", code="2"))],
        "between_tools": [reply(*[call("run_code", code="print(1)") for _ in range(3)])],
    }[at]
    model = Stops(*answers, reply("Again."))
    session = make_session(model, tools=Tools())
    events = run(session)
    view = list(session.transcript.view)

    assert events[-1].outcome == "stopped"
    assert repair(view) == tuple(view)
    assert text_of(view[-1].content).endswith("[Stopped by the user]")
    if at == "mid_stream":
        assert text_of(view[1].content) == "One two t"
    if at == "tool":
        assert [text_of(r.content) for r in tool_results(view[2])] == [INTERRUPTED_TEXT] * 2
    if at == "between_tools":
        texts = [text_of(r.content) for r in tool_results(view[2])]
        assert texts == ["1\n", "1\n", INTERRUPTED_TEXT]
    session.kernel.interrupts = False
    assert run(session, "again")[-1].outcome == "done"
    assert_append_only(model.requests)


def test_the_output_limit_is_raised_once_then_continued():
    """A cut reply is asked again with the raised limit, then continued; no call of it runs."""
    model = ScriptedModel(
        reply("Half", call("run_code", code="boom"), stop_reason="max_tokens"),
        reply("First part", call("run_code", code="boom"), stop_reason="max_tokens"),
        reply("second part."),
    )
    session = make_session(model)
    events = run(session)

    assert not session.tools.calls
    assert len(of(events, StepDiscarded)) == 1
    assert model.requests[1].max_tokens > model.requests[0].max_tokens
    assert model.requests[1].messages == model.requests[0].messages
    texts = [text_of(m.content) for m in session.transcript.view]
    assert texts[1] == "First part"
    assert texts[-1] == "second part."
    assert_append_only(model.requests)


def test_a_refusal_leaves_the_exchange_out():
    """The provider's words end the turn and the exchange is not sent again."""
    model = ScriptedModel(reply("No.", stop_reason="refusal"), reply("Yes."))
    session = make_session(model)
    events = run(session, "bad")

    assert events[-1].outcome == "failed"
    assert events[-1].stop_reason == "refusal"
    assert "No." in events[-1].error
    run(session, "good")
    assert [text_of(m.content) for m in model.requests[1].messages] == ["good"]


def test_pause_turn_is_taken_up_again():
    """A paused reply is sent back and the turn goes on."""
    model = ScriptedModel(reply("Wait", stop_reason="pause_turn"), reply("Done."))
    session = make_session(model)

    assert run(session)[-1].outcome == "done"
    assert len(model.requests[1].messages) == 2


def test_pauses_and_continuations_are_settings():
    """So often a paused answer is taken up, and a cut one continued, as the settings say."""
    paused = [reply("part", stop_reason="pause_turn") for _ in range(3)]
    cut = [reply("part", stop_reason="max_tokens") for _ in range(3)]
    model = ScriptedModel(*paused, *cut)
    session = make_session(model, pauses=2, continuations=1)
    run(session)
    events = run(session)

    assert model.answers == []
    assert events[-1].stop_reason == "max_tokens"
    assert [n.turn for n in of(events, NoteAdded)] == [2]


def test_repeated_ids_are_replaced():
    """A tool_use id that was used before gets one of ours, so that pairs stay unique."""
    one = call("run_code", code="print(1)")
    model = ScriptedModel(reply(one), reply(one, one), reply("Done."))
    session = make_session(model)
    run(session)
    ids = [use.id for m in session.transcript.view for use in tool_uses(m)]

    assert len(set(ids)) == 3
    assert repair(session.transcript.view) == tuple(session.transcript.view)


def test_keys_are_redacted_everywhere():
    """A planted key is in no request, no entry, no event."""
    key = "sk-ant-planted-0123456789"
    model = ScriptedModel(
        reply(f"It is {key}.", call("run_code", code=f"print('{key}')")), reply("ok")
    )
    session = make_session(model, redactor=Redactor({"ANTHROPIC_API_KEY": key}))
    events = run(session, f"my key {key}")

    assert key not in str([e for e in events if not isinstance(e, TurnStarted)])
    assert key not in str(session.store.entries)
    assert key not in str(model.requests)
    assert "[redacted: ANTHROPIC_API_KEY]" in str(model.requests[-1])


def test_a_store_that_fails_costs_a_warning():
    """A full disk is said once; the turn goes on in memory with previews."""
    store = MemoryStore()
    store.fails = True
    model = ScriptedModel(reply(call("run_code", code="print('x' * 60_000)")), reply("Done."))
    session = make_session(model, store=store)
    events = run(session)
    warnings = [e for e in of(events, NoteAdded) if e.level == "warning"]

    assert events[-1].outcome == "done"
    assert len(warnings) == 1
    assert "cannot be saved" in warnings[0].title


def test_blank_prompts_and_second_turns_are_refused():
    """An empty prompt raises before anything is sent; so does a turn within a turn."""
    model = ScriptedModel(reply(call("again")))

    def again():
        with pytest.raises(BusyError):
            asyncio.run(anext(session.run("inner")))
        model.answers.append(reply("ok"))
        return "refused"

    session = make_session(model, tools=FakeTools(again=lambda: again_in_thread(again)))
    with pytest.raises(PromptError):
        session.ask("  \n")
    assert run(session)[-1].outcome == "done"


def again_in_thread(function):
    """Run `function` on another thread, where no loop runs."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


# Compaction -------------------------------------------------------------------------------------


def chatty(n, chars=1_900):
    """n steps, each printing `chars` letters."""
    return [reply(call("run_code", code=f"print('{i}' * {chars})")) for i in range(n)]


def test_compaction_between_steps_and_the_turn_goes_on():
    """Crossing the reserve compacts between tool rounds; the turn goes on with the prompt kept."""
    summary = reply("## Task\nCount. Three steps are done.")
    model = ScriptedModel(facts=small())
    script = iter([*chatty(60), reply("Done.")])
    model.answers = [answer_or_summary(script, summary)] * 70
    session = make_session(model)
    events = run(session, "Count to sixty, please: KEEP-THIS-VERBATIM")

    assert events[-1].outcome == "done"
    assert len(of(events, CompactionFinished)) >= 2
    assert len([e for e in events if isinstance(e, TurnFinished)]) == 1
    for request in model.requests:
        sent = wire(request.messages)
        assert "KEEP-THIS-VERBATIM" in str(sent[0]) + str(sent[1:2])
        assert repair(request.messages) == request.messages
    for event in of(events, CompactionFinished):
        assert event.tokens_after < event.tokens_before


def answer_or_summary(script, summary):
    """Answer a compaction request with `summary`, everything else with the next of `script`."""

    def answer(request):
        return summary if is_instruction(request.messages[-1]) else next(script)

    return answer


def test_the_compaction_request_extends_a_request_already_sent():
    """Same system, tools and messages as last sent, the same breakpoints, and one message more."""
    model = ScriptedModel(facts=small())
    script = iter([*chatty(24), reply("Done.")])
    model.answers = [answer_or_summary(script, reply("Summary."))] * 20
    run(make_session(model))
    for i, request in enumerate(model.requests):
        if is_instruction(request.messages[-1]):
            last = model.requests[i - 1]
            assert request.messages[:-1] == last.messages
            assert request.breakpoints == last.breakpoints
            assert (request.system, request.tools) == (last.system, last.tools)
            break
    else:
        pytest.fail("no compaction happened")


def test_the_tail_keeps_its_thinking_only_where_it_is_not_bound():
    """On a model that binds thinking, nothing kept behind a summary has thinking; else all has."""
    for binds in (True, False):
        model = ScriptedModel(facts=small(16_000, binds_thinking=binds))
        steps = [
            reply(thinking(f"thought {i}"), call("run_code", code=f"print('{i}' * 1_900)"))
            for i in range(40)
        ]
        script = iter([*steps, reply("Done.")])
        model.answers = [answer_or_summary(script, reply("Summary."))] * 60
        session = make_session(model)
        events = run(session)
        entry = session.find_compaction(1)
        after = next(r for r in model.requests if "<summary>" in text_of(r.messages[0].content))

        assert of(events, CompactionFinished)
        assert entry.drop_thinking == binds
        assert after.messages[1].role == "assistant"
        assert ("thought" in str(after.messages[1:])) != binds


def test_a_failed_compaction_leaves_the_log_and_the_third_pauses_it():
    """No text, a wrong stop, an error: the log is unchanged; after three, no fourth try."""
    bad = [reply(stop_reason="end_turn"), reply("x", stop_reason="max_tokens")] * 9
    summaries = iter(bad)
    steps = iter([*chatty(20), reply("Done.")])

    def answer(request):
        return next(summaries if is_instruction(request.messages[-1]) else steps)

    model = ScriptedModel(*[answer] * 30, facts=small())
    session = make_session(model)
    events = run(session)
    asked = [r for r in model.requests if is_instruction(r.messages[-1])]

    assert len(asked) == 3
    assert not of(events, CompactionFinished)
    assert session.state == "paused"
    assert_append_only([r for r in model.requests if r not in asked])


@pytest.mark.parametrize("moment", ["prepare_between_steps", "prepare_after_turn"])
def test_an_error_in_a_preparation_leaves_the_turn_done(moment, monkeypatch, caplog):
    """Where no summary can be begun, between steps or at the end, the turn goes on and says so."""

    def breaks(engine):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(f"jupyter_ctx.core.background.{moment}", breaks)
    session = make_session(ScriptedModel(reply("Done.")))
    events = run(session)

    assert [e.outcome for e in of(events, TurnFinished)] == ["done"]
    assert events[-1].text == session.last_turn.text == "Done."
    assert ["of ours" in note.detail for note in of(events, NoteAdded)] == [True]
    assert "ZeroDivisionError" in caplog.text
    assert session._engine.preparation_rests


def test_an_error_between_turns_leaves_the_turn_done(monkeypatch, caplog):
    """Where the wait for the prompt cache's end cannot begin, the turn is over, and it is noted."""

    def breaks(engine):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("jupyter_ctx.core.background.watch", breaks)
    session = make_session(ScriptedModel(reply("Done.")))
    events = run(session)

    assert [e.outcome for e in of(events, TurnFinished)] == ["done"]
    assert ["of ours" in note.detail for note in session.take_notes()] == [True]
    assert "ZeroDivisionError" in caplog.text
    assert session._engine.preparation_rests


def test_manual_compaction_with_a_focus():
    """`/compact FOCUS` shapes the summary; the focus is no part of the conversation after."""
    model = ScriptedModel(reply("A" * 4_000), reply("B" * 4_000), reply("Short summary."))
    session = make_session(model, tail_tokens=0)
    run(session, "one")
    run(session, "two")
    entry = session.compact("only the schema")

    assert entry.trigger == "manual"
    assert "only the schema" in text_of(model.requests[-1].messages[-1].content)
    assert "only the schema" not in str(session.transcript.view)
    assert session.summary()["summary"] == "Short summary."
    assert session.summary()["replaced"]["first_turn"] == 1
    assert session.context()["compactions"] == 1


def test_too_long_compacts_once_and_retries_once():
    """A prompt the provider finds too long is compacted once; the retry goes through."""
    model = ScriptedModel(
        reply("A" * 40_000),
        reply("B" * 40_000),
        PromptTooLongError(actual_tokens=210_000, limit_tokens=200_000),
        reply("Short summary."),
        reply("Done."),
    )
    session = make_session(model)
    run(session, "one")
    run(session, "two")
    events = run(session, "three")

    assert events[-1].outcome == "done"
    assert [e.trigger for e in of(events, CompactionFinished)] == ["reactive"]
    assert "three" in str(wire(model.requests[-1].messages))


def test_too_long_twice_is_told():
    """A second failure is shown, not retried without end."""
    too_long = PromptTooLongError("prompt is too long", actual_tokens=9, limit_tokens=8)
    model = ScriptedModel(reply("A" * 40_000), reply("B"), too_long, reply("Short."), too_long)
    session = make_session(model)
    run(session, "one")
    run(session, "one more")
    events = run(session, "two")

    assert events[-1].outcome == "failed"
    assert "too long" in events[-1].error


def test_a_summary_asked_for_again_may_not_get_longer():
    """Each retry of a compaction request has the output limit of the first."""
    too_long = PromptTooLongError("prompt is too long")
    answers = [reply("A" * 4_000) for _ in range(6)]
    model = ScriptedModel(*answers, too_long, too_long, reply("Summary."))
    session = make_session(model, tail_tokens=0)
    for _ in answers:
        run(session)

    session.compact()

    assert [request.max_tokens for request in model.requests[-3:]] == [11_000] * 3


def test_what_could_not_be_tried_is_no_failure():
    """A window that is full before anything can be dropped does not open the breaker."""
    model = ScriptedModel(*chatty(4, 10), reply("Done."), facts=small(1_300))
    session = make_session(model)
    events = run(session)

    failed = [event for event in events if isinstance(event, CompactionFailed)]
    assert [event.failures for event in failed] == [0]
    assert session.state == "idle"
    assert session.transcript.failures_in_a_row == 0
    with pytest.raises(CompactionError):
        make_session(ScriptedModel()).compact()


def test_a_prompt_that_is_too_long_is_told_with_its_parts_and_to_the_next_turn():
    """The user gets figures and the largest parts; the next prompt's model hears of it."""
    too_long = PromptTooLongError("too long: 9 > 8", actual_tokens=210_000, limit_tokens=200_000)
    model = ScriptedModel(too_long, reply("Hi."))
    session = make_session(model, compaction="manual")
    events = run(session, "one")
    run(session, "two")

    assert "too long: 9 > 8 Largest parts, in tokens: System" in events[-1].error
    assert "prompt before this one was not sent" in str(wire(model.requests[-1].messages))


def test_a_guess_of_ours_is_never_shown_as_measured():
    """A request that was not even sent teaches nothing: the figures stay estimates."""
    model = ScriptedModel(
        reply(call("run_code", code="print('x' * 300)"), usage=Usage(900, 0, 0, 50)),
        facts=small(1_900),
    )
    session = make_session(model, compaction="off")

    assert "Prompt too long" in run(session)[-1].error
    assert session.context()["measured_tokens"] == 950


def test_the_limit_is_not_raised_where_the_window_is_the_limit():
    """An answer that the window cut short is not asked for again, but continued."""
    half = reply("A" * 600, stop_reason="max_tokens")
    facts = ModelFacts("scripted", 16_000, "api", 64_000, factor_prior=1.0)
    model = ScriptedModel(reply("B" * 36_000), half, reply("Rest."), facts=facts)
    session = make_session(model)
    run(session)
    events = run(session)

    assert events[-1].outcome == "done"
    assert of(events, StepDiscarded) == []


@pytest.mark.parametrize("window", [8_000, 16_000, 64_000])
def test_the_law_holds_after_answers_as_long_as_they_may_be(window):
    """After every ingest, what is used, the compaction request and the summary fit the window."""
    model = ScriptedModel(facts=small(window))
    room = []

    def answer(request):
        room.append(session._engine.room().law_tokens)
        if is_instruction(request.messages[-1]):
            return reply("Short.")
        if len(model.requests) > 40:
            return reply("Done.")
        use = call("run_code", code="print('x' * 9_000)")
        most = request.max_tokens * 4 - len(str(block_to_wire(use))) - 120
        return reply("A" * most, use)

    model.answers = [answer] * 60
    session = make_session(model, output_tokens=64_000)
    ingests = []
    session.ask("go", on_event=lambda e: ingests.append(e) if isinstance(e, ToolFinished) else None)

    assert len(ingests) > 10
    assert min(room) > 0
    assert min(request.max_tokens for request in model.requests) >= 500


def test_usage_and_cost_of_a_turn():
    """A turn's usage counts every call, at the model's prices."""
    prices = Prices(1.0, 5.0, 0.1, 1.25, 2.0, "test")
    model = ScriptedModel(
        reply(call("run_code", code="print(1)"), usage=Usage(10, 0, 1_000, 100)),
        reply("ok", usage=Usage(10, 1_000, 50, 10)),
        facts=small(200_000, prices=prices),
    )
    finished = run(make_session(model))[-1]

    assert finished.usage == Usage(20, 1_000, 1_050, 110)
    assert finished.cost_usd == pytest.approx((20 + 100 + 1_312.5 + 550) / 1e6)


def test_the_gauge_is_the_providers_sum():
    """After a reply, what is measured is its whole input and output (W23)."""
    model = ScriptedModel(reply("ok", usage=Usage(3, 20_000, 150_000, 900)))
    session = make_session(model)
    before = session.context()
    run(session)
    after = session.context()

    assert before["is_estimate"]
    assert before["used_tokens"] > 0
    assert after["used_tokens"] == after["measured_tokens"] == 170_903
    assert sum(after["parts"].values()) == 170_903


def test_missing_usage_is_an_estimate_never_zero():
    """A provider without usage figures leaves an estimate."""
    session = make_session(ScriptedModel(reply("ok", usage=Usage())))
    run(session)

    assert session.context()["is_estimate"]
    assert session.context()["used_tokens"] > 0


def test_a_long_prompt_is_stored_and_previewed():
    """A prompt that would take the window is stored whole and sent as a preview."""
    model = ScriptedModel(reply("ok"), facts=small())
    session = make_session(model)
    book = "word " * 20_000
    events = run(session, book)

    assert events[-1].outcome == "done"
    assert session.store.texts["prompt-1"] == book
    assert len(str(wire(model.requests[0].messages))) < 12_000
    assert "prompt-1" in str(wire(model.requests[0].messages))


def test_tool_images_count_and_arrive():
    """Text and images of a result arrive in one result, text first."""
    from jupyter_ctx.core.blocks import Image

    image = Image("image/png", "aGk=", 100, 100)
    tools = FakeTools(plot=lambda: ToolOutput("a plot", (image,)))
    session = make_session(ScriptedModel(reply(call("plot")), reply("ok")), tools=tools)
    run(session)
    content = tool_results(session.transcript.view[2])[0].content

    assert content == (Text("a plot", content[0].part), image)


def test_steps_finish_in_order():
    """Every StepFinished comes before the tools of its step."""
    session = make_session(ScriptedModel(reply(call("run_code", code="1")), reply("ok")))
    names = kinds(run(session))

    assert names.index("StepFinished") < names.index("ToolStarted") < names.index("ToolFinished")
    assert len([n for n in names if n == StepFinished.__name__]) == 2


def test_a_failed_call_with_a_figure_is_text_only():
    """An error result may hold text only (the API refuses images in it): a line names the image."""
    from jupyter_ctx.core.blocks import Image

    image = Image("image/png", "aGk=", 100, 100)
    tools = FakeTools(plot=lambda: ToolOutput("Traceback", (image,), is_error=True))
    session = make_session(ScriptedModel(reply(call("plot")), reply("ok")), tools=tools)
    run(session)
    content = tool_results(session.transcript.view[2])[0].content

    assert all(isinstance(block, Text) for block in content)
    assert "1 image" in text_of(content)


def test_no_reply_ends_with_thinking():
    """A cut reply whose thinking would stand last is kept without it (the API refuses it)."""
    blocks = (thinking("a"), Text("Half"), thinking("b"))
    model = ScriptedModel(
        reply(*blocks, stop_reason="max_tokens"),
        reply(*blocks, stop_reason="max_tokens"),
        reply("rest."),
    )
    session = make_session(model)
    run(session)

    assert session.transcript.view[1].content == blocks[:2]
