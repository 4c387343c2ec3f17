"""The state of a session and the few acts that every part of a turn needs.

Rule: whatever changes the transcript goes through `Engine.record`, which stores an entry before it
counts. A store that fails costs a warning, never the turn: the transcript goes on in memory.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..errors import PromptTooLongError, StoreError
from .absent import NoAgents, NoFiles, NoHooks, NoMemory, NoNotebook, NoUpdates, NoWorkspace
from .account import Account
from .blocks import Message, ToolUse
from .context import describe_largest_parts
from .entries import (
    CompactionEntry,
    CompactionFailedEntry,
    CountEntry,
    Edit,
    Entry,
    MessageEntry,
    OverflowEntry,
    SpentEntry,
)
from .events import Level, MemoryChanged, NoteAdded
from .memory import MEMORY_SHARE, MEMORY_TOKENS
from .moment import Moment
from .offload import LEAST_RESULT_TOKENS, MOST_BYTES, Room
from .pauses import Pauses
from .ports import (
    Agents,
    CacheTtl,
    Clock,
    Counter,
    Files,
    Hooks,
    Kernel,
    Memory,
    Model,
    ModelFacts,
    Notebook,
    Permissions,
    Store,
    ThinkingMode,
    ToolRunner,
    Updates,
    Workspace,
)
from .prefix import PrefixWatch
from .preparation import Made, Preparation
from .recovery import RetryLimits
from .redact import Redactor
from .tokens import LEAST_RATIO, SAFETY, TokenMeter, Used, Weight
from .transcript import Transcript
from .usage import Costs, Prices, Usage
from .window import LEAST_OUTPUT, Limits, is_stuck, reserve_tokens, window_of

LEAST_MOST_BYTES = 500_000
"""A refusal of less than this teaches nothing: no server takes so little."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What the engine says to the model: templates, as `prompts/` has them."""

    summary: str
    resume: str
    memory: str = ""
    agent: str = "{prompt}"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How requests are made. `effort` None: the model's own."""

    prompt_cache: bool = True
    cache_ttl: CacheTtl = "5m"
    thinking: ThinkingMode = "off"
    effort: str | None = None
    output_tokens: int = 8_000
    output_tokens_raised: int = 64_000
    retry: RetryLimits = field(default_factory=RetryLimits)


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """The world, as the engine sees it."""

    model: Model
    counter: Counter
    tools: ToolRunner
    store: Store
    clock: Clock
    kernel: Kernel
    permissions: Permissions
    redactor: Redactor
    hooks: Hooks = field(default_factory=NoHooks)
    memory: Memory = field(default_factory=NoMemory)
    workspace: Workspace = field(default_factory=NoWorkspace)
    updates: Updates = field(default_factory=NoUpdates)
    notebook: Notebook = field(default_factory=NoNotebook)
    files: Files = field(default_factory=NoFiles)
    agents: Agents = field(default_factory=NoAgents)


class Engine:
    """One session: its transcript, what it knows of the model, and its ports.

    `entries` are those of the stored session. `turn` is the newest one begun. `prices` gives the
    prices of a model by name. `spent` and `costs` are totals of the session; the costs are None
    once a call's price was not known. `requested` is when the last request began that was
    answered, `reply_ids` the newest reply's id by model. `whole_edits` are the edits of this
    process that the transcript has not whole, by number. `start_words` are what the
    SessionStart hooks say with the next prompt, None before they ran. `preparation`,
    `preparation_rests`, `ending` and `idle_timer` belong to `background.py`.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        facts: ModelFacts,
        limits: Limits,
        options: CallOptions,
        texts: Texts,
        ports: EnginePorts,
        prices: Callable[[str | None], Prices | None],
    ) -> None:
        self.transcript = Transcript()
        self.facts = facts
        self.limits = limits
        self.options = options
        self.texts = texts
        self.ports = ports
        self.meter = TokenMeter(ports.counter, facts.factor_prior)
        self.account = Account()
        self.seen_ids: set[str] = set()
        self.watch = PrefixWatch()
        self.uncountable: set[str] = set()
        self.most_bytes = MOST_BYTES
        self.reply_ids: dict[str | None, str] = {}
        self.spent = Usage()
        self.costs: Costs | None = Costs()
        self._prices = prices
        self.notes: list[NoteAdded | MemoryChanged] = []
        self.streaming_chars = 0
        self.pauses = Pauses()
        self.store_failed = False
        self.preparation: Preparation | None = None
        self.preparation_rests = False
        self.ending: set[asyncio.Task[Made]] = set()
        self.idle_timer: asyncio.Task[None] | None = None
        self.requested: Moment | None = None
        self.whole_edits: dict[int, Edit] = {}
        self.start_words: str | None = None
        for entry in entries:
            self._count(entry)
        self.turn = self.transcript.turn

    def branch(self, entries: Iterable[Entry], limits: Limits, ports: EnginePorts) -> Engine:
        """Return an engine that goes on from `entries` of this one, for the same model.

        It knows what this one has learnt, and its first request is held against this one's last.
        """
        engine = Engine(entries, self.facts, limits, self.options, self.texts, ports, self._prices)
        engine.most_bytes, engine.requested = self.most_bytes, self.requested
        engine.store_failed = self.store_failed
        engine.watch.follow(self.watch)
        return engine

    # The transcript -----------------------------------------------------------------------------

    def record(self, entry: Entry) -> None:
        """Store `entry`, then let it count. A store that fails is said once, in `notes`."""
        try:
            self.ports.store.append(entry)
        except StoreError as error:
            self.warn_store(error)
        self._count(entry)

    def warn_store(self, error: StoreError) -> None:
        """Add one warning that the store failed; the first time only."""
        if not self.store_failed:
            self.store_failed = True
            self.note(
                "warning",
                "The session cannot be saved.",
                f"{error} The turn goes on in memory; it is lost when the kernel stops.",
            )

    def _count(self, entry: Entry) -> None:
        self.transcript.append(entry)
        if self.preparation is not None:
            self.preparation.observe(entry)
        self.meter.observe(entry, self.transcript)
        self.watch.observe(entry)
        measured = self.meter.measured(self.transcript)
        self.account.observe(entry, self.transcript, measured, self.meter.factor)
        match entry:
            case MessageEntry(message=message, usage=usage, model=model):
                self.seen_ids.update(b.id for b in message.content if isinstance(b, ToolUse))
                if entry.message_id:
                    self.reply_ids[model] = entry.message_id
            case CompactionEntry(usage=usage) | CompactionFailedEntry(usage=usage):
                model = self.transcript.model
            case SpentEntry(usage=usage):
                model = self.transcript.model
            case CountEntry(tokens=0) if self.transcript.model is not None:
                self.uncountable.add(self.transcript.model)
                return
            case OverflowEntry():
                self._use_learnt_window()
                return
            case _:
                return
        if usage is not None:
            self.spent = self.spent + usage
            prices = self._prices(model or self.transcript.model)
            if prices is None or self.costs is None or not usage.has_price:
                self.costs = None
            else:
                self.costs = self.costs + prices.costs(usage)

    @property
    def cost_usd(self) -> float | None:
        """What the session cost so far; None once a call's price was not known."""
        return None if self.costs is None else self.costs.total

    def price(self, usage: Usage, model: str | None = None) -> float | None:
        """Return what one call cost, None if its model's price or its length is not known.

        Calls are priced one by one: some prices depend on the length of a call's input.
        """
        prices = self._prices(model or self.transcript.model)
        return prices.cost_usd(usage) if prices is not None and usage.has_price else None

    def note(self, level: Level, title: str, detail: str = "") -> None:
        """Keep a note for the user; the loop yields it at the next chance."""
        self.notes.append(NoteAdded(self.turn, level, title, detail))

    def take_notes(self) -> list[NoteAdded | MemoryChanged]:
        """Return the notes not yet told, and what was remembered, and forget them."""
        told, self.notes = self.notes, []
        return told

    # The window ---------------------------------------------------------------------------------

    @property
    def window(self) -> int | None:
        """The context window in tokens, None if it is not known."""
        return window_of(self.limits, self.facts)

    @property
    def used(self) -> Used:
        """What fills the window now."""
        return self.meter.used(self.transcript)

    @property
    def reserve(self) -> int | None:
        """The tokens kept free for the answer, None if the window is not known."""
        return reserve_tokens(self.limits, self.facts)

    @property
    def is_paused(self) -> bool:
        """Automatic compaction is paused after too many failures in a row."""
        most = self.limits.breaker_failures
        return 0 < most <= self.transcript.failures_in_a_row

    @property
    def is_stuck(self) -> bool:
        """The last compaction freed too little to try another (DESIGN.md 5, no progress)."""
        return is_stuck(self.transcript, self.used, self.limits, self.facts)

    def use_facts(self, facts: ModelFacts, options: CallOptions) -> None:
        """Take over what is known of the model now; what was learnt of it stays."""
        self.facts, self.options = facts, options
        self._use_learnt_window()
        self.meter.prior = facts.factor_prior

    @property
    def weight(self) -> Weight:
        """What a request weighs now: its bytes on the wire, and its images."""
        return self.meter.weight(self.transcript)

    def learn_bytes(self) -> None:
        """Take from a refusal by bytes that a request of the present weight is too much.

        For this kernel's life; a provider may take less than the 32 MB of Anthropic's own.
        """
        if self.weight.bytes > LEAST_MOST_BYTES:
            self.most_bytes = min(self.most_bytes, self.weight.bytes - 1)

    def learn_overflow(self, error: PromptTooLongError) -> None:
        """Take the window, and how far the estimate was off, from a refusal's numbers.

        Nothing from one whose count can only be of a part, or of another prompt.
        """
        actual, estimate = error.actual_tokens, self.meter.estimate_request(self.transcript.view)
        if actual is None or actual >= LEAST_RATIO * estimate:
            self._learn(actual, error.limit_tokens)

    def learn_window(self, error: PromptTooLongError, messages: Sequence[Message]) -> None:
        """Take the window from a refusal of `messages` that names one smaller than what was known.

        Nothing from one whose count can only be of a part.
        """
        actual, estimate = error.actual_tokens, self.meter.estimate_request(messages)
        if actual is None or actual >= LEAST_RATIO * estimate:
            self._learn(None, error.limit_tokens)

    def _learn(self, actual: int | None, limit: int | None) -> None:
        """Record what a refusal taught, so that a resumed session knows it too."""
        known = self.window
        if limit is not None and known is not None and limit >= known:
            limit = None
        if limit is not None and (limit < self.least_window or limit > (actual or limit)):
            limit = None
        if actual is not None or limit is not None:
            self.record(OverflowEntry(self.ports.clock.now(), actual, limit))

    @property
    def least_window(self) -> int:
        """The least window to work in: system, tools, a step and a compaction need as much.

        With less every prompt is refused, so none is learnt that may be a mistake.
        """
        fixed = self.meter.prefix_tokens(self.meter.factor)
        instruction = self.meter.estimate_text(self.summary_text)
        return fixed + instruction + LEAST_OUTPUT + LEAST_RESULT_TOKENS

    def _use_learnt_window(self) -> None:
        self.facts = self.with_learnt(self.facts)

    def with_learnt(self, facts: ModelFacts) -> ModelFacts:
        """Return `facts` with the window that a refusal of that model taught, if it is smaller."""
        learnt = self.transcript.learnt_windows.get(facts.name)
        known = window_of(self.limits, facts)
        if learnt is not None and (known is None or learnt < known):
            return replace(facts, window_tokens=learnt, window_source="error")
        return facts

    def largest_parts(self) -> str:
        """Return the three largest parts of the window in words, for a message."""
        return describe_largest_parts(self.meter.parts(self.transcript))

    def room(self) -> Room:
        """Return what a new message may take of the window, images counted."""
        weight = self.weight
        return Room.of(
            self.facts,
            self.limits,
            self.used.cautious,
            self.meter,
            instruction_tokens=math.ceil(SAFETY * self.meter.estimate_text(self.summary_text))
            + self.memory_tokens,
            images_left=max(0, self.facts.max_images - weight.images),
            bytes_left=max(0, self.most_bytes - weight.bytes),
        )

    @property
    def summary_text(self) -> str:
        """The template that asks for a summary, and for what to remember where memory is on."""
        texts = self.texts
        return f"{texts.summary}\n\n{texts.memory}" if self.ports.memory.is_on else texts.summary

    @property
    def memory_tokens(self) -> int:
        """What the `<memory>` part of a summary's reply may take; 0 where memory is off."""
        if not self.ports.memory.is_on:
            return 0
        most = MEMORY_TOKENS if self.window is None else int(MEMORY_SHARE * self.window)
        return min(MEMORY_TOKENS, most)

    # Requests -----------------------------------------------------------------------------------
