"""The demo model looks, runs, offloads and is compacted: all that can be seen without a key."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Image, Message, Text, ToolUse, text_of
from jupyter_ctx.core.events import CompactionFinished, ResultOffloaded, ToolStarted
from jupyter_ctx.core.ports import Cell, Request
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.models import make_model
from jupyter_ctx.models.demo import DemoModel, demo_facts
from jupyter_ctx.models.demo_scripts import Done, script, summarise
from jupyter_ctx.prompts import load_prompt
from jupyter_ctx.session import Place, Ports, Session
from jupyter_ctx.testing import (
    AllowAll,
    DenyAll,
    FakeClock,
    FakeKernel,
    InlineRunner,
    LetterCounter,
    MemoryStore,
)
from jupyter_ctx.tools import make_tools


class Reader:
    """Reads the stored texts of a MemoryStore."""

    def __init__(self, store):
        self.store = store

    def read_text(self, name):
        return self.store.texts.get(name)

    def names(self):
        return list(self.store.texts)


def error(name):
    return {"output_type": "error", "ename": name, "evalue": "", "traceback": []}


@pytest.fixture
def kernel():
    cells = [
        Cell("c1", "prices = [3, 1, 2]", 1, 1),
        Cell("c0", "%agent", 2, 2, (error("UsageError"),), failed=True),
        Cell("c2", "prices['x']", 3, 3, (error("TypeError"),), failed=True),
        Cell("c3", "%agent", 4, 4, (error("UsageError"),), failed=True),
    ]
    return FakeKernel({"prices": [3, 1, 2], "table": {"a": 1}}, cells)


def demo_session(kernel, permissions=None):
    store = MemoryStore()
    settings = Settings(model="demo")
    ports = Ports(
        model=DemoModel(),
        counter=LetterCounter(),
        tools=make_tools(kernel, Reader(store), settings),
        store=store,
        clock=FakeClock(),
        kernel=kernel,
        permissions=permissions or AllowAll(),
        runner=InlineRunner(),
        redactor=Redactor({}),
        make_model=lambda name: DemoModel(),
        known_facts=lambda name: demo_facts(),
    )
    place = Place("demo-session", None, "/home/user", "Linux", "2026-01-01", "0")
    return Session((), settings, place, ports)


def run(session, text):
    events = []
    session.ask(text, on_event=events.append)
    return events


def test_it_really_looks_at_the_notebook(kernel):
    """A plain question is answered from the cells and variables that are there."""
    session = demo_session(kernel)
    events = run(session, "What is here?")
    tools = [event.name for event in events if isinstance(event, ToolStarted)]

    assert tools == ["list_cells", "run_code", "inspect"]
    assert "`prices` (list)" in str(session.last_turn)
    assert "`table` (dict)" in str(session.last_turn)
    assert "_demo_names" not in kernel.namespace


def test_it_finds_the_cell_that_failed(kernel):
    """Asked about an error it reads the cell that failed with it, not another failed one."""
    session = demo_session(kernel)
    import sys

    sys.last_value = TypeError("list indices must be integers")
    try:
        events = run(session, "Why did it fail?")
    finally:
        del sys.last_value
    tools = [event.name for event in events if isinstance(event, ToolStarted)]

    assert tools == ["run_code", "list_cells", "read_cell"]
    assert "TypeError: list indices must be integers" in str(session.last_turn)
    assert "prices['x']" in str(session.last_turn)


def test_a_table_keeps_its_columns():
    """What it quotes of a result begins where the result does: the head of a frame is aligned."""
    done = [Done(ToolUse("t1", "run_code", {"code": "df"}), "   a\n0  1\n", False)]

    assert "```text\n   a\n0  1\n```" in script("Run `df`", done)[0]


def test_a_large_output_is_offloaded_and_read(kernel):
    """The large log goes to the store; three lines of it are read back; its end is quoted."""
    session = demo_session(kernel)
    events = run(session, "Print a large log.")

    assert [e.name for e in events if isinstance(e, ResultOffloaded)] == ["run_code"]
    assert "half-way" in str(session.last_turn)
    assert "ends at" in str(session.last_turn)


def test_a_few_turns_fill_its_window(kernel):
    """Its window is small: some turns are enough for a compaction, after which it goes on."""
    session = demo_session(kernel)
    compacted = 0
    for n in range(14):
        events = run(session, ["What is here?", "Print a large log."][n % 2])
        assert events[-1].outcome == "done"
        compacted += sum(isinstance(event, CompactionFinished) for event in events)

    assert compacted >= 1
    assert "Print a large log" in session.find_compaction().summary


def test_code_in_backticks_is_run(kernel):
    """`code` in the prompt is run and its output quoted; a failure is said."""
    session = demo_session(kernel)
    run(session, "Run `print(sum(prices))` please")
    assert "It returned:\n\n```text\n6\n```" in str(session.last_turn)
    run(session, "Run `nothing_there`")
    assert "It failed" in str(session.last_turn)
    assert "NameError" in str(session.last_turn)


def test_a_denial_is_accepted(kernel):
    """A denied call ends in a sentence, not in another try."""
    session = demo_session(kernel, DenyAll("not now"))
    run(session, "Print a large log.")

    assert str(session.last_turn) == "I did not run it: not now"


def test_a_denial_that_is_no_answer_is_not_said_again():
    """Where the call's own line says why, as headless, the demo does not repeat it."""
    denied = Done(ToolUse("t1", "run_code", {}), "Denied: no one can be asked here", True)

    assert script("Print a large log.", [denied]) == ["I did not run it."]


def test_its_usage_has_cache_reads(kernel):
    """From the second call on most input is read from the cache, as a provider would report."""
    session = demo_session(kernel)
    run(session, "What is here?")
    usage = session.total_usage

    assert usage.cache_read > usage.cache_write / 2
    assert session.context()["cost_usd"] == 0.0
    assert session.context()["is_estimate"] is False


def test_a_list_that_went_to_the_store_is_not_called_empty():
    """Where the names were offloaded for want of room, it says so instead of "no variables"."""
    use = ToolUse("demo_2", "run_code", {})
    seen = Done(use, '[77 characters: read_result(tool_use_id="demo_2")]\ndays', failed=False)

    (answer,) = script("What is here?", [Done(use, "no cells", failed=False), seen])

    assert "went to the store" in answer
    assert "no variables" not in answer


def test_a_stored_text_is_read_by_its_name(kernel):
    """Asked for `turn-1` it reads the lines that the prompt says, after any compaction."""
    session = demo_session(kernel)
    run(session, "What is here?")
    run(session, "Print a large log.")
    session.compact()
    events = run(session, "Read turn-1, lines 1 to 2.")

    (read,) = [event for event in events if isinstance(event, ToolStarted)]
    assert read.name == "read_result"
    assert read.input == {"tool_use_id": "turn-1", "start_line": 1, "end_line": 2}


def test_a_budget_is_answered_with_done(kernel):
    """With nothing left to do it says DONE, and no summary takes the nudge for a request."""
    session = demo_session(kernel)
    session.budget_tokens = 2_000
    events = run(session, "Run `print(1)`")

    assert events[-1].steps == 3
    assert "[Turn budget]" in text_of(session.transcript.view[-2].content)
    assert "[Turn budget]" not in summarise(session.transcript.view)


def test_another_adapter_gives_other_ids(kernel):
    """After a restart or a change of settings no call repeats the id of an earlier one."""
    session = demo_session(kernel)
    run(session, "Run `print(1)`")
    session.switch_model("demo")
    run(session, "Run `print(2)`")

    assert len(session.results) == 2


def test_with_prices_it_counts_money(kernel):
    """It is free, until the setting `prices` names it: then facts and cost are of those prices."""
    settings = Settings(prices={"demo": {"input": 2.0, "output": 10.0}})

    assert demo_facts().prices.input == 0.0
    priced = make_model("demo", settings, {}, Redactor({}))
    assert asyncio.run(priced.load_facts()).prices.output == 10.0


def test_a_cell_that_is_mentioned_is_edited_and_one_is_added():
    """A mentioned cell gets a comment over its source; without a mention a cell is added."""
    read = Done(
        ToolUse("t1", "read_cell", {}), "[cell abc, In[3], ok; outputs: none]\na = 1", False
    )
    edit = script("Comment @cell:3", [read])[0]
    add = script("Add a cell", [])[1]

    assert (edit.name, edit.input["cell_id"]) == ("edit_cell", "abc")
    assert edit.input["source"] == "# Looked at by the demo model\na = 1"
    assert add.name == "insert_cell"
    cut = replace(read, text=f"{read.text}\n[lines 1–1 of 7; go on with start_line=2]")
    assert "leave it" in script("Comment @cell:3", [cut])[0]
    hint = Done(ToolUse("t0", "read_cell", {}), "There is no cell '3'. In[3] is `abc`.", True)
    assert script("Comment @cell:3", [hint])[0].input == {"cell_id": "abc"}


@pytest.mark.parametrize(
    ("prompt", "name", "given"),
    [
        ("Make a plan for the table", "update_plan", "items"),
        ("Remember that amounts are in cents", "remember", "text"),
        ("Have a sub-agent look at it", "task", "prompt"),
        ('Call mcp__tiny__rate {"currency": "USD"}', "mcp__tiny__rate", "currency"),
        ("Call mcp__tiny__rate {currency", "mcp__tiny__rate", None),
        ("Use the skill cafe.", "skill", "name"),
    ],
)
def test_what_is_kept_and_given_away_can_be_seen(prompt, name, given):
    """A plan, a fact, a sub-agent, an MCP tool and a skill are one call, and its result is told."""
    step = script(prompt, [])[1]

    assert step.name == name
    assert list(step.input)[-1:] == ([given] if given else [])
    told = script(prompt, [Done(ToolUse("t", name, {}), "RESULT", False)])
    assert "RESULT" in told[0]
    assert "did not work" in script(prompt, [Done(ToolUse("t", name, {}), "No.", True)])[0]


def test_a_sub_agent_does_its_task():
    """What a sub-agent is told besides its task, `task` among it, chooses no script."""
    words = load_prompt("agent").format(description="Look", prompt="What is in this notebook?")

    assert script(words, []) == script("What is in this notebook?", [])


def test_a_list_that_was_compacted_is_not_called_empty():
    """Whether there are variables is only said of a list that it has."""
    cells = Done(ToolUse("t1", "list_cells", {}), "[2 cells]", False)
    names = Done(ToolUse("t2", "run_code", {}), "", False)

    assert "compacted" in script("What is here?", [cells])[0]
    assert "no variables" in script("What is here?", [cells, names])[0]


def test_a_picture_counts_by_its_pixels(kernel):
    """A turn after a figure still has its usage, and the figure's bytes fill no window."""
    picture = Image("image/png", "A" * 200_000, 280, 280)
    message = Message("user", (Text("Look", part="conversation"), picture))
    request = Request("demo", "", (), (message,), 100)

    assert asyncio.run(DemoModel().count_tokens(request)) < 200
