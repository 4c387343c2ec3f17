"""Ends processes by SIGKILL at chosen writes, each a fork of one process that has run it all once.

What was imported and computed then is there in each child, so that a kill costs as much as the run
up to it, and several run at a time.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

HOWS = ("before", "middle", "after")
AT_ONCE = 2
"""So many children run at a time, beside the test that looks at those that ended."""

os_write = os.write

Run = Callable[[Path, str, int], None]
"""Runs a session of that id in that home; tells a descriptor at every event what was recorded."""


def kill_each(run: Run, home: Path, points: Iterable[tuple[int, str]]) -> None:
    """Kill a child at each point, a write and how, until one lives to the end; print how each did.

    A line is `{"session_id", "killed", "status", "acknowledged": [lines]}`.
    """
    with tempfile.TemporaryDirectory() as folder:
        run_once(run, Path(folder))
        gc.freeze()
        running: deque[tuple[int, str, Path]] = deque()
        left = iter(points)
        while True:
            while len(running) < AT_ONCE and (point := next(left, None)) is not None:
                running.append(start(run, home, *point, Path(folder)))
            told = outcome(*running.popleft())
            print(json.dumps(told), flush=True)
            if not told["killed"]:
                break
        for child, _, _ in running:
            os.waitpid(child, 0)


def run_once(run: Run, folder: Path) -> None:
    """Run it whole in this process, for what it imports and keeps."""
    fd = os.open(os.devnull, os.O_WRONLY)
    try:
        run(folder / "warm", "warm", fd)
    finally:
        os.close(fd)


def start(run: Run, home: Path, write: int, how: str, folder: Path) -> tuple[int, str, Path]:
    """Fork a child that is killed at that write; return its id, its session's, and what it tells.

    It tells in a file: what was written stays when the writer is killed.
    """
    session_id = f"{how}-{write}"
    told = folder / session_id
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fd = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            kill_at(write, how)
            run(home, session_id, fd)
            status = 0
        finally:
            os._exit(status)
    return child, session_id, told


def outcome(child: int, session_id: str, told: Path) -> dict[str, object]:
    """Wait for a child; return how it ended, and what it had acknowledged."""
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    lines = told.read_text("utf-8").splitlines() if told.exists() else []
    return {"session_id": session_id, "killed": killed, "status": status, "acknowledged": lines}


def kill_at(write: int, how: str) -> None:
    """From here on, kill this process at its `write`th os.write, counted from 0."""
    count = 0

    def counted(fd: int, data: bytes) -> int:
        nonlocal count
        count += 1
        if count - 1 != write:
            return os_write(fd, data)
        if how != "before":
            os_write(fd, data[: len(data) // 2] if how == "middle" else data)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    os.write = counted  # type: ignore[assignment]  # this process only, and it is about to die
