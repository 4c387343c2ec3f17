"""What to do next: one pure decision after every model call; how long to wait for a retry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..errors import (
    ModelError,
    PromptTooLongError,
    RateLimitedError,
    RequestTooLargeError,
    ThinkingRefusedError,
    UnreachableError,
)


@dataclass(frozen=True, slots=True)
class Replied:
    """A complete reply came."""

    stop_reason: str
    has_tool_use: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The call failed for good: its retries are used up, or it may not be retried."""

    error: ModelError


Outcome: TypeAlias = Replied | Failed


@dataclass(frozen=True, slots=True)
class TurnState:
    """What the turn has tried already. The counts of one cut answer start anew with the next step.

    `can_compact` is False when compaction is off, paused or would not help. `can_drain`: a prepared
    summary is there, or under way, that would make room.
    """

    compacted: bool = False
    can_compact: bool = True
    output_raised: bool = False
    can_raise_output: bool = True
    continuations: int = 0
    most_continuations: int = 3
    pauses: int = 0
    most_pauses: int = 5
    thinking_dropped: bool = False
    drained: bool = False
    can_drain: bool = False


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run the reply's tools and take another step."""


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is done."""

    stop_reason: str


@dataclass(frozen=True, slots=True)
class RaiseOutput:
    """Leave this reply out and ask again with the raised output limit."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Keep the text, ask to go on from the cut."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Send the same again with the reply appended (`pause_turn`)."""


@dataclass(frozen=True, slots=True)
class DropThinking:
    """Leave all earlier thinking out of the view, then send again."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Put the prepared summary in force, then send again."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact, then send again; keep the partial text first if `keep_partial`."""

    keep_partial: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """End the turn with the provider's words and leave the exchange out of the view."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the turn with the error."""

    error: ModelError


Action: TypeAlias = (
    RunTools
    | EndTurn
    | RaiseOutput
    | Continue
    | Resume
    | DropThinking
    | Drain
    | Compact
    | Refuse
    | Fail
)


def next_action(state: TurnState, outcome: Outcome) -> Action:
    """Decide the one next move. Pure and total: the loop performs it, this only names it."""
    may_compact = state.can_compact and not state.compacted
    match outcome:
        case Failed(error=PromptTooLongError()) if state.can_drain and not state.drained:
            return Drain()
        case Failed(error=PromptTooLongError() | RequestTooLargeError()) if may_compact:
            return Compact()
        case Failed(error=ThinkingRefusedError()) if not state.thinking_dropped:
            return DropThinking()
        case Failed(error=error):
            return Fail(error)
        case Replied(stop_reason="tool_use" | "end_turn", has_tool_use=True):
            return RunTools()  # some compatible servers end a step with calls by `end_turn`
        case Replied(stop_reason="max_tokens"):
            if not state.output_raised and state.can_raise_output:
                return RaiseOutput()
            if state.continuations < state.most_continuations:
                return Continue()
            return EndTurn("max_tokens")
        case Replied(stop_reason="model_context_window_exceeded"):
            return Compact(keep_partial=True) if may_compact else EndTurn(outcome.stop_reason)
        case Replied(stop_reason="pause_turn"):
            return Resume() if state.pauses < state.most_pauses else EndTurn("pause_turn")
        case Replied(stop_reason="refusal"):
            return Refuse()
        case _:
            return EndTurn(outcome.stop_reason)


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How long a busy or unreachable provider is tried; seconds and counts (DESIGN.md 5)."""

    tries: int = 8
    first_s: float = 0.5
    most_s: float = 30.0
    all_s: float = 300.0
    connect_tries: int = 3
    connect_all_s: float = 3.0


def next_wait(
    error: ModelError, failed: int, spent_s: float, limits: RetryLimits, jitter: float
) -> float | None:
    """Return the seconds to wait before trying again, None to give up.

    `failed` counts the failed tries so far, this one included; `spent_s` is the time since the
    first failure, tries included; `jitter` in 0…1 spreads the wait over its upper half. A
    `retry-after` is a floor, and one that does not fit in the time that is left ends it.
    """
    if not error.retryable:
        return None
    is_connection = isinstance(error, UnreachableError)
    tries = limits.connect_tries if is_connection else limits.tries
    all_s = limits.connect_all_s if is_connection else limits.all_s
    if failed >= tries:
        return None
    wait = min(limits.most_s, limits.first_s * 2 ** (failed - 1)) * (0.5 + jitter / 2)
    if isinstance(error, RateLimitedError) and error.retry_after_s is not None:
        wait = max(wait, error.retry_after_s)
    return wait if spent_s + wait <= all_s else None
