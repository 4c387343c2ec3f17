"""The append-only transcript: its entries, the view they make, and a few facts kept up to date.

Rule: what the model sees is a pure function of the entries (`view.build_view`); resuming a session
is reading its file. `Transcript` keeps the same result up to date as entries arrive, so that a step
costs only what is new; a property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .blocks import Json, Message, ToolResult, images_of, tool_results
from .entries import (
    AgentEntry,
    CompactionEntry,
    CompactionFailedEntry,
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
    RewindEntry,
    SessionEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    UnpinEntry,
)
from .view import View


class Transcript:
    """The entries of one session, with the view and a few facts kept up to date.

    `append` is the only way to change it. It does no I/O: who appends an entry has stored it first.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        self._view = View()
        self.prefix: PrefixEntry | None = None
        self.session: SessionEntry | None = None
        self.model: str | None = None
        self.learnt_windows: dict[str | None, int] = {}
        self.fates: dict[str, FateEntry] = {}
        self.pins: dict[int, str] = {}
        self.unpinned: dict[int, str] = {}
        self.plan: PlanEntry | None = None
        self.plans = 0
        self._plans: list[PlanEntry] = []
        self.compactions: list[CompactionEntry] = []
        self.edited: set[int] = set()
        self.undone: set[int] = set()
        self.failures_in_a_row = 0
        self.agents: list[AgentEntry] = []
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
        """Add one entry and bring view and facts up to date; takes as long as what is new."""
        self._entries.append(entry)
        match entry:
            case RewindEntry() | SummaryUndoEntry():
                self._take_back(entry)
            case ExcludeEntry():
                self._leave_out(entry)
            case _:
                self._view.add(entry)
                self._learn(entry)

    def _take_back(self, entry: RewindEntry | SummaryUndoEntry) -> None:
        """Bring an older view back: compactions since are undone, prompts that were rewound go."""
        in_force, turns = self._view.in_force, self._view.turns
        self._view.add(entry)
        self.undone |= in_force - self._view.in_force
        if isinstance(entry, RewindEntry) and entry.turn in turns:
            self._forget([turn for turn in self.prompts if turn >= entry.turn])
            self._plans = [plan for plan in self._plans if plan.turn < entry.turn]
            self.plan = self._plans[-1] if self._plans else None

    def _leave_out(self, entry: ExcludeEntry) -> None:
        """Leave the newest messages out of the view, and the prompts among them."""
        end = max(0, len(self.view) - max(0, entry.messages))
        excluded = {id(message) for message in self.view[end:]}
        self._view.add(entry)
        self._forget([turn for turn, prompt in self.prompts.items() if id(prompt) in excluded])

    def _forget(self, turns: Iterable[int]) -> None:
        for turn in turns:
            del self.prompts[turn]
            self._gone.add(turn)

    def _learn(self, entry: Entry) -> None:
        """Take in what an entry says of the session."""
        match entry:
            case SessionEntry():
                self.session = entry
            case PrefixEntry():
                self.prefix = entry
            case ModelEntry(model=model):
                self.model = model
            case MessageEntry():
                self._learn_message(entry)
            case OverflowEntry(limit_tokens=int(limit)):
                self.learnt_windows[self.model] = limit
            case FateEntry(tool_use_id=tool_use_id):
                self.fates.setdefault(tool_use_id, entry)
            case CompactionEntry():
                self.compactions.append(entry)
                self.failures_in_a_row = 0
            case CompactionFailedEntry():
                self.failures_in_a_row += 1
            case EditEntry():
                self.edits.append(entry)
            case AgentEntry():
                self.agents.append(entry)
            case EditUndoneEntry(n=n):
                self.undone_edits.add(n)
            case SummaryEditEntry():
                self._rewrite(entry)
            case PinEntry(n=n, text=text):
                self.pins[n] = text
                self.unpinned.pop(n, None)
            case UnpinEntry(n=n) if n in self.pins:
                self.unpinned[n] = self.pins.pop(n)
            case PlanEntry(n=n):
                self.plan, self.plans = entry, max(self.plans, n)
                self._plans.append(entry)
            case _:
                pass

    def _learn_message(self, entry: MessageEntry) -> None:
        turn = entry.turn
        self.turn = max(self.turn, turn)
        for result in tool_results(entry.message):
            self.results[result.tool_use_id] = result
            self._result_turns.setdefault(result.tool_use_id, turn)
        if entry.kind == "prompt":
            self.prompts[turn] = entry.message
            if entry.seen is not None:
                self._seen[turn] = entry.seen

    def _rewrite(self, entry: SummaryEditEntry) -> None:
        """Let the compaction say what the user made of its summary."""
        self.edited.add(entry.n)
        self.compactions = [
            replace(old, message=entry.message, summary=entry.summary) if old.n == entry.n else old
            for old in self.compactions
        ]

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
        return self._view.messages

    @property
    def active_compaction(self) -> CompactionEntry | None:
        """The compaction whose summary the view begins with, None if there is none."""
        if not self._view.replaced:
            return None
        n = self._view.replaced[-1].compaction.n
        return next((entry for entry in reversed(self.compactions) if entry.n == n), None)

    @property
    def depth(self) -> int:
        """How many compactions an undo can take back, one after the other."""
        return len(self._view.replaced)

    @property
    def turns(self) -> Sequence[int]:
        """The turns that a rewind can go back to before, ascending."""
        return tuple(sorted(self._view.turns))

    def opened_since(self, turn: int) -> tuple[int, ...]:
        """Return the compactions in force that came after the prompt of `turn`, newest first."""
        opened, _ = self._view.turns[turn]
        return tuple(old.compaction.n for old in reversed(self._view.replaced[opened:]))

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
        turns = self._result_turns
        return tuple(sorted({turns[id_] for id_ in tool_use_ids if id_ in turns}))

    def replaced_by(self, n: int) -> tuple[Message, ...]:
        """Return the messages that open compaction `n` took out of the view; empty if not open."""
        for old in self._view.replaced:
            if old.compaction.n == n:
                return old.before[: max(0, old.compaction.drop_messages)]
        return ()
