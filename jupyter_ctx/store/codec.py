"""Entries of the transcript ↔ lines of JSON. The version is in every line, as `v`.

Rules:
* A line is the entry's fields in the order of its class, None and defaults left out, compact and in
  UTF-8; the same entry always gives the same bytes.
* Blocks are stored as they go on the wire, plus `part` where it is not the default and `px` of
  images. Blocks this version does not know are kept with their keys in order.
* A type that is not known, or a newer version, is read as UnknownEntry and written back as it was.

A stored form never changes its meaning: what must change gets a new version, and the old reader
stays. `tests/store/golden/` has a file for each version.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, cast

from ..core.blocks import (
    PARTS,
    Block,
    Image,
    Json,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    block_to_wire,
)
from ..core.entries import (
    AgentEntry,
    CacheMiss,
    CompactionEntry,
    CompactionFailedEntry,
    CountEntry,
    Edit,
    EditEntry,
    EditUndoneEntry,
    Entry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    OverflowEntry,
    PinEntry,
    PlanEntry,
    PrefixEntry,
    Reinjected,
    RepairEntry,
    RewindEntry,
    SessionEntry,
    SpentEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    UnknownEntry,
    UnpinEntry,
)
from ..core.plan import PlanItem
from ..core.usage import Usage
from ..errors import StoreError

VERSION = 1

TYPES: Mapping[str, type] = {
    "session": SessionEntry,
    "prefix": PrefixEntry,
    "model": ModelEntry,
    "message": MessageEntry,
    "fate": FateEntry,
    "compaction": CompactionEntry,
    "compaction_failed": CompactionFailedEntry,
    "spent": SpentEntry,
    "agent": AgentEntry,
    "overflow": OverflowEntry,
    "count": CountEntry,
    "edit": EditEntry,
    "edit_undone": EditUndoneEntry,
    "summary_edit": SummaryEditEntry,
    "summary_undo": SummaryUndoEntry,
    "rewind": RewindEntry,
    "pin": PinEntry,
    "unpin": UnpinEntry,
    "plan": PlanEntry,
    "exclude": ExcludeEntry,
    "repair": RepairEntry,
}
"""The name of every kind of entry in a line's `type`. UnknownEntry has none: it brings its own."""

_NAMES = {kind: name for name, kind in TYPES.items()}
_THINKING_TYPES = ("thinking", "redacted_thinking", "reasoning")
_OWN_TYPES = ("text", "image", "tool_use", "tool_result", *_THINKING_TYPES, "opaque")

Encode: TypeAlias = Callable[[Any], object]
Decode: TypeAlias = Callable[[object], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """How one field of an entry is stored. `default` is MISSING if the field must be there."""

    name: str
    default: object
    encode: Encode
    decode: Decode


def dump_line(entry: Entry) -> bytes:
    """Return the entry as one line, its newline included.

    Text that is no valid Unicode (a lone surrogate) is written escaped, so that the file stays
    UTF-8. Raises StoreError if the entry holds what JSON cannot say.
    """
    value = entry_to_json(entry)
    try:
        try:
            return _dumps(value, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:
            return _dumps(value, ensure_ascii=True).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"An entry cannot be stored as JSON: {error}.") from error


def load_line(line: bytes | str) -> Entry:
    """Return the entry of one line. Raises StoreError, without a place, if it is none."""
    try:
        value = json.loads(line if isinstance(line, str) else line.decode())
    except UnicodeDecodeError as error:
        raise StoreError("it is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise StoreError("it is no JSON") from error
    return entry_from_json(value)


def entry_to_json(entry: Entry) -> dict[str, object]:
    """Return the JSON object of an entry, its keys in their fixed order."""
    if isinstance(entry, UnknownEntry):
        return dict(entry.raw)
    kind: type = type(entry)
    stored: dict[str, object] = {"v": VERSION, "type": _NAMES[kind]}
    for spec in _fields(kind):
        value = getattr(entry, spec.name)
        if spec.default is dataclasses.MISSING or value != spec.default:
            stored[spec.name] = spec.encode(value)
    return stored


def entry_from_json(value: object) -> Entry:
    """Return the entry of a JSON object. Raises StoreError, without a place, if it is none.

    An object of an unknown type or of a newer version is an UnknownEntry.
    """
    if not isinstance(value, dict):
        raise StoreError("it is no JSON object")
    version, name = value.get("v"), value.get("type")
    if type(version) is not int or version < 1 or not isinstance(name, str):
        raise StoreError("it has no version or no type")
    kind = TYPES.get(name)
    if version > VERSION or kind is None:
        return UnknownEntry(value)
    found: dict[str, object] = {}
    for spec in _fields(kind):
        if spec.name in value:
            try:
                found[spec.name] = spec.decode(value[spec.name])
            except _BadValue as error:
                raise StoreError(f"its `{spec.name}` is wrong: {error}") from None
        elif spec.default is dataclasses.MISSING:
            raise StoreError(f"its `{spec.name}` is missing")
    return cast("Entry", kind(**found))


def message_to_json(message: Message) -> dict[str, object]:
    """Return a message as it is stored."""
    return {"role": message.role, "content": [block_to_json(block) for block in message.content]}


def block_to_json(block: Block) -> dict[str, object]:
    """Return a block as it is stored: its wire form, with `part` or `px` where they belong."""
    stored = block_to_wire(block)
    match block:
        case Text(part=part) if part != "conversation":
            stored["part"] = part
        case Image(width_px=width, height_px=height):
            stored["px"] = [width, height]
        case ToolResult(content=content):
            stored["content"] = [block_to_json(inner) for inner in content]
        case Opaque(wire=wire) if wire.get("type") in _OWN_TYPES or "type" not in wire:
            return {"type": "opaque", "wire": stored}
    return stored


def _dumps(value: object, *, ensure_ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, separators=(",", ":"))


# Reading: each reader returns its value or raises _BadValue with a phrase ----------------------


class _BadValue(Exception):
    """A stored value is not what its field holds."""


def _message(value: object) -> Message:
    stored = _object(value)
    role, content = stored.get("role"), stored.get("content")
    if role != "user" and role != "assistant":
        raise _BadValue("a message's role is user or assistant")
    if not isinstance(content, list) or not content:
        raise _BadValue("a message has content")
    return Message(role, tuple([_block(block) for block in content]))


def _block(value: object) -> Block:
    stored = _object(value)
    kind = stored.get("type")
    if kind == "text" or kind == "image":
        return _text_or_image(stored)
    if kind == "tool_use":
        return ToolUse(_str(stored, "id"), _str(stored, "name"), _object(stored.get("input")))
    if kind == "tool_result":
        content = stored.get("content")
        if not isinstance(content, list) or not content:
            raise _BadValue("a tool_result has content")
        inner = tuple([_text_or_image(_object(block)) for block in content])
        return ToolResult(_str(stored, "tool_use_id"), inner, stored.get("is_error") is True)
    if kind in _THINKING_TYPES:
        return Thinking(stored)
    return Opaque(_object(stored.get("wire")) if kind == "opaque" else stored)


def _text_or_image(stored: dict[str, object]) -> Text | Image:
    if stored.get("type") == "text":
        part = stored.get("part", "conversation")
        if part not in PARTS:
            raise _BadValue(f"there is no part {part!r}")
        return Text(_str(stored, "text"), part)
    if stored.get("type") != "image":
        raise _BadValue("a tool_result holds text and images")
    source, px = _object(stored.get("source")), stored.get("px")
    if not isinstance(px, list) or len(px) != 2 or not all(type(n) is int for n in px):
        raise _BadValue("an image has `px`, its width and height")
    return Image(_str(source, "media_type"), _str(source, "data"), px[0], px[1])


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _BadValue("an object is wanted")
    return value


def _str(stored: Json, key: str) -> str:
    value = stored.get(key)
    if not isinstance(value, str):
        raise _BadValue(f"`{key}` is a text")
    return value


# How a field is stored follows from its type ----------------------------------------------------


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        _Field(spec.name, spec.default, *_converters(hints[spec.name]))
        for spec in dataclasses.fields(kind)
    )


def _converters(hint: Any) -> tuple[Encode, Decode]:
    """Return how a value of type `hint` is written and read."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Message:
        return message_to_json, _message
    if hint in (Usage, Reinjected, CacheMiss, Edit, PlanItem):
        return _record(hint)
    if hint == Json:
        return dict, _object
    if origin is Literal:
        return _as_is, _one_of(args)
    if origin is tuple and args[1:] == (...,):
        return _tuple(*_converters(args[0]))
    if origin in (UnionType, typing.Union):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return _optional(*_converters(inner))
    return _as_is, _scalar(hint)


def _as_is(value: object) -> object:
    return value


def _scalar(kind: type) -> Decode:
    """Read a bool, int, float or str; a whole number will do for a float."""

    def decode(value: object) -> object:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int and abs(value) < 2**53:
            return float(value)
        raise _BadValue(f"it is no {kind.__name__}")

    return decode


def _one_of(choices: tuple[object, ...]) -> Decode:
    def decode(value: object) -> object:
        if value not in choices:
            raise _BadValue(f"there is no {value!r}")
        return value

    return decode


def _optional(encode: Encode, decode: Decode) -> tuple[Encode, Decode]:
    return (
        lambda value: None if value is None else encode(value),
        lambda value: None if value is None else decode(value),
    )


def _tuple(encode: Encode, decode: Decode) -> tuple[Encode, Decode]:
    def read(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise _BadValue("a list is wanted")
        return tuple([decode(item) for item in value])

    return (lambda values: [encode(value) for value in values]), read


def _record(kind: type) -> tuple[Encode, Decode]:
    """Write and read a small class of plain fields; None and defaults are left out."""

    def encode(value: Any) -> object:
        return {
            spec.name: spec.encode(getattr(value, spec.name))
            for spec in _fields(kind)
            if getattr(value, spec.name) != spec.default
        }

    def decode(value: object) -> object:
        stored = _object(value)
        for spec in _fields(kind):
            if spec.default is dataclasses.MISSING and spec.name not in stored:
                raise _BadValue(f"`{spec.name}` is missing")
        return kind(
            **{
                spec.name: spec.decode(stored[spec.name])
                for spec in _fields(kind)
                if spec.name in stored
            }
        )

    return encode, decode
