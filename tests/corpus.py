"""Notebooks of other people as test input: where they lie, and how their outputs are shown again.

A *replay* of a notebook is a list of cells whose execution shows the outputs the notebook stored:
streams are written, bundles published, errors raised with their text. Tests do that in a real
kernel, which imports this module, or over a fake kernel that returns the same outputs at once.

The corpus lies beside the repository (`../shared/corpus`); without it a test skips and says so.
Some small notebooks of our own (`fixtures/notebooks`) are always there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.ports import Cell, Execution
from jupyter_ctx.testing import FakeKernel

ROOT = Path(__file__).parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
FIXTURES = Path(__file__).parent / "fixtures" / "notebooks"

OURS = ("odd-outputs", "long-log")
"""Our own notebooks, in `fixtures/notebooks`."""


@dataclass(frozen=True)
class StoredCell:
    """A code cell as it lies in a notebook: `id` is ours (`c1`, `c2`, …, in order)."""

    id: str
    source: str
    outputs: tuple[Mapping[str, Any], ...]

    @property
    def failed(self) -> bool:
        """Whether one of its outputs is an error."""
        return any(output["output_type"] == "error" for output in self.outputs)

    @property
    def chars(self) -> int:
        """The size of its outputs as JSON, in characters."""
        return len(json.dumps(self.outputs))

    @property
    def replay_source(self) -> str:
        """A cell that shows the stored outputs again; the old source stands above as a comment."""
        commented = "".join(f"# {line}\n" for line in self.source.splitlines())
        return f"{commented}notebook.show({self.id!r})"


@dataclass(frozen=True)
class StoredNotebook:
    """A notebook's code cells, those without source and output left out."""

    name: str
    cells: tuple[StoredCell, ...]

    def cell(self, cell_id: str) -> StoredCell:
        """Return the cell of that id."""
        return next(cell for cell in self.cells if cell.id == cell_id)

    def show(self, cell_id: str) -> object:
        """Show a cell's outputs in the running cell, as its code once did.

        Returns an object with the bundle of its result, None if it had none.
        """
        result: object = None
        for output in self.cell(cell_id).outputs:
            if (
                output["output_type"] == "execute_result"
                and output is self.cell(cell_id).outputs[-1]
            ):
                result = Shown(output["data"], output.get("metadata", {}))
            else:
                show_output(output)
        return result

    @property
    def largest(self) -> tuple[StoredCell, ...]:
        """The cells with outputs, the largest first."""
        shown = [cell for cell in self.cells if cell.outputs]
        return tuple(sorted(shown, key=lambda cell: -cell.chars))

    @property
    def values(self) -> frozenset[str]:
        """Every text of every bundle."""
        return frozenset(
            value
            for cell in self.cells
            for output in cell.outputs
            for value in output.get("data", {}).values()
            if isinstance(value, str)
        )


@dataclass(frozen=True)
class Shown:
    """Stands for a cell's value: is displayed as the bundle that was stored."""

    data: Mapping[str, Any]
    metadata: Mapping[str, Any]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return dict(self.data), dict(self.metadata)


class StoredError(Exception):
    """Raised in place of the error a notebook stored; IPython shows the stored traceback."""

    def __init__(self, output: Mapping[str, Any]) -> None:
        super().__init__(f"{output['ename']}: {output['evalue']}")
        self.lines: list[str] = list(output["traceback"])

    def _render_traceback_(self) -> list[str]:
        return self.lines


def show_output(output: Mapping[str, Any]) -> None:
    """Show one nbformat output in the running cell; an error is raised."""
    kind = output["output_type"]
    if kind == "stream":
        stream = sys.stderr if output["name"] == "stderr" else sys.stdout
        stream.write(output["text"])
    elif kind == "error":
        raise StoredError(output)
    else:
        from IPython.core.interactiveshell import InteractiveShell

        publisher: Any = InteractiveShell.instance().display_pub
        publisher.publish(dict(output["data"]), dict(output.get("metadata", {})))


# Reading ------------------------------------------------------------------------------------------


def find_notebook(name: str) -> Path:
    """Return the path of a notebook of ours or of the corpus; skips the test if there is none."""
    if name in OURS:
        return FIXTURES / f"{name}.ipynb"
    if not CORPUS.is_dir():
        pytest.skip(f"NO CORPUS: {CORPUS} is absent, so {name} was not tested")
    return CORPUS / "notebooks" / f"{name}.ipynb"


def load_notebook(path: str | Path) -> StoredNotebook:
    """Return the code cells of a notebook file (nbformat 4)."""
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    code = [cell for cell in raw["cells"] if cell["cell_type"] == "code"]
    cells = [
        StoredCell("", _joined(cell["source"]), tuple(map(_plain_output, cell["outputs"])))
        for cell in code
        if _joined(cell["source"]).strip() or cell["outputs"]
    ]
    numbered = tuple(replace(cell, id=f"c{n}") for n, cell in enumerate(cells, 1))
    return StoredNotebook(Path(path).stem, numbered)


def _plain_output(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an output with its texts in one piece, as a kernel sends them."""
    made = dict(output)
    if "text" in made:
        made["text"] = _joined(made["text"])
    if "data" in made:
        made["data"] = {
            mime: value if mime.endswith("json") else _joined(value)
            for mime, value in made["data"].items()
        }
    return made


def _joined(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


# A kernel that has run a notebook -----------------------------------------------------------------


class ReplayKernel(FakeKernel):
    """A kernel in which every cell of a notebook has run, and whose code shows stored outputs.

    `run_code("notebook.show('c3')")` brings what the cell brought; other code is run as it is.
    """

    def __init__(self, notebook: StoredNotebook, namespace: Mapping[str, object]) -> None:
        cells = [
            Cell(cell.id, cell.replay_source, n, n, cell.outputs, failed=cell.failed)
            for n, cell in enumerate(notebook.cells, 1)
        ]
        super().__init__({"notebook": notebook, **namespace}, cells)
        self.notebook = notebook

    async def run_code(self, code: str) -> Execution:
        """Return the outputs of the cells that `code` shows, else run it."""
        shown = [line for line in code.splitlines() if line.startswith("notebook.show(")]
        if not shown:
            return await super().run_code(code)
        outputs: list[Mapping[str, Any]] = []
        for line in shown:
            cell = self.notebook.cell(line.split("'")[1])
            outputs.extend(cell.outputs)
            if cell.failed:
                return Execution(tuple(outputs), failed=True)
        return Execution(tuple(outputs))
