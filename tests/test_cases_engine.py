"""Cases of the engine (C04 to C20), through the real SDK against a strict server."""

import itertools
import json
import re

import pytest

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.entries import PrefixEntry, SessionEntry
from jupyter_ctx.core.events import (
    NoteAdded,
    ResultOffloaded,
    TurnFinished,
    TurnStarted,
)
from jupyter_ctx.core.ports import Cell, ToolOutput
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import FakeKernel, FakeTools
from tests import both
from tests.both import on_both
from tests.fake_anthropic import FakeAnthropic, call, refuse, reply
from tests.fake_anthropic.checks import (
    assert_healthy,
    assert_markers,
    assert_never_over_window,
)
from tests.pictures import png
from tests.talk import run
from tests.wire import (
    answering,
    blocks,
    filler,
    head_of,
    is_summary,
    messages_of,
    of,
    plain_talk,
    printing,
    results,
    steps,
    summaries,
    text_of_messages,
    window,
)

# Never over the limit -----------------------------------------------------------------------------


@on_both
def test_c10_an_output_near_the_reserve_is_reduced_not_the_users_words(fake):
    """C10: window 8,000, reserve 1,600, 3,000 tokens of output: each request fits, and is told."""
    words = "Print the long table, please: " + "mind the dates, " * 30 + "and keep this whole."
    table = "for i in range(210): print('row', i, 'value', i * 7919 % 1013, 'and more')"
    script = answering([filler(3_900), printing(table), "Printed."])
    with fake(script, models=window(8_000)) as server, plain_talk(server) as session:
        run(session, "Tell me about it.")
        assert 4_000 < session.context()["used_tokens"] < 8_000 - 1_600
        assert session.context()["reserve_tokens"] == 1_600
        events = run(session, words)
        (told,) = of(events, ResultOffloaded)

        assert events[-1].outcome == "done"
        assert messages_of(server.messages[-1])[-1]["role"] == "user"
        for record in server.messages[1:]:
            assert is_summary(record) or words in text_of_messages(record)
        ((name, shown),) = results(server.messages[-1]).items()
        assert told.tool_use_id == name
        assert told.shown_chars == len(shown) < told.chars
        assert told.path in shown
        assert session.results[name].text.count("\n") == 210
        assert_never_over_window(server.messages)
        assert_healthy(server)


@on_both
def test_c04_older_images_leave_together_with_their_places(fake, tmp_path):
    """C04: twelve turns with a picture each: older ones leave in one batch, at a compaction.

    Each is then named with the path of its file; in between every request extends the one before;
    count and bytes stay under the limits.
    """
    opened = SessionStore(tmp_path).create("plots", cwd="/home/user")
    side, so = (1_000, "So.") if fake is FakeAnthropic else (400, filler(900))  # 300 tokens each
    picture = png(side, side)

    def plot():
        data = {"image/png": picture.data, "text/plain": "<Figure>"}
        output = {"output_type": "display_data", "data": data, "metadata": {}}
        return ToolOutput("<Figure>", (picture,), (output,), ("image/png",))

    turns = [part for n in range(12) for part in (reply(f"Plot {n}.", tools=[call("plot")]), so)]
    with fake(answering(turns), models=window(16_000, many_images=20)) as server:
        tools = FakeTools(plot=plot)
        with plain_talk(server, tools=tools, store=opened, entries=opened.entries) as session:
            for n in range(12):
                assert run(session, f"Plot number {n}.")[-1].outcome == "done"
        opened.close()
        cuts = [n + 1 for n, record in enumerate(server.messages) if is_summary(record)]
        assert both.assert_append_only(server.messages, is_summary) == len(cuts)
        counts = [len(blocks(record, "image")) for record in server.messages]

        assert len(cuts) == len(summaries(server.messages)) >= 1
        assert max(counts) <= 12
        for number, record in enumerate(server.messages[1:], start=1):
            if number not in cuts and not is_summary(record):
                assert counts[number] >= counts[number - 1]
        last = server.messages[cuts[-1]]
        gone = list(
            dict.fromkeys(
                use["id"]
                for record in server.messages[: cuts[-1]]
                for use in blocks(record, "tool_use")
            )
        )
        gone = [name for name in gone if name not in results(last)]
        assert len(gone) >= 2
        for name in gone:
            place = f"tool-results/plots/{name}.json"
            assert re.search(f"- `{name}`: plot, .* {place}\n", head_of(last) + "\n")
            stored = json.loads((tmp_path / place).read_text())
            assert stored["outputs"][0]["data"]["image/png"] == picture.data
        assert max(len(record.body) for record in server.messages) < 32 * 2**20
        assert_never_over_window(server.messages)
        assert_healthy(server)


# The gauge ----------------------------------------------------------------------------------------


@on_both
def test_c11_a_figure_before_the_first_reply_and_after_each_step(fake):
    """C11: an estimate before any request; the provider's sum after each step; less after."""
    cells = [Cell(f"c{n}", f"x_{n} = {n}", n, n) for n in range(1, 6)]
    tools = FakeTools(FakeKernel({f"x_{n}": n for n in range(1, 6)}, cells))
    script = answering([part for n in range(3) for part in (*steps(1), filler(900))])
    with (
        fake(script, models=window(16_000)) as server,
        plain_talk(server, tools=tools) as one,
    ):

        def check(measured):
            found = one.context()
            assert sum(found["parts"].values()) == found["used_tokens"]
            assert found["used_tokens"] == found["measured_tokens"] + found["estimated_tokens"]
            assert found["is_estimate"] is (measured is None)
            if measured is not None:
                assert found["used_tokens"] == both.prompt_of(measured) + both.output_of(measured)
            return found

        before = check(None)
        assert before["used_tokens"] > 300
        assert not server.requests
        seen = []

        def look(event):
            if type(event).__name__ == "StepFinished":
                server.messages[-1].done.wait(20)
                seen.append(check(server.messages[-1]))

        for n in range(3):
            one.ask(f"Turn {n}", on_event=look)
        full = check(server.messages[-1])
        assert len(seen) == 6
        one.compact()
        after = check(None)
        assert after["used_tokens"] < full["used_tokens"]
        assert after["parts"]["summary"] > 0
        assert after["parts"]["reinjected"] > 0
        assert_healthy(server)


# What survives ------------------------------------------------------------------------------------

FIVE = """Do five steps, one after the other: 1, 2, 3, 4, 5.
  Keep this as it is: {"a": [1, 2]}, `x` — “quoted”, $HOME, 100 %, \\n."""


@on_both
def test_c13_the_request_that_brings_a_compaction_is_done_to_its_end(fake):
    """C13, item 7: compaction in step 2 of five; its words whole and once, then step 3 follows.

    One turn, one end of it; nothing asks what to do, and nothing is done twice.
    """
    summary = "## Task\nFive steps. Steps 1 and 2 are done.\n## Next\nStep 3."
    wordy = "It takes some words to say what is seen. "

    def step(n):
        return printing(f"print({n}, 'y ' * 900)", f"Step {n}. " + wordy * 10, thinking=f"now {n}")

    fill = 4_900 if fake is FakeAnthropic else 5_150  # where thinking counts nothing
    script = answering([filler(fill), *map(step, range(1, 6)), "All five are done."], summary)
    with fake(script, models=window(8_000)) as server:
        with plain_talk(server, compaction="crush") as session:
            run(session, "Fill the window.")
            events = run(session, FIVE)
            ran = [use.input["code"] for use in session._ports.tools.calls]
        kinds = [is_summary(record) for record in server.messages]
        first = kinds.index(True)
        after = server.messages[first + 1]

        assert first == 3  # after the first turn and steps 1 and 2
        assert [int(code[6]) for code in ran] == [1, 2, 3, 4, 5]
        assert "Step 3." in head_of(after)
        for record in server.messages[1:]:
            assert text_of_messages(record).count(FIVE) == 1
        assert head_of(after).count("# What the user asked") == 1
        assert "Step 2." in json.dumps(after.messages)
        assert len(of(events, TurnStarted)) == 1
        assert [(e.turn, e.outcome, e.steps) for e in of(events, TurnFinished)] == [(2, "done", 6)]
        assert {event.turn for event in events if hasattr(event, "turn")} == {2}
        assert events[-1].text == "All five are done."
        assert_never_over_window(server.messages)
        assert_healthy(server)


@on_both
def test_item7_a_finished_turn_is_not_gone_on_with(fake):
    """Item 7: a compaction after a turn's end asks for the summary and nothing more.

    The next request leaves with the user's next words, which stand after the summary.
    """
    script = answering([*steps(3), "Finished.", "Fresh."])
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "First task.")
        count = len(server.messages)
        session.compact()
        assert len(server.messages) == count + 1
        events = run(session, "Second task.")
        newest = messages_of(server.messages[-1])

        assert len(server.messages) == count + 2
        assert events[-1].text == "Fresh."
        assert newest[-1]["content"][-1]["text"] == "Second task."
        assert "First task." in head_of(server.messages[-1])
        assert_healthy(server)


RULE = "In this project, use polars, never pandas."


@on_both
def test_c14_a_rule_of_the_project_stays_in_its_place(fake):
    """C14: a rule of a context file, in the frozen system prompt: once, in the same bytes, after
    three compactions."""
    system = f"You are a notebook agent.\n\n<file path='AGENTS.md'>\n{RULE}\n</file>\n"
    begun = [SessionEntry(0.0, "s", None, "/", "0"), PrefixEntry(0.0, system, ())]
    script = answering([part for n in range(3) for part in (filler(500), "Yes.")] + ["Still."])
    with fake(script) as server:
        with plain_talk(server, entries=begun, tail_tokens=0) as session:
            for n in range(3):
                run(session, f"turn {n}")
                run(session, f"again {n}")
                session.compact()
            run(session, "And the rule?")
        assert {both.system_of(record) for record in server.messages} == {system}
        assert {record.body.count(RULE.encode()) for record in server.messages} == {1}
        assert len(summaries(server.messages)) == 3
        assert_healthy(server)


@on_both
def test_c15_a_cell_comes_back_as_the_user_left_it(fake):
    """C15: A, B edited, then B by the user: both by id in present form, newest first.

    Within the budget: what is over 5,000 tokens only by name, older cells only by name.
    """
    kernel = FakeKernel(
        {},
        [
            Cell("old", "o = 'old one'", 1, 1),
            Cell("huge", "h = '" + "many words " * 4_000 + "'", 2, 2),
            Cell("aaa", "a = 'present A, by the agent'", 3, 3),
            Cell("bbb", "b = 'B, by the agent'", 4, 4),
        ],
    )
    script = answering([filler(600), "Seen.", "Going on."])
    with fake(script) as server:
        with plain_talk(server, tools=FakeTools(kernel), recent_cells=3, tail_tokens=0) as session:
            run(session, "Edit A and B.")
            run(session, "Do you see them?")
            kernel.cells[-1] = Cell("bbb", "b = 'present B, by the user'", 5, 5)
            session.compact()
            run(session, "Go on.")
        head = head_of(server.messages[-1])

        assert head.index("present B, by the user") < head.index("present A, by the agent")
        assert "B, by the agent" not in head
        assert "cell:bbb" in head
        assert "cell:aaa" in head
        assert "cell:huge" in head
        assert "many words many words" not in head
        assert "cell:old" in head
        assert "old one" not in head
        assert_healthy(server)


# When, and whether --------------------------------------------------------------------------------


@on_both
@pytest.mark.parametrize("mode", ["economic", "crush", "claude-code", "manual", "off"])
def test_c17_the_same_session_in_every_mode(fake, mode):
    """C17: auto compacts by its preset on the real window, 8,000 or 200,000; manual on command.

    Off warns and then refuses, with a clear message, rather than drop a word.
    """
    outcomes = {}
    for tokens in (8_000, 200_000):
        script = answering([*steps(20, 60), "Counted.", "Hello."])
        with fake(script, models=window(tokens)) as server:
            with plain_talk(server, compaction=mode) as session:
                events = run(session, "Count to twenty.")
                count = len(session.transcript.compactions)
                outcomes[tokens] = events[-1].outcome, count
                view = [text_of(m.content) for m in session.transcript.view if m.role == "user"]
                if mode in ("manual", "off"):
                    assert not count
                    assert view[0] == "Count to twenty."
                if mode == "manual" and tokens == 8_000:
                    session.compact()
                    assert run(session, "And now?")[-1].outcome == "done"
                if mode == "off" and tokens == 8_000:
                    assert re.search(r"[\d,]+ of 8,000 tokens", events[-1].error)
                    assert "/compact" in events[-1].error
                    assert "Largest parts" in events[-1].error
                warned = [n for n in of(events, NoteAdded) if "nearly full" in n.title]
                assert len(warned) == (mode in ("manual", "off") and tokens == 8_000)
            assert_never_over_window(server.messages)
            assert_healthy(server)
            for entry in session.transcript.compactions:
                if entry.trigger == "proactive":
                    assert 6_400 * 0.8 < entry.tokens_before <= 8_000

    assert outcomes[200_000] == ("done", 0)
    if mode in ("manual", "off"):
        assert outcomes[8_000] == ("failed", 0)
    else:
        assert outcomes[8_000][0] == "done"
        assert outcomes[8_000][1] >= 1


@on_both
def test_c18_a_summary_can_be_opened_edited_and_undone(fake):
    """C18: text, what it replaced, figures and the original turns; a change is in what is sent."""
    script = [filler(700), "Second.", "The summary.", "Edited?", "Undone?"]
    with fake(script) as server, plain_talk(server, tail_tokens=0) as session:
        run(session, "The first question.")
        run(session, "The second question.")
        before = session.context()["used_tokens"]
        session.compact()
        opened = session.summary()
        assert opened["summary"] == "The summary."
        assert opened["replaced"] == {"first_turn": 1, "last_turn": 2, "messages": 3}
        assert opened["tokens_before"] == before
        assert opened["tokens_after"] == session.context()["used_tokens"] < before
        originals = [text_of(m.content) for m in session.transcript.replaced_by(1)]
        assert originals[0] == "The first question."
        assert originals[2] == "The second question."

        session.edit_summary("The user's own summary.")
        run(session, "Edited?")
        assert "The user's own summary." in head_of(server.messages[-1])
        assert "The summary." not in head_of(server.messages[-1])
        session.undo_summary()
        run(session, "Undone?")
        sent = text_of_messages(server.messages[-1])
        assert "summary" not in sent
        assert sent.startswith("The first question.")
        assert_healthy(server)


@on_both
def test_c19_eight_parallel_calls_are_never_parted(fake):
    """C19: eight calls a step, the cut within them: every call with its result, in place."""
    script = [
        reply(
            f"Step {n}.",
            thinking=f"eight at {n}",
            tools=[call("run_code", code=f"print('result {n} {k}', 'r ' * 60)") for k in range(8)],
        )
        for n in range(16)
    ]
    with fake(answering([*script, "Done."]), models=window(8_000)) as server:
        with plain_talk(server) as session:
            assert run(session, "Run eight at a time.")[-1].outcome == "done"
        assert len(summaries(server.messages)) >= 2
        for record in server.messages:
            for message, after in itertools.pairwise(messages_of(record)):
                uses = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
                found = [b["tool_use_id"] for b in after["content"] if b["type"] == "tool_result"]
                assert uses == found
                assert len(uses) in (0, 8)
        assert_never_over_window(server.messages)
        assert_healthy(server)


@on_both
def test_c20_whatever_happens_beside_it_the_prefix_stays(fake):
    """C20: new outputs, a look at the gauge, a cell the user edits, a clock that ticks: ten turns.

    Each request begins with all of the one before; a reduced output keeps its preview for ever.
    """
    kernel = FakeKernel({}, [Cell("aaa", "a = 0", 1, 1)])
    long = printing("for i in range(9_000): print('a long output', i)")
    script = [
        part
        for n in range(10)
        for part in ((long if n == 2 else printing(f"print({n})")), f"Turn {n}.")
    ]
    with fake(script) as server, plain_talk(server, tools=FakeTools(kernel)) as session:
        for n in range(10):
            assert run(session, f"turn {n}")[-1].outcome == "done"
            session.context()
            session.cost()
            kernel.cells[0] = Cell("aaa", f"a = {n}", n + 2, n + 2)
            kernel.namespace[f"new_{n}"] = n
            session._ports.clock.time += 3_600
        assert both.assert_append_only(server.messages) == 0
        if fake is FakeAnthropic:
            assert_markers(server.messages)
        previews = {
            json.dumps(text)
            for r in server.messages
            for text in results(r).values()
            if "read_result" in text
        }
        assert len(previews) == 1
        assert_healthy(server)


def test_c20_an_intended_break_is_kept_with_its_reason():
    """C20: compaction, edit, undo, rewind, model switch, refusal: each break has its reason.

    So has each cache miss that the provider tells of; nothing else breaks, and no block of the
    prefix changed unmeant.
    """
    other = "claude-opus-5-5"
    models = {**window(200_000), **window(200_000, other)}
    asked = ("compaction", "summary_edit", "summary_undo", "rewind", "model_switch", "refusal")
    begin = [part for n in range(2) for part in (*steps(2, 60), f"Turn {n}.")]
    script = [*begin, "Summary.", "a", "b", "c", "d", "e", refuse("Not this."), "f"]
    with FakeAnthropic(script, models=models) as server:
        with plain_talk(server, tail_tokens=0, cache_diagnostics="on") as session:
            acts = [
                session.compact,
                lambda: session.edit_summary("The user's own words."),
                session.undo_summary,
                lambda: session.rewind(2),
                lambda: session.switch_model(other),
                lambda: run(session, "something refused"),
            ]
            run(session, "turn 0")
            run(session, "turn 1")
            for act in acts:
                act()
                run(session, "go on")
            assert tuple(found.cause for found in session.prefix_breaks) == asked
            misses = session.cost()["cache_misses"]
            assert {miss["cause"] for miss in misses} <= set(asked)
            assert {miss["reason"] for miss in misses} == {"messages_changed"}
        assert not server.unused
        assert_healthy(server)
