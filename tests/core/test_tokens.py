"""What fills the window: measured, estimated, and by part."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import (
    PARTS,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    images_of,
    user,
)
from jupyter_ctx.core.counts import apportion, image_tokens
from jupyter_ctx.core.entries import (
    CountEntry,
    Entry,
    ExcludeEntry,
    ModelEntry,
    OverflowEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from jupyter_ctx.core.ports import Request
from jupyter_ctx.core.tokens import PREFIX_FRAME, TokenMeter, Used
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.models.anthropic_wire import MessageWires, build_prompt

from .strategies import (
    ByteCounter,
    compaction_entry,
    logs,
    prompt,
    reply_entry,
    results_entry,
)

PRIOR = 1.0


class Session:
    """A transcript and a meter that sees every entry."""

    def __init__(self, *entries: Entry, prior: float = PRIOR) -> None:
        self.counter = ByteCounter()
        self.meter = TokenMeter(self.counter, prior)
        self.transcript = Transcript()
        self.add(*entries)

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            self.transcript.append(entry)
            self.meter.observe(entry, self.transcript)

    @property
    def used(self) -> Used:
        return self.meter.used(self.transcript)

    @property
    def shown(self) -> Used:
        return self.meter.shown(self.transcript)

    @property
    def parts(self) -> dict[Part, int]:
        return self.meter.parts(self.transcript)


PREFIX = PrefixEntry(0.0, "s" * 2_000, ({"name": "run_code", "description": "d" * 200},))
USAGE = Usage(uncached=3, cache_write=150_000, cache_read=20_000, output=900)


def test_used_is_the_providers_own_sum() -> None:
    """Right after a reply the figure is input, cache writes and reads and output, nothing else."""
    session = Session(PREFIX, prompt(), reply_entry(usage=USAGE))

    assert session.used == Used(170_903, 0)
    assert sum(session.parts.values()) == 170_903


def test_an_estimate_stands_before_the_first_reply() -> None:
    """A new session shows what system and tools take; the prompt adds to it."""
    session = Session(PREFIX)
    before = session.used
    session.add(prompt("x" * 400))

    assert before.measured == 0
    assert before.estimated > 1_000
    assert session.used.estimated == before.estimated + 200 + 4


def test_what_came_since_is_estimated() -> None:
    """A result after the reply counts by its text; the base stays the provider's."""
    session = Session(prompt(), reply_entry(usage=Usage(100, 0, 0, 10)))
    session.add(results_entry(ToolResult("a", (Text("y" * 200),))))

    assert session.used == Used(110, 100 + 10 + 4)
    assert session.used.cautious == 110 + 132


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(-5, 0, 0, 10),
        Usage(0, 0, 0, 10),
        Usage(100, 0, 0, None),
        Usage(50_000_000, 0, 0, 10),
    ],
)
def test_missing_or_impossible_usage_leaves_an_estimate(usage: Usage | None) -> None:
    """Without a usable figure all of the window is an estimate, and never 0."""
    session = Session(PREFIX, prompt(), reply_entry(usage=usage))

    assert session.used.measured == 0
    assert session.used.estimated > 1_000


@pytest.mark.parametrize("told", [1, 300, 20_000])
def test_a_figure_far_from_the_estimate_is_shown_and_teaches_nothing(told: int) -> None:
    """The sum is the provider's, as it is told; one of a part only empties no window."""
    session = Session(prompt("x" * 2_000))
    raw, factor = session.meter.raw_new(session.transcript), session.meter.factor

    session.add(reply_entry(usage=Usage(told, 0, 0, 9_000), raw_tokens=raw))
    assert session.shown == Used(told + 9_000, 0)
    assert sum(session.meter.parts(session.transcript).values()) == told + 9_000
    assert session.used.cautious >= raw

    session.add(prompt("y" * 2_000, 2))
    raw = session.meter.raw_new(session.transcript)
    assert session.shown.estimated > 1_000
    session.add(reply_entry(usage=Usage(2_500, 0, 0, 10), raw_tokens=raw))
    assert session.shown == session.used == Used(2_510, 0)
    assert session.meter.factor == pytest.approx(factor, rel=0.3)


def test_a_figure_over_any_window_is_a_mistake() -> None:
    """An absurd figure is none, and neither is its output's; a later one counts again."""
    told = 10**9
    session = Session(prompt("x" * 2_000))
    raw = session.meter.raw_new(session.transcript)

    session.add(reply_entry(usage=Usage(told, 0, 0, 9_000), raw_tokens=raw))
    assert session.used.measured == 0
    assert raw <= session.used.estimated < 2 * raw

    session.add(prompt("y" * 2_000, 2))
    raw = session.meter.raw_new(session.transcript)
    session.add(reply_entry(usage=Usage(2_500, 0, 0, 10), raw_tokens=raw))
    assert session.used == Used(2_510, 0)


def test_an_overflow_with_an_absurd_count_is_no_figure() -> None:
    """A refusal that says the prompt has a million times its tokens fills no window."""
    session = Session(prompt("x" * 2_000))

    session.add(OverflowEntry(0.0, 10**9))

    assert session.used.measured == 0


def test_missing_usage_keeps_the_older_figure() -> None:
    """A reply without usage is estimated on top of the last figure that was given."""
    session = Session(prompt(), reply_entry(usage=Usage(100, 0, 0, 10)), prompt("two"))
    session.add(reply_entry(Text("z" * 20)))

    assert session.used == Used(110, 10 + 4 + 2 + 4)


@pytest.mark.parametrize(
    "entry",
    [
        compaction_entry(2, 1),
        SummaryEditEntry(0.0, 1, user(Text("mine", "summary")), "mine"),
        SummaryUndoEntry(0.0, 1),
        RewindEntry(0.0, 2),
        RepairEntry(0.0, (user(Text("mended")),), "a line was lost"),
        PREFIX,
        ModelEntry(0.0, "other"),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_figures_from_before_a_break_are_void(entry: Entry) -> None:
    """After anything that changes what was measured, all is an estimate until the next reply."""
    session = Session(ModelEntry(0.0, "m"), prompt(), reply_entry(), compaction_entry(1, 1))
    session.add(prompt("two", 2), reply_entry(usage=USAGE))
    assert session.used.measured == 170_903

    session.add(entry)

    assert session.used.measured == 0
    assert 0 < session.used.estimated < 10_000


def test_the_same_model_again_changes_nothing() -> None:
    """Naming the model that is in use already keeps its figures."""
    session = Session(ModelEntry(0.0, "m"), prompt(), reply_entry(usage=USAGE))

    session.add(ModelEntry(0.0, "m"))

    assert session.used == Used(170_903, 0)


def test_an_exclusion_goes_back_to_the_figure_that_still_holds() -> None:
    """When the newest exchange is left out, the reply before it still says what the rest takes."""
    session = Session(prompt(), reply_entry(usage=Usage(100, 0, 0, 10)))
    session.add(prompt("two", 2), reply_entry(usage=Usage(300, 0, 0, 10)))

    session.add(ExcludeEntry(0.0, 2, "refusal"))
    assert session.used == Used(110, 0)

    session.add(ExcludeEntry(0.0, 1, "refusal"))
    assert session.used.measured == 0


def test_an_overflow_is_a_figure_too() -> None:
    """What the provider counted when it refused the prompt is what the prompt takes."""
    session = Session(prompt("x" * 2_000))

    session.add(OverflowEntry(0.0, 2_000))

    assert session.used == Used(2_000, 0)
    assert session.meter.factor > PRIOR


def test_a_count_is_a_figure_too() -> None:
    """The provider's count of the prompt is what it takes, and teaches the factor."""
    session, twin = (Session(PREFIX, prompt("x" * 2_000)) for _ in range(2))
    raw = session.meter.raw_new(session.transcript)

    session.add(CountEntry(0.0, 4_000, raw))
    twin.add(CountEntry(0.0, 4_000))

    assert session.used == twin.used == Used(4_000, 0)
    assert session.meter.factor == twin.meter.factor > PRIOR
    session.add(prompt("y" * 100))
    assert session.used.measured == 4_000
    assert session.used.estimated > 0


def test_a_count_that_cannot_be_true_is_told() -> None:
    """Under half of the estimate only a part was counted; millions above it are a mistake."""
    session = Session(PREFIX, prompt("x" * 2_000))
    used, plausible = session.used.total, session.meter.is_plausible

    wrong = (0, -1, used // 2 - 1, 90_000_000)
    assert [plausible(tokens, session.transcript) for tokens in wrong] == [False] * 4
    assert plausible(used // 2 + 1, session.transcript)
    assert plausible(2 * used, session.transcript)


# The factor -------------------------------------------------------------------------------------


def test_the_factor_is_learnt_from_what_was_new() -> None:
    """factor = (1000 prior + decayed true) / (1000 + decayed estimated), decay 0.9 (API.md 3)."""
    session = Session(prompt("x" * 2_000), prior=1.1)
    first = session.meter.raw_new(session.transcript)
    session.add(reply_entry(usage=Usage(1_500, 0, 0, 10), raw_tokens=first))
    assert first == 1_004
    assert session.meter.factor == pytest.approx((1_100 + 1_500) / (1_000 + 1_004))

    session.add(results_entry(ToolResult("a", (Text("y" * 600),))))
    second = session.meter.raw_new(session.transcript)
    session.add(reply_entry(usage=Usage(1_510 + 400, 0, 0, 10), raw_tokens=second))

    assert second == 314
    true, estimated = 0.9 * 1_500 + 400, 0.9 * 1_004 + 314
    assert session.meter.factor == pytest.approx((1_100 + true) / (1_000 + estimated))


@given(st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 90_000)), max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_factor_stays_within_its_clamp(figures: list[tuple[int, int]]) -> None:
    """Whatever a provider reports, the factor is between 0.7 and 2.5."""
    session = Session(prompt())

    for uncached, raw in figures:
        session.add(reply_entry(usage=Usage(uncached, 0, 0, 1), raw_tokens=raw), prompt())
        assert 0.7 <= session.meter.factor <= 2.5


def test_an_impossible_figure_teaches_nothing() -> None:
    """A prompt that seems to have shrunk (earlier thinking dropped) leaves the factor alone."""
    session = Session(prompt(), reply_entry(usage=Usage(5_000, 0, 0, 900)), prompt("y" * 50))
    before = session.meter.factor

    session.add(reply_entry(usage=Usage(4_000, 0, 0, 10), raw_tokens=30))

    assert session.meter.factor == before
    assert session.used == Used(4_010, 0)


def test_images_are_no_part_of_the_factor() -> None:
    """An image in what was new counts by its size and is taken off before anything is learnt."""
    image = Image("image/png", "aGk=", 280, 280)
    session = Session(prompt("x" * 2_000), results_entry(ToolResult("a", (image,))))
    raw = session.meter.raw_new(session.transcript)

    session.add(reply_entry(usage=Usage(raw + 100, 0, 0, 1), raw_tokens=raw))

    assert session.meter.factor == pytest.approx(1.0)


def test_another_model_starts_from_its_own_prior() -> None:
    """What was learnt of one model is not believed of another."""
    session = Session(ModelEntry(0.0, "m"), prompt("x" * 2_000))
    session.add(reply_entry(usage=Usage(2_400, 0, 0, 1), raw_tokens=1_004))
    assert session.meter.factor > 1.5

    session.add(ModelEntry(0.0, "other"))
    session.meter.prior = 1.2

    assert session.meter.factor == pytest.approx(1.2)


# Counting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (28, 28, 1),
        (29, 28, 2),
        (640, 480, 23 * 18),
        (1_568, 1_568, 56 * 56),
        (10_000, 28, 92),
        (9_000, 9_000, 4_784),
        (0, 480, 1_568),
    ],
)
def test_an_image_costs_its_squares(width: int, height: int, tokens: int) -> None:
    """28 px squares after scaling to the most a model takes; unknown sizes count as full ones."""
    assert image_tokens(Image("image/png", "aGk=", width, height)) == tokens


def test_every_block_counts_where_it_belongs() -> None:
    """Results and what is in them are `results`, texts by their part, all else `conversation`."""
    image = Image("image/png", "aGk=", 280, 280)
    session = Session(PREFIX)
    session.add(results_entry(Text("s" * 900, "summary"), Text("n" * 700, "notebook")))
    session.add(reply_entry(ToolUse("a", "run_code", {"code": "x" * 500}), Opaque({"type": "new"})))
    session.add(results_entry(ToolResult("a", (Text("r" * 400), image)), image))

    parts = session.parts

    assert parts["results"] == 200 + 10 + 100 + 4
    assert parts["summary"] == 450 + 4
    assert parts["notebook"] == 350
    assert parts["system"] == 1_000
    assert 100 < parts["tools"] < 200
    assert parts["conversation"] > 350
    assert parts["reinjected"] == 0
    assert sum(parts.values()) == session.used.total


def test_thinking_counts_by_what_is_hidden() -> None:
    """Thinking whose text is left out counts by its signature, else by the longer of the two."""
    shown = Session(results_entry(Thinking({"type": "thinking", "thinking": "t" * 200})))
    hidden = Session(
        results_entry(Thinking({"type": "thinking", "thinking": "", "signature": "s" * 1_600}))
    )
    redacted = Session(results_entry(Thinking({"type": "redacted_thinking", "data": "d" * 160})))

    assert [each.used.estimated for each in (shown, hidden, redacted)] == [104, 304, 34]


def test_a_reply_costs_what_the_provider_said() -> None:
    """After a compaction a kept reply counts as its output did: hidden thinking is in it."""
    session = Session(prompt(), reply_entry(Text("short"), usage=Usage(900, 0, 0, 700)))
    session.add(compaction_entry(1, 1))

    assert session.used == Used(0, 4 + 4 + 700)
    assert session.meter.estimate_message(session.transcript.view[1]) == 700


def test_a_cut_reply_counts_by_its_text() -> None:
    """Output that was not kept (the limit cut a call off) is not counted as if it were."""
    usage = Usage(900, 0, 0, 8_000)
    session = Session(prompt(), reply_entry(Text("kept"), usage=usage, stop_reason="max_tokens"))
    session.add(compaction_entry(1, 1))

    assert session.used.total < 50


def test_estimates_are_calibrated_and_rounded_up() -> None:
    """Text, message and whole request are counted times the factor; a request with its prefix."""
    session = Session(PREFIX, prior=1.5)
    message = user(Text("x" * 6))

    assert session.meter.estimate_text("x" * 6) == 5
    assert session.meter.estimate_message(message) == 11
    alone = session.meter.estimate_request([])
    assert session.meter.estimate_request([message, message]) == pytest.approx(alone + 21, abs=1)
    assert alone == session.used.total


# Laws -------------------------------------------------------------------------------------------


@given(logs())
@settings(max_examples=60, deadline=None)
def test_parts_add_up(entries: list[Entry]) -> None:
    """At every moment the parts are whole, not negative, and add up to what is used."""
    session = Session()

    for entry in entries:
        session.add(entry)
        assert sum(session.parts.values()) == session.shown.total
        assert min(session.parts.values()) >= 0
        assert set(session.parts) == set(PARTS)


@given(logs())
@settings(max_examples=60, deadline=None)
def test_the_weight_is_that_of_the_request(entries: list[Entry]) -> None:
    """At every moment images and bytes are those of a request, bytes or a few more."""
    session = Session(PREFIX)

    for entry in entries:
        session.add(entry, prompt())
        session.add(results_entry(Image("image/png", "aGk=", 40, 40)))
        images = [i for message in session.transcript.view for i in images_of(message)]
        weight, prefix = session.meter.weight(session.transcript), session.transcript.prefix
        assert prefix is not None
        request = Request("m", prefix.system, prefix.tools, tuple(session.transcript.view), 10)
        body = json.dumps(build_prompt(request, MessageWires()), ensure_ascii=False).encode()
        assert weight.images == len(images)
        assert len(body) <= weight.bytes <= len(body) + PREFIX_FRAME


@given(logs())
@settings(max_examples=60, deadline=None)
def test_a_resumed_session_has_the_same_numbers(entries: list[Entry]) -> None:
    """Numbers depend on the entries alone, not on when they were asked for."""
    live = Session()
    for entry in entries:
        live.add(entry)
        assert live.shown.total == sum(live.parts.values())

    resumed = Session(*entries)

    assert resumed.used == live.used
    assert resumed.meter.factor == live.meter.factor
    assert resumed.parts == live.parts


@given(
    st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1e7), max_size=7), st.integers(0, 10**7)
)
def test_apportion_is_exact_and_fair(weights: dict[Part, float], total: int) -> None:
    """Shares add up to the total, and none is a whole token away from its exact share."""
    shares = apportion(weights, total)

    assert sum(shares.values()) == total
    whole = sum(round(1_000 * weight) for weight in weights.values())
    if whole:
        for part, share in shares.items():
            assert abs(share - total * round(1_000 * weights.get(part, 0)) / whole) < 1 + 1e-6
    assert set(shares) == set(get_args(Part))


def test_a_step_counts_only_what_is_new() -> None:
    """On a long log each message is counted once; a further step counts its own texts only."""
    session = Session(PREFIX)
    for index in range(500):
        session.add(prompt(f"prompt {index}", index + 1), reply_entry(Text(f"reply {index}")))
        assert session.used.measured == 0
    counted = len(session.counter.texts)
    assert counted == 1_000 + 2

    session.add(prompt("one more", 501))
    assert session.shown.total == sum(session.parts.values())

    assert session.counter.texts[counted:] == ["one more"]


def test_loading_a_session_counts_no_text() -> None:
    """What usage or a count has measured is not counted again when a stored session is read."""
    entries: list[Entry] = [PREFIX]
    for turn in range(1, 50):
        entries += [prompt("p" * 50, turn), CountEntry(0.0, turn * 100, 27)]
        entries += [reply_entry(usage=Usage(turn * 100, 0, 0, 5))]

    session = Session(*entries)

    assert session.used == Used(4_905, 0)
    assert session.counter.texts == []


def test_a_compaction_forgets_what_it_dropped() -> None:
    """Messages that left the view are not held in memory by their counts."""
    entries = [prompt("x" * 90, turn) for turn in range(1, 30)]
    session = Session(*entries)
    assert session.used.total > 0

    session.add(compaction_entry(1, 29))
    held = [message for message, _ in session.meter._memo.values()]

    assert not any(entry.message is message for entry in entries for message in held)
    assert session.used.total < 20


# Before the first prompt -------------------------------------------------------------------------


def test_an_expected_prefix_counts_until_one_is_recorded() -> None:
    """Expected system and tools count as recorded ones do, and those recorded replace them."""
    expected = PrefixEntry(0.0, "s" * 300, ({"name": "run_code"},))
    recorded = PrefixEntry(0.0, "s" * 900, ({"name": "run_code"},))
    session, told = Session(), Session(recorded)

    session.meter.expect(expected)
    assert session.used == Session(expected).used != Session().used
    session.add(recorded)
    assert session.used == told.used
    session.meter.expect(expected)
    assert session.used == told.used
