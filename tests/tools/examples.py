"""Outputs, cells and stored texts for the tools' tests."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.ports import Notebook, ToolOutput
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools import make_tools
from jupyter_ctx.tools.seen import Seen

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "outputs"
CORPUS = ROOT.parent / "shared" / "corpus" / "notebooks"

NUMBERED = "".join(f"line {n}\n" for n in range(1, 20_001))
"""20,000 numbered lines."""


class Texts:
    """A ResultReader over a dictionary."""

    def __init__(self, texts: Mapping[str, Path | str] | None = None) -> None:
        self.texts = dict(texts or {})

    def read_text(self, name: str) -> Path | str | None:
        """Return the text of that name."""
        return self.texts.get(name)

    def names(self) -> Sequence[str]:
        """Return all names."""
        return list(self.texts)


def call(
    name: str,
    arguments: Mapping[str, object],
    *,
    kernel: FakeKernel | None = None,
    notebook: Notebook | None = None,
    seen: Seen | None = None,
    texts: Mapping[str, Path | str] | None = None,
    cap: int = 50_000,
) -> ToolOutput:
    """Run one call of a real tool and return its output."""
    kernel = kernel or FakeKernel()
    tools = make_tools(kernel, Texts(texts), Settings(), notebook=notebook, seen=seen)
    return asyncio.run(tools.run(ToolUse("toolu_1", name, arguments), cap))


def text_of(output: ToolOutput) -> str:
    """Return the output's text, which must not be a spooled one."""
    assert isinstance(output.text, str)
    return output.text


def stream(text: str, name: str = "stdout") -> dict[str, object]:
    """Return a stream output."""
    return {"output_type": "stream", "name": name, "text": text}


def bundle(kind: str = "display_data", **types: object) -> dict[str, object]:
    """Return an output whose MIME types are written with `__` for `/`."""
    data = {mime.replace("__", "/"): value for mime, value in types.items()}
    return {"output_type": kind, "data": data, "metadata": {}}


def fixture(name: str) -> dict[str, Any]:
    """Return a stored output."""
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def corpus_notebooks() -> list[Path]:
    """Return the real notebooks, [] where they are absent."""
    return sorted(CORPUS.glob("*.ipynb"))


def outputs_of(path: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of each cell; skips the test if the notebook is no JSON."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        pytest.skip(f"{path.name} is no JSON")
    cells = list(notebook.get("cells", []))
    for sheet in notebook.get("worksheets", []):
        cells.extend(sheet.get("cells", []))
    return [cell["outputs"] for cell in cells if cell.get("outputs")]
