"""The memory of a project: a file of the user's, in which only single lines are ours to change."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.ports import Fact
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store import locks, memory
from jupyter_ctx.store.memory import MOST_BYTES, MOST_FACTS, MemoryFile, memory_path

DAY = "2026-11-30"
CENTS = "Amounts are in cents."
TITLES = "Plots have a title."

CHILD = """
import asyncio, sys
from pathlib import Path
from jupyter_ctx.store.memory import MemoryFile

home, project, name = sys.argv[1:]
file = MemoryFile(Path(home), project, lambda: "2026-11-30")
for n in range(20):
    asyncio.run(file.add([f"Fact {n} of {name}."]))
"""


@pytest.fixture
def file(tmp_path):
    """Return the memory of a project that has none yet."""
    return MemoryFile(tmp_path / "home", str(tmp_path / "project"), lambda: DAY)


def add(file, *facts):
    return asyncio.run(file.add(facts))


def remove(file, *facts):
    return asyncio.run(file.remove(facts))


def texts(file):
    return [fact.text for fact in file.read()]


def written(file, text):
    """Put a text into the file, as an editor would."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_fact_is_kept_with_its_day(file):
    """What is added is there, dated, in order; the file is the owner's and says what it is."""
    assert file.read() == ()
    assert add(file, CENTS, TITLES) == (CENTS, TITLES)

    assert file.read() == (Fact(CENTS, DAY), Fact(TITLES, DAY))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    text = file.path.read_text()
    assert text.startswith("# What you told the agent in /")
    assert text.endswith(f"\n\n- {DAY}: {CENTS}\n- {DAY}: {TITLES}\n")


@pytest.mark.parametrize(
    "again", [CENTS, "amounts are in CENTS", " Amounts  are\nin cents! ", "Amounts are in cents."]
)
def test_a_fact_is_kept_once(file, again):
    """Case, spaces and the stop at the end make no other fact; none of it is written again."""
    add(file, CENTS)
    before = file.path.read_bytes()

    assert add(file, again) == ()
    assert file.path.read_bytes() == before


def test_undo_takes_out_what_was_added(file):
    """After a removal the file is byte for byte what it was; what is not there is not named."""
    add(file, CENTS)
    before = file.path.read_bytes()
    add(file, TITLES, "A third.")

    assert remove(file, TITLES, "A third.", "Never told.") == (TITLES, "A third.")
    assert file.path.read_bytes() == before
    assert remove(file, TITLES) == ()


HAND = (
    "# Mine\r\n\r\nFree words, no bullet\r\n* starred\n"
    "- 2025-01-02 with a day, no colon\n<!-- - not this -->\n  - indented: yes  \n---\nlast"
)


def test_what_is_written_by_hand_counts(file):
    """Lines with or without bullet and day are facts; headings, comments and rules are not."""
    written(file, HAND)

    assert file.read() == (
        Fact("Free words, no bullet"),
        Fact("starred"),
        Fact("with a day, no colon", "2025-01-02"),
        Fact("indented: yes"),
        Fact("last"),
    )


def test_every_other_byte_of_the_users_file_stays(file):
    """Adding writes one line behind the file's own, removing takes one: nothing else changes."""
    own = HAND.encode() + b"\xff\xfe broken\n"
    written(file, own)

    add(file, CENTS)
    assert file.path.read_bytes() == own + f"- {DAY}: {CENTS}\n".encode()
    remove(file, "Starred", CENTS)
    assert file.path.read_bytes() == own.replace(b"* starred\n", b"")


@given(st.lists(st.text(max_size=60), max_size=8), st.lists(st.text(max_size=60), max_size=4))
def test_a_line_of_ours_is_one_fact(lines, facts):
    """Whatever stands in the file and in the facts: each line added is read as one, dated."""
    text = "\n".join(lines) + "\n"
    known = memory._facts(text)
    new = [
        fact for fact in (" ".join(f.split()) for f in facts) if memory._fact(f"- {DAY}: {fact}")
    ]
    line = "".join(f"- {DAY}: {fact}\n" for fact in new)
    read = memory._facts(text + line)

    assert read[: len(known)] == known
    assert [fact.date for fact in read[len(known) :]] == [DAY] * len(new)


def test_a_key_is_never_written(tmp_path):
    """The program's own keys are taken out before a fact reaches the disk."""
    home = tmp_path / "home"
    file = MemoryFile(home, "/p", lambda: DAY, lambda text: text.replace("sk-1", "[redacted]"))

    assert add(file, "The key is sk-1.") == ("The key is [redacted].",)
    assert b"sk-1" not in file.path.read_bytes()


def test_a_project_has_one_file_by_its_real_path(tmp_path):
    """A link to the folder leads to the same memory, another folder to another."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    paths = [memory_path(tmp_path, str(tmp_path / name)) for name in ("a", "link", "b")]

    assert paths[0] == paths[1] != paths[2]
    assert paths[0].parent == tmp_path / "memory"


def test_a_full_memory_says_so(file):
    """Nothing is dropped unasked: with no room left a fact is refused, and the file stays."""
    add(file, *(f"Fact {n}." for n in range(MOST_FACTS)))
    before = file.path.read_bytes()

    with pytest.raises(StoreError, match="full: it has 200 of 200"):
        add(file, "One more.")
    assert file.path.read_bytes() == before
    assert add(file, "fact 7") == ()


def test_a_file_too_large_is_left_alone(file):
    """Of a file that is no memory of ours the beginning is read; it is never written over."""
    written(file, b"- a fact\n" + b"x" * MOST_BYTES)

    assert texts(file)[0] == "a fact"
    with pytest.raises(StoreError, match="too large"):
        add(file, CENTS)
    with pytest.raises(StoreError, match="too large"):
        remove(file, "a fact")
    assert file.path.stat().st_size == MOST_BYTES + 9


@pytest.mark.parametrize("by_hand", [0, MOST_BYTES - 40])
def test_no_fact_makes_the_file_too_large(file, by_hand):
    """A fact that there is no room for is refused; what is kept can still be changed."""
    written(file, b"- a fact\n" + b"#" * by_hand)
    before = file.path.read_bytes()

    with pytest.raises(StoreError, match="full"):
        add(file, "much " * (10 if by_hand else MOST_BYTES))
    assert file.path.read_bytes() == before
    assert remove(file, "a fact") == ("a fact",)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_refused(file, tmp_path, kind):
    """A link, a folder or a pipe in the file's place is neither followed, read nor replaced."""
    file.path.parent.mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text("- secret\n")
    match kind:
        case "link":
            file.path.symlink_to(target)
        case "folder":
            file.path.mkdir()
        case _:
            os.mkfifo(file.path)

    with pytest.raises(StoreError):
        file.read()
    with pytest.raises(StoreError):
        add(file, CENTS)
    assert target.read_text() == "- secret\n"


def test_a_home_that_cannot_be_written(file, tmp_path):
    """A file in the folder's place is an error that names the path, and nothing is kept."""
    (tmp_path / "home").write_text("in the way")

    with pytest.raises(StoreError, match="home"):
        add(file, CENTS)


def test_two_kernels_lose_nothing(file, tmp_path):
    """Processes that add at the same time: every fact of both is there, once."""
    command = [sys.executable, "-c", CHILD, str(tmp_path / "home"), str(tmp_path / "project")]
    children = [subprocess.Popen([*command, name], cwd=Path(__file__).parents[2]) for name in "AB"]

    assert [child.wait(60) for child in children] == [0, 0]
    assert sorted(texts(file)) == sorted(f"Fact {n} of {name}." for n in range(20) for name in "AB")
    assert not [p for p in file.path.parent.iterdir() if p.name.endswith(".tmp")]


def test_a_lock_that_is_held_is_an_error(file, monkeypatch):
    """Where another kernel does not let go, the fact is refused in a sentence."""
    import filelock

    monkeypatch.setattr(locks, "WRITE_S", 0.0)
    add(file, CENTS)
    held = filelock.FileLock(file.path.with_name(f".{file.path.stem}.lock"))
    with held, pytest.raises(StoreError, match="another kernel"):
        add(file, TITLES)
    assert texts(file) == [CENTS]


def test_a_long_line_is_read_as_far_as_a_fact_goes(file):
    """Of a line written by hand so much counts as a fact can have; a long one costs its length."""
    written(file, f"- a{' ' * 100_000}b\n")

    assert texts(file) == ["a"]
