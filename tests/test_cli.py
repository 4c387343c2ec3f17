"""Laws of `jupyter ctx run`: real kernels, the demo model and the strict server, no person."""

from __future__ import annotations

import copy
import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_ctx import cli
from jupyter_ctx.headless.plan import Options
from jupyter_ctx.headless.run import run
from jupyter_ctx.store.jsonl import load_entries
from tests.agent_kernel import agent_env
from tests.fake_anthropic import Call, FakeAnthropic, Hold, call, reply, status
from tests.fake_anthropic.script import RequestJson
from tests.kernels import ROOT, make_environment, running_kernel

MODEL = "claude-sonnet-5-5"
END_S = 120.0
CELLS = [
    nbformat.v4.new_markdown_cell("# Cups", id="head"),
    nbformat.v4.new_code_cell("x = 20", id="one"),
    nbformat.v4.new_code_cell("y = x + 1\ny", id="two"),
]


@dataclass
class Ran:
    """What one run brought."""

    status: int
    out: str
    err: str


class Shell:
    """A folder with `a.ipynb`, and the environment to run in."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.env = {**make_environment(folder), "JUPYTER_CTX_HOME": str(folder / "ctx"), **env}
        self.folder = folder / "work"
        self.folder.mkdir()
        self.notebook = self.folder / "a.ipynb"
        self.output = self.folder / "a.agent.ipynb"
        self.save(copy.deepcopy(CELLS))

    def save(self, cells: list[Any], **metadata: Any) -> None:
        """Write the notebook."""
        made = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
        nbformat.write(made, self.notebook)

    def run(self, prompt: str, **options: Any) -> Ran:
        """Run it in this process."""
        out, err = io.StringIO(), io.StringIO()
        status = run(Options(self.notebook, prompt, **options), self.env, out, err)
        return Ran(status, out.getvalue(), err.getvalue())

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in a process of its own."""
        command = [sys.executable, "-m", "jupyter_ctx.cli", "run", str(self.notebook), *arguments]
        return subprocess.Popen(
            command,
            env=self.env,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def written(self, path: Path | None = None) -> list[Any]:
        """Return the cells of the new notebook, which must be valid."""
        made = nbformat.read(path or self.output, as_version=4)
        nbformat.validate(made)
        cells: list[Any] = made.cells
        return cells

    def kinds(self) -> list[str]:
        """Return the kinds of the entries in the transcript beside the new notebook."""
        path = self.folder / "a.agent.transcript.jsonl"
        loaded = load_entries(path)
        assert not loaded.warnings
        return [type(entry).__name__ for entry in loaded.entries]


@pytest.fixture
def server() -> Any:
    """The provider."""
    with FakeAnthropic([]) as fake:
        yield fake
        assert not fake.refused
        assert not fake.unused


@pytest.fixture
def shell(tmp_path: Path, server: FakeAnthropic) -> Shell:
    """A folder whose model is the server's; nothing is allowed unasked."""
    env = agent_env(server, MODEL)
    del env["JUPYTER_CTX_PERMISSIONS"]
    return Shell(tmp_path, env)


@pytest.fixture
def demo(tmp_path: Path) -> Shell:
    """A folder without a key."""
    return Shell(tmp_path, {})


def on_new(make: Callable[[str], Call]) -> Callable[[RequestJson], Call]:
    """Return a call about the cell that was inserted last."""

    def made(request: RequestJson) -> Call:
        text = json.dumps(request["messages"][-1])
        return make(text.split("cell `")[1].split("`")[0])

    return made


def text_of(cell: Any) -> str:
    """Return all plain text of a cell's outputs."""
    return "".join(
        out.get("text", "") or out.get("data", {}).get("text/plain", "") for out in cell.outputs
    )


# What it does -----------------------------------------------------------------------------------


def test_the_new_notebook_has_what_the_agent_made_and_what_it_brought(
    shell: Shell, server: FakeAnthropic
) -> None:
    """Inserted, run, edited, moved; the prompt and its answer stand in it; the input is as it was.

    A cell that the agent made and did not run is run in the end.
    """
    before = shell.notebook.read_bytes()
    server.append(
        call("read_cell", cell_id="one"),
        call("edit_cell", cell_id="one", source="x = 30"),
        call("run_cell", cell_id="one"),
        call("insert_cell", source="print('made', x)", after="two"),
        on_new(lambda name: call("run_cell", cell_id=name)),
        call("insert_cell", source="x * 2"),
        call("insert_cell", source="It is *sixty*.", cell_type="markdown"),
        call("move_cell", cell_id="head", after="one"),
        reply("All done."),
    )

    ran = shell.run("Do it.", permissions="auto")

    assert (ran.status, ran.out) == (0, "All done.\n"), ran.err
    assert shell.notebook.read_bytes() == before
    sources = [cell.source for cell in shell.written()]
    made = "print('made', x)"
    load, prompt = "%load_ext jupyter_ctx", "%%agent\nDo it."
    ours = ["x * 2", "It is *sixty*."]
    assert sources == ["x = 30", "# Cups", "y = x + 1\ny", made, load, prompt, *ours]
    cells = {cell.source: cell for cell in shell.written()}
    assert text_of(cells[made]) == "made 30\n"
    assert text_of(cells["x * 2"]) == "60"
    assert cells["x * 2"].execution_count == 3
    assert "All done." in text_of(cells[prompt])
    assert cells["y = x + 1\ny"].outputs == []
    assert "3 cells made by the agent" in ran.err
    assert {"MessageEntry", "EditEntry"} <= set(shell.kinds())


def test_without_a_person_everything_that_asks_is_denied_and_said(
    shell: Shell, server: FakeAnthropic
) -> None:
    """The model hears the kernel's words, the person the flag alone; the status is 0."""
    server.append(call("insert_cell", source="x = 1"), call("run_code", code="1"), "I could not.")

    ran = shell.run("Do it.")

    assert (ran.status, ran.out) == (0, "I could not.\n"), ran.err
    denied = "Denied: no one can be asked here; set JUPYTER_CTX_PERMISSIONS=auto"
    assert ran.err.count("no one can be asked here; --permissions auto lets the agent act") == 2
    assert "JUPYTER_CTX_PERMISSIONS" not in ran.err
    assert ran.err.count("--permissions auto") == 3
    assert json.dumps(server.requests[-1].json["messages"]).count(denied) == 2
    assert "0 cells made" in ran.err


def test_what_may_be_edited_but_not_run_is_made_and_named(
    shell: Shell, server: FakeAnthropic
) -> None:
    """In `edits` a cell is inserted, and not run behind the mode's back."""
    server.append(call("insert_cell", source="open('made', 'w')"), "Made.")

    ran = shell.run("Do it.", permissions="edits")

    (made,) = [cell for cell in shell.written() if "open" in cell.source]
    assert (ran.status, made.execution_count) == (0, None), ran.err
    assert f"Made but not run (--permissions auto runs them): {made.id}" in ran.err
    assert not (shell.folder / "made").exists()


def test_a_made_cell_that_fails_in_the_end_fails_the_run(
    shell: Shell, server: FakeAnthropic
) -> None:
    """Its error stands in the new notebook and on stderr, and the status is 1."""
    server.append(call("insert_cell", source="1 / 0"), "Made.")

    ran = shell.run("Do it.", permissions="auto")

    assert ran.status == 1
    assert "which the agent made, failed: ZeroDivisionError: division by zero" in ran.err
    assert shell.written()[-1].outputs[0].output_type == "error"


def test_execute_runs_the_cells_first_up_to_one_that_fails(
    shell: Shell, server: FakeAnthropic
) -> None:
    """The agent sees what ran and what failed; a cell that asks the agent is left alone."""
    cells = copy.deepcopy(CELLS)
    cells += [nbformat.v4.new_code_cell(source) for source in ("%agent hi", "1 / 0", "z = 1")]
    shell.save(cells)
    server.append("I see.")

    ran = shell.run("Look.", execute=True)

    assert ran.status == 0, ran.err
    counts = [cell.get("execution_count") for cell in shell.written()]
    assert counts == [None, 2, 3, None, 4, None, 1, 5]
    assert text_of(shell.written()[2]) == "21"
    assert "failed, those below it were not run: ZeroDivisionError" in ran.err
    assert "asks the agent itself" in ran.err
    told = json.dumps(server.requests[-1].json["messages"])
    assert "1 / 0" in told
    assert "In[4]" in told


def test_answers_longer_than_a_message_arrive(shell: Shell, server: FakeAnthropic) -> None:
    """A notebook of 600 KB of sources, other scripts in it, is told in parts and read."""
    cells = [nbformat.v4.new_code_cell(f"# {at} {'é😀' * 3_000}", id=f"c{at}") for at in range(50)]
    shell.save(cells)
    server.append(call("read_cell", cell_id="c49"), "Read.")

    ran = shell.run("Read.")

    assert ran.status == 0, ran.err
    assert "# 49 é😀" in json.dumps(server.requests[-1].json["messages"], ensure_ascii=False)


def test_outputs_stand_in_the_notebook_as_they_stood_in_the_cell(demo: Shell) -> None:
    """Displays are updated, output is cleared, streams are one text."""
    source = (
        "from IPython.display import display, clear_output\n"
        "print('gone'); clear_output(); print('a'); print('b')\n"
        "shown = display('old', display_id='d'); shown.update('new')\n"
    )
    demo.save([nbformat.v4.new_code_cell(source, id="odd")])

    ran = demo.run("/context", execute=True)

    assert ran.status == 0, ran.err
    assert "demo" in ran.out
    assert text_of(demo.written()[0]) == "a\nb\n'new'"


def test_the_demo_answers_without_a_key_and_says_so(demo: Shell) -> None:
    """One line on stderr names the demo; the code runs where it is allowed to."""
    ran = demo.run("Run `print(6 * 7)`.", permissions="auto")

    assert ran.status == 0, ran.err
    assert "42" in ran.out
    (line,) = [line for line in ran.err.splitlines() if "Demo model" in line]
    assert "no key is set" in line


# A second run -----------------------------------------------------------------------------------


def test_the_same_again_is_refused_forced_or_replayed(shell: Shell, server: FakeAnthropic) -> None:
    """Nothing is written over unasked; `--force` asks anew in a new session; `replay` shows it.

    Replayed, no request is sent and no file is touched.
    """
    server.append("First.")
    assert shell.run("Say it.").status == 0

    refused = shell.run("Say it.")
    assert (refused.status, refused.out) == (2, "")
    assert "--force" in refused.err
    server.append("Second.")
    forced = shell.run("Say it.", force=True)
    assert (forced.status, forced.out) == (0, "Second.\n"), forced.err
    assert "Asked anew, in a new session" in forced.err
    assert f"Model {MODEL}" in forced.err
    assert "First." not in json.dumps(server.requests[-1].json)

    shell.env["JUPYTER_CTX_RERUN"] = "replay"
    before, asked = shell.output.stat(), len(server.requests)
    replayed = shell.run("Say it.")
    assert (replayed.status, replayed.out) == (0, "Second.\n")
    assert "Stored answer" in replayed.err
    assert (shell.output.stat(), len(server.requests)) == (before, asked)
    assert shell.run("Say something else.").status == 2


def test_the_new_notebook_goes_on_with_the_conversation(
    shell: Shell, server: FakeAnthropic, tmp_path: Path
) -> None:
    """`%agent` in the new notebook sends what the run said; the notebook from before has its own.

    Run there again under `replay`, the prompt's cell shows the stored answer.
    """
    server.append("First.", "Second.")
    assert shell.run("Say it.").status == 0
    prompt = shell.written()[-1]

    env = {**shell.env, "JPY_SESSION_NAME": str(shell.output), "JUPYTER_CTX_RERUN": "replay"}
    with running_kernel(tmp_path, env) as kernel:
        assert kernel.execute("%load_ext jupyter_ctx").ok
        again = kernel.execute(prompt.source, cell_id=prompt.id)
        other = kernel.execute("%agent And now?", cell_id="new")

    assert again.ok
    assert "First." in again.bundles("text/plain")
    assert other.ok
    assert "Second." in other.bundles("text/plain")
    assert "First." in json.dumps(server.accepted[-1].json)


# What goes wrong --------------------------------------------------------------------------------


def test_a_turn_that_fails_fails_the_run_and_is_written(
    shell: Shell, server: FakeAnthropic
) -> None:
    """A bad key: status 1, a sentence, and the new notebook says the same."""
    server.append(status(401, "invalid x-api-key"))

    ran = shell.run("Do it.")

    assert ran.status == 1
    assert "Failed: " in ran.err
    assert shell.written()[-1].source == "%%agent\nDo it."


def test_a_kernel_that_dies_ends_the_run_and_what_there_is_is_written(
    shell: Shell, server: FakeAnthropic
) -> None:
    """Status 1 and a sentence; the cell made before stands in the new notebook."""
    server.append(
        call("insert_cell", source="x = 1", after="two"),
        call("run_code", code="import os; os.kill(os.getpid(), 9)"),
    )

    ran = shell.run("Do it.", permissions="auto")

    assert ran.status == 1
    assert "The kernel died." in ran.err
    assert shell.written()[3].source == "x = 1"
    assert "EditEntry" in shell.kinds()


def test_the_time_is_over(demo: Shell) -> None:
    """After --timeout seconds the turn is stopped, code that runs included: the status is 1."""
    prompt = "Run `import time; time.sleep(600)`."

    ran = demo.run(prompt, permissions="auto", timeout_s=4.0)

    assert ran.status == 1
    assert "the time is over" in ran.err
    assert demo.written()[-1].source == f"%%agent\n{prompt}"


def test_ctrl_c_stops_the_agent_and_what_there_is_is_written(
    shell: Shell, server: FakeAnthropic
) -> None:
    """SIGINT to the process, in mid-answer: status 1, the new notebook and its transcript."""
    server.append(
        call("insert_cell", source="x = 1", after="two"), reply("It", Hold("here"), " is")
    )
    process = shell.begin("--prompt", "Do it.", "--permissions", "auto")
    server.wait_held("here")

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=END_S)
    server.release("here")

    assert process.returncode == 1, err
    assert "Stopped by you." in err
    assert "Traceback" not in err
    assert shell.written()[3].source == "x = 1"
    assert "EditEntry" in shell.kinds()


def test_ctrl_c_twice_kills_a_kernel_that_will_not_stop(
    shell: Shell, server: FakeAnthropic
) -> None:
    """Code that swallows interrupts ends with its kernel, and what there is is written."""
    server.append(call("insert_cell", source="x = 1", after="two"), call("run_code", code=STUBBORN))
    process = shell.begin("--prompt", "Do it.", "--permissions", "auto")
    marker = shell.folder / "deaf"
    os.mkfifo(marker)
    with marker.open() as told:  # opens when the code does
        assert told.read() == "ready"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=END_S)

    assert process.returncode == 1, err
    assert "The kernel was killed." in err
    assert shell.written()[3].source == "x = 1"


STUBBORN = """\
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
with open("deaf", "w") as told:
    told.write("ready")
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no file"),
        ("{", "it is no valid JSON (line 1)"),
        ("[]", "it has no cells"),
        (b"\xff\xfe", "it is no valid UTF-8"),
        ('{"nbformat": 5, "cells": []}', "is of format 5"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [7]}', "no valid notebook"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 7}', "no valid notebook"),
        ('{"nbformat": "4", "metadata": {}, "cells": []}', "no valid notebook"),
    ],
)
def test_what_is_no_notebook_is_refused(demo: Shell, content: Any, said: str) -> None:
    """Status 2 with what is wrong with the file, and nothing is written."""
    if content is None:
        demo.notebook.unlink()
    elif isinstance(content, bytes):
        demo.notebook.write_bytes(content)
    else:
        demo.notebook.write_text(content)

    ran = demo.run("Do it.")

    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert str(demo.notebook) in ran.err
    assert not demo.output.exists()


def test_what_cannot_be_done_as_it_is_asked_for_is_refused(demo: Shell) -> None:
    """Status 2, a sentence that says what to do, and nothing runs or is written."""
    folder = demo.folder
    (folder / "is.ipynb").mkdir()
    link = folder / "link.ipynb"
    link.symlink_to(demo.notebook)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"output": demo.notebook, "force": True}, "is the notebook itself"),
        ({"output": link, "force": True}, "is the notebook itself"),
        ({"output": folder / "out.json"}, "end in .ipynb"),
        ({"output": folder / "is.ipynb"}, "is a folder"),
        ({"output": folder / "no" / "out.ipynb"}, "make it first"),
        ({"kernel": "no-such"}, "Choose one with --kernel NAME; there are: "),
        ({"model": "openai:"}, "names no model"),
    ]
    for options, said in cases:
        ran = demo.run("Do it.", **options)
        assert (ran.status, ran.out) == (2, ""), (options, ran.err)
        assert said in ran.err, ran.err
    assert demo.run(" \n").status == 2
    demo.env["JUPYTER_CTX_PERMISSIONS"] = "never"
    assert "JUPYTER_CTX_PERMISSIONS" in demo.run("Do it.").err
    assert sorted(path.name for path in folder.iterdir()) == ["a.ipynb", "is.ipynb", "link.ipynb"]


def test_a_notebooks_own_kernel_that_is_not_there_is_named(demo: Shell) -> None:
    """The sentence names the notebook's kernel and the option that chooses another."""
    demo.save([], kernelspec={"name": "conda-x", "display_name": "X"})

    ran = demo.run("Do it.")

    assert ran.status == 2
    assert "a.ipynb asks for the kernel 'conda-x', which is not installed here" in ran.err
    assert "--kernel" in ran.err


@pytest.mark.parametrize("version", ["3.0", "4.0"])
def test_old_notebooks_become_new_ones(demo: Shell, version: str) -> None:
    """Formats 3 and 4.0: the new notebook is 4.5, and a second run gives the cells the same ids."""
    if version == "3.0":
        old = nbformat.v3.new_notebook(
            worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("x = 1")])]
        )
    else:
        cell: dict[str, Any] = {
            "cell_type": "code",
            "source": "x = 1",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        old = {"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": [cell]}
    demo.notebook.write_text(json.dumps(old))

    first = demo.run("/context")
    ids = [cell.id for cell in demo.written()]
    again = demo.run("/context", force=True)

    assert (first.status, again.status) == (0, 0), first.err
    assert [cell.id for cell in demo.written()] == ids
    assert demo.written()[0].source == "x = 1"
    assert json.loads(demo.output.read_text())["nbformat_minor"] == 5


# The command line -------------------------------------------------------------------------------


def test_the_command_is_installed_as_jupyter_ctx() -> None:
    """`jupyter ctx` finds the program `jupyter-ctx`, which is `jupyter_ctx.cli:main`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["scripts"] == {"jupyter-ctx": "jupyter_ctx.cli:main"}


def test_a_wrong_command_line_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """No or an unknown subcommand, an unknown mode: status 2 and the usage."""
    for line, said in [
        ([], "{run,export,sessions,show,doctor,lab}"),
        (["runs"], "{run,export,sessions,show,doctor,lab}"),
        (["run", "a.ipynb"], "--prompt"),
        (["run", "a.ipynb", "--prompt", "x", "--permissions", "all"], "auto"),
        (["run", "a.ipynb", "--prompt", "x", "--timeout", "-1"], "-1 is no number of seconds"),
        (["run", "a.ipynb", "--prompt", "x", "--timeout", "soon"], "soon is no number of seconds"),
    ]:
        with pytest.raises(SystemExit) as ended:
            cli.main(line)
        assert ended.value.code == 2
        err = capsys.readouterr().err
        assert err.startswith("usage: jupyter ctx")
        assert said in err


def test_help_imports_nothing_heavy() -> None:
    """The help is there before jupyter_client, nbformat, IPython or a model's SDK is."""
    code = (
        "import sys\nfrom jupyter_ctx import cli\n"
        "try:\n    cli.main(['run', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'IPython', 'nbformat', 'jupyter_client', 'anthropic'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "--permissions" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
