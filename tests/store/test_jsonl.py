"""Laws of the transcript's file."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.entries import PinEntry, UnknownEntry
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.codec import dump_line
from jupyter_ctx.store.jsonl import JsonlFile, load_entries

from .disks import full_disk, mode_of, umask
from .examples import EXAMPLES


def pin(n: int, text: str = "") -> PinEntry:
    """Return an entry that is easy to tell from others."""
    return PinEntry(float(n), n, text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A transcript that is not there yet."""
    return tmp_path / "transcript.jsonl"


def test_what_was_appended_is_loaded(path: Path) -> None:
    """Every entry comes back, in order; only what this version does not know is warned of."""
    file = JsonlFile(path)
    for entry in EXAMPLES:
        file.append(entry)
    loaded = load_entries(path)

    assert loaded.entries == EXAMPLES
    assert loaded.errors == ()
    assert len(loaded.warnings) == 1
    unknown = [n for n, entry in enumerate(EXAMPLES, 1) if isinstance(entry, UnknownEntry)]
    assert loaded.warnings[0].endswith(f"not understood: {', '.join(map(str, unknown))}.")
    file.close()


def test_an_entry_is_in_the_file_when_append_returns(path: Path) -> None:
    """Nothing waits in a buffer: another reader sees the whole line at once."""
    file = JsonlFile(path)

    for n in range(3):
        file.append(pin(n))
        assert path.read_bytes().endswith(dump_line(pin(n)))
    file.close()


def test_bytes_once_written_stay(path: Path) -> None:
    """Appending, closing and opening again only ever add to the file."""
    before = b""
    written: list[PinEntry] = []
    for n in range(4):
        file = JsonlFile(path, written)
        file.append(pin(n))
        file.close()
        written.append(pin(n))

        assert path.read_bytes().startswith(before)
        assert len(path.read_bytes()) > len(before)
        before = path.read_bytes()


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_only_the_owner_can_read_it(path: Path, mask: int) -> None:
    """The file is 0600 whatever the umask."""
    with umask(mask):
        file = JsonlFile(path)
        file.append(pin(1))
        file.close()

    assert mode_of(path) == 0o600


def test_a_file_open_to_others_is_closed_to_them(path: Path) -> None:
    """A file that came with wider permissions gets 0600 at the next append."""
    path.write_bytes(dump_line(pin(1)))
    path.chmod(0o644)
    file = JsonlFile(path, [pin(1)])
    file.append(pin(2))
    file.close()

    assert mode_of(path) == 0o600


@pytest.mark.parametrize("cut", [1, 10, len(dump_line(pin(2))) - 2])
def test_a_torn_last_line_costs_only_itself(path: Path, cut: int) -> None:
    """It is set aside with a warning, stays in the file, and the next entry has its own line."""
    torn = dump_line(pin(2))[:cut]
    path.write_bytes(dump_line(pin(1)) + torn)
    loaded = load_entries(path)

    assert loaded.entries == (pin(1),)
    assert loaded.errors[0].line_no == 2
    assert len(loaded.warnings) == 1
    assert "torn" in loaded.warnings[0]

    file = JsonlFile(path, loaded.entries)
    file.append(pin(3))
    file.close()

    assert path.read_bytes() == dump_line(pin(1)) + torn + b"\n" + dump_line(pin(3))
    assert load_entries(path).entries == (pin(1), pin(3))


def test_a_whole_last_line_without_newline_counts_for_ever(path: Path) -> None:
    """Loading before and after the next append gives the same first entries."""
    path.write_bytes(dump_line(pin(1)) + dump_line(pin(2)).rstrip(b"\n"))
    first = load_entries(path)
    file = JsonlFile(path, first.entries)
    file.append(pin(3))
    file.close()

    assert first.entries == (pin(1), pin(2))
    assert first.warnings == ()
    assert load_entries(path).entries == (pin(1), pin(2), pin(3))


def test_bad_lines_are_named_and_the_rest_loads(path: Path) -> None:
    """Each bad line in the middle is named by its number; blank ones are nothing."""
    good = [dump_line(pin(n)) for n in range(3)]
    path.write_bytes(good[0] + b"\xff\xfe\n\n" + good[1] + b'{"v":1,"type":"pin"}\n' + good[2])
    loaded = load_entries(path)

    assert loaded.entries == (pin(0), pin(1), pin(2))
    assert [error.line_no for error in loaded.errors] == [2, 5]
    assert all(error.path == str(path) for error in loaded.errors)
    assert all(f"Line {n} of {path}" in w for n, w in zip([2, 5], loaded.warnings, strict=True))
    assert "its `at` is missing" in loaded.warnings[1]


def test_many_bad_lines_make_one_warning(path: Path) -> None:
    """A file full of rubbish does not flood the user; every line is still named."""
    path.write_bytes(b"rubbish\n" * 50)
    loaded = load_entries(path)

    assert len(loaded.errors) == 50
    assert len(loaded.warnings) == 1
    assert loaded.warnings[0].endswith("48, 49, 50.")


@given(st.data())
@settings(max_examples=50)
def test_no_damage_spreads(data: st.DataObject) -> None:
    """Cut or overwrite one line anywhere: every other line still loads."""
    import tempfile

    lines = [dump_line(entry) for entry in EXAMPLES]
    at = data.draw(st.integers(0, len(lines) - 1))
    hit = data.draw(st.integers(0, len(lines[at]) - 2))
    broken = [*lines]
    broken[at] = lines[at][:hit] + b"\xff" + lines[at][hit + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.jsonl"
        path.write_bytes(b"".join(broken))

        assert load_entries(path).entries == EXAMPLES[:at] + EXAMPLES[at + 1 :]


@pytest.mark.parametrize("room", [0, 1, 30, len(dump_line(pin(2))) - 2])
def test_a_full_disk_costs_nothing_that_was_stored(path: Path, room: int) -> None:
    """The append raises and names the file; when there is room again, nothing is missing."""
    file = JsonlFile(path)
    file.append(pin(1))
    with full_disk(path, room):
        with pytest.raises(StoreError, match=r"transcript\.jsonl could not be written") as caught:
            file.append(pin(2))
        with pytest.raises(StoreError):
            file.append(pin(3))
        assert load_entries(path).entries == (pin(1),)
    file.append(pin(4))
    file.close()

    assert caught.value.path == str(path)
    assert load_entries(path).entries == (pin(1), pin(2), pin(3), pin(4))


def test_a_line_that_lacks_only_its_newline_is_not_written_twice(path: Path) -> None:
    """When the disk is full just before the newline, the entry is stored, once."""
    file = JsonlFile(path)
    file.append(pin(1))
    with full_disk(path, len(dump_line(pin(2))) - 1):
        file.append(pin(2))
    file.append(pin(3))
    file.close()

    assert load_entries(path).entries == (pin(1), pin(2), pin(3))
    assert load_entries(path).warnings == ()


def test_closing_writes_what_waits(path: Path) -> None:
    """Entries that failed are written at the end at the latest; what cannot be is an error."""
    file = JsonlFile(path)
    file.append(pin(1))
    with full_disk(path, 0), pytest.raises(StoreError):
        file.append(pin(2))
    file.close()
    file.close()

    assert load_entries(path).entries == (pin(1), pin(2))

    file = JsonlFile(path, [pin(1), pin(2)])
    with full_disk(path, 0):
        with pytest.raises(StoreError):
            file.append(pin(3))
        with pytest.raises(StoreError):
            file.close()


def test_a_vanished_folder_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    """Appends raise while the folder is away, and lose nothing when it comes back."""
    folder = tmp_path / "session"
    folder.mkdir()
    file = JsonlFile(folder / "transcript.jsonl")
    file.append(pin(1))
    folder.rename(tmp_path / "away")
    with pytest.raises(StoreError, match="folder is gone"):
        file.append(pin(2))
    with pytest.raises(StoreError):
        file.close()
    (tmp_path / "away").rename(folder)
    file.append(pin(3))
    file.close()

    assert load_entries(file.path).entries == (pin(1), pin(2), pin(3))


def test_a_removed_file_is_written_again_whole(tmp_path: Path) -> None:
    """If folder and file were removed and the folder made anew, no part is missing."""
    folder = tmp_path / "session"
    folder.mkdir()
    file = JsonlFile(folder / "transcript.jsonl")
    for n in range(3):
        file.append(pin(n))
    shutil.rmtree(folder)
    with pytest.raises(StoreError):
        file.append(pin(3))
    folder.mkdir()
    file.append(pin(4))
    file.close()

    assert load_entries(file.path).entries == tuple(pin(n) for n in range(5))


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_regular_file_is_read_or_written(tmp_path: Path, kind: str) -> None:
    """A link, a pipe or a folder in the file's place raises StoreError and blocks nothing."""
    path, other = tmp_path / "transcript.jsonl", tmp_path / "other"
    other.write_bytes(b"")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(StoreError):
        load_entries(path)
    with pytest.raises(StoreError):
        JsonlFile(path).append(pin(1))

    assert other.read_bytes() == b""


def test_threads_do_not_mix_their_lines(path: Path) -> None:
    """Appends from several threads give whole lines, none missing."""
    file = JsonlFile(path)

    def run(first: int) -> None:
        for n in range(first, first + 50):
            file.append(pin(n, "x" * 5_000))

    threads = [threading.Thread(target=run, args=(k * 50,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    loaded = load_entries(path)

    assert loaded.warnings == ()
    assert sorted(e.n for e in loaded.entries if isinstance(e, PinEntry)) == list(range(200))
