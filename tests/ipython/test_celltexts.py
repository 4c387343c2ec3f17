"""Large outputs of the user's cells: stored once, found by name, in a real kernel and alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_ctx.core.ports import Cell
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.ipython.celltexts import LARGE_CHARS, MOST_BYTES, CellSpool, CellTexts
from jupyter_ctx.store.open_session import OpenSession
from jupyter_ctx.store.sessions import SessionStore
from tests.agent_kernel import run
from tests.fake_anthropic import call, reply
from tests.test_updates_kernel import staged

LINES = "for n in range(1, {count} + 1):\n    print(f'line {{n}} of many')"


def printed(count: int) -> str:
    """Return what LINES prints."""
    return "".join(f"line {n} of many\n" for n in range(1, count + 1))


@pytest.mark.parametrize("count", [2_000, 80_000])
def test_a_long_output_of_the_users_cell_is_read_by_its_name(tmp_path: Path, count: int) -> None:
    """The update names where it lies; the file has every byte, and any lines of it are read."""
    key = "sk-ant-test-0123456789"
    with staged(tmp_path) as stage:
        stage.ask("Hello.")
        run(stage.kernel, LINES.format(count=count), "big")
        update = stage.ask(
            reply(call("read_result", tool_use_id="cell-big-3", start_line=1_000, end_line=1_002)),
            reply(call("read_result", tool_use_id="cell-big-3", pattern=f"line {count} ")),
            "Read.",
        )[0]
        run(stage.kernel, f"print('{key}' * 1, 'x' * {count} * 20)", "big")
        stage.ask(
            reply(call("read_result", tool_use_id="cell-big-3", start_line=7, end_line=7)), "So."
        )
        (folder,) = (stage.kernel.home / "tool-results").iterdir()
        first = (folder / "cell-big-3.txt").read_text()
        stored = [path.read_text() for path in folder.iterdir() if path.is_file()]
        results = stage.results()

    assert "`read_result` with `cell-big-3`" in update
    assert f"{count:,} lines in all" in update
    assert first == printed(count)
    assert "line 1000 of many\\nline 1001 of many\\nline 1002 of many" in results[-3]
    assert f"line {count} of many" in results[-2]
    assert "line 7 of many" in results[-1]
    assert not any(key in text for text in stored)
    assert any("[redacted: ANTHROPIC_API_KEY]" in text for text in stored)


@pytest.fixture
def stored(tmp_path: Path) -> OpenSession:
    """Return a session on the disk."""
    session = SessionStore(tmp_path).create("s")
    assert isinstance(session, OpenSession)
    return session


def cell_of(text: str, count: int = 3, order: int = 1) -> Cell:
    """Return a cell that printed a text."""
    outputs = ({"output_type": "stream", "name": "stdout", "text": text},)
    return Cell("a/b", "…", count, order, outputs)


def spooled(
    stored: OpenSession, text: str, redactor: Redactor, most: int = MOST_BYTES
) -> CellSpool:
    """Return a spool of the session's that took a text in small pieces."""
    spool = CellSpool(redactor, *stored.make_spool(), most_bytes=most)
    for at in range(0, len(text), 7):
        spool.write(text[at : at + 7])
    return spool


def test_short_outputs_are_not_stored(stored: OpenSession) -> None:
    """What can be shown whole gets no file; one character more does, once."""
    texts = CellTexts(stored, list, str, pytest.fail)

    assert texts.keep(cell_of("x" * LARGE_CHARS)) is None
    assert texts.keep(cell_of("x" * (LARGE_CHARS + 1), 4, 2)) == "cell-a/b-4"
    assert texts.keep(cell_of("x" * (LARGE_CHARS + 1), 4, 2)) == "cell-a/b-4"
    assert stored.read_text("cell-a/b-4") == "x" * (LARGE_CHARS + 1)
    assert len(list((stored.path.parents[1] / "tool-results" / "s").iterdir())) == 1


def test_a_name_never_comes_to_mean_another_text(stored: OpenSession) -> None:
    """After a restart the same cell may be In[3] again: its text gets a name of its own."""
    old, new = printed(200), printed(300)
    before = CellTexts(stored, list, str, pytest.fail)
    before.keep(cell_of(old))
    after = CellTexts(stored, list, str, pytest.fail)

    assert after.keep(cell_of(old)) == "cell-a/b-3"
    assert after.keep(cell_of(new, order=2)) == "cell-a/b-3-2"
    assert stored.read_text("cell-a/b-3") == old
    assert stored.read_text("cell-a/b-3-2") == new


def test_a_name_that_is_asked_for_is_stored_then(stored: OpenSession) -> None:
    """A cell that no update told of can be read by its name all the same; other names are not."""
    texts = CellTexts(stored, lambda: [cell_of("word " * 1_000)], str, pytest.fail)
    for name in ("cell-a/b-4", "prompt-3", "cell-a/b-3"):
        texts.keep_named(name)

    assert texts.names() == ("cell-a/b-3",)
    assert stored.read_text("cell-a/b-3").split() == ["word"] * 1_000


def test_a_spooled_text_is_moved_into_place_without_keys(stored: OpenSession) -> None:
    """What was written while it was made has no key, though it came in pieces, and all the rest."""
    key = "sk-own-0123456789"
    spool = spooled(stored, f"head {key} tail sk-own-01", Redactor([key]))
    found = spool.look()
    assert found is not None
    texts = CellTexts(stored, list, str, pytest.fail)
    cell = Cell("a", "…", 1, 1, spooled=found)

    assert texts.keep(cell) == "cell-a-1"
    spool.write("\nlater")
    assert texts.keep(cell) == CellTexts(stored, list, str, pytest.fail).keep(cell)
    spool.discard()
    text = stored.read_text("cell-a-1")
    assert text.startswith("head [redacted: ANTHROPIC_API_KEY] tail sk-own-01")
    assert not os.path.exists(found.path)


def test_a_cell_that_prints_for_ever_does_not_fill_the_disk(stored: OpenSession) -> None:
    """Over its bound the file goes, and the ends of the text remain."""
    spool = spooled(stored, "line\n" * 1_000, Redactor(), most=2_000)

    assert spool.look() is None
    assert spool.tail.endswith("line\n")
    assert "over 2,000 bytes" in str(spool.error)
    assert list((stored.path.parents[1] / "tool-results" / "s").iterdir()) == []


def test_a_store_that_fails_is_said_once(tmp_path: Path, stored: OpenSession) -> None:
    """Where the disk cannot be written the text stays readable, and one sentence says so."""
    (tmp_path / "tool-results").write_text("in the way")
    said: list[str] = []
    texts = CellTexts(stored, list, str, said.append)

    assert texts.keep(cell_of("a " * 3_000)) == "cell-a/b-3"
    assert texts.keep(cell_of("b " * 3_000, 4, 2)) == "cell-a/b-4"
    assert stored.read_text("cell-a/b-3").startswith("a a")
    assert len(said) == 1
    assert "tool-results" in said[0]
