"""Asking why the prompt cache was missed, and reading what comes back, in whatever form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.cache import place_breakpoints
from jupyter_ctx.core.entries import CacheMiss
from jupyter_ctx.core.ports import ReplyDone, Request
from jupyter_ctx.models.anthropic import asks_why_missed
from jupyter_ctx.models.anthropic_stream import ReplyReader
from jupyter_ctx.models.anthropic_wire import MessageWires, build_params, build_prompt

from . import events as ev

CHANGED = {"cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 812}}
MESSAGES = (user(Text("hi")),)


def request(id_: str | None = "msg_1", *, cached: bool = True) -> Request:
    """Return a request that names a reply."""
    points = place_breakpoints(MESSAGES) if cached else ()
    return Request("m", "s", (), MESSAGES, 9, points, previous_message_id=id_)


def miss(*, at_start: object = None, in_event: object = None, in_delta: object = None) -> Any:
    """Return the miss of a reply whose diagnostics stand in one of the places they may."""
    first = ev.start()
    first["message"]["diagnostics"] = at_start
    last, stop = ev.end()
    last["diagnostics"], last["delta"]["diagnostics"] = in_event, in_delta
    reader = ReplyReader("https://host")
    done = [d for e in (first, *ev.text(0, "x"), last, stop) for d in reader.feed(e)][-1]
    assert isinstance(done, ReplyDone)
    return done.cache_miss


def test_a_prompt_with_breakpoints_asks() -> None:
    """The id goes along, null before the first reply; nothing else of the request changes."""
    plain = build_params(request(), MessageWires())

    assert "diagnostics" not in plain
    for id_ in ("msg_1", None):
        asked = build_params(request(id_), MessageWires(), diagnoses=True)
        assert asked == {**plain, "diagnostics": {"previous_message_id": id_}}


def test_nothing_asks_without_a_cache_and_no_count_does() -> None:
    """With the cache off there is nothing to miss; a count takes no such field."""
    assert "diagnostics" not in build_params(request(cached=False), MessageWires(), diagnoses=True)
    assert "diagnostics" not in build_prompt(request(), MessageWires())


@pytest.mark.parametrize(
    ("mode", "url", "asks"),
    [
        ("auto", "https://api.anthropic.com", True),
        ("auto", "https://API.Anthropic.com./v1", True),
        ("auto", "https://eu.api.anthropic.com:443", True),
        ("auto", "https://anthropic.com.example.org", False),
        ("auto", "https://notanthropic.com", False),
        ("auto", "http://localhost:8080", False),
        ("on", "http://localhost:8080", True),
        ("off", "https://api.anthropic.com", False),
    ],
)
def test_only_anthropics_own_address_is_asked_unless_told(mode: Any, url: str, asks: bool) -> None:
    """A gateway or a compatible server may refuse a field that it does not know."""
    assert asks_why_missed(Settings(cache_diagnostics=mode), url) is asks


@pytest.mark.parametrize("place", ["at_start", "in_event", "in_delta"])
def test_the_reason_is_read_wherever_it_stands(place: str) -> None:
    """In the message, in its last event or in that one's delta."""
    assert miss(**{place: CHANGED}) == CacheMiss("messages_changed", 812)


def test_the_last_word_counts_and_null_takes_nothing_back() -> None:
    """A reason that comes later replaces one; null says that there is none, or none yet."""
    later = {"cache_miss_reason": {"type": "tools_changed"}}

    assert miss(at_start=CHANGED, in_event=later) == CacheMiss("tools_changed")
    assert miss(at_start=CHANGED, in_event=None) == CacheMiss("messages_changed", 812)
    assert miss(at_start={"cache_miss_reason": None}) is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, None),
        ([], None),
        ("x", None),
        ({}, None),
        ({"cache_miss_reason": {}}, None),
        ({"cache_miss_reason": {"type": 3}}, None),
        ({"cache_miss_reason": "unavailable"}, CacheMiss("unavailable")),
        ({"cache_miss_reason": {"type": "later_word"}}, CacheMiss("later_word")),
        (
            {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": "7"}},
            CacheMiss("system_changed"),
        ),
        (
            {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": -7}},
            CacheMiss("system_changed"),
        ),
    ],
)
def test_any_shape_is_borne(told: object, expected: CacheMiss | None) -> None:
    """A reason of a later version is kept by its word; what is none is nothing."""
    assert miss(at_start=told) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "cache_miss_reason", "cache_missed_input_tokens", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(JSON, JSON, JSON)
def test_no_shape_breaks_a_reply(first: object, second: object, third: object) -> None:
    """Whatever stands there, the reply is read; a miss has a word, and tokens that can be."""
    found = miss(at_start=first, in_event=second, in_delta=third)

    assert found is None or (found.reason and (found.tokens is None or found.tokens >= 0))
