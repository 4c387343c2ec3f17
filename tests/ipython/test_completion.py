"""Laws of completion behind `%agent`: it finds the prompt, and offers what a mention can name."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_ctx.ipython.completion import MOST_NAMES, complete_mention, find_prompt
from jupyter_ctx.ipython.mentions import parse
from jupyter_ctx.tools.project import Project


@pytest.mark.parametrize(
    ("typed", "prompt"),
    [
        ("%agent plot @d", "plot @d"),
        ("  %agent /co", "/co"),
        ("%%agent ", ""),
        ("%%agent x\nplot @d", "x\nplot @d"),
        ("%%agent\n\n@d", "\n@d"),
        ("x = 1\n%agent @", "@"),
        ("%agent", None),
        ("%agents @d", None),
        ("%%agent.x\n@d", None),
        ("x = 1\n@d", None),
        ("%%time\n@d", None),
    ],
)
def test_the_prompt_is_found(typed: str, prompt: str | None) -> None:
    """The text up to the cursor counts if it stands behind `%agent` or in a cell of `%%agent`."""
    lines = typed.split("\n")

    assert find_prompt(f"{typed} behind\nmore", len(lines) - 1, len(lines[-1])) == prompt
    assert find_prompt(typed, len(lines), 0) is None


class Loud:
    """Fails the test if anything is asked of it."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"asked for {name}")


NAMES = {"df": Loud(), "data": 1, "_x": 2, "exit": 3, "In": []}
CELLS = [("one", 1), ("two", 12), ("in-2", 2)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a folder with files whose names need more and less care."""
    for name in ("data.csv", "my file.txt", "d'x.csv", ".hidden", 'no"thing x'):
        (tmp_path / name).write_text("")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "deep.csv").write_text("")
    return Project(str(tmp_path))


def offered(begun: str, project: Project | None = None) -> list[str]:
    return complete_mention(begun, NAMES, {"exit": 3}, CELLS, project)


def test_names_cells_and_files(project: Project) -> None:
    """Names come first, then the other kinds, then files; what is hidden only if it is begun."""
    assert offered("d", project) == ["@data", "@df", '@"d\'x.csv"', "@data.csv", "@dir/"]
    assert offered("e") == ["@error"]
    assert offered("")[:2] == ["@data", "@df"]
    assert offered("", None)[2:] == ["@error", "@cell:", "@out:"]
    assert offered(".h", project) == ["@.hidden"]


def test_cells(project: Project) -> None:
    """Cells complete by number, the newest first, and by id; outputs by number."""
    assert offered("cell:") == ["@cell:2", "@cell:12", "@cell:1", *map("@cell:{}".format, IDS)]
    assert offered("cell:1") == ["@cell:12", "@cell:1"]
    assert offered("out:1") == ["@out:12", "@out:1"]
    assert offered("cell:t") == ["@cell:two"]
    assert offered("what:") == []


IDS = ("in-2", "two", "one")


def test_files(project: Project) -> None:
    """Paths complete folder by folder, in quotes where the name needs them."""
    assert offered("dir/", project) == ["@dir/deep.csv"]
    assert offered("./d", project)[-1] == "@./dir/"
    assert offered('"my', project) == ['@"my file.txt"']
    assert offered("my", project) == ['@"my file.txt"']
    assert offered("no", project) == []
    assert offered("../", project) == []
    assert offered("nowhere/", project) == []


def test_files_of_the_working_folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A begun path may count from the working folder, if that lies in the project."""
    monkeypatch.chdir(f"{project.root}/dir")
    assert offered("dee", project) == ["@deep.csv"]
    assert "@dir/" in offered("di", project)
    assert offered("../", project) == []
    monkeypatch.chdir("/")
    assert offered("dee", project) == []


def test_what_is_offered_can_be_mentioned(project: Project) -> None:
    """Every whole mention that is offered is read as that one mention."""
    for begun in ("", "d", "dir/", "cell:", "out:", '"'):
        for word in offered(begun, project):
            if not word.endswith(("/", ":")):
                assert [str(mention) for mention in parse(word).mentions] == [word]


def test_a_large_namespace_is_bounded() -> None:
    """Of a large namespace the last names are looked through."""
    names = {f"n{n}": n for n in range(3 * MOST_NAMES)}

    assert complete_mention("n0", names, {}, [], None) == []
    assert complete_mention(f"n{3 * MOST_NAMES - 1}", names, {}, [], None) == ["@n14999"]
