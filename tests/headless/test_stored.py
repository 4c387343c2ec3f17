"""Laws of `jupyter ctx sessions`, `show` and `doctor`."""

from __future__ import annotations

import io
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import pytest

from jupyter_ctx.cli import build_parser
from jupyter_ctx.core.blocks import Text, assistant, user
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.headless.stored import run
from jupyter_ctx.store.sessions import SessionStore

KEY = "sk-ant-api03-0123456789abcdef0123456789abcdef"


@dataclass
class Shell:
    """Runs commands on one home."""

    home: Path

    def __call__(self, *argv: str, **environ: str) -> tuple[int, str, str]:
        """Return status, stdout and stderr of a command."""
        out, err = io.StringIO(), io.StringIO()
        options: Namespace = build_parser().parse_args(argv)
        status = run(options, {"JUPYTER_CTX_HOME": str(self.home), **environ}, out, err)
        return status, out.getvalue(), err.getvalue()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a shell whose home has the sessions `one` and `two`."""
    store = SessionStore(tmp_path)
    for name, text in (("one", "Churn by cohort"), ("two", "Sales by week")):
        session = store.create(name, notebook=f"/w/{name}.ipynb")
        session.append(MessageEntry(1.0, 1, 0, "prompt", user(Text(text))))
        session.append(MessageEntry(2.0, 1, 1, "reply", assistant(Text(f"The answer of {name}."))))
        session.update_metadata(title=text, turns=1)
        session.close()
    return Shell(tmp_path)


def test_sessions_are_listed_and_found(shell: Shell) -> None:
    """All are listed; words of titles and prompts choose, with --full of every message."""
    status, out, err = shell("sessions")
    assert (status, err) == (0, "")
    assert "Churn by cohort" in out
    assert "two.ipynb" in out
    assert "one" not in shell("sessions", "SALES", "week")[1]
    assert shell("sessions", "answer of")[1].startswith("No session has")
    assert "two" in shell("sessions", "answer of two", "--full")[1]


def test_sessions_are_deleted_and_restored(shell: Shell) -> None:
    """A deleted session is in the trash until it is restored."""
    assert shell("sessions", "--delete", "one")[0] == 0
    assert "one" not in shell("sessions")[1]
    assert "one" in shell("sessions", "--trash")[1]
    assert shell("sessions", "--restore", "one")[0] == 0
    assert "one" in shell("sessions")[1]
    for wrong in ("--delete", "--restore"):
        status, out, err = shell("sessions", wrong, "nowhere")
        assert (status, out) == (1, "")
        assert "nowhere" in err


def test_a_conversation_is_shown(shell: Shell) -> None:
    """An id or words of one session give its conversation; several sessions are an error."""
    for named in (("one",), ("churn",)):
        status, out, err = shell("show", *named)
        assert (status, err) == (0, "")
        assert "Churn by cohort" in out
        assert "The answer of one." in out
    status, out, err = shell("show", "by")
    assert (status, out) == (1, "")
    assert "one" in err
    assert "two" in err
    assert "`jupyter ctx show ID` takes one of" in err
    assert "`jupyter ctx sessions --full TEXT`" in shell("show", "nowhere")[2]


def test_a_shown_conversation_is_only_read(shell: Shell) -> None:
    """A session that a live kernel has open is shown, and no file of it changes."""
    session = SessionStore(shell.home).load("one")
    files = {path: path.read_bytes() for path in (shell.home / "sessions").rglob("*.json*")}

    assert "The answer of one." in shell("show", "one")[1]

    assert {path: path.read_bytes() for path in files} == files
    session.close()


def test_no_key_of_the_program_is_shown(shell: Shell) -> None:
    """What is set as a key is taken out of a conversation that was stored before it was one."""
    session = SessionStore(shell.home).load("one")
    session.append(MessageEntry(3.0, 2, 0, "prompt", user(Text(f"My key is {KEY}"))))
    session.close()

    status, out, _ = shell("show", "one", ANTHROPIC_API_KEY=KEY)

    assert status == 0
    assert "My key is" in out
    assert KEY not in out


def test_the_doctor_needs_no_kernel(shell: Shell) -> None:
    """Versions, model and storage are told; a fault makes the exit status 1."""
    status, out, _ = shell("doctor")
    assert status == 0
    assert f"Storage: {shell.home}" in out
    status, out, _ = shell("doctor", JUPYTER_CTX_PERMISSIONS="never")
    assert status == 1
    assert "Settings" in out
