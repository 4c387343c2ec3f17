"""Thinking: signed, verified, bound to what stands before it."""

from __future__ import annotations

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


def steps(model: str, thinking: dict[str, Any], count: int = 3) -> tuple[FakeAnthropic, Any]:
    """Return a running server and the body after `count` tool steps, each with thinking."""
    script = [
        reply(Text(f"Step {n}."), Call("run_code", code=f"{n}"), thinking=f"Thought {n}.")
        for n in range(count)
    ]
    server = FakeAnthropic([*script, *["ok"] * 9])
    server.__enter__()
    body = body_of(
        user("Go."),
        model=model,
        max_tokens=2000,
        tools=[TOOL],
        thinking=thinking,
        system="Be good.",
    )
    for _ in range(count):
        message = accept(server, body)
        body["messages"].append({"role": "assistant", "content": message["content"]})
        body["messages"].append(user(tool_result(message["content"][-1]["id"])))
    return server, body


@pytest.fixture
def bound() -> Any:
    """Three steps on a model that binds thinking: (server, body)."""
    server, body = steps(BINDING, ADAPTIVE)
    yield server, body
    server.close()


@pytest.fixture
def free() -> Any:
    """Three steps on a model that does not bind thinking: (server, body)."""
    server, body = steps(FREE, MANUAL)
    yield server, body
    server.close()


def without_thinking(body: dict[str, Any], *numbers: int) -> dict[str, Any]:
    """Return the body without the thinking of the given messages."""
    copy = deepcopy(body)
    for number in numbers:
        content = copy["messages"][number]["content"]
        copy["messages"][number]["content"] = [b for b in content if b["type"] != "thinking"]
    return copy


def test_unchanged_thinking_is_accepted(bound: Any, free: Any) -> None:
    """A conversation sent back as it came is accepted, markers or not."""
    for server, body in (bound, free):
        accept(server, body)
        moved = deepcopy(body)
        moved["messages"][-1]["content"][0] = marked(moved["messages"][-1]["content"][0])
        accept(server, moved)


def test_thinking_may_be_missing_from_the_front(bound: Any) -> None:
    """Any number of thinking blocks may be left out, oldest first, up to all."""
    server, body = bound

    accept(server, without_thinking(body, 1))
    accept(server, without_thinking(body, 1, 3))
    accept(server, without_thinking(body, 1, 3, 5))


@pytest.mark.parametrize("missing", [(3,), (5,), (1, 5), (3, 5)])
def test_thinking_missing_elsewhere_is_refused(bound: Any, missing: tuple[int, ...]) -> None:
    """A block left out behind one that stays is a 400."""
    server, body = bound

    refusal(server, without_thinking(body, *missing))


@pytest.mark.parametrize("where", ["system", "tools", "first message", "result", "merged text"])
def test_edited_prefix_is_refused(bound: Any, where: str) -> None:
    """Thinking after a changed system prompt, tool or earlier message is a 400."""
    server, body = bound
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


def test_edited_prefix_is_fine_without_thinking(bound: Any) -> None:
    """A compaction passes: a summary first, a tail without thinking, and new thinking after it."""
    server, body = bound
    body["messages"] = [user("Summary."), *without_thinking(body, 3, 5)["messages"][3:]]
    server.append(reply("More.", thinking="Anew."))
    while server.unused != [reply("More.", thinking="Anew.")]:
        accept(server, body_of())
    message = accept(server, body)
    body["messages"].append({"role": "assistant", "content": message["content"]})
    body["messages"].append(user("Go on."))
    server.append("ok")

    assert message["content"][0]["type"] == "thinking"
    accept(server, body)


def test_compaction_that_keeps_thinking_is_refused(bound: Any) -> None:
    """Thinking left in the tail behind a summary is a 400."""
    server, body = bound
    body["messages"] = [user("Summary."), *body["messages"][3:]]

    assert BOUND in refusal(server, body)


def test_edited_prefix_is_fine_on_other_models(free: Any) -> None:
    """A model that does not bind thinking takes it after an edited prefix."""
    server, body = free
    body["messages"][0] = user("Go on.")

    accept(server, body)


def test_changed_text_is_refused_on_every_model(bound: Any, free: Any) -> None:
    """A thinking text that is not the signed one is a 400."""
    for server, body in (bound, free):
        body["messages"][1]["content"][0]["thinking"] = "Another thought."
        assert MODIFIED in refusal(server, body)


def test_forged_signature_is_refused_on_every_model(bound: Any, free: Any) -> None:
    """A signature that is not ours is a 400, an empty one included."""
    for server, body in (bound, free):
        for signature in ("", "AAAA", "no base64!"):
            body["messages"][1]["content"][0]["signature"] = signature
            assert "Invalid `signature` in `thinking` block" in refusal(server, body)


def test_thinking_of_another_model_is_dropped(bound: Any, free: Any) -> None:
    """Another model's thinking is dropped silently, and costs nothing."""
    server, body = bound
    other = without_thinking({**body, "model": FREE, "thinking": {"type": "disabled"}}, 1, 3, 5)
    accept(server, other)
    accept(server, {**body, "model": FREE, "thinking": {"type": "disabled"}})

    bare, full = server.messages[-2:]
    assert bare.input_tokens == full.input_tokens


def test_going_back_to_the_first_model(bound: Any) -> None:
    """After a switch and back, the first model's thinking is still bound to the whole."""
    server, body = bound
    server.append(reply("Mine.", thinking="Of the other."))
    while server.unused != [reply("Mine.", thinking="Of the other.")]:
        accept(server, body_of())
    config = {"model": "claude-opus-5-5", "thinking": ADAPTIVE}
    message = accept(server, {**body, **config})
    body["messages"].append({"role": "assistant", "content": message["content"]})
    body["messages"].append(user("Back."))
    server.append("ok")

    assert message["content"][0]["type"] == "thinking"
    accept(server, body)


def test_manual_loop_starts_with_thinking(free: Any) -> None:
    """With manual thinking, an open tool loop must begin with a thinking block."""
    server, body = free

    assert "messages.1.content.0.type: Expected `thinking`" in refusal(
        server, without_thinking(body, 1)
    )
    accept(server, without_thinking(body, 3))
    body["messages"] += [assistant("Done."), user("Next.")]
    accept(server, without_thinking(body, 1, 3, 5))


def test_last_block_may_not_be_thinking(bound: Any) -> None:
    """An assistant message must not end with a thinking block."""
    server, body = bound
    body["messages"] = [user("Go."), assistant(body["messages"][1]["content"][0]), user("Well?")]

    assert refusal(server, body) == (
        "messages.1: The final block in an assistant message cannot be `thinking`."
    )


def test_thinking_of_the_user_is_refused(bound: Any) -> None:
    """Thinking stands in assistant messages only."""
    server, body = bound

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


def test_mismatch_can_be_dropped(bound: Any) -> None:
    """With the binding controls, blocks that do not fit are dropped and reported."""
    server, body = bound
    body["messages"][0] = user("Go on.")
    binding = {"prefix_mismatch_behavior": "drop_block"}
    body["thinking"] = {**ADAPTIVE, "block_binding": binding}

    answer = accept(server, body, anthropic_beta="thinking-binding-controls-2026-08-01")

    assert [entry["path"] for entry in answer["input_transformations"]] == [
        f"messages.{number}.content.0" for number in (1, 3, 5)
    ]


def test_a_second_server_knows_the_signatures(bound: Any) -> None:
    """A server started later verifies the blocks of the first one alike."""
    _, body = bound
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


def test_unknown_call_may_follow(bound: Any) -> None:
    """Blocks the server never sent (a demo's, another provider's) do not count as missing."""
    server, body = bound
    body["messages"] += [assistant("Cut here", tool_use("x1")), user(tool_result("x1"))]

    accept(server, body)
