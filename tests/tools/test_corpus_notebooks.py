"""Every notebook of the corpus is outlined, read, previewed and searched within its budget."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.ports import Cell
from jupyter_ctx.testing import FakeKernel

from .examples import CORPUS, call, corpus_notebooks, text_of

CAP = 2_000
"""The smallest room a tool is given for a long text, in characters."""


def code_cells(path: Path) -> list[Cell]:
    """Return the code cells of a notebook of any version, as if they had just run."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    cells: list[Mapping[str, Any]] = list(notebook.get("cells", []))
    for sheet in notebook.get("worksheets", []):
        cells.extend(sheet.get("cells", []))
    code = [one for one in cells if one.get("cell_type") == "code"]
    return [
        Cell(f"c{n}", source_of(one), n, n, tuple(one.get("outputs") or ()))
        for n, one in enumerate(code, 1)
    ]


def source_of(cell: Mapping[str, Any]) -> str:
    """Return the source, which older formats call input."""
    source = cell.get("source", cell.get("input", ""))
    return source if isinstance(source, str) else "".join(source)


@pytest.mark.parametrize("path", corpus_notebooks() or [CORPUS / "absent"], ids=lambda p: p.stem)
def test_a_real_notebook_is_usable(path: Path) -> None:
    """Outline, each cell with its outputs, and a search keep to the cap and are never empty."""
    if not path.exists():
        pytest.skip("NO CORPUS: ../shared/corpus is absent: real notebooks were not looked at")
    cells = code_cells(path)
    kernel = FakeKernel(cells=cells)
    outline = text_of(call("list_cells", {}, kernel=kernel, cap=CAP))
    assert outline
    assert len(outline) <= CAP
    for cell in cells:
        whole = text_of(call("read_cell", {"cell_id": cell.id, "outputs": True}, kernel=kernel))
        page = text_of(
            call("read_cell", {"cell_id": cell.id, "outputs": True}, kernel=kernel, cap=CAP)
        )
        assert page
        assert len(page) <= CAP
        found = call(
            "read_result", {"tool_use_id": "t", "pattern": "cell"}, texts={"t": whole}, cap=CAP
        ) if cell is cells[0] else None  # fmt: skip
        assert found is None or len(text_of(found)) <= CAP
