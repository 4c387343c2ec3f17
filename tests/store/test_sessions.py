"""Laws of sessions on disk: create, load, fork, find, repair."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_ctx.core.blocks import (
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    user,
)
from jupyter_ctx.core.entries import (
    Entry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    RepairEntry,
    SessionEntry,
    SpentEntry,
)
from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.core.repair import INTERRUPTED_TEXT
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.core.view import build_view
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.codec import dump_line
from jupyter_ctx.store.open_session import MemorySession, OpenSession
from jupyter_ctx.store.sessions import SessionStore, find_repairs, new_session_id
from jupyter_ctx.store.turns import turn_text

from .disks import full_disk, mode_of, umask
from .examples import EXAMPLES

NOTEBOOK = "/work dir/a.ipynb"


class Ticks:
    """A clock that moves on by ten seconds at each look."""

    def __init__(self) -> None:
        self.at = 1_796_033_702.0

    def __call__(self) -> float:
        self.at += 10
        return self.at


def prompt(turn: int, text: str = "Hi") -> MessageEntry:
    """Return a prompt."""
    return MessageEntry(turn * 100.0, turn, 0, "prompt", user(Text(text)))


def reply(turn: int, text: str = "Hello", usage: Usage | None = None) -> MessageEntry:
    """Return a reply that ends the turn."""
    at = turn * 100.0 + 2
    return MessageEntry(at, turn, 1, "reply", assistant(Text(text)), model="claude-x", usage=usage)


def call(turn: int, *ids: str) -> MessageEntry:
    """Return a reply that calls tools."""
    uses = [ToolUse(id_, "run_code", {"code": f"print('{id_}')"}) for id_ in ids]
    return MessageEntry(turn * 100.0 + 1, turn, 1, "reply", assistant(Text("I look."), *uses))


def answer(turn: int, *ids: str) -> MessageEntry:
    """Return the results of calls."""
    results = [ToolResult(id_, (Text(f"result of {id_}", "results"),)) for id_ in ids]
    return MessageEntry(turn * 100.0 + 2, turn, 1, "results", user(*results))


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """A store in a home that is not there yet."""
    return SessionStore(tmp_path / "home", Ticks())


def opened(session: MemorySession) -> OpenSession:
    """Return the session, which must be on disk."""
    assert isinstance(session, OpenSession)
    return session


def stored(store: SessionStore, *entries: Entry) -> str:
    """Store a session of these entries, closed, and return its id."""
    session = opened(store.create(notebook=NOTEBOOK, cwd="/work dir"))
    for entry in entries:
        session.append(entry)
    session.close()
    return session.session_id


def transcript(store: SessionStore, session_id: str) -> Path:
    """Return the path of a transcript."""
    assert store.home is not None
    return store.home / "sessions" / session_id / "transcript.jsonl"


# Create and load --------------------------------------------------------------------------------


def test_a_new_session_says_who_it_is(store: SessionStore) -> None:
    """Its first entry is stored at once, with notebook, folder and version."""
    session = opened(store.create(notebook=NOTEBOOK, cwd="/work dir"))
    (entry,) = session.entries

    assert isinstance(entry, SessionEntry)
    assert (entry.session_id, entry.notebook, entry.cwd, entry.parent) == (
        session.session_id,
        NOTEBOOK,
        "/work dir",
        None,
    )
    assert session.warnings == []
    assert session.path == transcript(store, session.session_id).parent
    assert transcript(store, session.session_id).read_bytes() == dump_line(entry)
    session.close()


def test_only_the_owner_can_read_a_session(store: SessionStore) -> None:
    """Folders are 0700 and files 0600, whatever the umask."""
    assert store.home is not None
    with umask(0):
        session = opened(store.create())
        session.save_text("prompt-1", "text")
        session.update_metadata(title="a")
    below = [store.home, *store.home.rglob("*")]

    assert {mode_of(path) for path in below if path.is_dir()} == {0o700}
    assert {mode_of(path) for path in below if path.is_file()} == {0o600}
    assert {path.name for path in session.path.iterdir()} == {
        ".lock",
        "metadata.json",
        "transcript.jsonl",
    }
    session.close()


def test_ids_sort_by_time_and_differ() -> None:
    """A later id is greater; two of one second differ."""
    assert new_session_id(1_796_033_702.0).startswith("20261130-")
    assert new_session_id(1_796_033_702.0) < new_session_id(1_796_033_703.5)
    assert len({new_session_id(0.0) for _ in range(100)}) > 95


def test_what_was_stored_is_loaded(store: SessionStore) -> None:
    """A new process finds every entry, and loading changes no byte."""
    session_id = stored(store, prompt(1), reply(1))
    before = transcript(store, session_id).read_bytes()
    session = store.load(session_id)

    assert session.entries[1:] == [prompt(1), reply(1)]
    assert session.warnings == []
    assert session.session_id == session_id
    session.append(prompt(2))
    session.close()
    assert transcript(store, session_id).read_bytes() == before + dump_line(prompt(2))


@pytest.mark.parametrize("name", ["none", "..", "../sessions", "", "a/b", ".lock", "é"])
def test_an_unknown_session_is_an_error(store: SessionStore, name: str) -> None:
    """An id without a session, or no id at all, raises StoreError and makes no file."""
    stored(store)
    assert store.home is not None
    before = sorted(store.home.rglob("*"))
    for act in (store.load, store.is_open):
        with pytest.raises(StoreError, match=r"There is no session .* folders in .*sessions"):
            act(name)

    assert sorted(store.home.rglob("*")) == before


def test_a_session_with_nothing_to_read_is_kept_and_named(store: SessionStore) -> None:
    """It never starts empty in silence: load raises, and leaves the file as it is."""
    session_id = stored(store)
    for data in (b"", b"rubbish\n"):
        transcript(store, session_id).write_bytes(data)
        with pytest.raises(StoreError, match="was left as it is"):
            store.load(session_id)

        assert transcript(store, session_id).read_bytes() == data
        assert not store.is_open(session_id)
    transcript(store, session_id).unlink()
    with pytest.raises(StoreError):
        store.load(session_id)


def test_an_id_is_used_once(store: SessionStore) -> None:
    """A chosen id that is taken, or is no id, is refused."""
    store.create("mine").close()
    with pytest.raises(StoreError, match="there already"):
        store.create("mine")
    with pytest.raises(StoreError):
        store.create("../mine")


def test_a_torn_line_costs_only_itself(store: SessionStore) -> None:
    """The session goes on after it, and says so."""
    session_id = stored(store, prompt(1), reply(1))
    with open(transcript(store, session_id), "ab") as file:
        file.write(dump_line(prompt(2))[:30])
    session = store.load(session_id)

    assert session.entries[1:] == [prompt(1), reply(1)]
    assert len(session.warnings) == 1
    assert "torn" in session.warnings[0]
    session.append(prompt(2))
    session.close()
    again = store.load(session_id)
    assert again.entries[1:] == [prompt(1), reply(1), prompt(2)]
    again.close()


# Repair -----------------------------------------------------------------------------------------


def test_open_calls_are_answered_once(store: SessionStore) -> None:
    """A kernel killed in a tool: the first load stores the results, the second changes nothing."""
    session_id = stored(store, prompt(1), call(1, "a", "b"))
    session = store.load(session_id)
    results = session.entries[-1]
    after_first = transcript(store, session_id).read_bytes()
    session.close()
    store.load(session_id).close()

    assert isinstance(results, MessageEntry)
    assert (results.kind, results.turn, results.step, results.at) == ("repair", 1, 1, 101.0)
    assert [r.tool_use_id for r in results.message.content if isinstance(r, ToolResult)] == [
        "a",
        "b",
    ]
    assert INTERRUPTED_TEXT in after_first.decode()
    assert transcript(store, session_id).read_bytes() == after_first
    assert find_repairs(session.entries) == ()


def test_a_lost_middle_is_mended_once(store: SessionStore) -> None:
    """When a line in the middle is bad, the view as mended is stored and stays the same."""
    session_id = stored(store, prompt(1), call(1, "a"), answer(1, "a"), reply(1), prompt(2))
    path = transcript(store, session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"#" + lines[3][1:]
    path.write_bytes(b"".join(lines))
    session = store.load(session_id)
    view = build_view(session.entries)
    session.close()
    mended = path.read_bytes()
    again = store.load(session_id)

    assert isinstance(session.entries[-1], RepairEntry)
    assert mended.startswith(b"".join(lines))
    assert "Line 4 of" in session.warnings[0]
    assert build_view(again.entries) == view
    assert path.read_bytes() == mended
    again.close()


def test_a_lost_exchange_takes_the_thinking_after_it_along(store: SessionStore) -> None:
    """Thinking is bound to what came before it: behind a lost line none is sent, also later."""
    bound = Thinking({"type": "thinking", "thinking": "hm", "signature": "s"})
    after = MessageEntry(9.0, 2, 1, "reply", assistant(bound, Text("Yes.")))
    session_id = stored(store, prompt(1), reply(1), prompt(2), after)
    path = transcript(store, session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1:3] = [b"#" + line[1:] for line in lines[1:3]]
    path.write_bytes(b"".join(lines))
    store.load(session_id).close()
    session = store.load(session_id)
    session.append(prompt(3))
    session.append(after)
    session.close()
    again = store.load(session_id)

    assert [len(m.content) for m in build_view(again.entries) if m.role == "assistant"] == [1, 2]
    assert sum(isinstance(entry, RepairEntry) for entry in again.entries) == 1
    again.close()


def test_a_valid_transcript_needs_no_repair() -> None:
    """Nothing is appended to what is whole, an unanswered prompt included."""
    whole = [prompt(1), call(1, "a"), answer(1, "a"), reply(1), prompt(2)]

    for n in (0, 1, 3, 4, 5):
        assert find_repairs(whole[:n]) == ()


# Results ----------------------------------------------------------------------------------------


def test_results_and_turns_are_read_by_name(store: SessionStore, tmp_path: Path) -> None:
    """A result, a long prompt and any turn can be read in a later kernel."""
    session_id = stored(
        store, prompt(1, "Look at x."), call(1, "a"), answer(1, "a"), reply(1, "Done")
    )
    session = store.load(session_id)
    session.save_result("a", "run_code", ToolOutput("long text", outputs=({"x": 1},)))
    session.save_text("prompt-1", "long prompt")
    session.close()
    session = store.load(session_id)

    assert session.read_text("a") == "long text"
    assert session.read_text("prompt-1") == "long prompt"
    assert session.read_result("a").outputs == ({"x": 1},)
    assert session.find_path("a") == tmp_path / "home/tool-results" / session_id / "a.txt"
    turn = session.read_text("turn-1")
    for said in ("Look at x.", "I look.", "code: print('a')", "result of a", "Done"):
        assert said in turn
    for name in ("turn-2", "turn-", "prompt-2", "b"):
        with pytest.raises(StoreError):
            session.read_text(name)
    session.close()


def test_a_prompt_without_a_file_is_read_from_the_transcript(store: SessionStore) -> None:
    """`prompt-<n>` gives the user's words also where they were short enough to be sent whole."""
    session = store.load(stored(store, prompt(1, "Look at x."), reply(1, "Done")))

    assert session.read_text("prompt-1") == "Look at x."
    session.close()


def test_a_turn_run_again_is_given_as_it_was_last(store: SessionStore) -> None:
    """After a rewind the same number means the newer turn."""
    session = store.create()
    for entry in (
        prompt(1, "old"),
        reply(1, "old answer"),
        prompt(1, "new"),
        reply(1, "new answer"),
    ):
        session.append(entry)

    assert "old" not in session.read_text("turn-1")
    assert "new answer" in session.read_text("turn-1")
    session.close()


def test_every_block_has_a_text_in_a_turn() -> None:
    """Calls, results, errors, pictures and unknown blocks are told; thinking is not."""
    text = turn_text(EXAMPLES, 1)

    assert text is not None
    for said in (
        "[prompt]\n\nHi\n",
        "\n\nNamespace: x\n",
        "[run_code toolu_01]\ncode: print(1)\n",
        '\na: [null, true, 1.5, {"é": "\\u0000"}]\n',
        "[result toolu_01]\n1\n\n[image/png, 640×480 px]\n",
        "[error toolu_02]\nlost\n",
        "[server_tool_use]",
        "[block]",
    ):
        assert said in text
    assert "Hm" not in text
    assert turn_text(EXAMPLES, 2) is None


def test_missing_results_are_named(store: SessionStore) -> None:
    """A transcript whose result files are gone loads, and names the results."""
    fates = [
        FateEntry(1.0, i, "offload", "run_code", 9, 1, f"tool-results/s/{i}.txt") for i in "ab"
    ]
    session_id = stored(store, prompt(1), call(1, "a", "b"), *fates, answer(1, "a", "b"))
    session = store.load(session_id)
    session.save_result("b", "run_code", ToolOutput("there"))
    session.close()

    assert session.warnings == ["The stored text of these results is gone: a, b."]
    session = store.load(session_id)
    assert session.warnings == ["The stored text of these results is gone: a."]
    session.close()


def test_spools_of_a_killed_kernel_are_removed(store: SessionStore) -> None:
    """Loading a session cleans what nobody can use; not while another kernel has it open."""
    session = opened(store.create())
    session.append(prompt(1))
    fd, spool = session.make_spool()
    os.close(fd)
    store.load(session.session_id).close()
    assert spool.exists()

    assert session._lock is not None
    session._lock.release()
    store.load(session.session_id).close()
    assert not spool.exists()
    session.close()


# Two kernels ------------------------------------------------------------------------------------


def test_a_session_open_elsewhere_is_forked(store: SessionStore) -> None:
    """The second user gets a copy with a parent and is told; neither writes the other's file."""
    first = opened(store.create(notebook=NOTEBOOK, cwd="/work dir"))
    first.append(prompt(1))
    first.append(reply(1))
    before = transcript(store, first.session_id).read_bytes()
    assert store.is_open(first.session_id)
    second = opened(SessionStore(store.home, Ticks()).load(first.session_id))

    assert second.session_id != first.session_id
    assert second.warnings == [
        f"Session {first.session_id} is open in another kernel; this one goes on as its copy, "
        f"{second.session_id}."
    ]
    start = second.entries[-1]
    assert isinstance(start, SessionEntry)
    assert (start.session_id, start.parent) == (second.session_id, first.session_id)
    assert (start.notebook, start.cwd) == (NOTEBOOK, "/work dir")
    assert second.info.parent == first.session_id
    assert build_view(second.entries) == build_view(first.entries)
    second.append(prompt(2, "second"))
    first.append(prompt(2, "first"))
    second.close()
    first.close()
    assert transcript(store, first.session_id).read_bytes() == before + dump_line(
        prompt(2, "first")
    )
    again = store.load(second.session_id)
    assert again.entries[-1] == prompt(2, "second")
    again.close()


def test_a_session_is_forked_only_as_asked(store: SessionStore) -> None:
    """On request one that nobody has open is copied, and one that is open is refused, unchanged."""
    first = opened(store.create())
    first.append(prompt(1))
    with pytest.raises(StoreError, match="open in another kernel; only a copy"):
        store.load(first.session_id, fork="never")
    first.close()
    before = transcript(store, first.session_id).read_bytes()
    copy = opened(store.load(first.session_id, fork="always"))
    same = opened(store.load(first.session_id, fork="never"))

    assert copy.info.parent == first.session_id == same.session_id
    assert build_view(copy.entries) == build_view(first.entries)
    assert transcript(store, first.session_id).read_bytes() == before
    copy.close()
    same.close()


def test_a_fork_reads_what_its_parent_had_then(store: SessionStore) -> None:
    """Results stored before the fork are read through the chain of parents, later ones are not."""
    first = opened(store.create())
    first.append(prompt(1))
    first.append(call(1, "a"))
    first.append(answer(1, "a"))
    first.save_result("a", "run_code", ToolOutput("of a", outputs=({"x": 1},)))
    first.save_text("prompt-1", "prompt one")
    second = opened(store.load(first.session_id))
    third = opened(store.load(second.session_id))
    first.append(prompt(2))
    first.save_text("prompt-2", "not yours")
    first.save_result("later", "run_code", ToolOutput("not yours"))

    for fork in (second, third):
        assert fork.read_text("a") == "of a"
        assert fork.read_result("a").outputs == ({"x": 1},)
        assert fork.read_text("prompt-1") == "prompt one"
        assert fork.find_path("a") == first.find_path("a")
        for name in ("prompt-2", "later"):
            with pytest.raises(StoreError):
                fork.read_text(name)
    second.save_text("prompt-1", "mine")
    assert third.read_text("prompt-1") == "mine"
    assert first.read_text("prompt-1") == "prompt one"
    for session in (third, second, first):
        session.close()


def test_a_fork_answers_the_calls_that_were_running(store: SessionStore) -> None:
    """The copy of a session in mid-turn is valid; the original is not touched."""
    first = opened(store.create())
    first.append(prompt(1))
    first.append(call(1, "a"))
    second = store.load(first.session_id)

    assert INTERRUPTED_TEXT in repr(second.entries[-1])
    assert first.entries[-1] == call(1, "a")
    second.close()
    first.close()


def test_a_torn_line_stays_out_of_a_fork(store: SessionStore) -> None:
    """A line that the other kernel has written half is not copied."""
    first = opened(store.create())
    first.append(prompt(1))
    with open(transcript(store, first.session_id), "ab") as file:
        file.write(b'{"v":1,')
    second = store.load(first.session_id)

    assert second.entries[-2] == prompt(1)
    assert len(second.warnings) == 1
    second.close()
    first.close()


def test_a_fork_that_cannot_be_stored_lives_in_memory(store: SessionStore) -> None:
    """On a full disk the copy is kept in memory, with two warnings and no half session."""
    first = opened(store.create())
    first.append(prompt(1, "x" * 5000))
    with full_disk(first.path / "none", 1000):
        second = store.load(first.session_id)

    assert second.path is None
    assert second.entries[1] == prompt(1, "x" * 5000)
    assert "open in another kernel" in second.warnings[0]
    assert "kept in memory" in second.warnings[1]
    assert [entry.name for entry in first.path.parent.iterdir()] == [first.session_id]
    first.close()


def test_where_no_lock_can_be_the_session_opens_with_a_warning(store: SessionStore) -> None:
    """A disk without locks is no reason to refuse; nothing is cleaned there."""
    session_id = stored(store, prompt(1))
    lock = transcript(store, session_id).with_name(".lock")
    lock.unlink()
    lock.mkdir()
    session = store.load(session_id)
    leftover = opened(session).make_spool()
    os.close(leftover[0])
    second = store.load(session_id)

    assert session.session_id == second.session_id == session_id
    assert "cannot be locked" in session.warnings[0]
    assert not store.is_open(session_id)
    assert leftover[1].exists()
    second.close()
    session.close()


def test_the_lock_is_free_again_after_close(store: SessionStore) -> None:
    """A closed session is opened, not forked; closing twice is no error."""
    first = store.create()
    first.append(prompt(1))
    first.close()
    first.close()

    assert not store.is_open(first.session_id)
    second = store.load(first.session_id)
    assert second.session_id == first.session_id
    second.close()


CHILD = """
import os, signal, sys
from pathlib import Path
from jupyter_ctx.store.sessions import SessionStore

session = SessionStore(Path(sys.argv[1])).create("shared")
worker = os.fork()
if worker == 0:
    os.close(1)
    signal.pause()
print(worker, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_lock_dies_with_its_process(store: SessionStore) -> None:
    """A killed kernel leaves no lock behind, though a process that it forked lives on."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(store.home)], stdout=subprocess.PIPE, check=False
    )
    worker = int(child.stdout)
    try:
        assert child.returncode == -signal.SIGKILL
        assert not store.is_open("shared")
    finally:
        os.kill(worker, signal.SIGKILL)


# No home, no room -------------------------------------------------------------------------------


def test_without_a_home_the_session_lives_in_memory() -> None:
    """It works like any other for as long as the kernel lives, and says so once."""
    store = SessionStore(None, Ticks())
    session = store.create(notebook=NOTEBOOK, cwd="/work dir")
    session.append(prompt(1))
    name = session.save_result("a", "run_code", ToolOutput("text"))
    session.save_text("prompt-1", "long")
    session.update_metadata(title="Title")

    assert session.path is None
    assert name == "memory:a"
    assert [type(entry) for entry in session.entries] == [SessionEntry, MessageEntry]
    assert (session.read_text("a"), session.read_text("prompt-1")) == ("text", "long")
    assert "Hi" in session.read_text("turn-1")
    assert session.info.title == "Title"
    assert len(session.warnings) == 1
    assert "kept in memory" in session.warnings[0]
    assert store.list() == []
    assert store.find(NOTEBOOK) is None
    with pytest.raises(StoreError):
        store.load(session.session_id)
    session.close()


def test_a_home_that_cannot_be_written_gives_a_session_in_memory(tmp_path: Path) -> None:
    """A file in the home's place costs a warning that names it, not the turn."""
    (tmp_path / "home").write_text("a file")
    session = SessionStore(tmp_path / "home" / "ctx").create()
    session.append(prompt(1))

    assert session.path is None
    assert str(tmp_path / "home") in session.warnings[0]
    assert (tmp_path / "home").read_text() == "a file"
    session.close()


def test_a_full_disk_costs_warnings_and_nothing_stored(store: SessionStore) -> None:
    """Each append raises, results are read from memory, and all is stored when there is room."""
    session = opened(store.create())
    session.append(prompt(1))
    path = transcript(store, session.session_id)
    before = path.read_bytes()
    with full_disk(path, 0):
        for entry in (call(1, "a"), answer(1, "a")):
            with pytest.raises(StoreError):
                session.append(entry)
        with pytest.raises(StoreError):
            session.save_result("a", "run_code", ToolOutput("text" * 1000))
        with pytest.raises(StoreError):
            session.update_metadata(title="x" * 2000)
        assert session.read_text("a") == "text" * 1000
    session.append(reply(1))
    assert path.read_bytes().startswith(before)
    session.close()
    again = store.load(session.session_id)

    assert again.entries[1:] == [prompt(1), call(1, "a"), answer(1, "a"), reply(1)]
    assert again.read_text("a") == "text" * 1000
    assert again.warnings == []
    again.close()


def test_a_session_begun_on_a_full_disk_is_stored_later(store: SessionStore) -> None:
    """It says that it is in memory; when there is room it is whole on disk."""
    assert store.home is not None
    with full_disk(store.home, 0):
        session = store.create()
        with pytest.raises(StoreError):
            session.append(prompt(1))
    session.append(reply(1))
    session.close()
    again = store.load(session.session_id)

    assert "kept in memory" in session.warnings[0]
    assert again.entries == session.entries
    again.close()


def test_a_vanished_session_is_not_made_anew(store: SessionStore) -> None:
    """A folder removed in mid-session: appends raise, the rest of the session works."""
    session = opened(store.create())
    session.append(prompt(1))
    assert store.home is not None
    shutil.rmtree(store.home)
    with pytest.raises(StoreError):
        session.append(reply(1))
    with pytest.raises(StoreError):
        session.save_text("prompt-1", "long")
    with pytest.raises(StoreError):
        session.update_metadata(title="a")

    assert session.read_text("prompt-1") == "long"
    assert "Hello" in session.read_text("turn-1")
    assert not store.home.exists()
    with pytest.raises(StoreError):
        session.close()


# Metadata and lists -----------------------------------------------------------------------------


def test_metadata_is_kept(store: SessionStore) -> None:
    """What was said of a session is in its list, its file is one JSON object."""
    session = opened(store.create(notebook=NOTEBOOK, cwd="/work dir"))
    session.append(prompt(1))
    session.update_metadata(title="é", model="m", tokens=12, cost=0.5, updated=1e10)
    session.close()
    (info,) = store.list()

    assert info == session.info
    assert (info.title, info.model, info.tokens, info.cost, info.updated) == (
        "é",
        "m",
        12,
        0.5,
        1e10,
    )
    assert json.loads((session.path / "metadata.json").read_bytes())["version"] == 1
    again = store.load(session.session_id)
    assert again.info == info
    again.close()


@pytest.mark.parametrize(
    "data", [None, b"", b"[]", b"{}", b'{"version":2}', b'{"version":1,"created":1,"updated":true}']
)
def test_lost_metadata_is_rebuilt(store: SessionStore, data: bytes | None) -> None:
    """Whatever happened to the file, the transcript tells the same again."""
    usage = Usage(uncached=1, cache_read=2, cache_write=3, output=4)
    entries: list[Entry] = [
        ModelEntry(1.0, "m"),
        prompt(1, "\n  First line \nsecond"),
        reply(1, usage=usage),
    ]
    session_id = stored(store, *entries, SpentEntry(103.0, 1, usage, "raised"))
    path = transcript(store, session_id).with_name("metadata.json")
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    (listed,) = store.list()
    session = store.load(session_id)
    session.close()

    assert listed == session.info
    assert (listed.title, listed.model, listed.tokens) == ("First line", "claude-x", 20)
    assert (listed.notebook, listed.cwd, listed.cost) == (NOTEBOOK, "/work dir", None)
    assert json.loads(path.read_bytes())["title"] == "First line"


def test_lists_are_newest_first(store: SessionStore) -> None:
    """By last change, not by creation; what is no session is not in it."""
    assert store.list() == []
    ids = [stored(store, prompt(1)) for _ in range(3)]
    session = opened(store.load(ids[0]))
    session.update_metadata(updated=1e10)
    session.close()
    sessions = session.path.parent
    (sessions / "empty").mkdir()
    (sessions / ".hidden").mkdir()
    (sessions / "file").write_text("")

    assert [info.session_id for info in store.list()] == [ids[0], ids[2], ids[1]]


def test_a_notebook_finds_its_newest_session(store: SessionStore) -> None:
    """By its path, or by the folder; others are not taken."""
    older = stored(store, prompt(1))
    newest = stored(store, prompt(1))
    store.create(notebook="/other.ipynb", cwd="/other").close()
    store.create().close()

    found, latest = store.find("/work dir/./a.ipynb"), store.latest("/work dir/")
    assert found is not None
    assert latest is not None
    assert found.session_id == latest.session_id == newest
    before = store.latest("/work dir", but=newest)
    assert before is not None
    assert before.session_id == older
    assert store.find("/work dir/b.ipynb") is None
    assert store.find("") is None
    assert store.latest("/") is None


def test_each_of_two_kernels_finds_its_own_session_again(tmp_path: Path) -> None:
    """What another kernel has open gives way to its copy or origin that went on by itself."""
    clock = Ticks()
    store = SessionStore(tmp_path / "home", clock)
    stored(store, prompt(1))  # of an earlier day: it has nothing to do with the two

    def go_on(session: OpenSession, turn: int) -> None:
        session.append(prompt(turn))
        session.update_metadata(updated=clock())

    def found() -> str:
        info = store.find(NOTEBOOK)
        assert info is not None
        return info.session_id

    first = opened(store.create(notebook=NOTEBOOK, cwd="/work dir"))
    go_on(first, 1)
    second = opened(store.load(first.session_id))
    assert second.session_id != first.session_id
    go_on(second, 2)
    first.close()
    assert found() == second.session_id  # it has all that the first has, and is copied again
    first = opened(store.load(first.session_id))
    go_on(first, 2)
    go_on(second, 3)
    assert found() == second.session_id  # both are open: a third kernel copies the newest
    first.close()
    assert found() == first.session_id
    first = opened(store.load(first.session_id))
    go_on(first, 3)
    second.close()
    assert found() == second.session_id
    first.close()
    assert found() == first.session_id
