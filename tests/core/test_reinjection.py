"""What a compaction puts back: plan, skills, cells and files, and the sum of all of it."""

import asyncio
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.entries import (
    Edit,
    EditEntry,
    EditUndoneEntry,
    FateEntry,
    MessageEntry,
    PinEntry,
)
from jupyter_ctx.core.gathering import HEAD_SHARE, build_sections, head_tokens
from jupyter_ctx.core.ports import Cell, EditedFile, ModelFacts, NotebookCell, PlanItem, Skill
from jupyter_ctx.core.recent import Source, choose_sources, merge_by_time
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.reinjection import MOST_OLDER, choose_plan, choose_skills
from jupyter_ctx.core.window import Limits
from jupyter_ctx.testing import (
    FakeKernel,
    FakeNotebook,
    FakeWorkspace,
    ScriptedModel,
    make_session,
)

KEY = "sk-ant-planted-0123456789"
KINDS = dict.fromkeys(
    ("instruction", "pin", "plan", "skill", "variable", "result", "file", "cell", "hook")
)


def letters(text):
    return len(text)


def sections_of(session, told="", summary_tokens=100):
    """Return the sections that there are."""
    found = asyncio.run(build_sections(session._engine, (), summary_tokens, told))
    return [section for section in found if section is not None]


def session_on(window, *, entries=(), kernel=None, workspace=None, redactor=None, **values):
    facts = ModelFacts("scripted", window, "api", 8_000, factor_prior=1.0)
    return make_session(
        ScriptedModel(facts=facts),
        kernel=kernel,
        workspace=workspace,
        redactor=redactor,
        entries=entries,
        **values,
    )


# The plan ---------------------------------------------------------------------------------------

PLANS = st.lists(
    st.builds(
        PlanItem,
        st.text(alphabet="ab \n", min_size=1, max_size=30),
        st.sampled_from(["pending", "in_progress", "done"]),
    ),
    max_size=8,
)


def test_the_plan_is_a_list_with_states():
    """Each item is one line in its order, with what became of it."""
    plan = [PlanItem("Load", "done"), PlanItem("Clean\nit", "in_progress"), PlanItem("Plot")]

    section = choose_plan(plan, 1_000, letters)

    assert section.text == "# The plan\n- [x] Load\n- [ ] (in progress) Clean it\n- [ ] Plot"
    assert [(item.kind, item.id) for item in section.items] == [
        ("plan", "1"),
        ("plan", "2"),
        ("plan", "3"),
    ]


@given(PLANS, st.integers(0, 200))
def test_what_was_done_gives_way_first(plan, budget):
    """The lines fit the budget; no done item is kept where an open one of its size is left out."""
    section = choose_plan(plan, budget, letters)
    items = section.items if section else ()
    kept = {int(item.id) - 1: item.tokens for item in items}
    spent = sum(kept.values())

    assert list(kept) == sorted(kept)
    assert spent <= budget
    if section:
        assert (len(kept) < len(plan)) == section.text.endswith(" more")
    for_done = sum(tokens for index, tokens in kept.items() if plan[index].state == "done")
    for index, item in enumerate(plan):
        if index not in kept and item.state != "done":
            shown = choose_plan([item], 1_000, letters)
            assert shown.items[0].tokens > budget - spent + for_done


def test_a_long_item_is_one_bounded_line():
    """An item with the length of a book is cut to a line."""
    section = choose_plan([PlanItem("word " * 10_000)], 1_000, letters)

    assert len(section.text) < 600
    assert section.text.endswith("…")


def test_no_plan_is_no_section():
    """Without a plan, or without a budget for it, nothing is said."""
    assert choose_plan([], 1_000, letters) is None
    assert choose_plan([PlanItem("x")], 0, letters) is None


# Skills -----------------------------------------------------------------------------------------


def test_skills_are_whole_or_named():
    """One that is too long, and what does not fit together, comes by its name only."""
    skills = [Skill("short", "Use SI units."), Skill("long", "x" * 900), Skill("last", "y" * 300)]

    section = choose_skills(skills, 400, 250, letters)

    assert "## short\nUse SI units." in section.text
    assert "## long\nToo long to repeat: `skill` loads it again." in section.text
    assert "## last\nToo long to repeat" in section.text
    assert [item.id for item in section.items] == ["short", "long", "last"]
    assert sum(item.tokens for item in section.items) <= 250


def test_a_thousand_skills_are_counted():
    """The section does not grow with the number of skills."""
    section = choose_skills([Skill(f"s{n}", "text") for n in range(1_000)], 10, 10, letters)

    assert len(section.items) == MOST_OLDER
    assert f"… and {1_000 - MOST_OLDER} more" in section.text
    assert choose_skills([], 10, 10, letters) is None


# Cells and files --------------------------------------------------------------------------------


def cell(id_, changed_at=0.0):
    return Source(id_, f"cell:{id_}", f"text of {id_}", "cell", changed_at)


def file(id_, changed_at):
    return Source(id_, id_, f"text of {id_}", "file", changed_at)


def test_cells_and_files_are_interleaved_by_time():
    """The newest comes first, whichever it is; a cell without time stands by its order."""
    merged = merge_by_time(
        [cell("c4", 40), cell("c3"), cell("c2", 20), cell("c1")],
        [file("f1", 10), file("f3", 30), file("f5", 50)],
    )

    assert [source.id for source in merged] == ["f5", "c4", "f3", "c3", "c2", "f1", "c1"]


TIMES = st.floats(0, 9)


@given(st.lists(TIMES), st.lists(TIMES))
def test_merging_keeps_order_and_loses_nothing(cell_times, file_times):
    """Cells keep their order, files are by time, and each comes once, whatever the clock did."""
    cells = [cell(str(n), at) for n, at in enumerate(cell_times)]
    files = [file(str(n), at) for n, at in enumerate(file_times)]

    merged = merge_by_time(cells, files)

    assert [source for source in merged if source.kind == "cell"] == cells
    ages = [source.changed_at for source in merged if source.kind == "file"]
    assert ages == sorted(file_times, reverse=True)
    assert len(merged) == len(cells) + len(files)


SOURCE_KINDS: tuple[Literal["cell", "file"], ...] = ("cell", "file")
SOURCES = st.lists(
    st.tuples(st.text(alphabet="ab`\n", max_size=200), st.sampled_from(SOURCE_KINDS)),
    max_size=6,
).map(lambda pairs: [Source(f"s{n}", f"s{n}", text, kind) for n, (text, kind) in enumerate(pairs)])


@given(SOURCES, st.integers(0, 400), st.integers(0, 150))
def test_sources_fit_their_budgets(sources, budget, each):
    """What is given whole fits both budgets; the others are there by name and how to read them."""
    section = choose_sources(sources, budget, letters, each)
    if not sources:
        assert section is None
        return
    chunks = section.text.split("\n\n## ")[1:]
    named = {c.split("\n")[0] for c in chunks if "\nToo long to repeat: `read_" in c}
    whole = [source for source in sources if source.id not in named]

    assert [item.id for item in section.items] == [source.id for source in sources]
    assert all(len(source.text) <= each for source in whole)
    assert all(f"## {source.label}\n```" in section.text for source in whole)
    tokens = {item.id: item.tokens for item in section.items}
    assert sum(tokens[source.id] for source in whole) <= budget


# Together ---------------------------------------------------------------------------------------


def test_the_order_of_what_comes_back():
    """Words of the user, pins, plan, skills, names, results, sources; last what a hook says."""
    kernel = FakeKernel({"df": 1}, [Cell("c", "x = 1", 1, 1, changed_at=5.0)])
    workspace = FakeWorkspace(
        [PlanItem("Plot it")], [Skill("units", "SI.")], [EditedFile("notes.md", "Notes.", 9.0)]
    )
    entries = [
        MessageEntry(0.0, 1, 0, "prompt", user(Text("The task."))),
        PinEntry(0.0, 1, "Cents."),
        FateEntry(0.0, "toolu_1", "offload", "run_code", 90_000, 7, "toolu_1.txt"),
    ]
    session = session_on(64_000, entries=entries, kernel=kernel, workspace=workspace)

    sections = sections_of(session, "Branch main.")

    assert [section.text.split("\n", 1)[0] for section in sections] == [
        "# What the user asked, in their own words, oldest first",
        "Pinned by the user, always holds (pin 1): Cents.",
        "# The plan",
        "# Skills in use, the last one loaded first",
        "# Names alive in the kernel now",
        "# Stored results, newest first; read them with `read_result`",
        "# Cells and files edited or run most recently, newest first, in their present form",
        "Branch main.",
    ]
    assert sections[6].text.index("notes.md") < sections[6].text.index("cell:c")
    kinds = [item.kind for section in sections for item in section.items]
    assert kinds == list(KINDS)


def test_cells_come_back_as_they_stand_now():
    """C15: present sources; what the agent edited without a run too; what is deleted does not."""
    cells = [
        Cell("a", "a = 'as it ran'", 1, 1, changed_at=5.0),
        Cell("b", "b = 'as it ran'", 2, 2, changed_at=6.0),
        Cell("gone", "gone = 'deleted since'", 3, 3, changed_at=7.0),
    ]
    notebook = FakeNotebook(
        [
            NotebookCell("a", "code", "a = 'edited by the user'", 1),
            NotebookCell("b", "code", "b = 'edited by the agent'", 2),
            NotebookCell("m", "markdown", "m, written by the agent"),
            NotebookCell("n", "code", "n = 'undone'"),
        ]
    )
    edits = [
        EditEntry(at, n, 1, Edit("cell", target, None, {"source": "x"}))
        for at, n, target in ((9.0, 1, "b"), (10.0, 2, "m"), (11.0, 3, "n"), (12.0, 4, "away"))
    ]
    entries = [*edits, EditUndoneEntry(13.0, 3)]
    kernel = FakeKernel(cells=cells)
    session = session_on(64_000, entries=entries, kernel=kernel, notebook=notebook)

    (section,) = [one for one in sections_of(session) if "present form" in one.text]

    assert [item.id for item in section.items] == ["m", "b", "a"]
    assert "## cell:m (markdown, edited by you)" in section.text
    assert "## cell:b (In[2], edited by you)\n```python\nb = 'edited by the agent'" in section.text
    assert (
        "## cell:a (In[1], edited since it ran)\n```python\na = 'edited by the user'"
        in section.text
    )
    for old in ("as it ran", "deleted since", "undone"):
        assert old not in section.text
    assert section.text.endswith("not to be had now: cell:away (it is no longer in the notebook)")


def test_what_has_no_text_takes_no_place_of_what_has():
    """Five sources come back whole beside any number that are gone, which are named and counted."""
    files = [EditedFile(f"gone{n}.md", "", 50.0 - n, "it is no longer there") for n in range(25)]
    files += [EditedFile(f"f{n}.md", f"text {n}", 5.0 - n) for n in range(5)]
    session = session_on(64_000, workspace=FakeWorkspace(files=files))

    (section,) = [one for one in sections_of(session) if "present form" in one.text]

    assert [item.id for item in section.items] == [f"f{n}.md" for n in range(5)]
    assert "gone0.md (it is no longer there), " in section.text
    assert section.text.endswith(" and 5 more")


def test_everything_that_comes_back_is_redacted():
    """No key gets into the new context by a plan, a skill, a file, its path or a cell."""
    workspace = FakeWorkspace(
        [PlanItem(f"{'word ' * 99}{KEY}"), PlanItem(KEY)],
        [Skill(f"s {KEY}", f"text {KEY}")],
        [EditedFile(f"{KEY}.md", f"text {KEY}\ud800", 1.0)],
    )
    kernel = FakeKernel(cells=[Cell("c", f"k = '{KEY}'", 1, 1)])
    session = session_on(200_000, kernel=kernel, workspace=workspace, redactor=Redactor([KEY]))
    text = "".join(section.text for section in sections_of(session))

    assert "planted" not in text
    assert "\ud800" not in text
    assert text.count("[redacted: ANTHROPIC_API_KEY]") >= 5


def full(window, size):
    """A session in which every part is larger than its budget, in pieces of `size` characters."""
    many = range(60)
    kernel = FakeKernel(
        {f"name_{n:04}": n for n in range(3_000)},
        [Cell(f"c{n}", "x" * size, n, n) for n in many],
    )
    workspace = FakeWorkspace(
        [PlanItem("p" * min(size, 400)) for _ in range(200)],
        [Skill(f"s{n}", "k" * size) for n in many],
        [EditedFile(f"f{n}.md", "f" * size, n) for n in many],
    )
    entries = [
        MessageEntry(0.0, n, 0, "prompt", user(Text(f"{n} " + "w" * min(size, 400))))
        for n in range(1, 300)
    ]
    entries += [
        FateEntry(0.0, f"toolu_{n}", "offload", "run_code", 90_000, 7, "x") for n in range(900)
    ]
    return session_on(window, entries=entries, kernel=kernel, workspace=workspace)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from([8_000, 16_000, 64_000, 200_000]), st.sampled_from([40, 900, 9_000]))
def test_all_together_take_at_most_a_quarter(window, size):
    """However much there is, summary and what comes back stay within their share of the window."""
    session = full(window, size)
    count = session._engine.meter.estimate_text
    summary = int(0.05 * window)

    sections = sections_of(session, "said by a hook " * 9_000, summary)

    ends = {"prompt-1", "prompt-299"}
    whole = sum(i.tokens for s in sections for i in s.items if i.id in ends)
    total = sum(count(section.text) for section in sections) + summary
    assert total <= HEAD_SHARE * window + whole
    assert {i.kind for s in sections for i in s.items} >= {"instruction", "skill", "file"}
    if window >= 64_000:
        assert {i.kind for s in sections for i in s.items} == KINDS.keys() - {"pin", "cell"}


def test_with_room_nothing_is_made_smaller():
    """Parts within their own budgets come back whole where the quarter is not reached."""
    workspace = FakeWorkspace(skills=[Skill(f"s{n}", "k" * 12_000) for n in range(3)])
    session = session_on(200_000, workspace=workspace)

    (section,) = sections_of(session)

    assert section.text.count("k" * 12_000) == 3


@pytest.mark.parametrize("window", [8_000, 200_000])
def test_a_raised_budget_is_not_taken_from_the_others(window):
    """A setting above its default widens the sum by as much."""
    plain, raised = Limits(), Limits(cells_tokens=50_000)

    more = head_tokens(raised, window) - head_tokens(plain, window)

    assert head_tokens(plain, window) == window // 4
    assert more == min(50_000, window // 4) - min(10_000, window // 20)


def test_without_a_known_window_each_budget_is_its_own():
    """Where nobody knows the window, the parts are bounded by their settings alone."""
    session = full(None, 9_000)
    sections = sections_of(session, "said by a hook " * 9_000)

    tokens = {
        kind: sum(i.tokens for s in sections for i in s.items if i.kind == kind) for kind in KINDS
    }
    assert 1_500 < tokens["plan"] <= 2_000
    assert 20_000 < tokens["skill"] <= 25_000
    assert 7_000 < tokens["file"] <= 10_000
    assert tokens["hook"] == 10_000


def test_without_any_room_only_names_are_left():
    """A summary that takes the whole quarter leaves the names of what would come back."""
    session = full(16_000, 900)

    sections = sections_of(session, "said by a hook", summary_tokens=4_000)

    kinds = [item.kind for section in sections for item in section.items]
    assert set(kinds) == {"instruction", "skill", "file"}
    assert kinds.count("instruction") == 2
    text = "".join(section.text for section in sections)
    assert "kkk" not in text
    assert "fff" not in text
