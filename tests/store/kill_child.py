"""Appends a recorded session and is killed at a chosen write; started by test_kill.py.

Usage: python -m tests.store.kill_child HOME HOW. For every write of the session, one forked child
runs it anew in its own session and is killed there: `before` the bytes, in the `middle` of them, or
`after` them. Each prints what the store had acknowledged by then.
"""

import json
import os
import signal
import sys
from pathlib import Path

from jupyter_ctx.core.ports import SpooledText, ToolOutput
from jupyter_ctx.store.sessions import SessionStore

from .examples import RECORDED

os_write = os.write


def run(home: Path, session_id: str, acknowledged: int) -> None:
    """Store the recorded session; tell `acknowledged` (a pipe) what has been stored."""
    session = SessionStore(home).create(session_id)
    for n, entry in enumerate(RECORDED):
        session.append(entry)
        os_write(acknowledged, json.dumps({"entry": n}).encode() + b"\n")
        name, text = f"call_{n}", f"text {n}\n" * 100
        if n % 2:
            session.save_result(name, "run_code", ToolOutput(text))
        else:
            fd, path = session.make_spool()
            os.write(fd, text.encode())
            os.close(fd)
            spooled = SpooledText(str(path), len(text), 100, len(text), "", "")
            session.save_result(name, "run_code", ToolOutput(spooled))
        os_write(acknowledged, json.dumps({"result": name, "text": text}).encode() + b"\n")
        session.update_metadata(tokens=n)
    session.close()


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


def run_killed(home: Path, write: int, how: str) -> dict[str, object]:
    """Run a child that is killed at that write; return what it was, and what was acknowledged."""
    session_id = f"{how}-{write}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        kill_at(write, how)
        run(home, session_id, writing)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    return {"session_id": session_id, "killed": os.WIFSIGNALED(status), "said": said}


def main() -> None:
    """Kill a child at each write in turn, until one lives to the end."""
    home, how = Path(sys.argv[1]), sys.argv[2]
    write = 0
    while True:
        told = run_killed(home, write, how)
        print(json.dumps(told), flush=True)
        if not told["killed"]:
            return
        write += 1


if __name__ == "__main__":
    main()
