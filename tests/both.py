"""The two protocols side by side: one test, run on the strict fake of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.fake_anthropic import FakeAnthropic, Recorded
from tests.fake_anthropic import checks as messages_checks
from tests.fake_openai import FakeOpenAI
from tests.fake_openai import checks as completions_checks
from tests.fake_openai.exchange import COMPLETIONS

on_both = pytest.mark.parametrize(
    "fake", [FakeAnthropic, FakeOpenAI], ids=["messages", "completions"]
)
"""Runs a test once with each fake, given as `fake`."""


def assert_append_only(
    requests: Sequence[Recorded], is_side: Callable[[Recorded], bool] | None = None
) -> int:
    """Every request goes on from the one before; returns how often a new prefix began."""
    if requests and requests[0].path == COMPLETIONS:
        return completions_checks.assert_append_only(requests, is_side or (lambda record: False))
    return len(messages_checks.assert_append_only(requests, is_side=is_side))


def spoken(record: Recorded) -> list[str]:
    """Return the roles of a request's messages, the system prompt left out."""
    return [each["role"] for each in record.messages if each["role"] != "system"]
