"""The chunks of one streamed Chat Completion, folded into deltas. No I/O, and no SDK types.

Chunks are read as plain JSON, so that what only the model's own server understands (reasoning,
signatures) goes back as it came. A reply is complete once a choice has said why it ended; usage
may follow it, or never come.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from ..core.blocks import Block, Json, Text, ToolUse
from ..core.ports import BlockDone, Delta, ReplyDone, TextPart, ThinkingPart, ToolPart
from ..core.usage import Usage
from ..errors import StreamBrokenError
from .openai_wire import reasoning
from .wiretext import as_count, as_object, as_text, mend, parse_input, split_half

STOP_REASONS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "model_context_window_exceeded",  # Mistral
    "content_filter": "refusal",
    "safety": "refusal",  # Gemini, behind gateways that leave its own words
    "recitation": "refusal",
    "prohibited_content": "refusal",
    "sensitive": "refusal",  # GLM
}
FAILED_REASONS: Final[Mapping[str, str]] = {
    "error": "the provider ended it with an error",
    "abort": "the provider gave it up",
    "insufficient_system_resource": "the provider had no room to finish it",  # DeepSeek
    "network_error": "the provider ended it with an error",  # GLM
    "malformed_function_call": "its tool call was malformed",  # Gemini
}
"""Ends that end nothing: the same request may well be answered."""
CUT_REASONS: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
REASONING_TEXTS: Final = ("reasoning_content", "reasoning")
"""Fields in which servers stream what the model thinks; they go back under the same name."""
REASONING_LISTS: Final = ("reasoning_details",)
"""The same in pieces of a list, each of which is kept as it came."""
NEAR_WINDOW: Final = 0.95
"""An answer that ends so near the window's end, short of its limit, was ended by the window."""
NO_NAMES: Final[Mapping[str, str]] = {}


class SseLines:
    """Splits a body into events' data, whatever the pieces it comes in.

    Only line feeds end a line: JSON may hold the other characters that Python splits at. A body
    that is no stream (an answer in JSON, a web page) is one event, the whole of it.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[str] = []
        self._is_stream: bool | None = None

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the data of each event that is complete; raises UnicodeDecodeError."""
        self._rest.append(piece)
        if b"\n" not in piece:
            return  # a line may have thousands of pieces: they are joined once
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        for raw in lines:
            yield from self._take(raw.rstrip(b"\r").decode())

    def finish(self) -> Iterator[str]:
        """Yield what the body's end completes."""
        rest, self._rest = b"".join(self._rest), []
        yield from self._take(rest.rstrip(b"\r").decode())
        if self._is_stream is False:
            yield "\n".join(self._data).strip()
        else:
            yield from self._take("")

    def _take(self, line: str) -> Iterator[str]:
        if self._is_stream is None:
            line = line.removeprefix("\ufeff")
            if line.strip():
                self._is_stream = line.lstrip()[0] not in "{[<"
        if self._is_stream is False:
            self._data.append(line)
            return
        name, _, value = line.partition(":")
        if name in ("data", "error") and value.strip():  # llama.cpp writes errors as `error: {…}`
            text = value.removeprefix(" ")
            self._data.append(text if name == "data" else f'{{"error":{text}}}')
        elif not line and self._data:
            data, self._data = "\n".join(self._data), []
            yield data


@dataclass(slots=True)
class _OpenCall:
    """A tool call being written."""

    id: str
    told_id: str = ""
    name: str = ""
    sent_name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)
    is_shown: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        """Say whether the arguments are complete: no piece of the same call can follow."""
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}") and _is_object(self.arguments)


class ReplyReader:
    """Reads one reply, chunk by chunk.

    `where` names the provider in error texts, `model` the model at the server. `max_tokens` is the
    output limit that was asked for and `window_tokens` the window, None if not known: by both an
    answer that the window cut is told from one that its limit cut. `own_names` are those of tools
    that were sent under others. `feed` raises StreamBrokenError on chunks that make no reply; an
    `error` chunk is the caller's.
    """

    def __init__(
        self,
        where: str,
        model: str,
        max_tokens: int,
        window_tokens: int | None = None,
        own_names: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self._where = where
        self._model = model
        self._max_tokens = max_tokens
        self._window = window_tokens
        self._own_names = own_names
        self._texts: dict[str, list[str]] = {}
        self._carry: dict[str, str] = {}
        self._lists: dict[str, list[object]] = {}
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._by_id: dict[str, _OpenCall] = {}
        self._usage = Usage()
        self._reason: str | None = None
        self._id: str | None = None

    @property
    def is_ended(self) -> bool:
        """Say whether the reply is complete; usage may still follow."""
        return self._reason is not None

    def feed(self, chunk: Json) -> list[Delta]:
        """Take one chunk and return what can be shown of it, in order."""
        self._id = self._id or as_text(chunk.get("id")) or None
        self._usage = _larger(self._usage, read_usage(_find_usage(chunk)))
        choices = chunk.get("choices")
        shown: list[Delta] = []
        for choice in map(as_object, choices if isinstance(choices, list) else ()):
            if choice.get("index") in (None, 0):  # one answer was asked for
                shown += self._take(self._find_delta(choice))
                self._reason = as_text(choice.get("finish_reason")) or self._reason
        return shown

    def finish(self) -> list[Delta]:
        """Return the blocks and ReplyDone, once no chunk follows.

        Raises StreamBrokenError unless the reply is complete.
        """
        if self._reason is None:
            self._break("it ended before the message did")
        if why := FAILED_REASONS.get(self._reason.lower().rpartition(" ")[2]):
            self._break(why)
        rest = [part for name in list(self._carry) for part in self._flush(name)]
        refused = self._text("refusal")
        stop = "refusal" if refused else self._stop_reason()
        blocks = list(self._blocks(is_cut=stop in CUT_REASONS))
        done = ReplyDone(stop, self._usage, self._id, refused or None)
        return [*rest, *map(BlockDone, blocks), done]

    # Pieces

    def _find_delta(self, choice: Json) -> Json:
        """Return what a choice adds; a whole message only where nothing came before it."""
        if isinstance(delta := choice.get("delta"), Mapping):
            return delta
        return {} if self._texts or self._calls else as_object(choice.get("message"))

    def _take(self, delta: Json) -> list[Delta]:
        shown: list[Delta] = []
        for name in (*REASONING_TEXTS, "content", "refusal"):
            shown += self._add(name, _as_words(delta.get(name)))
        for name in REASONING_LISTS:
            pieces = delta.get(name)
            if isinstance(pieces, list):
                self._lists.setdefault(name, []).extend(pieces)
        calls = delta.get("tool_calls")
        for call in map(as_object, calls if isinstance(calls, list) else ()):
            shown += self._take_call(call)
        return shown

    def _add(self, name: str, piece: str) -> list[Delta]:
        if not piece:
            return []
        whole, self._carry[name] = split_half(self._carry.get(name, "") + piece)
        return self._keep(name, whole)

    def _flush(self, name: str) -> list[Delta]:
        """Keep what was held back: half of a character that never got its other half."""
        return self._keep(name, mend(self._carry.pop(name)))

    def _keep(self, name: str, piece: str) -> list[Delta]:
        if not piece:
            return []
        self._texts.setdefault(name, []).append(piece)
        if name in REASONING_TEXTS:
            is_first = next(key for key in REASONING_TEXTS if key in self._texts) == name
            return [ThinkingPart(piece)] if is_first else []  # some send it under both names
        return [TextPart(piece)] if name == "content" else []

    def _text(self, name: str) -> str:
        return "".join(self._texts.get(name, ()))

    # Calls

    def _take_call(self, delta: Json) -> list[Delta]:
        function = as_object(delta.get("function"))
        id_, name = _as_words(delta.get("id")), _as_words(function.get("name"))
        arguments = _as_arguments(function.get("arguments"))
        call = self._find_call(delta.get("index"), id_, name)
        if call is not None and _is_other(call, id_, name, arguments):
            call = None
        if call is None:
            call = self._open_call(delta.get("index"), id_)
        elif call.told_id == id_ != "" and arguments and call.arguments == arguments and name:
            return []  # the whole call once more, as some servers close a stream
        if id_ and not call.told_id:
            call.told_id = id_
            self._by_id[id_] = call
        call.sent_name = call.sent_name or name
        call.name = self._own_names.get(call.sent_name, call.sent_name)
        call.pieces.append(arguments)
        known = ("index", "id", "type", "function")
        told = {key: value for key, value in delta.items() if key not in known}
        call.extra.update({key: value for key, value in told.items() if value is not None})
        if call.name and not call.is_shown:
            call.is_shown = True
            return [ToolPart(call.id, call.name)]
        return []

    def _find_call(self, index: object, id_: str, name: str) -> _OpenCall | None:
        """Return the call that a piece may go on with, None if it can only begin one.

        Servers differ: some give each whole call the same index, some no index, some no id.
        """
        last = self._calls[-1] if self._calls else None
        if not isinstance(index, int):
            return self._by_id.get(id_) if id_ else last
        call = self._by_index.get(index)
        if call is None:
            return None if id_ or name else last
        is_same = not id_ or not call.told_id or call.told_id == id_
        return call if is_same else self._by_id.get(id_)

    def _open_call(self, index: object, id_: str) -> _OpenCall:
        call = _OpenCall(id_ or f"call_{uuid.uuid4().hex[:24]}", id_)
        if isinstance(index, int):
            self._by_index[index] = call
        if id_:
            self._by_id[id_] = call
        self._calls.append(call)
        return call

    # The whole

    def _stop_reason(self) -> str:
        reason = self._reason or ""
        stop = STOP_REASONS.get(reason.lower(), reason)
        written, whole = self._usage.output, self._usage.used_tokens
        if stop != "max_tokens" or written is None or whole is None or self._window is None:
            return stop
        if written < self._max_tokens and whole >= NEAR_WINDOW * self._window:
            return "model_context_window_exceeded"
        return stop

    def _blocks(self, *, is_cut: bool) -> Iterator[Block]:
        fields: dict[str, object] = {
            name: self._text(name) for name in REASONING_TEXTS if name in self._texts
        }
        fields.update(self._lists)
        if fields:
            shown = next((self._text(n) for n in REASONING_TEXTS if n in self._texts), "")
            yield reasoning(self._model, mend(fields), shown)
        if self._text("content").strip():
            yield Text(self._text("content"))
        for call in self._calls:
            if not (call.name or call.arguments.strip() or call.extra):
                continue  # an empty one, as some servers send beside a text
            try:
                input_ = parse_input(call.arguments) if call.arguments.strip() else {}
            except ValueError:
                if is_cut:
                    return
                self._break("the input of a tool call is no JSON object")
            if not call.name:
                self._break("a tool call has no name")
            if is_cut and not input_:
                return  # it looks the same when it was cut before its first argument
            if call.extra:
                yield reasoning(self._model, {"tool_call": mend(call.extra)})
            yield ToolUse(call.id, call.name, mend(input_))

    def _break(self, why: str) -> NoReturn:
        raise StreamBrokenError(
            f"The answer from {self._where} cannot be used: {why}; send the prompt again."
        )


# Usage -----------------------------------------------------------------------------------------


def read_usage(told: Json) -> Usage:
    """Return usage figures in our own terms; what a server does not say is None, not zero.

    Cached tokens are part of `prompt_tokens` here. Some servers leave reasoning out of
    `completion_tokens` and count it in `total_tokens` only.
    """
    prompt, written = as_count(told.get("prompt_tokens")), as_count(told.get("completion_tokens"))
    details = as_object(told.get("prompt_tokens_details"))
    read = _first_count(
        details.get("cached_tokens"), told.get("prompt_cache_hit_tokens"), told.get("cached_tokens")
    )
    write = as_count(details.get("cache_write_tokens"))
    total = as_count(told.get("total_tokens"))
    if total is not None and prompt is not None and written is not None:
        written = max(written, total - prompt)
    if prompt is None:
        return Usage(output=written)
    read = None if read is None else min(read, prompt)
    write = None if write is None else min(write, prompt - (read or 0))
    return Usage(prompt - (read or 0) - (write or 0), read, write, written)


def _find_usage(chunk: Json) -> Json:
    """Return a chunk's usage; Groq puts it under a name of its own."""
    return as_object(chunk.get("usage")) or as_object(as_object(chunk.get("x_groq")).get("usage"))


def _larger(old: Usage, new: Usage) -> Usage:
    """Return the later figures; some servers send running totals with each chunk."""
    if new == Usage():
        return old
    return new if (new.used_tokens or 0) >= (old.used_tokens or 0) else old


def _first_count(*values: object) -> int | None:
    return next((found for value in values if (found := as_count(value)) is not None), None)


# JSON ------------------------------------------------------------------------------------------


def _as_words(value: object) -> str:
    """Return a text; of a list of parts, as some servers stream content, their texts."""
    if isinstance(value, list):
        return "".join(_as_words(as_object(part).get("text")) for part in value)
    return value if isinstance(value, str) else ""


def _as_arguments(value: object) -> str:
    """Return arguments as JSON text; some servers send the object itself."""
    return json.dumps(value) if isinstance(value, Mapping) else _as_words(value)


def _is_other(call: _OpenCall, id_: str, name: str, arguments: str) -> bool:
    """Say whether a piece begins a call of its own where `call` would be gone on with."""
    if not name or not call.sent_name:
        return False
    if name != call.sent_name:
        return True
    begins = arguments.lstrip().startswith("{")
    is_repeated = id_ != "" and id_ == call.told_id and arguments == call.arguments
    return begins and not is_repeated and call.is_whole


def find_error(chunk: Json) -> Json | None:
    """Return a chunk's error in the form of an error's body, None if it has none.

    It stands under `error`, in the chunk itself (vLLM's older form), or in a choice (OpenRouter's).
    """
    if chunk.get("error"):
        return chunk
    if chunk.get("object") == "error":
        return {"error": chunk}
    choices = chunk.get("choices")
    for choice in map(as_object, choices if isinstance(choices, list) else ()):
        if choice.get("error"):
            return {"error": choice["error"]}
    return None


def _is_object(text: str) -> bool:
    try:
        parse_input(text)
    except ValueError:
        return False
    return True
