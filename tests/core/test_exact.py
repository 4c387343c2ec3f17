"""The provider's own count near the limit: when it is asked for, and what it decides."""

from __future__ import annotations

import pytest

from jupyter_ctx.core.entries import CompactionEntry, CountEntry
from jupyter_ctx.core.exact import is_worth_asking
from jupyter_ctx.core.ports import ModelFacts, Request, ToolOutput
from jupyter_ctx.core.tokens import Used
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.core.window import Limits
from jupyter_ctx.errors import CtxError, OverloadedError
from jupyter_ctx.testing import (
    FakeSession,
    FakeTools,
    ScriptedModel,
    ScriptedReply,
    call,
    make_session,
    reply,
)

WINDOW = 20_000
FACTS = ModelFacts("scripted", WINDOW, "api", 4_000, factor_prior=1.0)
OFF = Limits(compaction="off")


class CountingModel(ScriptedModel):
    """A scripted model that counts: what it is given, an error in place of a count raised."""

    def __init__(self, *answers: ScriptedReply, counts: list[int | CtxError | None]) -> None:
        super().__init__(*answers, facts=FACTS)
        self.counts = counts
        self.counted: list[Request] = []

    async def count_tokens(self, request: Request) -> int | None:
        """Return the next count, the last one for ever."""
        self.counted.append(request)
        found = self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]
        if isinstance(found, CtxError):
            raise found
        return found


LONG, CALL = reply("y" * 58_200), reply(call("make", chars=3_200))


def longer(chars: int) -> ScriptedReply:
    """Return the long answer, longer by so many letters."""
    return reply("y" * (58_200 + chars))


def session_of(model: CountingModel, mode: str) -> FakeSession:
    """Return a session after a turn with a long answer; `make` brings so many letters."""
    tools = FakeTools(make=lambda chars: ToolOutput("x" * chars))
    session = make_session(model, tools=tools, compaction=mode)
    session.ask("Tell me much.")
    return session


def near_the_reserve(*counts: int | CtxError | None) -> FakeSession:
    """Return a session after two turns: some 15,120 tokens of 20,000 measured, then ≈ 816 came.

    With the margin that reaches the reserve of 4,000.
    """
    answers = [LONG, CALL, reply("Done.", usage=Usage(15_600, 0, 0, 10))]
    if not isinstance(counts[0], int):
        answers.insert(2, reply("## Task\nGo on."))
    session = session_of(CountingModel(*answers, counts=list(counts)), "crush")
    session.ask("go")
    assert session.last_turn is not None
    assert session.last_turn.text == "Done."
    return session


def counts_of(session: FakeSession) -> list[CountEntry]:
    """Return the counts that were recorded; 0 stands for none."""
    return [e for e in session.transcript.entries if isinstance(e, CountEntry) and e.tokens]


@pytest.mark.parametrize(
    ("used", "limits", "asks"),
    [
        (Used(16_000, 2_000), OFF, True),  # in the last 15 %
        (Used(16_000, 900), OFF, True),  # … by the cautious figure
        (Used(16_000, 800), OFF, False),  # not quite
        (Used(17_500, 150), OFF, False),  # nothing to learn
        (Used(17_500, 0), OFF, False),
        (Used(14_000, 2_000), Limits(), True),  # the reserve seems reached, by the margin alone
        (Used(12_000, 2_000), Limits(), False),
        (Used(16_000, 2_000), Limits(compaction="off", exact_share=0.0), False),
    ],
)
def test_a_count_is_asked_for_where_it_decides(used: Used, limits: Limits, asks: bool) -> None:
    """Only near the end of the window, and only if over 1 % of the window is estimated."""
    assert is_worth_asking(used, limits, FACTS) is asks


def test_an_unknown_window_asks_for_nothing() -> None:
    """Where nobody knows the window, no count decides anything."""
    facts = ModelFacts("x", None, "unknown", None)

    assert not is_worth_asking(Used(500_000, 90_000), Limits(), facts)


def test_a_count_below_the_reserve_spares_a_compaction() -> None:
    """Where the margin alone reaches the reserve, the provider's count says that none is due."""
    session = near_the_reserve(15_600)

    assert session.transcript.compactions == []
    assert [entry.tokens for entry in counts_of(session)] == [15_600]


def test_a_count_asks_for_the_prompt_that_comes_next() -> None:
    """What is counted is the prompt that the next step sends."""
    session = near_the_reserve(15_600)
    model = session.model
    assert isinstance(model, CountingModel)

    assert [request.messages for request in model.counted] == [model.requests[2].messages]


def test_a_count_over_the_reserve_lets_the_compaction_come() -> None:
    """The provider's count is the one the compaction goes by."""
    session = near_the_reserve(None)
    counted = near_the_reserve(OverloadedError("busy"))

    for each in (session, counted):
        (compaction,) = each.transcript.compactions
        assert 15_900 < compaction.tokens_before < 16_000
        assert counts_of(each) == []


@pytest.mark.parametrize("count", [None, OverloadedError("busy"), 0, -3, 700, 90_000_000])
def test_what_is_no_count_is_not_asked_for_again(count: int | CtxError | None) -> None:
    """A failure, no count or an impossible one leaves the estimate; each model is asked once."""
    calls = [reply(call("make", chars=1_400)) for _ in range(3)]
    model = CountingModel(longer(4_000), CALL, *calls, reply("Done."), counts=[count])
    session = session_of(model, "manual")
    session.ask("go")

    assert len(model.counted) == 1
    assert counts_of(session) == []
    later = CountingModel(CALL, reply("Done."), counts=[count])
    resumed = make_session(
        later,
        entries=session.transcript.entries,
        tools=FakeTools(make=lambda chars: ToolOutput("x" * chars)),
        compaction="manual",
    )
    resumed.ask("go on")
    assert later.counted == []  # nor in another kernel


def test_each_step_near_the_limit_is_counted_once() -> None:
    """As long as something is estimated there, every step asks, and no step asks twice."""
    calls = [reply(call("make", chars=1_400)) for _ in range(3)]
    counts: list[int | CtxError | None] = [17_001, 17_402, 17_803, 18_204]
    model = CountingModel(longer(4_000), CALL, *calls, reply("Done."), counts=list(counts))
    session = session_of(model, "manual")
    session.ask("go")

    assert [entry.tokens for entry in counts_of(session)] == counts[: len(model.counted)]
    assert len(model.counted) == len({len(request.messages) for request in model.counted}) > 1


def test_a_resumed_session_has_the_counts() -> None:
    """Base and factor of a count are a fold over the entries, like every other figure."""
    session = near_the_reserve(15_600)
    entries = session.transcript.entries
    place = entries.index(counts_of(session)[0])
    part = make_session(CountingModel(counts=[None]), entries=entries[: place + 1])

    assert part.context()["measured_tokens"] == 15_600
    assert part.context()["is_estimate"] is False
    again = make_session(CountingModel(counts=[None]), entries=entries, compaction="crush")
    assert again.context() == session.context()


def test_a_count_gives_way_to_the_next_usage() -> None:
    """What the reply then measures is the new base, and a compaction forgets the count."""
    session = near_the_reserve(15_600)

    assert session.context()["measured_tokens"] == 15_610
    session.model.answers.append(reply("## Task\nGo on."))
    assert isinstance(session.compact(), CompactionEntry)
    assert session.context()["measured_tokens"] == 0
