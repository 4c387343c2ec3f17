"""Runs a turn with two sub-agents and is killed at a chosen write; started by test_kill_agents.py.

Usage: python -m tests.kill_agents_child HOME

For every `os.write` of the turn (transcripts of the session and its sub-agents, results, metadata)
one forked child runs it anew on the real store and is ended there by SIGKILL: before the bytes, in
the middle of them, or after them, in turn. Each tells at every event what was recorded by then.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterator
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
from jupyter_ctx.testing import AllowAll, FakeClock, InlineRunner
from tests.agents import Cast, Look, task
from tests.direct import DirectModel, NearCounter, facts_of, judge
from tests.fake_anthropic import FakeAnthropic, call, reply
from tests.kills import HOWS, kill_each, os_write
from tests.wire import window

MODEL = "claude-sonnet-5-5"
LONG = "long " * 20_000


def cast() -> Cast:
    """Return the script: two sub-agents, of which one prints a long output, then the end."""
    return Cast(
        [reply("Both.", tools=[task("A"), task("B")]), "Both answered."],
        {
            "A": [reply(tools=[call("run_code", code=f"print({LONG!r})")]), "A is done."],
            "B": [reply(tools=[call("look", text="b")]), "B is done."],
        },
    )


@contextmanager
def session_over(
    stored: MemorySession, script: Callable[[dict[str, object]], object]
) -> Iterator[tuple[Session, FakeAnthropic]]:
    """Give a session on `stored`, its sub-agents too, and the fake that judges it."""
    models, tools = window(60_000, MODEL), Look()

    async def point() -> None:
        await asyncio.sleep(0)

    with judge(script, models) as fake:

        def make_model(name: str) -> DirectModel:
            return DirectModel(name, fake, point, lambda record: None)

        ports = Ports(
            model=make_model(MODEL),
            counter=NearCounter(),
            tools=tools,
            store=stored,
            clock=FakeClock(),
            kernel=tools.kernel,
            permissions=AllowAll(),
            runner=InlineRunner(),
            redactor=Redactor({}),
            make_model=make_model,
            known_facts=lambda name: facts_of(name, models),
            agents=stored,
        )
        place = Place(stored.session_id, None, "/home/user", "Linux", "2026-11-30", "0")
        settings = Settings(model=MODEL, prepare_calls=0, prepare_idle_s=0.0)
        yield Session(list(stored.entries), settings, place, ports), fake


def run(home: Path, session_id: str, told_fd: int) -> None:
    """Run the turn; tell a descriptor at every event what is recorded."""
    stored = SessionStore(home).create(session_id)
    told = 0

    def acknowledge(event: CtxEvent) -> None:
        nonlocal told
        new: list[Entry] = list(session.transcript.entries[told:])
        told += len(new)
        for entry in new:
            os_write(told_fd, dump_line(entry))

    with session_over(stored, cast()) as (session, _):
        session.ask("Look at both.", on_event=acknowledge)
    stored.close()


def points() -> Iterator[tuple[int, str]]:
    """Yield a kill at each write, the ways in turn."""
    for write in itertools.count():
        yield write, HOWS[write % len(HOWS)]


if __name__ == "__main__":
    kill_each(run, Path(sys.argv[1]), points())
