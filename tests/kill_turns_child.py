"""Runs a session of 33 steps and is killed at a chosen write; started by test_kill_turns.py.

Usage: python -m tests.kill_turns_child HOME

For every `os.write` of the session (transcript, results, metadata) one forked child runs it anew,
on the real store, with compactions and offloaded results, and is ended there by SIGKILL: before
the bytes, in the middle of them, or after them, in turn. Each child tells through a pipe, at every
event, which entries had been recorded by then: those are acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jupyter_ctx.config import Settings
from jupyter_ctx.core.entries import Entry
from jupyter_ctx.core.events import CtxEvent
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.session import Place, Ports, Session
from jupyter_ctx.store.codec import dump_line
from jupyter_ctx.store.open_session import MemorySession
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.testing import AllowAll, FakeClock, FakeKernel, FakeTools, InlineRunner
from tests.direct import DirectModel, NearCounter, facts_of, judge
from tests.fake_anthropic import FakeAnthropic
from tests.fake_anthropic.record import Recorded
from tests.wire import answering, printing, window

MODEL = "claude-sonnet-5-5"
WINDOW = 12_000
HOWS = ("before", "middle", "after")
TURNS, STEPS = 3, 10
LONG_CHARS = 20_000

os_write = os.write


def long_text(turn: int, step: int) -> str:
    """Return what the code of a step prints where it is long."""
    return f"{turn}-{step} ".ljust(8, "x") * (LONG_CHARS // 8)


def script() -> Iterator[object]:
    """Yield the answers: each turn runs code ten times, every third time with a long output."""
    for turn in range(1, TURNS + 1):
        for step in range(1, STEPS + 1):
            code = f"for i in range(25): print('step', {turn}, {step}, 'line', i * 37 % 101)"
            if step % 3 == 0:
                code = f"print({long_text(turn, step)!r})"
            yield printing(code, f"Step {step}.", thinking=f"thought {turn} {step}")
        yield f"Turn {turn} is done."


@contextmanager
def session_over(
    stored: MemorySession, answers: Iterator[object]
) -> Iterator[tuple[Session, FakeAnthropic, list[Recorded]]]:
    """Give a session on `stored` with the fake that judges it, and the requests as they come."""
    models = window(WINDOW, MODEL)
    seen: list[Recorded] = []
    settings = Settings(model=MODEL, compaction="crush", prepare_calls=0, prepare_idle_s=0.0)
    kernel = FakeKernel()

    async def point() -> None:
        await asyncio.sleep(0)

    with judge(answering(answers), models) as fake:

        def make_model(name: str) -> DirectModel:
            return DirectModel(name, fake, point, seen.append)

        ports = Ports(
            model=make_model(MODEL),
            counter=NearCounter(),
            tools=FakeTools(kernel),
            store=stored,
            clock=FakeClock(),
            kernel=kernel,
            permissions=AllowAll(),
            runner=InlineRunner(),
            redactor=Redactor({}),
            make_model=make_model,
            known_facts=lambda name: facts_of(name, models),
        )
        place = Place(stored.session_id, None, "/home/user", "Linux", "2026-11-30", "0")
        yield Session(list(stored.entries), settings, place, ports), fake, seen


def run(home: Path, session_id: str, pipe: int) -> None:
    """Run the whole session; tell `pipe` (a descriptor) at every event what is recorded."""
    stored = SessionStore(home).create(session_id)
    told = 0

    def acknowledge(event: CtxEvent) -> None:
        nonlocal told
        new: Sequence[Entry] = session.transcript.entries[told:]
        told += len(new)
        for entry in new:
            os_write(pipe, dump_line(entry))

    with session_over(stored, script()) as (session, _, _):
        for turn in range(1, TURNS + 1):
            session.ask(f"Prompt {turn}: count.", on_event=acknowledge)
    stored.close()


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
    """Run a child that is killed at that write; return how it ended, and what it acknowledged."""
    session_id = f"{how}-{write}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        kill_at(write, how)
        run(home, session_id, writing)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"session_id": session_id, "killed": killed, "status": status, "acknowledged": lines}


def main() -> None:
    """Kill two children at each write, in two of three ways in turn, until one lives to the end."""
    home, point = Path(sys.argv[1]), 0
    while True:
        told = run_killed(home, point // 2, HOWS[point % len(HOWS)])
        print(json.dumps(told), flush=True)
        if not told["killed"]:
            return
        point += 1


if __name__ == "__main__":
    main()
