"""Files of a folder are read within it, bounded, and without waiting."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from jupyter_ctx.surroundings.reading import (
    MOST_BYTES,
    NO_FILE,
    NO_TEXT,
    OUTSIDE,
    list_names,
    read_own,
    read_text,
)


def test_a_file_is_read_with_its_real_path_and_digest(tmp_path: Path) -> None:
    """The digest is that of the bytes whose text is given; a mark at the beginning is no text."""
    data = "\ufeffpolars, naïve\n".encode()
    (tmp_path / "AGENTS.md").write_bytes(data)

    found = read_text(str(tmp_path), "AGENTS.md")

    assert found is not None
    assert (found.text, found.fault) == ("polars, naïve\n", "")
    assert found.digest == hashlib.sha256(data).hexdigest()
    assert found.path == str(tmp_path / "AGENTS.md")


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    """A link to a file of the folder gives that file, by its real path."""
    (tmp_path / "AGENTS.md").write_text("x")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")

    found = read_text(str(tmp_path), "CLAUDE.md")

    assert found is not None
    assert (found.path, found.text) == (str(tmp_path / "AGENTS.md"), "x")


@pytest.mark.parametrize("kind", ["file", "folder", "parent"])
def test_what_leads_out_is_named_and_not_read(tmp_path: Path, kind: str) -> None:
    """A link out of the folder, at the end or in the middle, gives no text and no digest."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.md").write_text("private")
    if kind == "file":
        (root / "a.md").symlink_to(outside / "a.md")
    else:
        (root / "sub").symlink_to(outside if kind == "folder" else "../outside")

    found = read_text(str(root), "a.md" if kind == "file" else "sub/a.md")

    assert found is not None
    assert (found.text, found.digest, found.fault) == ("", "", OUTSIDE)


def test_a_folder_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    """`/x/root-two` does not lie in `/x/root`."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root-two").mkdir()
    (tmp_path / "root-two" / "a.md").write_text("private")
    (tmp_path / "root" / "a.md").symlink_to(tmp_path / "root-two" / "a.md")

    found = read_text(str(tmp_path / "root"), "a.md")

    assert found is not None
    assert found.fault == OUTSIDE


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder", "loop"])
def test_what_is_no_regular_file_is_named_at_once(tmp_path: Path, kind: str) -> None:
    """A pipe without a writer, a socket, a folder, a link to itself: a fault, and no waiting."""
    path = tmp_path / "AGENTS.md"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "socket":
            here = os.open(".", os.O_RDONLY)
            with socket.socket(socket.AF_UNIX) as server:
                try:
                    os.chdir(tmp_path)
                    server.bind(path.name)
                finally:
                    os.fchdir(here)
                    os.close(here)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to("AGENTS.md")

    found = read_text(str(tmp_path), "AGENTS.md")

    assert found is not None
    assert found.fault in (NO_FILE, OUTSIDE, "a symbolic link was put in its place")
    assert (found.text, found.digest) == ("", "")


def test_a_huge_file_is_named_and_not_read(tmp_path: Path) -> None:
    """The most bytes are read whole; one more is a fault."""
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"x" * MOST_BYTES)
    whole = read_text(str(tmp_path), "AGENTS.md")
    with path.open("r+b") as stream:
        stream.truncate(2**40)

    found = read_text(str(tmp_path), "AGENTS.md")

    assert whole is not None
    assert len(whole.text) == MOST_BYTES
    assert found is not None
    assert found.fault == "it is larger than 160,000 bytes"


def test_bytes_that_are_no_text_are_a_fault(tmp_path: Path) -> None:
    """Text is UTF-8 or none."""
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe\x00")

    found = read_text(str(tmp_path), "AGENTS.md")

    assert found is not None
    assert found.fault == NO_TEXT


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    """Neither a file nor a folder that is missing is a fault."""
    assert read_text(str(tmp_path), "AGENTS.md") is None
    assert read_text(str(tmp_path), "sub/AGENTS.md") is None
    assert read_own(str(tmp_path / "x")) is None


def test_a_file_that_may_not_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system refuses is a fault in its words."""
    (tmp_path / "AGENTS.md").write_text("x")
    real_open = os.open

    def refuse(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if path == "AGENTS.md":
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    found = read_text(str(tmp_path), "AGENTS.md")

    assert found is not None
    assert found.fault == "Permission denied"


def test_a_link_swapped_in_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the real path and the opening, a folder becomes a link out: refused."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (root / "sub" / "a.md").write_text("mine")
    (outside / "a.md").write_text("private")
    real = os.path.realpath

    def swap(path: str) -> str:
        found = real(path)
        if path.endswith("a.md"):
            (root / "sub" / "a.md").unlink()
            (root / "sub").rmdir()
            (root / "sub").symlink_to(outside)
        return found

    monkeypatch.setattr(os.path, "realpath", swap)
    found = read_text(str(root), "sub/a.md")

    assert found is not None
    assert (found.text, bool(found.fault)) == ("", True)


def test_names_are_listed_within_the_folder_and_bounded(tmp_path: Path) -> None:
    """Names are sorted and at most so many; of a folder outside there are none."""
    (tmp_path / "root" / "skills").mkdir(parents=True)
    for name in "cab":
        (tmp_path / "root" / "skills" / name).mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    root = str(tmp_path / "root")

    assert list_names(root, "skills", 10) == ["a", "b", "c"]
    assert len(list_names(root, "skills", 2)) == 2
    assert list_names(root, "out", 10) == []
    assert list_names(root, "missing", 10) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Whatever was in the way, everything that was opened is closed."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("x")
    os.mkfifo(tmp_path / "sub" / "pipe")
    before = len(os.listdir("/proc/self/fd"))

    for name in ("sub/a.md", "sub/pipe", "sub/none", "sub", "sub/a.md/below"):
        read_text(str(tmp_path), name)
        list_names(str(tmp_path), name, 10)

    assert len(os.listdir("/proc/self/fd")) == before
