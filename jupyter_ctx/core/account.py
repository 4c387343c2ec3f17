"""When a compaction pays for itself: the account of the preset `economic` (POLICY.md).

Law, before call t, in weighted tokens (1 is one uncached input token; r a token read from the
cache, w one written to it, o one of output):

    base_t = S + tail + carry-over + new_t    the prompt after a compaction now, without P
    D_t    = max(0, prompt_t - P - base_t)    what that compaction would drop
    K_t    = o S + instruction + r P + w (base_t - new_t)     its price
    compact if A + r D_t >= m K_t, and A = 0; else A = A + r D_t

S is the summary's budget, P system and tools, m 0.5 alpha before a turn's first call and 1.25 alpha
in mid-turn. A summary that is prepared in the background is a call beside the others, so K_t then
includes r x prompt_t. `new_t` was not sent yet and stays as it is, so `prompt_t - new_t` is the
prompt of the last call, which the provider has measured: D and A come from usage figures alone.

A is r times the tokens carried so far, and those are a fold over the entries: a resumed session has
the same account. No text is counted here; what a compaction would put back is guessed from bytes.
Guarantee, for constant K and no tail: at m = alpha, what carrying and compacting cost is at most
(1 + alpha) / min(1, alpha) times the least possible in hindsight.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .blocks import Message, words_of
from .entries import (
    CompactionEntry,
    Entry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SpentEntry,
    SummaryUndoEntry,
)
from .ports import CacheTtl
from .transcript import Transcript
from .usage import Prices
from .window import Limits, share_of, summary_budget

# POLICY.md, the rule: compact at good moments earlier.
FIRST_CALL, MID_TURN = 0.5, 1.25

# Guesses at what a compaction puts back: raw tokens of UTF-8, of a prompt that is given by its
# beginning (`reinjection.choose_instructions`), and of one line of the list of stored results.
BYTES_PER_TOKEN = 4
LONG_PROMPT_TOKENS, SHORT_PROMPT_TOKENS = 2_000, 170
RESULT_LINE_TOKENS = 30
_NOT_IN_LOG = frozenset({"pin", "plan", "skill", "variable", "cell", "file", "hook"})


@dataclass(frozen=True, slots=True)
class Weights:
    """Prices of one token, as multiples of an uncached input token."""

    read: float
    write: float
    output: float

    @classmethod
    def of(
        cls, prices: Prices | None, *, cached: bool, ttl: CacheTtl, prompt_tokens: int
    ) -> Weights | None:
        """Return the weights for a prompt of that length; None without an input price.

        With the cache off, reads and writes cost what all input costs. What a compaction leaves
        is short, so it is written at the lower price where there are two.
        """
        if prices is None or prices.input <= 0:
            return None
        now, unit = prices.at(prompt_tokens), prices.input
        if not cached:
            return cls(now.input / unit, 1.0, now.output / unit)
        write = prices.cache_write_1h if ttl == "1h" else prices.cache_write_5m
        return cls(now.cache_read / unit, write / unit, now.output / unit)


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a compaction would leave at most, in tokens, and the prefix, which always stays."""

    prefix: int
    summary: int
    tail: int
    instructions: int
    results: int

    @classmethod
    def of(cls, limits: Limits, window: int | None, prefix: int) -> Budgets:
        """Return the budgets that a compaction now would have."""
        return cls(
            prefix,
            summary_budget(limits, window),
            share_of(limits, "tail_tokens", window),
            share_of(limits, "instructions_tokens", window),
            share_of(limits, "results_tokens", window),
        )


@dataclass(frozen=True, slots=True)
class Bill:
    """The account at one moment, in weighted tokens; `droppable` in tokens, below 0 if none yet.

    `read` and `write` are the weights of one token read from the cache and written to it.
    """

    account: float
    price: float
    droppable: int
    read: float
    write: float = 0.0

    @property
    def carrying(self) -> float:
        """What the next call pays for tokens that a compaction would drop."""
        return self.read * max(0, self.droppable)

    def is_due(self, m: float, calls_ahead: int = 0) -> bool:
        """Say whether to compact before the next call; never if nothing would be dropped.

        With `calls_ahead`: before the call after so many more, if none of them added anything.
        """
        paid = self.account + self.carrying * (1 + calls_ahead)
        return self.droppable > 0 and paid >= m * self.price

    @property
    def pays_when_cold(self) -> bool:
        """Say whether writing what could be dropped to the cache anew costs more than a summary."""
        return self.write * self.droppable > self.price

    def steps_left(self, m: float, growth: float) -> int | None:
        """Return how many calls come before one that is due, if each adds `growth` tokens.

        0: it is due now. None: never, as things are. The price is taken as it is now.
        """
        if self.is_due(m):
            return 0
        if self.read <= 0 or (growth <= 0 and self.droppable <= 0):
            return None
        missing = (m * self.price - self.account) / self.read
        if growth <= 0:
            return max(0, math.ceil(missing / self.droppable) - 1)
        wait = max(0, math.floor(-self.droppable / growth) + 1) if self.droppable <= 0 else 0
        half, slope = growth / 2, self.droppable + wait * growth - growth / 2
        calls = (math.sqrt(max(0.0, slope * slope + 4 * half * missing)) - slope) / (2 * half)
        return wait + max(0, math.ceil(calls) - 1)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A prompt as the provider measured it, and what a compaction of it would put back.

    `must` are the tokens of the first and the newest instruction, `others` of those between.
    """

    tokens: int
    must: int
    others: int
    stored: int
    from_kernel: int

    def carry_over(self, budgets: Budgets) -> int:
        room = max(0, budgets.instructions - self.must)
        listed = min(budgets.results, self.stored * RESULT_LINE_TOKENS)
        return self.must + min(room, self.others) + listed + self.from_kernel


@dataclass(frozen=True, slots=True)
class _Void:
    """From here on the measured prompts are not those that are sent."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call was paid for; `sent` None: nobody measured its prompt."""

    sent: _Sent | None


@dataclass(slots=True)
class _Reading:
    """The sum over the log so far, for one set of budgets: what was carried, what is droppable."""

    budgets: Budgets
    read: int = 0
    carried: int = 0
    last: _Sent | None = None
    recent: deque[int] = field(default_factory=deque)
    is_full: bool = False

    def advance(self, log: Sequence[_Call | _Void]) -> None:
        for index in range(self.read, len(log)):
            event = log[index]
            if isinstance(event, _Void):
                self._forget()
                continue
            self.carried += max(0, self.droppable)
            if event.sent is not None:
                self._add(event.sent)
        self.read = len(log)

    def _add(self, sent: _Sent) -> None:
        """Keep the figures of the newest whole steps that fit the tail."""
        if self.recent and sent.tokens < self.recent[-1]:
            self._forget()
        self.last = sent
        self.recent.append(sent.tokens)
        while sent.tokens - self.recent[0] > self.budgets.tail:
            self.recent.popleft()
            self.is_full = True

    def _forget(self) -> None:
        self.recent.clear()
        self.last, self.is_full = None, False

    @property
    def left(self) -> int:
        """What a compaction of the last prompt leaves: summary, tail and carry-over.

        Steps from before the first figure are taken to fill the tail.
        """
        budgets, last = self.budgets, self.last
        if last is None:
            return budgets.summary + budgets.tail
        tail = last.tokens - self.recent[0] if self.is_full else budgets.tail
        return budgets.summary + tail + last.carry_over(budgets)

    @property
    def droppable(self) -> int:
        """D before its floor of 0; 0 if no prompt was measured."""
        return 0 if self.last is None else self.last.tokens - self.budgets.prefix - self.left


class Account:
    """Follows the entries; `observe` must see every one right after it was appended.

    `factor` is the calibration when the account began: the one to count P with, so that P does not
    move under it. `is_first_call` says that the next call is a turn's first. Work is in proportion
    to what is new; after a change of the budgets once to the calls since the account began.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        self.is_first_call = True
        self._log: list[_Call | _Void] = []
        self._reading: _Reading | None = None
        self._prompts: tuple[int, ...] = ()
        self._others = 0
        self._stored = 0
        self._from_kernel = 0

    def observe(
        self, entry: Entry, transcript: Transcript, measured: int | None, factor: float
    ) -> None:
        """Take in `entry`, which `transcript` has just appended.

        `measured` is the provider's figure if it covers the whole view, `factor` the calibration.
        """
        match entry:
            case MessageEntry(kind="prompt", message=message):
                self._take_prompt(_guess(message, factor))
            case MessageEntry(kind="reply", usage=usage):
                output = (usage.output or 0) if usage else 0
                self._log.append(_Call(None if measured is None else self._sent(measured - output)))
            case SpentEntry():
                self._log.append(_Call(None))
            case FateEntry(fate="offload"):
                self._stored += 1
            case CompactionEntry(reinjected=items):
                self._from_kernel = sum(item.tokens for item in items if item.kind in _NOT_IN_LOG)
                self._begin(factor)
            case SummaryUndoEntry() | RewindEntry() | RepairEntry():
                self._take_prompts(transcript.prompts, factor)
                self._stored = len(transcript.stored)
                self._begin(factor)
            case PrefixEntry() | ModelEntry():
                self._log.append(_Void())
                self.factor = factor
            case ExcludeEntry():
                self._take_prompts(transcript.prompts, factor)
                self._log.append(_Void())
            case _:
                pass
        if isinstance(entry, MessageEntry):
            ended = entry.kind == "reply" and entry.stop_reason == "end_turn"
            self.is_first_call = ended or entry.kind == "prompt"

    def bill(
        self,
        budgets: Budgets,
        weights: Weights,
        instruction_tokens: int,
        *,
        in_background: bool = False,
    ) -> Bill:
        """Return the account before the next call.

        `in_background`: the summary is a call beside the others, which reads the prompt once more.
        """
        reading = self._reading
        if reading is None or reading.budgets != budgets:
            reading = self._reading = _Reading(budgets)
        reading.advance(self._log)
        price = (
            weights.output * budgets.summary
            + instruction_tokens
            + weights.read * budgets.prefix
            + weights.write * reading.left
        )
        if in_background and reading.last is not None:
            price += weights.read * reading.last.tokens
        account = weights.read * reading.carried
        return Bill(account, price, reading.droppable, weights.read, weights.write)

    def _begin(self, factor: float) -> None:
        """Begin anew: what was carried before is settled."""
        self._log, self._reading, self.factor = [], None, factor

    def _take_prompts(self, prompts: Mapping[int, Message], factor: float) -> None:
        self._prompts, self._others = (), 0
        for turn in sorted(prompts):
            self._take_prompt(_guess(prompts[turn], factor))

    def _take_prompt(self, tokens: int) -> None:
        """Keep the first and the newest; one between is given by its beginning if it is long."""
        if len(self._prompts) == 2:
            between = self._prompts[1]
            self._others += between if between <= LONG_PROMPT_TOKENS else SHORT_PROMPT_TOKENS
        self._prompts = (*self._prompts[:1], tokens)

    def _sent(self, tokens: int) -> _Sent:
        return _Sent(tokens, sum(self._prompts), self._others, self._stored, self._from_kernel)


def _guess(prompt: Message, factor: float) -> int:
    return math.ceil(len(words_of(prompt).encode("utf-8", "replace")) / BYTES_PER_TOKEN * factor)
