"""Providers and names as odd as they come: no session is full, stuck or unreadable for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_ctx.core.entries import RepairEntry
from jupyter_ctx.core.events import CtxEvent, TurnFinished
from jupyter_ctx.core.ports import Cell, Request, ToolSpec
from tests import sequences
from tests.direct import DirectModel, judge
from tests.fake_anthropic import Call, FakeModel, Reply, Text, Thinking, status, too_long
from tests.fake_anthropic.script import Given
from tests.laws import UNPREPARED, Case, assert_requests, bodies, figures, watch
from tests.sequences import (
    BINDS,
    FREE,
    Act,
    Compact,
    EditSummary,
    Pin,
    Resume,
    Switch,
    Turn,
    Words,
    World,
)

WORK = Reply((Call("make", chars=900),))


def turn(text: str, *answers: Given) -> Turn:
    return Turn(Words(text), answers)


def hold(*acts: Act, window: int = 8_000) -> World:
    """Carry the acts out; every law holds, and the last turn is answered."""
    world = Case((window, window), acts).run(watch=watch)
    assert_requests(world)
    assert world.session.last_turn is not None
    assert world.session.last_turn.outcome == "done", world.session.last_turn.error
    return world


# What a provider tells --------------------------------------------------------------------------

FIGURES = {
    "of nothing": (0, 0),
    "of what was not cached": (1, 5),
    "the wrong way round": (5, 9_000),
    "far over the window": (500_000, 5),
    "over any window": (10**15, 5),
}


def _usage(figures: tuple[int, int]) -> dict[str, object]:
    cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"input_tokens": figures[0], "output_tokens": figures[1], **cache}


@pytest.mark.parametrize("window", [8_000, 16_000])
@pytest.mark.parametrize("figures", FIGURES.values(), ids=FIGURES)
def test_absurd_usage_neither_fills_nor_empties_the_window(
    figures: tuple[int, int], window: int
) -> None:
    """Told first, among good figures, or always: the turns are answered and nothing overflows."""
    usage = _usage(figures)
    hi = Reply((Text("hi"),), usage=usage)
    odd = Reply((Call("make", chars=900),), usage=usage)
    good = [turn("go", WORK, WORK) for _ in range(4)]
    hold(turn("x", hi), turn("y"), turn("z"), window=window)
    hold(*good, turn("x", odd, hi), turn("y"), turn("z"), window=window)
    hold(*(turn("x", odd, odd, odd, hi) for _ in range(24)), window=window)


@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize(
    ("actual", "limit"), [(0, 0), (10, 5), (9_000, 1), (9_000, 700), (5, 10**9), (10**12, 8_000)]
)
def test_an_overflow_with_nonsense_figures_ends_no_session(
    actual: int, limit: int, when: str
) -> None:
    """No window is learnt in which not even system and tools would fit; also not for a restart."""
    acts: tuple[Act, ...] = (turn("a", WORK), turn("b", WORK, too_long(actual, limit)))
    if when == "first":
        acts = (turn("a", too_long(actual, limit)),)
    world = hold(*acts, turn("c"), turn("d", WORK))
    assert world.session.facts.window_tokens == 8_000
    world = hold(*acts, Resume(), turn("c"), turn("d", WORK))
    assert world.session.facts.window_tokens == 8_000


def test_an_overflow_of_a_compaction_with_nonsense_figures_teaches_no_window() -> None:
    """Its count is a tenth of what was sent, so its limit is not believed either."""
    step = Reply((Call("make", chars=45_000),))
    acts = [Turn(Words("go"), (step,) * 6, (too_long(9_000, 7_000),)) for _ in range(3)]
    settings = {"alpha": 0.05, "prepare_calls": 0}
    case = Case((200_000, 200_000), tuple(acts), "economic", settings=settings)
    world = case.run(watch=watch)
    assert_requests(world)
    assert any(sent.record.status == 400 for sent in world.sent if sent.is_summary)
    assert world.session.facts.window_tokens == 200_000


@pytest.mark.parametrize("share", [-1.0, 0.0, 0.1])
def test_a_count_of_a_part_sends_no_request_over_the_window(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that counts too little: what is asked of a smaller model is cut all the same."""
    count = DirectModel.count_tokens

    async def part_of(self: DirectModel, request: Request) -> int | None:
        return int(share * (await count(self, request) or 0))

    monkeypatch.setattr(DirectModel, "count_tokens", part_of)
    step = Reply((Call("make", chars=9_000),))
    acts = (turn("a", *[step] * 9), turn("b", *[step] * 9), Switch(), turn("c"), turn("d", WORK))
    world = Case((200_000, 8_000), acts).run(watch=watch)
    assert_requests(world)
    assert world.session.last_turn is not None
    assert world.session.last_turn.outcome == "done", world.session.last_turn.error


THINKING_REFUSED = status(400, "messages.1.content.0: Invalid `signature` in `thinking` block")


def test_a_repaired_session_is_the_same_when_it_is_resumed(tmp_path: Path) -> None:
    """After its thinking was refused: the same bytes and figures as the twin that never ended.

    What was not changed is known as it was: prompts that stay are not put back, too.
    """
    step = Reply((Thinking("hm"), Text("So."), Call("make", chars=2_500)))
    acts: list[Act] = [turn("a", step, step), turn("b", step, THINKING_REFUSED, step)]
    acts += [turn("c", step, step, step), turn("d", THINKING_REFUSED, step), turn("e", step)]
    acts += [Compact(), turn("f", step)]
    resumed = [each for act in acts for each in (Resume(), act)]
    worlds = [
        Case((8_000, 8_000), tuple(some), settings=UNPREPARED).run(tmp_path / name)
        for name, some in (("twin", acts), ("other", resumed))
    ]
    assert any(isinstance(e, RepairEntry) for e in worlds[0].session.transcript.entries)
    assert bodies(worlds[1]) == bodies(worlds[0])
    assert figures(worlds[1]) == figures(worlds[0])


@pytest.mark.parametrize("tools", [24, 34, 40])
def test_tools_that_take_most_of_the_window_leave_a_session_that_works(
    tools: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two thirds of 8k taken by system and tools, every turn of a long session is answered."""
    fields = {f"p{n}": {"type": "string", "description": "about it " * 4} for n in range(3)}
    schema = {"type": "object", "properties": fields}
    more = (
        ToolSpec(f"tool_{n:02}", "Does a thing. " * 2, schema, reads_only=True)
        for n in range(tools)
    )
    monkeypatch.setattr(sequences._Tools, "specs", (*sequences._Tools.specs, *more))
    step, outcomes = Reply((Thinking("hm"), Text("s."), Call("make", chars=3_000))), []

    def see(world: World, event: CtxEvent | None) -> None:
        watch(world, event)
        if isinstance(event, TurnFinished):
            outcomes.append(event.error or event.outcome)

    acts = (turn("a", step), turn("c " + "x y " * 2_000, step), *[turn("d", step, step)] * 12)
    world = Case((8_000, 8_000), acts, "economic").run(watch=see)
    assert_requests(world)
    assert {*outcomes} == {"done"}
    summaries = sum(sent.is_summary for sent in world.sent)
    assert summaries < len(world.sent) / 3


# Names and texts --------------------------------------------------------------------------------

HALF = "a\ud800b\x00"
"""Half of a surrogate pair, as a folder's name has it that is not UTF-8; and a NUL."""


@pytest.mark.parametrize("name", ["fly away!", "数据", "x" * 201, HALF])
def test_a_tool_that_the_model_made_up_is_answered(name: str) -> None:
    """Whatever it is called: its call and the error go back in a form the provider takes."""
    world = hold(turn("x", Reply((Call(name, chars=3), WORK.parts[0]))), turn("y"))
    last = world.sent[-1].record.body.decode()
    assert "There is no tool" in last
    assert [use.name for use in world.tools.ran][1:] == ["make"]


def test_no_text_around_a_prompt_breaks_the_wire(tmp_path: Path) -> None:
    """Folder, startup note, pin, variables, cells, focus, summary: half a pair is U+FFFD in each.

    Also in the session on disk, and in one that is resumed.
    """
    for home in (None, tmp_path / "home"):
        worlds: list[World] = []
        models = {name: FakeModel(window=16_000, max_output=8_000) for name in (BINDS, FREE)}

        def script(body: dict[str, object], worlds: list[World] = worlds) -> object:
            return worlds[0].answer(body)

        with judge(script, models) as fake:
            world = World(fake, home, cwd=f"/home/{HALF}{{x}}", watch=watch)
            worlds.append(world)
            world.session.add_startup_note(f"Note {HALF}")
            world.kernel.namespace[f"v{HALF}"] = 1
            world.kernel.cells.append(Cell(f"c{HALF}", f"x = 1  # {HALF}", 3, 3))
            summary = Reply((Text(f"A summary {HALF} of `v{HALF}`."),))
            world.run([Pin(HALF), turn(HALF, WORK, WORK), turn("y", WORK), Resume()])
            world.run([Compact((summary,), HALF), turn("z"), EditSummary(HALF), turn("z")])
            assert_requests(world)
            assert len(world.session.transcript.compactions) == 1
            assert world.session.last_turn is not None
            assert world.session.last_turn.outcome == "done", world.session.last_turn.error
            world.close()
