"""Sub-agents at the edges: a disk that fails, a provider that lets wait, an answer that is none."""

from __future__ import annotations

import pytest

from jupyter_ctx.core.agents import FIRST_TURN
from jupyter_ctx.core.blocks import text_of, tool_results
from jupyter_ctx.core.entries import Entry
from jupyter_ctx.core.events import CtxEvent, NoteAdded, ToolProgress
from jupyter_ctx.core.ports import AgentLog, ToolOutput
from jupyter_ctx.errors import OverloadedError, StoreError
from jupyter_ctx.session import Session
from jupyter_ctx.testing import FakeSession, FakeTools, ScriptedModel, call, make_session, reply
from tests.agents import conversation, task
from tests.fake_anthropic import FakeAnthropic
from tests.fake_anthropic import reply as answer
from tests.talk import run


class FullDisk:
    """No transcript of a sub-agent can be begun."""

    def open_agent(self, agent_id: str) -> AgentLog:
        raise StoreError("No space left on device.", path=agent_id)


class LateFull:
    """Transcripts are written, and what waits to the end of one is not."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def open_agent(self, agent_id: str) -> AgentLog:
        return self

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)

    def close(self) -> None:
        raise StoreError("No space left on device.", path="agents")


def delegating(*answers: object, prompt: str = "Look.") -> FakeSession:
    """Return a session whose first reply starts a sub-agent, which has the next answers."""
    use = call("task", description="look around", prompt=prompt)
    tools = FakeTools(task=lambda description, prompt: ToolOutput(prompt))
    script = ScriptedModel(reply(use), *answers, reply("Done."))  # type: ignore[arg-type]
    return make_session(script, tools=tools)


def result_of(session: Session) -> tuple[str, bool]:
    """Return what the model got of the sub-agent, and whether it is an error."""
    (result,) = tool_results(session.transcript.view[-2])
    return text_of(result.content), result.is_error


@pytest.mark.parametrize("agents", [FullDisk(), LateFull()], ids=["begin", "end"])
def test_a_sub_agent_without_a_disk_answers_all_the_same(agents: FullDisk | LateFull) -> None:
    """Its transcript cannot be kept: the user is warned once, and the model gets the answer."""
    main = [answer(tools=[task("Look."), task("Look again.")]), "Done."]
    parts = {"Look.": ["It is blue."], "Look again.": ["It is red."]}
    with conversation(FakeAnthropic, main, parts, agents=agents) as (server, session):
        events = run(session)

        assert "It is blue." in str(server.messages[-1].messages[-1])
        assert "It is red." in str(server.messages[-1].messages[-1])
        warned = [e.title for e in events if isinstance(e, NoteAdded) and e.level == "warning"]
        assert warned == ["The session cannot be saved."]
        assert [entry.outcome for entry in session.transcript.agents] == ["done", "done"]


def test_a_long_task_is_kept_with_the_parent() -> None:
    """A task too long to be sent lies whole in the session's store, under a name of its own."""
    long = "word " * 100_000
    session = delegating(reply("Read."), prompt=long)
    session.ask("go")

    (name,) = [name for name in session.store.texts if name.startswith("prompt-")]
    assert int(name.removeprefix("prompt-")) > FIRST_TURN
    assert long.strip() in session.store.texts[name]
    assert result_of(session) == ("Read.", False)


def test_waiting_for_the_provider_is_told_on_the_row_of_the_call() -> None:
    """Where a sub-agent's request is refused for now, its progress says how long it waits."""
    session = delegating(OverloadedError("busy", retry_after_s=7), reply("Blue."))
    events: list[CtxEvent] = []
    session.ask("go", on_event=events.append)

    texts = [event.text for event in events if isinstance(event, ToolProgress)]
    assert texts[:2] == ["step 1: thinking", "step 1: waiting 7 s for the provider"]
    assert result_of(session) == ("Blue.", False)


def test_an_answer_of_nothing_is_an_error() -> None:
    """A sub-agent that ends with a blank answer gives the model an error that says so."""
    session = delegating(reply(" \n"), reply(" \n"))
    session.ask("go")

    said, is_error = result_of(session)
    assert is_error
    assert said.startswith("The sub-agent ended without an answer (")


def test_an_answer_that_was_cut_says_so() -> None:
    """What came of an answer goes to the model, with the reason why it is not whole."""
    session = delegating(*[reply("Half of", stop_reason="max_tokens")] * 5)
    session.ask("go")

    said, is_error = result_of(session)
    assert not is_error
    assert said.startswith("Half of\n\n[The sub-agent's answer is not complete: ")
