"""Laws of a reply's tool calls that concern what the session was told of its tools."""

from jupyter_ctx.core.blocks import text_of, tool_results
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
