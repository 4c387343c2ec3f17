"""Hooks in Python: `session.hooks`, and what a callable may answer, raise and wait for."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jupyter_ctx.core.blocks import text_of, tool_results
from jupyter_ctx.core.events import CtxEvent, NoteAdded, TurnFinished
from jupyter_ctx.core.ports import HookOutcome
from jupyter_ctx.errors import PromptError
from jupyter_ctx.testing import FakeHooks, FakeSession, ScriptedModel, call, make_session, reply


def make(*replies: Any, hooks: FakeHooks | None = None) -> FakeSession:
    return make_session(ScriptedModel(*replies), hooks=hooks)


def ask(session: FakeSession) -> list[CtxEvent]:
    events: list[CtxEvent] = []
    session.ask("Do it.", on_event=events.append)
    return events


def notes(events: list[CtxEvent]) -> list[str]:
    return [event.title for event in events if isinstance(event, NoteAdded)]


def test_a_callable_forbids_a_call() -> None:
    """It gets the event's fields by the names of the commands' JSON, and answers in their form."""
    session = make(reply("", call("run_code", code="import os")), reply("Well."))
    seen = []

    @session.hooks.on("PreToolUse", matcher="run_.*")
    def no_os(event: dict[str, Any]) -> dict[str, object] | None:
        seen.append(event)
        blocks = "import os" in event["tool_input"]["code"]
        return {"decision": "block", "reason": "no os"} if blocks else None

    ask(session)

    (event,) = seen
    assert event["hook_event_name"] == "PreToolUse"
    assert event["session_id"] == session.id
    assert event["tool_name"] == "run_code"
    (result,) = tool_results(session.model.requests[1].messages[-1])
    assert text_of(result.content) == "Denied by a PreToolUse hook of the user: no os"


def test_text_is_said_and_commands_come_first() -> None:
    """A text of a prompt's hook stands behind what the commands say; an awaitable is awaited."""
    commands = FakeHooks({"UserPromptSubmit": HookOutcome(context="From a command.")})
    session = make(reply("Done."), hooks=commands)

    async def late(event: dict[str, object]) -> str:
        await asyncio.sleep(0)
        return f"Heard {event['prompt']}"

    session.hooks.add("UserPromptSubmit", late)
    ask(session)

    said = text_of(session.model.requests[0].messages[0].content)
    assert "From a command.\n\nHeard Do it." in said


def test_what_it_does_wrong_is_told_and_the_turn_goes_on() -> None:
    """It raises, exits, answers with something else, or changes the event: a line, nothing more."""
    session = make(reply("Done."))
    heard = []

    def raises(event: object) -> None:
        raise KeyError("x")

    def exits(event: object) -> None:
        raise SystemExit(3)

    def answers(event: object) -> int:
        return 5

    def spoils(event: dict[str, object]) -> None:
        event.clear()

    for one in (raises, exits, answers, spoils):
        session.hooks.add("UserPromptSubmit", one)
    session.hooks.add("UserPromptSubmit", lambda event: heard.append(event["prompt"]))
    events = ask(session)

    told = " ".join(notes(events))
    assert "failed: KeyError('x')" in told
    assert "failed: SystemExit(3)" in told
    assert "answered with int" in told
    assert heard == ["Do it."]
    assert [one.outcome for one in events if isinstance(one, TurnFinished)] == ["done"]


def test_one_that_waits_is_left_alone() -> None:
    """Past its time the turn goes on, and says so; what it answers later counts for nothing."""
    session = make(reply("Done."))
    go, over = threading.Event(), threading.Event()

    def waits(event: object) -> str:
        go.wait()
        over.set()
        return "too late"

    session.hooks.add("UserPromptSubmit", waits, timeout_s=0.05)
    told = notes(ask(session))
    go.set()

    assert over.wait(30)
    assert any("took longer than 0.05 s; it is not waited for." in one for one in told)
    assert "too late" not in text_of(session.model.requests[0].messages[0].content)


def test_one_that_asks_the_session_is_refused() -> None:
    """A callable that prompts the session it serves gets the refusal, and no second turn begins."""
    session = make(reply("Done."), reply("never"))
    session.hooks.add("Stop", lambda event: session.ask("And me?"))
    told = notes(ask(session))

    assert len(session.model.requests) == 1
    assert any("BusyError" in one for one in told)


def test_it_can_be_taken_out() -> None:
    """`remove` ends it at every event; what was not added is no error."""
    session = make(reply("Done."))
    heard: list[object] = []
    session.hooks.add("Stop", heard.append)
    session.hooks.add("UserPromptSubmit", heard.append)
    assert [one.event for one in session.hooks.callables] == ["Stop", "UserPromptSubmit"]

    session.hooks.remove(session.hooks.callables[0].function)
    session.hooks.remove(print)
    ask(session)

    assert [one.event for one in session.hooks.callables] == []
    assert heard == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Before", {}), "There is no event 'Before'"),
        (("Stop", {"matcher": "("}), "no regular expression"),
        (("Stop", {"timeout_s": 0}), "above 0"),
    ],
)
def test_what_cannot_be_added_is_said(arguments: tuple[str, dict[str, Any]], said: str) -> None:
    """An event that is none, a matcher that is none, no time: a sentence, and nothing is added."""
    session = make()
    event, more = arguments
    with pytest.raises(PromptError, match=said):
        session.hooks.add(event, print, **more)

    assert session.hooks.callables == ()
