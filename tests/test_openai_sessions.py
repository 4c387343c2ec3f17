"""Whole sessions over Chat Completions: what is sent, what it costs, what a switch leaves."""

from __future__ import annotations

import itertools
import json

import pytest

from jupyter_ctx.core.blocks import Image, Thinking, images_of
from jupyter_ctx.core.calls import CUT_CURE
from jupyter_ctx.core.events import CompactionFinished, NoteAdded, ToolStarted
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.models.openai_wire import PLACEHOLDER, sent_name
from jupyter_ctx.store.codec import dump_line, load_line
from jupyter_ctx.testing import FakeTools, MemoryStore
from tests import both
from tests.both import on_both
from tests.fake_anthropic import FakeAnthropic, call, reply, status
from tests.fake_anthropic.checks import assert_append_only as assert_messages_append_only
from tests.fake_anthropic.checks import assert_never_over_window
from tests.fake_openai import KINDS, FakeOpenAI
from tests.fake_openai.checks import assert_append_only, assert_healthy, cached_ratio
from tests.fake_openai.fake import MODEL
from tests.pictures import png
from tests.talk import MODEL as CLAUDE
from tests.talk import run
from tests.wire import (
    answering,
    blocks,
    filler,
    is_summary,
    of,
    plain_talk,
    printing,
    steps,
    summaries,
    text_of_messages,
    window,
)


def test_thirty_turns_only_append_and_read_the_cache():
    """Thirty turns with tools: no byte sent ever changes, and ≥ 90 % of them are cached ones.

    The session's figures are the server's, cached tokens taken out of the prompt's.
    """
    script = itertools.chain.from_iterable((*steps(1), reply(f"Turn {n}.")) for n in range(30))
    with FakeOpenAI(list(script), kind="llama.cpp") as server, plain_talk(server) as session:
        for n in range(30):
            assert run(session, f"turn {n}")[-1].outcome == "done"
        assert_healthy(server)
        assert assert_append_only(server.messages) == 0
        assert cached_ratio(server.messages, 2) >= 0.9
        usage = session.total_usage
        told = [record.usage for record in server.messages]
        cached = sum(each["prompt_tokens_details"]["cached_tokens"] for each in told)
        assert usage.cache_read == cached
        assert usage.input_tokens == sum(each["prompt_tokens"] for each in told)
        assert usage.cache_write is None


@pytest.mark.parametrize("kind", ["vllm", "gemini"])
def test_a_long_turn_is_compacted_and_goes_on(kind):
    """Compactions between two tool rounds keep the window; only there a prefix begins anew."""
    script = answering([*steps(60, 80), "Counted."])
    with FakeOpenAI(script, kind=kind, window=12_000, max_output=8_000) as server:
        with plain_talk(server, window_tokens=12_000) as session:
            events = run(session, "Count to sixty. REMEMBER-ME-VERBATIM")

        assert events[-1].outcome == "done", events[-1].error
        assert len(summaries(server.messages)) == len(of(events, CompactionFinished)) >= 3
        assert server.refused == []
        assert_never_over_window(server.messages)
        assert assert_append_only(server.messages, is_summary) == len(summaries(server.messages))
        assert all(b"REMEMBER-ME-VERBATIM" in record.body for record in server.messages)


def test_of_parallel_calls_one_returns_an_image():
    """Every call has its text result right behind it, the image stands behind all of them."""
    tools = FakeTools(plot=lambda: ToolOutput("figure", (png(40, 30),)))
    three = reply(tools=[call("run_code", code="print(1)"), call("plot"), call("plot")])
    with FakeOpenAI([three, "Seen."]) as server, plain_talk(server, tools=tools) as session:
        assert run(session, "one")[-1].outcome == "done"
        assert_healthy(server)
        *_, asked, first, second, third, images = server.messages[-1].messages

        assert [call["id"] for call in asked["tool_calls"]] == [
            answer["tool_call_id"] for answer in (first, second, third)
        ]
        assert PLACEHOLDER not in first["content"]
        assert second["content"].endswith(PLACEHOLDER)
        assert [part["type"] for part in images["content"]] == ["image_url"] * 2
        assert images["role"] == "user"


def test_a_text_only_model_hands_over_to_one_that_sees():
    """A blind model is told of an image in words; the log keeps it, and the next model sees it."""
    tools = FakeTools(plot=lambda: ToolOutput("figure", (png(40, 30),)))
    blind = FakeOpenAI([call("plot"), "I cannot see it."], kind="llama.cpp", sees=False)
    seeing = FakeAnthropic(["It is navy."])
    with blind, seeing, plain_talk(blind, tools=tools, other=seeing) as session:
        run(session, "Draw.")
        assert "40 × 30 px" in blind.messages[-1].body.decode()
        assert "image_url" not in blind.messages[-1].body.decode()
        session.switch_model(CLAUDE)
        assert run(session, "What colour?")[-1].outcome == "done"

        kept = [image for message in session.transcript.view for image in images_of(message)]
        assert kept == [png(40, 30)]
        assert isinstance(kept[0], Image)
        assert kept[0].data in seeing.messages[-1].body.decode()
        assert blind.refused == seeing.refused == []


def test_a_switch_there_and_back_with_thinking_and_images():
    """Each model gets its own thinking back and none of the other's, and all images; the log keeps
    both.

    Back at the first, what it sent and got before is still sent byte for byte.
    """
    tools = FakeTools(plot=lambda: ToolOutput("figure", (png(40, 30),)))
    plot = reply("P.", thinking="of Claude", tools=[call("plot")])
    claude = FakeAnthropic([plot, "A.", *steps(1), "C."])
    local = FakeOpenAI(
        [printing("print(1)", "L.", thinking="of the other"), call("plot"), "B."], kind="vllm"
    )
    with claude, local, plain_talk(claude, tools=tools, other=local) as session:
        run(session, "one")
        session.switch_model(f"openai:{MODEL}")
        assert run(session, "two")[-1].outcome == "done"
        session.switch_model(CLAUDE)
        assert run(session, "three")[-1].outcome == "done"

        assert claude.refused == local.refused == []
        assert "of Claude" not in local.messages[-1].body.decode()
        assert "of the other" in local.messages[-1].body.decode()
        assert "of the other" not in claude.messages[-1].body.decode()
        assert len(blocks(local.messages[-1], "image")) == 2
        assert len(blocks(claude.messages[-1], "image")) == 2
        assert assert_messages_append_only(claude.messages) == []
        assert assert_append_only(local.messages) == 0
        kinds = {
            block.wire["type"]
            for message in session.transcript.view
            for block in message.content
            if isinstance(block, Thinking)
        }
        assert kinds == {"thinking", "reasoning"}


@pytest.mark.parametrize("kind", ["vllm", "gemini"])
def test_a_stored_session_sends_the_same_bytes(kind):
    """What was written to disk and read again, reasoning and signatures included, is sent alike."""
    store = MemoryStore()
    begin = [printing("print(1)", thinking="hm"), printing("print(2)"), "First."]
    with FakeOpenAI([*begin, "Twin."], kind=kind) as server:
        with plain_talk(server, store=store) as session:
            run(session, "one")
            kept = [load_line(dump_line(entry)) for entry in store.entries]
            run(session, "two")
        twin = server.messages[-1].body
    with FakeOpenAI(["Resumed."], kind=kind) as server:
        with plain_talk(server, entries=kept) as session:
            run(session, "two")
        assert server.messages[-1].body == twin
    assert ("reasoning_content" if kind == "vllm" else "thought_signature") in twin.decode()


def test_a_prompt_cut_without_a_word_is_said_once():
    """Where the server counts far less than was sent, one warning says so and names the cure."""
    script = [reply("Long ago."), "Hm.", "Hm."]
    with FakeOpenAI(script, kind="ollama", window=4_000) as server:
        server.tells = False
        with plain_talk(server) as session:
            events = [run(session, "w " * 9_000 + str(n)) for n in range(3)]
    notes = [
        [note for note in of(each, NoteAdded) if "leave out its beginning" in note.title]
        for each in events
    ]

    assert [len(each) for each in notes] == [1, 0, 0]
    assert notes[0][0].detail == CUT_CURE
    assert "2,000 tokens" in notes[0][0].title


@on_both
def test_nothing_is_said_where_the_count_is_right(fake):
    """A server that counts the whole prompt is not suspected, however the text is made."""
    with fake(["a", "b", "c"]) as server, plain_talk(server) as session:
        for text in ("w " * 9_000, "数据分析" * 3_000, json.dumps(list(range(4_000)))):
            assert not of(run(session, text), NoteAdded)


def test_ollama_by_its_own_prefix():
    """`ollama:NAME` asks Ollama for the window it has loaded the model with, and works by it."""
    script = answering([*steps(30, 60), "Done."])
    with FakeOpenAI(script, kind="ollama", window=12_000, max_output=8_000) as server:
        with plain_talk(server, model=f"ollama:{MODEL}", base_url=server.url) as session:
            events = run(session, "Count.")
            assert (session.facts.window_tokens, session.facts.window_source) == (12_000, "server")
        assert events[-1].outcome == "done", events[-1].error
        assert of(events, CompactionFinished)
        assert_never_over_window(server.messages)
        assert server.refused == []


def test_a_summary_is_asked_for_with_images_that_cost_less_than_is_guessed():
    """Where a server counts less for images than is guessed, its figures decide: all are sent.

    The request for the summary is the prompt as it was last sent, so it is read from the cache.
    """
    tools = FakeTools(plot=lambda: ToolOutput("figure", (png(1_000, 1_000),)))
    turns = [part for _ in range(12) for part in (call("plot"), filler(900))]
    with FakeOpenAI(answering(turns), kind="llama.cpp", models=window(16_000)) as server:
        with plain_talk(server, tools=tools) as session:
            for n in range(12):
                assert run(session, f"Plot {n}.")[-1].outcome == "done"
        (asked,) = summaries(server.messages)

        assert len(blocks(asked, "image")) >= 6
        assert both.cached_of(asked) >= 0.9 * both.prompt_of(asked)
        assert assert_append_only(server.messages, is_summary) == 1
        assert_healthy(server)


@pytest.mark.parametrize("kind", KINDS)
def test_an_overflow_leads_to_one_compaction_and_one_retry(kind):
    """A window smaller than is known: each server's own refusal is read, and the turn goes on.

    Ollama cuts a prompt that is too long; what it says where nothing of it is left counts as one.
    """
    gone = [status(500, "no user query found in messages")] if kind == "ollama" else []
    script = answering([filler(3_000), filler(3_000), *gone, "Done."])
    with FakeOpenAI(script, kind=kind, window=12_000, max_output=64_000) as server:
        server.tells = False
        with plain_talk(server, window_tokens=200_000, tail_tokens=0) as session:
            run(session, "one")
            run(session, "two")
            asked = len(server.messages)
            words = "three, " * (500 if gone else 3_200)
            events = run(session, words)

            assert events[-1].outcome == "done", events[-1].error
            assert [each.trigger for each in of(events, CompactionFinished)] == ["reactive"]
            kinds = [(is_summary(r), r.status == 200) for r in server.messages[asked:]]
            assert kinds == [(False, False), (True, True), (False, True)]
            assert text_of_messages(server.messages[-1]).count(words.strip()) == 1
            assert session.facts.window_tokens == (200_000 if gone else 12_000)


LONG_NAME = "mcp__a_server__" + "read_the_rows_of_" * 5 + "a_table"


@on_both
def test_a_tool_with_a_long_name(fake):
    """A name that a protocol does not take is another on the wire alone: log and tools have it.

    What the model called stays its own call, also of a tool that is no longer there.
    """
    tools = FakeTools(**{LONG_NAME: lambda: "seven rows"})
    store = MemoryStore()
    with fake(calling_mcp, models=window(200_000)) as server:
        with plain_talk(server, tools=tools, store=store) as session:
            events = run(session, "Read.")
        with plain_talk(server, entries=store.entries) as session:
            assert run(session, "And again?")[-1].outcome == "done"

        (started,) = of(events, ToolStarted)
        assert started.name == LONG_NAME
        assert [use.name for use in tools.calls] == [LONG_NAME]
        log = b"".join(map(dump_line, store.entries)).decode()
        assert LONG_NAME in log
        assert sent_name(LONG_NAME) not in log
        sent = {block["name"] for record in server.messages for block in blocks(record, "tool_use")}
        assert sent == {LONG_NAME if fake is FakeAnthropic else sent_name(LONG_NAME)}
        assert both.assert_append_only(server.messages) == 0
        assert_healthy(server)


def calling_mcp(body):
    """Call the tool under the name it is offered by, until its result is there."""
    if "seven rows" in json.dumps(body["messages"]):
        return "Seven."
    offered = [tool.get("function", tool)["name"] for tool in body["tools"]]
    return call(next(name for name in offered if name.startswith("mcp__")))
