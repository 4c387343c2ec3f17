"""Reading a streamed reply, event by event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import Block, Opaque, Text, Thinking, ToolUse, block_to_wire
from jupyter_ctx.core.ports import BlockDone, Delta, ReplyDone, TextPart, ThinkingPart, ToolPart
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import StreamBrokenError
from jupyter_ctx.models.anthropic_stream import ReplyReader
from jupyter_ctx.models.wiretext import parse_event, parse_input

from . import events as ev


def read(*events: ev.Event) -> list[Delta]:
    """Return all deltas of a stream of events that ends after them."""
    reader = ReplyReader("https://host")
    deltas = [delta for event in events for delta in reader.feed(ev.clone(event))]
    reader.finish()
    return deltas


def blocks(deltas: list[Delta]) -> list[Block]:
    """Return the finished blocks."""
    return [delta.block for delta in deltas if isinstance(delta, BlockDone)]


def shown(deltas: list[Delta]) -> str:
    """Return the text shown while it streamed."""
    return "".join(delta.text for delta in deltas if isinstance(delta, TextPart))


def done(deltas: list[Delta]) -> ReplyDone:
    """Return the stream's last item, a ReplyDone."""
    last = deltas[-1]
    assert isinstance(last, ReplyDone)
    return last


def test_a_reply_becomes_deltas_in_order() -> None:
    """Thinking, text and a call come as parts, then as blocks; the ReplyDone comes last."""
    deltas = read(
        *ev.reply(
            ev.thinking(0, "Let me ", "see."),
            ev.text(1, "I look."),
            ev.tool(2, '{"code": ', '"1+1"}'),
            reason="tool_use",
        )
    )

    assert deltas == [
        ThinkingPart("Let me "),
        ThinkingPart("see."),
        BlockDone(Thinking({"type": "thinking", "thinking": "Let me see.", "signature": "sig="})),
        TextPart("I look."),
        BlockDone(Text("I look.")),
        ToolPart("toolu_1", "run_code"),
        BlockDone(ToolUse("toolu_1", "run_code", {"code": "1+1"})),
        ReplyDone("tool_use", Usage(3, 20_000, 150_000, 900, 50_000), "msg_1"),
    ]


def test_usage_fills_the_gauge() -> None:
    """Input, cache writes, cache reads and output of a reply are 170,903 tokens used."""
    assert done(read(*ev.reply(ev.text(0, "x")))).usage.used_tokens == 170_903


def test_the_last_usage_is_the_total() -> None:
    """Input figures that come only at the end count; a zero there takes nothing back."""
    first = ev.start({"input_tokens": 0, "output_tokens": 0})
    late, stop = ev.end()
    late["usage"] = {"input_tokens": 70, "cache_read_input_tokens": 5, "output_tokens": 9}

    assert done(read(first, late, stop)).usage == Usage(70, 5, None, 9)

    late["usage"] = {"input_tokens": 0, "output_tokens": 9}
    assert done(read(ev.start(), late, stop)).usage.uncached == 3


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": "7"}, {"input_tokens": True}, []])
def test_missing_usage_is_unknown(usage: object) -> None:
    """What the provider does not say is None, never 0."""
    late, stop = ev.end()
    late["usage"] = usage

    assert done(read(ev.start(usage), late, stop)).usage == Usage()


def test_thinking_comes_back_byte_for_byte() -> None:
    """A thinking block is sent back with its fields in their order, unknown ones included."""
    first = {"signature": "", "type": "thinking", "new_field": {"b": 1, "a": None}, "thinking": ""}
    events = ev.block(
        0,
        first,
        {"type": "thinking_delta", "thinking": "é"},
        {"type": "signature_delta", "signature": "EqQB/+=="},
    )
    (block,) = blocks(read(*ev.reply(events)))

    wanted = {**first, "thinking": "é", "signature": "EqQB/+=="}
    assert isinstance(block, Thinking)
    assert json.dumps(block_to_wire(block)) == json.dumps(wanted)


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        {"data": "x", "type": "redacted_thinking", "note": [1, {"z": 1, "a": 2}]},
        {"type": "server_tool_use", "id": "s1", "name": "web", "input": {"q": 1}, "caller": None},
        {"type": "of_a_later_version", "payload": {"deep": [None, 1.5, "x"]}, "id": 7},
        {"type": "text", "text": "quoted", "citations": [{"type": "page", "page": 3}]},
    ],
)
def test_blocks_without_deltas_come_back_byte_for_byte(raw: dict[str, Any]) -> None:
    """Redacted thinking and blocks of any other type are sent back exactly as they came."""
    (block,) = blocks(read(*ev.reply(ev.block(0, raw))))

    assert isinstance(block, (Thinking, Opaque))
    assert json.dumps(block_to_wire(block)) == json.dumps(raw)


def test_an_unknown_block_gathers_its_deltas() -> None:
    """Texts of an unknown block go on where they were; a server tool's input is parsed."""
    later = ev.block(
        0,
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "The "},
        {"type": "compaction_delta", "content": "summary."},
    )
    server = ev.block(
        1,
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
    )

    assert blocks(read(*ev.reply(later, server))) == [
        Opaque({"type": "compaction", "content": "The summary."}),
        Opaque(
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
        ),
    ]


def test_a_text_with_citations_is_kept_whole() -> None:
    """Citations that come as deltas are part of the block that goes back."""
    cited = ev.block(
        0,
        {"type": "text", "text": "", "citations": None},
        {"type": "text_delta", "text": "So."},
        {"type": "citations_delta", "citation": {"page": 1}},
        {"type": "citations_delta", "citation": {"page": 2}},
        {"type": "rank_delta", "rank": 3},
    )
    wire = {"type": "text", "text": "So.", "citations": [{"page": 1}, {"page": 2}], "rank": 3}

    assert blocks(read(*ev.reply(cited))) == [Opaque(wire)]


def test_a_call_keeps_the_order_of_its_keys() -> None:
    """The keys of a call's input stay as the model wrote them, in every depth."""
    raw = '{"z": 1, "a": {"y": [], "b": 2.5}, "k": "\\u00e9"}'
    (block,) = blocks(read(*ev.reply(ev.tool(0, *raw), reason="tool_use")))

    assert isinstance(block, ToolUse)
    assert json.dumps(block_to_wire(block)["input"]) == raw


@given(st.lists(st.text(min_size=1), min_size=1), st.data())
def test_cutting_a_text_differently_changes_nothing(pieces: list[str], data: st.DataObject) -> None:
    """However a text is cut into deltas, shown text and block are the whole."""
    whole = "".join(pieces) + "."
    cut = data.draw(st.integers(0, len(whole)))
    deltas = read(*ev.reply(ev.text(0, *[p for p in (whole[:cut], whole[cut:]) if p])))

    assert shown(deltas) == whole
    assert blocks(deltas) == [Text(whole)]


def test_halves_of_a_character_are_joined() -> None:
    """A character split between two events is whole; a lone half is replaced; both are UTF-8."""
    split = ev.text(0, "a \ud83d", "\ude00 b \ud800", " c \udc00 d\ud83d")
    deltas = read(*ev.reply(split))

    assert shown(deltas) == "a 😀 b � c � d�"
    assert blocks(deltas) == [Text("a 😀 b � c � d�")]
    (block,) = blocks(read(*ev.reply(ev.tool(0, '{"x": "\\ud800!"}'), reason="tool_use")))
    assert block == ToolUse("toolu_1", "run_code", {"x": "�!"})


# What is left out because the API would refuse to take it back


def test_an_empty_text_is_left_out() -> None:
    """A text block without text yields no block."""
    deltas = read(*ev.reply(ev.text(0), ev.tool(1, '{"a": 1}'), reason="tool_use"))

    assert blocks(deltas) == [ToolUse("toolu_1", "run_code", {"a": 1})]


def test_a_blank_text_stays_only_beside_another() -> None:
    """A blank text is kept in its place when another text is there, else left out."""
    alone = read(*ev.reply(ev.text(0, "\n\n"), ev.tool(1, '{"a": 1}'), reason="tool_use"))
    before = read(*ev.reply(ev.text(0, "\n"), ev.thinking(1, "t"), ev.text(2, "x")))
    after = read(*ev.reply(ev.text(0, "x"), ev.text(1, " ")))

    assert blocks(alone) == [ToolUse("toolu_1", "run_code", {"a": 1})]
    assert [type(block) for block in blocks(before)] == [Text, Thinking, Text]
    assert blocks(after) == [Text("x"), Text(" ")]


# Calls that are not whole


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
@pytest.mark.parametrize("pieces", [['{"code": "rm -r'], ["{"], []])
def test_a_call_cut_by_the_limit_is_never_yielded(reason: str, pieces: list[str]) -> None:
    """A call that the output limit cut, before its first argument too, yields no block."""
    deltas = read(*ev.reply(ev.text(0, "I run"), ev.tool(1, *pieces), reason=reason))

    assert blocks(deltas) == [Text("I run")]
    assert done(deltas).stop_reason == reason


def test_a_call_without_arguments_is_whole_when_the_reply_is() -> None:
    """A call without input is yielded, in its place, once something says it was complete."""
    calls = [ev.tool(0, id_="toolu_1"), ev.tool(1, "{}", id_="toolu_2"), ev.tool(2, id_="toolu_3")]
    whole = read(*ev.reply(*calls, reason="tool_use"))
    cut = read(*ev.reply(*calls, reason="max_tokens"))

    ids = ["toolu_1", "toolu_2", "toolu_3"]
    assert [block.id for block in blocks(whole) if isinstance(block, ToolUse)] == ids
    assert [block.id for block in blocks(cut) if isinstance(block, ToolUse)] == ids[:2]


@pytest.mark.parametrize(
    "raw",
    ['{"a": ', "[1]", '"x"', "null", '{"a": NaN}', '{"a": 1e999}', "{'a': 1}", "[" * 100_000],
)
def test_a_whole_call_with_broken_input_breaks_the_stream(raw: str) -> None:
    """Input that is no JSON object, in a reply that says it is whole, is a broken stream."""
    with pytest.raises(StreamBrokenError):
        read(*ev.reply(ev.tool(0, raw), reason="tool_use"))
    with pytest.raises(StreamBrokenError):
        read(*ev.reply(ev.tool(0, raw), ev.text(1, "and"), reason="max_tokens"))


def test_arguments_given_at_the_start_count() -> None:
    """Servers that send a call whole in its start are understood."""
    first = {"type": "tool_use", "id": "t1", "name": "inspect", "input": {"names": ["df"]}}
    deltas = read(*ev.reply(ev.block(0, first), reason="tool_use"))

    assert blocks(deltas) == [ToolUse("t1", "inspect", {"names": ["df"]})]


def test_text_given_at_the_start_counts() -> None:
    """Servers that send the first text in a block's start are understood."""
    delta = {"type": "text_delta", "text": "lo"}
    deltas = read(*ev.reply(ev.block(0, {"type": "text", "text": "Hel"}, delta)))

    assert shown(deltas) == "Hello"
    assert blocks(deltas) == [Text("Hello")]


# Streams that are none


WHOLE = ev.reply(ev.thinking(0, "t"), ev.text(1, "x"), ev.tool(2, '{"a": 1}'), reason="tool_use")


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_stream_cut_anywhere_is_no_reply(length: int) -> None:
    """Every beginning of a reply that lacks its end raises, and yields no ReplyDone."""
    with pytest.raises(StreamBrokenError, match="https://host"):
        read(*WHOLE[:length])


def test_no_stop_reason_is_no_reply() -> None:
    """`message_stop` without a stop reason is no end."""
    with pytest.raises(StreamBrokenError):
        read(ev.start(), *ev.text(0, "x"), *ev.end(None))


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}],
        [{"type": "content_block_stop", "index": 3}],
        [{"type": "content_block_stop"}],
        ev.block(0, {"text": "no type"}),
        ev.block(0, {"type": "tool_use", "id": "", "name": "x", "input": {}}),
        ev.block(0, {"type": "tool_use", "id": "t", "input": {}}),
        ev.block(0, {"type": "text", "text": "never ended"}, stop=False),
    ],
)
def test_events_that_make_no_reply_break_the_stream(events: list[ev.Event]) -> None:
    """Events out of place are a broken stream, never a half block."""
    with pytest.raises(StreamBrokenError):
        read(*ev.reply(events))


def test_events_of_a_later_version_are_passed_over() -> None:
    """An unknown event changes nothing."""
    later = {"type": "message_progress", "percent": 50}

    assert read(ev.start(), later, *ev.text(0, "x"), later, *ev.end()) == read(
        ev.start(), *ev.text(0, "x"), *ev.end()
    )


def test_a_refusal_says_why() -> None:
    """The provider's explanation of a refusal is the reply's detail, else its category."""
    details = {"type": "refusal", "category": "cyber", "explanation": "Against the policy."}
    explained = read(ev.start(), *ev.end("refusal", stop_details=details))
    named = read(ev.start(), *ev.end("refusal", stop_details={"category": "bio"}))

    assert done(explained).detail == "Against the policy."
    assert done(named).detail == "bio"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


KINDS = ["message_start", "message_delta", "message_stop", "error", "of_a_later_version"] + [
    f"content_block_{what}" for what in ("start", "delta", "stop")
]
FIELDS = dict.fromkeys(("index", "delta", "content_block", "message", "usage"), JUNK)
JUNK_EVENTS = st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional=FIELDS)


@given(st.lists(JUNK_EVENTS, max_size=8))
def test_any_events_are_read_or_refused(events: list[ev.Event]) -> None:
    """Whatever a server sends is a reply or a StreamBrokenError, no other error."""
    try:
        deltas = read(*events)
    except StreamBrokenError:
        return
    assert isinstance(deltas[-1], ReplyDone)


@pytest.mark.parametrize("data", ["", "{", "[]", "1", "nul", "[" * 100_000, '{"a": NaN}'])
def test_an_event_that_is_no_object_is_a_value_error(data: str) -> None:
    """Event data and tool input that are no JSON objects raise ValueError, whatever the depth."""
    with pytest.raises(ValueError):  # noqa: PT011  any ValueError is the contract
        parse_event(data)
    with pytest.raises(ValueError):  # noqa: PT011
        parse_input(data)
