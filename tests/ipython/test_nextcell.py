"""Laws of the next-cell way, under the rules of the front ends that have no bridge of ours."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.payload import PayloadManager

from jupyter_ctx.core.ports import CellChange, DeleteCell, EditCell, InsertCell, MoveCell
from jupyter_ctx.errors import ToolError, UnreadError
from jupyter_ctx.ipython.nextcell import NextCell

T = TypeVar("T")
Payloads = Sequence[Mapping[str, Any]]


class Here:
    """Calls on this thread."""

    async def call(self, function: Callable[[], T], /) -> T:
        """Return what it returns."""
        return function()


class KernelShell:
    """Of a shell in ipykernel what is used: the payloads, the running request, the count."""

    def __init__(self) -> None:
        self.kernel = object()
        self.payload_manager = PayloadManager()
        self.execution_count = 2
        self.parent = {"header": {"session": "front end"}, "metadata": {"cellId": "ask"}}

    def get_parent(self) -> Mapping[str, Any]:
        """Return the request that runs."""
        return self.parent

    def set_next_input(self, text: str, replace: bool = False) -> None:
        """Do what ZMQInteractiveShell does."""
        payload = {"source": "set_next_input", "text": text, "replace": replace}
        self.payload_manager.write_payload(payload)

    def end_cell(self) -> Payloads:
        """Return the payloads of the reply, and begin the next cell."""
        payloads = list(self.payload_manager.read_payload())
        self.payload_manager.clear_payload()
        self.execution_count += 1
        return payloads


def added_by_lab(payloads: Payloads) -> list[str]:
    """JupyterLab and Notebook: the first such payload of a reply is taken."""
    found = [one for one in payloads if one["source"] == "set_next_input"]
    return [] if not found or found[0]["replace"] else [found[0]["text"]]


def added_by_vscode(payloads: Payloads) -> list[str]:
    """VS Code: each such payload is taken, one that replaces into the running cell."""
    found = [one for one in payloads if one["source"] == "set_next_input"]
    return [one["text"] for one in found if not one["replace"]]


def added_by_colab(payloads: Payloads) -> list[str]:
    """Colab: each adds two cells (its issue 5176)."""
    return [text for text in added_by_vscode(payloads) for _ in range(2)]


def added_by_nbclient(payloads: Payloads) -> list[str]:
    """Headless: payloads are dropped."""
    return []


def said(next_cell: NextCell, change: CellChange) -> str:
    """Return the error of a change, which is never done."""
    with pytest.raises(ToolError) as caught:
        asyncio.run(next_cell.apply(change))
    return str(caught.value)


FRONT_ENDS = [
    pytest.param(added_by_lab, 1, id="lab"),
    pytest.param(added_by_vscode, 1, id="vscode"),
    pytest.param(added_by_nbclient, 0, id="nbclient"),
]


@pytest.mark.parametrize(("added", "count"), FRONT_ENDS)
def test_one_insertion_is_one_cell_or_none(added: Callable[..., list[str]], count: int) -> None:
    """X5, C25: exactly one cell comes, and whether or not, the text is there to be pasted."""
    shell = KernelShell()
    with pytest.raises(UnreadError) as caught:
        asyncio.run(NextCell(shell, Here()).apply(InsertCell("x = 1\ny", "code")))

    assert str(caught.value).startswith("Not applied yet")
    assert str(caught.value).endswith("paste this into it:\n\nx = 1\ny")
    assert added(shell.end_cell()) == ["x = 1\ny"] * count


@pytest.mark.parametrize(("added", "count"), FRONT_ENDS)
def test_a_second_insertion_replaces_none(added: Callable[..., list[str]], count: int) -> None:
    """A reply holds one text: the second cell of a turn is not applied, the first stays."""
    shell = KernelShell()
    next_cell = NextCell(shell, Here())
    said(next_cell, InsertCell("first", "code"))

    assert said(next_cell, InsertCell("second", "code")).startswith("Not applied: this front end")
    assert added(shell.end_cell()) == ["first"] * count
    with pytest.raises(UnreadError):
        asyncio.run(next_cell.apply(InsertCell("third", "code")))


def test_colab_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """X5: where one text becomes two cells, none is handed over and the text is given."""
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    shell = KernelShell()

    text = said(NextCell(shell, Here()), InsertCell("x = 1", "code"))

    assert text.startswith("Not applied: this front end")
    assert text.endswith("x = 1")
    assert added_by_colab(shell.end_cell()) == []


def test_what_the_users_code_handed_over_stays() -> None:
    """A text that a tool's or the user's code put there is not replaced."""
    shell = KernelShell()
    shell.set_next_input("theirs")

    said(NextCell(shell, Here()), InsertCell("ours", "code"))

    assert added_by_vscode(shell.end_cell()) == ["theirs"]


@pytest.mark.parametrize(
    "change",
    [
        InsertCell("# Title", "markdown"),
        InsertCell("x", "code", after="another"),
        InsertCell("x", "code", at_top=True),
        EditCell("a", "x = 2", "x = 1"),
        DeleteCell("a", "x"),
        MoveCell("a", "b"),
    ],
)
def test_what_the_way_does_not_reach_is_not_applied(change: CellChange) -> None:
    """Only a code cell below the running one can come; all else is told, with what to do."""
    shell = KernelShell()

    text = said(NextCell(shell, Here()), change)

    assert text.startswith("Not applied: this front end")
    assert "By hand: " in text
    assert shell.end_cell() == []


@pytest.mark.parametrize("after", [None, "ask", "in-1"])
def test_below_the_running_cell_is_where_it_comes(after: str | None) -> None:
    """The running cell may be named, by either of its names."""
    shell = KernelShell()

    assert said(NextCell(shell, Here()), InsertCell("x", "code", after)).startswith("Not applied y")


def test_a_terminal_shows_it_on_the_next_prompt() -> None:
    """Once for each prompt; a terminal has no notebook, and the answer says so."""
    shell = InteractiveShell()
    next_cell = NextCell(shell, Here())

    first = said(next_cell, InsertCell("print(1)", "code"))
    second = said(next_cell, InsertCell("print(2)", "code"))

    assert "on the user's next prompt" in first
    assert second.startswith("Not applied: this front end")
    assert shell.rl_next_input == "print(1)"


def test_a_turn_of_no_cell_hands_nothing_on() -> None:
    """The panel's turn belongs to no cell: the next text would land below one that the user ran."""
    shell = KernelShell()
    text = said(NextCell(shell, Here(), lambda: False), InsertCell("x = 1", "code"))

    assert text.startswith("Not applied: this front end")
    assert added_by_lab(shell.end_cell()) == []
