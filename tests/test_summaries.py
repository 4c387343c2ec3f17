"""What a user does to a summary: undo brings the exact log back, an edit stands in what is sent."""

import pytest

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.entries import ModelEntry, RewindEntry, SummaryEditEntry, SummaryUndoEntry
from jupyter_ctx.core.ports import ModelFacts
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.core.view import build_view
from jupyter_ctx.errors import BusyError, CompactionError, PromptError
from jupyter_ctx.testing import MemoryStore, ScriptedModel, make_session
from jupyter_ctx.testing import reply as scripted
from tests import both
from tests.both import on_both
from tests.fake_anthropic import FakeAnthropic, FakeModel, call, reply
from tests.fake_anthropic.checks import assert_healthy
from tests.talk import MODEL, run, talk

BINDING = {MODEL: FakeModel(window=200_000, max_output=8_000, binds_thinking=True)}
BIG = "many words about it " * 300


def step(text):
    return reply(text, thinking=f"about {text[:9]}", tools=[call("run_code", code="print(1)")])


def thoughts(record):
    mark = '"type":"thinking"' if both.is_messages(record) else '"reasoning_content"'
    return record.body.decode().count(mark)


def compacted(*later, window=200_000, **more):
    """A session after a compaction, with `later` answers left in its script."""
    facts = ModelFacts("scripted", window, "api", 4_000, factor_prior=1.0)
    answers = [scripted(BIG), scripted(BIG), scripted("The summary.")]
    model = ScriptedModel(*answers, *map(scripted, later), facts=facts)
    session = make_session(model, tail_tokens=0, **more)
    session.ask("one")
    session.ask("two")
    session.compact()
    return session


@on_both
def test_undo_sends_the_exact_log_from_before(fake):
    """The next request is the last one from before, byte for byte, then what came since."""
    script = [step(BIG), step(BIG), "So.", "Summary.", step("Since."), "Then.", "Whole."]
    with (
        fake(script, models=BINDING) as server,
        talk(server, tail_tokens=0) as session,
    ):
        run(session, "one")
        before = list(session.transcript.view)
        session.compact()
        run(session, "two")
        undo = session.undo_summary()
        run(session, "three")

        assert list(session.transcript.view)[: len(before)] == before
        assert undo.messages == 5
        first, last = server.messages[2], server.messages[-1]
        assert both.assert_append_only([first, last]) == 0
        is_bound = fake is FakeAnthropic
        assert ("about Since" in last.body.decode()) is not is_bound
        assert "about many" in last.body.decode()
        assert session.summary()["state"] == "undone"
        assert not server.unused
        assert_healthy(server)


@on_both
def test_an_edited_summary_stands_in_the_next_request(fake):
    """The user's text takes the summary's place; thinking bound to the old one is left out.

    Only the Messages API binds it.
    """
    script = [step(BIG), step(BIG), "So.", "Old summary.", step("Since."), "Then.", "Whole."]
    with (
        fake(script, models=BINDING) as server,
        talk(server, tail_tokens=0) as session,
    ):
        run(session, "one")
        session.compact()
        run(session, "two")
        assert thoughts(server.messages[-1]) == 1
        edited = session.edit_summary("  New *words*.\nTwo lines. ")
        run(session, "three")

        body = server.messages[-1].body.decode()
        assert "New *words*.\\nTwo lines." in body
        assert "Old summary" not in body
        assert "# What the user asked" in body
        assert thoughts(server.messages[-1]) == (0 if fake is FakeAnthropic else 1)
        assert edited.summary == "New *words*.\nTwo lines."
        assert session.summary()["state"] == "edited"
        assert session.summary()["summary"] == edited.summary
        assert not server.unused
        assert_healthy(server)


def test_both_are_entries_that_a_resumed_session_has():
    """Undo and edit are appended; who reads the log again sees the same."""
    store = MemoryStore()
    session = compacted(store=store)
    session.edit_summary("Mine.")
    assert isinstance(store.entries[-1], SummaryEditEntry)
    resumed = make_session(ScriptedModel(), entries=list(store.entries))
    assert resumed.transcript.view == session.transcript.view
    assert resumed.summary() == session.summary()
    session.undo_summary(1)
    assert isinstance(store.entries[-1], SummaryUndoEntry)
    resumed = make_session(ScriptedModel(), entries=list(store.entries))
    assert [text_of(m.content) for m in resumed.transcript.view] == ["one", BIG, "two", BIG]
    assert resumed.summary() == session.summary()


def test_what_an_undo_brings_back_takes_what_it_took_before():
    """The provider's own figure counts, not an estimate; after a switch of the model it does not.

    Digits and the like take another number of tokens than the estimate says.
    """
    measured = Usage(uncached=4_000, cache_read=0, cache_write=0, output=0)
    answers = [scripted(BIG), scripted(BIG, usage=measured), scripted("The summary.")]
    model = ScriptedModel(*answers, scripted("Later."))
    session = make_session(model, tail_tokens=0)
    session.ask("one")
    session.ask("two")
    entry = session.compact()

    assert session.plan_undo().tokens == entry.tokens_before == 4_000
    session.ask("three")
    assert 4_000 < session.plan_undo().tokens < 4_100
    session._engine.record(ModelEntry(0.0, "another"))
    view = build_view([*session.transcript.entries, session.plan_undo().entry])
    assert session.plan_undo().tokens == session._engine.meter.estimate_request(view)


def test_an_undo_that_would_not_fit_is_refused_with_its_figures():
    """What needs more than the window stays compacted; the sentence has messages and tokens."""
    session = compacted(window=200_000)
    view = list(session.transcript.view)
    session.settings = session.settings.__class__(window_tokens=3_000, tail_tokens=0)
    undo = session.plan_undo()

    assert undo.needed_tokens > 3_000
    with pytest.raises(CompactionError) as refused:
        session.undo_summary()
    assert str(refused.value) == undo.refusal
    assert undo.refusal == (
        f"Undo puts the {undo.messages} messages back. That needs {undo.needed_tokens:,} of 3,000 "
        "tokens now, so choose a larger model first."
    )
    assert list(session.transcript.view) == view


def test_only_the_newest_compaction_in_force_is_changed():
    """Before any compaction, for another one, or after its undo or rewind there is nothing."""
    session = make_session(ScriptedModel())
    with pytest.raises(PromptError, match="No compaction is in force, so none can be undone"):
        session.undo_summary()
    with pytest.raises(PromptError, match="No compaction is in force, so none can be edited"):
        session.edit_summary("x")
    session = compacted("Three.")
    with pytest.raises(PromptError, match="newest compaction in force can be undone: 1, not 7"):
        session.undo_summary(7)
    session.ask("three")
    session._engine.record(RewindEntry(0.0, 2))
    assert session.summary()["state"] == "undone"
    with pytest.raises(PromptError, match="No compaction is in force"):
        session.undo_summary(1)


def test_an_edit_is_bounded_and_holds_no_key():
    """A blank or too long text is refused; the program's keys are taken out."""
    key = "sk-ant-0123456789"
    session = compacted(redactor=Redactor({"THE_KEY": key}))
    with pytest.raises(PromptError, match="The summary is empty"):
        session.edit_summary(" \n ")
    with pytest.raises(PromptError, match=r"too long: ≈4,\d+ tokens; it may take 3,000\."):
        session.edit_summary("four" * 4_000)
    assert session.edit_summary(f"use {key}").summary == "use [redacted: THE_KEY]"


def test_no_summary_changes_while_a_turn_runs():
    """A request under way is never changed behind its back."""
    session = compacted("Three.")
    refused = []

    def change(event):
        with pytest.raises(BusyError):
            session.undo_summary()
        with pytest.raises(BusyError):
            session.edit_summary("x")
        refused.append(event)

    session.ask("three", on_event=change)
    assert refused
    assert session.summary()["state"] == "active"
