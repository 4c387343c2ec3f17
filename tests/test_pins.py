"""Pins: told at once, verbatim once through every compaction, bounded, and taken off again."""

import json

import pytest

from jupyter_ctx.core.blocks import text_of, words_of
from jupyter_ctx.core.entries import PinEntry, RewindEntry, UnpinEntry
from jupyter_ctx.core.pins import pin_notice, unpin_notice
from jupyter_ctx.core.ports import ModelFacts
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import BusyError, PromptError, PromptTooLongError
from jupyter_ctx.testing import MemoryStore, ScriptedModel, make_session, reply
from tests.both import assert_append_only, on_both
from tests.fake_anthropic import reply as answer
from tests.talk import run, talk
from tests.wire import is_summary

PIN = 'Amounts are in cents, "never" dollars;\n  VAT is 7 %.'


def sent(model, text):
    """How often the newest request holds `text`."""
    return sum(text_of(m.content).count(text) for m in model.requests[-1].messages)


@on_both
@pytest.mark.parametrize("tail_tokens", [0, 4_000])
def test_three_compactions_keep_a_pin_verbatim_once(fake, tail_tokens):
    """A pin made in mid-conversation is in every later request exactly once."""
    big = "many words about it " * 700
    script = []
    for n in range(3):
        script += [answer(big), answer(big), answer(big), f"Summary {n}.", f"After {n}."]
    with fake(script) as server, talk(server, tail_tokens=tail_tokens) as session:
        for n in range(3):
            run(session, f"first {n}")
            if not n:
                session.pin(PIN)
            run(session, f"more {n}")
            run(session, f"yet more {n}")
            session.compact()
            run(session, f"and {n}")
        told = json.dumps(pin_notice(1, PIN))[1:-1]
        held = [record.body.decode().count(told) for record in server.messages]
        assert held == [0] + [1] * (len(held) - 1)
        assert len(session.transcript.compactions) == 3
        assert not server.unused
        assert not server.refused
        assert_append_only(server.messages, is_summary)


@on_both
def test_a_pin_is_told_with_the_next_prompt_and_only_appended(fake):
    """A pin rewrites nothing: it is one block before the user's own words, told once."""
    with fake(["Hi.", "Yes.", "Still."]) as server, talk(server) as session:
        run(session, "hi")
        assert session.pin(f"  {PIN}\n") == 1
        run(session, "and?")
        run(session, "still?")
        prompt = session.transcript.prompts[2]

        assert assert_append_only(server.messages) == 0
        assert [block.part for block in prompt.content] == ["notebook", "conversation"]
        assert prompt.content[0].text == pin_notice(1, PIN)
        assert words_of(prompt) == "and?"
        assert server.messages[-1].body.decode().count("(pin 1)") == 1


def test_a_pin_taken_off_is_told_and_not_put_back():
    """After `/unpin` the model hears it once; a compaction leaves both out."""
    big = "many words about it " * 400
    model = ScriptedModel(reply(big), reply(big), reply("So."), reply("Summary."), reply("Yes."))
    session = make_session(model, tail_tokens=0)
    session.pin(PIN)
    session.ask("one")
    assert session.unpin(1) == PIN
    session.ask("two")
    assert sent(model, unpin_notice(1)) == 1
    session.ask("three")
    assert sent(model, unpin_notice(1)) == 1
    session.compact()
    session.ask("four")
    assert sent(model, PIN) == sent(model, unpin_notice(1)) == 0
    assert session.pin("next") == 2


def test_a_pin_taken_off_before_it_was_told_is_never_told():
    """What the model never saw needs no word that it is gone."""
    model = ScriptedModel(reply("Hi."))
    session = make_session(model)
    session.pin(PIN)
    session.unpin(1)
    session.ask("hi")

    assert sent(model, "pin 1") == 0


def test_a_pin_is_told_again_where_the_prompt_that_told_it_is_gone():
    """A rewind, or a turn left out, takes the notice along; the pin holds, so it is told anew."""
    model = ScriptedModel(
        reply("Hi."), reply("Yes."), PromptTooLongError("It is too long."), reply("Here.")
    )
    session = make_session(model, compaction="off")
    session.ask("hi")
    session.pin(PIN)
    session.ask("and?")
    session._engine.record(RewindEntry(0.0, 2))
    session.ask("again?")
    session.ask("once more?")

    assert sent(model, pin_notice(1, PIN)) == 1


def test_a_resumed_session_tells_a_pin_it_has_not_told():
    """A pin outlives the kernel, told or not."""
    store = MemoryStore()
    make_session(ScriptedModel(), store=store).pin(PIN)
    model = ScriptedModel(reply("Hi."))
    session = make_session(model, entries=store.entries)
    session.ask("hi")

    assert dict(session.pins) == {1: PIN}
    assert sent(model, pin_notice(1, PIN)) == 1


def test_pins_are_stored_without_keys():
    """A pin and its end are entries; the program's keys are in neither store nor request."""
    store, key = MemoryStore(), "sk-ant-0123456789"
    session = make_session(ScriptedModel(), store=store, redactor=Redactor({"THE_KEY": key}))
    session.pin(f"use {key}")
    session.unpin(1)

    assert isinstance(store.entries[-2], PinEntry)
    assert isinstance(store.entries[-1], UnpinEntry)
    assert store.entries[-2].text == "use [redacted: THE_KEY]"


def test_pins_that_cannot_be_kept_are_refused():
    """Blank, over 5 % of the window alone or together, or in a running turn: one sentence each."""
    facts = ModelFacts("scripted", 8_000, "api", 4_000, factor_prior=1.0)
    model = ScriptedModel(reply("Hi."), facts=facts)
    session = make_session(model)
    with pytest.raises(PromptError, match="empty"):
        session.pin(" \n ")
    with pytest.raises(PromptError, match="pins may take 400 tokens, 5 % of the window"):
        session.pin("four" * 400)
    assert session.pin("four" * 250) == 1
    with pytest.raises(PromptError, match="take another off"):
        session.pin("four" * 150)
    with pytest.raises(PromptError, match="no pin 7; the pins are 1"):
        session.unpin(7)

    refused = []

    def pin_now(event):
        with pytest.raises(BusyError):
            session.pin("now")
        with pytest.raises(BusyError):
            session.unpin(1)
        refused.append(event)

    session.ask("hi", on_event=pin_now)
    assert refused
    assert list(session.pins) == [1]
