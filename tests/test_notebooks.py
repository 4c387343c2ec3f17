"""The notebooks run headless from top to bottom, and what is saved in them is what comes today."""

from __future__ import annotations

import base64
import copy
import io
import re
from pathlib import Path

import nbformat
import pytest
from PIL import Image as Pillow

from .notebooks import (
    LONG_SESSION,
    NOTEBOOKS,
    PLACE,
    ROOT,
    SAWTOOTH,
    Notebook,
    execute,
    find_drift,
    find_pictures,
)
from .pictures import png

MOST_BYTES, MOST_PICTURE_BYTES = 100_000, 100_000
FIRST_TURN = ROOT / "notebooks" / "01_first_turn.ipynb"
EXTENDING = ROOT / "notebooks" / "03_hooks_and_skills.ipynb"


def code_cells(notebook: Notebook) -> list[Notebook]:
    """Return the cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


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


@pytest.fixture(scope="module")
def fresh_long(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    """The long session with the outputs of a run just now."""
    return execute(LONG_SESSION, tmp_path_factory.mktemp("long_session"))


@pytest.fixture(scope="module")
def fresh_extending(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    """The notebook of hooks and skills with the outputs of a run just now."""
    return execute(EXTENDING, tmp_path_factory.mktemp("extending"))


def test_the_saved_outputs_have_not_drifted(fresh: Notebook) -> None:
    """The quick-start runs through nbclient and shows what is saved (else: `make docs`)."""
    drift = find_drift(nbformat.read(FIRST_TURN, as_version=4), fresh)

    assert not drift, "\n".join(drift)


def test_the_long_session_has_not_drifted(fresh_long: Notebook) -> None:
    """The long session runs through nbclient and shows what is saved (else: `make docs`)."""
    drift = find_drift(nbformat.read(LONG_SESSION, as_version=4), fresh_long)

    assert not drift, "\n".join(drift)


def test_the_long_session_shows_what_it_promises(fresh_long: Notebook) -> None:
    """It is compacted by itself more than three times, by both rules, and nothing is lost."""
    texts = {cell.id: text_of(fresh_long, cell.id) for cell in code_cells(fresh_long)}
    assert "Read stored text" in texts["large"]
    assert "Compacted: " in texts["compact"]
    assert "/summary undo puts" in texts["compacted"]
    assert "is undone" in texts["undo"]
    assert "writes the whole context to the cache anew" in texts["undo"]
    assert "Compacted: " in texts["crossing"]
    assert "Compaction 2 (proactive)" in texts["crossed"]
    assert re.search(r"^pin +1 ", texts["crossed"], re.M)
    assert "DONE" in texts["budgeted"]
    assert "Run `orders(1)`" in texts["reach"]
    assert "Week 30 had a street fair" in texts["pins"]
    assert "its price" not in texts["context"]
    assert "its price" in texts["account"]
    by_the_reserve, all_of_them = texts["counted"].split()[0], texts["cost"].count("Compaction ")
    assert int(by_the_reserve) >= 4
    assert all_of_them >= int(by_the_reserve) + 2


def test_hooks_and_skills_have_not_drifted(fresh_extending: Notebook) -> None:
    """The third notebook runs through nbclient and shows what is saved (else: `make docs`)."""
    drift = find_drift(nbformat.read(EXTENDING, as_version=4), fresh_extending)

    assert not drift, "\n".join(drift)


def test_hooks_and_skills_show_what_they_promise(fresh_extending: Notebook) -> None:
    """A hook forbids and one speaks; the project's wait for trust, run, and wait after a change."""
    texts = {cell.id: text_of(fresh_extending, cell.id) for cell in code_cells(fresh_extending)}
    assert "I did not run it: no shell here" in texts["forbidden"]
    assert "Amounts in this project are in cents." in texts["sent"]
    assert "waits for /trust" in texts["waiting"]
    assert f"{PLACE} would add 2 things; 0 in force." in texts["trust"]
    assert "waits for" not in texts["in-force"]
    assert "PostToolUse run_code {'code': 'max([250, 320])'}" in texts["calls"]
    assert "A cup is a cup" in texts["skill"]
    assert "waits for /trust" in texts["changed"]


def test_the_sawtooth_is_a_picture(fresh_long: Notebook) -> None:
    """It is drawn with a line and marks in their colours, on no ground of its own."""
    (picture,) = find_pictures(fresh_long)

    drawn = Pillow.open(io.BytesIO(picture)).convert("RGBA")
    found: set[object] = {color for _, color in drawn.getcolors(1 << 24) or ()}
    assert (0x3B, 0x82, 0xD0, 255) in found
    assert (0xD9, 0x77, 0x2B, 255) in found
    assert drawn.getchannel("A").getextrema() == (0, 255)


def test_the_readme_shows_the_picture_of_the_notebook() -> None:
    """The picture beside the README is the one that is saved in the long session."""
    (saved,) = find_pictures(nbformat.read(LONG_SESSION, as_version=4))

    assert SAWTOOTH.read_bytes() == saved


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
    """It is small, valid, fails only where a tag says so, and holds no absolute path."""
    notebook = nbformat.read(path, as_version=4)
    pictures = find_pictures(notebook)

    nbformat.validate(notebook)
    assert all(len(picture) < MOST_PICTURE_BYTES for picture in pictures)
    encoded = sum(len(base64.b64encode(picture)) for picture in pictures)
    assert path.stat().st_size - encoded < MOST_BYTES
    for cell in notebook.cells:
        failed = any(output.output_type == "error" for output in cell.get("outputs", ()))
        assert failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.id
    assert not re.search(r"[\"\s(](/(home|root|tmp|Users|var|work)/|[A-Z]:\\\\)", path.read_text())


def test_a_picture_of_another_size_is_drift() -> None:
    """A picture that is gone or of another size is reported; another line in it is not."""
    saved = nbformat.read(LONG_SESSION, as_version=4)
    assert find_drift(saved, saved) == []

    for size, is_drift in (((1800, 720), False), ((900, 360), True), (None, True)):
        other = copy.deepcopy(saved)
        (cell,) = (cell for cell in other.cells if cell.id == "picture")
        if size is None:
            cell.outputs.clear()
        else:
            cell.outputs[0].data["image/png"] = png(*size).data
        assert bool(find_drift(saved, other)) == is_drift, size


def test_every_visible_change_is_drift() -> None:
    """A changed word, number, error or type is reported; other ids, times and tokens are not."""
    saved = nbformat.read(FIRST_TURN, as_version=4)
    assert find_drift(saved, saved) == []

    for old, new, is_drift in (
        ("The kernel holds 2 variables", "The kernel holds 3 variables", True),
        ("I look at the last error", "I look at the first error", True),
        ("line 500: step  499", "line 500: step  498", True),
        ("context 40 %", "context 77 %", False),
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
