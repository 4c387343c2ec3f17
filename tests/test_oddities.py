"""Providers and names as odd as they come: no session is full, stuck or unreadable for good."""

from __future__ import annotations

import pytest

from tests.fake_anthropic import Call, Reply, Text, too_long
from tests.fake_anthropic.script import Given
from tests.laws import Case, assert_requests, watch
from tests.sequences import Act, Resume, Turn, Words, World

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
    "near a window's end": (15_900, 5),
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
    acts = (turn("a", WORK), turn("b", WORK, too_long(actual, limit)))
    if when == "first":
        acts = (turn("a", too_long(actual, limit)),)
    world = hold(*acts, turn("c"), turn("d", WORK))
    assert world.session.facts.window_tokens == 8_000
    world = hold(*acts, Resume(), turn("c"), turn("d", WORK))
    assert world.session.facts.window_tokens == 8_000
