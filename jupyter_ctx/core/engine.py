"""The state of a session and the few acts that every part of a turn needs.

Rule: whatever changes the transcript goes through `Engine.record`, which stores an entry before it
counts. A store that fails costs a warning, never the turn: the transcript goes on in memory.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ..errors import ModelError, PromptTooLongError, StoreError, StreamBrokenError, UnreachableError
from .absent import NoFiles, NoHooks, NoMemory, NoNotebook, NoUpdates, NoWorkspace
from .account import FIRST_CALL, MID_TURN, Account, Bill, Budgets, Weights
from .blocks import (
    Block,
    Json,
    Message,
    ToolUse,
)
from .cache import place_breakpoints
from .context import (
    SessionFacts,
    build_context,
    describe_largest_parts,
    find_growth,
    find_steps_left,
)
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
from .events import (
    CtxEvent,
    Level,
    NoteAdded,
    RetryScheduled,
    StepDiscarded,
)
from .memory import MEMORY_SHARE, MEMORY_TOKENS
from .offload import LEAST_RESULT_TOKENS, MOST_BYTES, SMALL_SHARE, Room
from .ports import (
    CacheTtl,
    Clock,
    Counter,
    Delta,
    Files,
    Hooks,
    Kernel,
    Memory,
    Model,
    ModelFacts,
    Notebook,
    Permissions,
    Request,
    Store,
    ThinkingMode,
    ToolRunner,
    Updates,
    Workspace,
)
from .prefix import PrefixWatch
from .preparation import Made, Preparation
from .recovery import RetryLimits, next_wait
from .redact import Redactor
from .reply import Reply
from .tokens import SAFETY, TokenMeter, Used, Weight
from .transcript import Transcript
from .usage import Prices, Usage
from .window import (
    LEAST_OUTPUT,
    PROACTIVE_PRESETS,
    Limits,
    is_stuck,
    output_limit,
    reserve_tokens,
    should_compact,
    window_of,
)

LEAST_MOST_BYTES = 500_000
"""A refusal of less than this teaches nothing: no server takes so little."""
HEAVY_SHARE = 0.9
"""From this share of the most bytes or images of a request on, old images are to leave."""
LARGEST_IMAGE_BYTES = 10 * 2**20
"""Base64 of the largest image the API takes (API.md 5): the next one is to find room for it."""
CACHE_S: Mapping[CacheTtl, float] = {"5m": 300.0, "1h": 3_600.0}
"""How long the provider's prompt cache keeps a prompt after the start of the last request."""

MOST_AHEAD_SHARE = 0.03
"""How far before the reserve a summary is prepared at most, as a share of the window.

What comes after it stays word for word, so on a small window an early one frees little: three calls
ahead, a replay on 8k costs 1.27 x the optimum, with this 1.19 x, and 1.15 x without preparation.
"""


@dataclass(frozen=True, slots=True)
class Texts:
    """What the engine says to the model: templates, as `prompts/` has them."""

    summary: str
    resume: str
    memory: str = ""


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


class Engine:
    """One session: its transcript, what it knows of the model, and its ports.

    `entries` are those of the stored session. `turn` is the newest one begun. `prices` gives the
    prices of a model by name. `spent` and `cost_usd` are totals of the session; the cost is None
    once a call's price was not known. `requested_at` is when the last request began, in seconds
    since the epoch. `whole_edits` are the edits of this process that the transcript has not whole,
    by number. `preparation`, `preparation_rests`, `ending` and `idle_timer` belong to
    `background.py`.
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
        self._reply_ids: dict[str | None, str] = {}
        self.spent = Usage()
        self.cost_usd: float | None = 0.0
        self._prices = prices
        self.notes: list[NoteAdded] = []
        self.streaming_chars = 0
        self.store_failed = False
        self.preparation: Preparation | None = None
        self.preparation_rests = False
        self.ending: asyncio.Task[Made] | None = None
        self.idle_timer: asyncio.Task[None] | None = None
        self.requested_at: float | None = None
        self.whole_edits: dict[int, Edit] = {}
        for entry in entries:
            self._count(entry)
        self.turn = self.transcript.turn

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
                    self._reply_ids[model] = entry.message_id
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
            cost = self.price(usage, model)
            known = self.cost_usd is not None and cost is not None
            self.cost_usd = (self.cost_usd or 0.0) + (cost or 0.0) if known else None

    def price(self, usage: Usage, model: str | None = None) -> float | None:
        """Return what one call cost, None if its model's price is not known.

        Calls are priced one by one: some prices depend on the length of a call's input.
        """
        prices = self._prices(model or self.transcript.model)
        return None if prices is None else prices.cost_usd(usage)

    def note(self, level: Level, title: str, detail: str = "") -> None:
        """Keep a note for the user; the loop yields it at the next chance."""
        self.notes.append(NoteAdded(self.turn, level, title, detail))

    def take_notes(self) -> list[NoteAdded]:
        """Return the notes not yet told, and forget them."""
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

    def should_compact(self, moment: float = math.inf) -> bool:
        """Say whether a compaction is due before the next call.

        So it is earlier if `moment` (FIRST_CALL, say) is less than what this call is.
        """
        if self.is_paused or self.is_stuck:
            return False
        if should_compact(self.used, self.limits, self.facts):
            return True
        bill = self.bill()
        return bill is not None and bill.is_due(self._multiple(moment))

    @property
    def weight(self) -> Weight:
        """What a request weighs now: its bytes on the wire, and its images."""
        return self.meter.weight(self.transcript)

    @property
    def is_heavy(self) -> bool:
        """Say whether a request is near the most bytes or images, so that old ones must leave."""
        weight = self.weight
        has_many = weight.images > 0 and weight.images >= HEAVY_SHARE * self.facts.max_images
        most = HEAVY_SHARE * self.most_bytes
        if weight.images:
            most = min(most, max(self.most_bytes / 2, self.most_bytes - LARGEST_IMAGE_BYTES))
        is_near = has_many or weight.bytes >= most
        return is_near and self.limits.compaction in PROACTIVE_PRESETS and not self.is_paused

    @property
    def can_drop_images(self) -> bool:
        """Say whether a request with too many bytes has images that may leave by themselves."""
        is_automatic = self.limits.compaction in PROACTIVE_PRESETS
        return is_automatic and not self.is_paused and self.weight.images > 0

    def is_reserve_reached(self) -> bool:
        """Say whether the reserve leaves no room for another call, whatever the account says."""
        return should_compact(self.used, self.limits, self.facts)

    def is_compaction_near(self, moment: float) -> bool:
        """Say whether a compaction is due within `prepare_calls` calls, as things go on.

        `moment` (FIRST_CALL or MID_TURN) says how full the account must be at those calls.
        """
        calls = self.limits.prepare_calls
        if calls <= 0 or self.is_paused or self.is_stuck:
            return False
        ahead = calls * max(0.0, find_growth(self.transcript) or 0.0)
        if self.window is not None:
            ahead = min(ahead, MOST_AHEAD_SHARE * self.window)
        if should_compact(self.used, self.limits, self.facts, ahead_tokens=ahead):
            return True
        bill = self.bill()
        return bill is not None and bill.is_due(self.limits.alpha * moment, calls)

    @property
    def is_cold(self) -> bool:
        """Say whether the provider's prompt cache has forgotten the prompt, and that costs money.

        Not known of a session that was resumed and has sent nothing yet.
        """
        if self.requested_at is None or not self.options.prompt_cache:
            return False
        ends = self.requested_at + CACHE_S[self.options.cache_ttl]
        return self.facts.prices is not None and self.ports.clock.now() >= ends

    def pays_when_cold(self) -> bool:
        """Say whether a summary now would pay for itself if the prompt cache forgot the prompt."""
        is_automatic = self.limits.compaction in PROACTIVE_PRESETS
        if not is_automatic or not self.options.prompt_cache or self.requested_at is None:
            return False
        bill = self._bill(in_background=True)
        return bill is not None and bill.pays_when_cold and not (self.is_paused or self.is_stuck)

    def bill(self) -> Bill | None:
        """Return the account of the preset `economic`; None with another, or without prices."""
        if self.limits.compaction != "economic":
            return None
        return self._bill(in_background=self.limits.prepare_calls > 0)

    def _bill(self, *, in_background: bool) -> Bill | None:
        options = self.options
        weights = Weights.of(
            self.facts.prices,
            cached=options.prompt_cache,
            ttl=options.cache_ttl,
            prompt_tokens=self.used.total,
        )
        if weights is None:
            return None
        prefix = self.meter.prefix_tokens(self.account.factor)
        instruction = self.meter.estimate_text(self.summary_text)
        budgets = Budgets.of(self.limits, self.window, prefix)
        return self.account.bill(budgets, weights, instruction, in_background=in_background)

    def _multiple(self, moment: float = math.inf) -> float:
        """Return how often the account must hold a compaction's price before the next call."""
        now = FIRST_CALL if self.account.is_first_call else MID_TURN
        return self.limits.alpha * min(now, moment)

    def _steps_left(self, used: Used, bill: Bill | None) -> int | None:
        """Return the smaller of the forecasts by reserve and account, the latter within one turn.

        None before three measured steps.
        """
        growth = find_growth(self.transcript)
        steps = [find_steps_left(growth, used, self.window, self.reserve)]
        if bill is not None and growth is not None:
            is_due = bill.is_due(self._multiple())
            steps.append(0 if is_due else bill.steps_left(self.limits.alpha * MID_TURN, growth))
        return min((count for count in steps if count is not None), default=None)

    @property
    def can_compact_reactively(self) -> bool:
        """Say whether a prompt the provider finds too long may be compacted by itself."""
        is_automatic = self.limits.compaction not in ("manual", "off")
        return is_automatic and not self.is_paused and not self.is_stuck

    def learn_bytes(self) -> None:
        """Take from a refusal by bytes that a request of the present weight is too much.

        For this kernel's life; a provider may take less than the 32 MB of Anthropic's own.
        """
        if self.weight.bytes > LEAST_MOST_BYTES:
            self.most_bytes = min(self.most_bytes, self.weight.bytes - 1)

    def learn_overflow(self, error: PromptTooLongError) -> None:
        """Take the window, and how far the estimate was off, from a refusal's numbers."""
        self._learn(error.actual_tokens, error.limit_tokens)

    def learn_window(self, error: PromptTooLongError) -> None:
        """Take the window from a refusal that names one smaller than what was known."""
        self._learn(None, error.limit_tokens)

    def _learn(self, actual: int | None, limit: int | None) -> None:
        """Record what a refusal taught, so that a resumed session knows it too."""
        known = self.window
        if limit is not None and known is not None and limit >= known:
            limit = None
        if actual is not None or limit is not None:
            self.record(OverflowEntry(self.ports.clock.now(), actual, limit))

    def _use_learnt_window(self) -> None:
        learnt, known = self.transcript.learnt_windows.get(self.facts.name), self.window
        if learnt is not None and (known is None or learnt < known):
            self.facts = replace(self.facts, window_tokens=learnt, window_source="error")

    def largest_parts(self) -> str:
        """Return the three largest parts of the window in words, for a message."""
        return describe_largest_parts(self.meter.parts(self.transcript))

    def context(self) -> dict[str, object]:
        """Return the JSON of `/context`; what is still arriving counts as conversation."""
        arriving = self.streaming_chars // 4
        parts = dict(self.meter.parts(self.transcript))
        parts["conversation"] += arriving
        used = self.used
        facts = SessionFacts(
            model=self.ports.model.name,
            window_tokens=self.window,
            window_source=self.facts.window_source,
            reserve_tokens=self.reserve,
            mode=self.limits.compaction,
            usage=self.spent,
            cost_usd=self.cost_usd,
            compactions=len(self.transcript.compactions),
        )
        bill = self.bill()
        return build_context(
            facts,
            Used(used.measured, used.estimated + arriving),
            parts,
            self._steps_left(used, bill),
            bill,
        )

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

    def build_request(self, *, output_raised: bool = False) -> Request:
        """Return the next request: the frozen prefix and the whole view."""
        options = self.options
        wanted = options.output_tokens_raised if output_raised else options.output_tokens
        return self.request_for(self.transcript.view, self.output_limit(wanted))

    @property
    def can_raise_output(self) -> bool:
        """Say whether the raised output limit would let an answer be longer here and now."""
        options = self.options
        return self.output_limit(options.output_tokens_raised) > self.output_limit(
            options.output_tokens
        )

    def output_limit(self, wanted: int) -> int:
        """Return how long the next answer may be.

        However long it gets, the smallest result and a compaction still fit behind it: an answer
        that is cut goes on after that compaction. Only what was sent is summed up, so behind an
        answer that may fill most of the window, a step with a small prompt must fit as well.
        """
        keep = self.room().compaction_tokens + LEAST_RESULT_TOKENS
        if self.window is not None and self.used.total < self.window // 2:
            keep += LEAST_OUTPUT + int(self.window * SMALL_SHARE)
        return output_limit(wanted, self.used, self.limits, self.facts, keep_tokens=keep)

    def request_for(self, messages: Sequence[Message], max_tokens: int) -> Request:
        """Return a request of `messages` on the frozen prefix, its breakpoints in their places."""
        prefix = self.transcript.prefix
        tools: tuple[Json, ...] = prefix.tools if prefix else ()
        cached = self.options.prompt_cache
        return Request(
            model=self.ports.model.name,
            system=prefix.system if prefix else "",
            tools=tools,
            messages=tuple(messages),
            max_tokens=max_tokens,
            breakpoints=place_breakpoints(messages) if cached else (),
            cache_ttl=self.options.cache_ttl,
            thinking=self.options.thinking,
            effort=self.options.effort,
            previous_message_id=self._reply_ids.get(self.ports.model.name),
        )

    def new_reply(self, turn: int, step: int, first_block: int) -> Reply:
        """Return an empty reply to be filled by `call`."""
        fresh = f"jctx_{turn}_{step}_{len(self.transcript.entries)}"
        return Reply(self.ports.redactor, self.seen_ids, first_block, fresh)

    async def call(
        self, request: Request, reply: Reply, turn: int, step: int, *, silent: bool = False
    ) -> AsyncGenerator[CtxEvent, None]:
        """Make one model call, with retries, filling `reply` and telling what arrives.

        Raises the ModelError that ended it. `silent`: it asks for a summary, and only retries are
        told.
        """
        self.watch.check(request, turn, step, is_side=silent)
        clock, failed, began = self.ports.clock, 0, 0.0
        while True:
            try:
                async with aclosing(self._stream(request)) as stream:
                    async for delta in stream:
                        events = reply.take(delta, turn)
                        for event in events if not silent else ():
                            yield event
                if reply.done is None:
                    raise StreamBrokenError("The stream ended before the answer was complete.")
                if (beside := reply.done.beside) is not None:
                    self.record(SpentEntry(clock.now(), turn, beside, "beside the answer"))
                return
            except ModelError as error:
                failed += 1
                began = clock.monotonic() if failed == 1 else began
                spent_s = clock.monotonic() - began
                wait = next_wait(error, failed, spent_s, self.options.retry, random.random())
                if wait is None:
                    raise
                if not silent and (reply.blocks or reply.partial):
                    yield StepDiscarded(turn, step)
                reply.restart()
                retry = self.options.retry
                is_refused = isinstance(error, UnreachableError)
                tries = retry.connect_tries if is_refused else retry.tries
                yield RetryScheduled(turn, step, failed + 1, tries, wait, str(error))
                await clock.sleep(wait)

    async def _stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Pass the model's stream on as a generator that can be closed."""
        self.requested_at = self.ports.clock.now()
        stream = self.ports.model.stream(request)
        try:
            async for delta in stream:
                yield delta
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def store_reply(
        self, reply: Reply, content: tuple[Block, ...], turn: int, step: int, stop_reason: str
    ) -> None:
        """Record the reply's message; with its usage if the stream was complete."""
        message = Message("assistant", content)
        done = reply.done
        raw_tokens = self.meter.raw_new(self.transcript) if done else None
        self.record(
            MessageEntry(
                at=self.ports.clock.now(),
                turn=turn,
                step=step,
                kind="reply",
                message=message,
                model=self.ports.model.name,
                usage=done.usage if done else None,
                raw_tokens=raw_tokens,
                stop_reason=stop_reason,
                message_id=done.message_id if done else None,
                cache_miss=done.cache_miss if done else None,
            )
        )
