"""Cases of the wire (part B): what a strict server sees through the real SDK."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from jupyter_ctx.core.blocks import PART_NAMES
from jupyter_ctx.core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    NoteAdded,
    TurnFinished,
)
from jupyter_ctx.core.ports import Cell, ToolOutput
from jupyter_ctx.core.repair import INTERRUPTED_TEXT
from jupyter_ctx.ipython.words import compaction_failed_line
from jupyter_ctx.models.openai_wire import FAILED
from jupyter_ctx.session import Place
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import FakeKernel, FakeTools, MemoryStore
from tests import both
from tests.both import on_both
from tests.fake_anthropic import (
    FakeAnthropic,
    call,
    max_tokens,
    reply,
)
from tests.fake_anthropic.checks import (
    assert_append_only,
    assert_healthy,
    assert_never_over_window,
)
from tests.pictures import png
from tests.talk import MODEL, run
from tests.wire import (
    answering,
    blocks,
    filler,
    is_summary,
    messages_of,
    of,
    plain_talk,
    printing,
    results,
    steps,
    summaries,
    window,
    without_marks,
)

UNBOUND = "claude-sonnet-5"
"""A model whose thinking is not bound to what stands before it."""


@on_both
@pytest.mark.parametrize("binds", [True, False])
def test_w03_the_summary_is_asked_for_as_everything_else_was(fake, binds):
    """W03: same model, system, tools and settings; nothing that would miss the cache is added."""
    script, model = answering([*steps(40, 80), "Done."]), MODEL if binds else UNBOUND
    models = window(12_000, model, binds_thinking=binds)
    with fake(script, models=models, **both.caching(fake)) as server:
        with plain_talk(server, model=model) as session:
            run(session, "Count.")
        assert len(summaries(server.messages)) >= 2
        for before, record in zip(server.messages, server.messages[1:], strict=False):
            if not is_summary(record):
                continue
            kept = set(before.json) - {"messages", "max_tokens"}
            assert set(record.json) - {"messages", "max_tokens"} == kept
            assert all(record.json[key] == before.json[key] for key in kept)
            assert not {"stop_sequences", "tool_choice", "context_management"} & set(record.json)
            assert both.cached_of(record) >= 0.9 * both.prompt_of(record)
            sent = without_marks(messages_of(before))
            assert without_marks(messages_of(record))[: len(sent)] == sent
            assert len(messages_of(record)) == len(sent) + 1
        assert_healthy(server)


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize("tail_tokens", [0, 2_000])
def test_w05_what_stays_has_its_bytes(binds, tail_tokens):
    """W05: behind the summary stand the log's last messages as they were, no pair split.

    Without their thinking on models that bind it; the first of them is the assistant's.
    """
    script, model = answering([*steps(40, 60), "Done."]), MODEL if binds else UNBOUND
    models = window(12_000, model, binds_thinking=binds)
    with FakeAnthropic(script, models=models) as server:
        with plain_talk(server, model=model, tail_tokens=tail_tokens) as session:
            run(session, "Count.")
        kept_calls = 0
        for before, summary, after in zip(
            server.messages, server.messages[1:], server.messages[2:], strict=False
        ):
            if not is_summary(summary):
                continue
            answered = {"role": "assistant", "content": before.reply}
            log = without_marks([*before.messages, answered], thinking=not binds)
            *kept, newest = without_marks(after.messages[1:])
            assert kept == log[len(log) - len(kept) :]
            assert "tool_result" in str(newest)
            assert after.messages[1]["role"] == "assistant"
            called = [block["id"] for block in blocks(after, "tool_use")]
            assert called == list(results(after))
            kept_calls = max(kept_calls, len(called))
        assert kept_calls > 1 if tail_tokens else kept_calls == 1
        assert_healthy(server)


@on_both
def test_w08_no_summary_is_asked_for_while_tools_run(fake):
    """W08: the first of three results crosses the threshold; all three come before the request.

    It then leaves between two tool rounds of the same turn, which goes on by itself.
    """
    seen = []

    def look(text):
        seen.append(len(server.messages))
        return text

    tools = FakeTools(look=look)
    three = reply(
        thinking="all three",
        tools=[call("look", text=f"part {n} " + "word " * 700 * (n == 0)) for n in range(3)],
    )
    script = answering([filler(4_500), three, "All three seen."])
    with fake(script, models=window(8_000)) as server:
        with plain_talk(server, tools=tools, compaction="crush") as session:
            run(session, "Fill the window.")
            events = run(session, "Look at all three.")
        kinds = [is_summary(record) for record in server.messages]

        assert kinds == [False, False, True, False]
        assert seen == [2, 2, 2]
        assert not results(server.messages[2])
        assert len(results(server.messages[3])) == 3
        assert [event.turn for event in of(events, CompactionStarted)] == [2]
        assert [event.outcome for event in of(events, TurnFinished)] == ["done"]
        assert_never_over_window(server.messages)
        assert_healthy(server)


@on_both
def test_w10_the_breaker_stays_open_until_the_user_asks(fake):
    """W10: three failures, one message with the numbers, no fourth try in this turn or the next.

    The user's own `/compact` is tried, and closes it.
    """
    bad = iter([max_tokens("half a summ")] * 3)
    script = answering([*steps(20, 60), "Done.", "Hi.", "Yes."], lambda: None)

    def answer(body):
        given = script(body)
        return next(bad, "## Task\nCount.") if callable(given) else given

    with fake(answer, models=window(16_000)) as server:
        with plain_talk(server, compaction="crush", reserve_tokens=8_000) as session:
            events = run(session, "Count.")
            assert len(summaries(server.messages)) == 3
            assert [e.paused for e in of(events, CompactionFailed)] == [False, False, True]
            events += run(session, "Still there?")
            assert len(summaries(server.messages)) == 3
            assert session.state == "paused"
            *_, told = map(compaction_failed_line, of(events, CompactionFailed))
            assert told.startswith("Compaction is paused after 3 failures: ")

            session.compact()
            assert session.state == "idle"
            assert run(session, "And now?")[-1].outcome == "done"
        assert len(summaries(server.messages)) == 4
        assert_healthy(server)


def gains(events):
    return [1 - e.tokens_after / e.tokens_before for e in of(events, CompactionFinished)]


PART = "(" + "|".join(PART_NAMES.values()) + r") [\d,]+"


@on_both
@pytest.mark.parametrize("case", ["reinjected", "prefix", "no output limit", "one result"])
def test_w11_no_loop_where_nothing_can_be_gained(fake, case):
    """W11: at most one compaction of under 10 % gain, then the biggest parts by tokens; no loop.

    (a) what is put back is over the trigger, (b) system and tools nearly fill the window, (c) a
    window of 16k and no known output limit, (d) one result of 300,000 tokens.
    """
    prompts, model, more = ["Count."], MODEL, {}
    tools, script = FakeTools(), [*steps(40, 60), "Done."]
    if case == "reinjected":
        tools = FakeTools(full_kernel())
        more = {"reserve_tokens": 8_000, "cells_tokens": 6_000, "inventory_tokens": 6_000}
    elif case == "prefix":
        tools = wide_tools()
        prompts = ["Count.", "And?"]
    elif case == "no output limit":
        model, more = "a-local-model", {"window_tokens": 16_000}
    else:
        script = [printing("print('0123456789' * 120_000)"), *steps(6, 60), "Done."]
    models, has_models = window(16_000, model, binds_thinking=False), model == MODEL
    with fake(answering(script), models=models, has_models=has_models) as server:
        with plain_talk(server, tools=tools, model=model, **more) as session:
            is_told = has_models and fake is FakeAnthropic  # the other protocol tells no limit
            assert (session.facts.max_output_tokens is None) == (not is_told)
            events = [event for prompt in prompts for event in run(session, prompt)]
        small = [gain for gain in gains(events) if gain < 0.1]
        notes = [f"{note.title} {note.detail}" for note in of(events, NoteAdded)]
        told = [note for note in notes if "freed only" in note]
        failed = [end.error for end in of(events, TurnFinished) if end.outcome == "failed"]

        assert len(told) == len(small) <= 1
        assert all(re.search(f"{PART}, {PART}, {PART}", words) for words in [*told, *failed])
        assert bool(failed) == (case == "prefix")
        assert bool(told) == (case == "reinjected")
        assert len(server.messages) < 100
        assert_never_over_window(server.messages)
        assert not [record for record in server.refused if record.path == server.path]


def full_kernel():
    """Return a kernel whose cells and names fill any budget they are given."""
    cells = [Cell(f"c{n}", f"x_{n} = [{'1234, ' * 220}]", n, n) for n in range(1, 6)]
    return FakeKernel({f"a_long_name_of_a_variable_{n}": n for n in range(300)}, cells)


def wide_tools():
    """Return tools whose schemas nearly fill a window of 16,000 tokens."""
    tools = FakeTools(**{f"tool_{n}": lambda: "" for n in range(6)})
    tools.specs = tuple(
        replace(spec, description="What it does, at length. " * 350) for spec in tools.specs
    )
    return tools


# Results ------------------------------------------------------------------------------------------


@on_both
def test_w18_parallel_results_go_back_in_one_message(fake):
    """W18: three calls, one with an image, one stopped by Ctrl-C: one message, results first, in
    the order of the calls, text after them."""

    class Tools(FakeTools):
        async def run(self, use, cap_chars):
            output = await super().run(use, cap_chars)
            return replace(output, interrupted=use.name == "slow")

    tools = Tools(
        plot=lambda: ToolOutput("figure", (png(40, 30),)),
        slow=lambda: ToolOutput("so far\nKeyboardInterrupt", is_error=True),
    )
    three = reply(tools=[call("plot"), call("slow"), call("run_code", code="print(1)")])
    with fake([three, "Again."]) as server, plain_talk(server, tools=tools) as session:
        assert run(session, "one")[-1].outcome == "stopped"
        assert [use.name for use in tools.calls] == ["plot", "slow"]
        run(session, "two")
        called = [block["id"] for block in blocks(server.messages[-1], "tool_use")]
        after = [m for m in messages_of(server.messages[-1]) if m["role"] == "user"][1:]
        kinds = [block["type"] for message in after for block in message["content"]]

        assert kinds[:3] == ["tool_result"] * 3
        assert set(kinds[3:]) == ({"text"} if fake is FakeAnthropic else {"text", "image"})
        assert list(results(server.messages[-1])) == called
        plotted = [b["type"] for b in after[0]["content"][0]["content"]]
        assert plotted == (["text", "image"] if fake is FakeAnthropic else ["text"])
        assert "so far" in results(server.messages[-1])[called[1]]
        assert results(server.messages[-1])[called[2]].removeprefix(FAILED) == INTERRUPTED_TEXT
        assert_healthy(server)


LONG = "print('0123456789' * 30_000)"
SHORT = "for n in range(40): print('seen in full', n)"


def test_w19_a_new_process_sends_the_same_bytes(tmp_path):
    """W19: a result of 300,000 characters is one preview with its path, for ever and everywhere.

    A new process that loads the session from disk sends what its twin sends, byte for byte; a
    result that was seen in full stays in full.
    """
    script = [printing(SHORT, thinking="first"), printing(LONG), "First.", "Twin.", "Resumed."]
    home, saved = tmp_path / "home", tmp_path / "saved"
    with FakeAnthropic(script) as server:
        opened = SessionStore(home).create("kept", cwd="/home/user")
        with plain_talk(server, store=opened, entries=opened.entries) as session:
            run(session, "one")
            shutil.copytree(home, saved)
            run(session, "two")
        opened.close()
        child = [sys.executable, "-m", "tests.resume_child", str(saved), "kept", server.url, "two"]
        ended = subprocess.run(child, capture_output=True, text=True, timeout=60, check=False)
        assert ended.stdout == "done\n", ended.stderr
        twin, resumed = server.messages[-2:]

        assert resumed.body == twin.body
        whole, preview = results(resumed).values()
        assert whole.splitlines() == [f"seen in full {n}" for n in range(40)]
        assert len(preview) <= 2_000
        (path,) = re.findall(r"tool-results/kept/[\w-]+\.txt", preview)[:1]
        assert (saved / path).read_text() == "0123456789" * 30_000 + "\n"
        assert resumed.plan.read_tokens >= twin.plan.read_tokens > 0
        assert_append_only(server.messages[:-1])
        assert_healthy(server)


@on_both
def test_w19_what_was_seen_in_full_is_never_reduced_but_by_a_compaction(fake):
    """W19: however full the window gets, a result that was sent whole is sent whole."""
    script = answering([*steps(14, 60), "Done."])
    with fake(script, models=window(8_000)) as server:
        with plain_talk(server, compaction="manual") as session:
            run(session, "Count.")
        first = {}
        for record in server.messages:
            for name, text in results(record).items():
                assert first.setdefault(name, text) == text
        assert len({len(text) for text in first.values()}) > 1  # later ones were reduced at once
        assert both.assert_append_only(server.messages) == 0


@on_both
def test_w20_what_changed_meanwhile_stands_in_appended_text_only(fake):
    """W20: resumed on another day, in another folder, with other tools and a newer version.

    `system` and `tools` keep their bytes, the rest is the twin's; a notice is one more block in the
    newest message, and the whole prefix is read from the cache.
    """
    store = MemoryStore()
    script = [printing("print('x' * 12_000)", thinking="so"), "First.", "Twin.", "Resumed."]
    elsewhere = Place("test-session", None, "/srv/other", "Darwin", "2027-02-03", "9.9")
    other = FakeTools(shiny_new=lambda: "new")
    notice = "Today is 2027-02-03; the folder is /srv/other; pandas is now 4.0; the branch is dev."
    with fake(script, **both.caching(fake)) as server:
        with plain_talk(server, store=store) as session:
            run(session, "one")
            kept = list(store.entries)
            run(session, "two")
        with plain_talk(server, entries=kept, place=elsewhere, tools=other) as session:
            session.add_startup_note(notice)
            run(session, "two")
        twin, resumed = server.messages[-2:]
        block = json.dumps({"type": "text", "text": notice}, separators=(",", ":")) + ","
        note = (block if fake is FakeAnthropic else rf"{notice}\n\n").encode()

        assert resumed.body.count(note) == 1
        assert resumed.body.replace(note, b"") == twin.body
        for word in (b"Darwin", b"9.9", b"shiny_new"):
            assert word not in resumed.body
        assert b"/srv/other" not in resumed.body.replace(note, b"")
        assert messages_of(resumed)[-1]["content"][0]["text"].startswith(notice)
        assert both.cached_of(resumed) >= 0.95 * both.prompt_of(server.messages[1]) > 1_000
        assert_healthy(server)
