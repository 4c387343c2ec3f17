"""A command that has a deadline and a bound on what it may say; it leaves no process behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence


class LateError(Exception):
    """The command was ended because its time was over."""


def run(
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    deadline: float,
    most_bytes: int,
) -> tuple[int, bytes]:
    """Return the exit code and the first `most_bytes` of what a command writes to stdout.

    `deadline` is in monotonic seconds. A command that says more is ended and has succeeded (code
    0). Its whole process group is ended with it. Raises LateError and OSError.
    """
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdout is not None  # it is a pipe
    with child.stdout:
        try:
            said, is_cut = _read(child, deadline, most_bytes)
            code = 0 if is_cut else child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise LateError from None
        finally:
            if child.returncode is None:  # not waited for yet, so the number is still its own
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    return code, said


def _read(child: subprocess.Popen[bytes], deadline: float, most_bytes: int) -> tuple[bytes, bool]:
    """Return what it says, and whether that is only the beginning. Raises LateError."""
    assert child.stdout is not None  # it is a pipe
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while len(said) <= most_bytes:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise LateError
            more = os.read(child.stdout.fileno(), 64 * 1024)
            if not more:
                return bytes(said), False
            said += more
    return bytes(said[:most_bytes]), True
