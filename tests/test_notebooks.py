"""The notebooks run headless from top to bottom, and what is saved in them is what comes today."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import nbformat
import pytest

from .notebooks import NOTEBOOKS, ROOT, Notebook, execute, find_drift

MOST_BYTES = 100_000
FIRST_TURN = ROOT / "notebooks" / "01_first_turn.ipynb"


def text_of(notebook: Notebook, cell_id: str) -> str:
    """Return all that stands below a cell, as plain text."""
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    return "\n".join(
        output.text if output.output_type == "stream" else output.data["text/plain"]
        for output in cell.outputs
    )


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    """The quick-start with the outputs of a run just now."""
    return execute(FIRST_TURN, tmp_path_factory.mktemp("first_turn"))


def test_the_saved_outputs_have_not_drifted(fresh: Notebook) -> None:
    """The quick-start runs through nbclient and shows what is saved (else: `make docs`)."""
    drift = find_drift(nbformat.read(FIRST_TURN, as_version=4), fresh)

    assert not drift, "\n".join(drift)


def test_the_quick_start_shows_what_it_promises(fresh: Notebook) -> None:
    """An error is explained, a large output stored, and the window compacted once by itself."""
    assert "KeyError: 'mocha'" in text_of(fresh, "why")
    assert "Result stored: 1,000 lines" in text_of(fresh, "large")
    assert "line 500: step  499" in text_of(fresh, "stored")
    ids = [cell.id for cell in fresh.cells if cell.cell_type == "code"]
    prompts = [one for one in ids if one not in ("fails", "summary", "cost")]
    assert [one for one in prompts if "Compacted: " in text_of(fresh, one)] == ["rules"]
    assert "variables" in text_of(fresh, "rules")
    assert "Compaction 1 (proactive)" in text_of(fresh, "summary")
    assert "Compaction 1" in text_of(fresh, "cost")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_saved_notebook_is_small_valid_and_names_no_place(path: Path) -> None:
    """It is under 100 KB, valid, fails only where a tag says so, and holds no absolute path."""
    notebook = nbformat.read(path, as_version=4)

    nbformat.validate(notebook)
    assert path.stat().st_size < MOST_BYTES
    for cell in notebook.cells:
        failed = any(output.output_type == "error" for output in cell.get("outputs", ()))
        assert failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.id
    assert not re.search(r"[\"\s(](/(home|root|tmp|Users|var|work)/|[A-Z]:\\\\)", path.read_text())


def test_every_visible_change_is_drift() -> None:
    """A changed word, number, error or type is reported; other ids, times and tokens are not."""
    saved = nbformat.read(FIRST_TURN, as_version=4)
    assert find_drift(saved, saved) == []

    for old, new, is_drift in (
        ("The kernel holds 2 variables", "The kernel holds 3 variables", True),
        ("I look at the last error", "I look at the first error", True),
        ("line 500: step  499", "line 500: step  498", True),
        ("context 35 %", "context 36 %", False),
        ("$0.00", "$0.01", True),
        ("Measured by the provider: ", "Measured by nobody: ", True),
        ("Re-injected", "Put back", True),
    ):
        other = copy.deepcopy(saved)
        changed = 0
        for cell in other.cells:
            for output in cell.get("outputs", ()):
                parts = output.get("data", output)
                for name in ("text", "text/plain"):
                    if old in parts.get(name, ""):
                        parts[name] = parts[name].replace(old, new)
                        changed += 1
        assert changed, old
        assert bool(find_drift(saved, other)) == is_drift, old
