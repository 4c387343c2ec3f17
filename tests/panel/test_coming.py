"""The question of a change tells those of its step behind it, so a page can show them all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.ipython.asked import Asked
from jupyter_ctx.ipython.rules import Act
from jupyter_ctx.panel.questions import MAX_COMING_CHARS, MOST_COMING, Questions

from ..fake_anthropic import FakeAnthropic, call, reply
from ..kernels import RealKernel
from .client import Item, PanelPage
from .test_questions import decide


def edit(cell_id: str, source: str) -> Any:
    return call("edit_cell", cell_id=cell_id, source=source)


def test_an_edit_tells_those_behind_it(
    kernel: RealKernel, server: FakeAnthropic, page: PanelPage
) -> None:
    """In their order, without other calls; each is asked about all the same."""
    server.append(
        reply(edit("a", "x"), call("run_code", code="1"), edit("b", "y\nz"), edit("c", "w")),
        "Done.",
    )
    page.open()
    page.call("submit", text="go")
    first = page.wait_for("question", cell_id="a")
    assert first["change"] == {
        "op": "edit",
        "cell_id": "a",
        "source": "x",
        "cell_type": None,
        "after": None,
    }
    coming = first["coming"]
    assert isinstance(coming, list)
    assert [(one["cell_id"], one["source"]) for one in coming] == [("b", "y\nz"), ("c", "w")]
    decide(page, first, "deny")
    second = page.wait_for("question", verb="run code")
    assert second["coming"] == []
    decide(page, second, "deny")
    third = page.wait_for("question", cell_id="b")
    assert third["tool_use_id"] == coming[0]["tool_use_id"]
    assert third["coming"] == coming[1:]
    decide(page, third, "deny")
    decide(page, page.wait_for("question", cell_id="c"), "deny")
    page.wait_for("turn_finished", outcome="done")


async def test_edits_too_long_to_tell_are_left_out() -> None:
    """What is told to come has a bound; the rest is asked about when its turn comes."""
    told: list[Item] = []
    asking = Questions(lambda item: told.append(dict(item)))
    long = "x" * (MAX_COMING_CHARS // 2)
    uses = [
        ToolUse(name, "edit_cell", {"cell_id": name, "source": source})
        for name, source in (("a", "1"), ("b", long), ("c", long), ("d", "2"))
    ]
    asked = Asked(Act("edit cells", "a"), "The agent asks to edit cell a:", "+1", "diff")
    question = asyncio.create_task(
        asking.ask(uses[0], asked, {}, turn=1, step=1, must_wait=True, coming=uses[1:])
    )
    await asyncio.sleep(0)
    coming = told[0]["coming"]
    assert isinstance(coming, list)
    assert [one["cell_id"] for one in coming] == ["b", "c"]
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question


async def test_changes_too_many_to_tell_are_left_out() -> None:
    """A thousand deletions, which have no source, do not make a question of any size."""
    told: list[Item] = []
    asking = Questions(lambda item: told.append(dict(item)))
    uses = [ToolUse(f"t{n}", "delete_cell", {"cell_id": f"c{n}"}) for n in range(1_000)]
    asked = Asked(Act("delete cells", "c0"), "The agent asks to delete cell c0:", "x = 1", "python")
    question = asyncio.create_task(
        asking.ask(uses[0], asked, {}, turn=1, step=1, must_wait=True, coming=uses[1:])
    )
    await asyncio.sleep(0)
    coming = told[0]["coming"]
    assert isinstance(coming, list)
    assert [one["cell_id"] for one in coming] == [f"c{n + 1}" for n in range(MOST_COMING)]
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question


async def test_each_change_is_told_as_it_is_drawn() -> None:
    """What is inserted, deleted or moved, and where; nothing of a call with other arguments."""
    told: list[Item] = []
    asking = Questions(lambda item: told.append(dict(item)))
    given: list[tuple[str, dict[str, object]]] = [
        ("delete_cell", {"cell_id": "a"}),
        ("insert_cell", {"source": "x", "after": "b"}),
        ("insert_cell", {"source": "# x", "cell_type": "markdown"}),
        ("move_cell", {"cell_id": "c", "after": "d"}),
        ("move_cell", {"cell_id": "e"}),
        ("move_cell", {"cell_id": "e", "before": "d"}),
        ("insert_cell", {"source": "x", "cell_type": "heading"}),
        ("delete_cell", {"cell_id": None}),
        ("run_cell", {"cell_id": "a"}),
    ]
    uses = [ToolUse(f"t{at}", name, arguments) for at, (name, arguments) in enumerate(given)]
    asked = Asked(Act("delete cells", "a"), "The agent asks to delete cell a:", "1", "python")
    question = asyncio.create_task(
        asking.ask(uses[0], asked, {}, turn=1, step=1, must_wait=True, coming=uses[1:])
    )
    await asyncio.sleep(0)
    no = {"cell_id": None, "source": None, "cell_type": None, "after": None}
    assert told[0]["change"] == {**no, "op": "delete", "cell_id": "a"}
    assert told[0]["coming"] == [
        {
            **no,
            "tool_use_id": "t1",
            "op": "insert",
            "source": "x",
            "cell_type": "code",
            "after": "b",
        },
        {**no, "tool_use_id": "t2", "op": "insert", "source": "# x", "cell_type": "markdown"},
        {**no, "tool_use_id": "t3", "op": "move", "cell_id": "c", "after": "d"},
        {**no, "tool_use_id": "t4", "op": "move", "cell_id": "e"},
    ]
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
