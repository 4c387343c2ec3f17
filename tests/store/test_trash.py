"""Laws of deleted sessions."""

import os
import shutil
from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.sessions import AnySession, SessionStore
from jupyter_ctx.store.trash import KEEP_S

from .disks import full_disk, mode_of


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> SessionStore:
    """Return an empty store."""
    return SessionStore(tmp_path / "home", clock)


def fill(session: AnySession) -> None:
    """Give a session one turn with a stored result, and close it."""
    session.append(MessageEntry(1.0, 1, 0, "prompt", user(Text("Ask"))))
    session.save_text("prompt-1", "stored text")
    session.save_result("call", "run_code", ToolOutput("result"))
    session.close()


def test_a_restored_session_is_the_same(store: SessionStore) -> None:
    """Deleted and restored, a session has its entries, results and metadata, and is in the list."""
    fill(store.create("a", notebook="/x.ipynb"))
    before = store.list()

    store.delete("a")

    assert store.list() == []
    assert store.find("/x.ipynb") is None
    assert [one.info for one in store.trashed()] == list(before)
    with pytest.raises(StoreError, match="no session 'a'"):
        store.load("a")
    assert store.restore("a") == before[0]
    assert store.list() == before
    assert store.trashed() == []
    session = store.load("a")
    assert session.read_text("prompt-1") == "stored text"
    assert session.path is not None
    assert sorted(p.name for p in session.path.iterdir()) == [
        ".lock",
        "metadata.json",
        "transcript.jsonl",
    ]
    session.close()


def test_an_open_session_is_not_deleted(store: SessionStore) -> None:
    """A session that a kernel has open stays, and the error says what closes it."""
    session = store.create("a")

    with pytest.raises(StoreError, match="/new"):
        store.delete("a")

    assert [info.session_id for info in store.list()] == ["a"]
    session.close()
    store.delete("a")


@pytest.mark.parametrize("session_id", ["nowhere", "../a", ".", ""])
def test_only_sessions_are_deleted_and_restored(
    store: SessionStore, session_id: str, tmp_path: Path
) -> None:
    """A name that is no session's is refused, and nothing outside is touched."""
    (tmp_path / "a").mkdir()
    fill(store.create("here"))

    with pytest.raises(StoreError):
        store.delete(session_id)
    with pytest.raises(StoreError):
        store.restore(session_id)

    assert (tmp_path / "a").is_dir()
    assert [info.session_id for info in store.list()] == ["here"]


def test_a_link_is_neither_deleted_nor_emptied(
    store: SessionStore, tmp_path: Path, clock: Clock
) -> None:
    """A link in the place of a session, or in the trash, is not followed."""
    fill(store.create("a"))
    outside = tmp_path / "outside"
    outside.mkdir()
    assert store.home is not None
    (store.home / "sessions" / "link").symlink_to(outside)
    with pytest.raises(StoreError):
        store.delete("link")
    store.delete("a")
    (store.home / "trash" / "link").symlink_to(outside)

    clock.at += KEEP_S

    assert store.empty_trash() == ("a",)
    assert outside.is_dir()


def test_the_trash_is_emptied_after_thirty_days(
    store: SessionStore, tmp_path: Path, clock: Clock
) -> None:
    """A deleted session goes for good, results and all, when a session starts 30 days later."""
    fill(store.create("a"))
    fill(store.create("kept"))
    store.delete("a")
    clock.at += KEEP_S - 1
    store.create("b").close()
    assert [one.info.session_id for one in store.trashed()] == ["a"]

    clock.at += 1
    store.create("c").close()

    assert store.trashed() == []
    left = {path.name for path in (tmp_path / "home").rglob("*") if path.is_dir()}
    assert left == {"sessions", "trash", "tool-results", "kept", "b", "c"}


def test_a_copy_keeps_the_results_it_came_with(store: SessionStore, clock: Clock) -> None:
    """Results of a removed session stay as long as one that was forked from it, over any steps."""
    first = store.create("a")
    first.append(MessageEntry(1.0, 1, 0, "prompt", user(Text("Ask"))))
    first.save_text("prompt-1", "of the first")
    copy = store.load("a")
    copy_of_copy = store.load(copy.session_id)
    for session in (first, copy, copy_of_copy):
        session.close()
    for session in (first, copy):
        store.delete(session.session_id)
    clock.at += KEEP_S

    assert set(store.empty_trash()) == {"a", copy.session_id}

    again = store.load(copy_of_copy.session_id)
    assert again.read_text("prompt-1") == "of the first"
    again.close()
    store.delete(again.session_id)
    assert store.empty_trash(0.0) == (again.session_id,)
    assert store.home is not None
    assert list((store.home / "tool-results").iterdir()) == []


def test_a_session_that_lost_its_note_is_kept_thirty_days(store: SessionStore) -> None:
    """Without a readable time of deletion, the folder's own last change counts."""
    fill(store.create("a"))
    store.delete("a")
    assert store.home is not None
    (store.home / "trash" / "a" / "trashed.json").write_text("{")
    folder = store.home / "trash" / "a"
    at = folder.stat().st_ctime

    assert SessionStore(store.home, lambda: at + KEEP_S - 1).empty_trash() == ()
    assert SessionStore(store.home, lambda: at + KEEP_S).empty_trash() == ("a",)


def test_a_name_that_is_taken_again_is_not_overwritten(store: SessionStore) -> None:
    """Restoring where another session stands is refused; both are left as they are."""
    fill(store.create("a"))
    store.delete("a")
    store.create("a").close()

    with pytest.raises(StoreError, match="there already"):
        store.restore("a")

    assert [one.info.session_id for one in store.trashed()] == ["a"]
    assert [info.session_id for info in store.list()] == ["a"]


def test_the_trash_is_private(store: SessionStore) -> None:
    """The trash is a folder that only its owner can read."""
    fill(store.create("a"))
    store.delete("a")

    assert store.home is not None
    assert mode_of(store.home / "trash") == 0o700
    assert mode_of(store.home / "trash" / "a" / "trashed.json") == 0o600


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_deleted_session_with_no_transcript_to_read_holds_up_no_other(
    store: SessionStore, clock: Clock, kind: str
) -> None:
    """What stands in place of a transcript keeps nobody from deleting, nor the trash from emptying.

    So it is in the trash and beside it.
    """
    for name in ("a", "b", "c"):
        fill(store.create(name))
    assert store.home is not None
    for name in ("a", "c"):
        path = store.home / "sessions" / name / "transcript.jsonl"
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    store.delete("a")
    clock.at += KEEP_S

    store.delete("b")

    assert [one.info.session_id for one in store.trashed()] == ["b"]
    clock.at += KEEP_S
    assert store.empty_trash() == ("b",)
    assert [info.session_id for info in store.list()] == ["c"]


def test_a_session_that_cannot_be_removed_holds_up_no_other(
    store: SessionStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is deleted is told as deleted, and the trash is emptied as far as that goes."""

    def refuse(path: Path) -> None:
        if path.name == "a":
            raise PermissionError(13, "Permission denied", str(path))
        removed(path)

    for name in ("a", "b", "c"):
        fill(store.create(name))
    removed = shutil.rmtree
    store.delete("a")
    store.delete("b")
    clock.at += KEEP_S
    monkeypatch.setattr(shutil, "rmtree", refuse)

    store.delete("c")

    assert {one.info.session_id for one in store.trashed()} == {"a", "c"}
    with pytest.raises(StoreError, match="a could not be removed"):
        store.empty_trash()
    assert "was not emptied" in store.create("d").warnings[0]


def test_a_full_disk_keeps_nobody_from_deleting(store: SessionStore) -> None:
    """Who makes room deletes; the note of when is then lost, and the session can be restored."""
    fill(store.create("a"))
    before = store.list()
    with full_disk(Path("none"), 0):
        store.delete("a")
        assert store.list() == []
        assert [one.info for one in store.trashed()] == before
        store.restore("a")

    assert store.list() == before


@pytest.mark.parametrize("note", ["pipe", '{"at":NaN}', '{"at":1e999}', '{"at":' + "9" * 400 + "}"])
def test_a_note_that_says_no_time_is_as_good_as_lost(
    store: SessionStore, clock: Clock, note: str
) -> None:
    """A deleted session goes after thirty days, whatever stands where its time should."""
    fill(store.create("a"))
    store.delete("a")
    assert store.home is not None
    path = store.home / "trash" / "a" / "trashed.json"
    path.unlink()
    os.mkfifo(path) if note == "pipe" else path.write_text(note)

    clock.at = path.parent.lstat().st_ctime + KEEP_S - 1.0
    assert store.empty_trash() == ()
    clock.at += 2.0
    assert store.empty_trash() == ("a",)
