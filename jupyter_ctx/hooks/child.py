"""Runs one command as a child process with its own process group, which ends with it.

Whatever the command does, its group is killed when it has ended, took too long, wrote too much, or
when nobody waits for it any more. Nothing blocks the loop: pipes are read as they fill, and a
thread of its own waits for the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)

MOST_BYTES = 1_000_000
"""The most that a child may write to each of its two outputs; then it is ended."""
DRAIN_S = 1.0
"""How long what a dead child left in its pipes may take: a process that left its group may hold
them open."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: `status` is its exit status, negative for a signal, None: not known.

    Outputs are text; bytes that are no UTF-8 are U+FFFD. `timed_out` and `flooded` say why it was
    ended, if it was.
    """

    status: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    flooded: bool = False


class _Group:
    """A child and its process group; what is called by its number is never anybody else's."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._is_reaped = False

    def kill(self) -> None:
        """End every process of the group; from any thread, as often as it may be."""
        with self._lock:
            if not self._is_reaped:
                self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(
            ProcessLookupError, PermissionError
        ):  # all are gone (macOS: EPERM)
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int | None:
        """Wait for the child, end what is left of its group, return its status; blocks.

        The child is waited for before it is reaped: until then its number stays its own.
        """
        if hasattr(os, "waitid"):  # not on macOS before Python 3.13
            try:
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # code of the user's reaped it, or children reap themselves
                with self._lock:
                    self._is_reaped = True
                    self._process.wait()  # returns at once: nothing is left to wait for
                    return None
        else:
            self._process.wait()
        with self._lock:
            self._kill()
            status = self._process.wait()
            self._is_reaped = True
        return status


@dataclass(slots=True)
class _Reader(asyncio.Protocol):
    """Keeps what comes on a pipe; `over` is called once with too much of it."""

    over: asyncio.Future[None]
    closed: asyncio.Future[None]
    kept: bytearray = field(default_factory=bytearray)

    def data_received(self, data: bytes) -> None:
        self.kept += data[: MOST_BYTES + 1 - len(self.kept)]
        if len(self.kept) > MOST_BYTES and not self.over.done():
            self.over.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


@dataclass(slots=True)
class _Writer(asyncio.BaseProtocol):
    """Knows whether its pipe is closed."""

    is_lost: bool = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


async def run_child(
    command: str, given: bytes, *, folder: str, environ: Mapping[str, str], timeout_s: float
) -> Ended:
    """Run `command` by the shell in `folder`, with `given` on its standard input.

    Raises OSError if it cannot be begun. If the task is cancelled, the child has ended first.
    """
    loop = asyncio.get_running_loop()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=dict(environ),
        start_new_session=True,
    )
    pipes = [pipe for pipe in (process.stdout, process.stderr, process.stdin) if pipe is not None]
    group = _Group(process)
    exited: asyncio.Future[int | None] = loop.create_future()
    over: asyncio.Future[None] = loop.create_future()
    _wait_aside(group, loop, exited)
    readers = [_Reader(over, loop.create_future()) for _ in range(2)]
    writer = _Writer()
    opened: list[asyncio.BaseTransport] = []
    try:
        for reader, pipe in zip(readers, pipes[:2], strict=True):
            opened.append((await loop.connect_read_pipe(partial(_same, reader), pipe))[0])
        transport, _ = await loop.connect_write_pipe(partial(_same, writer), pipes[2])
        opened.append(transport)
        transport.write(given)
        transport.write_eof()
        ends: list[asyncio.Future[Any]] = [exited, over]
        await asyncio.wait(ends, timeout=timeout_s, return_when="FIRST_COMPLETED")
        timed_out, flooded = not exited.done() and not over.done(), over.done()
        group.kill()
        ends = [exited, *(one.closed for one in readers)]
        await asyncio.wait(ends, timeout=DRAIN_S)
    finally:
        group.kill()
        for one in opened[:2]:
            one.close()
        if len(opened) == len(pipes) and not writer.is_lost:
            transport.abort()  # nobody reads what is left
        for pipe in pipes[len(opened) :]:
            pipe.close()
        if not exited.done():  # a stop: nothing else happens before the child has ended
            await asyncio.wait([exited], timeout=DRAIN_S)
    out, err = (reader.kept.decode("utf-8", "replace") for reader in readers)
    status = exited.result() if exited.done() else None
    return Ended(status, out, err, timed_out, flooded)


def _same(protocol: P) -> P:
    return protocol


def _wait_aside(
    group: _Group, loop: asyncio.AbstractEventLoop, exited: asyncio.Future[int | None]
) -> None:
    """Have a thread wait for the child and tell the loop of its end."""

    def tell(status: int | None) -> None:
        if not exited.done():
            exited.set_result(status)

    def wait() -> None:
        status = group.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits
            loop.call_soon_threadsafe(tell, status)

    threading.Thread(target=wait, name="jupyter_ctx hook", daemon=True).start()
