"""The happy path, through the real SDK."""

from __future__ import annotations

import json

import anthropic
import pytest

from . import Call, FakeAnthropic, Hold, Text, call, reply
from .raw import MODEL, TOOL, accept, body_of, refusal, user


def sdk(server: FakeAnthropic) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)


def test_stream_gives_blocks_in_order() -> None:
    """A streamed reply arrives with its blocks in the script's order, calls parsed."""
    code = 'print("é")\n' * 20
    script = [reply(Text("First."), Call("run_code", code=code), Text("Then."), chunk=7)]
    with (
        FakeAnthropic(script) as server,
        sdk(server) as client,
        client.messages.stream(**body_of(tools=[TOOL])) as stream,
    ):
        text = "".join(stream.text_stream)
        message = stream.get_final_message()

    assert text == "First.Then."
    assert [block.type for block in message.content] == ["text", "tool_use", "text"]
    assert message.content[1].model_dump()["input"] == {"code": code}
    assert message.stop_reason == "tool_use"
    assert not server.unused


def test_call_without_input() -> None:
    """A call without arguments streams no JSON at all, and the SDK reads it as {}."""
    with (
        FakeAnthropic([call("list_cells")]) as server,
        sdk(server) as client,
        client.messages.stream(**body_of(tools=[TOOL])) as stream,
    ):
        message = stream.get_final_message()

    assert message.content[0].model_dump()["input"] == {}


def test_stream_and_whole_agree(server: FakeAnthropic, client: anthropic.Anthropic) -> None:
    """The streamed and the whole answer to one body have the same content and usage."""
    whole = client.messages.create(**body_of())
    with client.messages.stream(**body_of()) as stream:
        streamed = stream.get_final_message()

    assert streamed.content[0].model_dump()["text"] == whole.content[0].model_dump()["text"]
    assert streamed.usage.model_dump() == whole.usage.model_dump()


def test_requests_are_recorded_as_bytes(server: FakeAnthropic) -> None:
    """A request is kept exactly as it came, with its headers and prefix hashes."""
    data = json.dumps(body_of(), indent=3).encode()
    accept(server, data, x_mark="here")

    record = server.messages[0]
    assert record.body == data
    assert record.headers["x-mark"] == "here"
    assert record.json == body_of()
    assert len(record.prefix_hashes) == 3
    assert record.complete
    assert record.reply == [{"type": "text", "text": "ok"}]


def test_prefix_hashes_extend(server: FakeAnthropic) -> None:
    """A longer conversation has the hashes of the shorter one, and more."""
    first = [user("One.")]
    accept(server, body_of(*first))
    accept(server, body_of(*first, {"role": "assistant", "content": "ok"}, user("Two.")))

    short, long = (record.prefix_hashes for record in server.messages)
    assert long[: len(short)] == short
    assert len(long) == len(short) + 2


def test_hold_stops_the_stream_until_released() -> None:
    """A stream stands at a hold until it is released, and then ends whole."""
    script = [reply(Text("before"), Hold("middle"), Text("after"))]
    with (
        FakeAnthropic(script) as server,
        sdk(server) as client,
        client.messages.stream(**body_of()) as stream,
    ):
        events = iter(stream)
        seen = next(event for event in events if event.type == "content_block_stop")
        server.wait_held("middle")
        assert not server.messages[0].done.is_set()
        server.release("middle")
        texts = [event.text for event in events if event.type == "text"]

    assert seen.type == "content_block_stop"
    assert texts == ["after"]
    assert server.messages[0].complete


def test_client_that_leaves_is_noticed() -> None:
    """A client that closes the connection while the stream is held sets `gone`."""
    script = [reply(Text("before"), Hold("middle"), Text("after"))]
    with FakeAnthropic(script) as server, sdk(server) as client:
        with client.messages.stream(**body_of()) as stream:
            next(event for event in stream if event.type == "content_block_stop")
            server.wait_held("middle")
        assert server.messages[0].gone.wait(20)

    assert not server.messages[0].complete


def test_wait_for_counts_requests(server: FakeAnthropic) -> None:
    """`wait_for` returns the requests when enough have arrived, and fails when they do not."""
    accept(server, body_of())

    assert server.wait_for(1) == server.messages
    with pytest.raises(TimeoutError, match="1 of 2"):
        server.wait_for(2, timeout=0.01)


def test_script_may_look_at_the_request() -> None:
    """A script, or one of its items, may be a function of the request."""

    def talk(request: dict[str, object]) -> str:
        return f"{request['max_tokens']}"

    with FakeAnthropic([talk, "fixed"]) as server:
        first = accept(server, body_of(max_tokens=77))
        second = accept(server, body_of())

    assert [first["content"][0]["text"], second["content"][0]["text"]] == ["77", "fixed"]


def test_empty_script_is_an_error() -> None:
    """A request without an answer left is refused, and says so."""
    with FakeAnthropic() as server:
        assert "no answer left" in refusal(server, body_of())


def test_fault_in_the_script_is_raised_at_the_end() -> None:
    """What a callable script raises comes out of the `with` block."""

    def broken(request: dict[str, object]) -> str:
        raise LookupError("not in the script")

    server = FakeAnthropic(broken)
    with pytest.raises(LookupError, match="not in the script"), server:
        refusal(server, body_of())


def test_models_and_count(server: FakeAnthropic, client: anthropic.Anthropic) -> None:
    """The Models API tells window, output limit and capabilities; count_tokens the input."""
    info = client.models.retrieve(MODEL)
    count = client.messages.count_tokens(model=MODEL, messages=body_of()["messages"])
    message = client.messages.create(**body_of())

    assert (info.max_input_tokens, info.max_tokens) == (1_000_000, 128_000)
    assert info.capabilities is not None
    assert info.capabilities.thinking.types.adaptive.supported
    assert [model.id for model in client.models.list(limit=1)] == list(server.models)
    assert count.input_tokens == message.usage.input_tokens


def test_ids_follow_from_the_conversation() -> None:
    """Two servers give the same ids to the same conversation, and other ids later in it."""
    ids = []
    for _ in range(2):
        with FakeAnthropic([call("run_code", code="1"), call("run_code", code="1")]) as server:
            accept(server, body_of(tools=[TOOL]))
            accept(server, body_of(user("Other."), tools=[TOOL]))
            ids.append([record.reply[0]["id"] for record in server.messages])

    assert ids[0] == ids[1]
    assert ids[0][0] != ids[0][1]
