"""The edited files of a project, as they are now."""

from __future__ import annotations

import os

from jupyter_ctx.core.entries import Edit, EditEntry, EditUndoneEntry
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.ipython.workspace import GONE, MOST_READ, OUTSIDE, UNREADABLE, ProjectWorkspace
from jupyter_ctx.tools.filestate import MOST_BYTES
from jupyter_ctx.tools.project import Project


def edited(*paths, undone=()):
    """A transcript with an edit of each path, a second apart."""
    edits = [
        EditEntry(float(n), n, 1, Edit("file", str(path), None, {"text": ""}))
        for n, path in enumerate(paths, 1)
    ]
    return Transcript([*edits, *(EditUndoneEntry(99.0, n) for n in undone)])


async def test_every_edited_file_is_told_as_it_is(tmp_path):
    """The newest first, each once; what cannot be given says why, what was undone is left out."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_bytes(b"a = 1\r\n")
    (root / "b.bin").write_bytes(bytes(range(256)))
    (root / "huge.txt").write_bytes(b"x" * (MOST_BYTES + 10))
    (root / "folder").mkdir()
    (root / "undone.py").write_text("no")
    (tmp_path / "secret").write_text("not yours")
    (root / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "pipe")
    names = ("a.py", "b.bin", "huge.txt", "folder", "undone.py", "link", "pipe", "none", "a.py")
    paths = [root / name for name in names]
    workspace = ProjectWorkspace(Project(str(root)), lambda: edited(*paths, undone=[5]))

    found = await workspace.load_files()

    assert [(file.path, file.fault, file.changed_at) for file in found] == [
        ("a.py", "", 9.0),
        ("none", GONE, 8.0),
        ("pipe", UNREADABLE, 7.0),
        (str(root / "link"), OUTSIDE, 6.0),
        ("folder", UNREADABLE, 4.0),
        ("huge.txt", "", 3.0),
        ("b.bin", UNREADABLE, 2.0),
    ]
    assert found[0].text == "a = 1\n"
    assert len(found[5].text) > MOST_BYTES
    assert not any("not yours" in file.text for file in found)


async def test_only_the_newest_files_are_read(tmp_path):
    """However many files were edited, the text of the last ones is read, and all are named."""
    paths = [tmp_path / f"f{n}.md" for n in range(MOST_READ + 20)]
    for path in paths:
        path.write_text("text")
    workspace = ProjectWorkspace(Project(str(tmp_path)), lambda: edited(*paths))

    found = await workspace.load_files()

    assert len(found) == len(paths)
    assert sum(file.text == "text" for file in found) == MOST_READ
    assert not any(file.fault for file in found)
