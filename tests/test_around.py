"""What surrounds a compaction, through the real SDK: what the next request holds."""

import pytest

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    MemoryChanged,
    TurnFinished,
)
from jupyter_ctx.core.ports import Cell, EditedFile, HookOutcome, PlanItem, Skill
from jupyter_ctx.errors import CompactionError
from jupyter_ctx.testing import FakeHooks, FakeKernel, FakeMemory, FakeTools, FakeWorkspace
from tests.both import on_both
from tests.fake_anthropic import FakeModel, call, last_text, reply, too_long
from tests.fake_anthropic.checks import assert_healthy, assert_never_over_window
from tests.talk import MODEL, run, talk
from tests.wire import head_of, messages_of

SUMMARY = """<summary>
## State
`df` holds the sales, `scores` the result of cell:made and cell:lost.
</summary>
<memory>
- The user counts amounts in cents.
</memory>"""


MAX_OUTPUT = 8_000
LONG = "An answer that takes its place in the window. " * 250


def _words(message):
    return [block["text"] for block in message["content"]]


def models(window=16_000):
    return {MODEL: FakeModel(window=window, max_output=MAX_OUTPUT, cache_floor=512)}


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def is_summary(record):
    """Whether a request asks for a summary, within the limit that one protocol tells too late."""
    is_asked = last_text(record.json).startswith(INSTRUCTION_OPEN)
    return is_asked and record.json["max_tokens"] <= MAX_OUTPUT


def steps(count, lines=30):
    for n in range(count):
        code = f"for i in range({lines}): print('step {n} line', i, i * 37 % 101)"
        yield reply(f"Step {n}.", tools=[call("run_code", code=code)])


def answering(script, summary=SUMMARY):
    """Answer summaries with `summary` and everything else from `script`."""
    script = iter(script)

    def answer(body):
        return summary if last_text(body).startswith(INSTRUCTION_OPEN) else next(script)

    return answer


def world(size=1):
    """A kernel, and a workspace whose parts grow with `size`."""
    kernel = FakeKernel(
        {"df": object()},
        [Cell("made", "x = 1  # made\n" * size, 2, 2, changed_at=20.0)],
    )
    workspace = FakeWorkspace(
        [PlanItem("Load the sales", "done"), *[PlanItem("Plot the sales", "in_progress")] * size],
        [Skill("units", "Give SI units. " * size)],
        [
            EditedFile("new.md", "Edited last. " * size, 30.0),
            EditedFile("old.md", "Edited first. " * size, 10.0),
        ],
    )
    return kernel, workspace


@on_both
def test_the_next_request_holds_all_that_must_stay(fake):
    """After a compaction: words, pin, plan, skills, names, results, sources, in this order."""
    kernel, workspace = world()
    hooks = FakeHooks({"SessionStart": HookOutcome(context="Branch main.")})
    memory = FakeMemory()
    # Bound and deleted again, so the summary names what is no longer there.
    first = call("run_code", code="scores = 1\ndel scores\nfor i in range(2_000): print('row', i)")
    script = answering([reply(tools=[first]), *steps(30, 80), "Done."])
    with (
        fake(script, models=models()) as server,
        talk(
            server,
            tools=FakeTools(kernel),
            hooks=hooks,
            memory=memory,
            workspace=workspace,
            prepare_calls=0,
        ) as session,
    ):
        session.pin("Amounts are in cents")
        events = run(session, "Plot the sales by month")
        entry = session.find_compaction(1)
        asked = next(index for index, record in enumerate(server.messages) if is_summary(record))
        head = head_of(server.messages[asked + 1])

        assert of(events, CompactionFinished)
        marks = [
            "</summary>",
            "# What the user asked",
            "Pinned by the user",
            "# The plan\n- [x] Load the sales\n- [ ] (in progress) Plot the sales",
            "# Skills in use, the last one loaded first\n\n## units\nGive SI units.",
            "# Names alive in the kernel now\n- `df`",
            "# Stored results",
            "# Cells and files",
            "Branch main.",
        ]
        assert [head.count(mark) for mark in marks] == [1] * 9
        places = [head.index(mark) for mark in marks]
        assert places == sorted(places)
        sources = head[places[7] : places[8]]
        assert sources.index("new.md") < sources.index("cell:made") < sources.index("old.md")
        gone = "Named in the summary, but not in the kernel any more: `scores`, `cell:lost`."
        assert head[: places[1]].rstrip().endswith(gone)
        assert entry.missing == ("scores", "cell:lost")
        assert entry.summary.startswith("## State")
        assert memory.facts == ["The user counts amounts in cents."]
        assert "cents" not in head[: places[1]]
        assert_healthy(server)


@on_both
@pytest.mark.parametrize("window", [8_000, 16_000, 64_000])
def test_a_full_surrounding_never_overflows(fake, window):
    """However large plan, skills, files, cells and hooks are, every request fits its window."""
    kernel, workspace = world(3_000)
    hooks = FakeHooks(
        {
            "PreCompact": HookOutcome(context="Keep the figures. " * 3_000),
            "SessionStart": HookOutcome(context="Branch main. " * 3_000),
        }
    )
    script = answering([*steps(40, 60), "Done."])
    with (
        fake(script, models=models(window)) as server,
        talk(
            server, tools=FakeTools(kernel), hooks=hooks, memory=FakeMemory(), workspace=workspace
        ) as session,
    ):
        events = run(session)

        assert of(events, TurnFinished)[0].outcome == "done"
        assert of(events, CompactionFailed) == []
        assert bool(of(events, CompactionFinished)) or window == 64_000
        assert_never_over_window(server.messages)
        assert_healthy(server)


@on_both
def test_what_comes_back_is_counted(fake):
    """`/context` counts what was put back as such, and it is what the entry says it is."""
    kernel, workspace = world(40)
    script = answering([LONG, "Second.", "Third."])
    with (
        fake(script, models=models(64_000)) as server,
        talk(
            server,
            tools=FakeTools(kernel),
            workspace=workspace,
            compaction="manual",
            tail_tokens=0,
        ) as session,
    ):
        run(session)
        run(session)
        before = session.context()["parts"]["reinjected"]
        entry = session.compact()
        parts = session.context()["parts"]
        blocks = [block.text for block in entry.message.content if block.part == "reinjected"]
        estimate = sum(map(session._engine.meter.estimate_text, blocks))

        assert before == 0
        assert estimate - len(blocks) <= parts["reinjected"] <= estimate * 1.02 + 10
        assert sum(item.tokens for item in entry.reinjected) <= parts["reinjected"]
        assert {item.kind for item in entry.reinjected} == {
            "instruction",
            "plan",
            "skill",
            "variable",
            "file",
            "cell",
        }


@on_both
@pytest.mark.parametrize("prepare_calls", [0, 3])
def test_hooks_hear_of_every_kind_of_compaction(fake, prepare_calls):
    """A full window, a prompt the provider refuses and a user's wish: each is told its trigger.

    So it is whether the summary was prepared beside the conversation or not.
    """
    hooks = FakeHooks({"PreCompact": HookOutcome(context="Keep the figures.")})
    script = answering([*steps(40, 80), "Done.", too_long(17_000, 16_000), "Again."])
    with (
        fake(script, models=models()) as server,
        talk(server, hooks=hooks, prepare_calls=prepare_calls) as session,
    ):
        run(session)
        run(session, "And now?")
        session.compact("the figures")
        asked = [last_text(record.json) for record in server.messages if is_summary(record)]

    told = [payload for name, payload in hooks.calls if name == "PreCompact"]
    triggers = [payload["trigger"] for payload in told]
    assert triggers[0] == "proactive"
    assert triggers[-1] == "manual"
    assert "reactive" in [entry.trigger for entry in session.transcript.compactions]
    assert told[-1]["custom_instructions"] == "the figures"
    assert len(asked) == len(told)
    assert "Keep the figures." in asked[0]
    assert "the figures\nKeep the figures." in asked[-1]
    after = [
        name
        for name, payload in hooks.calls
        if name == "PostCompact" or payload == {"source": "compact"}
    ]
    assert after == ["SessionStart", "PostCompact"] * len(session.transcript.compactions)


@on_both
def test_missing_names_follow_the_kernel(fake):
    """What a summary names is looked up as the kernel is now, for any compaction."""
    kernel = FakeKernel({"df": 1})
    script = answering([reply(tools=[call("run_code", code="scores = 1")]), LONG, "B.", "C."])
    with (
        fake(script, models=models(64_000)) as server,
        talk(server, tools=FakeTools(kernel), compaction="manual", tail_tokens=0) as session,
    ):
        run(session)
        run(session)
        entry = session.compact()

        assert entry.missing == ("cell:made", "cell:lost")
        assert session.missing_names() == session.missing_names(1) == entry.missing
        del kernel.namespace["scores"]
        assert session.missing_names() == ("scores", "cell:made", "cell:lost")
        assert session.missing_names(7) == ()


@on_both
def test_memory_is_kept_by_every_kind_of_note(fake):
    """New facts are told to the user once; the next compaction finds them known."""
    memory = FakeMemory()
    script = answering([LONG, "Second.", LONG, "Fourth."])
    with (
        fake(script, models=models(64_000)) as server,
        talk(server, memory=memory, compaction="manual", tail_tokens=0) as session,
    ):
        told = []
        for _ in range(2):
            run(session)
            run(session)
            session.compact(on_event=told.append)

        kept = [event.facts for event in of(told, MemoryChanged)]
        assert kept == [("The user counts amounts in cents.",)]
        assert all("<memory>" in last_text(r.json) for r in server.messages if is_summary(r))
        assert "cents" not in text_of(session.find_compaction().message.content)


@on_both
def test_a_request_that_stays_too_long_names_its_size(fake):
    """After three cuts the compaction fails with numbers, and the log is as it was."""

    def script(body):
        return too_long(90_000, 64_000) if last_text(body).startswith(INSTRUCTION_OPEN) else "Ok."

    with (
        fake(script, models=models(64_000)) as server,
        talk(server, compaction="manual", tail_tokens=0) as session,
    ):
        for n in range(9):
            run(session, f"Task {n}. " * 300)
        view = list(session.transcript.view)
        with pytest.raises(CompactionError) as raised:
            session.compact()
        asked = [messages_of(record) for record in server.messages if is_summary(record)]

        assert len(asked) == 4
        reason = str(raised.value)
        assert "too long, though it was cut 3 times: ≈" in reason
        assert "of 64,000 tokens" in reason
        assert "90,000" in reason
        assert list(session.transcript.view) == view
        first, last = asked[0], asked[-1]
        assert _words(last[0]) == _words(first[0])
        assert _words(last[-1]) == _words(first[-1])
        assert len(last) < len(first) / 2
