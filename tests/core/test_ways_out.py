"""Ways a step or a compaction can come out that are rare, and leave a valid log all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

from jupyter_ctx.core.blocks import Text, text_of, tool_results
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.entries import CompactionEntry, ExcludeEntry, MessageEntry, SpentEntry
from jupyter_ctx.core.events import (
    CtxEvent,
    NoteAdded,
    RetryScheduled,
    StepFinished,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from jupyter_ctx.core.loop import PAUSED_TEXT
from jupyter_ctx.core.ports import (
    BlockDone,
    Delta,
    ModelFacts,
    ReplyDone,
    Request,
    SpooledText,
    ToolOutput,
)
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.repair import INTERRUPTED_TEXT, repair
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import (
    CompactionError,
    OverloadedError,
    PromptTooLongError,
    RequestTooLargeError,
)
from jupyter_ctx.testing import (
    FakeSession,
    FakeTools,
    MemoryStore,
    ScriptedModel,
    ScriptedReply,
    call,
    make_session,
    reply,
    thinking,
)

BIG = "many words about it " * 300


def small(window: int) -> ModelFacts:
    return ModelFacts("scripted", window, "api", 4_000, factor_prior=1.0)


def run(session: FakeSession, text: str = "go") -> list[CtxEvent]:
    """Run one turn and return its events; the view is whole afterwards."""
    events: list[CtxEvent] = []
    session.ask(text, on_event=events.append)
    assert repair(session.transcript.view) == tuple(session.transcript.view)
    return events


def end_of(events: list[CtxEvent]) -> TurnFinished:
    last = events[-1]
    assert isinstance(last, TurnFinished)
    return last


def notes_of(events: list[CtxEvent]) -> list[str]:
    return [event.title for event in events if isinstance(event, NoteAdded)]


# A step -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
def test_a_turn_takes_no_more_steps_than_it_may(most: int) -> None:
    """With a limit of steps the turn ends after so many, done, its last calls answered."""
    model = ScriptedModel(*(reply(call("run_code", code="print(1)")) for _ in range(9)))
    session = make_session(model, steps_per_turn=most)
    end = end_of(run(session))

    assert (end.outcome, end.stop_reason, end.steps) == ("done", "steps_per_turn", most)
    assert len(model.requests) == most


def test_a_turn_given_up_half_way_is_mended_by_the_next_prompt() -> None:
    """Who leaves the events before a call has run leaves it open; the next prompt answers it."""
    session = make_session(ScriptedModel(reply(call("run_code", code="1")), reply("Yes.")))

    async def leave() -> None:
        async with aclosing(session.run("go")) as events:
            async for event in events:
                if isinstance(event, StepFinished):
                    return

    asyncio.run(leave())
    assert repair(session.transcript.view) != tuple(session.transcript.view)
    run(session, "and now?")

    kinds = [e.kind for e in session.transcript.entries if isinstance(e, MessageEntry)]
    assert kinds == ["prompt", "reply", "repair", "prompt", "reply"]


def leave_at(session: FakeSession, kind: type[CtxEvent]) -> None:
    """Iterate a turn's events up to the first of a kind, then give them up."""

    async def leave() -> None:
        async with aclosing(session.run("go")) as events:
            async for event in events:
                if isinstance(event, kind):
                    return

    asyncio.run(leave())


def test_a_call_that_has_run_keeps_its_result_when_the_events_are_left() -> None:
    """A tool that has finished has its result in the log; only the rest is said not to have run."""
    calls = (call("run_code", code="1"), call("run_code", code="2"))
    tools = FakeTools(run_code=lambda code: "a result")
    session = make_session(ScriptedModel(reply(*calls), reply("Yes.")), tools=tools)
    leave_at(session, ToolFinished)

    first, second = tool_results(session.transcript.view[-1])
    assert text_of(first.content) == "a result"
    assert (second.is_error, text_of(second.content)) == (True, INTERRUPTED_TEXT)
    assert repair(session.transcript.view) == tuple(session.transcript.view)


def test_what_the_model_was_to_be_told_waits_for_a_turn_that_is_recorded() -> None:
    """A notice of a turn that is given up before its prompt is stored comes with the next one."""
    session = make_session(ScriptedModel(reply("Yes.")))
    session.add_startup_note("The kernel was restarted.")
    leave_at(session, TurnStarted)
    run(session)

    assert "The kernel was restarted." in str(session.model.requests[0].messages[-1])


def test_a_long_prompt_that_cannot_be_stored_is_asked_all_the_same() -> None:
    """A full disk costs a warning: the model sees beginning and end of the prompt."""
    store = MemoryStore()
    session = make_session(ScriptedModel(reply("Yes."), facts=small(8_000)), store=store)
    store.fails = True
    events = run(session, "a book, " * 9_000)

    assert end_of(events).outcome == "done"
    assert "The session cannot be saved." in notes_of(events)
    assert "prompt-1.txt" in str(session.model.requests[0].messages)


def test_what_is_attached_and_does_not_fit_is_told_to_the_user() -> None:
    """A cut attachment costs a warning; what fits is sent in silence. No key goes along."""
    key = "sk-ant-0123456789"
    model = ScriptedModel(reply("Yes."), reply("Yes."), facts=small(8_000))
    session = make_session(model, redactor=Redactor({"THE_KEY": key}))
    few: list[CtxEvent] = []
    session.ask("see", attachments=[Text(f"use {key}")], on_event=few.append)
    much: list[CtxEvent] = []
    session.ask("see", attachments=[Text("a book, " * 9_000)], on_event=much.append)

    assert "What is attached does not fit whole." not in notes_of(few)
    assert "What is attached does not fit whole." in notes_of(much)
    assert key not in str(model.requests)


class Stream(ScriptedModel):
    """A model whose stream is made by `make`, which need not be a generator."""

    def __init__(self, *make: Callable[[], AsyncIterator[Delta]]) -> None:
        super().__init__()
        self.make = list(make)

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Return the next stream as it is."""
        self.requests.append(request)
        return self.make.pop(0)()


class Items:
    """A stream that cannot be closed, as some clients give."""

    def __init__(self, *items: Delta) -> None:
        self.items = list(items)

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        if not self.items:
            raise StopAsyncIteration
        return self.items.pop(0)


def test_a_stream_that_just_ends_is_a_broken_one() -> None:
    """Without its last word a reply is not complete: it is asked for again, nothing is kept."""
    said, end = BlockDone(Text("Yes.")), ReplyDone("end_turn", Usage(9, 0, 0, 1))
    session = make_session(Stream(lambda: Items(said), lambda: Items(said, end)))
    events = run(session)

    assert end_of(events).text == "Yes."
    assert sum(isinstance(event, RetryScheduled) for event in events) == 1
    assert [text_of(m.content) for m in session.transcript.view] == ["go", "Yes."]


def test_a_cut_reply_without_text_is_paid_for_and_gone_on_from() -> None:
    """Thinking alone cannot be sent back: it is left out, its tokens are not, and nobody warns."""
    cut = reply(thinking("hm"), stop_reason="max_tokens")
    model = ScriptedModel(cut, reply("Yes."), facts=small(8_000))
    session = make_session(model, continuations=1)
    events = run(session)

    assert end_of(events).text == "Yes."
    (spent,) = [e for e in session.transcript.entries if isinstance(e, SpentEntry)]
    assert "max_tokens" in spent.reason
    assert notes_of(events) == []


def test_a_paused_reply_that_changed_is_gone_on_from_by_words() -> None:
    """A reply without all its blocks cannot stand last: the user asks to go on."""
    paused = reply("One.", thinking("hm"), stop_reason="pause_turn")
    model = ScriptedModel(paused, reply("Two."))
    session = make_session(model)
    run(session)

    assert text_of(model.requests[1].messages[-1].content) == PAUSED_TEXT


def test_a_refusal_after_a_compaction_leaves_what_was_compacted() -> None:
    """Where the turn's prompt is part of a summary, nothing can be left out; the turn ends."""
    summary = reply("The summary.")
    steps = iter([*(reply(BIG, call("run_code", code=f"print({n})")) for n in range(5))])
    refusal = reply("No.", stop_reason="refusal")

    def answer(request: Request) -> ScriptedReply:
        is_compacted = "<summary>" in text_of(request.messages[0].content)
        if is_instruction(request.messages[-1]):
            return summary
        return refusal if is_compacted else next(steps)

    session = make_session(
        ScriptedModel(*[answer] * 9, facts=small(8_000)), tail_tokens=0, prepare_calls=0
    )
    end = end_of(run(session))

    assert (end.outcome, end.stop_reason) == ("failed", "refusal")
    assert session.transcript.compactions
    assert not [e for e in session.transcript.entries if isinstance(e, ExcludeEntry)]


def test_a_tool_that_a_session_was_not_told_of_is_no_tool_of_it() -> None:
    """A newer version has more tools; in an older session a call of one is an error."""
    old = make_session(ScriptedModel(reply("Hello.")))
    run(old)
    ran: list[str] = []

    def make() -> str:
        ran.append("make")
        return "made"

    tools = FakeTools(make=make)
    model = ScriptedModel(reply(call("make")), reply("Well."))
    session = make_session(model, entries=old.transcript.entries, tools=tools)
    run(session)

    assert "There is no tool `make` in this session." in str(model.requests[1].messages[-1])
    assert ran == []


def test_the_keys_of_a_spooled_text_are_taken_out_of_what_is_shown() -> None:
    """Head and tail of a text that is only in a file are redacted like any other."""
    key = "sk-ant-0123456789"
    spooled = SpooledText("big.txt", 9_000_000, 1, 9_000_000, f"head {key} ", f" {key} tail")
    tools = FakeTools(make=lambda: ToolOutput(spooled))
    model = ScriptedModel(reply(call("make")), reply("Yes."))
    session = make_session(model, tools=tools, redactor=Redactor({"THE_KEY": key}))
    run(session)

    shown = str(model.requests[1].messages[-1])
    assert key not in shown
    assert shown.count("[redacted: THE_KEY]") == 2


# A compaction -----------------------------------------------------------------------------------


def talked(
    *answers: ScriptedReply | BaseException,
    model: type[ScriptedModel] = ScriptedModel,
    turns: int = 3,
) -> FakeSession:
    """Return a session of so many long turns, ready to be compacted."""
    script = [reply(BIG) for _ in range(turns)]
    session = make_session(model(*script, *answers, facts=small(200_000)), tail_tokens=0)
    for _ in script:
        run(session)
    return session


@pytest.mark.parametrize("error", [RequestTooLargeError("413"), PromptTooLongError("too long")])
def test_a_compaction_request_that_is_refused_is_cut_and_sent_again(error: Exception) -> None:
    """Too many bytes or tokens: the oldest turns leave the request, not the conversation."""
    session = talked(error, reply("The summary."))
    entry = session.compact()

    first, second = session.model.requests[-2:]
    assert len(second.messages) < len(first.messages)
    assert second.messages[-1] == first.messages[-1]
    assert entry.first_turn == 1


@pytest.mark.parametrize(
    ("retries", "words"), [(0, "too long:"), (1, "though it was cut once:"), (2, "cut 2 times:")]
)
def test_a_compaction_that_stays_too_long_says_how_often_it_was_cut(
    retries: int, words: str
) -> None:
    """After the last retry the error has the size, what there is, and what the provider said."""
    script = [reply(BIG) for _ in range(9)]
    refusals = [PromptTooLongError("prompt is too long") for _ in range(retries + 1)]
    model = ScriptedModel(*script, *refusals, facts=small(200_000))
    session = make_session(model, tail_tokens=0, compaction_retries=retries)
    for _ in script:
        run(session)
    with pytest.raises(CompactionError, match=rf"{words} ≈[\d,]+ of 200,000 tokens\. prompt is"):
        session.compact()

    assert model.answers == []
    assert session.transcript.failures_in_a_row == 1


class Uncountable(ScriptedModel):
    """A model whose count fails."""

    async def count_tokens(self, request: Request) -> int | None:
        """Raise an error."""
        raise OverloadedError("busy")


class PartCounted(ScriptedModel):
    """A model that counts a part of the prompt only."""

    async def count_tokens(self, request: Request) -> int | None:
        """Return far too little."""
        return 3


@pytest.mark.parametrize("model", [ScriptedModel, Uncountable, PartCounted])
def test_a_count_that_fails_leaves_the_estimate(model: type[ScriptedModel]) -> None:
    """A request that seems too long is counted by the provider; if it cannot, the guess cuts."""
    session = talked(reply("The summary."), model=model)
    session.settings = session.settings.__class__(window_tokens=4_000, tail_tokens=0)
    entry = session.compact()

    assert isinstance(entry, CompactionEntry)
    assert len(session.model.requests[-1].messages) < 6


def test_where_nobody_knows_the_longest_answer_the_window_bounds_a_summary() -> None:
    """Without a figure for the model's output the summary may have its budget and thinking."""
    facts = ModelFacts("scripted", 200_000, "api", None, factor_prior=1.0)
    script = [reply(BIG), reply(BIG), reply("The summary.")]
    session = make_session(ScriptedModel(*script, facts=facts), tail_tokens=0)
    run(session)
    run(session)
    session.compact()

    assert session.model.requests[-1].max_tokens == 11_000


def test_a_compaction_for_which_there_is_no_room_says_its_size() -> None:
    """Where nothing is left to cut, the error has what the request takes and what there is."""
    session = talked()
    session.settings = session.settings.__class__(window_tokens=700, tail_tokens=0)
    with pytest.raises(CompactionError, match=r"It takes ≈[\d,]+ of 700 tokens\."):
        session.compact()


def test_a_summary_far_longer_than_asked_for_is_cut() -> None:
    """Half as much again is let pass; more is cut, and says so."""
    session = talked(reply("s" * 40_000), turns=9)
    entry = session.compact()

    assert entry.summary.endswith("[… longer than asked for, cut]")
    assert session._engine.meter.estimate_text(entry.summary) <= 4_600
