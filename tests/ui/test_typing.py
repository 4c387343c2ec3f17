"""A person has the cursor in a cell while the agent changes it, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fake_anthropic import FakeAnthropic, Hold, call, reply

from .conftest import PageFor
from .server import LabServer
from .test_cells import ids, results, source, write


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """The provider; nothing may be refused, and the whole script must be used."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert fake.refused == []
        assert not fake.unused


def test_nothing_of_what_a_person_types_is_lost(
    lab: LabServer, page_for: PageFor, server: FakeAnthropic
) -> None:
    """C22: a cell with the cursor in it is neither moved nor deleted; an edit goes around it.

    What is typed after that edit stands where the cursor was; what was typed before an edit that
    does not know of it has that edit refused.
    """
    edited = call("edit_cell", cell_id="a", source="# by the agent\nx = 1")
    server.append(
        call("read_cell", cell_id="a"),
        reply(
            "Thinking",
            Hold("focus"),
            call("delete_cell", cell_id="a"),
            call("move_cell", cell_id="a"),
            edited,
        ),
        reply("Thinking", Hold("type"), call("edit_cell", cell_id="a", source="x = 'lost'")),
        "Done.",
    )
    page = page_for(write(lab, "typing.ipynb", server, ("a", "x = 1"), ("b", "y = 1")))
    page.run_cell(0)
    page.start_cell(1)
    server.wait_held("focus", 60)
    cell = page.page.locator(".jp-Notebook .jp-Cell").nth(2)
    cell.locator(".cm-content").click()
    page.page.keyboard.press("End")
    server.release("focus")
    server.wait_held("type", 60)
    assert source(page, "a") == "# by the agent\nx = 1"
    page.page.keyboard.type("2 + 3")
    server.release("type")
    page.wait_idle()

    deleted, moved, first, second = results(server)[1:]
    assert "the user is writing in it just now" in deleted
    assert "the user is writing in it just now" in moved
    assert first.startswith("Edited")
    assert "Not applied" in second
    assert second.endswith("# by the agent\nx = 12 + 3")
    assert source(page, "a") == "# by the agent\nx = 12 + 3"
    assert ids(page) == ["load", "ask", "a", "b"]
    page.page.keyboard.type(" + 4")
    assert source(page, "a").endswith("x = 12 + 3 + 4")
