"""The append-only transcript, and the view: what the model sees of it.

Rule: an entry is never edited, reordered or removed. What the model sees is a pure function of the
entries (`build_view`); resuming a session is reading its file. `Transcript` keeps the same result
up to date as entries arrive, so that a step costs only what is new; a property test holds the two
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from .blocks import (
    Json,
    Message,
    ToolResult,
    images_of,
    tool_results,
    without_images,
    without_thinking,
)
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
    | OverflowEntry
    | CountEntry
    | EditEntry
    | EditUndoneEntry
    | SummaryEditEntry
    | SummaryUndoEntry
    | RewindEntry
    | PinEntry
    | UnpinEntry
    | ExcludeEntry
    | RepairEntry
    | UnknownEntry
)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """The view before a compaction, and how many messages the view had right after it."""

    compaction: CompactionEntry
    before: tuple[Message, ...]
    after: int

    def shorten(self, after: int) -> _Replaced:
        """Return the same without the kept messages from `after` on: they were left out since."""
        end, gone = len(self.before), self.after - after
        while gone and end:
            end -= 1
            gone -= bool(_kept(self.before[end], self.compaction.drop_thinking))
        return _Replaced(self.compaction, self.before[:end], after)


@dataclass(slots=True)
class _Fold:
    """The fold's state.

    `turns` holds, for each user turn, how many open compactions there were when it began, and how
    many messages the view had. Within one compaction's life the view only grows, so the two numbers
    find the old view again without keeping a copy of it.
    """

    view: list[Message] = field(default_factory=list)
    replaced: list[_Replaced] = field(default_factory=list)
    turns: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def in_force(self) -> frozenset[int]:
        """The numbers of the compactions that an undo can reach."""
        return frozenset(open_.compaction.n for open_ in self.replaced)

    def add(self, entry: Entry) -> None:
        match entry:
            case MessageEntry(message=message, kind=kind, turn=turn):
                if kind == "prompt":
                    self.turns.setdefault(turn, (len(self.replaced), len(self.view)))
                self.view.append(message)
            case CompactionEntry() as compaction:
                before = tuple(self.view)
                self.view = [compaction.message, *kept_messages(before, compaction)]
                self.replaced.append(_Replaced(compaction, before, len(self.view)))
            case SummaryEditEntry(n=n, message=message, drop_thinking=drop_thinking):
                self._edit(n, message, drop_thinking)
            case SummaryUndoEntry(n=n, drop_thinking=drop_thinking):
                self._undo(n, drop_thinking)
            case RewindEntry(turn=turn):
                self._rewind(turn)
            case ExcludeEntry(messages=count):
                self._exclude(count)
            case RepairEntry(messages=messages):
                self.view, self.replaced, self.turns = list(messages), [], {}
            case _:
                pass

    def _edit(self, n: int, message: Message, drop_thinking: bool) -> None:
        """Put `message` in place of the summary of compaction `n`, if it is not undone."""
        for index, open_ in enumerate(self.replaced):
            if open_.compaction.n != n:
                continue
            if index + 1 == len(self.replaced):
                self.view = [message, *_bare(self.view[1:], drop_thinking)]
            else:  # a later compaction took it out of the view: it comes back by an undo
                later = self.replaced[index + 1]
                before = (message, *_bare(later.before[1:], drop_thinking))
                self.replaced[index + 1] = replace(later, before=before)

    def _undo(self, n: int, drop_thinking: bool) -> None:
        if not self.replaced or self.replaced[-1].compaction.n != n:
            return
        last = self.replaced.pop()
        depth, since = len(self.replaced), list(last.before)
        moved = {}  # where a turn that began since the compaction begins now
        for index in range(last.after, len(self.view)):
            moved[index] = len(since)
            kept = _kept(self.view[index], drop_thinking)
            since += [kept] if kept else []
        moved[len(self.view)] = len(since)
        self.view = since
        self.turns = {
            turn: (depth, moved[length]) if opened > depth else (opened, length)
            for turn, (opened, length) in self.turns.items()
        }

    def _rewind(self, turn: int) -> None:
        if turn not in self.turns:
            return
        opened, length = self.turns[turn]
        view = self.replaced[opened].before if opened < len(self.replaced) else self.view
        self.view = list(view[:length])
        del self.replaced[opened:]
        self.turns = {n: began for n, began in self.turns.items() if n < turn}

    def _exclude(self, count: int) -> None:
        """Leave the newest `count` messages out; the summary the view begins with always stays."""
        least = 1 if self.replaced else 0
        end = max(least, len(self.view) - max(0, count))
        del self.view[end:]
        for index in reversed(range(len(self.replaced))):
            if end >= self.replaced[index].after:
                break
            self.replaced[index] = self.replaced[index].shorten(end)
            end = len(self.replaced[index].before)
        lengths = [*(len(open_.before) for open_ in self.replaced), len(self.view)]
        self.turns = {
            turn: (opened, length)
            for turn, (opened, length) in self.turns.items()
            if length < lengths[opened]
        }


def _kept(message: Message, drop_thinking: bool) -> Message | None:
    """Return the message as it stays, without its thinking if `drop_thinking`; None if empty."""
    return without_thinking(message) if drop_thinking else message


def _bare(messages: Sequence[Message], drop_thinking: bool) -> Sequence[Message]:
    """Return as many messages, without their thinking if `drop_thinking` and there is more."""
    return [_kept(message, drop_thinking) or message for message in messages]


def kept_messages(view: Sequence[Message], compaction: CompactionEntry) -> tuple[Message, ...]:
    """Return the messages of `view` that stay behind the compaction's summary, as they stay."""
    tail = view[max(0, compaction.drop_messages) :]
    kept = tuple(left for m in tail if (left := _kept(m, compaction.drop_thinking)))
    return tuple(map(without_images, kept)) if compaction.drop_images else kept


def build_view(entries: Iterable[Entry]) -> tuple[Message, ...]:
    """Return what the model sees: the newest summary, then every message it kept.

    Total: an empty transcript gives an empty view. Never edits or reorders an entry; a compaction,
    rewind, edit or undo that names nothing known changes nothing.
    """
    fold = _Fold()
    for entry in entries:
        fold.add(entry)
    return tuple(fold.view)


class Transcript:
    """The entries of one session, with the view and a few facts kept up to date.

    `append` is the only way to change it. It does no I/O: who appends an entry has stored it first.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        self._fold = _Fold()
        self.prefix: PrefixEntry | None = None
        self.session: SessionEntry | None = None
        self.model: str | None = None
        self.learnt_windows: dict[str | None, int] = {}
        self.fates: dict[str, FateEntry] = {}
        self.pins: dict[int, str] = {}
        self.unpinned: dict[int, str] = {}
        self.compactions: list[CompactionEntry] = []
        self.edited: set[int] = set()
        self.undone: set[int] = set()
        self.failures_in_a_row = 0
        self.turn = 0
        self.prompts: dict[int, Message] = {}
        self._seen: dict[int, Json] = {}
        self.edits: list[EditEntry] = []
        self.undone_edits: set[int] = set()
        self.results: dict[str, ToolResult] = {}
        self._result_turns: dict[str, int] = {}
        self._gone: set[int] = set()
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        """Add one entry and bring view and facts up to date."""
        excluded: Sequence[Message] = ()
        if isinstance(entry, ExcludeEntry) and entry.messages > 0:
            excluded = self.view[-entry.messages :]
        before = self.prompts
        is_known_turn = isinstance(entry, RewindEntry) and entry.turn in self._fold.turns
        takes_back = isinstance(entry, SummaryUndoEntry | RewindEntry)
        in_force = self._fold.in_force if takes_back else frozenset[int]()
        self._entries.append(entry)
        self._fold.add(entry)
        if takes_back:
            self.undone |= in_force - self._fold.in_force
        match entry:
            case SessionEntry():
                self.session = entry
            case PrefixEntry():
                self.prefix = entry
            case ModelEntry(model=model):
                self.model = model
            case MessageEntry(turn=turn, kind=kind, message=message):
                self.turn = max(self.turn, turn)
                for result in tool_results(message):
                    self.results[result.tool_use_id] = result
                    self._result_turns.setdefault(result.tool_use_id, turn)
                if kind == "prompt":
                    self.prompts[turn] = message
                    if entry.seen is not None:
                        self._seen[turn] = entry.seen
            case OverflowEntry(limit_tokens=int(limit)):
                self.learnt_windows[self.model] = limit
            case RewindEntry(turn=turn) if is_known_turn:
                self.prompts = {n: m for n, m in self.prompts.items() if n < turn}
            case ExcludeEntry():
                gone = {id(message) for message in excluded}
                self.prompts = {n: m for n, m in self.prompts.items() if id(m) not in gone}
            case FateEntry(tool_use_id=tool_use_id):
                self.fates.setdefault(tool_use_id, entry)
            case CompactionEntry():
                self.compactions.append(entry)
                self.failures_in_a_row = 0
            case CompactionFailedEntry():
                self.failures_in_a_row += 1
            case EditEntry():
                self.edits.append(entry)
            case EditUndoneEntry(n=n):
                self.undone_edits.add(n)
            case SummaryEditEntry(n=n, message=message, summary=summary):
                self.edited.add(n)
                self.compactions = [
                    replace(old, message=message, summary=summary) if old.n == n else old
                    for old in self.compactions
                ]
            case PinEntry(n=n, text=text):
                self.pins[n] = text
                self.unpinned.pop(n, None)
            case UnpinEntry(n=n):
                if n in self.pins:
                    self.unpinned[n] = self.pins.pop(n)
            case _:
                pass
        self._gone |= before.keys() - self.prompts.keys()

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry, oldest first."""
        return self._entries

    @property
    def seen(self) -> Json | None:
        """What the model knows of notebook and namespace: the newest prompt's that says it.

        Prompts that were rewound or left out do not count. None: none says it.
        """
        told = [turn for turn in self.prompts if turn in self._seen]
        return self._seen[max(told)] if told else None

    @property
    def left_out(self) -> ExcludeEntry | None:
        """What was left out since the last message, if the next prompt is to tell of it."""
        for entry in reversed(self._entries):
            match entry:
                case MessageEntry() | RewindEntry():
                    return None
                case ExcludeEntry(is_told=True):
                    return entry
                case _:
                    pass
        return None

    @property
    def view(self) -> Sequence[Message]:
        """What the model sees; equal to `build_view(entries)`. Not to be changed."""
        return self._fold.view

    @property
    def active_compaction(self) -> CompactionEntry | None:
        """The compaction whose summary the view begins with, None if there is none."""
        if not self._fold.replaced:
            return None
        n = self._fold.replaced[-1].compaction.n
        return next((entry for entry in reversed(self.compactions) if entry.n == n), None)

    @property
    def turns(self) -> Sequence[int]:
        """The turns that a rewind can go back to before, ascending."""
        return tuple(sorted(self._fold.turns))

    def opened_since(self, turn: int) -> tuple[int, ...]:
        """Return the compactions in force that came after the prompt of `turn`, newest first."""
        opened, _ = self._fold.turns[turn]
        return tuple(old.compaction.n for old in reversed(self._fold.replaced[opened:]))

    @property
    def stored(self) -> Sequence[FateEntry]:
        """The offloaded results of the conversation, oldest first.

        Those of turns that were rewound or left out are not in it.
        """
        turns = self._result_turns
        return [
            fate
            for fate in self.fates.values()
            if fate.fate == "offload" and turns.get(fate.tool_use_id) not in self._gone
        ]

    @property
    def pictured(self) -> Sequence[FateEntry]:
        """The kept results of the conversation that have images and are stored, oldest first."""
        turns = self._result_turns
        return [
            fate
            for fate in self.fates.values()
            if fate.fate == "keep"
            and fate.path is not None
            and turns.get(fate.tool_use_id) not in self._gone
            and (result := self.results.get(fate.tool_use_id)) is not None
            and images_of(Message("user", (result,)))
        ]

    def messages_since_prompt(self, turn: int) -> int:
        """Return how many messages of the view there are from the prompt of `turn` on.

        0 if that prompt is not in the view (not recorded, compacted or left out).
        """
        prompt = self.prompts.get(turn)
        for count, message in enumerate(reversed(self.view), start=1):
            if message is prompt:
                return count
        return 0

    def turns_of(self, messages: Iterable[Message]) -> tuple[int, int] | None:
        """Return the first and last user turn that `messages` of the log belong to, None if none.

        A summary message stands for the turns it replaced.
        """
        wanted = {id(message) for message in messages}
        turns: list[int] = []
        for entry in self._entries:
            match entry:
                case MessageEntry(message=message, turn=turn) if id(message) in wanted:
                    turns.append(turn)
                case CompactionEntry(message=message) if id(message) in wanted:
                    turns += [entry.first_turn, entry.last_turn]
                case _:
                    pass
        return (min(turns), max(turns)) if turns else None

    def turns_of_results(self, tool_use_ids: Iterable[str]) -> tuple[int, ...]:
        """Return the user turns in which these results came, ascending, each once."""
        wanted = set(tool_use_ids)
        turns = {
            entry.turn
            for entry in self._entries
            if isinstance(entry, MessageEntry)
            and any(result.tool_use_id in wanted for result in tool_results(entry.message))
        }
        return tuple(sorted(turns))

    def replaced_by(self, n: int) -> tuple[Message, ...]:
        """Return the messages that open compaction `n` took out of the view; empty if not open."""
        for old in self._fold.replaced:
            if old.compaction.n == n:
                return old.before[: max(0, old.compaction.drop_messages)]
        return ()
