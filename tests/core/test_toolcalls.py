"""Laws of a reply's tool calls that concern what the session was told of its tools."""

import asyncio

from jupyter_ctx.core.blocks import text_of, tool_results
from jupyter_ctx.core.events import CtxEvent, MemoryChanged, ToolFinished
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.testing import (
    DenyAll,
    FakeTools,
    ScriptedModel,
    call,
    make_session,
    reply,
)


def test_tools_of_a_newer_version_are_none_of_an_older_session() -> None:
    """W22: a resumed session sends its tools byte for byte; a call of a newer one is refused.

    Nobody is asked for permission of such a call.
    """
    first = make_session(ScriptedModel(reply("Hello.")), tools=FakeTools())
    first.ask("hi")
    entries = list(first.transcript.entries)
    model = ScriptedModel(reply(call("write_it", text="x")), reply("I see."))
    resumed = make_session(
        model,
        tools=FakeTools(write_it=lambda text: "written"),
        entries=entries,
        permissions=DenyAll(),
    )
    resumed.ask("write")

    assert model.requests[0].tools == first.model.requests[0].tools
    assert resumed.transcript.prefix == first.transcript.prefix
    (said,) = tool_results(resumed.transcript.view[-2])
    assert said.is_error
    assert text_of(said.content) == "There is no tool `write_it` in this session."


def test_a_new_session_has_every_tool() -> None:
    """The same call in a session that began with the tool runs."""
    model = ScriptedModel(reply(call("write_it", text="x")), reply("Done."))
    session = make_session(model, tools=FakeTools(write_it=lambda text: "written"))
    session.ask("write")

    (said,) = tool_results(session.transcript.view[-2])
    assert text_of(said.content) == "written"


def test_what_a_call_kept_for_later_sessions_is_told_behind_it() -> None:
    """The facts come with the turn, right behind the end of their call; keeping none tells none."""
    kept = iter([("Uses metric units.",), ()])
    own = FakeTools(keep=lambda: ToolOutput("Kept.", remembered=next(kept)))
    model = ScriptedModel(reply(call("keep")), reply(call("keep")), reply("Done."))
    session = make_session(model, tools=own)

    async def collect() -> list[CtxEvent]:
        return [event async for event in session.run("keep it")]

    events = asyncio.run(collect())

    (told,) = (event for event in events if isinstance(event, MemoryChanged))
    assert told == MemoryChanged(1, ("Uses metric units.",))
    ends = [at for at, event in enumerate(events) if isinstance(event, ToolFinished)]
    assert events.index(told) == ends[0] + 1
    assert len(ends) == 2
