"""The two protocols side by side: one test, run on the strict fake of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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


def caching(fake: type[FakeAnthropic]) -> dict[str, Any]:
    """Return what makes `fake` a server that tells cached tokens."""
    return {"kind": "llama.cpp"} if fake is FakeOpenAI else {}


def assert_append_only(
    requests: Sequence[Recorded], is_side: Callable[[Recorded], bool] | None = None
) -> int:
    """Every request goes on from the one before; returns how often a new prefix began."""
    if requests and requests[0].path == COMPLETIONS:
        return completions_checks.assert_append_only(requests, is_side or (lambda record: False))
    return len(messages_checks.assert_append_only(requests, is_side=is_side))


def is_messages(record: Recorded) -> bool:
    """Whether a request is one of the Messages API."""
    return record.path != COMPLETIONS


def system_of(record: Recorded) -> str:
    """Return a request's system prompt."""
    if is_messages(record):
        return "".join(block["text"] for block in record.json["system"])
    return "".join(each["content"] for each in record.messages if each["role"] == "system")


def prompt_of(record: Recorded) -> int:
    """Return the tokens of a request's prompt as its usage tells them, cached ones included."""
    usage = record.usage or {}
    if not is_messages(record):
        return int(usage["prompt_tokens"])
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(usage[kind] for kind in kinds)


def cached_of(record: Recorded) -> int:
    """Return how many of them were read from the cache, as the usage tells; 0 if it does not."""
    usage = record.usage or {}
    if is_messages(record):
        return int(usage["cache_read_input_tokens"])
    return int(usage.get("prompt_tokens_details", {}).get("cached_tokens", 0))


def output_of(record: Recorded) -> int:
    """Return the tokens of its answer, as its usage tells them."""
    return int(
        (record.usage or {})["output_tokens" if is_messages(record) else "completion_tokens"]
    )


def spoken(record: Recorded) -> list[str]:
    """Return the roles of a request's messages, the system prompt left out."""
    return [each["role"] for each in record.messages if each["role"] != "system"]
