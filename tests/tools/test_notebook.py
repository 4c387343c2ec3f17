"""Laws of `list_cells` and `read_cell`."""

import re

import pytest

from jupyter_ctx.core.blocks import Json
from jupyter_ctx.core.ports import Cell
from jupyter_ctx.errors import ToolError
from jupyter_ctx.testing import FakeKernel

from ..pictures import png
from .examples import bundle, call, stream, text_of


def cell(n: int, source: str = "", *outputs: Json, failed: bool = False) -> Cell:
    """Return an executed cell."""
    return Cell(f"cell-{n}", source or f"x = {n}", n, n, outputs, failed)


def kernel_of(*cells: Cell) -> FakeKernel:
    """Return a kernel that executed `cells`."""
    return FakeKernel(cells=list(cells))


def test_cells_are_listed() -> None:
    """Id, execution count, state, first line and the kinds of outputs; no output's text."""
    kernel = kernel_of(cell(1, "\n\nimport os\nx", stream("secret\n")), cell(2, "1/0", failed=True))

    assert call("list_cells", {}, kernel=kernel).text == (
        "cell-1 | In[1] | ok | import os | stdout (7 characters)\ncell-2 | In[2] | failed | 1/0"
    )


def test_an_unused_notebook_says_so() -> None:
    """With no executed cell there is still a text."""
    assert call("list_cells", {}).text == "No cell has been executed yet."


@pytest.mark.parametrize("cap", [500, 2_000, 50_000])
def test_a_big_notebook_is_listed_in_parts(cap: int) -> None:
    """C08: 400 cells of 3 MB outputs stay under the cap, and following the notes shows them all."""
    cells = [cell(n, f"x = {n}  # " + "é" * 90, stream("y" * 7_500)) for n in range(1, 401)]
    kernel = kernel_of(*cells)
    seen: list[str] = []
    start: int | None = 1
    while start is not None:
        text = text_of(call("list_cells", {"start": start}, kernel=kernel, cap=cap))
        assert len(text) <= cap
        seen.extend(re.findall(r"^cell-\d+", text, re.MULTILINE))
        following = re.search(r"go on with start=(\d+)\]$", text)
        start = int(following[1]) if following else None

    assert seen == [one.id for one in cells]


def test_a_start_past_the_end_is_an_error() -> None:
    """The error says how many cells there are."""
    with pytest.raises(ToolError, match="there are 1 executed cells"):
        call("list_cells", {"start": 2}, kernel=kernel_of(cell(1)))


def test_a_cell_is_read_without_its_outputs() -> None:
    """C07: source, id, execution count and a summary; of 200 KB of output nothing."""
    kernel = kernel_of(cell(7, "for i in x:\n    print(i)", stream("secret\n" * 30_000)))

    assert call("read_cell", {"cell_id": "cell-7"}, kernel=kernel).text == (
        "[cell cell-7, In[7], ok; outputs: stdout (210,000 characters) (read them with "
        "outputs=true)]\nfor i in x:\n    print(i)"
    )


def test_outputs_come_when_asked_for() -> None:
    """With `outputs` the text and the pictures follow the source."""
    picture = png(8, 8)
    kernel = kernel_of(cell(7, "f()", stream("printed\n"), bundle(image__png=picture.data)))

    output = call("read_cell", {"cell_id": "cell-7", "outputs": True}, kernel=kernel)

    assert text_of(output).endswith("]\nf()\n\n[outputs]\nprinted\n[image/png 8×8]")
    assert output.images == (picture,)
    assert output.mime_types == ("image/png", "text/plain")


@pytest.mark.parametrize("cap", [500, 3_000])
def test_a_long_cell_is_read_in_parts(cap: int) -> None:
    """Following the notes gives every line of source and outputs once, in order, under the cap."""
    lines = [f"value_{n} = {n}" for n in range(300)]
    kernel = kernel_of(cell(1, "\n".join(lines[:150]), stream("\n".join(lines[150:]))))
    seen: list[str] = []
    start: int | None = 1
    while start is not None:
        arguments = {"cell_id": "cell-1", "outputs": True, "start_line": start}
        text = text_of(call("read_cell", arguments, kernel=kernel, cap=cap))
        assert len(text) <= cap
        seen.extend(line for line in text.split("\n") if line.startswith("value_"))
        following = re.search(r"go on with start_line=(\d+)\]$", text)
        start = int(following[1]) if following else None

    assert seen == lines


def test_an_unknown_cell_lists_near_ids() -> None:
    """The error names near ids, and the id of a cell that was meant by its number."""
    kernel = kernel_of(cell(1), cell(2))

    with pytest.raises(ToolError, match=r"no executed cell `cell-3`. Nearest: `cell-[12]`"):
        call("read_cell", {"cell_id": "cell-3"}, kernel=kernel)
    with pytest.raises(ToolError, match=r"In\[2\] is `cell-2`"):
        call("read_cell", {"cell_id": "In[2]"}, kernel=kernel)
    with pytest.raises(ToolError, match="No cell has been executed"):
        call("read_cell", {"cell_id": "cell-1"})
