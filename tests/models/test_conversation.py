"""The adapter against the strict fake server: what the real API refuses, it refuses."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import Message, Text, ToolResult, assistant, tool_uses, user
from jupyter_ctx.core.ports import BlockDone, Breakpoint, Delta, ReplyDone, Request, ThinkingPart
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import (
    AuthError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    RequestTooLargeError,
    StreamBrokenError,
    UnknownModelError,
)
from jupyter_ctx.models.anthropic import AnthropicModel
from tests.fake_anthropic import (
    Call,
    FakeAnthropic,
    Hold,
    Raw,
    call,
    corrupt,
    disconnect,
    error_event,
    max_tokens,
    no_stop_reason,
    refuse,
    reply,
    status,
    too_large,
    truncate,
)
from tests.fake_anthropic import (
    Text as FakeText,
)
from tests.fake_anthropic import (
    Thinking as FakeThinking,
)
from tests.fake_anthropic.checks import assert_append_only
from tests.fake_anthropic.script import Answer, Given

TOOL = {
    "name": "run_code",
    "description": "Run code.",
    "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}},
}
SYSTEM = "You work in a notebook. " * 200
EVERY_MODEL = ["claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-4-5"]


def model_at(server: FakeAnthropic, name: str = "claude-sonnet-5-5") -> AnthropicModel:
    """Return a model that talks to the fake."""
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-key"}
    return AnthropicModel(name, make_settings({}), environ, Redactor([]))


def ask(name: str, messages: Sequence[Message], max_tokens: int = 1000) -> Request:
    """Return a request with markers where the core puts them."""
    marks = [Breakpoint("tools"), Breakpoint("system"), Breakpoint("message", -1, -1)]
    if len(messages) > 2:
        marks.insert(2, Breakpoint("message", len(messages) - 3, -1))
    return Request(
        model=name,
        system=SYSTEM,
        tools=(TOOL,),
        messages=tuple(messages),
        max_tokens=max_tokens,
        breakpoints=tuple(marks),
        thinking="off" if name == "claude-haiku-4-5" else "adaptive",
    )


async def collect(model: AnthropicModel, request: Request) -> list[Delta]:
    """Return the whole reply."""
    return [delta async for delta in model.stream(request)]


def message_of(deltas: Sequence[Delta]) -> Message:
    """Return the reply as the message that goes back."""
    return assistant(*(delta.block for delta in deltas if isinstance(delta, BlockDone)))


def answers_to(message: Message) -> Message:
    """Return the results of a reply's calls, or a new prompt."""
    results = [ToolResult(use.id, (Text("3\n" * 50),)) for use in tool_uses(message)]
    return user(*results) if results else user(Text("And now?"))


@pytest.mark.parametrize("name", EVERY_MODEL)
async def test_replies_go_back_as_they_came(name: str) -> None:
    """A dialogue of thinking, texts, calls and redacted thinking is never refused.

    Every request is the one before, its reply, and more; and the cache serves what it wrote.
    """
    script: list[Given] = [
        reply("I look.", thinking="What is there?", tools=[("run_code", {"code": "df\n# é 🙂"})]),
        reply(FakeThinking("hidden", redacted=True), call("run_code", code="1"), Call("run_code")),
        "Done. 🙂",
        call("run_code", code="2"),
        reply("All done.", thinking="Good."),
    ]
    talk = [user(Text("Look at it."))]
    usages = []
    with FakeAnthropic(script) as server:
        model = model_at(server, name)
        for _ in script:
            deltas = await collect(model, ask(name, talk))
            done = deltas[-1]
            assert isinstance(done, ReplyDone)
            usages.append(done.usage)
            answer = message_of(deltas)
            talk += [answer, answers_to(answer)]
        await model.aclose()

    assert server.refused == []
    assert server.unused == []
    assert_append_only(server.messages)
    for before, now in itertools.pairwise(usages):
        written = (before.cache_read or 0) + (before.cache_write or 0)
        assert now.cache_read == written


async def test_a_blank_text_does_not_come_back() -> None:
    """What the model wrote and the API would refuse is left out: the dialogue goes on."""
    blank = reply(FakeText("\n\n"), call("run_code", code="2"), thinking="Hm.")
    talk = [user(Text("Look at it."))]
    with FakeAnthropic([blank, reply("Done.", thinking="Good."), "Yes."]) as server:
        model = model_at(server)
        for _ in range(3):
            answer = message_of(await collect(model, ask(model.name, talk)))
            talk += [answer, answers_to(answer)]
        await model.aclose()

    assert server.refused == []
    assert len(server.accepted) == 3


async def test_thinking_is_shown_as_a_summary() -> None:
    """The model's thinking, left out unless asked for, arrives as text."""
    with FakeAnthropic([reply("Yes.", thinking="Let me think.")]) as server:
        model = model_at(server)
        deltas = await collect(model, ask(model.name, [user(Text("Well?"))]))
        await model.aclose()

    shown = "".join(delta.text for delta in deltas if isinstance(delta, ThinkingPart))
    assert shown == "Let me think."


async def test_facts_and_count_are_the_servers() -> None:
    """Window, output limit and count come from the server; without its endpoints, none does."""
    with FakeAnthropic() as server:
        model = model_at(server, "claude-haiku-4-5")
        facts = await model.load_facts()
        counted = await model.count_tokens(ask(model.name, [user(Text("Well?"))]))
        await model.aclose()
    assert (facts.window_tokens, facts.window_source) == (200_000, "api")
    assert facts.max_output_tokens == 64_000
    assert not facts.adaptive_thinking
    assert counted is not None
    assert counted > 500

    with FakeAnthropic(has_models=False, has_count_tokens=False) as server:
        model = model_at(server)
        facts = await model.load_facts()
        counted = await model.count_tokens(ask(model.name, [user(Text("Well?"))]))
        await model.aclose()
    assert facts.window_source == "table"
    assert counted is None


async def test_an_overflow_gives_the_servers_numbers() -> None:
    """A prompt over the window raises PromptTooLongError with the prompt's and window's tokens."""
    with FakeAnthropic() as server:
        model = model_at(server, "claude-haiku-4-5")
        request = ask(model.name, [user(Text("word " * 300_000))])
        with pytest.raises(PromptTooLongError) as caught:
            await collect(model, request)
        await model.aclose()

    assert caught.value.limit_tokens == 200_000
    assert caught.value.actual_tokens is not None
    assert caught.value.actual_tokens > 200_000


@pytest.mark.parametrize(
    ("fault", "ours"),
    [
        (status(429, retry_after=7), RateLimitedError),
        (status(529), OverloadedError),
        (status(500), OverloadedError),
        (too_large(), RequestTooLargeError),
        (disconnect(), StreamBrokenError),
        (truncate(), StreamBrokenError),
        (corrupt(), StreamBrokenError),
        (error_event(), OverloadedError),
        (no_stop_reason(), StreamBrokenError),
        (reply(Call("run_code", _raw='{"code": "x')), StreamBrokenError),
    ],
)
async def test_faults_and_then_the_same_again(fault: Answer, ours: type[Exception]) -> None:
    """Each fault is the error it should be, and the same request sent again succeeds."""
    with FakeAnthropic([fault, "Fine."]) as server:
        model = model_at(server)
        request = ask(model.name, [user(Text("Well?"))])
        with pytest.raises(ours):
            await collect(model, request)
        deltas = await collect(model, request)
        await model.aclose()

    assert isinstance(deltas[-1], ReplyDone)
    first, second = server.messages
    assert first.body == second.body


async def test_a_refused_key_and_an_unknown_model() -> None:
    """A wrong key is AuthError, an unknown model UnknownModelError, both before any retry."""
    with FakeAnthropic(["x"], api_key="sk-the-right-one") as server:
        model = model_at(server)
        with pytest.raises(AuthError):
            await collect(model, ask(model.name, [user(Text("Well?"))]))
        await model.aclose()
    with FakeAnthropic(["x"]) as server:
        model = model_at(server, "claude-nope")
        with pytest.raises(UnknownModelError, match="claude-nope"):
            await collect(model, ask(model.name, [user(Text("Well?"))]))
        await model.aclose()


async def test_stops_say_why() -> None:
    """A cut call is not yielded, a refusal gives the provider's words."""
    cut = max_tokens("I run", Call("run_code", _raw='{"code": "rm'))
    with FakeAnthropic([cut, refuse("Not this.")]) as server:
        model = model_at(server)
        first = await collect(model, ask(model.name, [user(Text("Well?"))]))
        second = await collect(model, ask(model.name, [user(Text("Well?"))]))
        await model.aclose()

    assert message_of(first).content == (Text("I run"),)
    assert isinstance(first[-1], ReplyDone)
    assert first[-1].stop_reason == "max_tokens"
    assert isinstance(second[-1], ReplyDone)
    assert (second[-1].stop_reason, second[-1].detail) == ("refusal", "Not this.")


async def test_blocks_of_the_future_are_kept() -> None:
    """A block of an unknown type is yielded whole."""
    block = {"type": "of_a_later_version", "deep": {"z": [1], "a": None}}
    with FakeAnthropic([reply("x", Raw(block))]) as server:
        model = model_at(server)
        deltas = await collect(model, ask(model.name, [user(Text("Well?"))]))
        await model.aclose()

    (kept,) = (d.block for d in deltas if isinstance(d, BlockDone) and hasattr(d.block, "wire"))
    assert kept.wire == block


async def test_a_stopped_stream_is_gone_for_the_server() -> None:
    """Cancelling in mid-stream, the server sees the client leave."""
    with FakeAnthropic([reply("The beginning", Hold("here"), "the end")]) as server:
        model = model_at(server)
        request = ask(model.name, [user(Text("Well?"))])
        task = asyncio.create_task(collect(model, request))
        await asyncio.to_thread(server.wait_held, "here")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.messages[0].gone.wait, 20)
        server.release("here")
        await model.aclose()
