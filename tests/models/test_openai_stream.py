"""Chunks of a Chat Completion, folded into deltas."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Block, Json, Text, Thinking, ToolUse
from jupyter_ctx.core.ports import BlockDone, Delta, ReplyDone, TextPart, ThinkingPart, ToolPart
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import StreamBrokenError
from jupyter_ctx.models.openai_stream import ReplyReader, SseLines, read_usage


def chunk(finish: str | None = None, **delta: Any) -> Json:
    """Return a chunk with one choice."""
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    """Return a piece of a tool call."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return {**more, "function": {**name, "arguments": arguments}}


def read(*chunks: Json, max_tokens: int = 900, window: int | None = None) -> list[Delta]:
    """Return every delta of a reply."""
    reader = ReplyReader("http://host", "m", max_tokens, window)
    shown = [delta for one in chunks for delta in reader.feed(one)]
    return [*shown, *reader.finish()]


def blocks(deltas: list[Delta]) -> list[Block]:
    """Return the reply's blocks."""
    return [delta.block for delta in deltas if isinstance(delta, BlockDone)]


def done(deltas: list[Delta]) -> ReplyDone:
    """Return the reply's end."""
    last = deltas[-1]
    assert isinstance(last, ReplyDone)
    return last


def test_a_reply_in_pieces() -> None:
    """Text, reasoning and a call arrive in pieces and end as whole blocks, in this order."""
    deltas = read(
        chunk(role="assistant", content=""),
        chunk(reasoning_content="h"),
        chunk(reasoning_content="m"),
        chunk(content="I "),
        chunk(content="look."),
        chunk(tool_calls=[call("", index=0, id="a", type="function", name="run_code")]),
        chunk(tool_calls=[call('{"code"', index=0)]),
        chunk(tool_calls=[call(': "1"}', index=0)]),
        chunk("tool_calls"),
        {"id": "c1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    )

    assert [d for d in deltas if isinstance(d, ThinkingPart)] == [
        ThinkingPart("h"),
        ThinkingPart("m"),
    ]
    assert [d for d in deltas if isinstance(d, TextPart)] == [TextPart("I "), TextPart("look.")]
    assert [d for d in deltas if isinstance(d, ToolPart)] == [ToolPart("a", "run_code")]
    thought, text, use = blocks(deltas)
    assert isinstance(thought, Thinking)
    assert thought.wire["fields"] == {"reasoning_content": "hm"}
    assert (text, use) == (Text("I look."), ToolUse("a", "run_code", {"code": "1"}))
    assert done(deltas) == ReplyDone("tool_use", Usage(7, None, None, 2), "c1")


WHOLE = ({"n": 1}, {"n": 2}, {"n": 3})
PARALLEL = {
    "an index for each": [call(f'{{"n": {n}}}', index=n, id=f"i{n}", name="f") for n in (1, 2, 3)],
    "one index, an id for each": [
        call(f'{{"n": {n}}}', index=0, id=f"i{n}", name="f") for n in (1, 2, 3)
    ],
    "one index, no ids": [call(f'{{"n": {n}}}', index=0, name="f") for n in (1, 2, 3)],
    "no index, an id for each": [call(f'{{"n": {n}}}', id=f"i{n}", name="f") for n in (1, 2, 3)],
    "objects for arguments": [call({"n": n}, index=n, id=f"i{n}", name="f") for n in (1, 2, 3)],
}


@pytest.mark.parametrize("form", PARALLEL)
@pytest.mark.parametrize("at_once", [True, False])
def test_parallel_calls_in_every_form(form: str, at_once: bool) -> None:
    """Parallel calls are told apart in every server's way, each with an id of its own."""
    pieces = PARALLEL[form]
    chunks = [chunk(tool_calls=pieces)] if at_once else [chunk(tool_calls=[one]) for one in pieces]
    uses = blocks(read(*chunks, chunk("stop")))

    assert [use.input for use in uses if isinstance(use, ToolUse)] == list(WHOLE)
    assert len({use.id for use in uses if isinstance(use, ToolUse) and use.id}) == 3


def test_a_name_repeated_with_every_piece_is_one_call() -> None:
    """Servers that repeat id and name with each piece of a call still send one call."""
    pieces = [call(part, index=0, id="a", name="f") for part in ('{"n"', ": 1", "}")]

    assert blocks(read(*(chunk(tool_calls=[one]) for one in pieces), chunk("stop"))) == [
        ToolUse("a", "f", {"n": 1})
    ]


def test_what_only_the_server_understands_is_kept_by_its_call() -> None:
    """A signature stands in a block before the call it came with."""
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    signed = {**call("{}", index=0, id="a", name="f"), **extra}
    first, second = blocks(read(chunk(tool_calls=[signed]), chunk("stop")))

    assert isinstance(first, Thinking)
    assert first.wire["fields"] == {"tool_call": extra}
    assert second == ToolUse("a", "f", {})


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("of_later", "of_later"),
    ],
)
def test_why_it_ended(finish: str, reason: str) -> None:
    """Each finish reason is ours; an unknown one stays what it is."""
    assert done(read(chunk(content="x"), chunk(finish))).stop_reason == reason


def test_the_windows_end_is_told_from_the_limit() -> None:
    """`length` short of the limit, with the window full, is the window's end."""
    usage = {"prompt_tokens": 3_900, "completion_tokens": 190}
    cut = (chunk(content="x"), chunk("length"), {"choices": [], "usage": usage})

    ended = "model_context_window_exceeded"
    assert done(read(*cut, max_tokens=900, window=4_096)).stop_reason == ended
    assert done(read(*cut, max_tokens=190, window=4_096)).stop_reason == "max_tokens"
    assert done(read(*cut, max_tokens=900, window=100_000)).stop_reason == "max_tokens"
    assert done(read(*cut, max_tokens=900)).stop_reason == "max_tokens"


def test_a_refusal_in_words() -> None:
    """The field `refusal` ends the turn with the provider's words, and is no answer."""
    deltas = read(chunk(refusal="Not "), chunk(refusal="this."), chunk("stop"))

    assert (done(deltas).stop_reason, done(deltas).detail) == ("refusal", "Not this.")
    assert blocks(deltas) == []


def test_a_cut_call_is_left_out() -> None:
    """After `length` a call whose arguments broke off, or never came, is not kept."""
    half = chunk(tool_calls=[call('{"co', index=0, id="a", name="f")])
    none = chunk(tool_calls=[call("", index=0, id="a", name="f")])

    assert blocks(read(chunk(content="I"), half, chunk("length"))) == [Text("I")]
    assert blocks(read(chunk(content="I"), none, chunk("length"))) == [Text("I")]


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(content="half")],
        [chunk(content="x"), chunk("error")],
        [chunk(tool_calls=[call('{"co', index=0, id="a", name="f")]), chunk("tool_calls")],
        [chunk(tool_calls=[call("[1]", index=0, id="a", name="f")]), chunk("tool_calls")],
        [chunk(tool_calls=[call('{"n": NaN}', index=0, id="a", name="f")]), chunk("tool_calls")],
        [chunk(tool_calls=[call("{}", index=0, id="a")]), chunk("tool_calls")],
    ],
    ids=["no end", "an error", "half a call", "a list", "no JSON number", "no name"],
)
def test_what_makes_no_reply_is_broken(chunks: list[Json]) -> None:
    """A stream without an end, or with a call nobody can run, is StreamBrokenError."""
    with pytest.raises(StreamBrokenError, match="http://host"):
        read(*chunks)


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({}, Usage()),
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, None, None, 2)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 8}},
            Usage(2, 8, None, None),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(10, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(10)),
        (
            {
                "prompt_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5},
            },
            Usage(1, 4, 5, None),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 6}, Usage(4, 6)),
        ({"prompt_tokens": 10, "cached_tokens": 6}, Usage(4, 6)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 90},
            Usage(10, None, None, 80),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(0, 10)),
        ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
        ({"prompt_tokens": "10"}, Usage()),
    ],
)
def test_usage_in_every_form(told: dict[str, Any], usage: Usage) -> None:
    """Cached tokens are taken out of the prompt's; what is not said is unknown, not zero."""
    assert read_usage(told) == usage


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "choices",
                    "index",
                    "delta",
                    "finish_reason",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "usage",
                    "prompt_tokens",
                    "reasoning_details",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON.filter(lambda value: isinstance(value, dict)), max_size=4))
def test_any_json_is_a_reply_or_broken(chunks: list[Any]) -> None:
    """Whatever JSON comes, the reader gives a reply or StreamBrokenError, nothing else."""
    try:
        deltas = read(*chunks)
    except StreamBrokenError:
        return
    assert isinstance(deltas[-1], ReplyDone)


def test_half_a_character_waits_for_its_other_half() -> None:
    """A surrogate pair split over two chunks is shown and kept as one character."""
    deltas = read(chunk(content="a\ud83d"), chunk(content="\ude00"), chunk("stop"))

    assert blocks(deltas) == [Text("a😀")]
    assert "".join(d.text for d in deltas if isinstance(d, TextPart)) == "a😀"


BODY = 'data: {"a": "x\u2028y"}\r\n\r\n: a comment\ndata: {"b":\ndata: 2}\n\nerror: {"c": 3}\n\n'


@given(st.lists(st.integers(0, len(BODY.encode())), max_size=6))
def test_events_come_whole_however_the_body_is_cut(cuts: list[int]) -> None:
    """The same events come of a body cut anywhere; only line feeds end a line."""
    raw, lines = BODY.encode(), SseLines()
    places = sorted({0, len(raw), *cuts})
    found = [
        data for start, end in itertools.pairwise(places) for data in lines.feed(raw[start:end])
    ]

    assert [*found, *lines.finish()] == ['{"a": "x\u2028y"}', '{"b":\n2}', '{"error":{"c": 3}}']
