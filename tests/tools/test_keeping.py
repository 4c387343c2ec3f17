"""`update_plan` and `remember`: what they take, what they bring, what they refuse."""

import asyncio

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.plan import MOST_ITEMS, PlanItem
from jupyter_ctx.errors import ToolError
from jupyter_ctx.testing import FakeKernel, FakeMemory
from jupyter_ctx.tools import make_tools

CENTS = "Amounts are in cents."


class NoTexts:
    """No stored text."""

    def read_text(self, name):
        return None

    def names(self):
        return []


@pytest.fixture
def memory():
    return FakeMemory()


@pytest.fixture
def tools(memory):
    return make_tools(FakeKernel(), NoTexts(), Settings(), memory=memory)


def run(tools, name, **given):
    return asyncio.run(tools.run(ToolUse("t1", name, given), 10_000))


def test_neither_asks(tools):
    """Both change nothing of the user's work, so no permission is asked, in plan mode too."""
    specs = {spec.name: spec for spec in tools.specs}

    assert specs["update_plan"].reads_only
    assert specs["remember"].reads_only


def test_a_plan_is_given_whole(tools):
    """The result counts what is done; blank items are none, and no items are no plan."""
    items = [{"text": "Load", "state": "done"}, {"text": " ", "state": "pending"}]
    output = run(tools, "update_plan", items=[*items, {"text": "Plot", "state": "pending"}])

    assert output.text == "The plan has 1 of 2 done."
    assert output.plan == (PlanItem("Load", "done"), PlanItem("Plot"))
    assert run(tools, "update_plan", items=[]).plan == ()


@pytest.mark.parametrize(
    "items",
    [
        None,
        "Load",
        ["Load"],
        [{"text": "Load"}],
        [{"text": "Load", "state": "later"}],
        [{"text": "", "state": "done"}],
        [{"text": "Load", "state": "done", "by": "me"}],
        [{"text": "Load", "state": "done"}] * (MOST_ITEMS + 1),
    ],
)
def test_a_plan_off_its_schema_is_refused(tools, items):
    """The model hears which field is wrong, and the plan stays as it was."""
    with pytest.raises(ToolError, match="items"):
        run(tools, "update_plan", items=items)


def test_a_fact_is_kept_and_told(tools, memory):
    """What is new is in the output, for the note; what was known is not told again."""
    output = run(tools, "remember", text=f"- {CENTS}\n")
    assert output.remembered == (CENTS,)
    assert memory.facts == [CENTS]

    again = run(tools, "remember", text=CENTS)
    assert again.remembered == ()
    assert again.text == "It was kept already."


@pytest.mark.parametrize("text", ["", "x" * 301, "none", " \n", "\ud800"])
def test_what_is_no_fact_is_refused(tools, memory, text):
    """Blank, too long or without a word: nothing is kept."""
    with pytest.raises(ToolError):
        run(tools, "remember", text=text)
    assert memory.facts == []


def test_a_memory_that_fails_or_is_off_is_an_error(tools, memory):
    """The model is told that nothing was kept, so that it does not promise it."""
    memory.fails = True
    with pytest.raises(ToolError, match=r"could not be kept\. No space left"):
        run(tools, "remember", text=CENTS)

    without = make_tools(FakeKernel(), NoTexts(), Settings())
    with pytest.raises(ToolError, match="Nothing is kept"):
        run(without, "remember", text=CENTS)
