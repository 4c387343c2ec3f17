"""C30, come back later: six turns, a compaction and offloaded outputs, in real kernels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from tests.agent_kernel import agent_kernel, ask, run
from tests.fake_anthropic import FakeAnthropic, Recorded, call, last_text
from tests.fake_anthropic.checks import assert_append_only
from tests.kernels import Ran
from tests.surroundings.hostile import git, make_repository, write
from tests.wire import head_of, printing, results, text_of_messages

MODEL = "claude-sonnet-5-5"
SUMMARY = "## Task\nSix steps; the sums are in `sums`."
TURNS = 6
LINES = 5_000


@dataclass
class Past:
    """What was seen before the kernel ended: the last request, and `/summary` as it was shown."""

    session: Path
    last: Recorded
    summary: dict[str, Any]
    results: Path


@dataclass
class Stage:
    """A folder, the server, what it answers next, and the environment of each kernel."""

    folder: Path
    server: FakeAnthropic
    answers: list[Any]

    @contextmanager
    def kernel(self) -> Iterator[Any]:
        """Give a new kernel of the same notebook."""
        notebook = str(self.folder / "work" / "a.ipynb")
        more = {"JPY_SESSION_NAME": notebook, "JUPYTER_CTX_COMPACTION": "manual"}
        with agent_kernel(self.folder, self.server, MODEL, **more) as kernel:
            yield kernel

    def come_back(self, *answers: Any) -> tuple[Ran, list[Recorded], dict[str, Any]]:
        """Ask in a new kernel; return what was shown, the requests, and `/summary` there."""
        self.answers[:] = answers or ("Back.",)
        count = len(self.server.messages)
        with self.kernel() as kernel:
            shown = ask(kernel, "Where were we?")
            summary = summary_of(run(kernel, "%agent /summary"))
        return shown, self.server.messages[count:], summary


def summary_of(ran: Ran) -> dict[str, Any]:
    """Return what `/summary` carries for programs."""
    (found,) = ran.bundles("application/vnd.jupyter-ctx.summary+json")
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Past]]:
    """Six turns with long outputs, a compaction after the fourth; then the kernel is killed."""
    folder = tmp_path_factory.mktemp("lived")
    answers: list[Any] = []

    def script(body: dict[str, Any]) -> Any:
        return SUMMARY if last_text(body).startswith(INSTRUCTION_OPEN) else answers.pop(0)

    with FakeAnthropic(script) as server:
        stage = Stage(folder, server, answers)
        with stage.kernel() as kernel:
            run(kernel, "%config JupyterCtx.tail_tokens = 0")
            for n in range(1, TURNS + 1):
                code = f"sums_{n} = {n}\nfor i in range({LINES}): print('turn {n} line', i)"
                answers[:] = [printing(code), f"Turn {n} is done."]
                ask(kernel, f"Do step {n}.")
                if n == 4:
                    run(kernel, "%agent /compact")
            summary = summary_of(run(kernel, "%agent /summary"))
            kernel.kill()
        (session,) = (folder / "ctx" / "sessions").iterdir()
        found = folder / "ctx" / "tool-results" / session.name
        shutil.copytree(folder / "ctx", folder / "kept")
        yield stage, Past(session, server.messages[-1], summary, found)
        assert server.refused == []


@pytest.fixture
def stage(lived: tuple[Stage, Past]) -> Stage:
    """The stage, what is stored as the killed kernel left it."""
    stage = lived[0]
    shutil.rmtree(stage.folder / "ctx")
    shutil.copytree(stage.folder / "kept", stage.folder / "ctx")
    return stage


@pytest.fixture
def past(lived: tuple[Stage, Past]) -> Past:
    """What the killed kernel left."""
    return lived[1]


def shown_text(ran: Ran) -> str:
    return "\n".join([ran.text, *map(str, ran.bundles("text/plain"))])


def assert_same_turns(past: Past, request: Recorded) -> None:
    """The request begins as the last one before it did: the same summary, the same turns."""
    was = past.last.messages
    assert len(request.messages) == len(was) + 2
    assert text_of_messages(request).startswith(text_of_messages(past.last))
    assert SUMMARY in head_of(request)
    for n in (5, 6):
        assert f"Do step {n}." in text_of_messages(request)


@pytest.mark.timeout(600)
def test_a_restarted_kernel_goes_on_and_says_which_variables_are_gone(
    stage: Stage, past: Past
) -> None:
    """C30: the same turns and summary; person and model are told the names that are not there."""
    shown, requests, summary = stage.come_back()

    assert_same_turns(past, requests[0])
    assert summary == past.summary
    told = "\n".join(block["text"] for block in requests[0].messages[-1]["content"])
    for said in (shown_text(shown), told):
        assert "restarted" in said
        assert all(f"sums_{n}" in said for n in range(1, TURNS + 1))


@pytest.mark.timeout(600)
def test_a_log_whose_last_line_is_cut_loses_that_line_only(stage: Stage, past: Past) -> None:
    """C30: the answer that was being written is lost, which is said; the line stays in the file."""
    transcript = past.session / "transcript.jsonl"
    lines = transcript.read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if b"Turn 6 is done." in line)
    torn = b"".join(lines[:last]) + lines[last][: len(lines[last]) // 2]
    transcript.write_bytes(torn)

    shown, requests, summary = stage.come_back()

    assert transcript.read_bytes().startswith(torn)
    assert "torn" in shown_text(shown)
    told = text_of_messages(requests[0])
    assert SUMMARY in told
    assert summary == past.summary
    assert "Turn 5 is done." in told
    assert "Do step 6." in told
    assert "Turn 6 is done." not in told


@pytest.mark.timeout(600)
def test_a_log_whose_outputs_are_gone_names_them(stage: Stage, past: Past) -> None:
    """C30: what is missing is named to the person, and to the model when it asks for it."""
    names = sorted(path.stem for path in past.results.glob("*.txt"))
    assert len(names) >= TURNS
    shutil.rmtree(past.results)

    read = call("read_result", tool_use_id=names[0])
    shown, requests, summary = stage.come_back(read, "Gone.")

    assert_same_turns(past, requests[0])
    assert summary == past.summary
    said = shown_text(shown)
    assert all(name in said for name in names if name.startswith("toolu_"))
    assert names[0] in list(results(requests[-1]).values())[-1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["no line that can be read", "no file"])
def test_a_session_that_cannot_be_resumed_is_never_empty_in_silence(
    stage: Stage, past: Past, kind: str
) -> None:
    """C30: it is said that the old session could not be opened; its files stay as they are."""
    transcript = past.session / "transcript.jsonl"
    if kind == "no file":
        transcript.unlink()
    else:
        transcript.write_bytes(b"not a line of ours\n" * 3)
    before = {path: path.read_bytes() for path in past.session.iterdir() if path.is_file()}
    stage.answers[:] = ["A new beginning."]

    with stage.kernel() as kernel:
        shown = ask(kernel, "Where were we?")

    assert past.session.name in shown_text(shown)
    assert "left as it is" in shown_text(shown) or "could not be read" in shown_text(shown)
    after = {path: path.read_bytes() for path in before}
    assert after == before
    assert len(list((stage.folder / "ctx" / "sessions").iterdir())) == 2
    assert json.loads((past.session / "metadata.json").read_bytes())["turns"] == TURNS


@pytest.mark.timeout(600)
def test_what_changed_meanwhile_stands_behind_what_was_sent(tmp_path: Path) -> None:
    """W20: another date, branch, status, folder and module: told in new text only, once.

    The zones of the two kernels are 26 hours apart, so that their dates differ at any time.
    """
    root = make_repository(tmp_path / "project")
    module = write(root / "toolbox.py", "__version__ = '1.0'\n")
    notebook, days = str(root / "n.ipynb"), list[str]()
    with FakeAnthropic(lambda body: "Done.") as server:
        for zone, folder in (("AAA12", root), ("BBB-14", root / "deeper")):
            with agent_kernel(tmp_path, server, MODEL, JPY_SESSION_NAME=notebook, TZ=zone) as one:
                run(
                    one,
                    f"import os, sys; sys.path.append({str(root)!r}); os.chdir({str(folder)!r})",
                )
                run(one, "import toolbox\ntoolbox.__version__")
                if folder == root:
                    run(one, "%agent /trust")
                    run(one, "%agent /trust allow")
                ask(one, "Go on.")
                ask(one, "Go on.")
                days.append(one.eval("str(__import__('datetime').date.today())"))
                one.kill()
            if folder == root:
                module.write_text("__version__ = '2.0'\n")
                git(root, "checkout", "-qb", "later")
                write(root / "third.txt", "")
                (root / "deeper").mkdir()
        before, resumed, after = server.messages[1:4]

    assert assert_append_only(server.messages) == []
    for name in ("system", "tools"):
        assert resumed.json[name] == before.json[name]
    told = "\n".join(block["text"] for block in resumed.messages[-1]["content"])
    assert days[0] != days[1]
    for new in (
        f"Today is {days[1]}.",
        "later",
        "?? third.txt",
        f"The working folder is now {root}/deeper",
    ):
        assert new in told
    assert resumed.plan is not None
    assert before.plan is not None
    assert resumed.plan.read_tokens >= 0.95 * before.plan.read_tokens > 0
    for block in after.messages[-1]["content"]:
        assert "Today is" not in block["text"]
        assert "third.txt" not in block["text"]
    assert server.refused == []
