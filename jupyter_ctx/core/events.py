"""What happens in a turn, told as it happens. The only way out of the loop.

Order within a turn: TurnStarted, then for each step StepStarted, deltas, StepFinished,
(ToolStarted, ToolProgress*, ToolFinished, PlanChanged?, MemoryChanged?)*, ResultOffloaded*; those
of calls of `task` side by side. Compactions stand between steps; TurnFinished comes last, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .blocks import Json
from .entries import Trigger
from .plan import PlanAuthor, PlanItem
from .usage import Usage

Level: TypeAlias = Literal["info", "warning", "error"]
TurnOutcome: TypeAlias = Literal["done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn begins; its prompt is stored next. `turn` counts from 1, here and below."""

    turn: int
    prompt: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A model call is about to be sent."""

    turn: int
    step: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more of the answer. `block` numbers the text blocks of the turn from 1."""

    turn: int
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class TextFinished:
    """Text block `block` is complete: `text` is the whole of it."""

    turn: int
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Some more of the thinking's summary."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class StepDiscarded:
    """What was shown of the running step is void: its stream broke and it starts again."""

    turn: int
    step: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool runs now (its permission is settled)."""

    turn: int
    step: int
    tool_use_id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A tool that runs has come further; `text` says where it is ("step 3: run_code")."""

    turn: int
    step: int
    tool_use_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool is done (or was denied: then no ToolStarted came before).

    `text` is the first 2,000 characters of its text form; `chars` and `lines` are of the whole.
    `seconds` is how long it ran, without the time it waited for its permission. `interrupted`: the
    user stopped it. `images` is how many pictures it returned.
    """

    turn: int
    step: int
    tool_use_id: str
    name: str
    text: str
    is_error: bool
    denied: bool
    chars: int
    lines: int
    seconds: float
    interrupted: bool = False
    images: int = 0


@dataclass(frozen=True, slots=True)
class ResultOffloaded:
    """A large result went to the store: the model sees `shown_chars` of its `chars`.

    `path` is where its text lies, None if it could only be kept in memory.
    """

    turn: int
    tool_use_id: str
    name: str
    path: str | None
    chars: int
    lines: int
    shown_chars: int


@dataclass(frozen=True, slots=True)
class StepFinished:
    """The reply of a step is stored."""

    turn: int
    step: int
    stop_reason: str
    usage: Usage
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class ContextChanged:
    """The window's filling moved; ask the session for its context."""

    turn: int


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The provider could not answer; try `attempt` of `attempts` follows in `wait_s` seconds."""

    turn: int
    step: int
    attempt: int
    attempts: int
    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A summary is asked for."""

    turn: int
    n: int
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class CompactionFinished:
    """The compaction is stored and in force."""

    turn: int
    n: int
    trigger: Trigger
    tokens_before: int
    tokens_after: int
    seconds: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """No compaction came of it; the transcript is unchanged. `paused`: no more automatic tries."""

    turn: int
    reason: str
    failures: int
    paused: bool


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The plan is `items` now; it was changed `by` the agent or the user."""

    turn: int
    items: tuple[PlanItem, ...]
    by: PlanAuthor


@dataclass(frozen=True, slots=True)
class MemoryChanged:
    """Facts that the user stated are kept for later sessions, a sentence each.

    `is_undone`: they were taken out again.
    """

    turn: int
    facts: tuple[str, ...]
    is_undone: bool = False


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """Something the user should know; `title` states the fact, `detail` what follows from it."""

    turn: int
    level: Level
    title: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn is over, once. `outcome` says how; `error` is the sentence when it failed.

    `text` is the last text the model wrote. `usage` and `cost_usd` are of the turn, compactions
    included.
    """

    turn: int
    outcome: TurnOutcome
    stop_reason: str
    text: str
    steps: int
    usage: Usage
    cost_usd: float | None
    seconds: float
    error: str | None = None


CtxEvent: TypeAlias = (
    TurnStarted
    | StepStarted
    | TextDelta
    | TextFinished
    | ThinkingDelta
    | StepDiscarded
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ResultOffloaded
    | StepFinished
    | ContextChanged
    | RetryScheduled
    | CompactionStarted
    | CompactionFinished
    | CompactionFailed
    | PlanChanged
    | MemoryChanged
    | NoteAdded
    | TurnFinished
)
