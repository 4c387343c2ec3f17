"""What a session of 430,000 tokens costs with the account, next to compacting by the reserve."""

from __future__ import annotations

from tests.economy import played

from .table import Row, times

TURNS = 24


def measure() -> list[Row]:
    """Return the cost in weighted tokens on a window of 200k and of 1M, by the fake's cache."""
    rows = []
    for window in (200_000, 1_000_000):
        ours, compactions = played(window, "economic", TURNS)
        beside, dearer = played(window, "crush", TURNS)
        rows.append(
            Row(
                f"cost of {TURNS} turns in a window of {window:,}, `economic` next to `crush`",
                f"{ours:,.0f} weighted tokens, {len(compactions)} compactions",
                f"{beside:,.0f}, {len(dearer)} compactions",
                times(ours / beside),
                "< × 1",
            )
        )
    return rows
