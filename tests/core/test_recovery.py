"""The one decision after every model call, row by row, and the waits between tries."""

import pytest

from jupyter_ctx.core import recovery
from jupyter_ctx.core.recovery import (
    Compact,
    Continue,
    Drain,
    DropThinking,
    EndTurn,
    Fail,
    Failed,
    RaiseOutput,
    Refuse,
    Replied,
    Resume,
    RetryLimits,
    RunTools,
    TurnState,
    next_action,
    next_wait,
)
from jupyter_ctx.errors import (
    AuthError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    RequestTooLargeError,
    StreamBrokenError,
    ThinkingRefusedError,
    UnreachableError,
)

TOO_LONG = PromptTooLongError(actual_tokens=210_000, limit_tokens=200_000)
THINKING = ThinkingRefusedError("bound to another conversation", status=400)
REFUSED = AuthError("The key was refused.", status=401)


@pytest.mark.parametrize(
    ("state", "outcome", "action"),
    [
        (TurnState(), Replied("end_turn", False), EndTurn("end_turn")),
        (TurnState(), Replied("tool_use", True), RunTools()),
        (TurnState(), Replied("end_turn", True), RunTools()),
        (TurnState(), Replied("tool_use", False), EndTurn("tool_use")),
        (TurnState(), Replied("max_tokens", True), RaiseOutput()),
        (TurnState(output_raised=True), Replied("max_tokens", True), Continue()),
        (TurnState(can_raise_output=False), Replied("max_tokens", False), Continue()),
        (
            TurnState(output_raised=True, continuations=3),
            Replied("max_tokens", False),
            EndTurn("max_tokens"),
        ),
        (TurnState(), Replied("pause_turn", False), Resume()),
        (TurnState(pauses=5), Replied("pause_turn", False), EndTurn("pause_turn")),
        (TurnState(), Replied("refusal", False), Refuse()),
        (
            TurnState(),
            Replied("model_context_window_exceeded", False),
            Compact(keep_partial=True),
        ),
        (
            TurnState(compacted=True),
            Replied("model_context_window_exceeded", False),
            EndTurn("model_context_window_exceeded"),
        ),
        (TurnState(), Failed(TOO_LONG), Compact()),
        (TurnState(can_drain=True), Failed(TOO_LONG), Drain()),
        (TurnState(can_drain=True, drained=True), Failed(TOO_LONG), Compact()),
        (TurnState(can_drain=True, can_compact=False), Failed(TOO_LONG), Drain()),
        (TurnState(compacted=True), Failed(TOO_LONG), Fail(TOO_LONG)),
        (TurnState(can_compact=False), Failed(TOO_LONG), Fail(TOO_LONG)),
        (TurnState(), Failed(REFUSED), Fail(REFUSED)),
        (TurnState(), Failed(THINKING), DropThinking()),
        (TurnState(thinking_dropped=True), Failed(THINKING), Fail(THINKING)),
    ],
)
def test_next_action(state, outcome, action):
    """Each outcome has one next move, which depends only on what was tried already."""
    assert next_action(state, outcome) == action


def test_413_compacts_once():
    """A request of too many bytes is met like one of too many tokens: one compaction."""
    error = RequestTooLargeError("too large", status=413)

    assert next_action(TurnState(), Failed(error)) == Compact()
    assert next_action(TurnState(compacted=True), Failed(error)) == Fail(error)


def test_waits_double_up_to_the_limit():
    """Waits double from 0.5 s to 30 s, spread over their upper half."""
    error = OverloadedError("busy", status=529)
    longest = [next_wait(error, n, 0, RetryLimits(), 1.0) for n in range(1, 8)]
    shortest = [next_wait(error, n, 0, RetryLimits(), 0.0) for n in range(1, 8)]

    assert longest == [0.5, 1, 2, 4, 8, 16, 30]
    assert shortest == [0.25, 0.5, 1, 2, 4, 8, 15]


def test_tries_and_time_end():
    """The eighth failure, or more than five minutes of waiting in all, ends it."""
    error = OverloadedError("busy", status=529)

    assert next_wait(error, 8, 0, RetryLimits(), 0.5) is None
    assert next_wait(error, 7, 290, RetryLimits(), 1.0) is None


def test_retry_after_is_a_floor():
    """`retry-after` is waited in full, and gives up at once where it does not fit."""
    assert next_wait(RateLimitedError("slow", retry_after_s=7), 1, 0, RetryLimits(), 0.0) == 7
    assert next_wait(RateLimitedError("slow", retry_after_s=400), 1, 0, RetryLimits(), 0) is None


def test_a_refused_connection_is_tried_three_times():
    """No connection: three tries in three seconds."""
    error = UnreachableError("no connection", url="http://127.0.0.1:1")

    assert next_wait(error, 2, 0.5, RetryLimits(), 1.0) == 1
    assert next_wait(error, 3, 1.5, RetryLimits(), 1.0) is None


def test_what_may_not_be_retried():
    """A refused key is not tried again; a broken stream is."""
    assert next_wait(REFUSED, 1, 0, RetryLimits(), 0.5) is None
    assert next_wait(StreamBrokenError("cut"), 1, 0, RetryLimits(), 0.5) is not None


def test_the_union_is_complete():
    """Every class of the module that is an action is part of `Action`."""
    actions = {RunTools, EndTurn, RaiseOutput, Continue, Resume, Compact, Refuse, Fail}
    actions |= {Drain, DropThinking}

    assert set(recovery.Action.__args__) == actions
