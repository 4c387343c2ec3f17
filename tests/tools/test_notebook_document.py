"""Laws of `list_cells` and `read_cell` where a document stands beside the kernel."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.ports import Cell, NotebookCell, NotebookState
from jupyter_ctx.errors import ToolError
from jupyter_ctx.testing import FakeKernel, FakeNotebook
from jupyter_ctx.tools.notebook import OUTLINE_CHARS
from jupyter_ctx.tools.outline import CellView, find_headings, merge, outline, section_of
from jupyter_ctx.tools.seen import Seen

from .examples import call, stream, text_of


def text(n: int, source: str) -> NotebookCell:
    return NotebookCell(f"m{n}", "markdown", source)


def code(n: int, source: str = "", count: int | None = None) -> NotebookCell:
    return NotebookCell(f"c{n}", "code", source or f"x = {n}", count)


def ran(n: int, source: str = "", *, failed: bool = False) -> Cell:
    output = stream("seen\n")
    return Cell(f"c{n}", source or f"x = {n}", n, n, (output,), failed)


SMALL = FakeNotebook(
    [
        text(1, "Title\n=====\nWords."),
        code(1, count=1),
        text(2, "## Data"),
        code(2, "y = 20", count=2),
        code(3),
        code(9, "z", count=9),
        NotebookCell("r1", "raw", "raw text"),
        code(4, "%%agent\nplot it", count=4),
    ]
)
KERNEL = FakeKernel(
    cells=[ran(1), ran(2, "y = 2", failed=True), ran(4, "%%agent\nplot it"), ran(5, "del x")]
)


def test_the_outline_tells_what_stands_and_what_ran() -> None:
    """Headings with ids, types, states; what was edited since it ran, never ran, or is gone."""
    assert text_of(call("list_cells", {}, kernel=KERNEL, notebook=SMALL)) == (
        "[analysis.ipynb: 8 cells: 5 code (1 failed, 1 edited since they ran, 1 not run), 3 text; "
        "as the user sees it now]\n"
        "m1 | # Title\n"
        "c1 | In[1] | ok | x = 1 | stdout (5 characters)\n"
        "m2 | ## Data\n"
        "c2 | In[2] | failed, edited since it ran | y = 20 | stdout (5 characters)\n"
        "c3 | In[ ] | not run | x = 3\n"
        "c9 | In[9] | ok, ran before this kernel | z\n"
        "r1 | raw | raw text\n"
        "c4 | In[4] | ok | `%agent` (a prompt to you)\n"
        "c5 | In[5] | ok, no longer in the notebook | del x | stdout (5 characters)"
    )


def test_a_list_that_leaves_cells_out_names_those_that_failed_last() -> None:
    """Who is asked why a cell failed finds it, however long the notebook and small the window."""
    ids = [str(uuid.UUID(int=n)) for n in range(40)]
    cells = [NotebookCell(one, "code", "x = 1  # " + "long " * 8) for one in ids]
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": []}
    runs = [Cell(ids[at], cells[at].source, n, n, (error,), True) for n, at in enumerate((30, 7))]
    prompt = Cell(ids[39], "%agent why?", 9, 9, (error,), failed=True)
    cells[39] = NotebookCell(ids[39], "code", "%agent why?")
    kernel, notebook = FakeKernel(cells=[*runs, prompt]), FakeNotebook(cells)

    small = text_of(call("list_cells", {}, kernel=kernel, notebook=notebook, cap=500))
    large = text_of(call("list_cells", {}, kernel=kernel, notebook=notebook, cap=2_000))

    newest = f"{ids[7]} | In[1] | failed | error KeyError"
    for listed, most in ((small, 500), (large, 2_000)):
        told = listed.partition("\n[failed last:]\n")[2]
        assert told.splitlines()[-1] == newest
        assert len(listed) <= most
        assert ids[39] not in listed
    assert f"{ids[30]} | In[0] | failed | error KeyError\n{newest}" in large


def test_a_cell_is_read_as_it_stands_now() -> None:
    """The present source; the one that ran only with the outputs it made. Both are told apart."""
    plain = text_of(call("read_cell", {"cell_id": "c2"}, kernel=KERNEL, notebook=SMALL))
    full = {"cell_id": "c2", "outputs": True}

    assert plain == (
        "[cell c2, In[2], failed, edited since it ran; outputs: stdout (5 characters) (read them "
        "with outputs=true)]\ny = 20"
    )
    assert text_of(call("read_cell", full, kernel=KERNEL, notebook=SMALL)).endswith(
        "y = 20\n\n[the source that ran]\ny = 2\n\n[outputs]\nseen\n"
    )
    assert text_of(call("read_cell", {"cell_id": "m1"}, notebook=SMALL)) == (
        "[cell m1, markdown]\nTitle\n=====\nWords."
    )
    gone = text_of(call("read_cell", {"cell_id": "c5"}, kernel=KERNEL, notebook=SMALL))
    assert "no longer in the notebook" in gone
    assert gone.endswith("del x")


def big(cells: int = 400) -> tuple[FakeNotebook, FakeKernel]:
    """C08: `cells` cells with 3 MB of outputs below nested headings."""
    document: list[NotebookCell] = []
    runs: list[Cell] = []
    for n in range(cells):
        if n % 40 == 0:
            document.append(text(n, f"# Part {n // 40 + 1}"))
        elif n % 8 == 0:
            document.append(text(n, f"## Section {n}\n\nwith words"))
        else:
            source = f"value_{n} = {n}  # " + "é" * 90
            document.append(code(n, source, n))
            runs.append(Cell(f"c{n}", source, n, n, (stream("y" * 8_000),)))
    return FakeNotebook(document), FakeKernel(cells=runs)


@pytest.mark.parametrize("cap", [500, 2_000, 50_000])
def test_a_big_notebook_is_outlined_by_headings(cap: int) -> None:
    """C08: headings with their ids under a fixed cap, whatever the notebook's size."""
    notebook, kernel = big()
    said = text_of(call("list_cells", {}, kernel=kernel, notebook=notebook, cap=cap))

    assert len(said) <= min(cap, OUTLINE_CHARS)
    if cap >= 2_000:
        assert re.findall(r"^(m\d+) \| # Part (\d+)", said, re.M) == [
            (f"m{40 * n}", str(n + 1)) for n in range(10)
        ]
        assert "m80 | # Part 3 | cells 81–" in said
        assert "only headings are listed" in said
    assert "yyy" not in said


def test_a_section_is_read_alone() -> None:
    """C08: "what does the third section do?" takes only that section's cells."""
    notebook, kernel = big()
    seen = Seen()
    arguments = {"cell_id": "Part 3", "section": True}
    said = text_of(call("read_cell", arguments, kernel=kernel, notebook=notebook, seen=seen))

    assert [int(n) for n in re.findall(r"^value_(\d+)", said, re.M)] == [
        n for n in range(81, 120) if n % 8
    ]
    assert "## Section 88" in said
    assert "# Part 4" not in said
    assert "yyy" not in said
    assert all(seen.is_present("cell", one.id, one.source) for one in notebook.cells[80:120])
    assert not seen.has("cell", "c79")
    assert not seen.has("cell", "m120")
    listed = text_of(call("list_cells", {"section": "m88"}, kernel=kernel, notebook=notebook))
    assert re.findall(r"^([cm]\d+) \|", listed, re.M) == ["m88", *(f"c{n}" for n in range(89, 96))]


@pytest.mark.parametrize("cap", [500, 2_000, 50_000])
def test_every_cell_of_a_big_notebook_is_within_reach(cap: int) -> None:
    """Following the notes lists every cell once, in order, each page under the cap."""
    notebook, kernel = big()
    ids: list[str] = []
    start: int | None = 1
    while start is not None:
        said = text_of(
            call("list_cells", {"start": start}, kernel=kernel, notebook=notebook, cap=cap)
        )
        assert len(said) <= cap
        ids.extend(re.findall(r"^([cm]\d+) \|", said, re.M))
        following = re.search(r"go on with start=(\d+)\]$", said)
        start = int(following[1]) if following else None

    assert ids == [one.id for one in notebook.cells]


def test_only_what_was_given_whole_is_seen() -> None:
    """A long cell is seen when its last page was read; the head of a long line does not count."""
    long = NotebookCell("long", "code", "\n".join(f"line_{n} = {n}" for n in range(200)))
    wide = NotebookCell("wide", "code", "x = '" + "w" * 5_000 + "'")
    notebook, seen = FakeNotebook([long, wide]), Seen()
    start: int | None = 1
    while start is not None:
        assert not seen.has("cell", "long")
        arguments = {"cell_id": "long", "start_line": start}
        said = text_of(call("read_cell", arguments, notebook=notebook, seen=seen, cap=1_000))
        following = re.search(r"go on with start_line=(\d+)\]$", said)
        start = int(following[1]) if following else None
    call("read_cell", {"cell_id": "wide"}, notebook=notebook, seen=seen)

    assert seen.is_present("cell", "long", long.source)
    assert not seen.has("cell", "wide")


def test_headings_are_named() -> None:
    """An unknown name lists near ids; a heading that stands twice must be named by its id."""
    with pytest.raises(ToolError, match=r"There is no cell `c7`. Nearest: `c"):
        call("read_cell", {"cell_id": "c7"}, notebook=SMALL)
    twice = FakeNotebook([NotebookCell(name, "markdown", "# Data") for name in "ab"])
    with pytest.raises(ToolError, match=r"2 headings read '# Data': .*`a`, `b`"):
        call("read_cell", {"cell_id": "# Data"}, notebook=twice)
    with pytest.raises(ToolError, match="The notebook is empty"):
        call("read_cell", {"cell_id": "c"}, notebook=FakeNotebook())
    assert call("list_cells", {}, notebook=FakeNotebook()).text == "The notebook is empty."


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("# One\n## Two ##", [(1, "One"), (2, "Two")]),
        ("One\n===\n\nTwo\n---", [(1, "One"), (2, "Two")]),
        ("```\n# no\n```\n# yes", [(1, "yes")]),
        ("~~~~\n```\n# no\n~~~~\n###### six\n####### seven", [(6, "six")]),
        ("<h2 id='a'>Two <b>bold</b></h2>", [(2, "Two bold")]),
        ("#tag\n- item\n---\n\n---", []),
        ("#", [(1, "(untitled)")]),
    ],
)
def test_headings(source: str, found: list[tuple[int, str]]) -> None:
    """As Markdown has them: `#`, underlined and HTML ones, none within code."""
    assert [(heading.level, heading.title) for heading in find_headings(source)] == found


def test_runs_are_matched_without_ids() -> None:
    """A front end that names no cells: number and source match a run; an edited cell has none."""
    state = NotebookState((code(1, "a", 1), code(2, "b!", 2)), "disk", "/n.ipynb")
    runs = [Cell("in-1", "a\n", 1, 1), Cell("in-2", "b", 2, 2)]

    first, second, gone = merge(state, runs)

    assert (first.run, first.is_edited) == (runs[0], False)
    assert second.state == "ok, ran before this kernel"
    assert (gone.id, gone.gone) == ("in-2", "not in the saved file")


views = st.lists(
    st.builds(
        CellView,
        st.text("abc", min_size=1, max_size=30),
        st.sampled_from(["code", "markdown", "raw"]),
        st.text("#=- abé\n", max_size=60),
        st.none() | st.integers(1, 99),
    ),
    min_size=1,
    max_size=60,
)


@settings(deadline=None)
@given(views, st.integers(500, 3_000))
def test_an_outline_keeps_to_its_room(cells: list[CellView], most: int) -> None:
    """Whatever the cells, the outline is not empty and not longer than asked for."""
    said = outline(cells, most)

    assert said
    assert len(said) <= most


@given(views, st.data())
def test_sections_nest(cells: list[CellView], data: st.DataObject) -> None:
    """Two sections are apart or one is within the other."""
    places = st.integers(0, len(cells) - 1)
    one, other = (set(section_of(cells, data.draw(places))) for _ in range(2))

    assert not (one & other) or one <= other or other <= one
