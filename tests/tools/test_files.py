"""Laws of the file tools: inside the project only, never over what was not seen, whole or not."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.errors import ToolError
from jupyter_ctx.ipython.disk import parse_notebook
from jupyter_ctx.testing import FakeNotebook
from jupyter_ctx.tools import files as files_module
from jupyter_ctx.tools.files import FileTools
from jupyter_ctx.tools.filestate import MOST_BYTES, ProjectFiles, state_of
from jupyter_ctx.tools.filetypes import decode
from jupyter_ctx.tools.project import Project, always_asks, find_root
from jupyter_ctx.tools.seen import Seen

CAP = 50_000
SECRET = "the neighbour's words"

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project beside which lies a file that is none of its business."""
    (tmp_path / "outside.txt").write_text(SECRET)
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "a.py").write_text("x = 1\ny = 2\n")
    return project


class Tools:
    """The file tools over one folder, called as the model calls them."""

    def __init__(self, root: Path, **more: Any) -> None:
        self.root = root
        self.files = FileTools(Project(str(root)), Seen(), parse=parse_notebook, **more)
        self._tools = {tool.spec.name: tool for tool in self.files.make()}

    def __call__(self, tool: str, path: str, cap: int = CAP, **arguments: Any) -> ToolOutput:
        async def run() -> ToolOutput:
            return await self._tools[tool].run({"path": path, **arguments}, cap)

        return asyncio.run(run())

    def read(self, path: str, cap: int = CAP, **arguments: Any) -> str:
        text = self("read_file", path, cap, **arguments).text
        assert isinstance(text, str)
        return text

    def refused(self, tool: str, path: str, **arguments: Any) -> str:
        """Return why the call is refused."""
        with pytest.raises(ToolError) as caught:
            self(tool, path, **arguments)
        return str(caught.value)


@pytest.fixture
def tools(root: Path) -> Tools:
    return Tools(root)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and bytes of every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# Where they may go ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "src/../../outside.txt",
        "src/..",
        "..\\outside.txt",
        "/etc/passwd",
        "~root/x",
        "link/outside.txt",
        "file_link",
        ".",
        "",
        "   ",
        "a\x00b",
        "a\nb",
        "a\ud800",
        "a" * 5_000,
        "/dev/zero",
        "/proc/self/environ",
    ],
)
def test_nothing_outside_is_read_or_written(tools: Tools, path: str) -> None:
    """A path that leads out, by whatever road, is refused by every tool, and nothing changes."""
    (tools.root / "link").symlink_to(tools.root.parent)
    (tools.root / "file_link").symlink_to(tools.root.parent / "outside.txt")
    before = snapshot(tools.root.parent)

    said = [
        tools.refused("read_file", path),
        tools.refused("write_file", path, text="mine"),
        tools.refused("edit_file", path, old="words", new="mine"),
    ]

    assert snapshot(tools.root.parent) == before
    assert all(SECRET not in text for text in said)


PIECES = st.sampled_from(
    [
        "..",
        ".",
        "",
        "src",
        "a.py",
        "link",
        "loop",
        "up",
        "~",
        "\x00",
        "\u202e",
        "..\u200b",
        "c:",
        "\\",
    ]
)


@COMMON
@given(st.lists(PIECES, min_size=1, max_size=6), st.booleans())
@example(["link", "outside.txt"], False)
def test_no_path_leads_out(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], absolute: bool
) -> None:
    """Any path is refused, or names a file really below the root; links and loops included."""
    root = tmp_path_factory.mktemp("any")
    (root / "src").mkdir()
    (root / "link").symlink_to(root.parent)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    path = "/".join(pieces)
    project = Project(str(root))
    try:
        place = project.find(f"{root}/{path}" if absolute else path)
    except ToolError:
        return
    assert os.path.realpath(place.path).startswith(f"{root}/")
    assert ".." not in place.parts


def test_the_error_names_the_root(tools: Tools) -> None:
    """What lies outside is refused with where these tools may go."""
    assert str(tools.root) in tools.refused("read_file", "/etc/hostname")


def test_absolute_paths_and_links_inside_are_fine(tools: Tools) -> None:
    """A file is told by its real name, whichever way it was named."""
    (tools.root / "alias").symlink_to("src")

    assert tools.read(str(tools.root / "src" / "a.py")) == "x = 1\ny = 2\n"
    assert tools.read("alias/a.py") == "x = 1\ny = 2\n"
    output = tools("edit_file", "alias/a.py", old="x = 1", new="x = 3")
    assert "src/a.py" in str(output.text)
    assert output.edits[0].target == str(tools.root / "src" / "a.py")
    assert (tools.root / "alias").is_symlink()


@pytest.mark.parametrize("name", ["pipe", "folder", "loop", "dangling", "a.py/x"])
def test_what_is_no_file_is_named_at_once(tools: Tools, name: str) -> None:
    """A pipe, folder, loop or dangling link blocks nobody and is written by nobody."""
    os.mkfifo(tools.root / "pipe")
    (tools.root / "folder").mkdir()
    (tools.root / "loop").symlink_to("loop")
    (tools.root / "dangling").symlink_to("/nowhere")

    tools.refused("read_file", name if "/" not in name else f"src/{name}")
    tools.refused("write_file", name if "/" not in name else f"src/{name}", text="x")
    assert not Path("/nowhere").exists()


def test_a_folder_swapped_for_a_link_is_not_followed(tools: Tools) -> None:
    """Between the look at a path and its opening a link cannot lead out of the project."""
    project = tools.files.project
    place = project.find("src/outside.txt")
    (tools.root / "src" / "a.py").unlink()
    (tools.root / "src").rmdir()
    (tools.root / "src").symlink_to(tools.root.parent)

    with pytest.raises(OSError, match=r"directory|symbolic"):
        project.open(place)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        project.replace(place, b"mine", None)
    assert (tools.root.parent / "outside.txt").read_text() == SECRET


def test_missing_files_have_near_names(tools: Tools) -> None:
    """An unknown name is an error that lists those of its folder."""
    assert "`a.py`" in tools.refused("read_file", "src/A.py")
    assert "no folder `nowhere`" in tools.refused("read_file", "nowhere/a.py")
    assert "`src`" in tools.refused("read_file", "srk")


def test_the_root_is_the_repository_or_the_folder(tmp_path: Path) -> None:
    """The repository that holds the notebook, else its folder, else the working folder."""
    deep = tmp_path / "repo" / "notebooks" / "deep"
    deep.mkdir(parents=True)

    assert find_root(str(deep / "n.ipynb"), "/") == str(deep)
    (tmp_path / "repo" / ".git").write_text("gitdir: elsewhere")
    assert find_root(str(deep / "n.ipynb"), "/") == str(tmp_path / "repo")
    assert find_root(None, str(deep)) == str(tmp_path / "repo")


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        (".git/hooks/pre-commit", True),
        (".GIT/config", True),
        (".g\u200cit/config", True),
        ("\uff0egit/config", True),
        ("git~1/config", True),
        ("sub/.jupyter_ctx/settings.json", True),
        (".env", True),
        ("AGENTS.md", True),
        ("docs/agents.MD", True),
        ("claude.md.", True),
        ("sub/CRUSH.md", True),
        ("CLAUDE.md::$DATA", True),
        (".mcp.json", True),
        ("src/agents.py", False),
        ("README.md", False),
        ("a.b/c", False),
        ("…/x", False),
    ],
)
def test_guarded_names(name: str, asks: bool) -> None:
    """Dot names and what tells agents what to do always ask, in any spelling; others do not."""
    assert always_asks(name) is asks


def test_a_link_to_a_guarded_file_asks_too(tools: Tools) -> None:
    """The real path counts, and the program's own home is guarded where it lies inside."""
    (tools.root / ".git").mkdir()
    (tools.root / "innocent").symlink_to(".git")
    project = Project(str(tools.root), [str(tools.root / "home")])

    assert project.must_ask("innocent/config")
    assert project.must_ask("home/settings.json")
    assert not project.must_ask("src/a.py")
    assert not project.must_ask("../x")  # it is refused anyway


# Reading ----------------------------------------------------------------------------------------


def test_pages_read_to_the_end(tools: Tools) -> None:
    """A text that does not fit names where to go on, and so can be read whole."""
    lines = [f"line {n} " + "x" * 80 for n in range(1, 400)]
    (tools.root / "long.txt").write_text("\n".join(lines) + "\n")

    read: list[str] = []
    start = 1
    while start:
        *page, note = tools.read("long.txt", 2_000, start_line=start).split("\n")
        read += page
        start = int(note.rpartition("start_line=")[2].rstrip("]")) if "start_line=" in note else 0

    assert read == lines
    assert "start_char=2001" in _long(tools)


def _long(tools: Tools) -> str:
    (tools.root / "wide.txt").write_text("y" * 5_000)
    return tools.read("wide.txt")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "PNG image"),
        (b"PAR1" + bytes(20), "Parquet"),
        (b"SQLite format 3\x00" + bytes(100), "SQLite"),
        (b"%PDF-1.4\n%\xe2\xe3", "PDF"),
        (b"PK\x03\x04" + bytes(30), "ZIP"),
        (bytes(range(256)), "no known kind"),
        (b"text with a NUL \x00 in it", "no known kind"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "no known kind"),
    ],
)
def test_binary_files_are_described_and_not_written(tools: Tools, data: bytes, kind: str) -> None:
    """Size and kind are told, no byte of it is dumped, and no write goes over it."""
    (tools.root / "data.bin").write_bytes(data)

    said = tools.read("data.bin")

    assert kind in said
    assert f"{len(data):,} bytes" in said
    assert len(said) < 300
    assert "no text file" in tools.refused("write_file", "data.bin", text="x")
    assert (tools.root / "data.bin").read_bytes() == data


def test_huge_files_are_described(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a huge text the size and the first lines are told; its lines can be read, not written."""
    line = "a,b,c,d\n"
    with open(tools.root / "huge.csv", "w") as file:
        file.write(line * (MOST_BYTES // len(line) + 1_000))

    said = tools.read("huge.csv")

    assert "bytes of text" in said
    assert len(said) < 2 * files_module.HEAD_CHARS
    assert tools.read("huge.csv", start_line=1_000_000, end_line=1_000_001).count("a,b,c,d") == 2
    assert "up to" in tools.refused("edit_file", "huge.csv", old="a", new="b")
    monkeypatch.setattr(files_module, "MOST_PAGED_BYTES", 1_000)
    assert tools.read("huge.csv").endswith("use run_code.")


def test_a_notebook_is_outlined(tools: Tools) -> None:
    """Of a notebook cells are listed, not JSON, however damaged it is."""
    cell = {"cell_type": "code", "id": "c1", "source": "x = 1", "outputs": [], "metadata": {}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    (tools.root / "n.ipynb").write_text(json.dumps(notebook))
    (tools.root / "bad.ipynb").write_text('{"cells": [')

    assert "c1 | In[ ] | not run | x = 1" in tools.read("n.ipynb")
    assert "no valid JSON" in tools.read("bad.ipynb")


# Writing ----------------------------------------------------------------------------------------


def test_a_new_file_with_its_folders(tools: Tools) -> None:
    """Missing folders are made; the edit says that nothing stood there and how many were."""
    output = tools("write_file", "new/deep/b.py", text="z = 3\n")

    assert (tools.root / "new/deep/b.py").read_text() == "z = 3\n"
    (edit,) = output.edits
    assert (edit.kind, edit.before, edit.after) == ("file", None, {"text": "z = 3\n", "folders": 2})


def test_an_unread_or_changed_file_is_not_overwritten(tools: Tools) -> None:
    """The refusal shows what stands there, which then was seen; so the next try is made."""
    path = tools.root / "src" / "a.py"
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("write_file", {"text": "mine\n"}),
        ("edit_file", {"old": "y = 2", "new": "y = 4"}),
    )
    for tool, more in calls:
        path.write_text(f"x = 1\ny = 2\n# {tool}\n")
        said = tools.refused(tool, "src/a.py", **more)
        assert f"# {tool}" in said
        assert path.read_text() == f"x = 1\ny = 2\n# {tool}\n"
        tools(tool, "src/a.py", **more)
        assert path.read_text() != f"x = 1\ny = 2\n# {tool}\n"
    tools.read("src/a.py")
    path.write_text("theirs\n")
    assert "has changed since you read it" in tools.refused("write_file", "src/a.py", text="mine")


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("a\na\nb\n", "a", "2 times, in lines 1, 2"),
        ("aaa", "aa", "2 times, in lines 1, 1"),
        ("  x = 1\n", "\tx = 1", "line 1, as\n1: '  x = 1'"),
        ("b\n", "a", "does not stand"),
    ],
)
def test_old_must_stand_there_once(tools: Tools, text: str, old: str, said: str) -> None:
    """Otherwise how often and where is told, and nothing is written."""
    (tools.root / "t.txt").write_text(text)
    tools.read("t.txt")

    assert said in tools.refused("edit_file", "t.txt", old=old, new="c")
    assert (tools.root / "t.txt").read_text() == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_encoding_and_newlines_are_kept(tools: Tools, encoding: str, newline: str) -> None:
    """BOM, encoding and line ends of a file stay, whichever the model writes."""
    path = tools.root / "t.txt"
    path.write_bytes("één\nzwei\ndrei\n".replace("\n", newline).encode(encoding))
    tools.read("t.txt")

    tools("edit_file", "t.txt", old="zwei\ndrei", new="2\n3")
    assert path.read_bytes() == "één\n2\n3\n".replace("\n", newline).encode(encoding)
    tools("write_file", "t.txt", text="α\nβ\n")
    assert path.read_bytes() == "α\nβ\n".replace("\n", newline).encode(encoding)


def test_latin_1_is_read_only(tools: Tools) -> None:
    """Text that is no UTF-8 is shown, said to be a guess, and not written."""
    path = tools.root / "t.txt"
    path.write_bytes("naïve café\n".encode("latin-1"))

    assert "Latin-1" in tools.read("t.txt")
    assert "naïve café" in tools.read("t.txt")
    assert "read only" in tools.refused("edit_file", "t.txt", old="caf", new="x")
    assert path.read_bytes() == "naïve café\n".encode("latin-1")


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "\x01\x02\x03\x04\x05"])
def test_what_would_not_be_read_back_is_not_written(tools: Tools, text: str) -> None:
    """NULs, lone surrogates and control characters make no text file."""
    tools.refused("write_file", "t.txt", text=text)

    assert not (tools.root / "t.txt").exists()
    assert os.listdir(tools.root) == ["src"]


def test_the_mode_is_kept_and_read_only_is_respected(tools: Tools) -> None:
    """An executable stays one; a file nobody may write is not replaced by another."""
    path = tools.root / "src" / "a.py"
    path.chmod(0o750)
    tools.read("src/a.py")
    tools("write_file", "src/a.py", text="x\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    path.chmod(0o444)

    assert "read-only" in tools.refused("write_file", "src/a.py", text="y\n")
    assert path.read_text() == "x\n"


def test_a_name_that_cannot_be_made_leaves_no_folder(tools: Tools) -> None:
    """Where a folder on the path cannot be made, those above it are not left behind."""
    path = f"new/deep/{'x' * 300}/a.txt"

    assert "the name is too long" in tools.refused("write_file", path=path, text="x")
    assert not (tools.root / "new").exists()


@pytest.mark.parametrize("name", ["src/a.py", "new/deep/b.py"])
def test_a_full_disk_damages_nothing(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The file is as it was, and neither a half file nor an empty folder is left."""
    tools.read("src/a.py")
    before, write = snapshot(tools.root), os.write

    def full(fd: int, data: bytes) -> int:
        write(fd, bytes(data[:2]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    said = tools.refused("write_file", name, text="much longer\n")
    monkeypatch.undo()

    assert "the disk is full" in said
    assert snapshot(tools.root) == before
    assert os.listdir(tools.root) == ["src"]


def test_a_change_in_the_last_moment_is_seen(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an editor saves between the look and the write is not lost."""
    path, fchmod = tools.root / "src" / "a.py", os.fchmod
    tools.read("src/a.py")

    def meanwhile(fd: int, mode: int) -> None:
        fchmod(fd, mode)
        path.write_text("theirs, just now\n")

    monkeypatch.setattr(os, "fchmod", meanwhile)
    assert "in this moment" in tools.refused("write_file", "src/a.py", text="mine\n")
    assert path.read_text() == "theirs, just now\n"


def test_a_redacted_key_is_not_written_over_itself(tools: Tools) -> None:
    """What stands for a key in what the model saw never takes the key's place."""
    path = tools.root / "conf.py"
    path.write_text("KEY = 'sk-secret'\n")
    tools.read("conf.py")

    said = tools.refused("write_file", "conf.py", text="KEY = '[redacted: ANTHROPIC_API_KEY]'\n")

    assert "stands for a key" in said
    assert path.read_text() == "KEY = 'sk-secret'\n"


def test_the_notebook_is_never_written(root: Path) -> None:
    """Not the kernel's own, by any name, not the one a page shows, nor any other that is there."""
    (root / "own.py").write_text("# %%\n")
    (root / "other.ipynb").write_text("{}")
    os.link(root / "own.py", root / "hard.py")
    shown = FakeNotebook(source="front end", path=str(root / "shown.IPYNB"))
    tools = Tools(root, own_path=str(root / "own.py"), notebook=shown)

    for name in ("own.py", "hard.py", "shown.IPYNB"):
        assert "edit_cell" in tools.refused("write_file", name, text="x")
    assert "may be open" in tools.refused("edit_file", "other.ipynb", old="{", new="[")
    assert (root / "own.py").read_text() == "# %%\n"
    tools("write_file", "new.ipynb", text='{"cells": []}')


async def test_a_stop_during_a_write_still_tells_of_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that a stop meets is finished, its edit is told, and then the turn is stopped."""
    writes, goes_on, write = threading.Event(), threading.Event(), os.write

    def slow(fd: int, data: bytes) -> int:
        writes.set()
        goes_on.wait()
        return write(fd, data)

    monkeypatch.setattr(os, "write", slow)
    tools = FileTools(Project(str(root)), Seen()).make()
    (tool,) = (tool for tool in tools if tool.spec.name == "write_file")
    task = asyncio.ensure_future(tool.run({"path": "b.py", "text": "1\n"}, CAP))
    await asyncio.to_thread(writes.wait)
    task.cancel()
    monkeypatch.undo()
    goes_on.set()
    output = await task

    assert (root / "b.py").read_text() == "1\n"
    assert output.interrupted
    assert len(output.edits) == 1


# What undo does with them -----------------------------------------------------------------------


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


CONTENTS = st.none() | st.binary(max_size=40) | st.text(max_size=40).map(_encoded)


@COMMON
@given(CONTENTS, st.text(max_size=40))
@example(b"\xef\xbb\xbfa\r\nb", "c")
@example(b"\xff\xfea\x00", "c")
def test_what_was_written_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, before: bytes | None, text: str
) -> None:
    """Whatever stood there: a write is refused with nothing changed, or its undo restores it."""
    root = tmp_path_factory.mktemp("undo")
    tools, path = Tools(root), root / "sub" / "t.txt"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    start = snapshot(root)
    try:
        tools("read_file", "sub/t.txt")
    except ToolError:
        assert before is None
    try:
        output = tools("write_file", "sub/t.txt", text=text)
    except ToolError:
        assert snapshot(root) == start
        return
    for edit in output.edits:
        put = ProjectFiles(tools.files.project).put
        asyncio.run(put(edit.target, edit.before, edit.after))
    assert snapshot(root) == start
    assert path.parent.exists() == (before is not None)


def test_undo_never_loses_what_somebody_else_wrote(tools: Tools) -> None:
    """What stands there now is compared with what was left; a link in its place is refused."""
    (edit,) = tools("write_file", "b.py", text="mine\n").edits
    put = ProjectFiles(tools.files.project).put
    path = tools.root / "b.py"
    path.write_text("theirs\n")
    with pytest.raises(ToolError, match="not as the agent left it"):
        asyncio.run(put(edit.target, edit.before, edit.after))
    assert path.read_text() == "theirs\n"

    path.unlink()
    asyncio.run(put(edit.target, edit.before, edit.after))  # it is gone already
    path.symlink_to("src/a.py")
    with pytest.raises(ToolError, match="not as the agent left it"):
        asyncio.run(put(edit.target, None, {"text": "x = 1\ny = 2\n"}))
    assert (tools.root / "src" / "a.py").exists()


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf")
@example(b"\xff\xfe")
@example(b"a\xe9")
def test_text_that_can_be_written_back_is_exact(data: bytes) -> None:
    """Law of the encodings: what decodes, and may be written, encodes to the same bytes."""
    text = decode(data)
    if text is not None and text.can_write:
        assert text.encode() == data
        assert state_of(text) is not None
