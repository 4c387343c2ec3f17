"""The notebook update in front of a prompt: where it stands, what is kept of it, how it fits."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Message, Text
from jupyter_ctx.core.entries import (
    Entry,
    ExcludeEntry,
    MessageEntry,
    RewindEntry,
    SummaryUndoEntry,
)
from jupyter_ctx.core.offload import Room, ingest_prompt
from jupyter_ctx.core.ports import Update
from jupyter_ctx.core.tokens import SAFETY
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.update import CUT_LINE, fit_update
from jupyter_ctx.core.window import Limits
from jupyter_ctx.testing import FakeUpdates, LetterCounter, ScriptedModel, make_session, reply

from .strategies import logs

fast = settings(max_examples=100, deadline=None)


def room_of(window: int | None, used: int = 0, most_bytes: int = 30_000_000) -> Room:
    """Return a room with `used` of `window` tokens taken."""
    count = LetterCounter().count
    return Room(window, used, 0 if window is None else window // 5, 200, Limits(), count,
                bytes_left=most_bytes)  # fmt: skip


def prompts(session: object) -> list[Message]:
    """Return the prompts as they were sent."""
    entries = session.transcript.entries  # type: ignore[attr-defined]  # a FakeSession
    return [e.message for e in entries if isinstance(e, MessageEntry) and e.kind == "prompt"]


def test_an_update_stands_before_the_prompt() -> None:
    """It is one block of the part `notebook`, and what it says is known at the next prompt."""
    updates = FakeUpdates([Update("Cells:\nc1 | x = 1", {"n": 1})])
    session = make_session(ScriptedModel(reply("One."), reply("Two.")), updates=updates)
    session.ask("first")
    session.ask("second")

    first, second = prompts(session)
    assert first.content == (Text("Cells:\nc1 | x = 1", "notebook"), Text("first"))
    assert second.content == (Text("second"),)
    assert [seen for seen, _ in updates.asked] == [None, {"n": 1}]
    assert updates.told == ["Cells:\nc1 | x = 1", ""]
    assert session.transcript.seen == {"n": 1}
    assert session.context()["parts"]["notebook"] > 0  # type: ignore[index]  # an object of JSON


def test_a_resumed_session_knows_what_was_seen() -> None:
    """The stored prompt carries it, so that a new process asks with the same."""
    updates = FakeUpdates([Update("a", {"n": 1})])
    session = make_session(ScriptedModel(reply("One.")), updates=updates)
    session.ask("first")
    again = FakeUpdates()
    resumed = make_session(
        ScriptedModel(reply("Two.")), entries=session.store.entries, updates=again
    )
    resumed.ask("second")

    assert again.asked[0][0] == {"n": 1}


def test_a_failure_costs_only_the_update(caplog: pytest.LogCaptureFixture) -> None:
    """The turn goes on without it, the log says why, and the next prompt asks with the same."""
    updates = FakeUpdates([Update("a", {"n": 1}), RuntimeError("no kernel"), Update("c", {"n": 3})])
    session = make_session(
        ScriptedModel(reply("One."), reply("Two."), reply("Three.")), updates=updates
    )
    with caplog.at_level(logging.WARNING, "jupyter_ctx"):
        results = [session.ask(text) for text in ("first", "second", "third")]

    assert [result.outcome for result in results] == ["done"] * 3
    assert "no kernel" in caplog.text
    assert prompts(session)[1].content == (Text("second"),)
    assert [seen for seen, _ in updates.asked] == [None, {"n": 1}, {"n": 1}]


def test_zero_turns_it_off() -> None:
    """With `update_tokens` 0 nobody is asked."""
    updates = FakeUpdates([Update("a", {"n": 1})])
    session = make_session(ScriptedModel(reply("One.")), updates=updates, update_tokens=0)
    session.ask("first")

    assert updates.asked == []
    assert prompts(session)[0].content == (Text("first"),)


@fast
@given(
    st.integers(300, 20_000),
    st.floats(0, 1),
    st.integers(0, 30_000),
    st.lists(st.integers(0, 3_000), max_size=12),
    st.integers(1, 2_000),
)
def test_the_law_of_the_room_holds(
    window: int, full: float, prompt_chars: int, lines: list[int], most: int
) -> None:
    """Wherever the prompt itself fits, prompt and update fit; a cut update says so."""
    room = room_of(window, int(window * full))
    prompt = ingest_prompt("p" * prompt_chars, 1, room).text
    text = "\n".join("u" * chars for chars in lines)

    told = fit_update(text, prompt, most, room)

    assert told == text or told == "" or told.endswith(CUT_LINE)
    assert room.law_tokens is not None
    if told:
        needed = SAFETY * (room.count(prompt) + room.count(told))
        assert needed <= room.law_tokens
        assert room.count(told) <= most


def test_whole_lines_are_cut() -> None:
    """What is left is the longest beginning in whole lines that fits with the last line."""
    lines = [f"line {n}" for n in range(1_000)]
    room = room_of(None)

    told = fit_update("\n".join(lines), "", 200, room).split("\n")

    assert told[-1] == CUT_LINE
    assert told[:-1] == lines[: len(told) - 1]
    longer = "\n".join([*lines[: len(told)], CUT_LINE])
    assert SAFETY * (room.count(longer) + 16) > 200


def test_bytes_bound_it_too() -> None:
    """An update never makes a request larger than the server takes."""
    assert fit_update("é" * 2_000, "", 100_000, room_of(None, most_bytes=1_000)) == CUT_LINE
    assert fit_update("é" * 2_000, "", 100_000, room_of(None, most_bytes=50)) == ""


@fast
@given(logs(("turn", "turn", "step", "compaction", "rewind", "note", "exclude")), st.data())
def test_only_prompts_in_force_say_what_was_seen(entries: list[Entry], data: st.DataObject) -> None:
    """What was seen is the newest prompt's that was neither rewound nor left out."""
    told = [
        MessageEntry(e.at, e.turn, e.step, e.kind, e.message, seen={"turn": e.turn})
        if isinstance(e, MessageEntry) and e.kind == "prompt" and data.draw(st.booleans())
        else e
        for e in entries
    ]
    transcript = Transcript()
    alive: list[MessageEntry] = []
    for entry in told:
        view, known = list(transcript.view), set(transcript.turns)
        transcript.append(entry)
        match entry:
            case MessageEntry(kind="prompt"):
                alive.append(entry)
            case RewindEntry(turn=turn) if turn in known:
                alive = [one for one in alive if one.turn < turn]
            case ExcludeEntry(messages=count) if count > 0:
                gone = {id(message) for message in view[-count:]}
                alive = [one for one in alive if id(one.message) not in gone]
            case SummaryUndoEntry():
                pass
            case _:
                pass
        seen = [one.seen for one in alive if one.seen is not None]
        assert transcript.seen == (seen[-1] if seen else None)
