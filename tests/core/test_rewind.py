"""Back to before a turn: the exact view from then, what it takes, and what it leaves alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.entries import MessageEntry, RewindEntry
from jupyter_ctx.core.ports import ModelFacts
from jupyter_ctx.core.view import build_view
from jupyter_ctx.errors import BusyError, CompactionError, PromptError
from jupyter_ctx.testing import MemoryStore, ScriptedModel, call, make_session, reply

BIG = "many words about it " * 300


def talked(*more, window=200_000, **ports):
    """A session of two turns, a compaction, and a third turn; `more` answers are left."""
    facts = ModelFacts("scripted", window, "api", 4_000, factor_prior=1.0)
    answers = [reply(BIG), reply("Yes."), reply("The summary."), reply("Third."), *more]
    session = make_session(ScriptedModel(*answers, facts=facts), tail_tokens=0, **ports)
    session.ask("one")
    session.ask("two")
    session.compact()
    session.ask("three")
    return session


def said(session):
    return [text_of(message.content) for message in session.transcript.view]


def test_the_plan_says_what_goes_and_what_it_takes():
    """Turns, messages, undone compactions and tokens are told before anything is changed."""
    session = talked()
    before = said(session)
    plan = session.plan_rewind(2)

    assert (plan.turns, plan.messages, plan.undone) == ((2, 3), 4, (1,))
    assert plan.is_longer
    assert plan.written_tokens == plan.tokens  # nothing of an older prompt is sure to be cached
    assert plan.refusal == ""
    assert said(session) == before
    assert session.rewind(2) == plan
    assert said(session) == ["one", BIG]
    assert session.context()["used_tokens"] == plan.tokens
    assert session.transcript.undone == {1}


def test_within_the_present_prompt_only_the_last_reply_is_written_anew():
    """Without an undone compaction the prompt goes on from one the provider has."""
    session = talked(reply(BIG), reply("Fifth."))
    session.ask("four")
    session.ask("five")
    plan = session.rewind(5)

    assert (plan.turns, plan.undone, plan.is_longer) == ((5,), (), False)
    reply_tokens = session._engine.meter.estimate_message(session.transcript.view[-1])
    assert plan.written_tokens == reply_tokens < plan.tokens


def test_the_next_turn_has_a_number_of_its_own():
    """No number is used twice, so nothing that was stored under one is overwritten."""
    store = MemoryStore()
    long = "a book, " * 60_000
    session = talked(reply("Four."), store=store)
    session.rewind(3)
    session.ask(long)

    prompts = [e.turn for e in store.entries if isinstance(e, MessageEntry) and e.kind == "prompt"]
    assert prompts == [1, 2, 3, 4]
    assert list(store.texts) == ["prompt-4"]
    assert session.transcript.turns == (1, 2, 4)


def test_only_turns_of_the_conversation_can_be_gone_back_to():
    """Another number is refused with those that there are, and nothing is recorded."""
    session = make_session(ScriptedModel())
    with pytest.raises(PromptError, match="no turn 1 to go back to: the conversation has none"):
        session.rewind(1)
    session = talked(reply("Four."), reply("Five."), reply("Six."))
    with pytest.raises(PromptError, match=r"no turn 0 to go back to; there is 1 to 3\."):
        session.plan_rewind(0)
    session.rewind(3)
    session.ask("four")
    with pytest.raises(PromptError, match=r"no turn 3 to go back to; there is 1 to 2, 4\."):
        session.rewind(3)
    count = len(session.transcript.entries)
    with pytest.raises(PromptError):
        session.rewind(5)
    assert len(session.transcript.entries) == count


def test_what_would_not_fit_is_refused_and_what_is_shorter_never():
    """An older, longer view needs room for an answer and a compaction; a shorter one only helps."""
    session = talked()
    session.settings = session.settings.__class__(window_tokens=3_000, tail_tokens=0)
    view = said(session)
    plan = session.plan_rewind(2)

    assert plan.needed_tokens > 3_000
    with pytest.raises(CompactionError) as refused:
        session.rewind(2)
    assert str(refused.value) == plan.refusal
    assert plan.refusal == (
        f"Going back to before turn 2 undoes compaction 1. That needs {plan.needed_tokens:,} of "
        "3,000 tokens now, so choose a larger model first."
    )
    assert said(session) == view
    session.settings = session.settings.__class__(window_tokens=400, tail_tokens=0)
    shorter = session.plan_rewind(3)
    assert shorter.needed_tokens > 400
    assert shorter.refusal == ""


def test_no_window_refuses_nothing():
    """Where nobody knows the window, what comes back is taken to fit."""
    session = talked(window=None)
    assert session.plan_rewind(2).window_tokens is None
    assert session.rewind(2).refusal == ""


def test_no_rewind_while_a_turn_runs():
    """A request under way is never changed behind its back."""
    session = talked(reply("Four."))
    refused = []

    def go_back(event):
        with pytest.raises(BusyError):
            session.rewind(1)
        refused.append(event)

    session.ask("four", on_event=go_back)
    assert refused
    assert 1 in session.transcript.turns


def test_pins_and_budget_stay():
    """What holds until it is taken off is told again, once, where the telling of it went."""
    session = talked(reply("Four."), reply("Five."))
    session.pin("Keep the index.")
    session.budget_tokens = 0
    session.ask("four")
    session.rewind(4)
    session.ask("five")

    assert session.pins == {1: "Keep the index."}
    request = session.model.requests[-1]
    assert sum("Keep the index." in text_of(m.content) for m in request.messages) == 1


def test_what_was_rewound_is_not_put_back_by_a_compaction():
    """A stored result and the words of a turn that is gone are not told to the model again."""
    work = [reply(call("run_code", code="print('x' * 80_000)")), reply("Done.")]
    session = talked(*work, reply(BIG), reply("Six."), reply("A new summary."))
    session.ask("work that is regretted")
    (stored,) = session.transcript.stored
    session.rewind(4)
    session.ask("five")
    session.ask("six")
    entry = session.compact()

    body = text_of(entry.message.content)
    assert stored.tool_use_id not in body
    assert "regretted" not in body
    assert "three" in body
    assert session.transcript.stored == []
    assert session.results[stored.tool_use_id].text  # it is still there for who asks by its name


def test_a_rewound_answer_does_not_answer_its_cell_again():
    """A cell whose turn was taken back is asked anew; one from before is not."""
    facts = ModelFacts("scripted", 200_000, "api", 4_000, factor_prior=1.0)
    session = make_session(ScriptedModel(*(reply(f"Answer {n}.") for n in (1, 2, 3)), facts=facts))
    session.ask("mean?", cell_id="a")
    session.ask("sum?", cell_id="b")
    session.ask("mean?", cell_id="a")
    session.rewind(2)

    assert session.find_answer("a", "mean?") == "Answer 1."
    assert session.find_answer("b", "sum?") is None


def test_a_resumed_session_is_where_the_rewind_left_it():
    """Who reads the log again sees the same view, turns and figures."""
    store = MemoryStore()
    session = talked(store=store)
    session.rewind(2)
    resumed = make_session(
        ScriptedModel(facts=session.facts), entries=list(store.entries), tail_tokens=0
    )

    assert resumed.transcript.view == session.transcript.view
    assert resumed.transcript.turns == session.transcript.turns == (1,)
    assert resumed.context() == session.context()


ACTS = ("ask", "ask", "compact", "rewind", "edit", "undo")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(ACTS), min_size=3, max_size=12), st.randoms(use_true_random=False))
def test_a_rewind_gives_the_view_its_prompt_was_put_behind(acts, chance):
    """Whatever was done since: the very messages come back, but for what an edit itself changed."""
    facts = ModelFacts("scripted", 200_000, "api", 4_000, factor_prior=1.0, binds_thinking=True)
    model = ScriptedModel(*(lambda request: reply(BIG) for _ in range(40)), facts=facts)
    session = make_session(model, tail_tokens=chance.choice([0, 2_000]))
    before, changed = {}, set()
    for name in ["ask", *acts]:
        transcript = session.transcript
        try:
            match name:
                case "ask":
                    before[transcript.turn + 1] = list(transcript.view)
                    session.ask("go on")
                case "compact":
                    session.compact()
                case "edit":
                    session.edit_summary("Mine.")
                    changed |= {n for n, view in before.items() if view != _kept(session, n)}
                case "undo":
                    session.undo_summary()
                    changed |= {n for n, view in before.items() if view != _kept(session, n)}
                case "rewind" if transcript.turns:
                    turn = chance.choice(transcript.turns)
                    plan = session.rewind(turn)
                    assert turn in changed or list(transcript.view) == before[turn]
                    assert not set(plan.turns) & set(transcript.turns)
                    assert list(plan.turns) == sorted(plan.turns)
        except (PromptError, CompactionError):
            pass


def _kept(session, turn):
    """Return the view that a rewind to `turn` would give now, None if it is not there."""
    transcript = session.transcript
    if turn not in transcript.turns:
        return None
    return list(build_view([*transcript.entries, RewindEntry(0.0, turn)]))
