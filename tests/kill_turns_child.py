"""Runs a session of 33 steps and is killed at a chosen write; started by test_kill_turns.py.

Usage: python -m tests.kill_turns_child HOME

For every `os.write` of the session (transcript, results, metadata) one forked child runs it anew,
on the real store, with compactions and offloaded results, and is ended there by SIGKILL: before
the bytes, in the middle of them, or after them, in turn. Each child tells at every event which
entries had been recorded by then: those are acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
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
from tests.kills import HOWS, kill_each, os_write
from tests.wire import answering, printing, window

MODEL = "claude-sonnet-5-5"
WINDOW = 12_000
TURNS, STEPS = 3, 10
LONG_CHARS = 20_000


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


def run(home: Path, session_id: str, told_fd: int) -> None:
    """Run the whole session; tell a descriptor at every event what is recorded."""
    stored = SessionStore(home).create(session_id)
    told = 0

    def acknowledge(event: CtxEvent) -> None:
        nonlocal told
        new: Sequence[Entry] = session.transcript.entries[told:]
        told += len(new)
        for entry in new:
            os_write(told_fd, dump_line(entry))

    with session_over(stored, script()) as (session, _, _):
        for turn in range(1, TURNS + 1):
            session.ask(f"Prompt {turn}: count.", on_event=acknowledge)
    stored.close()


def points() -> Iterator[tuple[int, str]]:
    """Yield two kills at each write, in two of three ways in turn."""
    for point in itertools.count():
        yield point // 2, HOWS[point % len(HOWS)]


if __name__ == "__main__":
    kill_each(run, Path(sys.argv[1]), points())
