"""How full the window is: the provider's own last figure, plus an estimate of what came since.

The estimate is a raw count times a factor learnt from the provider's figures. Images are counted by
their size, and a reply by what the provider said it cost: neither has anything to do with the
factor. All of it is a fold over the entries, so a resumed session has exactly the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from .blocks import (
    PARTS,
    Message,
    Part,
    images_of,
    json_bytes,
    message_to_wire,
)
from .counts import (
    MESSAGE_FRAME,
    TOOL_FRAME,
    Count,
    apportion,
    as_json,
    count_block,
    image_tokens,
    part_of,
)
from .entries import (
    CompactionEntry,
    CountEntry,
    Entry,
    ExcludeEntry,
    MessageEntry,
    ModelEntry,
    OverflowEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from .ports import Counter
from .transcript import Transcript

# API.md 3: decide on 1.15 x the estimated part; the weights and the clamp of the learnt factor.
SAFETY = 1.15
PRIOR_WEIGHT_TOKENS = 1_000
DECAY = 0.9
LEAST_FACTOR, MOST_FACTOR = 0.7, 2.5
# A single figure further off than this is no tokenizer's doing (earlier thinking dropped, say).
LEAST_RATIO, MOST_RATIO = 0.5, 4.0

# A prompt of so many tokens more than MOST_RATIO x the estimate teaches nothing (what a provider
# adds by itself is less). It still is the provider's figure, unless no window comes near it.
BELIEVED_TOKENS, MOST_TOKENS = 2_000, 10_000_000

# A comma and a space; and, in a prefix, the names of its fields and what stands around them.
MESSAGE_JOINT, PREFIX_FRAME = 2, 200

# Replies whose message is all that the provider counted as output.
_WHOLE_REPLIES = frozenset({"end_turn", "tool_use", "stop_sequence", "pause_turn"})


@dataclass(frozen=True, slots=True)
class Used:
    """What fills the window, in whole tokens: what the provider measured and what is estimated."""

    measured: int
    estimated: int

    @property
    def total(self) -> int:
        """Both together: what is shown."""
        return self.measured + self.estimated

    @property
    def cautious(self) -> int:
        """What decisions are taken on: 1.15 x the estimated part (API.md 3)."""
        return self.measured + math.ceil(SAFETY * self.estimated)


@dataclass(slots=True)
class _Tally:
    """The sum over the view's messages from `start` on; `next` is the first not yet added."""

    start: int = 0
    next: int = 0
    count: Count = field(default_factory=Count)

    def advance(self, view: Sequence[Message], count: Callable[[Message], Count]) -> Count:
        for index in range(self.next, len(view)):
            self.count.merge(count(view[index]))
        self.next = len(view)
        return self.count


@dataclass(frozen=True, slots=True)
class Weight:
    """What a request of system, tools and view weighs: its bytes on the wire, and its images."""

    bytes: int = 0
    images: int = 0

    def add(self, message: Message) -> Weight:
        """Return the sum with one more message."""
        size = json_bytes(message_to_wire(message)) + MESSAGE_JOINT
        return Weight(self.bytes + size, self.images + len(images_of(message)))


@dataclass(frozen=True, slots=True)
class _Base:
    """The provider's figure: the prefix and the first `messages` of the view are `tokens`.

    By the estimate they are `raw` tokens, not yet calibrated, and `fixed` ones. `is_odd`: it is so
    far from them that nothing is learnt from the next figure either.
    """

    messages: int
    tokens: int
    raw: int = 0
    fixed: int = 0
    is_odd: bool = False


class TokenMeter:
    """Counts what the window holds; `observe` must see every entry right after it was appended.

    `counter` gives raw counts; `prior` is the factor before anything was learnt. Set `prior` anew
    when the model is switched. Work is in proportion to what is new since the last question.
    """

    def __init__(self, counter: Counter, prior: float) -> None:
        self.prior = prior
        self._counter = counter
        self._true = self._estimated = 0.0
        self._model: str | None = None
        self._prefix: PrefixEntry | None = None
        self._prefix_count: tuple[PrefixEntry, Count] | None = None
        self._memo: dict[int, tuple[Message, Count]] = {}
        self._outputs: dict[int, tuple[Message, int]] = {}
        self._bases: list[_Base] = []
        self._told: _Base | None = None
        self._is_cut = False
        self._new = _Tally()
        self._all = _Tally()
        self._weight, self._weighed = Weight(), 0
        self._prefix_bytes: tuple[PrefixEntry | None, int] = None, PREFIX_FRAME

    @property
    def factor(self) -> float:
        """What a raw count is multiplied by: the prior, then what was learnt (0.7 to 2.5)."""
        learnt = (PRIOR_WEIGHT_TOKENS * self.prior + self._true) / (
            PRIOR_WEIGHT_TOKENS + self._estimated
        )
        return min(MOST_FACTOR, max(LEAST_FACTOR, learnt))

    def observe(self, entry: Entry, transcript: Transcript) -> None:
        """Take in `entry`, which `transcript` has just appended."""
        match entry:
            case MessageEntry(kind="reply"):
                self._observe_reply(entry, transcript.view)
            case PrefixEntry():
                self._prefix = entry
                self._void(transcript.view)
            case ModelEntry(model=model):
                if self._model not in (None, model):
                    self._true = self._estimated = 0.0
                    self._is_cut = False
                    self._void(transcript.view)
                self._model = model
            case OverflowEntry(actual_tokens=int(tokens)):
                self._observe_count(tokens, self.raw_new(transcript), transcript.view)
            case CountEntry(tokens=tokens, raw_tokens=raw) if tokens > 0:
                raw = self.raw_new(transcript) if raw is None else raw
                self._observe_count(tokens, raw, transcript.view)
            case ExcludeEntry():
                self._shorten(transcript.view)
            case (
                CompactionEntry()
                | SummaryEditEntry()
                | SummaryUndoEntry()
                | RewindEntry()
                | RepairEntry()
            ):
                self._void(transcript.view)
            case _:
                pass

    def _observe_count(self, tokens: int, raw_tokens: int, view: Sequence[Message]) -> None:
        """Take in that the provider counted `tokens` for prefix and `view`."""
        fixed = self._fixed_since_base(view, len(view))
        if tokens <= MOST_TOKENS:
            self._teach(tokens, raw_tokens, fixed)
            self._set_base(len(view), tokens, raw_tokens, fixed)

    def used(self, transcript: Transcript) -> Used:
        """Return what fills the window now. Never 0 for a transcript that holds anything."""
        return Used(self._base.tokens, self._calibrate(self._count_new(transcript.view)))

    def shown(self, transcript: Transcript) -> Used:
        """Return the same as it is shown: by the provider's last sum, even if of a part only."""
        told, view = self._told, transcript.view
        if told is None or told.messages <= self._base.messages:
            return self.used(transcript)
        new = Count()
        for message in view[told.messages :]:
            new.merge(self._count_message(message))
        return Used(told.tokens, self._calibrate(new))

    def measured(self, transcript: Transcript) -> int | None:
        """Return the provider's figure if it covers the whole view, None if it does not.

        Counts nothing.
        """
        base = self._bases[-1] if self._bases else None
        covers = base is not None and base.messages == len(transcript.view)
        return base.tokens if base is not None and covers else None

    def is_plausible(self, tokens: int, transcript: Transcript) -> bool:
        """Say whether `tokens` can be the provider's count of the prompt as it is now.

        Not under half of the estimate: some servers count a part of it only. Nor is an earlier
        figure held against it: a refusal's may have been wrong, and would fill the window for good.
        """
        view = transcript.view
        estimate = min(self.used(transcript).total, self._calibrate(self._count_all(view)))
        fixed = self._fixed_since_base(view, len(view))
        is_believed = self._is_believed(tokens, self.raw_new(transcript), fixed)
        return is_believed and tokens >= max(1, LEAST_RATIO * estimate)

    def find_cut(self, input_tokens: int | None, transcript: Transcript) -> int | None:
        """Return what the prompt takes by the estimate if a provider counted only a part of it.

        Under half of what was sent without the replies, whose own thinking is counted once and not
        sent again. To be asked before the reply is appended; answered once for a model, since
        every later prompt would be the same news.
        """
        raw = self._base.raw + self.raw_new(transcript)
        estimate = math.ceil(raw * self.factor)
        is_cut = input_tokens is not None and 0 < input_tokens < LEAST_RATIO * estimate
        if self._is_cut or not is_cut or estimate < BELIEVED_TOKENS:
            return None
        self._is_cut = True
        return estimate

    def expect(self, prefix: PrefixEntry) -> None:
        """Estimate with `prefix` until one is recorded."""
        if self._prefix is None:
            self._prefix = prefix

    def prefix_tokens(self, factor: float) -> int:
        """Return the estimated tokens of system and tools, calibrated by `factor`."""
        return math.ceil(self._count_prefix().raw_tokens * factor)

    def raw_new(self, transcript: Transcript) -> int:
        """Return the raw tokens of what no figure covers yet: the next reply's `raw_tokens`.

        To be asked before that reply is appended: its usage measures exactly this as new input.
        """
        return self._count_new(transcript.view).raw_tokens

    def parts(self, transcript: Transcript) -> dict[Part, int]:
        """Return what each part of the gauge holds; they add up to `used(transcript).total`."""
        return self._share(self._count_all(transcript.view), self.shown(transcript).total)

    def share_request(self, messages: Iterable[Message], total: int) -> dict[Part, int]:
        """Return what each part has of a request of system, tools and `messages`.

        They add up to `total`, in tokens.
        """
        return self._share(self._count_request(messages), total)

    def weight(self, transcript: Transcript) -> Weight:
        """Return what a request weighs now; like all figures here, from what is new only."""
        view, prefix = transcript.view, self._prefix
        for index in range(self._weighed, len(view)):
            self._weight = self._weight.add(view[index])
        self._weighed = len(view)
        if self._prefix_bytes[0] is not prefix and prefix is not None:
            parts = [prefix.system, [dict(tool) for tool in prefix.tools]]
            self._prefix_bytes = prefix, PREFIX_FRAME + json_bytes(parts)
        return Weight(self._prefix_bytes[1] + self._weight.bytes, self._weight.images)

    def estimate_text(self, text: str) -> int:
        """Return the estimated tokens of `text`, rounded up."""
        return math.ceil(self._counter.count(text) * self.factor)

    def estimate_message(self, message: Message) -> int:
        """Return the estimated tokens of `message`, images included, rounded up."""
        return self._calibrate(self._count_message(message))

    def estimate_request(self, messages: Iterable[Message]) -> int:
        """Return the estimated tokens of system, tools and `messages` together, rounded up."""
        return self._calibrate(self._count_request(messages))

    # Figures ------------------------------------------------------------------------------------

    def _observe_reply(self, entry: MessageEntry, view: Sequence[Message]) -> None:
        usage = entry.usage
        used = usage.used_tokens if usage else None
        if usage is None or used is None:
            return
        sent, input_tokens = len(view) - 1, usage.input_tokens or 0
        if input_tokens > MOST_TOKENS:
            return
        fixed, output = self._fixed_since_base(view, sent), usage.output or 0
        raw, base = entry.raw_tokens or 0, self._base
        if input_tokens < LEAST_RATIO * LEAST_FACTOR * (base.raw + raw):
            self._told = _Base(len(view), used)  # of a part only: it would empty the window
            return
        if not self._is_believed(input_tokens, entry.raw_tokens, fixed):
            self._set_base(len(view), used, raw, fixed, is_odd=True)
            return
        if output and entry.stop_reason in _WHOLE_REPLIES:
            self._outputs[id(entry.message)] = entry.message, output
        self._teach(input_tokens, raw, fixed)
        self._set_base(len(view), used, raw, fixed + output)

    @property
    def _base(self) -> _Base:
        return self._bases[-1] if self._bases else _Base(0, 0)

    def _fixed_since_base(self, view: Sequence[Message], sent: int) -> int:
        return sum(self._fixed_tokens(view[i]) for i in range(self._base.messages, sent))

    def _is_believed(self, tokens: int, raw_new: int | None, fixed_new: int) -> bool:
        """Whether `tokens` can be what a prompt takes, however bad the estimate is.

        It has `raw_new` and `fixed_new` tokens more than the last figure covers.
        """
        base = self._base
        if raw_new is None:
            return tokens <= MOST_TOKENS
        raw, fixed = base.raw + raw_new, base.fixed + fixed_new
        known = 0 if base.is_odd else base.tokens + raw_new + fixed_new
        most = MOST_RATIO * max(raw + fixed, known) + BELIEVED_TOKENS
        return LEAST_RATIO * LEAST_FACTOR * raw <= tokens <= min(most, MOST_TOKENS)

    def _teach(self, input_tokens: int, raw_tokens: int, fixed_tokens: int) -> None:
        """Learn from the figure of a prompt with so many new tokens, of either kind, in it."""
        true: float = input_tokens - self._base.tokens - fixed_tokens
        if true <= 0 or raw_tokens <= 0 or self._base.is_odd:
            return
        true = min(MOST_RATIO * raw_tokens, max(LEAST_RATIO * raw_tokens, true))
        self._true = DECAY * self._true + true
        self._estimated = DECAY * self._estimated + raw_tokens

    def _set_base(
        self,
        messages: int,
        tokens: int,
        raw_new: int,
        fixed_new: int,
        *,
        is_odd: bool = False,
    ) -> None:
        raw, fixed = self._base.raw + raw_new, self._base.fixed + fixed_new
        self._bases.append(_Base(messages, tokens, raw, fixed, is_odd))
        self._new = _Tally(messages, messages)

    def _void(self, view: Sequence[Message]) -> None:
        """Forget every figure, since what they measured is no longer sent."""
        self._bases.clear()
        self._told = None
        self._recount(view)

    def _shorten(self, view: Sequence[Message]) -> None:
        """Go back to the newest figure that covers no more than what is left."""
        while self._bases and self._bases[-1].messages > len(view):
            self._bases.pop()
        if self._told is not None and self._told.messages > len(view):
            self._told = None
        self._recount(view)

    def _recount(self, view: Sequence[Message]) -> None:
        start = self._bases[-1].messages if self._bases else 0
        self._new, self._all = _Tally(start, start), _Tally()
        self._weight, self._weighed = Weight(), 0
        alive = {id(message) for message in view}
        self._memo = {key: kept for key, kept in self._memo.items() if key in alive}
        self._outputs = {key: kept for key, kept in self._outputs.items() if key in alive}

    # Counting -----------------------------------------------------------------------------------

    def _calibrate(self, count: Count) -> int:
        return math.ceil(count.raw_tokens * self.factor) + count.fixed_tokens

    def _count_new(self, view: Sequence[Message]) -> Count:
        """Return the count of what no figure covers."""
        count = Count()
        if not self._bases:
            count.merge(self._count_prefix())
        count.merge(self._new.advance(view, self._count_message))
        return count

    def _count_all(self, view: Sequence[Message]) -> Count:
        """Return the count of everything, whatever figures there are."""
        count = Count()
        count.merge(self._count_prefix())
        count.merge(self._all.advance(view, self._count_message))
        return count

    def _count_request(self, messages: Iterable[Message]) -> Count:
        """Return the count of system, tools and `messages` together."""
        count = Count()
        count.merge(self._count_prefix())
        for message in messages:
            count.merge(self._count_message(message))
        return count

    def _share(self, count: Count, total: int) -> dict[Part, int]:
        """Return `total` by part, as what was counted weighs."""
        weights = {
            part: count.raw.get(part, 0) * self.factor + count.fixed.get(part, 0) for part in PARTS
        }
        return apportion(weights, total)

    def _count_prefix(self) -> Count:
        if self._prefix is None:
            return Count()
        if self._prefix_count is None or self._prefix_count[0] is not self._prefix:
            count = Count()
            count.add("system", self._counter.count(self._prefix.system))
            for tool in self._prefix.tools:
                count.add("tools", self._counter.count(as_json(tool)) + TOOL_FRAME)
            self._prefix_count = self._prefix, count
        return self._prefix_count[1]

    def _count_message(self, message: Message) -> Count:
        known = self._memo.get(id(message))
        if known is None:
            known = self._memo[id(message)] = message, self._count_blocks(message)
        return known[1]

    def _count_blocks(self, message: Message) -> Count:
        count = Count()
        if id(message) in self._outputs:
            count.add("conversation", 0, self._outputs[id(message)][1])
            return count
        for block in message.content:
            count.add(part_of(block), *count_block(block, self._counter))
        count.add(part_of(message.content[0]), MESSAGE_FRAME)
        return count

    def _fixed_tokens(self, message: Message) -> int:
        """Return the message's fixed tokens; counts no text, so that loading a session is quick."""
        if id(message) in self._outputs:
            return self._outputs[id(message)][1]
        return sum(map(image_tokens, images_of(message)))
