"""Laws of a session's lock: held while its process lives, whatever the process does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_ctx.store.sessions import SessionStore

HOLD = """
import os, sys
from pathlib import Path
from jupyter_ctx.store.sessions import SessionStore
session = SessionStore(Path(sys.argv[1])).create("held", notebook="/w/a.ipynb")
os.write(1, b"held\\n")
sys.stdin.read()
"""


@contextmanager
def holding(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a process that has the session `held` open."""
    command = [sys.executable, "-c", HOLD, str(home)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def loaded_id(store: SessionStore) -> str:
    """Return the id under which the session opens: another one if it is held."""
    session = store.load("held")
    session.close()
    return session.session_id


def test_a_suspended_process_keeps_its_session(tmp_path: Path) -> None:
    """However long a machine sleeps, nobody takes a session whose process is still there."""
    store = SessionStore(tmp_path)
    with holding(tmp_path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

        assert store.is_open("held")
        assert loaded_id(store) != "held"
        os.kill(process.pid, signal.SIGCONT)


def test_a_killed_process_frees_its_session(tmp_path: Path) -> None:
    """A process that SIGKILL ended holds nothing: the session opens as itself."""
    store = SessionStore(tmp_path)
    with holding(tmp_path) as process:
        process.kill()
        process.wait()

        assert not store.is_open("held")
        assert loaded_id(store) == "held"


def test_looking_whether_a_session_is_open_takes_it_from_nobody(tmp_path: Path) -> None:
    """A session that is looked at by many lists while it is opened is opened, not copied."""
    store = SessionStore(tmp_path)
    store.create("held").close()
    look = (
        "import sys; from pathlib import Path\n"
        "from jupyter_ctx.store.sessions import SessionStore\n"
        "store = SessionStore(Path(sys.argv[1])); print('looks', flush=True)\n"
        "while True: store.is_open('held')\n"
    )
    command = [sys.executable, "-c", look, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as looker:
        assert looker.stdout is not None
        looker.stdout.readline()
        try:
            assert looker.poll() is None
            assert [loaded_id(store) for _ in range(200)] == ["held"] * 200
        finally:
            looker.kill()
