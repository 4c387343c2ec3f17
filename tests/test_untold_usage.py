"""What a call cost that no usage was told of, over both protocols."""

from __future__ import annotations

from jupyter_ctx.core.events import StepFinished
from jupyter_ctx.ipython.reports import cost_report
from tests.both import on_both
from tests.fake_anthropic import NO_USAGE, FakeAnthropic, reply
from tests.talk import run
from tests.wire import of, plain_talk

PRICED = {"openai:test-model": {"input": 2, "output": 10}}


@on_both
def test_a_call_without_usage_has_no_known_cost(fake: type[FakeAnthropic]) -> None:
    """Where a server tells no usage, what it cost is said to be unknown, not to be nothing."""
    with (
        fake([reply("One."), reply("Two.", usage=NO_USAGE)]) as server,
        plain_talk(server, prices=PRICED) as session,
    ):
        run(session)
        assert session.total_cost_usd
        (step,) = of(run(session), StepFinished)

        assert step.cost_usd is None
        assert session.total_cost_usd is None
        assert session.context()["cost_usd"] is None
        assert session.cost()["price_source"]
        assert "Session so far: not known" in cost_report(session.cost())[1]
