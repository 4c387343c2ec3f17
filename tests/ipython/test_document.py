"""The notebook document: the front end's word first, then the file's, then the kernel's."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import Json
from jupyter_ctx.core.ports import Cell, DeleteCell, NotebookState
from jupyter_ctx.errors import ToolError
from jupyter_ctx.ipython.document import Document, resolve_path
from jupyter_ctx.ipython.frontend import NoFrontendError, RefusedError
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools.notebook import make_read_cell
from jupyter_ctx.tools.outline import merge
from tests.tools.examples import call, text_of

OUTPUT = {"output_type": "stream", "name": "stdout", "text": "old\n"}


def shown(cell_id: str, source: str, **more: object) -> dict[str, object]:
    """Return a cell as a page tells it."""
    cell = {"id": cell_id, "type": "code", "source": source, "execution_count": None}
    return {**cell, "failed": False, "busy": False, "output_chars": 0, "extra": {}, **more}


@dataclass
class Page:
    """A page that shows `cells`, with `outputs` by cell id; an exception is raised."""

    cells: list[dict[str, object]]
    outputs: dict[str, list[Json]] = field(default_factory=dict)
    path: str = "sub/a.ipynb"
    error: Exception | None = None
    has_page: bool = True
    asked: list[object] = field(default_factory=list)

    async def request(self, op: str, args: Json, timeout_s: float | None = None) -> Json:
        """Answer `notebook`."""
        assert op == "notebook"
        self.asked.append(args["outputs"])
        if self.error is not None:
            raise self.error
        wanted = args["outputs"]
        assert isinstance(wanted, list)
        cells = [
            {**cell, "outputs": self.outputs.get(str(cell["id"])) if cell["id"] in wanted else None}
            if cell.get("id")
            else cell
            for cell in self.cells
        ]
        return {"path": self.path, "can_edit": True, "active": None, "cells": cells}


def load(document: Document) -> NotebookState:
    return asyncio.run(document.load())


def write(path: Path, *sources: str) -> None:
    cells = [
        {"id": f"c{n}", "cell_type": "code", "source": source, "execution_count": n, "outputs": []}
        for n, source in enumerate(sources, 1)
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": cells}))


def test_a_live_front_end_is_believed(tmp_path: Path) -> None:
    """What a page shows counts, unsaved edits too; the file is not looked at."""
    path = tmp_path / "sub" / "a.ipynb"
    path.parent.mkdir()
    write(path, "saved")
    page = Page([shown("c1", "typed"), shown("m1", "# A", type="markdown")])

    state = load(Document(FakeKernel(), lambda: str(path), page))

    assert (state.source, state.path, state.can_edit) == ("front end", str(path), True)
    assert [(c.id, c.type, c.source) for c in state.cells] == [
        ("c1", "code", "typed"),
        ("m1", "markdown", "# A"),
    ]


def test_cells_that_share_an_id_are_told_apart(tmp_path: Path) -> None:
    """Each cell has an id of its own here, the same at every look."""
    page = Page([shown(name, source) for name, source in (("a", "1"), ("a", "2"), ("a~2", "3"))])
    document = Document(FakeKernel(), lambda: None, page)

    first, second = load(document), load(document)

    assert [cell.source for cell in first.cells] == ["1", "2", "3"]
    assert [cell.id for cell in first.cells] == ["a", "a~2", "a~2~2"]
    assert first == second


WIDGET_STATE = {
    "application/vnd.jupyter.widget-state+json": {
        "state": {
            "m1": {
                "model_name": "IntProgressModel",
                "state": {"value": 9, "max": 9, "description": "Rows"},
            }
        }
    }
}
WIDGET = {
    "output_type": "display_data",
    "data": {
        "application/vnd.jupyter.widget-view+json": {"model_id": "m1"},
        "text/plain": "IntProgress(value=2, description='Rows', max=9)",
    },
    "metadata": {},
}


@pytest.mark.parametrize("has_page", [False, True])
async def test_saved_widgets_are_told_as_what_they_show(tmp_path: Path, has_page: bool) -> None:
    """A widget from before this kernel is told by its saved state: where a page shows it, too."""
    path = tmp_path / "sub" / "a.ipynb"
    path.parent.mkdir()
    cell = {"id": "c1", "cell_type": "code", "source": "bar", "execution_count": 1}
    cells = [{**cell, "outputs": [WIDGET]}]
    metadata = {"widgets": WIDGET_STATE}
    saved = {"nbformat": 4, "nbformat_minor": 5, "cells": cells, "metadata": metadata}
    path.write_text(json.dumps(saved))
    told = [shown("c1", "bar", execution_count=1, output_chars=200)]
    page = Page(told, {"c1": [WIDGET]}) if has_page else None
    document = Document(FakeKernel(), lambda: str(path), page)
    read = make_read_cell(FakeKernel(), document)

    output = await read.run({"cell_id": "c1", "outputs": True}, 10_000)

    assert isinstance(output.text, str)
    assert "[widget: Rows 9/9]" in output.text
    assert "value=2" not in output.text


@pytest.mark.parametrize("error", [NoFrontendError("none"), RefusedError("failed", "no", {})])
def test_without_an_answer_the_file_is_read(tmp_path: Path, error: Exception) -> None:
    """A page that is gone or refuses gives way to the file, for reading only."""
    path = tmp_path / "a.ipynb"
    write(path, "saved")

    state = load(Document(FakeKernel(), lambda: str(path), Page([], error=error)))

    assert (state.source, state.can_edit) == ("disk", False)
    assert [cell.source for cell in state.cells] == ["saved"]
    assert sorted(os.listdir(tmp_path)) == ["a.ipynb"]


def test_without_a_file_what_ran_is_told() -> None:
    """No front end, no file: the executed cells, in the order of execution."""
    kernel = FakeKernel(cells=[Cell("in-1", "a", 1, 1), Cell("in-2", "b", 2, 2, failed=True)])
    for find in (lambda: None, lambda: "/no/such/file.ipynb"):
        state = load(Document(kernel, find, Page([], has_page=False)))
        assert state.source == "kernel"
        assert [(c.id, c.source, c.failed) for c in state.cells] == [
            ("in-1", "a", False),
            ("in-2", "b", True),
        ]


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    """Each load tells what the file has now."""
    path = tmp_path / "a.ipynb"
    document = Document(FakeKernel(), lambda: str(path))
    write(path, "one")
    first = load(document)
    assert load(document).cells is not None
    write(path, "one", "two")

    assert len(first.cells) == 1
    assert [cell.source for cell in load(document).cells] == ["one", "two"]
    path.unlink()
    assert load(document).source == "kernel"


def test_what_ran_after_the_file_was_saved_is_newer(tmp_path: Path) -> None:
    """A cell that ran with a source the file does not have yet was not "edited since it ran"."""
    path = tmp_path / "a.ipynb"
    write(path, "old one", "edited later")
    os.utime(path, (1_000, 1_000))
    runs = [
        Cell("c1", "new one", 7, 1, changed_at=1_500.0),
        Cell("c2", "ran before", 8, 2, changed_at=500.0),
    ]
    kernel = FakeKernel(cells=runs)

    first, second = merge(load(Document(kernel, lambda: str(path))), runs)

    assert (first.source, first.state) == ("new one", "ok")
    assert (second.source, second.state) == ("edited later", "ok, edited since it ran")


def test_outputs_that_nobody_knows_are_asked_for_once() -> None:
    """Those of cells that ran before this kernel; not what it recorded itself, not huge ones."""
    page = Page(
        [
            shown("c1", "a", execution_count=1, output_chars=50),
            shown("c2", "b", execution_count=7, output_chars=50),
            shown("c3", "c", execution_count=8, output_chars=5_000_000),
        ],
        {"c1": [OUTPUT], "c2": [OUTPUT]},
    )
    kernel = FakeKernel(cells=[Cell("c1", "a", 1, 1)])
    document = Document(kernel, lambda: None, page)

    cells = load(document).cells
    assert page.asked == [[], ["c2"]]
    assert cells[1].outputs == (OUTPUT,)
    assert "5,000,000 characters" in str(cells[2].outputs)
    assert load(document).cells[1].outputs == (OUTPUT,)
    assert page.asked == [[], ["c2"], []]
    page.cells[1] = shown("c2", "b", execution_count=9, output_chars=50)
    load(document)
    assert page.asked[-1] == ["c2"]


def test_outputs_that_are_asked_for_are_read_in_any_notebook(tmp_path: Path) -> None:
    """C07: read_cell gives outputs of the last of many cells, and large ones from the file."""
    path = tmp_path / "a.ipynb"
    huge = [{"output_type": "stream", "name": "stdout", "text": "of the file\n" * 200_000}]
    cell = {"id": "huge", "cell_type": "code", "source": "h", "execution_count": 99}
    saved = {"nbformat": 4, "nbformat_minor": 5, "cells": [{**cell, "outputs": huge}]}
    path.write_text(json.dumps(saved))
    many = [
        shown(f"c{n}", "a", execution_count=n + 1, output_chars=50_000 if n < 49 else 600_000)
        for n in range(50)
    ]
    page = Page(
        [*many, shown("huge", "h", execution_count=99, output_chars=2_600_000)],
        {f"c{n}": [{**OUTPUT, "text": f"of the page {n}\n"}] for n in range(50)},
        path="a.ipynb",
    )
    document = Document(FakeKernel(), lambda: str(path), page)

    def outputs_of(name: str) -> str:
        asked = {"cell_id": name, "outputs": True}
        return text_of(call("read_cell", asked, notebook=document))

    assert "[outputs of 600,000 characters" in str(load(document).cells[49].outputs)
    assert "of the page 49" in outputs_of("c49")
    assert "of the file\n[the line above 199,999 more times]" in outputs_of("huge")
    page.cells[-1] = shown("huge", "h", execution_count=100, output_chars=2_600_000)
    assert "[outputs of 2,600,000 characters" in outputs_of("huge")


@pytest.mark.parametrize(
    "cell",
    [
        {},
        {"id": "", "type": "code", "source": ""},
        {"id": "c", "type": "x", "source": ""},
        {"id": "c", "type": "code", "source": 3},
        {"id": ["c"], "type": "code", "source": ""},
    ],
)
def test_what_is_no_cell_is_left_out(cell: dict[str, object]) -> None:
    """An answer is read field by field; a broken cell costs only itself."""
    page = Page([{"id": "x"}, shown("c1", "a", extra=3, execution_count=True)])
    page.cells[0] = cell

    (only,) = load(Document(FakeKernel(), lambda: None, page)).cells

    assert (only.id, only.count, only.extra) == ("c1", None, {})


def test_nothing_is_applied_without_a_way() -> None:
    """Without a front end that can change it, a change is refused, never done."""
    with pytest.raises(ToolError, match="Not applied"):
        asyncio.run(Document(FakeKernel(), lambda: None).apply(DeleteCell("c1", "")))


@pytest.mark.parametrize(
    ("shown_path", "known", "found"),
    [
        (None, "/w/a.ipynb", "/w/a.ipynb"),
        ("a.ipynb", None, None),
        ("/w/b.ipynb", None, "/w/b.ipynb"),
        ("sub/b.ipynb", "/w/sub/a.ipynb", "/w/sub/b.ipynb"),
        ("b.ipynb", "/w/sub/a.ipynb", "/w/sub/b.ipynb"),
        ("other/b.ipynb", "/w/sub/a.ipynb", "/w/sub/a.ipynb"),
    ],
)
def test_paths(shown_path: object, known: str | None, found: str | None) -> None:
    """A renamed notebook lies beside the one the kernel was started for, if the folders agree."""
    assert resolve_path(shown_path, known) == found
