"""An MCP server as a child process that speaks lines of JSON over its stdin and stdout.

Why not the SDK's own: this one bounds a line, a flood of messages and what is kept of stderr, lets
the child inherit no more than it needs, and ends it, with its whole process group, in about a
second. Only loaded with the SDK.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from ..errors import ToolError
from .mcp_entries import Entry
from .mcp_watch import MOST_MESSAGE_BYTES, Watch
from .terminal import mend_surrogates

INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR")
INHERITED_TOO = ("TZ", "USER")
"""What a child gets of the kernel's environment: nothing that holds a key."""

GRACE_S = 0.5
"""How long a child may take to end when its stdin is closed, and again when it is told to."""

_READ_BYTES = 2**16

_alive: set[int] = set()
"""The process groups that this process has begun and not ended."""


def child_environment(entry: Entry, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: a few plain variables, and what its entry says."""
    names = (*INHERITED, *INHERITED_TOO)
    return {**{name: environ[name] for name in names if name in environ}, **entry.env}


@asynccontextmanager
async def open_stdio(
    entry: Entry, folder: str, environ: Mapping[str, str], watch: Watch
) -> AsyncIterator[TransportStreams]:
    """Start the child and yield the streams of its messages; at the end none of it is left.

    `folder` is where it runs unless the entry says another. Raises ToolError if it cannot start.
    """
    process = await _start(entry, folder, environ)
    _alive.add(process.pid)
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.ensure_future(_read(process, to_session, watch)),
        asyncio.ensure_future(_write(process, from_session)),
        asyncio.ensure_future(_hear(process, watch)),
    ]
    try:
        yield read, write
    finally:
        watch.is_closing = True
        try:
            await _stop(process)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_session, read, write, from_session):
                stream.close()
            _close_pipes(process)
            _alive.discard(process.pid)


async def _start(entry: Entry, folder: str, environ: Mapping[str, str]) -> Process:
    cwd = os.path.join(folder, os.path.expanduser(entry.cwd)) if entry.cwd else folder
    try:
        return await asyncio.create_subprocess_exec(
            entry.command,
            *entry.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment(entry, environ),
            cwd=cwd,
            start_new_session=True,
            limit=MOST_MESSAGE_BYTES,
        )
    except FileNotFoundError:
        if not os.path.isdir(cwd):
            raise ToolError(f"its folder {cwd} does not exist") from None
        raise ToolError(f"the command `{entry.command}` was not found") from None
    except (OSError, ValueError) as error:
        raise ToolError(f"`{entry.command}` could not be started: {error}") from error


async def _read(
    process: Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    watch: Watch,
) -> None:
    """Hand the child's messages on until it ends, or does what no server does."""
    assert process.stdout is not None  # it was asked for
    try:
        async with to_session:
            while line := await process.stdout.readline():
                watch.count()
                if watch.reason:
                    return
                message = _parse(line)
                if message is None:
                    watch.hear(line)  # a server that prints beside its messages
                    continue
                await to_session.send(SessionMessage(message))
            await _ended(process, watch)
    except ValueError:  # asyncio's word for a line over the limit
        watch.end(f"it sent a message of more than {MOST_MESSAGE_BYTES // 2**20} MB")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # the session is closed
    except OSError as error:
        watch.end(f"it cannot be heard any more ({error})")


def _parse(line: bytes) -> types.JSONRPCMessage | None:
    """Return the message of a line, None if it is none; half characters in it become U+FFFD.

    A server that cuts a text in the middle of a character writes half of it.
    """
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        text = json.dumps(json.loads(line.decode("utf-8", "replace")), ensure_ascii=False)
        whole = mend_surrogates(text)
        return types.jsonrpc_message_adapter.validate_json(whole, by_name=False)
    except (ValueError, RecursionError):
        return None


async def _ended(process: Process, watch: Watch) -> None:
    """Tell that the child closed its stdout, with its exit status if it comes at once."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await _wait(process)
    code = process.returncode
    watch.end("it closed the connection" if code is None else f"it ended with status {code}")


async def _write(process: Process, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write the session's messages; a child that does not read keeps one waiting, not us."""
    assert process.stdin is not None  # it was asked for
    async with messages:
        async for one in messages:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()
            except (OSError, RuntimeError):
                return  # it is gone; the reader tells


async def _hear(process: Process, watch: Watch) -> None:
    """Read what the child says on stderr, so that it never waits, and keep the end of it."""
    assert process.stderr is not None  # it was asked for
    with contextlib.suppress(OSError):
        while piece := await process.stderr.read(_READ_BYTES):
            watch.hear(piece)
            if len(piece) == _READ_BYTES:  # it floods: some 10 MB a second are enough
                await asyncio.sleep(0.005)


# The end ----------------------------------------------------------------------------------------


async def _stop(process: Process) -> None:
    """End the child: its stdin is closed, then it is told, then it and its group are killed."""
    assert process.stdin is not None  # it was asked for
    process.stdin.close()
    try:
        for sent in (None, signal.SIGTERM):
            if sent is not None:
                _signal(process.pid, sent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await _wait(process)
                    break
    finally:
        _signal(process.pid, signal.SIGKILL)  # what it started and left behind, too
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await _wait(process)


async def _wait(process: Process) -> None:
    """Wait for the child itself; a grandchild may hold its pipes open for ever."""
    while process.returncode is None:
        await asyncio.sleep(0.01)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_all() -> None:
    """End what is left when the interpreter ends without a session having been closed."""
    for group in _alive:
        _signal(group, signal.SIGTERM)
    if _alive:
        time.sleep(GRACE_S)
    for group in _alive:
        _signal(group, signal.SIGKILL)


atexit.register(_end_all)


def _close_pipes(process: Process) -> None:
    """Let go of the pipes, also of those that a grandchild in a group of its own holds open."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
