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


PIECES: dict[str, tuple[list[dict[str, Any]], list[Block]]] = {
    "the id in a later piece": (
        [call("", index=0, name="f"), call('{"n": 1}', index=0, id="late")],
        [ToolUse("", "f", {"n": 1})],
    ),
    "the name in a later piece": (
        [call("", index=0, id="a"), call('{"n": 1}', index=0, name="f")],
        [ToolUse("a", "f", {"n": 1})],
    ),
    "an id with every piece, no index": (
        [call('{"n"', id="a", name="f"), call(": 1}", id="a")],
        [ToolUse("a", "f", {"n": 1})],
    ),
    "two calls in turn, told by id alone": (
        [
            call('{"n"', id="a", name="f"),
            call('{"n"', id="b", name="f"),
            call(": 1}", id="a"),
            call(": 2}", id="b"),
        ],
        [ToolUse("a", "f", {"n": 1}), ToolUse("b", "f", {"n": 2})],
    ),
    "two calls in turn, told by index alone": (
        [
            call("", index=4, name="f"),
            call("", index=2, name="g"),
            call('{"n": 1', index=4),
            call('{"n": 2', index=2),
            call("}", index=4),
            call("}", index=2),
        ],
        [ToolUse("", "f", {"n": 1}), ToolUse("", "g", {"n": 2})],
    ),
    "one id and one index for all": (
        [call(f'{{"n": {n}}}', index=0, id="a", name="f") for n in (1, 2)],
        [ToolUse("a", "f", {"n": 1}), ToolUse("a", "f", {"n": 2})],
    ),
    "an index with the first piece alone": (
        [call("", index=1, id="a", name="f"), call('{"n"'), call(": 1}")],
        [ToolUse("a", "f", {"n": 1})],
    ),
    "an index with the later pieces alone": (
        [call("", id="a", name="f"), call('{"n"', index=0), call(": 1}", index=0)],
        [ToolUse("a", "f", {"n": 1})],
    ),
    "a last piece that repeats the name": (
        [call('{"n": 1}', index=0, name="f"), call("", index=0, name="f")],
        [ToolUse("", "f", {"n": 1})],
    ),
    "the whole call once more": (
        [call('{"n": 1}', index=0, id="a", name="f")] * 2,
        [ToolUse("a", "f", {"n": 1})],
    ),
    "two names without arguments or ids": (
        [call("", index=0, name="f"), call("", index=0, name="g")],
        [ToolUse("", "f", {}), ToolUse("", "g", {})],
    ),
    "an empty call beside": (
        [call("{}", index=0, id="a", name="f"), call("", index=1, id="", name="")],
        [ToolUse("a", "f", {})],
    ),
    "null where nothing is": (
        [
            call(None, index=0, id="a", name="f", extra_content=None),
            call('{"n": 1}', index=0, id=None, name=None),
        ],
        [ToolUse("a", "f", {"n": 1})],
    ),
}


@pytest.mark.parametrize("form", PIECES)
def test_the_pieces_of_calls_find_together(form: str) -> None:
    """However pieces are marked, each call is put together whole, once, and alone."""
    pieces, wanted = PIECES[form]
    uses = blocks(read(*(chunk(tool_calls=[one]) for one in pieces), chunk("tool_calls")))

    assert [(use.name, use.input) for use in uses if isinstance(use, ToolUse)] == [
        (use.name, use.input) for use in wanted if isinstance(use, ToolUse)
    ]
    assert len(uses) == len(wanted)
    for use, told in zip(uses, wanted, strict=True):
        assert isinstance(use, ToolUse)
        assert isinstance(told, ToolUse)
        assert use.id == (told.id or use.id) != ""


def test_a_call_is_shown_under_the_id_it_keeps() -> None:
    """A call shown before its id came keeps the one it was shown with."""
    pieces = PIECES["the id in a later piece"][0]
    deltas = read(*(chunk(tool_calls=[one]) for one in pieces), chunk("tool_calls"))
    (shown,) = (delta for delta in deltas if isinstance(delta, ToolPart))
    (use,) = blocks(deltas)

    assert isinstance(use, ToolUse)
    assert use.id == shown.id


def test_a_null_takes_no_signature_away() -> None:
    """A later piece that names the extra field with null leaves what came before."""
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    pieces = [
        {**call("", index=0, id="a", name="f"), **extra},
        call("{}", index=0, extra_content=None),
    ]
    first, _ = blocks(read(*(chunk(tool_calls=[one]) for one in pieces), chunk("stop")))

    assert isinstance(first, Thinking)
    assert first.wire["fields"] == {"tool_call": extra}


def test_a_whole_message_at_the_end_says_nothing_twice() -> None:
    """A last chunk with the whole message again adds nothing; alone it is the reply."""
    whole = {"role": "assistant", "content": "Hello."}
    last = {"choices": [{"index": 0, "delta": {}, "message": whole, "finish_reason": "stop"}]}
    alone = {"choices": [{"index": 0, "message": whole, "finish_reason": "stop"}]}

    assert blocks(read(chunk(content="Hello."), last)) == [Text("Hello.")]
    assert blocks(read(chunk(content="Hello."), alone)) == [Text("Hello.")]
    assert blocks(read(alone)) == [Text("Hello.")]


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
        ("function_call", "tool_use"),
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "refusal"),
        ("model_length", "model_context_window_exceeded"),
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
        [chunk(content="x"), chunk("abort")],
        [chunk(content="x"), chunk("insufficient_system_resource")],
        [chunk(content="x"), chunk("function_call_filter: MALFORMED_FUNCTION_CALL")],
        [chunk(tool_calls=[call('{"co', index=0, id="a", name="f")]), chunk("tool_calls")],
        [chunk(tool_calls=[call("[1]", index=0, id="a", name="f")]), chunk("tool_calls")],
        [chunk(tool_calls=[call('{"n": NaN}', index=0, id="a", name="f")]), chunk("tool_calls")],
        [chunk(tool_calls=[call("{}", index=0, id="a")]), chunk("tool_calls")],
    ],
    ids=[
        "no end",
        "an error",
        "given up",
        "no room",
        "malformed",
        "half a call",
        "a list",
        "no JSON number",
        "no name",
    ],
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


@pytest.mark.parametrize("body", ['{"a":\n 1}', '\n\n[{"error": {}}]', "<html>\n</html>\n"])
def test_a_body_that_is_no_stream_is_one_event(body: str) -> None:
    """An answer in JSON, or a page, is given on whole: it may say what is wrong."""
    lines = SseLines()

    assert [*lines.feed(body.encode()), *lines.finish()] == [body.strip()]


def test_what_says_nothing_is_no_event() -> None:
    """Comments, blank data and a mark of the byte order are none of an event."""
    lines = SseLines()
    raw = "\ufeffdata: {}\n\n: ping\n\ndata: \n\ndata:\n\nevent: ping\n\nid: 1\nretry: 3\n\n"

    assert [*lines.feed(raw.encode()), *lines.finish()] == ["{}"]


def test_a_very_long_line_is_joined_once() -> None:
    """The pieces of a line are put together when it ends, not with each of them."""
    lines, piece = SseLines(), b"x" * 1_000
    found = list(lines.feed(b"data: "))
    for _ in range(20_000):
        found += lines.feed(piece)
    assert found == []
    (data,) = lines.feed(b"\n\n")

    assert len(data) == 20_000_000
