"""The account: its law, its worst case against hindsight, and that a resumed one is the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_ctx.core.account import (
    LONG_PROMPT_TOKENS,
    RESULT_LINE_TOKENS,
    SHORT_PROMPT_TOKENS,
    Account,
    Bill,
    Budgets,
    Weights,
)
from jupyter_ctx.core.entries import (
    Entry,
    ExcludeEntry,
    FateEntry,
    ModelEntry,
    Reinjected,
    RewindEntry,
    SpentEntry,
)
from jupyter_ctx.core.tokens import TokenMeter
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.usage import Prices, Usage
from jupyter_ctx.core.window import Limits

from .strategies import ByteCounter, compaction_entry, logs, prompt, reply_entry, results_entry

PRICES = Prices(2.0, 10.0, 0.1, 2.5, 4.0, "test")
BUDGETS = Budgets(prefix=1_000, summary=300, tail=1_000, instructions=500, results=100)
WEIGHTS = Weights(read=0.1, write=1.25, output=5.0)
NOTHING = Budgets(0, 0, 0, 0, 0)


class Follower:
    """Takes entries in as the engine does."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.transcript, self.account = Transcript(), Account()
        self.meter = TokenMeter(ByteCounter(), 1.0)
        for entry in entries:
            self.add(entry)

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            self.transcript.append(entry)
            self.meter.observe(entry, self.transcript)
            measured = self.meter.measured(self.transcript)
            self.account.observe(entry, self.transcript, measured, self.meter.factor)

    def bill(self, budgets: Budgets = BUDGETS, weights: Weights = WEIGHTS) -> Bill:
        return self.account.bill(budgets, weights, 50)


def calls(*sent: int) -> list[Entry]:
    """Return steps whose prompts the provider measured as `sent` tokens."""
    entries: list[Entry] = []
    for tokens in sent:
        entries += [reply_entry(usage=Usage(tokens, 0, 0, 10)), results_entry()]
    return entries


# The law ----------------------------------------------------------------------------------------


def test_the_law_by_hand() -> None:
    """D, A and K are those of the law, from the measured prompts alone."""
    follower = Follower([*calls(2_000, 3_000, 4_500)])
    # The tail takes no whole step: the newest, 1,500, is over 1,000. So base - new is S alone.
    bill = follower.bill()

    assert bill.droppable == 4_500 - 1_000 - 300
    # Before the 2nd call: 2,000 - 1,000 - 300 - a full tail < 0; before the 3rd: its step fits.
    assert bill.account == pytest.approx(0.1 * (3_000 - 1_000 - 300 - 1_000))
    assert bill.price == pytest.approx(5 * 300 + 50 + 0.1 * 1_000 + 1.25 * 300)


def test_nothing_is_due_before_anything_was_measured() -> None:
    """Without a figure nothing can be dropped, so nothing is due, whatever the account holds."""
    assert Follower().bill().droppable == 0
    assert not Bill(1e9, 1.0, 0, 0.1).is_due(1.0)
    assert not Bill(1e9, 1.0, -5, 0.1).is_due(0.0)


def test_a_compaction_settles_the_account() -> None:
    """After a compaction the account is 0, until the new prompt was measured and carried."""
    follower = Follower(calls(5_000, 6_000, 9_000))
    assert follower.bill().account > 0

    follower.add(compaction_entry(1, 1))

    assert (follower.bill().account, follower.bill().droppable) == (0, 0)
    follower.add(*calls(2_000))
    assert follower.bill().account == 0


def test_every_paid_call_counts() -> None:
    """A reply that was not kept, or that nobody measured, has carried the same tokens."""
    follower = Follower(calls(4_000, 6_000))
    before = follower.bill()

    follower.add(SpentEntry(0.0, 1, Usage(6_000, 0, 0, 9), "raised"), reply_entry())

    assert follower.bill().account == pytest.approx(before.account + 2 * before.carrying)
    assert follower.bill().droppable == before.droppable


def test_what_is_put_back_is_not_dropped() -> None:
    """Instructions, stored results and what the kernel gave last time are in the base."""
    items = (Reinjected("cell", "a", 70), Reinjected("instruction", "prompt-1", 900))
    long = "x" * 4 * (LONG_PROMPT_TOKENS + 1)
    follower = Follower(
        [
            prompt("a" * 400, 1),
            prompt("b" * 800, 2),
            prompt(long, 3),
            prompt("c" * 1_200, 4),
            *[FateEntry(0.0, name, "offload", "t", 9, 9) for name in "wxyz"],
            FateEntry(0.0, "kept", "keep", "t", 9, 9),
            compaction_entry(1, 1, reinjected=items),
            *calls(4_000, 8_000),
        ]
    )
    must, others = 100 + 300, 200 + SHORT_PROMPT_TOKENS
    listed = 4 * RESULT_LINE_TOKENS

    def carried(instructions: int, results: int) -> int:
        budgets = replace(BUDGETS, instructions=instructions, results=results)
        return 8_000 - 1_000 - 300 - follower.bill(budgets).droppable

    assert carried(5_000, 1_000) == must + others + listed + 70
    assert carried(must + 30, 60) == must + 30 + 60 + 70
    assert carried(10, 0) == must + 70


def test_a_tail_keeps_whole_steps() -> None:
    """The newest steps that fit stay; steps nobody measured are taken to fill the tail."""
    assert Follower(calls(3_000, 3_600, 3_900)).bill().droppable == 3_900 - 1_300 - 1_000
    assert Follower(calls(3_000, 3_600, 4_200)).bill().droppable == 4_200 - 1_300 - 600
    assert Follower(calls(3_000, 3_600, 4_200, 9_000)).bill().droppable == 9_000 - 1_300


@pytest.mark.parametrize(
    "entry", [ExcludeEntry(0.0, 2, "refusal"), ModelEntry(0.0, "other")], ids=["exclude", "model"]
)
def test_a_prompt_that_changed_is_measured_anew(entry: Entry) -> None:
    """What was paid stays paid, but nothing is due before the next figure."""
    follower = Follower([ModelEntry(0.0, "m"), *calls(4_000, 6_000, 9_000)])
    paid = follower.bill().account

    follower.add(entry)

    assert follower.bill().account == pytest.approx(paid + follower.bill().carrying)
    assert not follower.bill().is_due(0.0)


def test_a_shorter_prompt_starts_the_tail_anew() -> None:
    """A figure below the last one is no negative step."""
    assert Follower(calls(9_000, 9_500, 4_000)).bill().droppable == 4_000 - 1_300 - 1_000


def test_a_rewind_begins_a_new_account() -> None:
    """What was said after the prompt gone back to is paid and gone; its words are not put back."""
    follower = Follower([prompt("a" * 400), *calls(4_000, 6_000), prompt("b" * 4_000, 2)])
    follower.add(*calls(9_000), RewindEntry(0.0, 2))
    assert (follower.bill().account, follower.bill().droppable) == (0, 0)

    follower.add(*calls(6_000))

    assert follower.bill().droppable == 6_000 - 1_300 - 1_000 - 100


def test_a_turns_first_call() -> None:
    """The next call is a turn's first after a prompt and after a finished answer."""
    follower = Follower()
    seen = []
    for entry in (prompt(), reply_entry(stop_reason="tool_use"), results_entry(), reply_entry()):
        follower.add(entry)
        seen.append(follower.account.is_first_call)

    assert seen == [True, False, False, True]


# Prices -----------------------------------------------------------------------------------------


def weights(prices: Prices | None = PRICES, tokens: int = 1_000, **changes: object) -> Weights:
    how = {"cached": True, "ttl": "5m", "prompt_tokens": tokens, **changes}
    found = Weights.of(prices, **how)  # type: ignore[arg-type]  # of the call's own kinds
    assert found is not None
    return found


def test_weights_are_prices_over_the_input_price() -> None:
    """Reads, writes at the TTL in use and output, each as a multiple of uncached input."""
    assert weights() == Weights(0.05, 1.25, 5.0)
    assert weights(ttl="1h") == Weights(0.05, 2.0, 5.0)


def test_without_a_cache_all_input_costs_the_same() -> None:
    """With the cache off, r = w = 1."""
    assert weights(cached=False) == Weights(1.0, 1.0, 5.0)


def test_a_long_prompt_is_carried_at_its_own_price() -> None:
    """Over the length from which calls cost more, reading and the summary do; writing does not."""
    dear = replace(PRICES, long_over_tokens=2_000, long=Prices(8.0, 40.0, 0.8, 10.0, 16.0, "test"))

    assert weights(dear, 2_000) == weights()
    assert weights(dear, 2_001) == Weights(0.4, 1.25, 20.0)
    assert weights(dear, 2_001, cached=False) == Weights(4.0, 1.0, 20.0)


@pytest.mark.parametrize("prices", [None, Prices(0.0, 0.0, 0.0, 0.0, 0.0, "local")])
def test_without_prices_there_is_no_account(prices: Prices | None) -> None:
    """A local model is compacted by the reserve alone."""
    assert Weights.of(prices, cached=True, ttl="5m", prompt_tokens=9) is None


def test_budgets_are_those_of_a_compaction() -> None:
    """Summary, tail, instructions and results as the settings and the window make them."""
    assert Budgets.of(Limits(), 1_000_000, 7) == Budgets(7, 3_000, 12_000, 10_000, 2_000)
    assert Budgets.of(Limits(), 100_000, 7) == Budgets(7, 3_000, 6_000, 5_000, 2_000)
    assert Budgets.of(Limits(tail_tokens=0), 8_000, 7) == Budgets(7, 320, 0, 400, 100)


# Decisions --------------------------------------------------------------------------------------

amounts = st.integers(0, 10**6)
bills = st.builds(
    Bill, amounts, st.integers(1, 10**5), st.integers(-(10**5), 10**5), st.sampled_from([0.05, 1.0])
)
multiples = st.floats(0, 10)


@given(bills, amounts, multiples)
def test_a_fuller_account_is_never_less_due(bill: Bill, more: int, m: float) -> None:
    """Monotone in A: what is due stays due when more has been paid."""
    fuller = replace(bill, account=bill.account + more)

    assert fuller.is_due(m) or not bill.is_due(m)


@given(bills, multiples, multiples)
def test_a_larger_alpha_never_compacts_earlier(bill: Bill, m: float, more: float) -> None:
    """What is due at m + more is due at m."""
    assert bill.is_due(m) or not bill.is_due(m + more)


@given(
    st.integers(0, 5_000),
    st.integers(1, 5_000),
    st.integers(-3_000, 3_000),
    st.integers(-5, 900),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.sampled_from([0.5, 1.0, 2.5]),
)
def test_the_forecast_is_what_happens(
    account: int, price: int, droppable: int, growth: int, read: float, m: float
) -> None:
    """So many calls of that growth pass before the first one that is due."""
    bill = Bill(float(account), float(price), droppable, read)
    forecast = bill.steps_left(m, max(0, growth))
    now, passed = bill, 0
    while not now.is_due(m) and passed < 3_000:
        passed += 1
        grown = now.droppable + max(0, growth)
        now = Bill(now.account + now.carrying, price, grown, read)

    if forecast is None:
        assert not now.is_due(m) or read == 0
    elif passed < 3_000:
        assert forecast == passed


# Against hindsight ------------------------------------------------------------------------------


def best(growths: Sequence[int], price: int, read: float) -> float:
    """Return the least that carrying and compacting can cost when all growths are known."""

    @cache
    def cost(step: int, begun: int) -> float:
        if step == len(growths):
            return 0.0
        carried = read * sum(growths[begun:step])
        return min(carried + cost(step + 1, begun), price + cost(step + 1, step))

    return cost(0, 0)


def paid(growths: Sequence[int], price: int, read: float, m: float) -> float:
    """Return what the account's decisions cost on the same calls: no tail, a constant price."""
    follower, cost, sent = Follower(), 0.0, 0
    for growth in growths:
        bill = follower.account.bill(NOTHING, Weights(read, 0.0, 0.0), price)
        if bill.is_due(m):
            cost, sent = cost + price, 0
            follower.add(compaction_entry(1, 1))
        else:
            cost += bill.carrying
        sent += growth
        follower.add(*calls(sent))
    return cost


growths = st.lists(st.integers(1, 400) | st.just(1) | st.just(400), min_size=1, max_size=16)
BURST = [400, *[1] * 15]


@given(growths, st.integers(1, 600), st.sampled_from([0.05, 0.1, 1.0]))
@example(BURST, 120, 0.1)
def test_never_more_than_twice_the_best(growths: list[int], price: int, read: float) -> None:
    """At alpha = 1 the account pays at most 2 x what hindsight would, whatever comes."""
    assert paid(growths, price, read, 1.0) <= 2 * best(tuple(growths), price, read) + 1e-6


@given(growths, st.integers(1, 600), st.sampled_from([0.5, 2.0, 3.0, 4.0]))
@example(BURST, 120, 2.0)
@example(BURST, 120, 3.0)
def test_the_bound_scales_with_alpha(growths: list[int], price: int, alpha: float) -> None:
    """At any alpha it pays at most (1 + alpha) / min(1, alpha) x what hindsight would."""
    bound = (1 + alpha) / min(1, alpha)

    assert paid(growths, price, 0.1, alpha) <= bound * best(tuple(growths), price, 0.1) + 1e-6


# Resumed ----------------------------------------------------------------------------------------


@given(logs())
def test_a_resumed_account_is_the_same_at_every_step(entries: list[Entry]) -> None:
    """Asked at every entry, or folded anew and asked once: the same bill, exactly."""
    live = Follower()
    for index, entry in enumerate(entries):
        live.add(entry)
        resumed = Follower(entries[: index + 1])

        assert live.bill() == resumed.bill()
        assert live.account.factor == resumed.account.factor
        assert live.account.is_first_call == resumed.account.is_first_call


@given(logs(), st.integers(0, 3_000))
def test_other_budgets_leave_no_trace(entries: list[Entry], tail: int) -> None:
    """Budgets that change and change back (a window that was learnt, say) give the same bill."""
    follower = Follower(entries)
    before = follower.bill()
    follower.bill(replace(BUDGETS, tail=tail))

    assert follower.bill() == before


def test_work_is_in_proportion_to_what_is_new() -> None:
    """No text is counted, and each call of the session is read once."""
    follower = Follower()
    read = []
    for index in range(200):
        follower.add(*calls(1_000 + 100 * index))
        follower.bill()
        assert follower.account._reading is not None
        read.append(follower.account._reading)

    assert all(reading is read[0] for reading in read)
    assert follower.meter._counter.texts == []  # type: ignore[attr-defined]  # a ByteCounter


def test_without_growth_the_forecast_counts_whole_calls() -> None:
    """What is droppable stays as it is: the account is full after so many calls more."""
    bill = Bill(account=100.0, price=1_000.0, droppable=1_000, read=0.1)

    assert bill.steps_left(1.0, 0.0) == 8
    assert bill.is_due(1.0, 9)
