"""The plan: what a checklist says, who knows it, and what takes it back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import ToolUse, text_of
from jupyter_ctx.core.entries import PlanEntry
from jupyter_ctx.core.events import PlanChanged, ToolFinished
from jupyter_ctx.core.plan import (
    MOST_ITEM_CHARS,
    MOST_ITEMS,
    PlanItem,
    count_done,
    find_current,
    plan_lines,
)
from jupyter_ctx.core.planning import clean_items, parse_plan
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.errors import BusyError
from jupyter_ctx.testing import FakeTools, FakeWorkspace, ScriptedModel, make_session, reply

KEY = "sk-ant-0123456789abcdef"
PLAN = (PlanItem("Load", "done"), PlanItem("Clean", "in_progress"), PlanItem("Plot"))
states = st.sampled_from(["pending", "in_progress", "done"])
words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40)
plans = st.lists(st.builds(PlanItem, words, states), max_size=MOST_ITEMS)


def tools():
    """Return tools of which one makes the plan that it is given."""

    def update_plan(items=()):
        return ToolOutput("Noted.", plan=tuple(PlanItem(*item) for item in items))

    return FakeTools(update_plan=update_plan)


def planning(n, *items):
    """Return a reply that makes a plan, in call `plan_n`."""
    given = [(item.text, item.state) for item in items]
    return reply(ToolUse(f"plan_{n}", "update_plan", {"items": given}))


def session_of(*answers, **more):
    """Return a session over tools that plan."""
    return make_session(ScriptedModel(*answers), tools=tools(), **more)


def events_of(session, prompt):
    """Return the events of a turn."""

    async def collect():
        return [event async for event in session.run(prompt)]

    return asyncio.run(collect())


def prompt_of(session):
    """Return all that stands in the newest prompt."""
    return text_of(session.transcript.prompts[session.transcript.turn].content)


@given(plans)
def test_a_checklist_says_the_plan(items):
    """What is written of a plan reads as the same plan."""
    assert parse_plan("\n".join(plan_lines(items))) == tuple(items)


@given(st.text(max_size=300))
def test_any_text_reads_as_a_plan(text):
    """Reading is total, and what it gives is clean already."""
    items = parse_plan(text)

    assert clean_items(items) == items
    assert len(items) <= len(text.splitlines())


def test_a_line_needs_neither_bullet_nor_box():
    """Bullets, numbers and boxes may be there or not; blank lines do not count."""
    text = "Load\n\n2. [x] Clean\n * [>] Plot\n- [ ]  Tell\n- [] Send"
    states = [("Load", "pending"), ("Clean", "done"), ("Plot", "in_progress")]

    assert parse_plan(text) == (
        *(PlanItem(*one) for one in states),
        PlanItem("Tell"),
        PlanItem("Send"),
    )


def test_a_plan_is_bounded():
    """Long items are cut, many left out, line breaks and broken characters made harmless."""
    items = clean_items([PlanItem("a\nb\ud800 " * 1_000)] * 99 + [PlanItem(" \n")])

    assert len(items) == MOST_ITEMS
    assert {len(item.text) for item in items} == {MOST_ITEM_CHARS}
    assert items[0].text.startswith("a b\ufffd a b\ufffd")


def test_what_is_done_now():
    """It is the first in progress, else the first to do; when all is done, nothing."""
    assert find_current(PLAN) == PLAN[1]
    assert find_current([PLAN[0], PLAN[2]]) == PLAN[2]
    assert find_current([PLAN[0]]) is None
    assert count_done(PLAN) == 1


# In a session -----------------------------------------------------------------------------------


def test_the_agents_plan_is_recorded_and_told():
    """A call makes an entry, then the event, behind its ToolFinished; no prompt tells it back."""
    session = session_of(planning(1, *PLAN), reply("Planned."), reply("Going on."))

    events = events_of(session, "Plan it")

    kinds = [type(event) for event in events]
    assert kinds.index(PlanChanged) == kinds.index(ToolFinished) + 1
    assert [e for e in events if isinstance(e, PlanChanged)] == [PlanChanged(1, PLAN, "agent")]
    assert session.plan == PLAN
    entry = session.transcript.plan
    assert (entry.n, entry.turn, entry.by, entry.tool_use_id) == (1, 1, "agent", "plan_1")
    session.ask("Go on")
    assert prompt_of(session) == "Go on"


def test_the_users_plan_is_told_once():
    """The prompt behind an edit has the plan, the one after it does not say it again."""
    session = session_of(*[reply("Yes.")] * 3)
    session.ask("Hello")

    kept = session.edit_plan([*PLAN, PlanItem("  ")])
    assert kept == PLAN == session.plan
    session.ask("Go on")
    assert prompt_of(session).startswith("The user changed the plan (plan 1):\n# The plan\n- [x] ")
    session.ask("And on")
    assert prompt_of(session) == "And on"


def test_a_plan_that_the_user_takes_away_is_told():
    """An empty plan is none, and the model hears that too."""
    session = session_of(planning(1, *PLAN), *[reply("Yes.")] * 2)
    session.ask("Plan it")

    session.edit_plan([])
    session.ask("Go on")
    assert session.plan == ()
    assert "The user changed the plan (plan 2): nothing is left of it" in prompt_of(session)


def test_a_rewind_brings_the_plan_of_then():
    """Going back to before a turn takes its plans away, the user's behind it too."""
    session = session_of(
        planning(1, PLAN[0]), reply("1."), planning(2, *PLAN), reply("2."), *[reply("Yes.")] * 3
    )
    session.ask("First")
    session.ask("Second")
    session.edit_plan([PlanItem("Mine")])

    session.rewind(2)
    assert session.plan == (PLAN[0],)
    session.ask("Again")
    assert prompt_of(session) == "Again"
    session.rewind(1)
    assert session.plan == ()
    session.edit_plan([PlanItem("Anew")])
    session.ask("From the start")
    assert "(plan 4)" in prompt_of(session)


def test_an_edit_before_the_turn_outlives_its_rewind():
    """What the user changed before a prompt stays when that turn goes, and is told again."""
    session = session_of(planning(1, *PLAN), reply("1."), *[reply("Yes.")] * 2)
    session.ask("First")
    session.edit_plan([PlanItem("Mine")])
    session.ask("Second")

    session.rewind(2)
    assert session.plan == (PlanItem("Mine"),)
    session.ask("Second, differently")
    assert "The user changed the plan (plan 2):" in prompt_of(session)


@pytest.mark.parametrize("by", ["agent", "user"])
def test_a_compaction_tells_the_plan(by):
    """What a compaction put back needs no prompt to tell it; an edit behind it does."""
    workspace = FakeWorkspace()
    session = session_of(
        planning(1, *PLAN),
        reply("word " * 900),
        reply("Planned."),
        reply("A summary."),
        *[reply("Yes.")] * 3,
        tail_tokens=0,
        workspace=workspace,
    )
    session.ask("Plan it")
    session.ask("And go on")
    if by == "user":
        session.edit_plan(PLAN)
    workspace.plan = list(session.plan)

    session.compact()
    assert "- [ ] (in progress) Clean" in text_of(session.transcript.view[0].content)
    session.ask("Go on")
    assert prompt_of(session) == "Go on"
    session.edit_plan([PlanItem("Mine")])
    session.ask("With this")
    assert "- [ ] Mine" in prompt_of(session)


def test_a_plan_that_a_compaction_told_stays_known():
    """No prompt tells what a compaction put back, however many turns lie between."""
    workspace = FakeWorkspace(list(PLAN))
    session = session_of(
        planning(1, *PLAN),
        reply("word " * 900),
        reply("Planned."),
        reply("A summary."),
        *[reply("Yes.")] * 2,
        tail_tokens=0,
        workspace=workspace,
    )
    session.ask("Plan it")
    session.ask("And go on")
    session.edit_plan(PLAN)
    session.compact()
    session.ask("Go on")

    session.ask("And on")
    assert prompt_of(session) == "And on"


def test_an_undone_compaction_leaves_the_plan_known():
    """When the log comes back the agent's own call stands in it, so nothing is told."""
    session = session_of(
        planning(1, *PLAN),
        reply("word " * 900),
        reply("Planned."),
        reply("A summary."),
        reply("Yes."),
        tail_tokens=0,
    )
    session.ask("Plan it")
    session.ask("And go on")
    session.compact()

    session.undo_summary()
    session.ask("Go on")
    assert prompt_of(session) == "Go on"


def test_a_key_in_a_plan_is_not_kept():
    """The program's keys are taken out of what is recorded, whoever wrote it."""
    plan = (PlanItem(f"Use {KEY}"),)
    session = session_of(planning(1, *plan), reply("Yes."), redactor=Redactor([KEY]))
    session.ask("Plan it")
    session.edit_plan(plan)

    assert KEY not in str([e for e in session.transcript.entries if isinstance(e, PlanEntry)])


def test_a_plan_survives_a_new_kernel():
    """A transcript that is read again has the plan, rewound or not."""
    session = session_of(planning(1, *PLAN), reply("1."), planning(2, PLAN[0]), reply("2."))
    session.ask("First")
    session.ask("Second")
    assert Transcript(session.transcript.entries).plan.items == (PLAN[0],)

    session.rewind(2)
    assert Transcript(session.transcript.entries).plan == session.transcript.plan
    assert session.plan == PLAN


def test_no_edit_while_a_turn_runs():
    """The user's edit waits for the turn's end: the log would else be written by two."""
    session = session_of(planning(1, *PLAN), reply("1."))

    async def run():
        async for _ in session.run("Plan it"):
            with pytest.raises(BusyError):
                session.edit_plan([])

    asyncio.run(run())
    assert session.plan == PLAN
