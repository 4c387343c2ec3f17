"""Run the notebooks as a headless user does, and say where their saved outputs have drifted.

`python -m tests.notebooks` runs them and saves what came; `make docs` does it too.
"""

from __future__ import annotations

import base64
import copy
import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
from nbclient import NotebookClient

from jupyter_ctx.ipython.markdown import escape

Notebook: TypeAlias = Any
"""nbformat's NotebookNode: a dictionary with attributes, without annotations."""

ROOT = Path(__file__).parents[1]

NOTEBOOKS = tuple(sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")))
"""The numbered ones are ours: `make lab` opens the folder, and people save their own there."""

LONG_SESSION = ROOT / "notebooks" / "02_long_session.ipynb"

SAWTOOTH = ROOT / "notebooks" / "images" / "sawtooth.png"
"""The picture of the long session, as the README shows it."""

PLACE = "~/analysis"
"""What the folder of a run is called in what is saved."""

CELL_S = 120
"""How long one cell may take: far more than any here needs."""

_DRIFTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}"), "SESSION"),
    (re.compile(r"\bdemo_[0-9a-f]{8}\b"), "CALL"),
    (re.compile(r"(<|&lt;)?\d+(\.\d+)? s\b"), "N s"),
    (re.compile(r"[\d,]+ tokens, (?=\\?\$)"), "N tokens, "),
    (re.compile(r"Compacted: [\d,]+ → [\d,]+ tokens"), "Compacted: N → N tokens"),
    (re.compile(r"context \d+ %"), "context N %"),
    (re.compile(r"Its summary is (ready, so|being written)[^.]*"), "Its summary is on its way"),
    (re.compile(r"the model sees [\d,]+ of"), "the model sees N of"),
)
"""What differs from run to run: ids, times, how far a summary is; and tokens, for the prompt names
folder and machine."""

_PNG_SIZE = slice(16, 24)
"""Where a PNG tells its width and height, in pixels, four bytes each."""

_NUMBER = re.compile(r"\d[\d,.]*")


def execute(path: Path, folder: Path) -> Notebook:
    """Return the notebook with the outputs of a run whose files all lie in `folder`.

    No key is set and nothing asks. Raises CellExecutionError where a cell fails that is not to.
    """
    notebook = nbformat.read(path, as_version=4)
    metadata = copy.deepcopy(notebook.metadata)
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=_environment(folder))
    notebook.metadata = metadata
    _leave_place_out(notebook, folder)
    return notebook


def _leave_place_out(notebook: Notebook, folder: Path) -> None:
    """Call the folder of the run `~/analysis` in all outputs, as it is and as Markdown has it."""
    place = str(folder.resolve())
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            texts = output.get("data", output)
            for name in ("text", "text/plain", "text/markdown"):
                if name in texts:
                    for spelled in (place, escape(place)):
                        texts[name] = texts[name].replace(spelled, PLACE)


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment without keys and settings of the person who runs this."""
    secret = ("ANTHROPIC_", "JUPYTER_CTX_", "JPY_", "PYTEST_")
    mine = {name: value for name, value in os.environ.items() if not name.startswith(secret)}
    own = {"HOME": "home", "IPYTHONDIR": "ipython", "JUPYTER_CTX_HOME": "ctx"}
    paths = [str(ROOT), *filter(None, [mine.get("PYTHONPATH")])]
    return {
        **mine,
        **{name: str(folder / child) for name, child in own.items()},
        "JUPYTER_CTX_PERMISSIONS": "auto",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def find_drift(saved: Notebook, fresh: Notebook) -> list[str]:
    """Return, for each cell, the first output that differs in more than ids, times and tokens."""
    found: list[str] = []
    for was, now in zip(saved.cells, fresh.cells, strict=True):
        pairs = itertools.zip_longest(_comparable(was), _comparable(now), fillvalue="nothing")
        for before, after in pairs:
            if before != after:
                found.append(f"{was.id}: {_contrast(repr(before), repr(after))}")
                break
    return found


def _contrast(before: str, after: str) -> str:
    """Return both texts from shortly before the place where they part."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    start = max(0, sum(1 for _ in same) - 60)
    return f"\n  saved …{before[start : start + 300]}\n  fresh …{after[start : start + 300]}"


def _comparable(cell: Notebook) -> Iterator[object]:
    """Yield what must stay the same of each output of a cell."""
    is_report = cell.source.startswith("%agent /")
    for output in cell.get("outputs", ()):
        match output.output_type:
            case "stream":
                yield output.name, _steady(output.text, is_report)
            case "error":
                yield output.ename, output.evalue
            case _:
                yield output.output_type, _steady(output.data, is_report)


def _steady(value: object, is_report: bool) -> object:
    """Return `value` without what differs from run to run; of a report's figures, only the form."""
    if isinstance(value, dict):
        return {
            name: _size(value[name]) if name == "image/png" else _steady(value[name], is_report)
            for name in sorted(value)
        }
    if isinstance(value, list):
        return [_steady(each, is_report) for each in value]
    if not isinstance(value, str):
        return "N" if isinstance(value, int | float) and is_report else value
    for pattern, instead in _DRIFTS:
        value = pattern.sub(instead, value)
    if is_report:
        value = re.sub(r" {2,}", "  ", _NUMBER.sub("N", value))
    return value


def _size(picture: str) -> tuple[int, int]:
    """Return the width and height of a PNG: its lines move with the tokens, its size does not."""
    sizes = base64.b64decode(picture)[_PNG_SIZE]
    return int.from_bytes(sizes[:4], "big"), int.from_bytes(sizes[4:], "big")


def find_pictures(notebook: Notebook) -> list[bytes]:
    """Return the PNGs among a notebook's outputs, in order."""
    return [
        base64.b64decode(output.data["image/png"])
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]


def main() -> None:
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            fresh = execute(path, Path(folder))
        if find_drift(nbformat.read(path, as_version=4), fresh):
            nbformat.write(fresh, path)
            if path == LONG_SESSION:
                SAWTOOTH.write_bytes(find_pictures(fresh)[-1])
            print(f"{path.relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
