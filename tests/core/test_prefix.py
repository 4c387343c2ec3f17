"""Our own check of the prompt's beginning: what differs is named, what was meant is no fault."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from jupyter_ctx.core import prefix
from jupyter_ctx.core.blocks import (
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    user,
)
from jupyter_ctx.core.breaks import REFUSED, Cause, find_cause
from jupyter_ctx.core.entries import (
    Entry,
    ExcludeEntry,
    ModelEntry,
    PinEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from jupyter_ctx.core.ports import Request
from jupyter_ctx.core.prefix import PrefixWatch, find_differences
from jupyter_ctx.testing import FakeSession, ScriptedModel, call, make_session, reply
from tests.kernels import Ran

from .strategies import compaction_entry, valid_views

TOOLS: tuple[dict[str, object], ...] = ({"name": "look"}, {"name": "run_code", "description": "d"})
LONG = "a word and another, " * 4
TALK = (
    user(Text("one"), Text(LONG)),
    assistant(
        Thinking({"type": "thinking", "thinking": "well", "signature": "s"}),
        ToolUse("toolu_1", "run_code", {"code": "1", "also": {"x": [1]}}),
    ),
    user(ToolResult("toolu_1", (Text("3"), Image("image/png", "aGk=", 1, 1)))),
    assistant(Opaque({"type": "server_tool_use", "id": "srv"}), Text("Three.")),
)


def ask(*messages: Message, **changes: Any) -> Request:
    """Return a request of these messages."""
    fields: dict[str, Any] = {"model": "m", "system": "Be brief.", "tools": TOOLS}
    return Request(**{**fields, "messages": messages, "max_tokens": 10, **changes})


def changed(index: int, block: int, new: Any) -> tuple[Message, ...]:
    """Return the talk with one block replaced, in a new message."""
    content = list(TALK[index].content)
    content[block] = new
    talk = list(TALK)
    talk[index] = Message(TALK[index].role, tuple(content))
    return tuple(talk)


# Comparing ----------------------------------------------------------------------------------------


@given(valid_views(1), valid_views())
@settings(max_examples=50, deadline=None)
def test_what_only_grew_differs_nowhere(
    view: tuple[Message, ...], more: tuple[Message, ...]
) -> None:
    """A prompt and whatever follows it begin alike, also if the messages are equal copies."""
    copies = tuple(Message(message.role, message.content) for message in view)

    assert find_differences(ask(*view), ask(*copies, *more)) == ()


@pytest.mark.parametrize(
    ("after", "kind", "where"),
    [
        (ask(*TALK, model="n"), "model", "model: m became n"),
        (ask(*TALK, thinking="adaptive"), "settings", "thinking: off became adaptive"),
        (ask(*TALK, effort="low"), "settings", "effort: None became low"),
        (ask(*TALK, cache_ttl="1h"), "settings", "cache_ttl: 5m became 1h"),
        (
            ask(*TALK, system="Be long."),
            "system",
            "system: text differs at character 3: 'brief.' became 'long.'",
        ),
        (ask(*TALK, tools=TOOLS[:1]), "tools", "there were 2 tools, now 1"),
        (
            ask(*TALK, tools=(TOOLS[0], {"description": "d", "name": "run_code"})),
            "tools",
            "tool 1 (run_code): text differs at character 2: "
            '\'name": "run_code", "description": "d"}\' became '
            '\'description": "d", "name": "run_code"}\'',
        ),
        (ask(*TALK[:2]), "messages", "message 2 (user) is gone"),
        (
            ask(*TALK[:1], TALK[2]),
            "messages",
            "message 1: role assistant became user",
        ),
        (
            ask(*changed(0, 1, Text(LONG + "!"))),
            "messages",
            "message 0, block 1 (text): text differs at character 80: '' became '!'",
        ),
        (
            ask(*changed(2, 0, ToolResult("toolu_1", (Text("4"),)))),
            "messages",
            "message 2, block 0 (tool_result toolu_1): text differs at character 88: ",
        ),
        (ask(*changed(3, 1, ToolUse("t", "x", {}))), "messages", "block 1 (text): became tool_use"),
        (ask(user(Text("one"))), "messages", "message 0: there were 2 blocks, now 1"),
        (
            ask(*changed(3, 0, Opaque({"type": "other"}))),
            "messages",
            "message 3, block 0 (server_tool_use): text differs at character 10: ",
        ),
    ],
)
def test_the_first_difference_is_named(after: Request, kind: str, where: str) -> None:
    """Part, message, block and character are named, with how both go on."""
    (found,) = find_differences(ask(*TALK), after)

    assert found.kind == kind
    assert where in found.where
    assert len(found.where) < 250


def test_the_order_of_keys_counts_and_the_gauges_part_does_not() -> None:
    """Keys in another order are other bytes; the part that a text belongs to is never sent."""
    turned = ToolUse("toolu_1", "run_code", {"also": {"x": [1]}, "code": "1"})
    same = Text("one", "notebook")

    assert not find_differences(ask(*TALK), ask(*changed(0, 0, same)))
    assert not find_differences(ask(*TALK), ask(*TALK, tools=tuple(map(dict, TOOLS))))
    # equal as objects, and so taken for equal: nothing of ours ever writes an input anew
    assert turned == TALK[1].content[1]


def test_each_part_is_compared() -> None:
    """A prompt that differs in several parts has a difference for each."""
    other = ask(model="n", system="", tools=())

    kinds = [each.kind for each in find_differences(ask(*TALK), other)]

    assert kinds == ["model", "tools", "system", "messages"]


# Watching -----------------------------------------------------------------------------------------


def watch(*entries: Entry) -> PrefixWatch:
    """Return a watch that saw the talk sent, then the entries."""
    found = PrefixWatch()
    found.check(ask(*TALK), 1, 1)
    for entry in entries:
        found.observe(entry)
    return found


def warnings(guard: list[str]) -> list[str]:
    """Return the warnings so far, and take them from the guard: they were provoked."""
    found = list(guard)
    guard.clear()
    return found


def provoke(found: PrefixWatch, request: Request, **more: Any) -> None:
    """Check a request that the guard of the tests must not let pass."""
    with pytest.raises(AssertionError, match="does not begin as the one before"):
        found.check(request, 2, 1, **more)


OTHER = ask(user(Text("summary")), *TALK[2:])


@pytest.mark.parametrize(
    ("entry", "cause", "request_"),
    [
        (compaction_entry(1, 2), "compaction", OTHER),
        (RewindEntry(0.0, 1), "rewind", OTHER),
        (SummaryEditEntry(0.0, 1, user(Text("s")), "s"), "summary_edit", OTHER),
        (SummaryUndoEntry(0.0, 1), "summary_undo", OTHER),
        (ExcludeEntry(0.0, 1, REFUSED), "refusal", OTHER),
        (ExcludeEntry(0.0, 1, "No key."), "left_out", OTHER),
        (RepairEntry(0.0, (), "torn"), "repair", OTHER),
        (ModelEntry(0.0, "n"), "model_switch", ask(*TALK, model="n", thinking="adaptive")),
        (PrefixEntry(0.0, "s", ()), "prefix", ask(*TALK, system="s", tools=())),
        (PinEntry(0.0, 1, "x"), "settings", ask(*TALK, effort="low")),
    ],
)
def test_a_break_that_was_meant_is_kept_with_its_cause(
    entry: Entry, cause: Cause, request_: Request
) -> None:
    """Each entry that changes the prompt's beginning explains it, once."""
    found = watch(entry)
    found.check(request_, 2, 3)

    (broken,) = found.breaks
    assert (broken.turn, broken.step, broken.cause) == (2, 3, cause)
    assert find_cause(entry) == (None if cause == "settings" else cause)
    found.check(replace(request_, messages=(*request_.messages, *TALK[1:3])), 2, 4)
    assert len(found.breaks) == 1


def test_a_break_that_nobody_meant_is_an_error_here_and_a_warning_in_use(
    prefix_guard: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The first differing block stands in the log; the next request is compared with this one."""
    found = watch()
    changed_talk = ask(*changed(2, 0, Text("3")))
    with caplog.at_level(logging.WARNING, "jupyter_ctx"):
        provoke(found, changed_talk)

    (told,) = warnings(prefix_guard)
    assert told == (
        "The prompt of turn 2, step 1 does not begin as the one before: "
        "message 2, block 0 (tool_result toolu_1): became text"
    )


@pytest.mark.parametrize(
    ("entry", "request_"),
    [
        (compaction_entry(1, 2), ask(*TALK, system="other")),
        (compaction_entry(1, 2), ask(*TALK, model="n")),
        (ModelEntry(0.0, "n"), OTHER),
        (PrefixEntry(0.0, "s", ()), OTHER),
        (PinEntry(0.0, 1, "x"), OTHER),
        (compaction_entry(1, 2), replace(OTHER, tools=TOOLS[:1])),
    ],
)
def test_a_cause_explains_only_what_it_changes(
    entry: Entry, request_: Request, prefix_guard: list[str]
) -> None:
    """A compaction is no reason for another system prompt, nor a switch for other messages."""
    provoke(watch(entry), request_)

    assert len(warnings(prefix_guard)) == 1


def test_a_cause_counts_for_the_next_step_only(prefix_guard: list[str]) -> None:
    """Once a step was sent, an old rewind explains nothing any more."""
    found = watch(RewindEntry(0.0, 1))
    found.check(ask(*TALK, user(Text("more"))), 2, 1)

    provoke(found, OTHER)
    assert len(warnings(prefix_guard)) == 1


@pytest.mark.parametrize("place", range(4))
def test_a_change_in_place_is_caught_and_named(place: int, prefix_guard: list[str]) -> None:
    """What changes behind the back in a message that was sent is found, though it is the same."""
    new = {
        0: Text("other"),
        1: ToolUse("toolu_1", "run_code", {"code": "2"}),
        2: ToolResult("toolu_1", (Text("4"),)),
        3: Opaque({"type": "server_tool_use", "id": "other"}),
    }[place]
    index = 1 if place == 1 else 0
    talk = tuple(Message(message.role, message.content) for message in TALK)
    found = PrefixWatch()
    found.check(ask(*talk), 1, 1)
    object.__setattr__(talk[place], "content", changed(place, index, new)[place].content)

    provoke(found, ask(*talk, user(Text("more"))))

    (told,) = warnings(prefix_guard)
    assert f"message {place}, block {index} (" in told
    assert "changed in place" in told
    found.check(ask(*talk, user(Text("more"))), 2, 2)  # told once


def test_an_input_changed_in_place_is_caught(prefix_guard: list[str]) -> None:
    """The objects within a call count too."""
    given: dict[str, Any] = {"code": {"deep": [1]}}
    talk = (user(Text("go")), assistant(ToolUse("toolu_9", "run_code", given)))
    found = PrefixWatch()
    found.check(ask(*talk), 1, 1)
    given["code"]["deep"].append(2)

    provoke(found, ask(*talk, TALK[2]))
    assert "message 1, block 0 (tool_use toolu_9)" in warnings(prefix_guard)[0]


def test_a_block_put_in_behind_the_back_is_caught(prefix_guard: list[str]) -> None:
    """Another number of blocks in a message that was sent is a change too."""
    message = user(Text("one"))
    found = PrefixWatch()
    found.check(ask(message), 1, 1)
    object.__setattr__(message, "content", (Text("one"), Text("two")))

    provoke(found, ask(message, user(Text("more"))))
    assert "message 0: changed in place, 1 blocks became 2" in warnings(prefix_guard)[0]


def test_in_use_a_change_in_place_is_found_in_turn(
    monkeypatch: pytest.MonkeyPatch, prefix_guard: list[str]
) -> None:
    """With a few messages looked at again for each request, all were looked at after a while."""
    monkeypatch.setattr(prefix, "RECHECKED_MESSAGES", 3)
    talk = [user(Text(f"word {n}")) for n in range(20)]
    found = PrefixWatch()
    found.check(ask(*talk), 1, 1)
    object.__setattr__(talk[11], "content", (Text("other"),))
    for step in range(2, 10):
        talk.append(user(Text(f"more {step}")))
        try:
            found.check(ask(*talk), 1, step)
        except AssertionError:
            break

    (told,) = warnings(prefix_guard)
    assert "message 11, block 0 (text): changed in place" in told


def test_what_left_the_view_is_not_held(
    monkeypatch: pytest.MonkeyPatch, prefix_guard: list[str]
) -> None:
    """Marks of messages that are sent no more are forgotten."""
    monkeypatch.setattr(prefix, "RECHECKED_MESSAGES", 4)
    found = PrefixWatch()
    for round_ in range(40):
        found.observe(compaction_entry(1, 2))
        found.check(ask(*(user(Text(f"{round_} {n}")) for n in range(10))), 1, round_)

    assert len(found._marks) <= 3 * 10 + prefix.RECHECKED_MESSAGES
    assert not prefix_guard


# Requests for a summary ---------------------------------------------------------------------------


ASK = user(Text("[Compaction] Sum up."))


def test_a_request_for_a_summary_begins_as_what_was_sent(prefix_guard: list[str]) -> None:
    """Without its last message it is the step before, or less, or that and the reply; no break."""
    found = watch()
    for messages in (TALK, TALK[:2], (*TALK, user(Text("more")))):
        found.check(ask(*messages, ASK), 1, 0, is_side=True)

    assert found.breaks == []
    found.check(ask(*TALK, user(Text("next"))), 2, 1)
    assert found.breaks == []
    provoke(found, ask(*changed(0, 0, Text("x")), ASK), is_side=True)
    provoke(found, ask(*TALK, ASK, system=""), is_side=True)
    assert len(warnings(prefix_guard)) == 2
    assert found.breaks == []


def test_a_request_for_a_summary_takes_no_cause_away() -> None:
    """After a rewind both it and the next step may differ."""
    found = watch(RewindEntry(0.0, 1))
    found.check(replace(OTHER, messages=(*OTHER.messages, ASK)), 1, 0, is_side=True)
    found.check(OTHER, 2, 1)

    assert [broken.cause for broken in found.breaks] == ["rewind"]


def test_one_that_was_cut_to_fit_may_differ(prefix_guard: list[str]) -> None:
    """A request for a summary that was too long is cut on purpose, and only that one."""
    found = watch()
    cut = ask(TALK[0], ASK, system="")
    found.allow(cut)
    found.check(cut, 1, 0, is_side=True)

    provoke(found, ask(TALK[0], ASK, system=""), is_side=True)
    assert len(warnings(prefix_guard)) == 1


# In a session -------------------------------------------------------------------------------------


def two_turns() -> FakeSession:
    """Return a session after two turns, the first of them long."""
    model = ScriptedModel(
        reply("x" * 9_000, call("run_code", code="1")), reply("Two."), reply("Three.")
    )
    session = make_session(model, tail_tokens=0)
    session.ask("one")
    session.ask("two")
    return session


def test_steps_and_turns_break_nothing() -> None:
    """Steps, prompts and tools only add."""
    assert two_turns().prefix_breaks == ()


def test_a_session_keeps_each_break_with_its_cause() -> None:
    """A compaction, its undo and a refusal are told by turn and step."""
    session = two_turns()
    model = session.model
    model.answers += [reply("## Task\nGo on."), reply("Four.")]
    session.compact()
    session.ask("four")
    session.undo_summary()
    model.answers += [reply("Five."), reply("no", stop_reason="refusal"), reply("Seven.")]
    session.ask("five")
    session.ask("six")
    session.ask("seven")

    causes = [(broken.turn, broken.step, broken.cause) for broken in session.prefix_breaks]
    assert causes == [(3, 1, "compaction"), (4, 1, "summary_undo"), (6, 1, "refusal")]


def test_a_message_changed_behind_the_back_fails_the_test(prefix_guard: list[str]) -> None:
    """The turn ends with an error, and who swallows it has it told at the end all the same."""
    session = two_turns()
    message = session.transcript.view[0]
    object.__setattr__(message, "content", (Text("another prompt"),))
    session.model.answers.append(reply("Four."))
    session.ask("four")

    assert session.last_turn is not None
    assert session.last_turn.outcome == "failed"
    (told,) = warnings(prefix_guard)
    assert "message 0, block 0 (text): changed in place" in told


def test_a_view_changed_behind_the_back_fails_the_test(prefix_guard: list[str]) -> None:
    """Another message in the place of one that was sent is caught too."""
    session = two_turns()
    view: Any = session.transcript.view
    view[0] = user(Text("another prompt"))
    session.model.answers.append(reply("Four."))
    session.ask("four")

    (told,) = warnings(prefix_guard)
    assert "message 0, block 0 (text): text differs at character 0: 'one' became" in told


def test_a_long_prompt_is_checked_in_the_time_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In use, each request looks at the new messages and at a fixed number of others."""
    monkeypatch.setattr(prefix, "RECHECKED_MESSAGES", 32)
    looked: list[Message] = []
    real = prefix._fingerprint

    def look(message: Message) -> tuple[int, ...]:
        looked.append(message)
        return real(message)

    monkeypatch.setattr(prefix, "_fingerprint", look)
    talk = [user(Text(f"word {n}")) for n in range(10_000)]
    found = PrefixWatch()
    found.check(ask(*talk), 1, 1)
    looked.clear()
    found.check(ask(*talk, user(Text("more"))), 1, 2)

    assert len(looked) <= 33


def test_a_kernels_warning_fails_the_test_that_runs_it() -> None:
    """What a real kernel logs comes out in a cell, where the driver looks for it."""
    words = "The prompt of turn 2, step 1 does not begin as the one before: message 0"
    content = {"name": "stderr", "text": words}

    with pytest.raises(AssertionError, match="message 0"):
        Ran().add({"msg_type": "stream", "content": content})


def test_the_guard_stands_in_every_test() -> None:
    """Without being asked for: a prompt that breaks unmeant fails whatever test it happens in."""
    names = [type(handler).__name__ for handler in logging.getLogger("jupyter_ctx").handlers]

    assert names.count("_Guard") == 1
