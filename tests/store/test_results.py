"""Laws of stored results and texts."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.ports import SpooledText, ToolOutput
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store.kept import Kept, KeptTexts, MemoryResults
from jupyter_ctx.store.results import ResultFolder
from jupyter_ctx.store.stored import StoredResult, file_stem, result_stem

from .disks import full_disk, mode_of, umask

OUTPUTS = ({"output_type": "stream", "name": "stdout", "text": "a\r\n日本\x00"},)
HOSTILE = [
    "",
    ".",
    "..",
    "../../escape",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\x00b",
    "nul",
    "COM1",
    "aux",
    "é",
    "x" * 129,
    ".hidden",
    "a.txt",
    "line\nbreak",
    "\ud800",
]


@pytest.fixture
def results(tmp_path: Path) -> ResultFolder:
    """The results of one session, nothing stored yet."""
    (tmp_path / "home").mkdir(mode=0o700)
    return ResultFolder(tmp_path / "home", "session-1")


def read(results: ResultFolder | MemoryResults, name: str) -> str:
    """Return a whole text."""
    with results.open_text(name) as file:
        return file.read()


def files_below(folder: Path) -> set[str]:
    """Return every file below a folder, relative to it."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


def spool(results: ResultFolder | MemoryResults, data: bytes) -> SpooledText:
    """Write a spool and describe it."""
    fd, path = results.make_spool()
    os.write(fd, data)
    os.close(fd)
    text = data.decode()
    return SpooledText(str(path), len(text), text.count("\n"), len(data), text[:9], text[-9:])


def test_a_result_has_two_files(results: ResultFolder) -> None:
    """Outputs go to `<id>.json`, the text as printed to `<id>.txt`, both for the owner only."""
    text = "a\r\n日本\x00 \x1b[1m"
    with umask(0):
        path = results.save_result("toolu_01", "run_code", ToolOutput(text, outputs=OUTPUTS))
    folder = results.home / "tool-results" / "session-1"

    assert path == "tool-results/session-1/toolu_01.txt"
    assert (results.home / path).read_bytes() == text.encode()
    assert json.loads((folder / "toolu_01.json").read_bytes()) == {
        "version": 1,
        "tool": "run_code",
        "outputs": [*OUTPUTS],
    }
    assert files_below(results.home) == {path, path.replace(".txt", ".json")}
    assert {mode_of(folder / name) for name in os.listdir(folder)} == {0o600}
    assert {mode_of(p) for p in (results.home, folder.parent, folder)} == {0o700}


def test_a_result_is_read_back(results: ResultFolder) -> None:
    """Text, outputs and path come back by the id of the call."""
    results.save_result("toolu_01", "run_code", ToolOutput("1\r\n2\n", outputs=OUTPUTS))

    assert results.read_text("toolu_01") == "1\r\n2\n"
    assert results.read_result("toolu_01") == StoredResult("run_code", OUTPUTS)
    assert results.find_path("toolu_01") == results.path / "toolu_01.txt"
    assert results.has("toolu_01")


def test_a_prompt_is_read_back(results: ResultFolder) -> None:
    """A long prompt is stored under its name."""
    path = results.save_text("prompt-3", "long\n")

    assert path == "tool-results/session-1/prompt-3.txt"
    assert results.read_text("prompt-3") == "long\n"


def test_what_was_never_stored_is_an_error(results: ResultFolder) -> None:
    """Reading an unknown name says so; asking is not an error."""
    for name in ("toolu_09", "prompt-1", "../x"):
        assert not results.has(name)
        assert results.find_path(name) is None
        with pytest.raises(StoreError, match="no stored text"):
            results.open_text(name)
        with pytest.raises(StoreError):
            results.read_result(name)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leaves_the_folder(results: ResultFolder, name: str) -> None:
    """Whatever the id, its files lie in the session's folder, under a plain name, and are found."""
    results.save_result(name, "run_code", ToolOutput("result", outputs=OUTPUTS))
    results.save_text(name, "text")
    root = results.home.parent

    assert all(f.startswith("home/tool-results/session-1/") for f in files_below(root))
    assert all(
        len(f.split("/")[-1]) == 64 + len(".txt") + f.endswith("json") for f in files_below(root)
    )
    assert results.read_text(name) == "text"
    assert results.read_result(name).tool == "run_code"


@given(st.text(max_size=200))
def test_stems_are_plain_and_distinct(name: str) -> None:
    """A file's name is the id or a digest of it, and never a device's or another file's."""
    stem = file_stem(name)

    assert stem == name or (len(stem) == 64 and stem.isalnum())
    assert stem.isascii()
    assert not set(stem) & set("./\\:\x00")
    assert stem.lower() not in ("con", "nul", "prn", "aux")


@pytest.mark.parametrize("name", ["prompt-1", "turn-2", "cell-in-3-1"])
def test_a_call_cannot_take_the_place_of_a_prompt(results: ResultFolder, name: str) -> None:
    """An id that looks like the name of a text is stored apart from that text."""
    results.save_text(name, "mine")
    results.save_result(name, "run_code", ToolOutput("theirs"))

    assert results.read_text(name) == "mine"
    assert (results.path / f"{result_stem(name)}.txt").read_text() == "theirs"


def test_a_link_in_a_files_place_is_replaced_not_followed(
    results: ResultFolder, tmp_path: Path
) -> None:
    """Writing never goes through a symbolic link, reading neither."""
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    results.save_text("prompt-1", "")
    (results.path / "a.txt").symlink_to(outside)
    with pytest.raises(StoreError):
        results.read_text("a")
    results.save_result("a", "run_code", ToolOutput("new"))

    assert outside.read_text() == "untouched"
    assert results.read_text("a") == "new"


def test_a_folder_that_is_a_link_is_refused(results: ResultFolder, tmp_path: Path) -> None:
    """A session's folder that leads elsewhere is neither written nor read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    results.path.parent.mkdir(parents=True)
    results.path.symlink_to(outside)

    with pytest.raises(StoreError, match="symbolic link"):
        results.save_result("b", "run_code", ToolOutput("new"))
    with pytest.raises(StoreError):
        results.read_text("a")
    assert os.listdir(outside) == ["a.txt"]


def test_a_pipe_in_a_files_place_blocks_nothing(results: ResultFolder) -> None:
    """A pipe is no stored text, and reading it returns at once."""
    results.save_text("prompt-1", "")
    os.mkfifo(results.path / "a.txt")

    with pytest.raises(StoreError):
        results.read_text("a")


def test_a_lone_surrogate_is_written_visibly(results: ResultFolder) -> None:
    """A text that is no valid Unicode still gives a UTF-8 file."""
    results.save_result("a", "run_code", ToolOutput("x\ud800", outputs=({"text": "\ud800"},)))

    assert results.read_text("a") == "x\\ud800"
    assert results.read_result("a").outputs == ({"text": "\ud800"},)


def test_a_bad_json_file_is_an_error(results: ResultFolder) -> None:
    """A torn or foreign result file raises StoreError that names it."""
    results.save_result("a", "run_code", ToolOutput("x"))
    for data in (b"", b"{", b"[]", b'{"tool":1,"outputs":[]}', b'{"tool":"a","outputs":{}}'):
        (results.path / "a.json").write_bytes(data)
        with pytest.raises(StoreError, match=r"a\.json is no stored result"):
            results.read_result("a")


def test_outputs_that_are_no_json_are_an_error(results: ResultFolder) -> None:
    """They raise StoreError, leave no file, and the text can be read all the same."""
    for place in (results, MemoryResults()):
        with pytest.raises(StoreError, match="no JSON"):
            place.save_result("a", "run_code", ToolOutput("text", outputs=({"a": object()},)))

        assert read(place, "a") == "text"
    assert files_below(results.home.parent) == set()


# Spools -----------------------------------------------------------------------------------------


def test_a_spool_is_moved_into_place(results: ResultFolder) -> None:
    """What was spooled is the result's text, byte for byte, and nothing else is left."""
    data = "a\r\n日本\n".encode() * 1000
    path = results.save_result("a", "run_code", ToolOutput(spool(results, data)))

    assert (results.home / path).read_bytes() == data
    assert mode_of(results.home / path) == 0o600
    assert files_below(results.path) == {"a.txt", "a.json"}


def test_a_spool_lies_in_the_sessions_folder(results: ResultFolder) -> None:
    """So that moving it is a rename; only its owner can read it."""
    with umask(0):
        fd, path = results.make_spool()
    os.close(fd)

    assert path.parent == results.path
    assert mode_of(path) == 0o600


def test_a_spool_on_another_disk_is_copied(results: ResultFolder) -> None:
    """Where a rename cannot do it, the text is copied and the spool removed."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == results.home.parent.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    source = other / f"jupyter-ctx-test-{os.getpid()}"
    source.write_bytes(b"text")
    results.save_result("a", "run_code", ToolOutput(SpooledText(str(source), 4, 1, 4, "", "")))

    assert not source.exists()
    assert results.read_text("a") == "text"
    assert files_below(results.path) == {"a.txt", "a.json"}


def test_closing_removes_spools_that_nobody_saved(results: ResultFolder) -> None:
    """A run that ended without a result leaves nothing behind."""
    results.save_text("prompt-1", "")
    spool(results, b"left over")
    results.close()

    assert files_below(results.path) == {"prompt-1.txt"}


def test_orphans_of_a_killed_process_are_removed(results: ResultFolder) -> None:
    """Spools and half-written files go when the session is opened again; stored ones stay."""
    results.save_text("prompt-1", "")
    spool(results, b"left over")
    (results.path / ".0123.tmp").write_bytes(b"half")
    ResultFolder(results.home, "session-1").clean()

    assert files_below(results.path) == {"prompt-1.txt"}


def test_a_spool_needs_no_store(tmp_path: Path) -> None:
    """Where the store cannot be written, the spool lies elsewhere and its text can be read."""
    (tmp_path / "home").write_text("a file")
    results = ResultFolder(tmp_path / "home", "session-1")
    text = spool(results, b"long")
    with pytest.raises(StoreError):
        results.save_result("a", "run_code", ToolOutput(text))

    assert mode_of(Path(text.path)) == 0o600
    assert results.read_text("a") == "long"
    results.close()
    assert not Path(text.path).exists()


# A store that fails -----------------------------------------------------------------------------


def test_a_full_disk_keeps_the_text_in_memory(results: ResultFolder) -> None:
    """The save raises, nothing half is left, the text can be read, and is written later on."""
    results.save_result("a", "run_code", ToolOutput("first"))
    with (
        full_disk(results.path / "none", 3),
        pytest.raises(StoreError, match=r"b\.txt could not be written"),
    ):
        results.save_result("b", "run_code", ToolOutput("second", outputs=OUTPUTS))

    assert files_below(results.path) == {"a.txt", "a.json"}
    assert results.has("b")
    assert results.read_text("b") == "second"
    assert results.read_result("b") == StoredResult("run_code", OUTPUTS)
    results.save_text("prompt-1", "third")
    assert files_below(results.path) == {"a.txt", "a.json", "b.txt", "b.json", "prompt-1.txt"}
    assert results.read_text("b") == "second"


def test_a_stored_result_survives_a_failed_save(results: ResultFolder) -> None:
    """Replacing a result is all or nothing."""
    results.save_result("a", "run_code", ToolOutput("first"))
    with full_disk(results.path / "none", 3), pytest.raises(StoreError):
        results.save_result("a", "run_code", ToolOutput("second"))

    assert (results.path / "a.txt").read_text() == "first"


def test_a_vanished_home_is_not_made_anew(results: ResultFolder) -> None:
    """While the home is away results stay in memory; when it is back they are written there."""
    results.save_result("a", "run_code", ToolOutput("first"))
    away = results.home.with_name("away")
    results.home.rename(away)
    with pytest.raises(StoreError):
        results.save_result("b", "run_code", ToolOutput("second"))

    assert not results.home.exists()
    assert results.read_text("b") == "second"
    away.rename(results.home)
    results.close()
    assert files_below(results.path) == {"a.txt", "a.json", "b.txt", "b.json"}


def test_a_removed_results_folder_is_made_again(results: ResultFolder) -> None:
    """Results are stored anew after their folder was removed; those that were in it are gone."""
    results.save_result("a", "run_code", ToolOutput("first"))
    shutil.rmtree(results.path.parent)
    results.save_result("b", "run_code", ToolOutput("second"))

    assert results.read_text("b") == "second"
    assert not results.has("a")


def test_memory_is_bounded() -> None:
    """The oldest texts give way; what is kept is within the limit."""
    kept = KeptTexts(limit=10)
    for name in "abc":
        kept.keep(name, Kept(name * 3, b"1"))

    assert [stem for stem, _ in kept.items()] == ["b", "c"]
    kept.keep("d", Kept("d" * 11))
    assert kept.items() == ()


def test_results_in_memory() -> None:
    """Without a home, results and prompts of the session can be read by the same names."""
    results = MemoryResults()
    results.save_result("../a", "run_code", ToolOutput("text", outputs=OUTPUTS))
    results.save_text("prompt-1", "prompt")
    long = spool(results, b"long")
    results.save_result("b", "run_code", ToolOutput(long))

    assert read(results, "../a") == "text"
    assert results.read_result("../a") == StoredResult("run_code", OUTPUTS)
    assert read(results, "prompt-1") == "prompt"
    assert read(results, "b") == "long"
    assert results.find_path("b") is None
    assert results.has("b")
    with pytest.raises(StoreError):
        results.open_text("c")
    with pytest.raises(StoreError):
        results.read_result("c")
    results.close()
    assert not Path(long.path).exists()
