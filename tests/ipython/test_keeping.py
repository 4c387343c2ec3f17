"""Laws of `/plan` and `/memory`, and of what a new session is told of the memory."""

import asyncio
from types import SimpleNamespace

import pytest

from jupyter_ctx.core.blocks import text_of
from jupyter_ctx.core.events import MemoryChanged
from jupyter_ctx.core.plan import PlanItem
from jupyter_ctx.core.ports import Fact
from jupyter_ctx.errors import PromptError, StoreError
from jupyter_ctx.ipython.commands import COMMANDS, parse
from jupyter_ctx.ipython.recall import MemorySection, memory_section
from jupyter_ctx.store.memory import MemoryFile
from jupyter_ctx.testing import FakeMemory, ScriptedModel, make_session, reply

from .test_markdown import acting_parts, lab_html

CENTS = "Amounts are in cents."
TITLES = "Plots have a title."


@pytest.fixture
def memory(tmp_path):
    """Return a memory on disk."""
    return MemoryFile(tmp_path, "/project", lambda: "2026-11-30")


@pytest.fixture
def host(memory):
    """Return a host over a session with that memory."""
    session = make_session(ScriptedModel(reply("Yes."), reply("Yes.")), memory=memory)
    return SimpleNamespace(session=session)


def say(host, text):
    """Run a command and return what it shows as text."""
    command, argument = parse(text)
    return command.run(host, argument).text


def kept(memory):
    return [fact.text for fact in memory.read()]


def next_prompt(host):
    """Return what the model is told with the next prompt."""
    host.session.ask("Go on")
    return text_of(host.session.transcript.prompts[host.session.transcript.turn].content)


# The plan ---------------------------------------------------------------------------------------


def test_a_plan_is_edited_item_by_item(host):
    """Each act changes what it names, shows the whole with its numbers, and says who hears."""
    assert say(host, "/plan").startswith("There is no plan.")
    shown = say(host, "/plan edit\n- [x] Load\n- [>] Clean\nPlot")
    assert shown.splitlines()[:4] == [
        "Plan: 1 of 3 done",
        "  1. [x] Load",
        "  2. [>] Clean",
        "  3. [ ] Plot",
    ]
    say(host, "/plan done 2")
    say(host, "/plan next 3")
    say(host, "/plan add Tell")
    assert say(host, "/plan remove 1").endswith("The model hears of it with the next prompt.")
    assert host.session.plan == (
        PlanItem("Clean", "done"),
        PlanItem("Plot", "in_progress"),
        PlanItem("Tell"),
    )
    assert "- [ ] (in progress) Plot" in next_prompt(host)
    assert say(host, "/plan clear").startswith("There is no plan.")
    assert host.session.plan == ()


@pytest.mark.parametrize(
    "text", ["done", "done 4", "done 0", "done x", "remove", "remove -1", "edit", "add", "clear 1"]
)
def test_a_bad_edit_of_the_plan_changes_nothing(host, text):
    """What is missing or does not exist is named, and the plan stays."""
    host.session.edit_plan([PlanItem("Load")] * 3)

    with pytest.raises(PromptError, match="/plan"):
        say(host, f"/plan {text}")
    assert len(host.session.plan) == 3


def test_a_plan_shows_nothing_that_acts(host):
    """Whatever an item says, it is text: no Markdown, no HTML, no control sequence."""
    host.session.edit_plan([PlanItem("**a** <img src=x> [l](http://x) \x1b[31m")])

    shown = COMMANDS["plan"].run(host, "")
    assert acting_parts(lab_html(shown.markdown)) == []
    assert "\x1b" not in shown.text


# The memory -------------------------------------------------------------------------------------


def test_facts_are_kept_changed_and_taken_out(host, memory):
    """Each act is on disk at once, the list is numbered and dated, and names the file."""
    assert "Nothing is kept" in say(host, "/memory")
    assert say(host, f"/memory add {CENTS}") == f"Kept for later sessions: {CENTS}"
    assert say(host, f"/memory add {CENTS.upper()}") == "It was kept already."
    say(host, f"/memory add {TITLES}")

    lines = say(host, "/memory").splitlines()
    assert f"  1. {CENTS} (2026-11-30)" in lines
    assert lines[-1].endswith(str(memory.path))
    say(host, "/memory edit 1 Amounts are in euros.")
    assert kept(memory) == [TITLES, "Amounts are in euros."]
    assert say(host, "/memory forget 1, 2").count("Taken out of the memory:") == 2
    assert kept(memory) == []


def test_undo_takes_back_what_was_kept_last(host, memory):
    """Batch by batch, the newest first; what was there before the kernel started stays."""
    asyncio.run(memory.add(["From before."]))
    say(host, f"/memory add {CENTS}")
    say(host, f"/memory add {TITLES}")
    say(host, "/memory forget 2")

    assert TITLES in say(host, "/memory undo")
    with pytest.raises(PromptError, match=r"Nothing was kept since.* /memory add TEXT"):
        say(host, "/memory undo")
    assert kept(memory) == ["From before."]


def test_the_model_hears_of_an_edit(host):
    """What the user adds and takes out stands in the next prompt, once."""
    say(host, f"/memory add {CENTS}")
    say(host, f"/memory add {TITLES}")
    say(host, "/memory undo")

    told = next_prompt(host)
    assert f"The user had this remembered for later sessions: {CENTS}" in told
    assert f"The user took this out of the memory; it holds no more: {TITLES}" in told
    assert next_prompt(host) == "Go on"


@pytest.mark.parametrize("text", ["add", "add none", f"add {'x ' * 200}", "edit 1", "forget 2"])
def test_a_bad_edit_of_the_memory_changes_nothing(host, memory, text):
    """What is no fact, or no number, is an error; the file stays byte for byte."""
    asyncio.run(memory.add([CENTS]))
    before = memory.path.read_bytes()

    with pytest.raises(PromptError):
        say(host, f"/memory {text}")
    assert memory.path.read_bytes() == before


def test_a_memory_that_cannot_be_written_says_so(host, memory):
    """An error of the disk reaches the user, and nothing else is told as done."""
    memory.path.parent.mkdir(parents=True)
    memory.path.mkdir()

    with pytest.raises(StoreError, match="could not be"):
        say(host, f"/memory add {CENTS}")
    assert host.session.remembered == ()


def test_without_a_home_nothing_is_kept():
    """The commands say that nothing is kept, and promise nothing."""
    host = SimpleNamespace(session=make_session(ScriptedModel()))

    assert "there is no folder" in say(host, "/memory")
    with pytest.raises(PromptError, match="there is no folder"):
        say(host, f"/memory add {CENTS}")


def test_a_page_is_told_of_an_edit():
    """Keeping and taking out are events, so that every page shows what is so now."""
    session = make_session(ScriptedModel(), memory=FakeMemory())
    seen = []
    run = session._ports.runner.run
    session._ports.runner.run = lambda start, on_event: run(start, seen.append)

    session.remember(CENTS)
    session.forget([CENTS])
    session.forget([CENTS])
    assert seen == [MemoryChanged(0, (CENTS,)), MemoryChanged(0, (CENTS,), is_undone=True)]


# What a new session is told -----------------------------------------------------------------------


def test_the_newest_facts_have_room():
    """In their order; of more than there is room for the oldest are counted only."""
    facts = [Fact(f"Fact {n}.", "2026-11-30" if n % 2 else "") for n in range(10)]

    assert memory_section(facts, 10_000).splitlines()[2:4] == ["- Fact 0.", "- 2026-11-30: Fact 1."]
    lines = memory_section(facts, 60).splitlines()
    assert lines[2:] == ["- … and 7 older ones, not shown here", *lines[3:]]
    assert lines[3:] == ["- 2026-11-30: Fact 7.", "- Fact 8.", "- 2026-11-30: Fact 9."]
    assert memory_section([], 1_000) == memory_section(facts, 3) == ""


def test_a_small_window_is_told_less():
    """The section takes at most 2 % of the window."""
    memory = FakeMemory([f"Fact number {n}, as long as any." for n in range(100)])

    def told(window):
        return asyncio.run(MemorySection(memory, lambda: window).describe())

    assert len(told(8_000)) < 800 < len(told(200_000)) == len(told(None))


def test_a_memory_that_cannot_be_read_is_said(memory):
    """The session begins without it, and the user hears why."""
    memory.path.mkdir(parents=True)
    section = MemorySection(memory, lambda: None)

    assert asyncio.run(section.describe()) == ""
    (said,) = asyncio.run(section.connect())
    assert said.startswith("What you told in earlier sessions is not known here.")
