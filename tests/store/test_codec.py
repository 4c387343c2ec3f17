"""Laws of the stored form of entries."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.core.blocks import (
    PARTS,
    Block,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    message_to_wire,
)
from jupyter_ctx.core.entries import (
    CompactionEntry,
    Entry,
    MessageEntry,
    PrefixEntry,
    UnknownEntry,
)
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.errors import StoreError
from jupyter_ctx.store import codec

from .examples import EXAMPLES

GOLDEN = Path(__file__).parent / "golden" / "v1.jsonl"

texts = st.text(max_size=20)
numbers = st.integers(0, 10**7)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
objects = st.dictionaries(texts, values, max_size=4)
sizes = st.integers(0, 10_000)
text_blocks = st.builds(Text, texts, st.sampled_from(PARTS))
images = st.builds(Image, st.sampled_from(["image/png", "image/jpeg"]), texts, sizes, sizes)
thinking = st.builds(
    lambda kind, rest: Thinking({"type": kind, **rest, "type_": kind}),
    st.sampled_from(["thinking", "redacted_thinking"]),
    objects.map(lambda found: {k: v for k, v in found.items() if k != "type"}),
)
opaque_types = st.sampled_from(["text", "tool_use", "opaque", "thinking", "server_tool_use", "?"])
opaques = st.builds(
    lambda kind, rest: Opaque({**rest, **({} if kind == "?" else {"type": kind})}),
    opaque_types,
    objects,
)
blocks: st.SearchStrategy[Block] = st.one_of(
    text_blocks,
    images,
    thinking,
    opaques,
    st.builds(ToolUse, texts, texts, objects),
    st.builds(
        ToolResult,
        texts,
        st.lists(text_blocks | images, min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(blocks, min_size=1, max_size=4).map(tuple),
)
usages = st.builds(Usage, *[st.none() | numbers] * 5)
for kind, strategy in {
    Message: messages,
    Usage: usages,
    Mapping: objects,
    float: st.floats(allow_nan=False),
}.items():
    st.register_type_strategy(kind, strategy)


def entries_of(kind: type) -> st.SearchStrategy[Entry]:
    """Return entries of one kind, every field filled by its type."""
    if kind is PrefixEntry:
        return st.builds(PrefixEntry, tools=st.lists(objects, max_size=3).map(tuple))
    return st.builds(kind)


entries = st.one_of(
    *map(entries_of, codec.TYPES.values()),
    objects.map(lambda found: UnknownEntry({**found, "v": 1, "type": "future"})),
    objects.map(lambda found: UnknownEntry({**found, "v": 2, "type": "message"})),
)


def wire_bytes(message: Message) -> bytes:
    """Return the message as bytes on the wire, keys in their order."""
    return json.dumps(message_to_wire(message), ensure_ascii=False).encode()


@given(entries)
def test_round_trip_is_identity(entry: Entry) -> None:
    """Reading a written line gives the entry, and writing that gives the same bytes."""
    line = codec.dump_line(entry)
    loaded = codec.load_line(line)

    assert loaded == entry
    assert codec.dump_line(loaded) == line
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@given(messages)
def test_a_stored_message_gives_the_same_wire_bytes(message: Message) -> None:
    """What is sent after a resume is byte for byte what was sent before."""
    entry = codec.load_line(codec.dump_line(MessageEntry(0.0, 1, 0, "prompt", message)))

    assert isinstance(entry, MessageEntry)
    assert wire_bytes(entry.message) == wire_bytes(message)


def test_the_golden_file_loads_and_is_written_the_same() -> None:
    """A session of version 1 opens for ever, and its bytes have not changed."""
    lines = GOLDEN.read_bytes().splitlines(keepends=True)

    assert tuple(codec.load_line(line) for line in lines) == EXAMPLES
    assert [codec.dump_line(entry) for entry in EXAMPLES] == lines


def test_the_golden_file_has_every_kind() -> None:
    """No kind of entry is without a stored form, nor without its place in the golden file."""
    kinds = set(get_args(Entry))
    stored = {json.loads(line)["type"] for line in GOLDEN.read_bytes().splitlines()}

    assert {*codec.TYPES.values(), UnknownEntry} == kinds == {type(entry) for entry in EXAMPLES}
    assert set(codec.TYPES) <= stored


def test_a_line_begins_with_version_and_type() -> None:
    """The version is the first thing a reader sees, keys follow in the order of the class."""
    line = codec.dump_line(EXAMPLES[4])

    assert line.startswith(b'{"v":1,"type":"message","at":3.0,"turn":1,"step":0,"kind":"prompt",')


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff"])
def test_a_lone_surrogate_is_stored_as_utf8(text: str) -> None:
    """Text that is no valid Unicode comes back as it was, from a file that is valid UTF-8."""
    entry = MessageEntry(0.0, 1, 0, "prompt", Message("user", (Text(text),)))
    line = codec.dump_line(entry)

    assert line.decode("utf-8")
    assert codec.load_line(line) == entry


def example(**changes: object) -> dict[str, Any]:
    """Return the stored form of a message with some keys changed."""
    return {**codec.entry_to_json(EXAMPLES[4]), **changes}


def content(*blocks: object, role: str = "user") -> dict[str, Any]:
    """Return the stored form of a message entry with that content."""
    return example(message={"role": role, "content": list(blocks)})


BAD: list[object] = [
    [],
    "text",
    {},
    {"type": "message"},
    {"v": 0, "type": "message"},
    {"v": True, "type": "message"},
    {"v": 1, "type": 3},
    {"v": 1, "type": "message"},
    example(at="now"),
    example(at=True),
    example(at=10**400),
    example(turn=1.5),
    example(kind="shout"),
    example(kind=[]),
    example(usage={"output": "many"}),
    example(usage=[]),
    example(message=None),
    example(message={"role": "system", "content": [{"type": "text", "text": "a"}]}),
    content(),
    content("text"),
    content({"type": "text"}),
    content({"type": "text", "text": "a", "part": "attic"}),
    content({"type": "image", "source": {"media_type": "image/png", "data": ""}}),
    content({"type": "image", "source": {}, "px": [1, 2]}),
    content({"type": "tool_use", "id": "a", "name": "b"}),
    content({"type": "tool_result", "tool_use_id": "a", "content": []}),
    content({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "thinking"}]}),
    content({"type": "opaque"}),
    {"v": 1, "type": "repair", "at": 1.0, "messages": {}, "reason": ""},
    {**codec.entry_to_json(EXAMPLES[11]), "reinjected": [{"kind": "cell"}]},
]


@pytest.mark.parametrize("value", BAD, ids=str)
def test_what_is_no_entry_is_refused_with_a_reason(value: object) -> None:
    """A line that holds no valid entry raises StoreError, whatever is wrong with it."""
    with pytest.raises(StoreError, match=r"\w+ \w+"):
        codec.entry_from_json(value)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"v":1}trailing', b"1" * 10_000]
)
def test_what_is_no_json_is_refused(line: bytes) -> None:
    """Torn, binary, endless and absurd lines raise StoreError and nothing else."""
    with pytest.raises(StoreError):
        codec.load_line(line)


def test_what_json_cannot_say_is_refused() -> None:
    """An entry with a value of another kind raises StoreError and is not half written."""
    entry = MessageEntry(0.0, 1, 0, "reply", Message("assistant", (Opaque({"a": object()}),)))

    with pytest.raises(StoreError):
        codec.dump_line(entry)


@given(values)
def test_any_json_is_an_entry_or_a_store_error(value: object) -> None:
    """Whatever a file holds, reading it raises StoreError at most."""
    stored = {"v": 1, "type": "message", "at": 1, "turn": 1, "step": 0, "kind": "note"}
    with suppress(StoreError):
        assert isinstance(codec.entry_from_json({**stored, "message": value}), MessageEntry)


def test_the_parts_of_a_compaction_are_kept_and_none_are_made_up() -> None:
    """The golden file has a compaction of before parts were told, and one that shares all out."""
    lines = GOLDEN.read_bytes().splitlines()
    loaded = [
        entry for line in lines if isinstance(entry := codec.load_line(line), CompactionEntry)
    ]
    older, newer = loaded

    assert (older.parts_before, older.parts_after) == ((), ())
    assert len(newer.parts_before) == len(newer.parts_after) == len(PARTS)
    assert sum(newer.parts_before) == newer.tokens_before
    assert sum(newer.parts_after) == newer.tokens_after
    stored = [json.loads(codec.dump_line(entry)) for entry in loaded]
    assert "parts_before" not in stored[0]
    assert stored[1]["parts_before"] == list(newer.parts_before)
    assert stored[1]["parts_after"] == list(newer.parts_after)
