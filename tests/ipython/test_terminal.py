"""`%agent` in a terminal IPython, driven by its keyboard."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ipython(tmp_path: Path) -> Iterator[pexpect.spawn[str]]:
    """A terminal IPython with the extension loaded and the demo model."""
    secret = ("ANTHROPIC_", "OPENAI_", "JUPYTER_CTX_", "JPY_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(secret)}
    env |= {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "TERM": "xterm"}
    env |= {"JUPYTER_CTX_HOME": str(tmp_path / "ctx"), "PYTHONPATH": str(ROOT)}
    arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"]
    child = pexpect.spawn(
        sys.executable, arguments, env=env, encoding="utf-8", dimensions=(30, 100), timeout=60
    )
    child.expect(r"In \[1\]: ")
    child.sendline("%load_ext jupyter_ctx")
    child.expect(r"In \[2\]: ")
    yield child
    child.close(force=True)


def test_a_turn_asks_and_answers(ipython: pexpect.spawn[str]) -> None:
    """The code is shown and asked about; after yes it runs, and the last line stands below."""
    ipython.sendline("%agent hello there?")
    ipython.expect("Demo model: no key is set.")
    ipython.expect("The agent asks to run code:")
    ipython.expect(
        r"Allow\? \[y\]es once, \[a\]lways for this session \(run code\), \[n\]o \(and why\): "
    )
    ipython.sendline("y")
    ipython.expect(r"Ran code, \d+ lines")
    ipython.expect(r"\d steps, .* tokens, .*context \d+ %")
    ipython.expect(r"In \[3\]: ")


def test_ctrl_c_at_the_question_stops(ipython: pexpect.spawn[str]) -> None:
    """Ctrl-C at the question stops the turn in one sentence; the shell goes on."""
    ipython.sendline("%agent a large output")
    ipython.expect(r"Allow\?")
    ipython.sendintr()
    ipython.expect("UsageError: Stopped by you at step 1. Code that had run stays run.")
    ipython.expect(r"In \[3\]: ")
    ipython.sendline("print(6 * 7)")
    ipython.expect("42")
    ipython.sendline("%unload_ext jupyter_ctx")
    ipython.expect(r"In \[5\]: ")
    ipython.sendline("%agent x")
    ipython.expect("Line magic function `%agent` not found")
