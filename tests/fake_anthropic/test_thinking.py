"""Thinking: signed, verified, bound to what stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from . import Call, FakeAnthropic, Text, Thinking, reply
from .raw import TOOL, accept, assistant, body_of, marked, refusal, tool_result, tool_use, user

BINDING = "claude-sonnet-5-5"
FREE = "claude-haiku-4-5"
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
MANUAL = {"type": "enabled", "budget_tokens": 1024}
BOUND = "The block is bound to a different conversation"
MODIFIED = "cannot be modified"


class Talk:
    """A server and the body of its next request, after three tool steps with thinking."""

    def __init__(self, server: FakeAnthropic, answers: list[Any], body: dict[str, Any]) -> None:
        self.server, self.answers, self.body = server, answers, body

    def step(self, *said: Any, **changes: Any) -> list[dict[str, Any]]:
        """Send the body, append the reply and the user's next message; return the reply."""
        content: list[dict[str, Any]] = accept(self.server, {**self.body, **changes})["content"]
        answer = said or (tool_result(content[-1]["id"]),)
        self.body["messages"] += [{"role": "assistant", "content": content}, user(*answer)]
        return content


def three_steps(model: str, thinking: dict[str, Any]) -> Iterator[Talk]:
    """Yield a talk after three steps; then the server says "ok", or what `answers` holds."""
    answers: list[Any] = [
        reply(Text(f"Step {n}."), Call("run_code", code=f"{n}"), thinking=f"Thought {n}.")
        for n in range(3)
    ]
    settings = {"model": model, "thinking": thinking, "max_tokens": 2000, "system": "Be good."}
    with FakeAnthropic(lambda request: answers.pop(0) if answers else "ok") as server:
        talk = Talk(server, answers, body_of(user("Go."), tools=[TOOL], **settings))
        for _ in range(3):
            talk.step()
        yield talk


@pytest.fixture
def bound() -> Iterator[Talk]:
    """Three steps on a model that binds thinking."""
    yield from three_steps(BINDING, ADAPTIVE)


@pytest.fixture
def free() -> Iterator[Talk]:
    """Three steps on a model that does not bind thinking."""
    yield from three_steps(FREE, MANUAL)


def without_thinking(body: dict[str, Any], *numbers: int) -> dict[str, Any]:
    """Return the body without the thinking of the given messages."""
    copy = deepcopy(body)
    for number in numbers:
        content = copy["messages"][number]["content"]
        copy["messages"][number]["content"] = [b for b in content if b["type"] != "thinking"]
    return copy


def test_unchanged_thinking_is_accepted(bound: Talk, free: Talk) -> None:
    """A conversation sent back as it came is accepted, markers or not."""
    for talk in (bound, free):
        server, body = talk.server, talk.body
        accept(server, body)
        moved = deepcopy(body)
        moved["messages"][-1]["content"][0] = marked(moved["messages"][-1]["content"][0])
        accept(server, moved)


def test_thinking_may_be_missing_from_the_front(bound: Talk) -> None:
    """Any number of thinking blocks may be left out, oldest first, up to all."""
    server, body = bound.server, bound.body

    accept(server, without_thinking(body, 1))
    accept(server, without_thinking(body, 1, 3))
    accept(server, without_thinking(body, 1, 3, 5))


@pytest.mark.parametrize("missing", [(3,), (5,), (1, 5), (3, 5)])
def test_thinking_missing_elsewhere_is_refused(bound: Talk, missing: tuple[int, ...]) -> None:
    """A block left out behind one that stays is a 400."""
    server, body = bound.server, bound.body

    refusal(server, without_thinking(body, *missing))


@pytest.mark.parametrize("where", ["system", "tools", "first message", "result", "merged text"])
def test_edited_prefix_is_refused(bound: Talk, where: str) -> None:
    """Thinking after a changed system prompt, tool or earlier message is a 400."""
    server, body = bound.server, bound.body
    if where == "system":
        body["system"] = "Be better."
    elif where == "tools":
        body["tools"] = [{**TOOL, "description": "Runs code."}]
    elif where == "first message":
        body["messages"][0] = user("Go on.")
    elif where == "result":
        body["messages"][2]["content"][0]["content"] = "gone"
    else:
        body["messages"].insert(1, user("And more."))

    assert BOUND in refusal(server, body)


def test_edited_prefix_is_fine_without_thinking(bound: Talk) -> None:
    """A compaction passes: a summary first, a tail without thinking, and new thinking after it."""
    tail = without_thinking(bound.body, 3, 5)["messages"][3:]
    bound.body["messages"] = [user("Summary."), *tail]
    bound.answers += [reply("More.", thinking="Anew."), reply("And more.", thinking="Again.")]

    content = [bound.step("Go on.")[0], bound.step("Go on.")[0]]

    assert [block["type"] for block in content] == ["thinking", "thinking"]
    accept(bound.server, bound.body)


def test_compaction_that_keeps_thinking_is_refused(bound: Talk) -> None:
    """Thinking left in the tail behind a summary is a 400."""
    server, body = bound.server, bound.body
    body["messages"] = [user("Summary."), *body["messages"][3:]]

    assert BOUND in refusal(server, body)


def test_edited_prefix_is_fine_on_other_models(free: Talk) -> None:
    """A model that does not bind thinking takes it after an edited prefix."""
    server, body = free.server, free.body
    body["messages"][0] = user("Go on.")

    accept(server, body)


def test_changed_text_is_refused_on_every_model(bound: Talk, free: Talk) -> None:
    """A thinking text that is not the signed one is a 400."""
    for talk in (bound, free):
        server, body = talk.server, talk.body
        body["messages"][1]["content"][0]["thinking"] = "Another thought."
        assert MODIFIED in refusal(server, body)


def test_forged_signature_is_refused_on_every_model(bound: Talk, free: Talk) -> None:
    """A signature that is not ours is a 400, an empty one included."""
    for talk in (bound, free):
        server, body = talk.server, talk.body
        for signature in ("", "AAAA", "no base64!"):
            body["messages"][1]["content"][0]["signature"] = signature
            assert "Invalid `signature` in `thinking` block" in refusal(server, body)


def test_thinking_of_another_model_is_dropped(bound: Talk, free: Talk) -> None:
    """Another model's thinking is dropped silently, and costs nothing."""
    server, body = bound.server, bound.body
    other = without_thinking({**body, "model": FREE, "thinking": {"type": "disabled"}}, 1, 3, 5)
    accept(server, other)
    accept(server, {**body, "model": FREE, "thinking": {"type": "disabled"}})

    bare, full = server.messages[-2:]
    assert bare.input_tokens == full.input_tokens


def test_going_back_to_the_first_model(bound: Talk) -> None:
    """After a switch and back, each model's thinking is still bound to the whole."""
    bound.answers += [reply("B.", thinking="Of the other."), reply("A.", thinking="Back again.")]
    other = bound.step("Back.", model="claude-opus-5-5")
    first = bound.step("On.")

    assert [other[0]["type"], first[0]["type"]] == ["thinking", "thinking"]
    accept(bound.server, bound.body)
    accept(bound.server, {**bound.body, "model": "claude-opus-5-5"})


def test_manual_loop_starts_with_thinking(free: Talk) -> None:
    """With manual thinking, an open tool loop must begin with a thinking block."""
    server, body = free.server, free.body

    assert "messages.1.content.0.type: Expected `thinking`" in refusal(
        server, without_thinking(body, 1)
    )
    accept(server, without_thinking(body, 3))
    body["messages"] += [assistant("Done."), user("Next.")]
    accept(server, without_thinking(body, 1, 3, 5))


def test_last_block_may_not_be_thinking(bound: Talk) -> None:
    """An assistant message must not end with a thinking block."""
    server, body = bound.server, bound.body
    body["messages"] = [user("Go."), assistant(body["messages"][1]["content"][0]), user("Well?")]

    assert refusal(server, body) == (
        "messages.1: The final block in an assistant message cannot be `thinking`."
    )


def test_thinking_of_the_user_is_refused(bound: Talk) -> None:
    """Thinking stands in assistant messages only."""
    server, body = bound.server, bound.body

    block = body["messages"][1]["content"][0]
    assert "can only be in `assistant`" in refusal(server, body_of(user(block, "x")))


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        (ADAPTIVE, "Hm."),
        ({"type": "adaptive"}, ""),
        ({"type": "adaptive", "display": "omitted"}, ""),
        ({"type": "disabled"}, None),
        (None, None),
    ],
)
def test_display_of_thinking(config: dict[str, Any] | None, shown: str | None) -> None:
    """The text is left out unless asked for; with thinking off there is no block."""
    with FakeAnthropic([reply("x", thinking="Hm.")]) as server:
        content = accept(server, body_of(thinking=config))["content"]

    thoughts = [block["thinking"] for block in content if block["type"] == "thinking"]
    assert thoughts == ([] if shown is None else [shown])


def test_redacted_and_interleaved_thinking() -> None:
    """Redacted blocks, and thinking between other blocks, come back unchanged or are refused."""
    parts = (Thinking("One."), Text("a"), Thinking("Two.", redacted=True), Call("run_code"))
    with FakeAnthropic([reply(*parts), "ok"]) as server:
        body = body_of(tools=[TOOL], thinking=ADAPTIVE)
        content = accept(server, body)["content"]
        back = [*body["messages"], {"role": "assistant", "content": content}]
        back.append(user(tool_result(content[-1]["id"])))
        accept(server, {**body, "messages": back})

        assert [b["type"] for b in content][2] == "redacted_thinking"
        back[1] = {"role": "assistant", "content": [content[0], content[1], content[3]]}
        assert MODIFIED in refusal(server, {**body, "messages": back})
        back[1] = {"role": "assistant", "content": [content[2], *content[:2], content[3]]}
        refusal(server, {**body, "messages": back})


def test_mismatch_can_be_dropped(bound: Talk) -> None:
    """With the binding controls, blocks that do not fit are dropped and reported."""
    server, body = bound.server, bound.body
    body["messages"][0] = user("Go on.")
    binding = {"prefix_mismatch_behavior": "drop_block"}
    body["thinking"] = {**ADAPTIVE, "block_binding": binding}

    answer = accept(server, body, anthropic_beta="thinking-binding-controls-2026-08-01")

    assert [entry["path"] for entry in answer["input_transformations"]] == [
        f"messages.{number}.content.0" for number in (1, 3, 5)
    ]


def test_a_second_server_knows_the_signatures(bound: Talk) -> None:
    """A server started later verifies the blocks of the first one alike."""
    body = bound.body
    with FakeAnthropic(lambda request: "ok") as later:
        accept(later, body)
        body["messages"][0] = user("Go on.")
        assert BOUND in refusal(later, body)


def test_cut_thinking_has_no_signature() -> None:
    """Thinking cut by max_tokens arrives without a signature."""
    with FakeAnthropic([reply("x", thinking="y" * 400)]) as server:
        message = accept(server, body_of(thinking=ADAPTIVE, max_tokens=20))

    assert message["stop_reason"] == "max_tokens"
    assert message["content"] == [{"type": "thinking", "thinking": "y" * 64, "signature": ""}]


def test_unknown_call_may_follow(bound: Talk) -> None:
    """Blocks the server never sent (a demo's, another provider's) do not count as missing."""
    server, body = bound.server, bound.body
    body["messages"] += [assistant("Cut here", tool_use("x1")), user(tool_result("x1"))]

    accept(server, body)
