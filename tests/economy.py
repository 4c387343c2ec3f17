"""A long session on the fake server, and what it costs in weighted tokens."""

import functools
import itertools

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from tests.fake_anthropic import FakeAnthropic, FakeModel, call, last_text, reply
from tests.fake_anthropic.checks import assert_healthy, assert_never_over_window
from tests.talk import MODEL, run, talk

SUMMARY = "## Task\n" + "What was done so far, in a few words. " * 200
READ, WRITE, OUTPUT = 0.05, 1.25, 5.0
"""Claude Sonnet 5.5's prices as multiples of its input price."""


def steps(count, lines=240):
    for n in range(count):
        code = f"for i in range({lines}): print('step {n} line', i, i * 37 % 101)"
        yield reply(f"Step {n}.", thinking=f"thought {n}", tools=[call("run_code", code=code)])


def turns(count, each=10, lines=240):
    return [*itertools.chain(*([*steps(each, lines), "Done."] for _ in range(count)))]


def served(script, window, summary=SUMMARY):
    """Return a server that answers summaries with `summary` and the rest from `script`."""
    left = iter(script)
    models = {MODEL: FakeModel(window=window, max_output=64_000, binds_thinking=True)}

    def answer(body):
        return summary if last_text(body).startswith(INSTRUCTION_OPEN) else next(left)

    return FakeAnthropic(answer, models=models)


def compaction_of(session):
    return session.context()["compaction"]


def weighted(server, session):
    """Return what the session's calls cost in weighted tokens, by the server's own cache."""
    total = OUTPUT * (session.total_usage.output or 0)
    for record in server.messages:
        plan = record.plan
        written = plan.write_5m_tokens
        uncached = plan.input_tokens - plan.read_tokens - written
        total += uncached + READ * plan.read_tokens + WRITE * written
    return total


@functools.cache
def played(window, mode, count=9):
    """Return the cost of a session of `count` turns of 18,000 tokens, and its compactions.

    Each waits for its summary: where one made beside the steps is there, time has its say.
    """
    script = turns(count, lines=300)
    with (
        served(script, window) as server,
        talk(server, compaction=mode, prepare_calls=0) as session,
    ):
        for n in range(count):
            assert run(session, f"turn {n}")[-1].outcome == "done"
        assert_healthy(server)
        assert_never_over_window(server.messages)
        return weighted(server, session), session.transcript.compactions
