"""What survives any number of compactions (W25): seen in requests, read back by the real tools."""

import re

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.events import CompactionFailed, CompactionFinished, TurnFinished
from jupyter_ctx.core.ports import EditedFile, HookOutcome, PlanItem
from jupyter_ctx.errors import CompactionError
from jupyter_ctx.ipython.storedtexts import StoredTexts
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import FakeHooks, FakeKernel, FakeTools, FakeWorkspace
from jupyter_ctx.tools import make_tools
from tests.fake_anthropic import FakeAnthropic, call
from tests.fake_anthropic.checks import assert_healthy, assert_never_over_window
from tests.talk import run
from tests.wire import (
    answering,
    filler,
    head_of,
    is_summary,
    of,
    plain_talk,
    printing,
    results,
    steps,
    summaries,
    text_of_messages,
    window,
)

PIN = "Amounts are in cents; VAT is 7 %."
ROUNDS, TURNS = 3, 5


def wish(n):
    return (
        f"Wish {n}: take column c{n}, keep units in mm, round to {n} digits; never drop rows. " * 2
    )


def conversation():
    """Answers for three rounds of five turns: code whose output is stored, then words."""
    for n in range(1, ROUNDS * TURNS + 1):
        code = f"x_{n} = {n}\nfor i in range(1_500): print('line', i, 'of result {n}')"
        yield printing(code, thinking=f"do {n}")
        yield f"Wish {n} is granted."


@pytest.fixture
def stored(tmp_path):
    opened = SessionStore(tmp_path).create("kept", cwd="/home/user")
    yield opened
    opened.close()


def test_w25_after_three_compactions_nothing_that_matters_is_gone(stored):
    """W25: the first task and the newest, every wish in the budget, pins, plan and live names are
    in the request; whatever is not is read back under the name that the request gives it."""
    kernel, workspace = FakeKernel(), FakeWorkspace()
    workspace.plan = [PlanItem("Clean c3", "done"), PlanItem("Plot the residuals", "in_progress")]
    workspace.files = [EditedFile("src/clean.py", "def clean(): return 'as it is now'\n", 9.0)]
    tools = make_tools(kernel, StoredTexts(stored), Settings())
    asked = {}

    def read(name, label):
        def answer(body):
            asked[label] = name() if callable(name) else name
            return call("read_result", tool_use_id=asked[label])

        return answer

    def head():
        return head_of(server.messages[-1])

    def left_out():
        return re.search(r"read them with `read_result`: `(prompt-\d+)`", head())[1]

    def old_result():
        return re.search(r"^- `(toolu_\w+)`", head(), re.M)[1]

    reads = [
        read(left_out, "wish"),
        read(lambda: left_out().replace("prompt", "turn"), "turn"),
        read(old_result, "result"),
        read(old_result, "again"),
    ]
    script = answering([*conversation(), *reads, "All is there."], "## Task\nWishes.")
    with FakeAnthropic(script, models=window(24_000)) as server:
        with plain_talk(
            server,
            tools=tools,
            kernel=kernel,
            store=stored,
            entries=stored.entries,
            workspace=workspace,
            instructions_tokens=700,
            tail_tokens=0,
        ) as session:
            n = 0
            for _ in range(ROUNDS):
                for _ in range(TURNS):
                    n += 1
                    run(session, wish(n))
                    if n == 1:
                        session.pin(PIN)
                session.compact()
            count = len(server.messages)
            run(session, "Is all of it there?")
            first = server.messages[count]
            told = head_of(first)

            assert len(session.transcript.compactions) == ROUNDS
            kept = [k for k in range(1, n + 1) if wish(k) in told]
            assert kept[0] == 1
            assert kept[1:] == list(range(kept[1], n + 1))
            assert 3 <= len(kept) < n
            items = session.find_compaction().reinjected
            spent = sum(item.tokens for item in items if item.kind == "instruction")
            assert spent <= 700 < spent + session._engine.meter.estimate_text(wish(2))
            assert text_of_messages(first).count(PIN) == 1
            assert "Plot the residuals" in told
            assert "src/clean.py" in told
            assert "as it is now" in told
            assert all(f"`x_{k}`" in told for k in (1, n))

            read = {}
            for record in server.messages[count:]:
                read |= results(record)
            last = list(read.values())[-4:]
            number = int(asked["wish"].partition("-")[2])
            assert number not in kept
            assert wish(number).strip() in last[0]
            assert f"Wish {number} is granted." in last[1]
            assert f"x_{number} = {number}" in last[1]
            assert re.match(r"line 0 of result \d+\n", last[2])
            few = min(len(last[2]), len(last[3])) // 2  # the room may cut one before the other
            assert few > 1_000
            assert last[3][:few] == last[2][:few]
        assert_never_over_window(server.messages)
        assert_healthy(server)


def test_w25_a_hook_may_veto_a_compaction():
    """W25: a PreCompact hook that blocks is said; no summary is asked for, the turn goes on."""
    hooks = FakeHooks({"PreCompact": HookOutcome(blocked_by="not during the audit")})
    with FakeAnthropic([filler(800), "Hm.", "Hi."]) as server:
        with plain_talk(server, hooks=hooks, tail_tokens=0) as session:
            run(session, "one")
            run(session, "two")
            with pytest.raises(CompactionError, match="not during the audit"):
                session.compact()
            assert not summaries(server.messages)
            assert run(session, "three")[-1].outcome == "done"
        assert_healthy(server)


def test_w25_hooks_may_add_to_summary_and_context():
    """W25: what PreCompact adds shapes the summary, what SessionStart adds is in the new context.

    PostCompact is told when all is done.
    """
    hooks = FakeHooks(
        {
            "PreCompact": HookOutcome(context="Keep the ticket number."),
            "SessionStart": HookOutcome(context="The build is green."),
        }
    )
    with FakeAnthropic([filler(800), "Hm.", "Summary.", "Hi."]) as server:
        with plain_talk(server, hooks=hooks, tail_tokens=0) as session:
            run(session, "one")
            run(session, "two")
            session.compact()
            run(session, "three")
        (asked,) = summaries(server.messages)
        assert "Keep the ticket number." in asked.last_text
        assert "The build is green." in text_of_messages(server.messages[-1])
        names = [name for name, _ in hooks.calls]
        at = names.index("PreCompact")
        assert names[at : at + 3] == ["PreCompact", "SessionStart", "PostCompact"]
        assert hooks.calls[at + 1][1]["source"] == "compact"
        assert_healthy(server)


def test_w25_an_unfinished_turn_goes_on_by_itself_and_a_finished_one_does_not():
    """W25: three compactions in mid-turn: one prompt, one end, each step once, nothing asked."""
    script = answering([*steps(60, 60), "Counted.", "Hello."])
    with FakeAnthropic(script, models=window(8_000)) as server:
        with plain_talk(server, tools=FakeTools()) as session:
            events = run(session, "Count to sixty.")
            codes = [str(use.input["code"]) for use in session._ports.tools.calls]
            assert len(of(events, CompactionFinished)) >= 3
            assert not of(events, CompactionFailed)
            assert [event.text for event in of(events, TurnFinished)] == ["Counted."]
            assert [int(re.search(r"step (\d+)", code)[1]) for code in codes] == list(range(60))
            for record in server.messages:
                assert text_of_messages(record).count("Count to sixty.") == 1
            count = len(server.messages)
            session.compact()
            assert len(server.messages) == count + 1
            run(session, "And now?")
            others = [record for record in server.messages[count:] if not is_summary(record)]
            assert len(others) == 1
        assert_never_over_window(server.messages)
        assert_healthy(server)
