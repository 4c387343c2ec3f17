"""What pages ask: calls in parts, checked, put together, and handed on once.

Heard on the control channel's thread, which only checks and queues here.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = 1
MAX_PART_CHARS = 64 * 1024
"""Longest text of one part, in characters and in bytes."""
MAX_PARTS = 1_024
MAX_CALL_CHARS = 8_000_000
"""Longest call, in characters: an image of 5 MB as base64 and its prompt."""
MAX_BEGUN = 64
"""So many calls may have come in part; the oldest is forgotten then."""
MAX_BEGUN_CHARS = 2 * MAX_CALL_CHARS
"""So long they may be together, likewise."""
MAX_ID_CHARS = 128
REMEMBERED = 4_096
"""So many ids of calls are remembered, so that one is handled once."""
MAX_ANSWER_CHARS = 4_000_000
"""Longest answer. What can be shortened is kept far shorter, but a question is shown whole."""
ANSWER_PART_CHARS = 20_000


class RefusedError(Exception):
    """A call is not carried out. `kind` says why in a word."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Call:
    """A whole call of page `client`, heard on comm `comm_id`; `text` is its JSON."""

    id: str
    client: str
    comm_id: str
    text: str

    def read(self) -> tuple[str, Mapping[str, Any]]:
        """Return operation and arguments. Raises RefusedError if the text is no call."""
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            raise RefusedError("bad", "The call is no JSON.") from None
        match found:
            case {"op": str(op), "args": dict(args)}:
                return op, args
        raise RefusedError("bad", "A call has an operation and its arguments.")


@dataclass(slots=True)
class _Begun:
    parts: int
    texts: dict[int, str] = field(default_factory=dict)
    chars: int = 0


class Calls:
    """Takes pages' messages; `take` gets each whole call once, `refuse` what cannot be one.

    Both are called on the thread that heard, and must return at once.
    """

    def __init__(
        self, take: Callable[[Call], None], refuse: Callable[[Call, RefusedError], None]
    ) -> None:
        self._take = take
        self._refuse = refuse
        self._lock = threading.Lock()
        self._begun: OrderedDict[tuple[str, str], _Begun] = OrderedDict()
        self._done: OrderedDict[tuple[str, str], None] = OrderedDict()

    def hear(self, comm_id: str, data: object) -> bool:
        """Take a message; return whether it is (a part of) a call, refused ones included."""
        if not isinstance(data, Mapping) or data.get("type") != "call":
            return False
        call_id, client = data.get("id"), data.get("client")
        if not _is_id(call_id) or not _is_id(client):
            return False
        call = Call(str(call_id), str(client), comm_id, "")
        try:
            text = self._add((call.client, call.id), data)
        except RefusedError as error:
            self._refuse(call, error)
            return True
        if text is not None:
            self._take(Call(call.id, call.client, comm_id, text))
        return True

    def _add(self, key: tuple[str, str], data: Mapping[object, object]) -> str | None:
        """Add a part; return the whole text with the last. Raises RefusedError, once for a call."""
        with self._lock:
            if key in self._done:
                return None
            try:
                part, parts, text = _read_part(data)
                begun = self._begun.setdefault(key, _Begun(parts))
                if begun.parts != parts or begun.texts.get(part, text) != text:
                    raise RefusedError("bad", "The parts of the call do not fit together.")
                begun.chars += 0 if part in begun.texts else len(text)
                begun.texts[part] = text
                if begun.chars > MAX_CALL_CHARS:
                    raise RefusedError("bad", f"A call has at most {MAX_CALL_CHARS:,} characters.")
            except RefusedError:
                self._end(key)
                raise
            if len(begun.texts) == parts:
                self._end(key)
                return "".join(begun.texts[n] for n in range(1, parts + 1))
            self._make_room()
            return None

    def _make_room(self) -> None:
        """Forget the oldest of what has begun, as far as that is too much."""
        chars = sum(one.chars for one in self._begun.values())
        while len(self._begun) > MAX_BEGUN or chars > MAX_BEGUN_CHARS:
            _, oldest = self._begun.popitem(last=False)
            chars -= oldest.chars

    def _end(self, key: tuple[str, str]) -> None:
        self._begun.pop(key, None)
        self._done[key] = None
        while len(self._done) > REMEMBERED:
            self._done.popitem(last=False)


def _read_part(data: Mapping[object, object]) -> tuple[int, int, str]:
    """Return number, count and text of a part. Raises RefusedError."""
    part, parts, text = data.get("part"), data.get("parts"), data.get("text")
    if data.get("version") != VERSION or type(data.get("version")) is not int:
        raise RefusedError("version", "The kernel speaks version 1; reload the page.")
    if type(part) is not int or type(parts) is not int or not 1 <= part <= parts <= MAX_PARTS:
        raise RefusedError("bad", "The call's parts are not numbered from 1.")
    if not isinstance(text, str) or len(text) > MAX_PART_CHARS:
        raise RefusedError("bad", "A part of the call is no text, or too long.")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PART_CHARS:
        raise RefusedError("bad", "A part of the call is too long.")
    return part, parts, text


def _is_id(value: object) -> bool:
    """Whether it names a call or a page: plain characters, so that an answer can name it too."""
    is_plain = isinstance(value, str) and value.isascii() and value.isprintable()
    return is_plain and 0 < len(str(value)) <= MAX_ID_CHARS


# Answers ----------------------------------------------------------------------------------------


def answer_to(call: Call, result: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yield the messages of the answer to a call, in parts."""
    from .wire import valid  # with it comes what a kernel without a panel does not need

    text = json.dumps({"ok": True, "result": valid(result)}, ensure_ascii=False)
    if len(text) > MAX_ANSWER_CHARS:
        yield from refusal_of(call, RefusedError("large", "The answer is too long."))
        return
    yield from _parts(call, text)


def refusal_of(call: Call, error: RefusedError) -> Iterator[dict[str, object]]:
    """Yield the messages that tell why a call is not carried out."""
    from .wire import valid

    told = {"kind": error.kind, "message": str(error)}
    yield from _parts(call, json.dumps({"ok": False, "error": valid(told)}, ensure_ascii=False))


def _parts(call: Call, text: str) -> Iterator[dict[str, object]]:
    pieces = range(0, len(text), ANSWER_PART_CHARS)
    for n, at in enumerate(pieces, start=1):
        yield {
            "version": VERSION,
            "type": "answer",
            "id": call.id,
            "to": call.client,
            "part": n,
            "parts": len(pieces),
            "text": text[at : at + ANSWER_PART_CHARS],
        }
