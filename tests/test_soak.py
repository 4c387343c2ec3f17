"""A long session on a small window, with faults all along: whole at its end, and nothing lost.

`JUPYTER_CTX_SOAK_STEPS=10000` makes it that long.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.events import CompactionFinished, CtxEvent, TurnFinished
from jupyter_ctx.core.repair import repair
from jupyter_ctx.core.view import build_view
from jupyter_ctx.ipython.storedtexts import StoredTexts
from jupyter_ctx.tools.results import make_read_result
from tests.direct import DirectModel, judge
from tests.fake_anthropic import Call, FakeModel, Reply, Text, Thinking
from tests.laws import assert_requests
from tests.sequences import (
    BINDS,
    FREE,
    Act,
    Compact,
    Pin,
    Resume,
    Turn,
    Wait,
    Words,
    World,
    make_act,
)

pytestmark = pytest.mark.no_cover  # each line is held by a law of its own, elsewhere
STEPS = int(os.environ.get("JUPYTER_CTX_SOAK_STEPS", "1000"))
_OUTSIDE = (type, ModuleType, FunctionType)
SMALL = {
    name: FakeModel(window=8_000, max_output=4_000, binds_thinking=name == BINDS)
    for name in (BINDS, FREE)
}


class _Watch:
    """Counts steps and judges turns as they end."""

    def __init__(self) -> None:
        self.compactions = 0
        self.outcomes: list[str] = []
        self.errors: list[str] = []

    def __call__(self, world: World, event: CtxEvent | None) -> None:
        match event:
            case CompactionFinished():
                self.compactions += 1
            case TurnFinished(outcome=outcome, error=error):
                self.outcomes.append(outcome)
                is_paused = world.session.state == "paused"  # after three failed summaries
                if outcome == "failed" and not world.explained and not is_paused:
                    self.errors.append(str(error))
            case None:
                world.events.clear()
            case _:
                pass


def test_a_thousand_steps_with_faults(tmp_path: Path) -> None:
    """The log is valid, every error has its cause, and memory holds the log and little more."""
    choose, seen = random.Random(7).choice, _Watch()
    random.seed(7)
    worlds: list[World] = []
    weights: list[tuple[int, int]] = []
    with judge(lambda body: worlds[0].answer(body), SMALL) as fake:
        world = World(fake, tmp_path / "home", Settings(model=BINDS), watch=seen)
        worlds.append(world)
        for steps in (STEPS // 2, STEPS):
            while len(world.sent) < steps:
                act = make_act(choose, 8_000, is_calm=choose((True, False)))
                world.do(act if steps < STEPS else _in_one_kernel(act))
                if world.session.state == "paused":
                    world.do(Compact())
            weights.append((_weigh(_held(world)), _weigh(world.session.transcript.entries)))
        view = tuple(world.session.transcript.view)
        assert view == build_view(world.store.entries) == repair(view)
        assert_requests(world)
        world.close()
    assert seen.errors == []
    assert seen.compactions >= STEPS // 30
    assert {"done", "stopped", "failed"} <= set(seen.outcomes)
    (half, half_log), (whole, whole_log) = weights
    assert whole - half <= 1.5 * (whole_log - half_log) + 100_000


def _in_one_kernel(act: Act) -> Act:
    """Return the act, or another where it would end the kernel, and with it what grows there."""
    if isinstance(act, Turn | Compact) and act.stop is not None and act.stop.how == "kill":
        return replace(act, stop=None)
    return Wait(1.0) if isinstance(act, Resume) else act


def _held(world: World) -> object:
    """Return all that a session holds in memory, the world's own parts apart."""
    model = world.session._engine.ports.model
    assert isinstance(model, DirectModel)
    return [vars(world.session), vars(world.session._engine), model._wires]


def _weigh(root: object) -> int:
    """Return the bytes of what hangs on `root`, the world around the session apart."""
    seen: set[int] = set()
    whole, todo = 0, [root]
    while todo:
        item = todo.pop()
        is_world = isinstance(item, _OUTSIDE) or type(item).__module__.startswith("tests.")
        if id(item) in seen or is_world:
            continue
        seen.add(id(item))
        whole += sys.getsizeof(item)
        todo += gc.get_referents(item)
    return whole


NAMES = re.compile(r"(?:toolu|jctx)_\w+|(?:prompt|turn)-\d+")
RANGES = re.compile(r"`(prompt|turn)-(\d+)` to `\1-(\d+)`")


def test_planted_facts_survive_ten_compactions(tmp_path: Path) -> None:
    """Each stays in the request, or is read by a name that stands in it or in what it names."""
    facts = ["FIRST-7431", "PINNED-5501"]
    worlds: list[World] = []
    with judge(lambda body: worlds[0].answer(body), SMALL) as fake:
        world = World(fake, tmp_path / "home", Settings(model=BINDS))
        worlds.append(world)
        world.do(Pin(f"Keep in mind {facts[1]}"))
        number = 0
        while len(world.session.transcript.compactions) < 10:
            number += 1
            assert number < 200
            hidden = f"HIDDEN-{number:04}"
            call = Call("make", chars=9_000, kind="digits", number=hidden[-4:])
            said = Reply((Thinking("hm"), Text("I look. " * 40), call))
            prompt = Words(f"{facts[0] if number == 1 else f'PROMPT-{number:04}'}: go on. " * 8)
            world.do(Turn(prompt, (said, said)))
            facts += [hidden, *([f"PROMPT-{number:04}"] if number > 1 else [])]
            assert world.session.last_turn is not None
            assert world.session.last_turn.outcome == "done", world.session.last_turn.error
        request = world.sent[-1].record.body.decode()
        for verbatim in (facts[0], facts[1], facts[-1]):
            assert verbatim in request
        found = request + asyncio.run(_read_all(world, request))
        assert [fact for fact in facts if fact not in found] == []
        world.close()


async def _read_all(world: World, request: str) -> str:
    """Return what `read_result` gives for every name in the request, and for those in that."""
    tool = make_read_result(StoredTexts(world.store))
    read: dict[str, str] = {}
    new = _names_in(request)
    for _ in range(2):
        for name in new:
            asked = {"tool_use_id": name}
            page, hits = [
                str((await tool.run({**asked, **more}, 50_000)).text)
                for more in ({}, {"pattern": r"HIDDEN-\d+"})
            ]
            read[name] = page + hits
        new = {name for text in read.values() for name in _names_in(text)} - read.keys()
    return "".join(read.values())


def _names_in(text: str) -> set[str]:
    runs = [(m[1], range(int(m[2]), int(m[3]) + 1)) for m in RANGES.finditer(text)]
    return {*NAMES.findall(text), *(f"{kind}-{n}" for kind, run in runs for n in run)}
