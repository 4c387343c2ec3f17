"""The README's examples run, its names exist, and its pictures are there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_ctx.config import SETTING_NAMES, env_name, read_env
from jupyter_ctx.surroundings.folder import CONTEXT_NAMES
from jupyter_ctx.tools.mcp_entries import FOLDER_VARIABLES

from .kernels import Ran, RealKernel, running_kernel

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

BLOCKS: tuple[str, ...] = tuple(re.findall(r"^```python\n(.*?)^```$", README, re.S | re.M))
SCRIPTS = tuple(block for block in BLOCKS if "jupyter_ctx.testing" in block)
EXAMPLES = tuple(block for block in BLOCKS if block not in SCRIPTS)
MOST_PICTURE_BYTES = 300_000


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKernel]:
    """A kernel without a key, in which nothing asks: the reader who answers `a`."""
    folder = tmp_path_factory.mktemp("readme")
    with running_kernel(folder, {"JUPYTER_CTX_PERMISSIONS": "auto"}) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def ran(kernel: RealKernel) -> list[Ran]:
    """Every example run in the order of the page, in one kernel."""
    return [kernel.execute(example.rstrip("\n")) for example in EXAMPLES]


def of(ran: list[Ran], words: str) -> Ran:
    """Return what the one example with these words brought."""
    (at,) = (at for at, example in enumerate(EXAMPLES) if words in example)
    return ran[at]


def test_every_example_runs(ran: list[Ran]) -> None:
    """Each cell on the page succeeds, in the order of the page."""
    failed = [(EXAMPLES[at], one.outputs) for at, one in enumerate(ran) if not one.ok]

    assert not failed
    assert len(ran) >= 7
    assert len(SCRIPTS) == 1


def test_the_examples_show_what_the_page_says(ran: list[Ran]) -> None:
    """The agent finds the variable, runs the sum, and Python sees turns, events and results."""
    first = "\n".join(of(ran, "%agent What").bundles("text/plain"))
    assert "Demo model: no key is set." in first
    assert "sales: list, 3 items" in first
    assert "It returned:\n\n```text\n141\n```" in "\n".join(
        of(ran, "%%agent").bundles("text/plain")
    )
    assert "done end_turn" in of(ran, "turn.outcome").text
    events = of(ran, "async for").text.split()
    assert (events[0], events[-1]) == ("TurnStarted", "TurnFinished")
    assert "ResultOffloaded" in events
    assert re.search(r"480000 \S+\.txt$", of(ran, "session.results").text, re.M)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_example_for_tests_runs_without_a_kernel(script: str) -> None:
    """What `jupyter_ctx.testing` is shown with is a plain script whose assertions hold."""
    assert "assert " in script

    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_the_settings_example_takes_effect(ran: list[Ran], kernel: RealKernel) -> None:
    """After `%config JupyterCtx.permissions = "plan"` the mode is plan."""
    assert of(ran, "%config").ok

    shown = "\n".join(kernel.execute("%agent /permissions").bundles("text/plain"))

    assert "Permissions: plan" in shown


def test_every_variable_named_is_one_that_is_read() -> None:
    """Each `JUPYTER_CTX_…` on the page is a setting's, the cache's switch, or a server's folder."""
    named = set(re.findall(r"\bJUPYTER_CTX_[A-Z_]+\b", README)) - {"JUPYTER_CTX_NAME"}

    known = {env_name(name) for name in SETTING_NAMES}
    assert named - known == {"JUPYTER_CTX_DISABLE_PROMPT_CACHE", FOLDER_VARIABLES[0]}
    assert read_env({"JUPYTER_CTX_DISABLE_PROMPT_CACHE": "1"}) == {"prompt_cache": False}


def test_every_file_and_picture_named_is_there() -> None:
    """Links and file names lead somewhere, and a picture is a PNG under 300 KB."""
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    files = re.findall(r"`((?:\w+/)*\w+\.(?:md|py|ipynb))`|`(LICENSE|NOTICE)`", README)

    assert len(pictures) == 4
    for picture in pictures:
        data = (ROOT / picture).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) < MOST_PICTURE_BYTES
    theirs = {*CONTEXT_NAMES, "SKILL.md"}  # what a user's project may have
    for name in {"".join(pair) for pair in files} - theirs:
        assert (ROOT / name).is_file(), name


def test_every_command_to_type_exists() -> None:
    """Each `make` target on the page is in the Makefile, each extra in the package's metadata."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    targets = set(re.findall(r"\bmake (\w+)", README))
    assert targets >= {"lab", "test", "bench"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target
    for extra in re.findall(r"\.\[(\w+)\]", README):
        assert extra in project["optional-dependencies"]


def test_prose_keeps_one_sentence_a_line() -> None:
    """No line of prose holds the end of one sentence and the begin of the next."""
    prose = re.sub(r"^```.*?^```$|^<!-- (\w+) -->.*?^<!-- /\1 -->$", "", README, flags=re.S | re.M)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "!", "#"))]

    assert not [line for line in lines if re.search(r"[a-z`)][.?] (?=[A-Z`])", line)]
