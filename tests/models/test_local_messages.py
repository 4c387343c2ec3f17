"""Local servers behind the Messages API: what they tell, what they lack, what they do not see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import Text, images_of, user
from jupyter_ctx.core.calls import CUT_CURE, TOOLS_CURE
from jupyter_ctx.core.events import CompactionFinished, NoteAdded
from jupyter_ctx.core.ports import ModelFacts, Request, ToolOutput
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.models import make_model
from jupyter_ctx.testing import FakeTools
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.fake_anthropic.checks import assert_append_only, assert_never_over_window
from tests.fake_anthropic.local import FakeLocal
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fake import MODEL as OPENAI_MODEL
from tests.pictures import png
from tests.talk import MODEL as CLAUDE
from tests.talk import run
from tests.wire import answering, of, plain_talk, steps

OLLAMA_SHOW = {"parameters": "num_ctx 8192", "capabilities": ["completion", "tools"]}
OLLAMA_PS = {
    "models": [{"name": "local:latest", "model": "local:latest", "context_length": 16_384}]
}
TOLD: dict[str, Mapping[str, Any]] = {
    "llama.cpp": {"/props": {"default_generation_settings": {"n_ctx": 16_384}}},
    "vLLM": {"/v1/models": {"data": [{"id": "local", "max_model_len": 16_384}]}},
    "LM Studio": {
        "/v1/models": {"data": [{"id": "local", "object": "model"}]},
        "/api/v0/models/local": {"id": "local", "type": "llm", "loaded_context_length": 16_384},
    },
    "Ollama": {"/api/show": OLLAMA_SHOW, "/api/ps": OLLAMA_PS},
}


async def facts_of(server: FakeLocal) -> ModelFacts:
    """Return what a model asks of its server."""
    model = make_model("local", make_settings({}), {"ANTHROPIC_BASE_URL": server.url}, Redactor([]))
    try:
        return await model.load_facts()
    finally:
        await model.aclose()


@pytest.mark.parametrize("kind", TOLD)
async def test_the_window_is_asked_in_the_servers_own_words(kind: str) -> None:
    """The window is what the server has loaded its model with; no price is made up."""
    with FakeLocal(told=TOLD[kind]) as server:
        facts = await facts_of(server)

    assert (facts.window_tokens, facts.window_source) == (16_384, "server")
    assert facts.prices is None


async def test_what_nobody_tells_stays_unknown() -> None:
    """A server that tells nothing has a model of unknown window, output limit and price."""
    with FakeLocal() as server:
        facts = await facts_of(server)

    assert (facts.window_tokens, facts.window_source) == (None, "unknown")
    assert facts.max_output_tokens is None
    assert facts.prices is None


async def test_a_count_that_is_not_there_is_asked_once() -> None:
    """A server without count_tokens is asked for a count no second time."""
    with FakeLocal() as server:
        model = make_model(
            "local", make_settings({}), {"ANTHROPIC_BASE_URL": server.url}, Redactor([])
        )
        request = Request("local", "", (), (user(Text("hi")),), 50)
        assert [await model.count_tokens(request) for _ in range(3)] == [None] * 3
        await model.aclose()
        assert [each.path for each in server.requests] == ["/v1/messages/count_tokens"]


def test_a_long_turn_stays_within_the_window_that_was_told():
    """A session with a local server compacts by the server's own window."""
    script = answering([*steps(30, 60), "Done."])
    told = {"/props": {"default_generation_settings": {"n_ctx": 12_000}}}
    with FakeLocal(script, told=told, window=12_000) as server:
        with plain_talk(server, model="local") as session:
            events = run(session, "Count.")

        assert events[-1].outcome == "done", events[-1].error
        assert of(events, CompactionFinished)
        assert_never_over_window(server.messages)
        assert server.messages == server.accepted


def test_a_prompt_cut_without_a_word_is_said_once():
    """Where such a server counts far less than was sent, one warning says so, with the cure."""
    cut = {"input_tokens": 2_048, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    script = [reply("Hm.", usage=cut)] * 3
    local = FakeLocal(script, window=200_000)
    with local as server, plain_talk(server, model="local") as session:
        events = [run(session, "w " * 9_000 + str(n)) for n in range(3)]
    notes = [[n for n in of(each, NoteAdded) if n.detail == CUT_CURE] for each in events]

    assert [len(each) for each in notes] == [1, 0, 0]
    assert "2,048 tokens" in notes[0][0].title


def test_tools_left_out_without_a_word_are_named():
    """Where the count is that of the prompt without its tools, the warning says so, once."""
    counted = {
        "input_tokens": 1_000,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    script = [reply("Hm.", usage=counted)] * 2
    tools = FakeTools(**{f"tool_{number}": lambda: "done" for number in range(200)})
    local = FakeLocal(script, window=200_000)
    with local as server, plain_talk(server, model="local", tools=tools) as session:
        events = [run(session, "w " * 600), run(session, "And?")]
    notes = [of(each, NoteAdded) for each in events]

    assert [[note.detail for note in each] for each in notes] == [[TOOLS_CURE], []]
    assert "1,000 tokens" in notes[0][0].title
    assert "leave out the tools" in notes[0][0].title


@pytest.mark.parametrize("says", ["before", "by a refusal"])
def test_a_model_without_sight_is_told_in_words_and_the_next_one_sees(says):
    """There and back: words with type and pixels for the blind model, the image for the other."""
    tools = FakeTools(plot=lambda: ToolOutput("figure", (png(40, 30),)))
    told = {"/props": {"modalities": {"vision": False}}} if says == "before" else {}
    blind = FakeLocal(["I see words.", "Still words."], told=told, sees=False)
    seeing = FakeOpenAI([call("plot"), "A figure.", "It is navy."])
    with blind, seeing, plain_talk(seeing, tools=tools, other=blind) as session:
        run(session, "Draw.")
        image = next(i for m in session.transcript.view for i in images_of(m))
        session.switch_model("local")
        assert run(session, "What is it?")[-1].outcome == "done"
        session.switch_model(f"openai:{OPENAI_MODEL}")
        assert run(session, "And the colour?")[-1].outcome == "done"

        sent = blind.accepted[-1].body.decode()
        assert "image/png, 40 × 30 px" in sent
        assert image.data not in sent
        assert image.data in seeing.messages[-1].body.decode()
        assert len(blind.messages) == (1 if says == "before" else 2)


def test_between_two_claudes_thinking_is_kept():
    """Where the provider itself leaves out another model's thinking, none is taken out here."""
    script = [reply("A.", thinking="of Sonnet"), reply("B.", thinking="of Opus"), "C."]
    with FakeAnthropic(script) as server, plain_talk(server) as session:
        run(session, "one")
        session.switch_model("claude-opus-5-5")
        assert run(session, "two")[-1].outcome == "done"
        session.switch_model(CLAUDE)
        assert run(session, "three")[-1].outcome == "done"

        assert server.refused == []
        sent = server.messages[-1].body.decode()
        assert "of Sonnet" in sent
        assert "of Opus" in sent
        assert_append_only(server.messages)


async def test_what_a_server_serves_under_another_name_is_told() -> None:
    """The name it gives its only model is said, and that model has no window or price of Claude."""
    listed = {"data": [{"id": "/models/small.gguf"}]}
    with FakeLocal(told={"/v1/models": listed}) as server:
        environ = {"ANTHROPIC_BASE_URL": f"{server.url}/v1"}
        model = make_model(CLAUDE, make_settings({}), environ, Redactor([]))
        facts = await model.load_facts()
        await model.aclose()

    assert facts.label == f"{CLAUDE}, for which the server has small.gguf"
    assert (facts.window_tokens, facts.prices) == (None, None)
