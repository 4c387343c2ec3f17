"""Laws of what a mention attaches: the thing as it is now, bounded; else it is refused."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image as Pillow

from jupyter_ctx.config import Settings
from jupyter_ctx.core.absent import NoNotebook
from jupyter_ctx.core.blocks import Image, Text
from jupyter_ctx.core.ports import Cell, NotebookCell, NotebookState
from jupyter_ctx.errors import PromptError
from jupyter_ctx.ipython.attach import MOST_MENTIONS, Attacher
from jupyter_ctx.ipython.mentions import Mention, parse
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools import make_tools
from jupyter_ctx.tools.files import FileTools
from jupyter_ctx.tools.project import Project
from jupyter_ctx.tools.seen import Seen


class NoTexts:
    """Has no stored text."""

    def read_text(self, name: str) -> Any:
        return None

    def names(self) -> list[str]:
        return []


class Page:
    """A notebook as a front end shows it."""

    def __init__(self, *cells: NotebookCell) -> None:
        self._cells = cells

    async def load(self, outputs_of: Any = ()) -> NotebookState:
        return NotebookState(self._cells, "front end", can_edit=True)

    async def apply(self, change: object) -> Any:
        raise AssertionError("Nothing is changed here.")


def picture() -> str:
    """Return a small PNG in base64."""
    made = io.BytesIO()
    Pillow.new("RGB", (64, 48), "red").save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode()


def stream(text: str) -> Mapping[str, object]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def error(name: str) -> Mapping[str, object]:
    lines = ["Traceback (most recent call last)", f"{name}: no"]
    return {"output_type": "error", "ename": name, "evalue": "no", "traceback": lines}


CELLS = (
    Cell("one", "x = 1\nprint(x)", 1, 1, (stream("hello\n"),)),
    Cell("two", "1 / 0", 2, 2, (stream("before\n"), error("ZeroDivisionError")), failed=True),
    Cell(
        "three",
        "plot()",
        3,
        3,
        ({"output_type": "display_data", "data": {"image/png": picture()}, "metadata": {}},),
    ),
    Cell("four", "int('a')", 5, 4, (error("ValueError"),), failed=True),
    Cell("five", "y = 2", 6, 5),
)


class Loud:
    """A lazy thing that fails the test if it is asked to compute."""

    def __repr__(self) -> str:
        raise AssertionError("computed")

    def __len__(self) -> int:
        raise AssertionError("computed")


@pytest.fixture
def attacher(tmp_path: Path) -> Attacher:
    """Return an attacher over a kernel with a few names and cells, and a folder with a file."""
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    (tmp_path / "Makefile").write_text("all:\n")
    names = {
        "df": pd.DataFrame({"city": ["Rome"], "n": [3]}),
        "lazy": Loud(),
        "data": [1, 2],
        "frame_of_cities": 1,
    }
    return made(tmp_path, names)


def made(folder: Path, names: dict[str, object], notebook: Any = None) -> Attacher:
    kernel, seen, project = FakeKernel(names, cells=list(CELLS)), Seen(), Project(str(folder))
    document = notebook or NoNotebook()
    files = FileTools(project, seen)
    tools = make_tools(kernel, NoTexts(), Settings(), notebook=document, seen=seen, files=files)
    return Attacher(kernel, document, tools, project)


async def attach(attacher: Attacher, text: str, window: int | None = None) -> list[str]:
    """Return the texts that a prompt's mentions attach."""
    blocks = await attacher.load(parse(text).mentions, window)
    return [block.text for block in blocks if isinstance(block, Text)]


async def test_a_path_counts_from_the_working_folder_too(
    attacher: Attacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `open(path)` in a cell opens can be mentioned; the project's folder comes first."""
    folder = tmp_path / "analysis"
    folder.mkdir()
    (folder / "near.csv").write_text("near\n")
    (folder / "data.csv").write_text("not this one\n")
    monkeypatch.chdir(folder)

    near, quoted, root = await attach(attacher, 'compare @near.csv, @"./near.csv" and @data.csv')

    assert near.startswith("[@analysis/near.csv]\n")
    assert "near" in near.splitlines()[-1]
    assert quoted == near
    assert root.startswith("[@data.csv]\n")
    assert "1,2" in root


async def test_a_working_folder_outside_the_project_adds_no_file(
    attacher: Attacher, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files of the project are attached, wherever the kernel works."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.csv").write_text("no\n")
    monkeypatch.chdir(outside)

    with pytest.raises(PromptError, match="names no variable and no file"):
        await attach(attacher, "read @secret.csv")


async def test_a_variable(attacher: Attacher) -> None:
    """A name attaches what `inspect` tells of the value: type, shape, columns, rows."""
    (text,) = await attach(attacher, "plot @df")

    assert text.startswith("[@df, as it is now]\ndf: ")
    for part in ("DataFrame", "1 row", "city", "Rome"):
        assert part in text


async def test_nothing_is_computed(attacher: Attacher) -> None:
    """An object whose repr and length compute is told by its type."""
    (text,) = await attach(attacher, "@lazy")

    assert "Loud" in text


async def test_an_attribute_attaches_the_variable(attacher: Attacher) -> None:
    """`@df.columns` attaches df; a file of that very name goes before."""
    assert (await attach(attacher, "@df.columns"))[0].startswith("[@df, ")
    assert await attach(attacher, "@data.csv") == ["[@data.csv]\na,b\n1,2\n"]
    assert (await attach(attacher, "@data"))[0].startswith("[@data, as it is now]")


async def test_a_file(attacher: Attacher) -> None:
    """A path attaches the file's text; a plain name does where there is no such variable."""
    for text in ("@./data.csv", '@"data.csv"'):
        assert await attach(attacher, text) == ["[@data.csv]\na,b\n1,2\n"]
    assert (await attach(attacher, "@Makefile"))[0].startswith("[@Makefile]\nall:")


@pytest.mark.parametrize(("kind", "name"), [("PNG", "p.png"), ("JPEG", "p"), ("GIF", "p.gif")])
async def test_a_picture_is_seen(attacher: Attacher, tmp_path: Path, kind: str, name: str) -> None:
    """A picture of any kind that is sent is attached as one, scaled as those of `run_code` are."""
    Pillow.new("RGB", (3_000, 1_500), "red").save(tmp_path / name, kind)

    text, image = await attacher.load(parse(f"@./{name}").mentions)

    assert isinstance(text, Text)
    assert isinstance(image, Image)
    assert text.text.startswith(f"[@{name}]\n{name}: ")
    assert "3,000×1,500 px, shown at 1,568×784." in text.text
    assert (image.width_px, image.height_px) == (1_568, 784)


async def test_a_broken_picture_is_described(attacher: Attacher, tmp_path: Path) -> None:
    """What only begins as a picture is told in words: the provider would refuse the request."""
    (tmp_path / "half.png").write_bytes(base64.b64decode(picture())[:80])

    (text,) = await attacher.load(parse("@half.png").mentions)

    assert isinstance(text, Text)
    assert "80 bytes, PNG image" in text.text
    assert "It cannot be shown: broken" in text.text


async def test_a_cell_by_number_and_id(attacher: Attacher) -> None:
    """A cell attaches its source and state, without its output."""
    (by_number,) = await attach(attacher, "@cell:1")
    (by_id,) = await attach(attacher, "@cell:one")

    assert "x = 1\nprint(x)" in by_number
    assert "hello" not in by_number
    assert by_number.removeprefix("[@cell:1") == by_id.removeprefix("[@cell:one")


async def test_an_output(attacher: Attacher) -> None:
    """An output attaches its text and its pictures; a cell without one says so."""
    assert await attach(attacher, "@out:1") == ["[@out:1, the output of cell one]\nhello\n"]
    assert "(no output)" in (await attach(attacher, "@out:6"))[0]
    blocks = await attacher.load(parse("@out:three").mentions)
    (image,) = [block for block in blocks if isinstance(block, Image)]
    assert (image.width_px, image.height_px) == (64, 48)


async def test_the_last_error(attacher: Attacher) -> None:
    """`@error` attaches the newest traceback and the source that raised it."""
    (text,) = await attach(attacher, "explain @error")

    assert text.startswith("[@error, in cell four, In[5]]\nint('a')")
    assert "ValueError: no" in text
    assert "Zero" not in text


async def test_without_an_error(tmp_path: Path) -> None:
    """Without a failed cell `@error` names nothing."""
    kernel = FakeKernel({}, cells=[CELLS[0]])
    attacher = made(tmp_path, {})
    attacher = Attacher(kernel, NoNotebook(), attacher.tools, attacher.project)

    with pytest.raises(PromptError, match="no cell has failed"):
        await attach(attacher, "@error")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@dff", "`@dff` names no variable and no file. Nearest: `@df`"),
        ("@cell:4", "`@cell:4` names no cell that was run. Nearest: .*`@cell:3`.*`@cell:5`"),
        ("@out:99", "`@out:99` names no cell that was run. Nearest: .*`@out:6`"),
        ("@cell:tow", "`@cell:tow` names no cell. Nearest: `@cell:two`"),
        ("@cell:", "`@cell` wants a number or id: `@cell:3`"),
        ("@dat/x.csv", "`@dat/x.csv`: There is no folder `dat`"),
        ("@./data.cvs", "`@./data.cvs`: There is no file `data.cvs`.*Nearest: `data.csv`"),
        ("@../x", "must not hold `..`"),
        ("@/etc/passwd", "lies outside the project"),
        ("@sales.csv", "names no variable and no file. Nearest: `@raw/2026/Sales.csv`"),
        ("@old/sales.csv", "no folder `old`.*Did you mean `@raw/2026/Sales.csv`"),
        ("@sales", "no file. Nearest: `@raw/2026/Sales.csv`"),
        ("@notes", 'no file. Nearest: `@"raw/my notes.txt"`'),
        ("@frame", "no file. Nearest: `@frame_of_cities`"),
        ("@df @nope @out:98", "`@nope`.*`@out:98`.*Nothing was sent"),
    ],
)
async def test_what_is_not_there_is_refused(
    attacher: Attacher, tmp_path: Path, text: str, words: str
) -> None:
    """A mention that names nothing is an error that lists near names, and how to write an `@`."""
    (tmp_path / "raw" / "2026").mkdir(parents=True)
    (tmp_path / "raw" / "2026" / "Sales.csv").write_text("a\n")
    (tmp_path / "raw" / "my notes.txt").write_text("a\n")
    with pytest.raises(PromptError, match=f"(?s){words}") as raised:
        await attach(attacher, text)
    assert "@@" in str(raised.value)


async def test_a_folder_is_refused(attacher: Attacher, tmp_path: Path) -> None:
    """A folder is no file."""
    (tmp_path / "sub").mkdir()

    with pytest.raises(PromptError, match="folder"):
        await attach(attacher, "@./sub")


async def test_cells_of_the_notebook(tmp_path: Path) -> None:
    """A cell never run is named by its id; one of this kernel goes before an old one's number."""
    page = Page(
        NotebookCell("title", "markdown", "# Sales"),
        NotebookCell("one", "code", "x = 100", 1),
        NotebookCell("old", "code", "old = 1", 1, (stream("from before\n"),)),
        NotebookCell("new", "code", "not_run()"),
        NotebookCell("p", "code", "first()", 40),
        NotebookCell("q", "code", "second()", 40),
    )
    attacher = made(tmp_path, {}, page)

    assert "# Sales" in (await attach(attacher, "@cell:title"))[0]
    assert "not_run()" in (await attach(attacher, "@cell:new"))[0]
    assert "x = 100" in (await attach(attacher, "@cell:1"))[0]
    assert "from before" in (await attach(attacher, "@out:old"))[0]
    with pytest.raises(PromptError, match="could be 2 cells: name one of `@cell:p`, `@cell:q`"):
        await attach(attacher, "@cell:40")
    with pytest.raises(PromptError, match="cell new was not run"):
        await attach(attacher, "@out:new")


async def test_attachments_are_bounded(tmp_path: Path) -> None:
    """Each attachment has a quarter of a character for each token of the window at most."""
    (tmp_path / "long.txt").write_text("".join(f"line {n}\n" for n in range(50_000)))
    attacher = made(tmp_path, {})

    for window, most in ((8_000, 2_000), (200_000, 50_000), (None, 50_000)):
        (text,) = await attach(attacher, "@long.txt", window)
        assert most // 2 < len(text) < most + 200
        assert "of 50,000" in text


async def test_too_many_mentions_are_refused(attacher: Attacher) -> None:
    """The number of mentions is bounded."""
    many = [Mention(f"x{n}") for n in range(MOST_MENTIONS + 1)]

    with pytest.raises(PromptError, match="31 mentions; 30 are the most"):
        await attacher.load(many)


async def test_without_a_project_there_are_no_files(attacher: Attacher) -> None:
    """Where nobody knows the project a path names nothing."""
    alone = Attacher(attacher.kernel, attacher.notebook, attacher.tools)

    with pytest.raises(PromptError, match="no project folder here"):
        await attach(alone, "@a/b")
    with pytest.raises(PromptError, match="names no variable and no file"):
        await attach(alone, "@Makefile")


async def test_the_order_is_that_of_the_mentions(attacher: Attacher) -> None:
    """Attachments stand in the order of their mentions."""
    texts = await attach(attacher, "@out:1 @df @cell:two")

    assert [text.split(",")[0] for text in texts] == ["[@out:1", "[@df", "[@cell:two"]
