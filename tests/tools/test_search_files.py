"""Laws of `search_files`: which files a glob means, what is left out, and that it always ends."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_ctx.errors import ToolError
from jupyter_ctx.tools.find_files import find
from jupyter_ctx.tools.globs import to_regex
from jupyter_ctx.tools.project import Project

CAP = 20_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a small project."""
    for name, text in {
        "a.py": "import os\nneedle = 1\n",
        "src/b.py": "needle\nx\nneedle()\n",
        "src/deep/c.md": "# needle\n",
        "build/out.py": "needle\n",
        "src/gen/keep.txt": "needle\n",
        "src/gen/drop.txt": "needle\n",
        ".hidden/d.py": "needle\n",
        ".github/ci.yml": "needle: 1\n",
        ".env": "needle=1\n",
        "secret.key": "needle\n",
        ".gitignore": "build/\n*.key\n# words\n.env\n",
        "src/.gitignore": "gen/*\n!gen/keep.txt\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(root: Path, glob: str, pattern: str | None = None) -> list[str]:
    """Return the files that were found, in order."""
    lines = find(Project(str(root)), pattern, glob, CAP).split("\n")[:-1]
    return list(dict.fromkeys(re.split(r":| \(", line)[0] for line in lines))


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        (
            "",
            [
                ".gitignore",
                "a.py",
                "src/.gitignore",
                "src/b.py",
                "src/deep/c.md",
                "src/gen/keep.txt",
            ],
        ),
        ("*.py", ["a.py", "src/b.py"]),
        ("src", ["src/.gitignore", "src/b.py", "src/deep/c.md", "src/gen/keep.txt"]),
        ("src/*", ["src/.gitignore", "src/b.py"]),
        ("src/**/*.{md,txt}", ["src/deep/c.md", "src/gen/keep.txt"]),
        ("./src/[ab].py", ["src/b.py"]),
        ("src/?.py", ["src/b.py"]),
        ("build/**", ["build/out.py"]),
        ("build/out.py", ["build/out.py"]),
        (".hidden/*", [".hidden/d.py"]),
        ("**/.git*/*.yml", [".github/ci.yml"]),
        (".env", [".env"]),
        ("secret.key", ["secret.key"]),
        ("nothing*", []),
    ],
)
def test_globs_and_what_they_leave_out(root: Path, glob: str, found: list[str]) -> None:
    """Ignored files and dot folders come only where the glob names them."""
    assert names(root, glob) == found


def test_an_absolute_glob_inside_is_fine_and_one_outside_refused(root: Path) -> None:
    """Nothing outside the project is listed."""
    assert names(root, f"{root}/src/b.py") == ["src/b.py"]
    for glob in ("../*", "/etc/*", "~/*", "src/../../*", "a\nb"):
        with pytest.raises(ToolError):
            names(root, glob)


def test_hits_name_path_and_line(root: Path) -> None:
    """A hit is told as path:line, and the last line what was searched."""
    said = find(Project(str(root)), "needle", "src/b.py", CAP)

    assert said == "src/b.py:1: needle\nsrc/b.py:3: needle()\n[2 hits in 1 file]"
    with pytest.raises(ToolError, match="no Python regular expression"):
        find(Project(str(root)), "(", "", CAP)


def test_links_are_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A loop ends, and what lies behind a link out of the project is not found."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "e.py").write_text("needle\n")
    (root / "out").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "e.py").symlink_to(outside / "e.py")
    os.mkfifo(root / "pipe.py")

    assert names(root, "*.py", "needle") == ["a.py", "src/b.py"]
    assert names(root, "out/*") == []


def test_at_most_a_hundred(root: Path) -> None:
    """Hits are cut at 100 and at the room there is, and that is said."""
    (root / "many.txt").write_text("needle\n" * 500)

    said = find(Project(str(root)), "needle", "many.txt", CAP).split("\n")
    assert len(said) == 101
    assert "there may be more" in said[-1]
    short = find(Project(str(root)), "needle", "many.txt", 800)
    assert len(short) <= 800
    assert "there may be more" in short


def test_binary_and_notebooks(root: Path) -> None:
    """Binary files are counted, not searched; of a notebook the cells are, never their outputs."""
    (root / "x.bin").write_bytes(b"needle\x00needle")
    cells = [
        {"cell_type": "markdown", "id": "m1", "source": ["# one\n", "needle two"]},
        {"cell_type": "code", "source": "x", "outputs": [{"text": "needle"}]},
    ]
    (root / "n.ipynb").write_text(json.dumps({"cells": cells}))
    (root / "bad.ipynb").write_text('needle {"cells": ')

    said = find(Project(str(root)), "needle", "*.{bin,ipynb}", CAP)

    assert "n.ipynb:cell m1:2: needle two" in said
    assert 'bad.ipynb:1: needle {"cells": ' in said
    assert "2 hits in 3 files; 1 binary not searched" in said


def test_a_bad_pattern_is_stopped(root: Path) -> None:
    """A pattern that never ends is killed with its process; what was found before it counts."""
    (root / "src" / "deep" / "z.txt").write_text("a" * 60 + "!\n")
    project = Project(str(root))

    with pytest.raises(ToolError, match="stopped after"):
        find(project, r"(a+)+$", "z.txt", CAP, limit_s=0.5)
    said = find(project, r"needle|(a+)+$", "", CAP, limit_s=0.5)
    assert "a.py:2: needle = 1" in said
    assert "stopped after" in said


def test_odd_names_are_spelled_out(root: Path) -> None:
    """A name that is no text, or has control characters, is told on one line as valid text."""
    with open(os.fsencode(root) + b"/\xff\nodd.txt", "w") as file:
        file.write("needle\n")

    said = find(Project(str(root)), None, "*odd.txt", CAP)

    assert said.startswith("\\udcff\\nodd.txt (7 bytes)")
    said.encode()


@given(st.text(alphabet="ab*?[]{}!,/\\^-.é", max_size=20), st.text(max_size=10))
@example("[z-a]", "z")
@example("[!a]*", "b")
@example("{a,b", "a")
@example("\\", "\\")
def test_any_glob_is_a_pattern(glob: str, name: str) -> None:
    """Whatever is written, the expression compiles; without wildcards it means itself."""
    pattern = re.compile(to_regex(glob), re.DOTALL)
    pattern.fullmatch(name)
    if not set(glob) & set("*?[{\\"):
        assert pattern.fullmatch(glob)


@pytest.mark.parametrize(
    ("glob", "path", "means"),
    [
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("a/**", "a/b/c", True),
        ("a**b", "axb", True),
        ("a**b", "a/b", False),
        ("[!a].py", "b.py", True),
        ("[!a].py", "a.py", False),
        ("[a-c]?", "bz", True),
        ("{x,y}/*.{md,py}", "y/a.py", True),
        ("[", "[", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
    ],
)
def test_what_globs_mean(glob: str, path: str, means: bool) -> None:
    """Examples, as in a shell with `**`."""
    assert (re.fullmatch(to_regex(glob), path) is not None) is means
