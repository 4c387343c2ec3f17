"""A strict fake of the Messages API, for tests.

It refuses what the real one refuses, models the prompt cache, records every request as bytes, and
answers from a script:

    with FakeAnthropic([call("run_code", code="1+1"), "It is 2."]) as server:
        ...  # ANTHROPIC_BASE_URL=server.url
        assert not server.refused and not server.unused

Answers are texts, `Call`s, `reply(...)`s and faults (`status(429, retry_after=7)`, `truncate()`
and more), or functions of the request's JSON. `Hold("name")` inside a reply stops the stream until
`server.release("name")`; `server.wait_held("name")` waits until it stands there, so no test sleeps.
`checks` holds what many tests assert of the requests. `python -m tests.fake_anthropic` serves by
hand.
"""

from .fake import FakeAnthropic
from .models import DEFAULT_MODELS, FakeModel
from .record import ManualClock, Recorded, last_text
from .script import (
    NO_USAGE,
    Call,
    Hold,
    Raw,
    Reply,
    Text,
    Thinking,
    call,
    corrupt,
    disconnect,
    error_event,
    foreign,
    max_tokens,
    no_stop_reason,
    pause,
    refuse,
    reply,
    stall,
    status,
    too_large,
    too_long,
    truncate,
    window_exceeded,
)

__all__ = [
    "DEFAULT_MODELS",
    "NO_USAGE",
    "Call",
    "FakeAnthropic",
    "FakeModel",
    "Hold",
    "ManualClock",
    "Raw",
    "Recorded",
    "Reply",
    "Text",
    "Thinking",
    "call",
    "corrupt",
    "disconnect",
    "error_event",
    "foreign",
    "last_text",
    "max_tokens",
    "no_stop_reason",
    "pause",
    "refuse",
    "reply",
    "stall",
    "status",
    "too_large",
    "too_long",
    "truncate",
    "window_exceeded",
]
