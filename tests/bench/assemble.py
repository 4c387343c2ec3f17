"""A step on a log of 10,000 messages, next to one on a log of 100: work grows with what is new."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator

from jupyter_ctx.core.ports import Delta, ModelFacts, Request
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.models.anthropic_wire import MessageWires, build_params
from jupyter_ctx.testing import ScriptedModel, call, make_session, reply

from .logs import build_log
from .table import Row, ms, times

STEPS = 60
TEXT_CHARS = 1_000
FACTS = ModelFacts("scripted", 100_000_000, "api", 64_000, factor_prior=1.0)


class BuildingModel(ScriptedModel):
    """Builds what would be sent, as the adapter does, and notes when it was asked and had it."""

    def __init__(self, steps: int, usage: Usage) -> None:
        calls = [reply("Next.", call("run_code", code="x = 1"), usage=usage) for _ in range(steps)]
        super().__init__(*calls, reply("Done.", usage=usage), facts=FACTS)
        self.asked: list[float] = []
        self.built: list[float] = []
        self._wires = MessageWires()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Build the arguments of the call, then answer."""
        self.asked.append(time.perf_counter())
        build_params(request, self._wires)
        self.built.append(time.perf_counter())
        async for delta in super().stream(request):
            yield delta


def step_seconds(messages: int) -> tuple[float, float]:
    """Return the median time of a step, and of building its arguments, on so long a log."""
    model = BuildingModel(STEPS, Usage(10, messages * TEXT_CHARS // 4, 100, 20))
    entries = build_log(messages, TEXT_CHARS, model.name, "bench")
    session = make_session(model, entries=list(entries), tail_tokens=0)
    turn = session.ask("Go on.")
    assert (turn.outcome, len(model.asked)) == ("done", STEPS + 1)
    # From having one request to having the next: the reply, its tool, the results, the assembly.
    # The first ones are left out: the counter and the wire forms begin empty.
    pairs = list(zip(model.built[5:], model.built[6:], strict=False))
    built = [end - start for start, end in zip(model.asked, model.built, strict=True)]
    return statistics.median(end - start for start, end in pairs), statistics.median(built[5:])


def measure() -> list[Row]:
    """Run a turn of many steps on both logs."""
    few, few_built = step_seconds(100)
    many, many_built = step_seconds(10_000)
    return [
        Row(
            "a step on 10,000 messages, next to 100 (median)",
            ms(many),
            ms(few),
            times(many / few),
            "same order",
        ),
        Row(
            "of it, the arguments of the call",
            ms(many_built),
            ms(few_built),
            times(many_built / few_built),
        ),
    ]
