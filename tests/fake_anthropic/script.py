"""What the fake answers: replies made of blocks, and faults around them.

An answer is a `Reply`, a plain text, a `Call`, or a fault. A script is a sequence of answers (used
one for each accepted POST /v1/messages), whose items may also be functions of the request's JSON,
or one such function for the whole conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

RequestJson: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """A thinking block; left out when the request has thinking off.

    `redacted` makes it a `redacted_thinking` block.
    """

    text: str
    redacted: bool = False


@dataclass(frozen=True, init=False)
class Call:
    """A tool call: `Call("run_code", code="1+1")`.

    `_id` overrides the id, which otherwise follows from the conversation; `_raw` is sent in place
    of the input's JSON (broken or cut JSON).
    """

    name: str
    input: Mapping[str, object]
    id: str | None
    raw: str | None

    def __init__(
        self, name: str, /, _id: str | None = None, _raw: str | None = None, **input: object
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "input", input)
        object.__setattr__(self, "id", _id)
        object.__setattr__(self, "raw", _raw)


call = Call


@dataclass(frozen=True)
class Raw:
    """A block of any other type, sent as it is (`server_tool_use`, a type of the future)."""

    block: Mapping[str, object]


@dataclass(frozen=True)
class Hold:
    """A place where the stream stops until `server.release(name)`; sends nothing."""

    name: str


Part: TypeAlias = Text | Thinking | Call | Raw | Hold
NO_USAGE: Mapping[str, object] = {"": None}


@dataclass(frozen=True)
class Reply:
    """A message of the model.

    `stop_reason` None is `tool_use` if there is a call, else `end_turn`. `usage` replaces single
    figures of the computed usage; `NO_USAGE` leaves usage out. `chunk` is the number of characters
    in one delta.
    """

    parts: tuple[Part, ...]
    stop_reason: str | None = None
    usage: Mapping[str, object] | None = None
    chunk: int = 40
    stop_details: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Status:
    """An HTTP error in place of a reply."""

    status: int
    message: str
    type: str | None = None
    headers: Mapping[str, str] | None = None
    details: Mapping[str, object] | None = None


Breakage: TypeAlias = Literal["disconnect", "truncate", "corrupt", "error", "no_stop", "stall"]


@dataclass(frozen=True)
class Broken:
    """A reply whose stream goes wrong after `after` events (None: half of them).

    `disconnect`: the connection drops (`after` 0: before any header). `truncate`: it ends orderly,
    without `message_stop`. `corrupt`: a chunk is no JSON. `error`: an `error` event of type
    `detail`. `no_stop`: complete, but no stop reason was given. `stall`: nothing more comes until
    `server.release(detail)`.
    """

    how: Breakage
    reply: Reply
    after: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Foreign:
    """A response that is not the API's: a proxy's page, an empty body."""

    status: int
    content_type: str
    body: bytes


Answer: TypeAlias = Reply | Status | Broken | Foreign
Given: TypeAlias = Answer | str | Call | Callable[[RequestJson], Any]
Script: TypeAlias = Sequence[Given] | Callable[[RequestJson], Any]


def reply(
    *parts: str | Part,
    thinking: str | None = None,
    tools: Sequence[tuple[str, Mapping[str, Any]] | Call] = (),
    stop_reason: str | None = None,
    usage: Mapping[str, object] | None = None,
    chunk: int = 40,
) -> Reply:
    """Return a reply: the thinking first, then the parts in order, then the tools."""
    made: list[Part] = [Thinking(thinking)] if thinking is not None else []
    made += [Text(part) if isinstance(part, str) else part for part in parts]
    made += [tool if isinstance(tool, Call) else Call(tool[0], **tool[1]) for tool in tools]
    return Reply(tuple(made), stop_reason, usage, chunk)


def as_answer(given: Any) -> Answer:
    """Return what was given as an answer. Raises TypeError."""
    if isinstance(given, Reply | Status | Broken | Foreign):
        return given
    if isinstance(given, str | Call | Text | Thinking):
        return reply(given)
    raise TypeError(f"not an answer: {given!r}")


# Stops ----------------------------------------------------------------------------------------


def max_tokens(*partial: str | Part) -> Reply:
    """Return a reply cut by the output limit; cut a call with `Call("run_code", _raw='{"co')`."""
    return reply(*partial, stop_reason="max_tokens")


def window_exceeded(*partial: str | Part) -> Reply:
    """Return a reply cut by the end of the context window."""
    return reply(*partial, stop_reason="model_context_window_exceeded")


def refuse(explanation: str = "This request was declined.", *partial: str | Part) -> Reply:
    """Return a refusal with the provider's words."""
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return replace(reply(*partial, stop_reason="refusal"), stop_details=details)


def pause(*partial: str | Part) -> Reply:
    """Return a paused turn; it goes on when its content is sent back as the last message."""
    return reply(*(partial or ("Working on it.",)), stop_reason="pause_turn")


# Faults ---------------------------------------------------------------------------------------


def status(
    code: int,
    message: str = "",
    *,
    retry_after: float | None = None,
    type: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Status:
    """Return an HTTP error: 429, 500, 529 and the like."""
    words = {429: "Rate limited", 500: "Internal server error", 529: "Overloaded"}
    every = dict(headers or {})
    if retry_after is not None:
        every["retry-after"] = f"{retry_after:g}"
    return Status(code, message or words.get(code, f"Error {code}"), type, every)


def too_long(actual_tokens: int, limit_tokens: int) -> Status:
    """Return the 400 of a prompt over the window."""
    return Status(400, f"prompt is too long: {actual_tokens} tokens > {limit_tokens} maximum")


def too_large() -> Status:
    """Return the 413 of a body over 32 MB."""
    return Status(413, "Request exceeds the maximum size")


_BROKEN_REPLY = "This reply will not arrive whole, whatever the reader does about it."


def _broken(
    how: Breakage, inner: Reply | str | None, after: int | None, detail: str = ""
) -> Broken:
    made = reply(inner or _BROKEN_REPLY) if not isinstance(inner, Reply) else inner
    return Broken(how, made, after, detail)


def disconnect(after_events: int | None = 0, answer: Reply | str | None = None) -> Broken:
    """Drop the connection after so many events; 0: before the response begins."""
    return _broken("disconnect", answer, after_events)


def truncate(answer: Reply | str | None = None, *, after_events: int | None = None) -> Broken:
    """End the stream orderly, without `message_stop`."""
    return _broken("truncate", answer, after_events)


def corrupt(answer: Reply | str | None = None, *, after_events: int | None = None) -> Broken:
    """Send a chunk that is not JSON."""
    return _broken("corrupt", answer, after_events)


def stall(
    hold: str, answer: Reply | str | None = None, *, after_events: int | None = None
) -> Broken:
    """Send nothing more until `server.release(hold)`; then the rest comes."""
    return _broken("stall", answer, after_events, hold)


def error_event(
    type: str = "overloaded_error",
    *,
    after: int | None = None,
    answer: Reply | str | None = None,
) -> Broken:
    """Send an error event in the stream, after status 200."""
    return _broken("error", answer, after, type)


def no_stop_reason(answer: Reply | str | None = None) -> Broken:
    """Send a whole stream whose `message_delta` has no stop reason."""
    return _broken("no_stop", answer, None)


def foreign(
    body: str = "<html><body>502 Bad Gateway</body></html>",
    *,
    code: int = 502,
    content_type: str = "text/html",
) -> Foreign:
    """Return a response that is not the API's own."""
    return Foreign(code, content_type, body.encode())
