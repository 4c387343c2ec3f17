"""The notebook as its file has it: every version, valid or not, read as far as it goes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.ports import NotebookState
from jupyter_ctx.ipython.disk import parse_notebook, read_notebook
from jupyter_ctx.testing import FakeNotebook
from jupyter_ctx.tools.notebook import OUTLINE_CHARS
from jupyter_ctx.tools.outline import describe_notebook, merge
from tests.tools.examples import CORPUS, call, corpus_notebooks, text_of

PLAIN = {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": []}


def read(notebook: object) -> tuple[list[Any], tuple[str, ...]]:
    cells, faults = parse_notebook(json.dumps(notebook).encode())
    return list(cells), faults


def of_format_4(minor: int, **more: object) -> dict[str, object]:
    cells = [
        {"cell_type": "markdown", "metadata": {"tags": ["t"]}, "source": ["# A\n", "b"], **more},
        {**PLAIN, "execution_count": 3, "outputs": [{"output_type": "error", "ename": "E"}]},
        {"cell_type": "raw", "metadata": {}, "source": "raw"},
    ]
    return {"nbformat": 4, "nbformat_minor": minor, "metadata": {}, "cells": cells}


def of_format_3() -> dict[str, object]:
    output = {"output_type": "pyout", "prompt_number": 7, "text": ["42"], "metadata": {}}
    code = {
        "cell_type": "code",
        "input": ["6 *\n", "7"],
        "prompt_number": 7,
        "language": "python",
        "outputs": [output],
        "collapsed": False,
        "metadata": {},
    }
    heading = {"cell_type": "heading", "level": 2, "source": "Data", "metadata": {}}
    sheet = {"cells": [heading, code], "metadata": {}}
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [sheet]}


@pytest.mark.parametrize("minor", range(5))
def test_format_4_without_ids(minor: int) -> None:
    """Cells without ids are named by their place; source, count, failure and metadata are there."""
    cells, faults = read(of_format_4(minor))

    assert faults == ()
    assert [(c.id, c.type, c.source, c.count, c.failed) for c in cells] == [
        ("cell-1", "markdown", "# A\nb", None, False),
        ("cell-2", "code", "x = 1", 3, True),
        ("cell-3", "raw", "raw", None, False),
    ]
    assert cells[0].extra == {"metadata": {"tags": ["t"]}}


def test_format_4_5_keeps_its_ids() -> None:
    """A valid id is kept, one that is taken or not valid gives way and is told."""
    cells, faults = read(of_format_4(5, id="cell-2"))
    twice = {"nbformat": 4, "cells": [{**PLAIN, "id": one} for one in ("a", "a", "no id", 3)]}

    assert [cell.id for cell in cells] == ["cell-2", "cell-2-", "cell-3"]
    assert faults == ()
    cells, faults = read(twice)
    assert [cell.id for cell in cells] == ["a", "cell-2", "cell-3", "cell-4"]
    assert len(faults) == 3


def test_format_3_is_upgraded() -> None:
    """Headings become Markdown, inputs sources, old outputs new ones."""
    cells, faults = read(of_format_3())

    assert faults == ()
    assert [(c.type, c.source, c.count) for c in cells] == [
        ("markdown", "## Data", None),
        ("code", "6 *\n7", 7),
    ]
    (output,) = cells[1].outputs
    assert output["output_type"] == "execute_result"
    assert "42" in str(output["data"]["text/plain"])


@pytest.mark.parametrize(
    ("notebook", "ids", "fault"),
    [
        ([], [], "it is no notebook"),
        ({"nbformat": 4}, [], "it has no list of cells"),
        ({"cells": [PLAIN]}, ["cell-1"], "it does not say its format"),
        ({"nbformat": 9, "cells": [PLAIN]}, ["cell-1"], "its format 9 is newer"),
        ({"nbformat": 4, "cells": ["x", PLAIN]}, ["cell-2"], "cell 1 is no cell"),
        ({"nbformat": 4, "cells": [{**PLAIN, "source": 3}]}, ["cell-1"], "no valid source"),
        ({"nbformat": 4, "cells": [{**PLAIN, "outputs": 3}]}, ["cell-1"], "no valid outputs"),
        ({"nbformat": 4, "cells": [{"cell_type": "x"}]}, ["cell-1"], "an unknown type"),
        ({"nbformat": 3, "worksheets": [{"cells": [3, PLAIN]}]}, ["cell-2"], "cannot be upgraded"),
    ],
)
def test_invalid_notebooks(notebook: object, ids: list[str], fault: str) -> None:
    """What can be read is, and what is wrong is said."""
    cells, faults = read(notebook)

    assert [cell.id for cell in cells] == ids
    assert fault in " | ".join(faults)


def test_no_notebook_at_all() -> None:
    """Bytes that are no text, JSON cut short and JSON without end are told apart."""
    assert "no valid JSON (line 1)" in " ".join(parse_notebook(b"{")[1])
    assert "no valid UTF-8" in " ".join(parse_notebook(b"\xff\xfe{}")[1])
    assert "nested too deeply" in " ".join(parse_notebook(b"[" * 200_000)[1])
    cells, faults = parse_notebook(b'\xef\xbb\xbf{"nbformat": 4, "cells": []}')
    assert (cells, faults) == ((), ())


def test_many_faults_are_counted() -> None:
    """Only the first ones are told."""
    _, faults = read({"nbformat": 4, "cells": [1] * 100})

    assert len(faults) == 6
    assert faults[-1] == "95 more faults"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
odd_cells = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "heading", "x"]) | json_values,
        "source": json_values,
        "input": json_values,
        "outputs": json_values,
        "execution_count": json_values,
        "id": json_values,
        "metadata": json_values,
    },
)


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from([2, 3, 4, 5, None, "4", True]),
    st.lists(odd_cells | json_values, max_size=4),
    st.booleans(),
)
def test_reading_is_total(major: object, cells: list[Any], has_sheets: bool) -> None:
    """Whatever JSON stands there, reading it gives cells with ids of their own, and no error."""
    body = {"worksheets": [{"cells": cells}]} if has_sheets else {"cells": cells}
    found, _ = read({"nbformat": major, "metadata": {}, **body})

    assert len({cell.id for cell in found}) == len(found) <= len(cells)


def test_files_that_are_none(tmp_path: Path) -> None:
    """A missing file is None; a folder, a pipe and a huge file are told, not read."""
    assert read_notebook(str(tmp_path / "absent.ipynb")) is None
    os.mkfifo(tmp_path / "pipe.ipynb")
    for path in (tmp_path, tmp_path / "pipe.ipynb"):
        found = read_notebook(str(path))
        assert found is not None
        assert found.faults == ("it is no ordinary file",)
    huge = tmp_path / "huge.ipynb"
    huge.write_text(json.dumps(of_format_4(5)))
    found = read_notebook(str(huge), most_bytes=10)
    assert found is not None
    assert (found.cells, "too large" in found.faults[0]) == ((), True)


@pytest.mark.parametrize("path", corpus_notebooks() or [CORPUS / "absent"], ids=lambda p: p.stem)
def test_a_real_notebook_is_read(path: Path) -> None:
    """Every notebook of the corpus is read, outlined and read by cell within its budget."""
    if not path.exists():
        pytest.skip("NO CORPUS: ../shared/corpus is absent: real notebooks were not looked at")
    before = path.stat()
    found = read_notebook(str(path))
    assert found is not None
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    state = NotebookState(found.cells, "disk", str(path), faults=found.faults)
    notebook = FakeNotebook(list(found.cells), "disk", str(path))
    for cap in (500, 50_000):
        listed = text_of(call("list_cells", {}, notebook=notebook, cap=cap))
        assert 0 < len(listed) <= min(cap, OUTLINE_CHARS)
    assert path.name in describe_notebook(state, merge(state, ()))
    for cell in found.cells:
        said = text_of(call("read_cell", {"cell_id": cell.id}, notebook=notebook, cap=2_000))
        assert cell.id in said
        assert len(said) <= 2_000
