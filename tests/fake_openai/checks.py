"""What many tests assert of recorded requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..fake_anthropic.record import Recorded
from .fake import FakeOpenAI


def assert_healthy(server: FakeOpenAI) -> None:
    """No request broke a rule and every answer was used."""
    assert [record.error for record in server.refused] == []
    assert server.unused == []


def assert_append_only(
    requests: Sequence[Recorded], is_side: Callable[[Recorded], bool] = lambda record: False
) -> int:
    """Every request's messages begin with those of the one before, byte for byte.

    Except a request for a summary (`is_side`), which adds one message and is not gone on from, and
    the first one after it, which may begin anew. Returns how often that happened.
    """
    last: list[str] = []
    may_begin, begun = False, 0
    for number, record in enumerate(requests):
        sent = [json.dumps(message, ensure_ascii=False) for message in record.messages]
        if number and requests[number - 1].stop_reason == "refusal":  # it takes its exchange along
            last = [old for old, new in zip(last, sent, strict=False) if old == new]
        same = sent[: len(last)] == last
        if is_side(record):
            assert sent[:-1] == last[: len(sent) - 1], f"request {number}: a summary of other words"
            may_begin = True
            continue
        assert same or may_begin, f"request {number} does not go on from the one before"
        begun += not same
        may_begin = may_begin and same
        last = sent
    return begun


def cached_ratio(requests: Sequence[Recorded], first: int = 0) -> float:
    """Return which share of all prompt tokens from request `first` on was read from the cache."""
    usages = [record.usage for record in requests[first:] if record.usage]
    read = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    whole = sum(usage["prompt_tokens"] for usage in usages)
    return float(read / whole)
