"""Tools that come, go or change in a session: told at the next compaction, and not before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from jupyter_ctx.core.blocks import PARTS
from jupyter_ctx.core.entries import PrefixEntry
from jupyter_ctx.core.ports import ToolSpec
from jupyter_ctx.core.toolset import renew_tools
from jupyter_ctx.session import Session
from jupyter_ctx.testing import FakeTools, ScriptedModel, make_session
from tests.both import on_both
from tests.core.strategies import compaction_entry
from tests.fake_anthropic import FakeAnthropic, FakeModel, call, reply
from tests.fake_anthropic.checks import assert_healthy
from tests.talk import MODEL, run, talk

LARGE = {MODEL: FakeModel(window=200_000, max_output=8_000, binds_thinking=True)}
BIG = "many words about it " * 300
SCHEMA: dict[str, object] = {"type": "object", "properties": {}}


def spec(name: str, description: str = "A tool of a server.") -> ToolSpec:
    return ToolSpec(name, description, SCHEMA, reads_only=True)


def tools(*names: str) -> FakeTools:
    made = FakeTools()
    made.functions = {name: lambda: "its answer" for name in names}
    made.specs = tuple(sorted((*made.specs, *map(spec, names)), key=lambda one: one.name))
    return made


def told(server: FakeAnthropic) -> list[list[str]]:
    """Return the names of the tools in each request."""
    bodies = (json.loads(record.body) for record in server.messages)
    return [[tool.get("function", tool)["name"] for tool in body["tools"]] for body in bodies]


def prefixes(session: Session) -> list[PrefixEntry]:
    return [one for one in session.transcript.entries if isinstance(one, PrefixEntry)]


def test_a_tool_that_came_late_is_told_after_the_compaction() -> None:
    """Requests keep their tools until the compaction; the next one has what there is then."""
    script: list[Any] = [BIG, reply(tools=[call("late")]), BIG, "Summary.", "Then."]
    own = tools("early")
    with (
        FakeAnthropic(script, models=LARGE) as server,
        talk(server, tools=own, tail_tokens=0) as session,
    ):
        run(session, "one")
        own.functions["late"] = lambda: "by late"
        own.specs = tuple(sorted((*own.specs, spec("late")), key=lambda one: one.name))
        run(session, "two")
        session.compact()
        run(session, "three")

        assert told(server) == [["early", "run_code"]] * 4 + [["early", "late", "run_code"]]
        assert "There is no tool `late`" in server.messages[2].body.decode()
        assert len(prefixes(session)) == 2
        assert prefixes(session)[0].system == prefixes(session)[1].system
        (broken,) = session.prefix_breaks
        assert broken.cause in ("compaction", "prefix")
        assert_healthy(server)


@on_both
def test_a_tool_that_changed_or_went_is_told_so_after_the_compaction(
    fake: type[FakeAnthropic],
) -> None:
    """A description that changed and a tool that went are in the prompt from the compaction on."""
    own = tools("gone", "kept")
    script: list[Any] = [BIG, BIG, "Summary.", "Then."]
    with (
        fake(script, models=LARGE) as server,
        talk(server, tools=own, tail_tokens=0) as session,
    ):
        run(session, "one")
        own.specs = tuple(
            spec(one.name, "Another text.") if one.name == "kept" else one
            for one in own.specs
            if one.name != "gone"
        )
        run(session, "two")
        session.compact()
        run(session, "three")

        assert told(server)[-1] == ["kept", "run_code"]
        assert "Another text." in server.messages[-1].body.decode()
        assert "Another text." not in server.messages[-2].body.decode()
        assert_healthy(server)


SMALL = "claude-haiku-4-5"


def test_a_small_window_is_told_the_tools_it_cannot_work_without() -> None:
    """Others are told from their window on, and come or go with a switch at the next compaction."""
    own = tools("early")
    own.specs = (*own.specs, replace(spec("zeta"), least_window=10_000))
    models = {MODEL: LARGE[MODEL], SMALL: FakeModel(window=8_000, max_output=2_000)}
    script: list[Any] = [
        BIG, BIG, "Summary.", "Small.", reply(tools=[call("zeta")]), BIG, "Summary.", "Large.",
    ]  # fmt: skip
    with (
        FakeAnthropic(script, models=models) as server,
        talk(server, tools=own, tail_tokens=0) as session,
    ):
        run(session, "one")
        run(session, "two")
        session.switch_model(SMALL)
        session.compact()
        run(session, "three")
        run(session, "four")
        session.switch_model(MODEL)
        session.compact()
        run(session, "five")

        large, small = ["early", "run_code", "zeta"], ["early", "run_code"]
        assert told(server) == [large] * 3 + [small] * 4 + [large]
        assert "There is no tool `zeta`" in server.messages[5].body.decode()
        assert_healthy(server)


@on_both
def test_a_compaction_without_other_tools_freezes_nothing_anew(fake: type[FakeAnthropic]) -> None:
    """Where the tools are the same, system and tools are not stored again."""
    with (
        fake([BIG, BIG, "Summary.", "Then."], models=LARGE) as server,
        talk(server, tools=tools("early"), tail_tokens=0) as session,
    ):
        run(session, "one")
        run(session, "two")
        session.compact()
        run(session, "three")

        assert len(prefixes(session)) == 1
        assert_healthy(server)


@on_both
def test_tools_that_would_undo_the_gain_wait(fake: type[FakeAnthropic]) -> None:
    """Tools too large for what a compaction frees are not told, and the user hears of it."""
    own = tools("early")
    script: list[Any] = [BIG, BIG, "Summary.", "Then."]
    with (
        fake(script, models=LARGE) as server,
        talk(server, tools=own, tail_tokens=0) as session,
    ):
        run(session, "one")
        run(session, "two")
        own.specs = (*own.specs, spec("zeta", "word " * 20_000))
        entry = session.compact()
        run(session, "three")

        assert told(server)[-1] == ["early", "run_code"]
        assert entry.tokens_after < entry.tokens_before
        assert_healthy(server)


@on_both
def test_the_figures_of_a_compaction_count_the_new_tools(fake: type[FakeAnthropic]) -> None:
    """What is told to be used after a compaction has the new tools in it, and holds."""
    own = tools("early")
    script: list[Any] = [BIG * 4, BIG * 4, "Summary.", "Then."]
    with (
        fake(script, models=LARGE) as server,
        talk(server, tools=own, tail_tokens=0) as session,
    ):
        run(session, "one")
        run(session, "two")
        own.specs = (*own.specs, spec("zeta", "word " * 1_000))
        entry = session.compact()

        used = session.context()["used_tokens"]
        assert isinstance(used, int)
        assert abs(used - entry.tokens_after) <= 0.02 * used
        assert entry.tokens_after > 1_000
        run(session, "three")
        assert told(server)[-1] == ["early", "run_code", "zeta"]


@pytest.mark.parametrize("grows", [True, False], ids=["more", "fewer"])
def test_the_parts_of_a_compaction_that_renews_tools_add_up(grows: bool) -> None:
    """They fill what is told to be used after it, with the tools of then and not of before."""
    own = tools("early")
    few, many = own.specs, (*own.specs, spec("zeta", "word " * 1_000))
    own.specs = few if grows else many
    with (
        FakeAnthropic([BIG * 4, BIG * 4, "Summary."], models=LARGE) as server,
        talk(server, tools=own, tail_tokens=0) as session,
    ):
        run(session, "one")
        run(session, "two")
        own.specs = many if grows else few
        entry = session.compact()

    before, after = (
        dict(zip(PARTS, parts, strict=True)) for parts in (entry.parts_before, entry.parts_after)
    )
    assert sum(before.values()) == entry.tokens_before
    assert sum(after.values()) == entry.tokens_after
    assert abs(after["tools"] - before["tools"]) > 900
    assert (after["tools"] > before["tools"]) is grows
    assert len(prefixes(session)) == 2


def test_a_resumed_session_gets_the_tools_of_a_newer_version_at_a_compaction() -> None:
    """A session goes on with the tools it was begun with; newer ones join at its compaction."""
    with FakeAnthropic([BIG, BIG, BIG, "Summary.", "Then."], models=LARGE) as server:
        with talk(server, tools=tools("old"), tail_tokens=0) as session:
            run(session, "one")
            run(session, "two")
            entries = list(session.transcript.entries)
        with talk(server, tools=tools("new", "old"), entries=entries, tail_tokens=0) as resumed:
            run(resumed, "three")
            resumed.compact()
            run(resumed, "four")

        assert told(server) == [["old", "run_code"]] * 4 + [["new", "old", "run_code"]]
        assert_healthy(server)


def test_a_log_that_lost_its_tools_gets_none_by_a_compaction() -> None:
    """Where no tools are told, a compaction renews none: the next prompt tells all there are."""
    engine = make_session(ScriptedModel(), tools=tools("early"))._engine
    whole = engine.transcript.entries
    lost = [entry for entry in whole if not isinstance(entry, PrefixEntry)]
    own = engine.branch(lost, engine.limits, replace(engine.ports, tools=tools("early", "late")))
    same = engine.branch(whole, engine.limits, own.ports)
    entry = compaction_entry(tokens_before=10_000)

    assert renew_tools(same, entry) is not None
    assert renew_tools(own, entry) is None
