"""The turn budget: the decision as a table, and whole turns through the strict server."""

import pytest

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.budget import Budget, is_bare_done, is_nudge
from jupyter_ctx.core.events import TurnFinished
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.testing import ScriptedModel, make_session
from jupyter_ctx.testing import reply as scripted
from tests.fake_anthropic import FakeAnthropic, call, refuse, reply
from tests.fake_anthropic.checks import assert_append_only, assert_healthy
from tests.talk import run, talk


@pytest.mark.parametrize(
    ("budget", "answer", "goes_on"),
    [
        (Budget(0, 0), "Hi.", False),
        (Budget(0, 0, (0,)), "Hi.", False),
        (Budget(1_000, 0), "Hi.", True),
        (Budget(1_000, 899), "Hi.", True),
        (Budget(1_000, 900), "Hi.", False),
        (Budget(1_000, 5_000), "Hi.", False),
        (Budget(1_000, 10), "DONE", True),  # nobody asked for it yet
        (Budget(1_000, 10, (5,)), "DONE", False),
        (Budget(1_000, 10, (5,)), "All is there.\n\n**DONE**.\n", False),
        (Budget(1_000, 10, (5,)), "DONE\nNow the next part.", True),
        (Budget(1_000, 10, (5,)), "It is not DONE", True),
        (Budget(99_999, 1_020, (1_000, 1_010)), "Hm.", True),
        (Budget(99_999, 1_030, (1_000, 1_010, 1_020)), "Hm.", False),
        (Budget(99_999, 1_998, (1_000, 1_000, 1_499)), "Hm.", False),
        (Budget(99_999, 1_999, (1_000, 1_000, 1_499)), "Hm.", True),
        (Budget(99_999, 1_510, (1_000, 1_000, 1_500)), "Hm.", True),
        (Budget(99_999, 1_520, (1_000, 1_000, 1_500, 1_510)), "Hm.", False),
    ],
)
def test_when_a_turn_goes_on(budget, answer, goes_on):
    """Below 90 %, without DONE, and until two nudges in a row (of three) bring under 500 each."""
    assert budget.goes_on(answer) is goes_on


def test_only_done_alone_is_no_answer():
    """DONE with words before it is an answer."""
    assert is_bare_done(" *DONE*.\n")
    assert not is_bare_done("It works.\nDONE")


def writes(text, tokens):
    return reply(text, usage={"input_tokens": 100, "output_tokens": tokens})


def notes(session):
    return [text_of(m.content) for m in session.transcript.view if m.role == "user"][1:]


def test_a_turn_goes_on_until_90_percent_of_its_budget():
    """Each nudge is one appended line that says what is used; one turn, reported once."""
    script = [writes("One.", 300), writes("Two.", 300), writes("Three.", 300)]
    with FakeAnthropic(script) as server, talk(server) as session:
        session.budget_tokens = 1_000
        events = run(session, "work")

        assert [type(e) for e in events].count(TurnFinished) == 1
        assert (events[-1].outcome, events[-1].text, events[-1].steps) == ("done", "Three.", 3)
        assert [note.split(". ")[0] for note in notes(session)] == [
            "[Turn budget] 300 of 1,000 tokens are used",
            "[Turn budget] 600 of 1,000 tokens are used",
        ]
        assert "\n" not in notes(session)[0]
        assert session.transcript.turn == 1
        assert assert_append_only(server.messages) == []
        assert not server.unused
        assert_healthy(server)


def test_done_ends_the_turn_and_is_not_its_text():
    """DONE ends it; the answer stays what was said before, also where a stored one is replayed."""
    tool = reply("More.", tools=[call("run_code", code="1")])
    script = ["Nearly.", tool, "The answer is 42.", "DONE"]
    with FakeAnthropic(script) as server, talk(server) as session:
        session.budget_tokens = 50_000
        session.ask("work", cell_id="c1")

        assert str(session.last_turn) == "The answer is 42."
        assert session.find_answer("c1", "work") == "The answer is 42."
        assert not server.unused
        assert_healthy(server)


def test_a_turn_that_brings_nothing_more_ends():
    """After three nudges, the last two of under 500 tokens, nobody asks again."""
    with FakeAnthropic(["Hm."] * 4) as server, talk(server) as session:
        session.budget_tokens = 1_000_000
        assert run(session, "work")[-1].outcome == "done"
        assert len(server.messages) == 4
        assert_healthy(server)


def test_without_a_budget_nobody_nudges():
    """No budget, or one that was ended: one answer, one request."""
    with FakeAnthropic(["One.", "DONE"]) as server, talk(server) as session:
        run(session, "work")
        session.budget_tokens = 9_000
        session.budget_tokens = 0
        events = run(session, "work")
        assert events[-1].text == "DONE"
        assert len(server.messages) == 2


def test_what_is_no_end_of_work_gets_no_nudge():
    """A refusal and a stop end a turn whatever its budget, and so does an empty answer."""
    with FakeAnthropic([refuse("No.")]) as server, talk(server) as session:
        session.budget_tokens = 9_000
        assert run(session, "work")[-1].stop_reason == "refusal"
    session = make_session(ScriptedModel(scripted(" ")))
    session.budget_tokens = 9_000
    assert session.ask("work").outcome == "done"


def test_a_reply_without_a_figure_is_estimated():
    """A server that counts nothing cannot make a budget endless."""
    long = "word " * 900
    model = ScriptedModel(*[scripted(long, usage=Usage())] * 4)
    session = make_session(model)
    session.budget_tokens = 4_000
    session.ask("work")

    assert len(model.requests) == 4


def test_an_empty_reply_without_a_figure_counts_nothing():
    """Nothing came and nothing was counted: the turn ends as any other."""
    session = make_session(ScriptedModel(scripted(usage=Usage())))
    session.budget_tokens = 4_000
    assert session.ask("work").outcome == "done"


def test_a_nudge_is_told_from_what_a_user_types():
    """Its own line is one whatever its figures are; a user who writes of a budget is none."""
    assert is_nudge(Budget(2_000, 65).words)
    assert is_nudge(Budget(3_000_000).words)
    assert not is_nudge("What is a [Turn budget]?")
