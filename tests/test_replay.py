"""Recorded conversations through the engine, in small: the bill, the optimum, the other rules."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Block, Json, block_to_wire
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN, is_instruction
from jupyter_ctx.core.ports import Delta, Request, ToolOutput
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.session import Place, Ports, Session
from jupyter_ctx.testing import AllowAll, FakeClock, FakeKernel, InlineRunner, MemoryStore
from tests.direct import DirectModel, NearCounter, facts_of, judge
from tests.fake_anthropic import Call as FakeCall
from tests.fake_anthropic import FakeModel, Reply, Text, last_text
from tests.fake_anthropic.tokens import (
    REQUEST_TOKENS,
    TOOLS_TOKENS,
    TURN_TOKENS,
    block_tokens,
    tool_tokens,
)
from tests.pictures import png
from tests.replay.billing import PromptCache
from tests.replay.counting import COUNTER
from tests.replay.facts import AFTER, check_reach, lost_of
from tests.replay.figures import cheapest_valid, fitted, kept_chars, measure
from tests.replay.optimum import Plan, cost_of, find_optimum, plan_of, points_of
from tests.replay.player import ReplayTools, play
from tests.replay.policies import POLICIES, run_policy
from tests.replay.trajectories import (
    Call,
    Conversation,
    Step,
    Turn,
    join,
    load_corpus,
    small_conversation,
)

# The bill is the fake's ---------------------------------------------------------------------------


class FakeSizes:
    """What the fake counts."""

    request_tokens = REQUEST_TOKENS
    tools_tokens = TOOLS_TOKENS
    message_tokens = TURN_TOKENS

    def __init__(self, model: FakeModel) -> None:
        self._model = model

    def tool(self, tool: Json) -> int:
        return tool_tokens(tool)

    def system(self, text: str) -> int:
        return block_tokens({"type": "text", "text": text}, self._model, {})

    def block(self, block: Block) -> int:
        wire = block_to_wire(block)
        sizes = {id(inner): (560, 280) for inner in _pictures(wire)}
        return block_tokens(wire, self._model, sizes)


def _pictures(wire: Json) -> Iterator[Json]:
    content = wire.get("content")
    for inner in (wire, *(content if isinstance(content, list) else ())):
        if inner["type"] == "image":
            yield inner


class KeepingModel(DirectModel):
    """Keeps every request it was asked for a message."""

    requests: list[Request]

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        self.requests.append(request)
        async for delta in super().stream(request):
            yield delta


@pytest.mark.parametrize("window", [8_000, 16_000, 200_000])
def test_the_bill_is_the_strict_fakes(window: int) -> None:
    """Every request reads, writes and counts exactly what the fake says, whatever came between."""
    conversation = _with_pictures(small_conversation(4, 7, seed=window))
    name, model = "claude-sonnet-5", FakeModel(window=window, max_output=4_000)
    steps: list[Step] = []

    def answer(body: dict[str, object]) -> object:
        if last_text(body).startswith(INSTRUCTION_OPEN):
            return "## Task\n" + "So far all is well. " * 40
        step = steps.pop(0)
        calls = (FakeCall(call.name, _id=call.id, _raw=None, **call.input) for call in step.calls)
        return Reply((Text(step.text), *calls), chunk=10_000)

    async def point() -> None:
        await asyncio.sleep(0)

    now = 1_000.0
    with judge(answer, {name: model}) as fake:
        fake._now = lambda: now
        asked = KeepingModel(name, fake, point, lambda record: None)
        asked.requests = []
        session = _session(asked, conversation, facts_of(name, fake.models))
        for turn in conversation.turns:
            steps[:] = turn.steps
            session.ask(turn.prompt)
            assert session.last_turn is not None
            assert session.last_turn.outcome == "done", session.last_turn.error
            now += 400.0 if turn is conversation.turns[1] else 120.0  # once over the TTL
        cache, refused = PromptCache(FakeSizes(model), model.cache_floor), fake.refused
        records = fake.messages
    assert refused == []
    assert window > 100_000 or session.transcript.compactions
    for request, record in zip(asked.requests, records, strict=True):
        plan = record.plan
        if plan is None:  # a summary was begun, and its turn's loop ended before it was answered
            assert is_instruction(request.messages[-1])
            continue
        charge = cache.charge(request, record.at)
        assert (charge.input, charge.read, charge.write) == (
            plan.input_tokens,
            plan.read_tokens,
            plan.write_5m_tokens,
        )
        assert cache.count(request) == plan.input_tokens


def _with_pictures(conversation: Conversation) -> Conversation:
    """Return the conversation with a picture in a result of its third turn."""
    turns = list(conversation.turns)
    first, *rest = turns[2].steps
    shown = ToolOutput("A plot.", (png(560, 280),))
    call = replace(first.calls[0], output=shown)
    turns[2] = replace(turns[2], steps=(replace(first, calls=(call, *first.calls[1:])), *rest))
    return replace(conversation, turns=tuple(turns))


def _session(model: DirectModel, conversation: Conversation, facts: object) -> Session:
    kernel, store = FakeKernel(), MemoryStore()
    ports = Ports(
        model=model,
        counter=NearCounter(),
        tools=ReplayTools(conversation, kernel, store),
        store=store,
        clock=FakeClock(),
        kernel=kernel,
        permissions=AllowAll(),
        runner=InlineRunner(),
        redactor=Redactor({}),
        make_model=lambda name: model,
        known_facts=lambda name: facts,  # type: ignore[arg-type, return-value]  # of the fake
    )
    place = Place("replay", None, "/home/user", "Linux", "2026-01-01", "0")
    return Session((), Settings(model=model.name, thinking="off"), place, ports)


# The optimum --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_the_optimum_is_the_best_of_all_sets(seed: int) -> None:
    """On short logs no set of points is cheaper, and the one found costs what it says."""
    plan = _random_plan(random.Random(seed))
    calls = range(1, plan.calls)
    sets = itertools.chain(*(itertools.combinations(calls, n) for n in range(plan.calls)))
    costs = {points: cost for points in sets if (cost := cost_of(plan, points)) is not None}
    if not costs:
        with pytest.raises(ValueError, match="fits"):
            find_optimum(plan)
        return

    found = find_optimum(plan)
    assert found.cost == pytest.approx(min(costs.values()))
    assert cost_of(plan, found.points) == pytest.approx(found.cost)


def _random_plan(choose: random.Random) -> Plan:
    calls, sent, cuts = 9, [500], [0]
    output = [choose.randrange(20, 400) for _ in range(calls)]
    for call in range(1, calls):
        sent.append(sent[-1] + output[call - 1] + choose.choice((30, 200, 900, 4_000)))
        cuts.append(choose.randrange(cuts[-1], sent[-2]))
    window = choose.choice((7_000, 12_000, 1_000_000))
    head = [choose.randrange(100, 900) for _ in range(calls)]
    return Plan(window, 300, 100, choose.choice((20, 300)), sent, output, head, cuts)


def test_the_plan_costs_what_the_cache_billed() -> None:
    """The optimum's model of a log, at the engine's own points, comes within 3 % of the bill."""
    for window in (200_000, 8_000):
        played = play(small_conversation(8, 12), window, settings={"prepare_calls": 0})
        plan = plan_of(played)
        assert points_of(played)
        cost = cost_of(plan, points_of(played))
        assert cost == pytest.approx(played.cost, rel=0.03)


# The engine ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("prepare", [0, 3])
@pytest.mark.parametrize("window", [8_000, 16_000, 64_000])
def test_our_own_conversation(window: int, prepare: int) -> None:
    """Never over the window, no break but by a compaction, near the optimum."""
    figures = measure(small_conversation(12, 12), window, prepare_calls=prepare)

    assert figures.failures == ()
    assert figures.peak <= window
    assert figures.turned_down == 0
    assert figures.breaks.get("compaction", 0) == figures.compactions > 0
    assert set(figures.breaks) <= {"compaction"}
    assert figures.over_optimum <= 1.35


def test_a_log_that_only_grows_is_written_once_and_read_once_a_step() -> None:
    """With compaction off the input costs what a perfect cache would, and no prefix breaks."""
    played = play(small_conversation(8, 10), 10_000_000, settings={"compaction": "off"})

    assert played.breaks == {}
    assert played.input_cost <= 1.01 * played.least_input_cost


def test_many_calls_behind_long_instructions() -> None:
    """A step too long to stay behind what comes back is summed up too: no session is full for good.

    The tail alone gave way to nothing here, and the same summary was asked for again at every turn.
    """
    words = "Every condition of this task holds: units are metres, dates are ISO. " * 100
    turns = [Turn(words, (_look("x", 400), Step("Done.")))]
    for n in range(6):
        looks = [_look(f"{n}_{k}", 100) for k in range(10)]
        code = "look(everything, again=True); " * 14
        calls = tuple(_call(f"many_{n}_{m}", "(no result was recorded)", code) for m in range(16))
        turns.append(Turn(f"{n}. Go on.", (*looks, Step("All at once.", calls), Step("Done."))))
    played = play(Conversation("many", tuple(turns)), 8_000, settings={"prepare_calls": 0})

    assert played.failures == []
    assert played.session.transcript.turn == len(turns)


def _look(id_: str, rows: int) -> Step:
    return Step("I look.", (_call(id_, "row\n" * rows, "look()"),))


def _call(id_: str, text: str, code: str) -> Call:
    return Call(f"toolu_{id_}", "run_code", {"code": code}, ToolOutput(text))


# Other systems' rules -----------------------------------------------------------------------------


def test_resending_everything_costs_what_can_be_counted_by_hand() -> None:
    """Without a cache each call pays its whole prompt; with one, each token once and reads."""
    turn = Turn("word " * 10, (Step("a"), Step("b")))
    sizes = {"prefix": 100, "summary": 50, "instruction": 10, "kept_chars": 50_000}
    prompt, reply = 4 + COUNTER.count(turn.prompt), 4 + 1
    first, second = 100 + prompt, 100 + prompt + reply
    costs = {
        policy.name: run_policy(policy, Conversation("two", (turn,)), 10_000, **sizes).cost
        for policy in POLICIES
    }

    assert costs["resend all, no cache"] == pytest.approx(first + second + 2 * 5)
    cached = 1.25 * first + 0.1 * first + 1.25 * reply + 2 * 5
    assert costs["resend all, cached"] == pytest.approx(cached)
    assert costs["Crush"] == pytest.approx(cached)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_policy_shrinks_where_the_window_is_small(policy: object) -> None:
    """Each keeps its calls within the window, or says that some had to be cut."""
    window = 16_000
    outcome = run_policy(
        policy,  # type: ignore[arg-type]  # one of POLICIES
        fitted(small_conversation(12, 12), window),
        window,
        prefix=1_000,
        summary=700,
        instruction=250,
        kept_chars=kept_chars(window),
    )

    assert outcome.shrunk > 0
    assert outcome.peak <= window or not outcome.is_valid
    others = ("sliding", "Crush", "Codex 90 %")  # the rest cut calls, or reserve over 16k
    assert outcome.is_valid == policy.name.startswith(others)  # type: ignore[attr-defined]


# Facts --------------------------------------------------------------------------------------------


def test_planted_facts_stay_in_reach(tmp_path) -> None:
    """After 1, 2, 3 and 10 compactions on 8k: instructions, pins, names, paths, hidden numbers."""
    reached = check_reach(small_conversation(12, 14, seed=3), 8_000, tmp_path)

    assert [reach.after for reach in reached] == list(AFTER)
    assert lost_of(reached) == []
    assert reached[-1].planted >= 20


def test_a_fact_that_no_summary_keeps_is_found_lost(tmp_path, monkeypatch) -> None:
    """Where the summary says nothing of them, names and paths are lost, and nothing else is."""
    monkeypatch.setattr("tests.replay.player.FACT", re.compile("nothing at all"))
    reached = check_reach(small_conversation(5, 14, seed=3), 8_000, tmp_path)

    lost = {fact.kind for reach in reached for fact in reach.lost}
    assert lost == {"name", "path"}


# What was recorded --------------------------------------------------------------------------------


def test_recorded_conversations_are_whole() -> None:
    """Each turn ends with a reply without calls, and each id is there once."""
    for conversation in (*load_corpus(), small_conversation()):
        ids = [c.id for t in conversation.turns for s in t.steps for c in s.calls]
        assert len(ids) == len(set(ids))
        for turn in conversation.turns:
            assert turn.prompt.strip()
            assert not turn.steps[-1].calls
            assert all(step.calls for step in turn.steps[:-1])


@pytest.mark.parametrize("window", [200_000, 16_000, 8_000])
def test_recorded_conversations_reach_the_aims(window: int) -> None:
    """Joined to 200,000 tokens: near the optimum, within the window, cheap next to other rules.

    On so short a session the bounds are those of the bench, wider on small windows: at 8k system
    prompt and tools take two fifths, and half a window of the newest text is cheaper than memory.
    """
    conversation = join(load_corpus(), 200_000, 1, COUNTER.count)
    figures = measure(conversation, window)

    assert figures.failures == ()
    assert figures.turned_down == 0
    assert figures.peak <= window
    assert figures.unexplained_breaks == 0
    assert figures.over_optimum <= 1.20
    if window >= 200_000:
        for policy in POLICIES:
            if policy.is_threshold:
                assert figures.cost <= 0.85 * figures.other(policy.name).cost
    else:
        name, ratio = cheapest_valid([figures])
        assert ratio <= (1.20 if window > 8_000 else 1.35), name


@pytest.mark.parametrize("window", [8_000])
def test_short_recorded_conversations(window: int) -> None:
    """Alone on a small window: none fails, none breaks the prefix of itself, none is far off."""
    for conversation in load_corpus():
        if conversation.steps > 80:
            continue
        figures = measure(conversation, window)
        assert figures.failures == (), conversation.name
        assert figures.peak <= window
        assert figures.unexplained_breaks == 0
        assert figures.over_optimum <= 1.35
