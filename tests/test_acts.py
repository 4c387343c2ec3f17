"""Law: whatever a user pins, undoes, edits and rewinds between turns, each request is accepted."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.entries import RewindEntry
from jupyter_ctx.core.pins import pin_notice
from jupyter_ctx.core.view import build_view
from jupyter_ctx.errors import CompactionError, PromptError
from tests.fake_anthropic import FakeAnthropic, FakeModel, call, last_text, reply
from tests.fake_anthropic.checks import assert_healthy
from tests.talk import MODEL, run, talk

ACTS = ("ask", "work", "compact", "undo", "edit", "pin", "unpin", "rewind", "budget")
BIG = "many words about it " * 200


def answers():
    """Answer summaries, and a prompt that says `work` by a step with thinking and a tool."""
    count = itertools.count()

    def answer(body):
        text, n = last_text(body), next(count)
        if text.startswith(INSTRUCTION_OPEN):
            return f"Summary {n}."
        if text.endswith("work"):
            tools = [call("run_code", code=f"print({n})")]
            return reply(BIG, thinking=f"thought {n}", tools=tools)
        return reply(f"Answer {n}. {BIG}", thinking=f"thought {n}")

    return answer


def act(session, name, n):
    """Do one of `ACTS`; one that is refused in words has changed nothing."""
    view = list(session.transcript.view)
    try:
        match name:
            case "ask" | "work":
                assert run(session, f"{n} {name}")[-1].outcome == "done"
            case "compact":
                session.compact()
            case "undo":
                session.undo_summary()
            case "edit":
                session.edit_summary(f"Edited {n}.")
            case "pin":
                session.pin(f"pinned {n}.")
            case "unpin":
                session.unpin(max(session.pins, default=1))
            case "rewind":
                session._engine.record(RewindEntry(0.0, session.transcript.turn))
            case "budget":
                session.budget_tokens = 0 if session.budget_tokens else 5_000
    except (PromptError, CompactionError):
        assert list(session.transcript.view) == view


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(ACTS), min_size=4, max_size=14), st.sampled_from([0, 2_000]))
def test_each_request_is_accepted_and_holds_every_pin_once(acts, tail_tokens):
    """The strict server refuses nothing; pins stand once; who reads the log sees the same view."""
    models = {MODEL: FakeModel(window=200_000, max_output=8_000, binds_thinking=True)}
    with (
        FakeAnthropic(answers(), models=models) as server,
        talk(server, tail_tokens=tail_tokens) as session,
    ):
        for n, name in enumerate(["work", "ask", *acts, "ask"]):
            act(session, name, n)
        body = server.messages[-1].body.decode()
        assert all(body.count(pin_notice(n, text)) == 1 for n, text in session.pins.items())
        assert build_view(session.transcript.entries) == tuple(session.transcript.view)
        assert_healthy(server)
