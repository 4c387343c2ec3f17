"""The OpenAI adapter against the strict fake, as each kind of server."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from dataclasses import replace

import pytest

from jupyter_ctx.config import make_settings
from jupyter_ctx.core.blocks import (
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    tool_uses,
    user,
)
from jupyter_ctx.core.ports import BlockDone, Delta, ReplyDone, Request, ThinkingPart
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import (
    AuthError,
    ConfigError,
    ModelError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    RequestRefusedError,
    StreamBrokenError,
    UnknownModelError,
    UnreachableError,
)
from jupyter_ctx.models import make_model
from jupyter_ctx.models.addresses import PLACEHOLDER_KEY
from jupyter_ctx.models.openai import (
    OLLAMA_URL,
    OpenAIModel,
    find_base_url,
    find_credentials,
    find_dialect,
)
from jupyter_ctx.models.openai_wire import Dialect
from tests.fake_anthropic import (
    Call,
    Hold,
    call,
    corrupt,
    disconnect,
    error_event,
    no_stop_reason,
    reply,
    status,
    truncate,
)
from tests.fake_anthropic.script import Answer, Given
from tests.fake_openai import KINDS, FakeOpenAI
from tests.fake_openai.checks import assert_append_only, assert_healthy
from tests.fake_openai.fake import MODEL
from tests.fake_openai.kinds import Name
from tests.pictures import png

NOTHING = Redactor([])
TOOL = {
    "name": "run_code",
    "description": "Run code.",
    "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}},
}
EVERY_KIND: list[Name] = list(KINDS)


def model_at(server: FakeOpenAI, name: str = "") -> OpenAIModel:
    """Return a model that talks to the fake; Ollama's by its own prefix."""
    family = "ollama" if server.kind.name == "ollama" else "openai"
    settings = make_settings({"base_url": server.url})
    environ = {"OPENAI_API_KEY": "sk-test-0123456789"}
    return OpenAIModel(name or f"{family}:{MODEL}", settings, environ, NOTHING)


def ask(messages: Sequence[Message], max_tokens: int = 1000) -> Request:
    """Return a request of `messages`."""
    system = "You work in a notebook. " * 200
    return Request(f"openai:{MODEL}", system, (TOOL,), tuple(messages), max_tokens)


async def collect(model: OpenAIModel, request: Request) -> list[Delta]:
    """Return the whole reply."""
    return [delta async for delta in model.stream(request)]


def message_of(deltas: Sequence[Delta]) -> Message:
    """Return the reply as the message that goes back."""
    return assistant(*(delta.block for delta in deltas if isinstance(delta, BlockDone)))


def answers_to(message: Message) -> Message:
    """Return the results of a reply's calls, the first with a picture, or a new prompt."""
    results = [ToolResult(use.id, (Text("3\n" * 50),)) for use in tool_uses(message)]
    if not results:
        return user(Text("And now?"))
    first = ToolResult(results[0].tool_use_id, (Text("figure"), png(40, 30)))
    return user(first, *results[1:])


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_replies_go_back_as_they_came(kind: Name) -> None:
    """A dialogue of reasoning, texts, parallel calls and images is never refused, and only grows.

    Reasoning and signatures come back where the server wants them; where it tells cached tokens,
    each request reads what the one before wrote.
    """
    code = {"code": "df\n# é 🙂"}
    script: list[Given] = [
        reply("I look.", thinking="What is there?", tools=[("run_code", code)] * 3),
        reply(call("run_code", code="1"), Call("run_code"), thinking="Again."),
        "Done. 🙂",
        call("run_code", code="2"),
        reply("All done.", thinking="Good."),
    ]
    talk, usages, thought = [user(Text("Look at it."))], [], ""
    with FakeOpenAI(script, kind=kind) as server:
        model = model_at(server)
        for _ in script:
            deltas = await collect(model, ask(talk))
            assert isinstance(deltas[-1], ReplyDone)
            usages.append(deltas[-1].usage)
            thought += "".join(d.text for d in deltas if isinstance(d, ThinkingPart))
            answer = message_of(deltas)
            talk += [answer, answers_to(answer)]
        await model.aclose()

    limit_told = [r for r in server.refused if "max_completion_tokens" not in str(r.error)]
    assert limit_told == []
    assert assert_append_only([r for r in server.messages if r.status == 200]) == 0
    assert thought == ("What is there?Again.Good." if server.kind.reasoning else "")
    sent = server.messages[-1].messages
    if server.kind.reasoning:
        assert [m.get(server.kind.reasoning) for m in sent if m["role"] == "assistant"][:2] == [
            "What is there?",
            "Again.",
        ]
    for usage in usages:
        assert usage.input_tokens
        assert (usage.cache_read is not None) is server.kind.caches
    if server.kind.caches:
        assert all((usage.cache_read or 0) >= 1_024 for usage in usages[1:])


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_the_window_is_asked_for_in_each_servers_way(kind: Name) -> None:
    """The window is the server's own figure where it tells one, else unknown; it is asked once."""
    with FakeOpenAI(kind=kind, window=12_345) as server:
        model = model_at(server)
        facts = await model.load_facts()
        asked = len(server.requests)
        assert await model.load_facts() == facts
        assert await model.count_tokens(ask([user(Text("x"))])) is None
        await model.aclose()

    tells = kind not in ("openai", "gemini")
    assert facts.window_tokens == (12_345 if tells else None)
    assert facts.window_source == ("server" if tells else "unknown")
    assert len(server.requests) == asked


@pytest.mark.parametrize("kind", ["openai", "vllm", "llama.cpp", "lmstudio", "gemini"])
async def test_an_overflow_gives_the_servers_numbers(kind: Name) -> None:
    """A prompt over the window raises PromptTooLongError with the prompt's and window's tokens."""
    with FakeOpenAI(kind=kind, window=5_000) as server:
        model = model_at(server)
        with pytest.raises(PromptTooLongError) as caught:
            await collect(model, ask([user(Text("word " * 10_000))]))
        await model.aclose()

    assert caught.value.limit_tokens == 5_000
    assert (caught.value.actual_tokens or 0) > 5_000


FAULTS: list[tuple[Answer, type[ModelError]]] = [
    (status(429, retry_after=7), RateLimitedError),
    (status(503), OverloadedError),
    (disconnect(), StreamBrokenError),
    (truncate(after_events=2), StreamBrokenError),
    (corrupt(after_events=2), StreamBrokenError),
    (error_event(after=2), ModelError),
    (no_stop_reason(), StreamBrokenError),
    (reply(Call("run_code", _raw='{"code": "x')), StreamBrokenError),
]


@pytest.mark.parametrize("kind", ["vllm", "gemini"])
@pytest.mark.parametrize(("fault", "ours"), FAULTS)
async def test_faults_and_then_the_same_again(
    kind: Name, fault: Answer, ours: type[ModelError]
) -> None:
    """Each fault is the error it should be, may be retried, and the same bytes then succeed."""
    with FakeOpenAI([fault, "Fine."], kind=kind) as server:
        model = model_at(server)
        request = ask([user(Text("Well?"))])
        with pytest.raises(ours) as caught:
            await collect(model, request)
        deltas = await collect(model, request)
        await model.aclose()

    assert caught.value.retryable
    assert isinstance(deltas[-1], ReplyDone)
    first, second = server.messages
    assert first.body == second.body


async def test_what_fails_behind_a_whole_reply_does_not_matter() -> None:
    """A connection that drops after the reason of the end leaves a whole reply without usage."""
    with FakeOpenAI([disconnect(after_events=3, answer="Yes.")]) as server:
        model = model_at(server)
        deltas = await collect(model, ask([user(Text("Well?"))]))
        await model.aclose()

    assert message_of(deltas).content == (Text("Yes."),)
    assert isinstance(deltas[-1], ReplyDone)
    assert deltas[-1].usage.input_tokens is None


async def test_a_refused_key_and_an_unknown_model() -> None:
    """A wrong key is AuthError, at the facts already; an unknown model UnknownModelError."""
    with FakeOpenAI(["x"], api_key="sk-the-right-one") as server:
        model = model_at(server)
        with pytest.raises(AuthError, match="OPENAI_API_KEY"):
            await model.load_facts()
        with pytest.raises(AuthError, match="OPENAI_API_KEY"):
            await collect(model, ask([user(Text("Well?"))]))
        await model.aclose()
    with FakeOpenAI(["x"]) as server:
        model = model_at(server, "openai:nope")
        with pytest.raises(UnknownModelError, match="nope"):
            await collect(model, ask([user(Text("Well?"))]))
        await model.aclose()


async def test_nobody_there() -> None:
    """Without a server both facts and a call are UnreachableError, with the address to check."""
    with FakeOpenAI() as server:
        model = model_at(server)
    with pytest.raises(UnreachableError, match="the setting base_url"):
        await model.load_facts()
    with pytest.raises(UnreachableError, match="the setting base_url"):
        await collect(model, ask([user(Text("Well?"))]))
    await model.aclose()


async def test_a_model_without_sight_is_found_out_once() -> None:
    """Where nobody told, a refused image teaches that the model sees none; text goes from then."""
    talk = [user(Text("See:"), png(40, 30))]
    with FakeOpenAI(["One.", "Two."], kind="vllm", sees=False) as server:
        model = model_at(server)
        for _ in range(2):
            await collect(model, ask(talk))
        await model.aclose()

    assert [record.status for record in server.messages] == [400, 200, 200]
    assert "40 × 30 px" in server.messages[-1].body.decode()


@pytest.mark.parametrize("kind", ["llama.cpp", "lmstudio", "ollama"])
async def test_a_model_that_tells_it_is_blind_is_sent_no_image(kind: Name) -> None:
    """Where the server tells that its model sees none, no image is sent at all."""
    with FakeOpenAI(["One."], kind=kind, sees=False) as server:
        model = model_at(server)
        await model.load_facts()
        await collect(model, ask([user(Text("See:"), png(40, 30))]))
        await model.aclose()

    assert_healthy(server)
    assert len(server.messages) == 1


async def test_a_limit_that_is_too_high_is_lowered_once() -> None:
    """A server that grants shorter answers is asked again with what it grants, and then at once."""
    with FakeOpenAI(["One.", "Two."], max_output=500) as server:
        model = model_at(server)
        for _ in range(2):
            await collect(model, ask([user(Text("x"))], max_tokens=900))
        await model.aclose()

    assert [record.json["max_tokens"] for record in server.messages] == [900, 500, 500]


SAID = [
    ("max_tokens is not supported, use max_completion_tokens", {}, "max_completion_tokens"),
    (
        "Unrecognized request argument supplied: max_completion_tokens",
        {"output_field": "max_completion_tokens"},
        "max_tokens",
    ),
]


@pytest.mark.parametrize(("said", "before", "field"), SAID)
def test_the_limits_name_is_learnt(said: str, before: dict[str, str], field: str) -> None:
    """A server that takes the limit under the other name only is asked again under that."""
    error, asked = RequestRefusedError(said), ask([user(Text("x"))])
    found = find_dialect(Dialect(**before), error, asked)  # type: ignore[arg-type]

    assert found is not None
    assert found.output_field == field
    assert find_dialect(found, error, asked) is None


@pytest.mark.parametrize(
    ("said", "most"),
    [
        ("max_tokens is too large: 900. This model supports at most 512 completion tokens", 512),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 512]", 512),
        ("`max_tokens` must be less than or equal to `512`", 512),
        ("max_tokens must be at least 1", None),
        ("something about 512 things, at most 512", None),
    ],
)
def test_the_longest_answer_is_learnt(said: str, most: int | None) -> None:
    """What a server grants is read from its words, where they are about the limit."""
    found = find_dialect(Dialect(), RequestRefusedError(said), ask([user(Text("x"))]))

    assert (found.most_output if found else None) == most


REFUSALS: dict[str, tuple[str, dict[str, object]]] = {
    "no system prompt": ("System role not supported", {"takes_system": False}),
    "no system prompt, o1": (
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        {"takes_system": False},
    ),
    "no system prompt, Gemma": (
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        {"takes_system": False},
    ),
    "no effort": (
        "Unrecognized request argument supplied: reasoning_effort",
        {"takes_effort": False},
    ),
    "no effort beside tools": (
        "Function tools with reasoning_effort are not supported for this model.",
        {"takes_effort": False},
    ),
    "no such effort": ('think value "max" is not supported', {"takes_effort": False}),
    "no reasoning back": (
        "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : "
        "property 'reasoning_content' is unsupported)]",
        {"takes_reasoning": False},
    ),
    "shorter ids": (
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 43 instead.",
        {"most_id": 40},
    ),
    "ids of nine": (
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        {"most_id": 9},
    ),
    "shorter descriptions": (
        "Invalid 'tools[1].function.description': string too long. Expected a string with maximum "
        "length 1024, but got a string with length 2121 instead.",
        {"most_description": 1_024},
    ),
    "another reason": ("Something else went wrong.", {}),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_a_server_does_not_take_is_learnt_once(case: str) -> None:
    """Each thing that a server names is left out or made to fit, and not twice."""
    said, learnt = REFUSALS[case]
    thought = Thinking({"type": "reasoning", "model": MODEL, "fields": {"reasoning_content": "x"}})
    asked = replace(ask([user(Text("x")), assistant(thought, Text("y"))]), effort="max")
    error = RequestRefusedError(said)
    found = find_dialect(Dialect(), error, asked)

    assert found == (Dialect(**learnt) if learnt else None)  # type: ignore[arg-type]
    assert found is None or find_dialect(found, error, asked) is None


async def test_openai_gets_descriptions_and_ids_of_its_length() -> None:
    """A long description and another model's long id are made to fit, and the turn goes on."""
    long = {**TOOL, "description": "d" * 2_000, "input_schema": {"type": "object"}}
    use = ToolUse("x" * 70, "run_code", {})
    talk = [user(Text("x")), assistant(use), user(ToolResult(use.id, (Text("1"),)))]
    with FakeOpenAI(["Fine."], kind="openai") as server:
        model = model_at(server)
        deltas = await collect(model, replace(ask(talk), tools=(long,)))
        await model.aclose()

    assert isinstance(deltas[-1], ReplyDone)
    assert server.messages[-1].status == 200


def test_nothing_is_learnt_of_a_server_that_is_busy() -> None:
    """Words of a limit in a refusal for another reason teach nothing."""
    said = "max_tokens of all requests in a minute: at most 512; image_url is not supported"
    asked = ask([user(Text("x"), png(4, 4))])

    for error in (RateLimitedError(said), AuthError(said), UnreachableError(said, url="u")):
        assert find_dialect(Dialect(), error, asked) is None


@pytest.mark.parametrize(
    ("said", "most"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 "
            "tokens (1000 in the messages, 8000 in the completion).",
            3_596,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum "
            "context length is 8192 tokens and your request has 1000 input tokens.",
            3_596,
        ),
        (
            "Requested token count exceeds the model's maximum context length of 8192 tokens. You "
            "requested a total of 9000 tokens: 1000 tokens from the input messages and 8000 "
            "tokens for the completion.",
            3_596,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 15000 "
            "tokens (7000 in the messages, 8000 in the completion).",
            None,
        ),
    ],
)
async def test_a_prompt_that_fits_gets_a_shorter_answer(said: str, most: int | None) -> None:
    """Where only prompt and answer together are too long, the answer is made shorter, if there is
    room for one; what is then raised names the window and no prompt longer than it is.
    """

    def refuse(body: dict[str, object]) -> Answer:
        return status(400, said) if body["max_tokens"] == 8_000 else reply("Fine.")

    with FakeOpenAI(refuse, kind="vllm") as server:
        model = model_at(server)
        asked = ask([user(Text("x"))], max_tokens=8_000)
        if most is None:
            with pytest.raises(PromptTooLongError) as caught:
                await collect(model, asked)
            assert (caught.value.actual_tokens, caught.value.limit_tokens) == (None, 8_192)
        else:
            assert isinstance((await collect(model, asked))[-1], ReplyDone)
        await model.aclose()

    limits = [record.json["max_tokens"] for record in server.messages]
    assert limits == [8_000, *([most] if most else [])]


async def test_a_server_that_wants_nothing_is_given_up() -> None:
    """One that refuses the limit under either name is asked five times, and then told."""

    def refuse(body: dict[str, object]) -> Answer:
        given, other = sorted({"max_tokens", "max_completion_tokens"}, key=lambda n: n not in body)
        return status(400, f"Unsupported parameter: {given} is not supported, use {other}.")

    with FakeOpenAI(refuse) as server:
        model = model_at(server)
        with pytest.raises(RequestRefusedError, match="is not supported"):
            await collect(model, ask([user(Text("x"))]))
        await model.aclose()

    assert len(server.messages) == 5


async def test_a_stopped_stream_is_gone_for_the_server() -> None:
    """Cancelling in mid-stream, the server sees the client leave."""
    with FakeOpenAI([reply("The beginning", Hold("here"), "the end")]) as server:
        model = model_at(server)
        task = asyncio.create_task(collect(model, ask([user(Text("Well?"))])))
        await asyncio.to_thread(server.wait_held, "here")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.messages[0].gone.wait, 20)
        server.release("here")
        await model.aclose()


async def test_half_a_character_is_mended_on_its_way() -> None:
    """Half a surrogate pair in a prompt goes as U+FFFD instead of failing the call."""
    with FakeOpenAI(["Fine."]) as server:
        model = model_at(server)
        await collect(model, ask([user(Text("a\ud800b"))]))
        await model.aclose()

    assert server.messages[0].messages[-1]["content"] == "a�b"


# Which model, where, and with which key -----------------------------------------------------------


def test_where_requests_go() -> None:
    """The setting comes before OPENAI_BASE_URL, and Ollama is on this machine unless it is set."""
    environ = {"OPENAI_BASE_URL": "http://env/v1/"}
    unset, is_set = make_settings({}), make_settings({"base_url": "http://set/v1"})

    assert find_base_url(unset, {}, is_ollama=False) == "https://api.openai.com/v1"
    assert find_base_url(unset, environ, is_ollama=False) == "http://env/v1"
    assert find_base_url(is_set, environ, is_ollama=False) == "http://set/v1"
    assert find_base_url(unset, environ, is_ollama=True) == OLLAMA_URL
    assert find_base_url(is_set, environ, is_ollama=True) == "http://set/v1"


def test_which_key_is_sent() -> None:
    """A server on this machine needs none; OpenAI's key never goes to Ollama; else one is asked."""
    both = {"OPENAI_API_KEY": " sk-openai ", "OLLAMA_API_KEY": "sk-ollama"}

    assert find_credentials("https://host", both, is_ollama=False) == "sk-openai"
    assert find_credentials("https://host", both, is_ollama=True) == "sk-ollama"
    assert find_credentials("https://host", {"OPENAI_API_KEY": "x"}, is_ollama=True) == (
        PLACEHOLDER_KEY
    )
    assert find_credentials("http://127.0.0.1:1", {}, is_ollama=False) == PLACEHOLDER_KEY
    with pytest.raises(AuthError, match="OPENAI_API_KEY"):
        find_credentials("https://host", {}, is_ollama=False)


@pytest.mark.parametrize("name", ["openai:gpt-5", "ollama:qwen3:8b", "openai:org/model-1"])
def test_the_prefix_chooses_the_adapter(name: str) -> None:
    """A model with one of the prefixes is behind Chat Completions, and keeps its whole name."""
    model = make_model(name, make_settings({}), {}, NOTHING)

    assert isinstance(model, OpenAIModel)
    assert model.name == name


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenAI's SDK is not installed, choosing such a model names the package."""
    monkeypatch.setattr("jupyter_ctx.models.find_spec", lambda name: None)

    with pytest.raises(ConfigError, match="`pip install openai`"):
        make_model("openai:gpt-5", make_settings({}), {}, NOTHING)
    assert importlib.util.find_spec("openai") is not None
