"""The browser of one file leaves no loop behind for the tests of another."""

import asyncio


def test_no_loop_runs_between_the_files() -> None:
    """Without a page open, no event loop runs on the thread of the tests."""
    assert asyncio._get_running_loop() is None
