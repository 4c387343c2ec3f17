"""A server that answers "ok" to whatever it accepts, and the SDK's client on it."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from . import FakeAnthropic


@pytest.fixture
def server() -> Iterator[FakeAnthropic]:
    """A fake that says "ok" to every accepted request."""
    with FakeAnthropic(lambda request: "ok") as running:
        yield running


@pytest.fixture
def client(server: FakeAnthropic) -> Iterator[anthropic.Anthropic]:
    """The SDK on that fake, its own retries off."""
    with anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0) as made:
        yield made
