"""What is said of a switch of the model, before it is made and after, over both protocols."""

from __future__ import annotations

from dataclasses import replace

from jupyter_ctx.config import Settings
from jupyter_ctx.core.events import TurnFinished
from jupyter_ctx.ipython.wayback import switch_lines, switched_lines
from jupyter_ctx.session import Session
from tests.both import is_messages
from tests.fake_anthropic import FakeAnthropic, too_long
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fake import MODEL as OTHER
from tests.talk import MODEL as CLAUDE
from tests.talk import run
from tests.wire import answering, is_summary, of, plain_talk, steps, window

NAME = f"openai:{OTHER}"
ANEW = "writes the whole context to the cache anew"


def told(session: Session, name: str) -> str:
    """Return what `/model NAME?` says."""
    return "\n".join(switch_lines(session, session.plan_switch(name)))


def switched(session: Session, name: str) -> str:
    """Switch, and return what is said of the cache."""
    before = session.model_name
    session.switch_model(name)
    return "\n".join(switched_lines(session, before))


def test_the_way_back_before_a_prompt_costs_nothing_and_is_told_so() -> None:
    """Only a model that wrote the last answer has the conversation in its cache, and is told of."""
    with (
        FakeAnthropic(["One.", "Two."]) as claude,
        FakeOpenAI(["Three."]) as other,
        plain_talk(claude, other=other) as session,
    ):
        assert f"Until then /model {CLAUDE} goes back" in switched(session, NAME)
        session.switch_model(CLAUDE)
        run(session)
        first = claude.messages[-1]
        assert ANEW in switched(session, NAME)
        assert f"Until then /model {CLAUDE} goes" in switched(session, "openai:third")
        assert ANEW not in told(session, CLAUDE)
        assert ANEW in told(session, NAME)
        back = switched(session, CLAUDE)
        run(session)

        assert ANEW not in back
        assert "goes back at no cost" not in back
        assert "wrote the last answer" in back
        usage = claude.messages[-1].usage or {}
        assert first.usage is not None
        assert usage["cache_read_input_tokens"] >= first.usage["cache_creation_input_tokens"]
        assert ANEW in switched(session, NAME)
        run(session)
        assert ANEW in switched(session, CLAUDE)
        assert not is_messages(other.messages[-1])


def test_what_brings_another_prompt_ends_the_way_back() -> None:
    """After a rewind or a compaction no cache holds the conversation that is."""
    with (
        FakeAnthropic(answering([*steps(60, 80), "Done."])) as claude,
        plain_talk(claude) as session,
    ):
        run(session)
        assert session.last_speaker == CLAUDE
        session.compact()
        assert session.last_speaker is None
        session.undo_summary()
        assert session.last_speaker is None


def test_a_switch_that_compacts_first_says_so_in_place_of_the_price_of_all() -> None:
    """Before the switch and after it: a compaction comes first, and reads at most a window."""
    with (
        FakeAnthropic([*steps(60, 80), "Done."]) as claude,
        FakeOpenAI() as other,
        plain_talk(claude, other=other, window_tokens=0) as session,
    ):
        run(session)
        session.settings = _with_window(session, 12_000)
        lines = told(session, NAME), switched(session, NAME)
        for said in lines:
            assert "preceded by a compaction" in said
            assert "at most ≈12,000 tokens" in said
            assert ANEW not in said


def test_a_window_that_a_refusal_taught_counts_before_the_switch_back() -> None:
    """What the server once said of its window is planned with, not what a table says."""
    refusal = too_long(50_000, 20_000)
    script = answering(["One.", refusal, "Two."])
    with (
        FakeAnthropic(script, models=window(1_000_000)) as claude,
        FakeOpenAI(["Other."]) as other,
        plain_talk(claude, other=other) as session,
    ):
        run(session, "word " * 30_000)
        assert of(run(session, "And?"), TurnFinished)[-1].outcome == "done"
        session.switch_model(NAME)

        assert session.plan_switch(CLAUDE).window_tokens == 20_000


def test_a_window_smaller_than_system_and_tools_is_told_before_and_refused_after() -> None:
    """No compaction and no new session would help there: another model is named as the cure."""
    with (
        FakeAnthropic(["One."]) as claude,
        FakeOpenAI() as other,
        plain_talk(claude, other=other) as session,
    ):
        run(session)
        session.settings = _with_window(session, 1_000)
        assert "every prompt is refused there" in told(session, NAME)
        assert "every prompt is refused there" in switched(session, NAME)
        ended = of(run(session, "Go on."), TurnFinished)[-1]
        assert "choose a model with a larger window by `/model`" in (ended.error or "")
        assert all(map(is_summary, other.messages))


def _with_window(session: Session, tokens: int) -> Settings:
    return replace(session.settings, window_tokens=tokens)
