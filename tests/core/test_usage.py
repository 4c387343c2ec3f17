"""Usage and money: what is not known stays unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.usage import Prices, Usage

counts = st.none() | st.integers(0, 10**6)
usages = st.builds(Usage, counts, counts, counts, counts, counts)


@pytest.mark.parametrize(
    ("usage", "whole", "used"),
    [
        (Usage(3, 20_000, 150_000, 900), 170_003, 170_903),
        (Usage(5, None, None, 2), 5, 7),
        (Usage(0, 10, 0, 0), 10, 10),
        (Usage(None, 10, 10, 2), None, None),
        (Usage(5, 0, 0, None), 5, None),
        (Usage(5, 0, 0, -1), 5, None),
        (Usage(0, 0, 0, 5), 0, None),
    ],
)
def test_used_tokens(usage: Usage, whole: int | None, used: int | None) -> None:
    """Input is all three kinds, used adds the output; unknown or impossible figures give None."""
    assert usage.input_tokens == whole
    assert usage.used_tokens == used


@given(usages, usages)
def test_sums_keep_what_is_known(left: Usage, right: Usage) -> None:
    """A sum is unknown only where both are, and does not depend on the order."""
    total = left + right

    assert total == right + left
    assert left + Usage() == left
    for name in ("uncached", "cache_read", "cache_write", "output", "cache_write_1h"):
        known = [n for n in (getattr(left, name), getattr(right, name)) if n is not None]
        assert getattr(total, name) == (sum(known) if known else None)


def test_each_kind_has_its_price() -> None:
    """Uncached, read, written for 5 minutes or an hour, and output are paid at their own price."""
    prices = Prices(1.0, 5.0, 0.1, 1.25, 2.0, "test")

    assert prices.cost_usd(Usage(10**6, 0, 0, 0)) == pytest.approx(1.0)
    assert prices.cost_usd(Usage(0, 10**6, 0, 0)) == pytest.approx(0.1)
    assert prices.cost_usd(Usage(0, 0, 10**6, 0)) == pytest.approx(1.25)
    assert prices.cost_usd(Usage(0, 0, 10**6, 0, 4 * 10**5)) == pytest.approx(0.75 + 0.8)
    assert prices.cost_usd(Usage(0, 0, 10, 0, 99)) == pytest.approx(20 / 10**6)
    assert prices.cost_usd(Usage(0, 0, 0, 10**6)) == pytest.approx(5.0)
    assert prices.cost_usd(Usage()) == 0


def test_a_long_call_has_its_own_price() -> None:
    """Where long calls cost more, that price holds for all of a call over the limit."""
    long = Prices(2.0, 8.0, 0.2, 2.5, 4.0, "test")
    prices = Prices(1.0, 5.0, 0.1, 1.25, 2.0, "test", 200_000, long)

    assert prices.cost_usd(Usage(200_000, 0, 0, 0)) == pytest.approx(0.2)
    assert prices.cost_usd(Usage(200_000, 1, 0, 10**6)) == pytest.approx(8.4, abs=1e-6)
