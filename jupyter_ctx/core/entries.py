"""What the transcript is made of: one value for each kind of entry that a stored session can have.

Rule: an entry is never edited, reordered or removed. A reader passes over a kind that it does not
know (`UnknownEntry`), so that an older version still opens a newer session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .blocks import Json, Message
from .plan import PlanAuthor, PlanItem
from .usage import Usage

Trigger: TypeAlias = Literal["proactive", "reactive", "manual"]
Kind: TypeAlias = Literal["prompt", "reply", "results", "note", "repair"]
FateKind: TypeAlias = Literal["keep", "offload"]


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """The first line: who this session is. `at` is seconds since the epoch, here and below."""

    at: float
    session_id: str
    notebook: str | None
    cwd: str
    version: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class PrefixEntry:
    """System prompt and tools, frozen as sent; the newest counts.

    Later ones join at a compaction.
    """

    at: float
    system: str
    tools: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """From here on the session talks to `model`; a usage figure from before is void."""

    at: float
    model: str


@dataclass(frozen=True, slots=True)
class CacheMiss:
    """What a provider said of a prompt that it could not read from its cache.

    `reason` is its own word (`messages_changed`, say); `tokens` those it would have read, None if
    it did not say.
    """

    reason: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """One message as sent or received.

    `turn` counts user prompts from 1; `step` counts model calls of the turn from 1 (0: the prompt).
    `raw_tokens` on a reply is the uncalibrated estimate of what its usage measured for the first
    time; with `usage` it teaches the estimate its factor. `cell_id` is the cell of the prompt.
    `message_id` is the provider's id of a reply; `cache_miss` what it said of the cache for it.
    `seen` on a prompt is what the model knows of notebook and namespace from here on.
    """

    at: float
    turn: int
    step: int
    kind: Kind
    message: Message
    model: str | None = None
    usage: Usage | None = None
    raw_tokens: int | None = None
    stop_reason: str | None = None
    message_id: str | None = None
    cell_id: str | None = None
    cache_miss: CacheMiss | None = None
    seen: Json | None = None


@dataclass(frozen=True, slots=True)
class FateEntry:
    """What became of one tool result, decided once and never changed.

    `path` names the stored text of an offloaded result, relative to the store's home; of one that
    is kept, the text of a result whose outputs are stored beside it (an image, say).
    """

    at: float
    tool_use_id: str
    fate: FateKind
    tool: str
    chars: int
    lines: int
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Reinjected:
    """One thing a compaction put back: what kind, which one, and its tokens (estimated)."""

    kind: str
    id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CompactionEntry:
    """A compaction: the first `drop_messages` of the view give way to `message`.

    `message` is one user message: the summary, then what was re-injected. Every later message
    stays; without its thinking if `drop_thinking`, and with a line in place of each image if
    `drop_images`. `n` counts from 1 within the session.
    `missing` are the names in the summary that did not exist in the kernel then.
    `parts_before` and `parts_after` share out the tokens before and after, in the order of `PARTS`;
    empty in sessions stored before they were told.
    """

    at: float
    n: int
    turn: int
    trigger: Trigger
    message: Message
    summary: str
    drop_messages: int
    drop_thinking: bool
    first_turn: int
    last_turn: int
    tokens_before: int
    tokens_after: int
    seconds: float
    cost_usd: float | None
    usage: Usage | None
    reinjected: tuple[Reinjected, ...] = ()
    focus: str | None = None
    missing: tuple[str, ...] = ()
    drop_images: bool = False
    parts_before: tuple[int, ...] = ()
    parts_after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionFailedEntry:
    """A compaction that brought nothing; `reason` is one sentence."""

    at: float
    turn: int
    trigger: Trigger
    reason: str
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class SpentEntry:
    """Tokens paid for a reply that was not kept (its limit was raised, say), or beside one."""

    at: float
    turn: int
    usage: Usage
    reason: str


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """A sub-agent has ended; `agent_id` is the id of the `task` call that started it.

    `steps` are its model calls, `seconds` how long it took. `usage` and `cost_usd` (None: a price
    is not known) are its whole cost: each call of it stands in a SpentEntry too, which is what is
    counted. Its messages lie in a transcript of its own. `ran` is how many of its calls ran code.
    """

    at: float
    turn: int
    agent_id: str
    description: str
    outcome: Literal["done", "stopped", "failed"]
    steps: int
    seconds: float
    usage: Usage
    cost_usd: float | None = None
    ran: int = 0


@dataclass(frozen=True, slots=True)
class OverflowEntry:
    """The provider refused a prompt as too long, and said what it counted and what it takes.

    `actual_tokens` is its count of the view as it was then, None if it gave none or the prompt was
    another; `limit_tokens` is a window smaller than was known, else None.
    """

    at: float
    actual_tokens: int | None = None
    limit_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to a cell or a file: what stood at `target` before, and what stands there now.

    `target` is a cell's id or a file's absolute path. `before` and `after` say all that is needed
    to put it back, None where nothing stood; of a cell `type`, `source`, `above` (the id of the
    cell above it, None at the top) and `outputs`; of a file `text` (its newlines as they are, no
    BOM), `encoding` if it is not UTF-8, and `folders`, how many were made for it, if any. A file's
    text that is long is stored: `stored` is then its name, in place of `text`. `is_redacted`: the
    text held a key of the program, which is not stored, so it cannot be put back from here.
    """

    kind: Literal["cell", "file"]
    target: str
    before: Json | None
    after: Json | None


@dataclass(frozen=True, slots=True)
class EditEntry:
    """An edit that the agent made in turn `turn`; `n` counts from 1 within the session."""

    at: float
    n: int
    turn: int
    edit: Edit


@dataclass(frozen=True, slots=True)
class EditUndoneEntry:
    """Edit `n` was put back as it was before."""

    at: float
    n: int


@dataclass(frozen=True, slots=True)
class CountEntry:
    """The provider's own count of system, tools and the view as it was then, in tokens.

    `raw_tokens` is the uncalibrated estimate of what no figure had covered before.
    """

    at: float
    tokens: int
    raw_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class SummaryEditEntry:
    """The user rewrote the summary of compaction `n`; `message` takes its message's place.

    What stands behind it stays; without its thinking if `drop_thinking`.
    """

    at: float
    n: int
    message: Message
    summary: str
    drop_thinking: bool = False


@dataclass(frozen=True, slots=True)
class SummaryUndoEntry:
    """Compaction `n` is undone: what it replaced comes back before what was said since."""

    at: float
    n: int
    drop_thinking: bool = False


@dataclass(frozen=True, slots=True)
class RewindEntry:
    """Back to before user turn `turn`: the view is again what it was before that prompt.

    A summary that the user rewrote since stays rewritten.
    """

    at: float
    turn: int


@dataclass(frozen=True, slots=True)
class PinEntry:
    """Text kept verbatim through every compaction; `n` counts from 1."""

    at: float
    n: int
    text: str


@dataclass(frozen=True, slots=True)
class UnpinEntry:
    """Pin `n` is taken off."""

    at: float
    n: int


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """The whole plan from here on; no items: there is none any more. `n` counts from 1.

    It belongs to turn `turn` (the last one, where the user edited it between turns), with which a
    rewind takes it back. `tool_use_id` is the call that made it, None: no call did.
    """

    at: float
    n: int
    turn: int
    items: tuple[PlanItem, ...]
    by: PlanAuthor
    tool_use_id: str | None = None


@dataclass(frozen=True, slots=True)
class ExcludeEntry:
    """The newest `messages` of the view are left out of it from here on (a refusal, say).

    `is_told`: the next prompt tells the model the reason.
    """

    at: float
    messages: int
    reason: str
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class RepairEntry:
    """The view as mended when the file had lost a line; stored, so that it stays the same."""

    at: float
    messages: tuple[Message, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownEntry:
    """A line of a kind this version does not know, kept as it is; it changes no view."""

    raw: Json


Entry: TypeAlias = (
    SessionEntry
    | PrefixEntry
    | ModelEntry
    | MessageEntry
    | FateEntry
    | CompactionEntry
    | CompactionFailedEntry
    | SpentEntry
    | AgentEntry
    | OverflowEntry
    | CountEntry
    | EditEntry
    | EditUndoneEntry
    | SummaryEditEntry
    | SummaryUndoEntry
    | RewindEntry
    | PinEntry
    | UnpinEntry
    | PlanEntry
    | ExcludeEntry
    | RepairEntry
    | UnknownEntry
)
