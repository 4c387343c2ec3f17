"""Laws of a notebook that was renamed or copied and names its session itself."""

from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.store.sessions import AnySession, SessionStore


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """Return a store with the closed session `a` of the notebook `a.ipynb`, which is there."""
    store = SessionStore(tmp_path / "home")
    notebook = tmp_path / "a.ipynb"
    notebook.touch()
    session = store.create("a", notebook=str(notebook), cwd=str(tmp_path))
    session.append(MessageEntry(1.0, 1, 0, "prompt", user(Text("Ask"))))
    session.save_text("prompt-1", "stored")
    session.update_metadata(title="Ask", turns=1)
    session.close()
    return store


def claim(store: SessionStore, path: Path, session_id: str = "a") -> AnySession | None:
    """Claim the session for a notebook."""
    return store.claim(session_id, str(path), str(path.parent))


def test_a_renamed_notebook_keeps_its_session(store: SessionStore, tmp_path: Path) -> None:
    """Renamed, a notebook has the same session, found by the new path and no more by the old."""
    renamed = (tmp_path / "a.ipynb").rename(tmp_path / "b.ipynb")

    session = claim(store, renamed)

    assert session is not None
    assert session.session_id == "a"
    assert session.warnings == []
    session.close()
    found = store.find(str(renamed))
    assert found is not None
    assert (found.session_id, found.title) == ("a", "Ask")
    assert store.find(str(tmp_path / "a.ipynb")) is None


def test_a_new_name_survives_lost_metadata(store: SessionStore, tmp_path: Path) -> None:
    """The transcript alone says the new path, the old time of creation, and no parent."""
    renamed = (tmp_path / "a.ipynb").rename(tmp_path / "b.ipynb")
    before = store.list()[0]
    session = claim(store, renamed)
    assert session is not None
    assert session.path is not None
    session.close()
    (session.path / "metadata.json").unlink()

    (again,) = store.list()

    assert (again.notebook, again.created, again.parent) == (str(renamed), before.created, None)


def test_a_copied_notebook_gets_a_copy(store: SessionStore, tmp_path: Path) -> None:
    """While the original is there, the copy goes on by itself with all that was, and says so."""
    copy = tmp_path / "copy.ipynb"
    copy.touch()

    session = claim(store, copy)

    assert session is not None
    assert session.session_id != "a"
    assert session.info.parent == "a"
    assert session.read_text("prompt-1") == "stored"
    assert any("is a copy of" in warning for warning in session.warnings)
    session.append(MessageEntry(2.0, 2, 0, "prompt", user(Text("In the copy"))))
    session.close()
    found = store.find(str(copy))
    original = store.find(str(tmp_path / "a.ipynb"))
    assert found is not None
    assert original is not None
    assert (found.session_id, original.session_id) == (session.session_id, "a")
    again = store.load("a")
    assert "In the copy" not in str(again.entries)
    again.close()


def test_a_renamed_notebook_whose_session_is_open_gets_a_copy(
    store: SessionStore, tmp_path: Path
) -> None:
    """Where another kernel still has the session, the renamed notebook's own copy has its path."""
    held = store.load("a")
    renamed = (tmp_path / "a.ipynb").rename(tmp_path / "b.ipynb")

    session = claim(store, renamed)

    assert session is not None
    assert session.session_id != "a"
    assert session.info.notebook == str(renamed)
    assert "open in another kernel" in session.warnings[0]
    session.close()
    held.close()


@pytest.mark.parametrize("session_id", ["b", "../a", "", "x" * 200, "trash"])
def test_what_names_no_session_gets_none(
    store: SessionStore, tmp_path: Path, session_id: str
) -> None:
    """An id that no session here has, as in a notebook of someone else, brings nothing."""
    assert claim(store, tmp_path / "b.ipynb", session_id) is None
    assert len(store.list()) == 1


def test_a_session_without_a_notebook_becomes_the_notebooks(tmp_path: Path) -> None:
    """A session of a kernel that knew no path is the notebook's once that says so."""
    store = SessionStore(tmp_path / "home")
    store.create("a").close()

    session = claim(store, tmp_path / "b.ipynb")

    assert session is not None
    assert session.info.notebook == str(tmp_path / "b.ipynb")
    session.close()
