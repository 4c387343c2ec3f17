"""A turn works in a notebook of thousands of cells, one of a megabyte, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fake_anthropic import FakeAnthropic, call, reply

from .conftest import PageFor
from .server import LabServer
from .test_cells import cells, ids, results, source, write

COUNT = 2_000
LONG = "\n".join(f"value_{n} = {n}" for n in range(50_000))
MOST_RESULT_CHARS = 52_000
"""The cap of a result, and the words around it."""


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused, and the whole script must be used."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []
        assert not fake.unused


def test_a_turn_works_in_a_large_notebook(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C08: two thousand cells, one of a megabyte, are listed, read, made and moved within bounds.

    A cell that was not read whole is not written over, however often that is tried.
    """
    assert len(LONG) > 900_000
    server.append(
        call("list_cells"),
        call("read_cell", cell_id="c1500"),
        call("edit_cell", cell_id="c1500", source="edited = 1500"),
        call("insert_cell", source="made = 1", after="c1500"),
        call("read_cell", cell_id="long"),
        call("edit_cell", cell_id="long", source="short = 1"),
        call("edit_cell", cell_id="long", source="short = 1"),
        call("move_cell", cell_id="long", after="c1500"),
        reply("Done."),
    )
    more: list[Any] = [(f"c{n}", f"x_{n} = {n}\nprint(x_{n})") for n in range(COUNT)]
    more.insert(1_000, ("long", LONG))
    page = page_for(write(lab, "large.ipynb", server, *more))
    page.run_cell(0)
    page.run_cell(1)

    listed, read, edited, made, part, refused, again, moved = results(server)
    assert all(len(text) <= MOST_RESULT_CHARS for text in results(server))
    assert "2,003 cells" in listed
    assert "x_1500 = 1500" in read
    assert "1504 of 2003" in edited.replace(",", "")
    assert "not run" in made
    assert source(page, "c1500") == "edited = 1500"
    at = ids(page).index("c1500")
    assert ids(page)[at + 1] == "long"
    assert cells(page)[at + 2]["source"] == "made = 1"
    assert source(page, "long") == LONG
    assert "lines 1–" in part
    assert refused == again
    assert "was not read yet" in refused
    assert "below `c1500`" in moved or "between `c1500`" in moved
    assert page.errors == []
