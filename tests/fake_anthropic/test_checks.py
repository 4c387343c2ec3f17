"""The checks other tests rely on: each passes on a good conversation and fails on a bad one."""

from __future__ import annotations

from typing import Any

import pytest

from . import Call, FakeAnthropic, FakeModel, Hold, Recorded, Text, refuse, reply, status
from .checks import (
    assert_append_only,
    assert_healthy,
    assert_markers,
    assert_never_over_window,
    assert_prefix_read,
    cache_read_ratio,
    first_difference,
)
from .raw import TOOL, accept, assistant, body_of, marked, refusal, send, tool_result, user

SYSTEM = [marked("Be good. " * 300)]


class Talk:
    """A conversation that is sent step by step, its marker on the newest message."""

    def __init__(self, server: FakeAnthropic) -> None:
        self.server = server
        self.log: list[dict[str, Any]] = [user("Go.")]

    def send(self, *extra: dict[str, Any], mark: int = -1, **changes: Any) -> dict[str, Any]:
        """Send the log and `extra`, with the marker on message `mark`."""
        messages = [*self.log, *extra]
        newest = messages[mark]
        blocks = [*newest["content"][:-1], marked(newest["content"][-1])]
        messages[mark] = {**newest, "content": blocks}
        return accept(self.server, body_of(*messages, tools=[TOOL], system=SYSTEM, **changes))

    def step(self) -> None:
        """Send, and append reply and result."""
        content = self.send()["content"]
        calls = [block for block in content if block["type"] == "tool_use"]
        answer: list[Any] = [tool_result(block["id"]) for block in calls] or ["Go on."]
        self.log += [{"role": "assistant", "content": content}, user(*answer)]


def answer(request: dict[str, Any]) -> Any:
    """Call a tool for ever."""
    return reply(Text("Let me see."), Call("run_code", b=1, a=len(request["messages"])))


@pytest.fixture
def talk() -> Any:
    """Three good steps."""
    with FakeAnthropic(answer) as server:
        made = Talk(server)
        for _ in range(3):
            made.step()
        yield made


def all_checks(requests: list[Recorded], **how: Any) -> None:
    assert_append_only(requests, **how)
    assert_markers(requests, **how)
    assert_prefix_read(requests, **how)
    assert_never_over_window(requests)


def test_good_conversation(talk: Talk) -> None:
    """Steps and retries pass every check, and are read from the cache."""
    talk.send()
    talk.send()

    all_checks(talk.server.messages)
    assert_healthy(talk.server)
    assert cache_read_ratio(talk.server.messages, 1, 1) == 0
    assert cache_read_ratio(talk.server.messages, 2) > 0.9


def test_compaction(talk: Talk) -> None:
    """A side request and a new prefix after it are found; more steps follow."""
    talk.send()
    talk.send(user("Summarise."), mark=-2)
    talk.log = [user("Summary."), *talk.log[-2:]]
    talk.step()
    talk.step()

    all_checks(talk.server.messages)
    assert assert_append_only(talk.server.messages) == [5]


def test_cut_compaction(talk: Talk) -> None:
    """A side request cut to fit is recognised by a function, and ends in a new prefix."""

    def is_side(record: Recorded) -> bool:
        return record.last_text == "Summarise."

    talk.send()
    whole = talk.log
    talk.send(user("Summarise."), mark=-2)
    talk.log = [user("Earlier turns are gone."), *whole[3:]]
    talk.send(user("Summarise."), mark=-2)
    talk.log = [user("Summary."), *whole[-2:]]
    talk.step()

    all_checks(talk.server.messages, is_side=is_side)
    assert assert_append_only(talk.server.messages, is_side=is_side) == [6]


def test_failed_compaction_goes_on(talk: Talk) -> None:
    """After a side request the log may go on as if it had not been."""
    talk.step()
    base = talk.log[:-2]
    talk.log, kept = base, talk.log
    talk.send(user("Summarise."), mark=-2)
    talk.log = kept
    talk.step()

    all_checks(talk.server.messages)


@pytest.mark.parametrize("steps_later", [0, 1, 2])
def test_compaction_beside_the_steps(talk: Talk, steps_later: int) -> None:
    """A side request may arrive behind later steps; the new prefix begins later still."""
    prompt = list(talk.log[:-2])
    for _ in range(steps_later):
        talk.step()
    grown, talk.log = talk.log, prompt
    talk.send(user("Summarise."), mark=-2)
    talk.log = grown
    talk.step()
    talk.log = [user("Summary."), *talk.log[-2:]]
    talk.step()

    all_checks(talk.server.messages)
    assert assert_append_only(talk.server.messages) == [5 + steps_later]


def test_one_summary_begins_one_prefix(talk: Talk) -> None:
    """A second new prefix needs a side request of its own."""
    talk.send(user("Summarise."))
    for _ in range(2):
        talk.log = [user(f"Summary {len(talk.log)}."), *talk.log[-2:]]
        talk.step()

    with pytest.raises(AssertionError, match=r"messages\.0\.content\.0"):
        assert_append_only(talk.server.messages)


def test_unannounced_prefix_fails(talk: Talk) -> None:
    """A new prefix without a side request, or where none was announced, fails."""
    talk.log = [user("Summary."), *talk.log[-2:]]
    talk.send()

    with pytest.raises(AssertionError, match=r"messages\.0\.content\.0"):
        assert_append_only(talk.server.messages)
    assert assert_append_only(talk.server.messages, boundaries=[3]) == [3]


@pytest.mark.parametrize("where", ["result", "reply", "key order", "dropped", "system", "tools"])
def test_changed_bytes_fail(talk: Talk, where: str) -> None:
    """A changed, dropped or reordered byte is named with its place."""
    changes: dict[str, Any] = {}
    place = {
        "result": r"messages\.2\.content\.0",
        "reply": r"block 0 of the reply to request number 3",
        "key order": r"messages\.1\.content\.1",
        "dropped": r"messages\.3",
        "system": "system changed",
        "tools": "tools changed",
    }[where]
    if where == "result":
        talk.log[2]["content"][0]["content"] = "gone"
    elif where == "reply":
        talk.log[5]["content"][0]["text"] = "Let me think."
    elif where == "key order":
        talk.log[1]["content"][1]["input"] = dict(
            reversed(talk.log[1]["content"][1]["input"].items())
        )
    elif where == "dropped":
        del talk.log[3:5]
    body = body_of(*talk.log[:-1], user(*map(marked, talk.log[-1]["content"])))
    body |= {"tools": [TOOL], "system": SYSTEM} | changes
    if where in ("system", "tools"):
        body |= {"system": "Other."} if where == "system" else {"tools": [{**TOOL, "name": "x"}]}
    send(talk.server, body)

    with pytest.raises(AssertionError, match=place):
        assert_append_only(talk.server.messages)


def test_left_out_reply_fails(talk: Talk) -> None:
    """A request that leaves out the last reply and says more than one message fails."""
    talk.log = [*talk.log[:-2], user("a"), assistant("b"), user("c")]
    talk.send()

    with pytest.raises(AssertionError, match="leaves out the reply"):
        assert_append_only(talk.server.messages)


def test_markers_that_fail(talk: Talk) -> None:
    """No marker on the newest message, or moved ones in a side request, fail."""
    good = talk.server.messages
    talk.send(mark=-2)
    with pytest.raises(AssertionError, match="last marker at"):
        assert_markers(talk.server.messages)
    talk.server.requests[:] = good
    talk.send()
    talk.send(user("Summarise."))
    with pytest.raises(AssertionError, match="request 4: markers at"):
        assert_markers(talk.server.messages)
    talk.server.requests[:] = good
    accept(talk.server, body_of(*talk.log, tools=[TOOL], system=[{"type": "text", "text": "x"}]))
    with pytest.raises(AssertionError, match="request 3: 0 markers"):
        assert_markers(talk.server.messages)


def test_unread_prefix_fails(talk: Talk) -> None:
    """A request that could have read more from the cache fails."""
    talk.send(thinking={"type": "disabled"})

    with pytest.raises(AssertionError, match="request 3 read"):
        assert_prefix_read(talk.server.messages)


def test_failed_and_stopped_requests_go_on() -> None:
    """After an error, a stop or a refusal, what was sent is still the start of what follows."""
    script: list[Any] = [
        status(529),
        "ok",
        reply(Text("So far"), Hold("h")),
        "ok",
        refuse("No."),
        "ok",
    ]
    with FakeAnthropic(script) as server:
        body = body_of(user("One."))
        send(server, body)
        accept(server, body)
        body["messages"] += [assistant("ok"), user("Two.")]
        server.release("h")
        accept(server, body)
        server.messages[-1].complete = False
        body["messages"] += [assistant("So far", "[Stopped by the user]"), user("Three.")]
        accept(server, body)
        body["messages"] += [assistant("ok"), user("Four.")]
        accept(server, body)
        body["messages"][-1] = user("Five.")
        accept(server, body)

        assert assert_append_only(server.messages) == []


def test_over_the_window_fails() -> None:
    """A request that did not fit fails, and is unhealthy."""
    models = {"claude-sonnet-5-5": FakeModel(window=100)}
    with FakeAnthropic(models=models) as server:
        refusal(server, body_of(user("x" * 1_000), max_tokens=10))

    with pytest.raises(AssertionError, match="request 0: 328 tokens in a window of 100"):
        assert_never_over_window(server.messages)
    with pytest.raises(AssertionError, match="prompt is too long"):
        assert_healthy(server)


def test_first_difference() -> None:
    """The difference is named by message and block, with both texts; markers do not count."""
    before = [user("a", "b"), assistant("c")]

    assert first_difference(before, [user("a", marked("b")), assistant("c"), user("d")]) == ""
    assert first_difference(before, [user("a")]).startswith("messages.0: 2 blocks became 1")
    assert first_difference(before, before[:1]).startswith("messages.1 is missing")
    assert "'c'" not in first_difference(before, [user("a", "x"), assistant("c")])
    assert first_difference(before, [user("a", "b"), user("c")]) == (
        "messages.1.role: assistant became user"
    )
