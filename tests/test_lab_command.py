"""`jupyter ctx lab`: what is started, and what is said when nothing can be."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from jupyter_ctx import cli, lab


def started(target: Path | None, *arguments: str) -> tuple[list[str], str, str, int]:
    """Return the command that would have been run, what was said, and the status."""
    ran: list[str] = []
    out, err = io.StringIO(), io.StringIO()
    status = lab.start(target, arguments, out, err, lambda _, command: ran.extend(command))
    return ran, out.getvalue(), err.getvalue(), status


def test_a_folder_is_what_jupyterlab_shows(tmp_path: Path) -> None:
    """DIR becomes the root, the panel's option is set, and other arguments are handed on."""
    command, said, _, status = started(tmp_path, "--no-browser", "--port=9000")

    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert "--LabApp.default_url=/lab" in command
    assert any(lab.PAGE_OPTION in argument for argument in command)
    assert command[-2:] == ["--no-browser", "--port=9000"]
    assert (said, status) == ("", 0)


def test_a_notebook_is_opened_in_its_folder(tmp_path: Path) -> None:
    """A notebook's folder becomes the root, and the notebook is what is shown."""
    notebook = tmp_path / "a.ipynb"
    notebook.touch()
    command, _, _, _ = started(notebook)

    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert "--LabApp.default_url=/lab/tree/a.ipynb" in command


def test_without_a_folder_the_quick_start_is_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick-start is written where it is not there, said so, and never written over."""
    monkeypatch.chdir(tmp_path)
    command, said, _, _ = started(None)
    copy = tmp_path / lab.QUICK_START
    assert said == f"Wrote {lab.QUICK_START} into this folder.\n"
    assert f"--LabApp.default_url=/lab/tree/{lab.QUICK_START}" in command
    assert '"cells"' in copy.read_text(encoding="utf-8")

    copy.write_text("mine", encoding="utf-8")
    _, said, _, _ = started(None)
    assert said == ""
    assert copy.read_text(encoding="utf-8") == "mine"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Nothing is started, the path is named, and the status is 2."""
    command, _, why, status = started(tmp_path / "gone")

    assert (command, status) == ([], 2)
    assert why == f"jupyter ctx lab: {tmp_path / 'gone'} does not exist.\n"


def test_without_jupyterlab_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command to type is named, and the status is 2."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    command, _, why, status = started(tmp_path)

    assert (command, status) == ([], 2)
    assert why == "JupyterLab is not installed: pip install jupyterlab ipykernel\n"


def test_other_commands_refuse_what_they_do_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    """Only `lab` hands arguments on: a mistyped option of `run` ends with status 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "a.ipynb", "--prompt", "x", "--executee"])

    assert ended.value.code == 2
    assert "unrecognized arguments: --executee" in capsys.readouterr().err
