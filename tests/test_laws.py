"""What holds of every session, whatever happens to it: generated sequences against strict rules.

By default the same few sequences each time; `JUPYTER_CTX_LAW_EXAMPLES=500` runs that many new ones.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fake_anthropic import NO_USAGE, Call, Reply, Text, Thinking, too_long
from tests.fake_anthropic.script import Given
from tests.laws import Case, assert_requests, bodies, figures, make_case, watch
from tests.sequences import Act, Compact, Piece, Resume, Stop, Switch, Turn, World
from tests.smaller import hold

pytestmark = pytest.mark.no_cover  # each line is held by a law of its own, elsewhere
EXAMPLES = int(os.environ.get("JUPYTER_CTX_LAW_EXAMPLES", "0"))
LONG = settings(
    max_examples=EXAMPLES or 30,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.generate],  # a seed is not shrunk; its case is, by `hold`
    print_blob=True,
)
seeds = st.integers(0, 2**64 - 1)


def keeps_every_law(case: Case) -> None:
    """Carry the case out and hold every law to it."""
    assert_requests(case.run(watch=watch))


def keeps_every_law_on_disk(case: Case) -> None:
    """The same through the real store."""
    with tempfile.TemporaryDirectory() as folder:
        assert_requests(case.run(Path(folder) / "home", watch))


def sends_what_its_twin_sends(case: Case, *, on_disk: bool) -> None:
    """Carry it out as it is, and resumed before every act: the same bytes, the same figures."""
    acts = [act for act in case.acts if not isinstance(act, Resume)]
    resumed = [each for act in acts for each in (Resume(), act)]
    with tempfile.TemporaryDirectory() as folder:
        homes = [Path(folder) / name if on_disk else None for name in ("twin", "other")]
        twin = dataclasses.replace(case, acts=tuple(acts)).run(homes[0])
        other = dataclasses.replace(case, acts=tuple(resumed)).run(homes[1])
    assert bodies(other) == bodies(twin)
    assert figures(other) == figures(twin)


@LONG
@given(seeds)
def test_every_request_of_any_session_is_accepted(seed: int) -> None:
    """Whatever happens: each request keeps the rules, fits, only appends, and forgets nothing."""
    hold(make_case(seed), keeps_every_law)


@LONG
@given(seeds)
def test_the_same_holds_of_a_session_on_disk(seed: int) -> None:
    """Kills, resumes and all, through the real store."""
    hold(make_case(seed), keeps_every_law_on_disk)


@LONG
@given(seeds, st.booleans())
def test_a_resumed_session_sends_what_its_twin_sends(seed: int, on_disk: bool) -> None:
    """Resumed before every act, it sends the same bytes and shows the same figures."""
    check = partial(sends_what_its_twin_sends, on_disk=on_disk)
    hold(make_case(seed, twins=True), check)


@settings(LONG, max_examples=max(4, EXAMPLES // 10))
@given(seeds)
def test_the_sdk_sends_the_same_over_http(seed: int) -> None:
    """What the fake judges in place is what the real SDK sends it, and no request is refused."""
    case = make_case(seed, twins=True)
    acts = tuple(
        dataclasses.replace(act, stop=None) if isinstance(act, Turn | Compact) else act
        for act in case.acts
    )
    case = dataclasses.replace(case, acts=acts)
    direct, real = case.run(), case.run(watch=watch, uses_http=True)
    assert real.fake.refused == []
    assert [record.json for record in real.fake.messages] == [
        record.json for record in direct.fake.messages
    ]


# What was once broken ---------------------------------------------------------------------------

MAKE = Call("make", chars=3)
ODD = Call("make", _id="not a wire id!", chars=3)
HM, SO = Thinking("hm"), Thinking("so")


def run_acts(*acts: Act, window: int = 16_000) -> World:
    """Carry the acts out and hold every law to them."""
    world = Case((window, window), acts).run(watch=watch)
    assert_requests(world)
    return world


def turn(*answers: Given, stop: Stop | None = None) -> Turn:
    return Turn(Piece("prose", 30), answers, stop=stop)


@pytest.mark.parametrize("at", [9, 10, 11, 12, 13])
def test_a_turn_given_up_ends_before_the_next_begins(at: int) -> None:
    """Who leaves the events early leaves no generator behind that writes into the next turn."""
    run_acts(turn(Reply((HM, MAKE, MAKE)), stop=Stop(at, "give up")), turn())


@pytest.mark.parametrize("parts", [(HM, ODD, SO, MAKE), (ODD, SO, Text("Yes.")), (MAKE, SO)])
def test_thinking_behind_what_was_changed_is_not_sent(parts: tuple[Any, ...]) -> None:
    """An id that had to be replaced takes the thinking behind it along; none stands last."""
    world = run_acts(turn(Reply(parts)), turn())
    assert "tool_result" in world.sent[-1].record.body.decode()


@pytest.mark.parametrize("stop", ["max_tokens", "pause_turn", "model_context_window_exceeded"])
def test_thinking_behind_a_call_that_never_ran_is_not_sent(stop: str) -> None:
    """A cut reply loses its calls, and the thinking that was bound to them."""
    cut = Reply((HM, MAKE, SO, Text("Half.")), stop)
    world = run_acts(turn(), turn(cut, cut), turn())
    assert "Half." in world.sent[-1].record.body.decode()


def test_a_paused_reply_that_changed_is_gone_on_from_by_words() -> None:
    """Only a paused reply as it came may stand last; after another one the user asks to go on."""
    whole, changed = Reply((Text("One."),), "pause_turn"), Reply((Text("Two."), HM), "pause_turn")
    world = run_acts(turn(whole, changed))
    roles = [sent.record.messages[-1]["role"] for sent in world.sent]
    assert roles == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    "acts",
    [
        (turn(too_long(8_400, 8_000)), turn()),
        (turn(), turn(too_long(7_000, 6_000)), turn()),
        (turn(), Switch(), turn(too_long(7_000, 6_000)), Switch(), turn(), Switch(), turn()),
    ],
)
def test_what_an_overflow_taught_outlives_the_kernel(acts: tuple[Act, ...]) -> None:
    """The window, the count and the prompt that was not sent are known to a resumed session."""
    resumed = tuple(each for act in acts for each in (Resume(), act))
    twin, other = Case((8_000, 8_000), acts).run(), Case((8_000, 8_000), resumed).run()
    assert bodies(other) == bodies(twin)
    assert figures(other) == figures(twin)


LONG_ANSWER = Reply((Text(Piece("prose", 60_000).text),))
HALF_ANSWER = Reply((Text(Piece("error", 12_000).text),), usage=NO_USAGE)
LONG_RESULT = Reply((Call("make", chars=40_000),))
LONG_CALL = Reply((Call("make", chars=3, code=Piece("code", 60_000).text),))
LONG_PROMPT = Turn(Piece("prose", 150_000))


@pytest.mark.parametrize(
    ("windows", "acts"),
    [
        ((8_000, 8_000), (turn(LONG_ANSWER), turn(), turn())),
        ((8_000, 8_000), (turn(LONG_CALL), turn(), turn())),
        ((8_000, 8_000), (LONG_PROMPT, turn(HALF_ANSWER), turn(), turn())),
        ((8_000, 8_000), (turn(Reply((MAKE,)), too_long(8_400, 8_000)), turn(), turn())),
        ((200_000, 8_000), (turn(LONG_ANSWER), Switch(), turn(), turn())),
        ((200_000, 8_000), (turn(LONG_RESULT), Switch(), turn(), turn())),
        ((200_000, 8_000), (turn(LONG_CALL, stop=Stop(4)), Switch(), turn(), turn())),
        ((200_000, 8_000), (LONG_PROMPT, Switch(), turn(), turn())),
        ((200_000, 64_000), (LONG_PROMPT, LONG_PROMPT, Switch(), turn(), turn())),
    ],
)
def test_no_session_is_full_for_good(windows: tuple[int, int], acts: tuple[Act, ...]) -> None:
    """An answer that fills the window, a far smaller window or a refusal's false count does not."""
    world = Case(windows, acts).run(watch=watch)
    assert_requests(world)
    assert world.session.last_turn is not None
    assert world.session.last_turn.outcome == "done", world.session.last_turn.error


def test_what_was_cut_for_a_smaller_window_is_counted_again() -> None:
    """Pictures and thinking guessed too high hide that the rest is guessed too low."""
    many = Call("bounded", chars=200_000, kind="digits", trouble="images")
    thought = Thinking(Piece("cjk", 2_000).text)
    acts = (
        Turn(Piece("blank", 1), (Reply((many,)),)),
        Turn(Piece("code", 1), (Reply((thought, Call("fly", chars=3))),)),
        Turn(Piece("cjk", 60_000)),
        Switch(),
        Turn(Piece("cjk", 1)),
    )
    assert_requests(Case((64_000, 8_000), acts, "economic").run())


def test_a_summary_longer_than_asked_for_is_cut() -> None:
    """A model that ignores the budget of its summary does not fill the window with it."""
    summary = Reply((Text("## Task\n" + Piece("prose", 20_000).text),))
    acts = (turn(HALF_ANSWER), turn(), turn(), Compact((summary,)), turn())
    world = Case((16_000, 16_000), acts).run()
    entry = world.session.find_compaction()
    assert entry is not None
    assert entry.summary.startswith("## Task")
    assert entry.summary.endswith("cut]")
    assert entry.tokens_after < entry.tokens_before
