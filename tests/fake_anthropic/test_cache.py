"""The prompt cache: what is written, read, refreshed and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import FakeAnthropic, ManualClock, status, truncate
from .raw import (
    TOOL,
    accept,
    assistant,
    body_of,
    marked,
    refusal,
    send,
    tool_result,
    tool_use,
    user,
)

LONG = "word " * 400  # 625 tokens: over Sonnet's floor of 512
HOUR_S, FIVE_S = 3_600, 300


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[FakeAnthropic]:
    with FakeAnthropic(lambda request: "ok", clock=clock) as running:
        yield running


def figures(server: FakeAnthropic, body: dict[str, Any]) -> tuple[int, int, int]:
    """Send the body; return (uncached, written, read) tokens."""
    usage = accept(server, body)["usage"]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    uncached, written, read = (usage[name] for name in names)
    assert uncached + written + read == server.messages[-1].input_tokens
    return uncached, written, read


def test_written_once_then_read(server: FakeAnthropic) -> None:
    """A marked prefix is written by the first request and read by the second."""
    body = body_of(user(marked(LONG), "new"))
    uncached, written, read = figures(server, body)

    assert read == 0
    assert written > 512
    assert figures(server, body) == (uncached, 0, written)


def test_nothing_without_a_marker(server: FakeAnthropic) -> None:
    """Without a marker nothing is written, nor read."""
    accept(server, body_of(user(marked(LONG))))

    assert figures(server, body_of(user(LONG)))[1:] == (0, 0)


def test_growing_conversation_reads_its_past(server: FakeAnthropic) -> None:
    """With the marker on the newest message, each step reads all before it."""
    messages = [user(LONG)]
    before = 0
    for number in range(5):
        sent = [*messages[:-1], user(*map(marked, messages[-1]["content"]))]
        _, written, read = figures(server, body_of(*sent))
        assert read == before
        before = read + written
        messages += [assistant("ok"), user(f"Question {number}.")]


def test_below_the_floor_nothing_is_cached(server: FakeAnthropic) -> None:
    """A prefix shorter than the model's floor is silently not cached."""
    assert figures(server, body_of(user(marked("short"))))[1] == 0
    assert figures(server, body_of(user(marked(LONG)), model="claude-haiku-4-5"))[1] == 0


def test_order_is_tools_system_messages(server: FakeAnthropic) -> None:
    """A changed system prompt keeps the tools' entry, a changed tool keeps nothing."""
    tool = marked({**TOOL, "description": LONG})
    body = body_of(user(marked("x")), tools=[tool], system=[marked(LONG)])
    figures(server, body)
    tools_only = figures(server, {**body, "system": [marked(LONG + "!")]})
    nothing = figures(server, {**body, "tools": [marked({**TOOL, "description": LONG + "!"})]})

    assert tools_only[2] == server.messages[0].row[0].upto_tokens
    assert nothing[2] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"tool_choice": {"type": "auto"}},
        {"thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "low"}},
    ],
)
def test_settings_miss_the_messages_only(server: FakeAnthropic, change: dict[str, Any]) -> None:
    """Another tool_choice, thinking or effort keeps the system's entry and misses the messages."""
    body = body_of(user(marked(LONG)), tools=[TOOL], system=[marked(LONG)])
    figures(server, body)

    assert figures(server, {**body, **change})[2] == server.messages[0].row[1].upto_tokens


def test_first_image_misses_the_messages(server: FakeAnthropic) -> None:
    """Whether there is any image is part of the cached messages."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}
    figures(server, body_of(user(marked(LONG))))

    assert figures(server, body_of(user(LONG, marked(image))))[2] == 0
    assert figures(server, body_of(user(LONG, image, marked(image))))[2] > 0


def test_each_model_has_its_own(server: FakeAnthropic) -> None:
    """Another model reads nothing of the first one's."""
    figures(server, body_of(user(marked(LONG))))

    assert figures(server, body_of(user(marked(LONG)), model="claude-opus-5-5"))[2] == 0


@pytest.mark.parametrize(("added", "found"), [(19, True), (20, False)])
def test_look_back_is_twenty_positions(server: FakeAnthropic, added: int, found: bool) -> None:
    """A marker finds an entry at most 19 positions before its own."""
    figures(server, body_of(user(marked(LONG))))
    more = [f"{number}" for number in range(added - 1)]

    read = figures(server, body_of(user(LONG, *more, marked("last"))))[2]

    assert (read > 0) is found


def test_a_marker_between_bridges_the_look_back(server: FakeAnthropic) -> None:
    """A second marker within reach of the entry finds it for the whole."""
    figures(server, body_of(user(marked(LONG))))
    blocks = [f"{number}" for number in range(60)]

    assert figures(server, body_of(user(LONG, marked("near"), *blocks, marked("far"))))[2] > 0


def test_five_minutes(server: FakeAnthropic, clock: ManualClock) -> None:
    """An entry lives five minutes from the start of the request, and each hit begins them anew."""
    body = body_of(user(marked(LONG)))
    figures(server, body)
    reads = []
    for seconds in (FIVE_S - 1, FIVE_S - 1, FIVE_S):
        clock.advance(seconds)
        reads.append(figures(server, body)[2] > 0)

    assert reads == [True, True, False]


def test_one_hour(server: FakeAnthropic, clock: ManualClock) -> None:
    """An entry of one hour lives that long, and is reported apart."""
    body = body_of(user(marked(LONG, "1h"), marked(LONG, "5m")))
    created = accept(server, body)["usage"]["cache_creation"]
    clock.advance(HOUR_S - 1)

    assert created["ephemeral_1h_input_tokens"] == server.messages[0].row[0].upto_tokens
    assert created["ephemeral_5m_input_tokens"] == 628
    assert figures(server, body)[2] == server.messages[0].row[0].upto_tokens


def test_hour_after_five_minutes_is_refused(server: FakeAnthropic) -> None:
    """Markers of one hour come before those of five minutes, in the prompt's order."""
    message = refusal(server, body_of(user(marked("x", "1h")), system=[marked("y")]))

    assert "a ttl='1h' cache_control block must not come after a ttl='5m'" in message


def test_at_most_four_markers(server: FakeAnthropic) -> None:
    """Five markers are refused: those inside results and the body's own are counted."""
    inner = tool_result("a", [marked("x"), marked("y")])
    talk = [user(marked("x")), assistant(tool_use("a")), user(inner)]

    accept(server, body_of(*talk, tools=[marked(TOOL)]))
    five = refusal(server, body_of(*talk, tools=[marked(TOOL)], system=[marked("x")]))
    own = body_of(*talk, tools=[marked(TOOL)], cache_control={"type": "ephemeral"})

    assert five == "A maximum of 4 blocks with cache_control may be provided. Found 5."
    assert "Found 5" in refusal(server, own)


def test_automatic_marker(server: FakeAnthropic) -> None:
    """The body's own marker stands on the last block."""
    body = body_of(user(LONG), cache_control={"type": "ephemeral"})
    written = figures(server, body)[1]

    assert written == server.messages[0].input_tokens
    assert figures(server, body)[2] == written


def test_failed_requests_write_nothing() -> None:
    """A request that ends in an error status leaves no entry."""
    with FakeAnthropic([status(529), "ok"]) as server:
        body = body_of(user(marked(LONG)))
        assert send(server, body)[0] == 529

        assert figures(server, body)[2] == 0


def test_broken_streams_have_written() -> None:
    """A stream that breaks off has written its entries."""
    with FakeAnthropic([truncate(), "ok"]) as server:
        body = body_of(user(marked(LONG)))
        with pytest.raises(ValueError, match=r"."):
            send(server, {**body, "stream": True})

        assert figures(server, body)[2] > 0


def test_order_of_keys_in_inputs_matters(server: FakeAnthropic) -> None:
    """Keys in another order inside a tool's input or schema are another prompt."""

    def talk(**input_: int) -> dict[str, Any]:
        call = assistant(tool_use("t", **input_))
        return body_of(user(LONG), call, user(marked(tool_result("t"))), tools=[TOOL])

    figures(server, talk(a=1, b=2))
    assert figures(server, talk(b=2, a=1))[2] == 0
    assert figures(server, talk(a=1, b=2))[2] > 0


def test_form_of_the_same_prompt_does_not_matter(server: FakeAnthropic) -> None:
    """A plain text and one text block, merged or separate messages, are the same prompt."""
    figures(server, body_of(user(LONG, marked("x"))))

    read = figures(server, body_of({"role": "user", "content": LONG}, user(marked("x"))))[2]

    assert read == server.messages[0].input_tokens


def test_diagnostics_name_the_reason(server: FakeAnthropic) -> None:
    """Asked for, the answer says what diverged from the previous message's request."""
    body = body_of(user(marked(LONG)), tools=[TOOL], system=[marked(LONG)])
    id_ = accept(server, body)["id"]

    def reason(changed: dict[str, Any], previous: str | None = id_) -> Any:
        asked = {**changed, "diagnostics": {"previous_message_id": previous}}
        found = accept(server, asked)["diagnostics"]
        return found and found["cache_miss_reason"]["type"]

    longer = [*body["messages"], assistant("ok"), user("More.")]
    assert reason({**body, "messages": longer}) is None
    assert reason(body, None) is None
    assert reason({**body, "messages": [user("Other.")]}) == "messages_changed"
    assert reason({**body, "system": "Other."}) == "system_changed"
    assert reason({**body, "tools": [{**TOOL, "description": "x"}]}) == "tools_changed"
    assert reason({**body, "model": "claude-opus-5-5"}) == "model_changed"
    assert reason(body, "msg_none") == "previous_message_not_found"
