"""What other systems do on the same steps, by the rules they publish; token counts alone.

Each is a rule about when to shrink and what then stays. Shared by all, and kind to them: the same
system prompt, tools and steps; summaries as long as ours; a prompt cache that always reads the
whole common prefix; a summary call that reads the prompt from the cache. Left out: files read again
beyond the newest results, edits of the prompt by the provider. Numbers: the projects' sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jupyter_ctx.core.counts import MESSAGE_FRAME, TOOL_FRAME, image_tokens

from .billing import OUTPUT, READ, UNCACHED, WRITE
from .counting import COUNTER
from .trajectories import Conversation, Step

Kind = Literal["prompt", "reply", "results", "summary"]
PLACEHOLDER_TOKENS = 15
CLAUDE_CODE_RESERVE, OPENCODE_RESERVE = 33_000, 32_000


@dataclass(frozen=True, slots=True)
class Item:
    """A message: its tokens, and the events OpenHands counts it as. `parts`: of each result."""

    kind: Kind
    tokens: int
    events: int = 1
    parts: tuple[int, ...] = ()


@dataclass(slots=True)
class View:
    """What a system sends. Shrinking says from which message on the prompt is another."""

    window: int
    prefix: int
    summary: int
    instruction: int
    items: list[Item] = field(default_factory=list)
    tokens: int = 0
    common: int = 0
    cost: float = 0.0
    shrunk: int = 0
    peak: int = 0

    @property
    def prompt(self) -> int:
        """The tokens of the whole prompt."""
        return self.prefix + self.tokens

    def add(self, item: Item) -> None:
        """Append a message."""
        self.items.append(item)
        self.tokens += item.tokens

    def put(self, items: Sequence[Item], same: int) -> None:
        """Send these from now on, the first `same` of which are as before."""
        kept = self.prefix + sum(item.tokens for item in items[:same])
        self.items, self.tokens = list(items), sum(item.tokens for item in items)
        self.common = min(self.common, kept)
        self.shrunk += 1

    def summarize(self, *rest: Item, read: int | None = None) -> None:
        """Pay for a summary; it and `rest` are what stays.

        `read`: so many tokens are sent apart, uncached; None: the prompt is read from the cache.
        """
        self.pay_summary(read)
        self.put([Item("summary", self.summary), *rest], 0)

    def pay_summary(self, read: int | None = None) -> None:
        """Pay for a summary."""
        sent = READ * self.common if read is None else UNCACHED * read
        self.cost += sent + UNCACHED * self.instruction + OUTPUT * self.summary

    @property
    def newest_prompt(self) -> Item:
        """The user's newest words."""
        return next(item for item in reversed(self.items) if item.kind == "prompt")


Rule = Callable[[View], None]


@dataclass(frozen=True, slots=True)
class Policy:
    """A system: what it does before a call, and after a turn; its longest result, in characters.

    `make` gives its rule anew for each conversation. `is_threshold`: it waits for a share of the
    window. `cached`: it marks its prompts for the cache. `reserve`: tokens it keeps free whatever
    the window; on one that is no larger its own rule cannot work, and half is kept free.
    """

    name: str
    make: Callable[[], Rule]
    result_chars: int | None = None
    is_threshold: bool = False
    cached: bool = True
    reserve: int = 0
    after_turn: Rule = lambda view: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy came to.

    `over`: calls that did not fit, for which the oldest were cut away. `applies`: its rule is meant
    for such a window.
    """

    policy: str
    cost: float
    over: int
    peak: int
    shrunk: int
    calls: int
    applies: bool

    @property
    def is_valid(self) -> bool:
        """Its rule applies, and every call fitted."""
        return self.applies and self.over == 0


def run_policy(
    policy: Policy,
    conversation: Conversation,
    window: int,
    *,
    prefix: int,
    summary: int,
    instruction: int,
    kept_chars: int,
) -> Outcome:
    """Play the conversation by a policy.

    `kept_chars` bounds results where the policy has no bound of its own: what the engine keeps.
    """
    view, rule = View(window, prefix, summary, instruction), policy.make()
    most = policy.result_chars or kept_chars
    over = calls = 0
    for turn in conversation.turns:
        view.add(Item("prompt", MESSAGE_FRAME + COUNTER.count(turn.prompt[: max(most, 2_000)])))
        for step in turn.steps:
            rule(view)
            reply, results = items_of(step, most)
            over += _make_fit(view, reply.tokens)
            calls += 1
            _call(view, reply.tokens - MESSAGE_FRAME, policy.cached)
            view.add(reply)
            if results is not None:
                view.add(results)
        policy.after_turn(view)
    return Outcome(
        policy.name, view.cost, over, view.peak, view.shrunk, calls, policy.reserve < window
    )


def _make_fit(view: View, output: int) -> bool:
    """Cut the oldest away where the call would not fit; say whether that was needed."""
    if view.prompt + output <= view.window:
        return False
    items = list(view.items)
    tokens = view.tokens
    while len(items) > 1 and view.prefix + tokens + output > view.window:
        tokens -= items.pop(0).tokens
    view.put(items, 0)
    return True


def _call(view: View, output: int, cached: bool) -> None:
    prompt = view.prompt
    if cached:
        view.cost += READ * view.common + WRITE * (prompt - view.common)
    else:
        view.cost += UNCACHED * prompt
    view.cost += OUTPUT * output
    view.common = prompt if cached else 0
    view.peak = max(view.peak, prompt + output)


def items_of(step: Step, most_chars: int) -> tuple[Item, Item | None]:
    """Return a step's reply and its results, each result cut to `most_chars`."""
    count = COUNTER.count
    reply = MESSAGE_FRAME + (count(step.text) if step.text.strip() else 0)
    for call in step.calls:
        reply += count(call.name) + count(_json(call.input)) + TOOL_FRAME
    parts = []
    for call in step.calls:
        text, images = call.text, sum(map(image_tokens, call.output.images))
        parts.append(TOOL_FRAME + count(text[:most_chars]) + images)
    said = Item("reply", reply, max(1, len(step.calls)))
    if not parts:
        return said, None
    return said, Item("results", MESSAGE_FRAME + sum(parts), len(parts), tuple(parts))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# The rules ----------------------------------------------------------------------------------------


def _never() -> Rule:
    return lambda view: None


def _reserve(window: int) -> int:
    """Crush's reserve."""
    return 20_000 if window > 200_000 else window // 5


def _at_most_half(reserve: int, window: int) -> int:
    """Return a fixed reserve; where it is more than half of the window, half of it."""
    return min(reserve, window // 2)


def _cut_oldest(keep_share: float) -> Callable[[], Rule]:
    """A sliding window: near its end the oldest go, until so much of what fits is left."""

    def make() -> Rule:
        def rule(view: View) -> None:
            most = view.window - _reserve(view.window)
            if view.prompt <= most:
                return
            items, tokens = list(view.items), view.tokens
            target = view.prefix + (most - view.prefix) * keep_share
            while len(items) > 1 and (view.prefix + tokens > target or items[0].kind == "results"):
                tokens -= items.pop(0).tokens
            view.put(items, 0)

        return rule

    return make


def _crush() -> Rule:
    """Everything gives way to a summary and the request under way."""

    def rule(view: View) -> None:
        if view.window - view.prompt <= _reserve(view.window) and len(view.items) > 2:
            view.summarize(view.newest_prompt)

    return rule


def _claude_code() -> Rule:
    """20,000 for the summary and 13,000 as buffer; then the 5 newest results, 5,000 each."""

    def rule(view: View) -> None:
        if (
            view.window - view.prompt > _at_most_half(CLAUDE_CODE_RESERVE, view.window)
            or len(view.items) <= 2
        ):
            return
        parts = [part for item in view.items for part in item.parts][-5:]
        read_again = Item("results", sum(min(part, 5_000, view.window // 20) for part in parts))
        view.summarize(view.newest_prompt, read_again)

    return rule


def _words(view: View, most: int) -> list[Item]:
    """Return the user's words, newest first kept, as many as fit."""
    kept: list[Item] = []
    for item in reversed(view.items):
        if item.kind == "prompt":
            if item.tokens > most:
                break
            most -= item.tokens
            kept.append(item)
    return kept[::-1]


def _codex() -> Rule:
    """At 90 % of the window; the user's words stay, the newest 20,000 tokens of them."""

    def rule(view: View) -> None:
        if view.prompt > 0.9 * view.window and len(view.items) > 2:
            view.summarize(*_words(view, min(20_000, view.window // 4)))

    return rule


def _codex_background() -> Rule:
    """Prepared at 60 % of the window, beside the work, and applied three calls later."""
    begun: list[int] = []
    wait = [0]

    def rule(view: View) -> None:
        if begun:
            wait[0] -= 1
            if wait[0] <= 0:
                newer = view.items[begun.pop() :]
                words = _words(view, min(20_000, view.window // 4))
                words = [item for item in words if item not in newer]
                view.put([Item("summary", view.summary), *words, *newer], 0)
        elif view.prompt > 0.6 * view.window and len(view.items) > 2:
            view.pay_summary()
            begun.append(len(view.items))
            wait[0] = 3

    return rule


def _opencode() -> Rule:
    """32,000 kept for the answer; everything gives way to a summary."""

    def rule(view: View) -> None:
        if (
            view.window - view.prompt <= _at_most_half(OPENCODE_RESERVE, view.window)
            and len(view.items) > 2
        ):
            view.summarize(view.newest_prompt)

    return rule


def _prune(view: View) -> None:
    """After a turn: results before the newest 40,000 tokens of them go, if that frees 20,000."""
    newer = freed = 0
    pruned: dict[int, Item] = {}
    for index in range(len(view.items) - 1, -1, -1):
        item = view.items[index]
        if item.kind != "results":
            continue
        if newer > 40_000 and item.tokens > PLACEHOLDER_TOKENS * len(item.parts):
            left = PLACEHOLDER_TOKENS * max(1, len(item.parts))
            freed += item.tokens - left
            pruned[index] = Item("results", left, item.events, item.parts)
        newer += item.tokens
    if freed > 20_000:
        items = [pruned.get(index, item) for index, item in enumerate(view.items)]
        view.put(items, min(pruned))


def _openhands(most_events: int, keep_first: int) -> Callable[[], Rule]:
    """Over so many events the middle gives way to a summary, which is asked for apart, uncached."""

    def make() -> Rule:
        def rule(view: View) -> None:
            events = sum(item.events for item in view.items)
            over = view.prompt > 0.9 * view.window
            if (events <= most_events and not over) or len(view.items) <= keep_first + 2:
                return
            tail, count = len(view.items), 0
            room = min(most_events, events) // 2 - keep_first - 1
            while tail > keep_first + 1 and count + view.items[tail - 1].events <= room:
                tail -= 1
                count += view.items[tail].events
            gone = view.items[keep_first:tail]
            if not gone:
                return
            view.pay_summary(sum(item.tokens for item in gone))
            summary = Item("summary", view.summary)
            view.put([*view.items[:keep_first], summary, *view.items[tail:]], keep_first)

        return rule

    return make


POLICIES = (
    Policy("resend all, no cache", _never, cached=False),
    Policy("resend all, cached", _never),
    Policy("sliding window, each step", _cut_oldest(1.0)),
    Policy("sliding window, half at once", _cut_oldest(0.5)),
    Policy("Crush", _crush, 30_000, is_threshold=True),
    Policy("Claude Code", _claude_code, 30_000, is_threshold=True, reserve=CLAUDE_CODE_RESERVE),
    Policy("Codex 90 %", _codex, 40_000, is_threshold=True),
    Policy("Codex, background 60 %", _codex_background, 40_000, is_threshold=True),
    Policy(
        "opencode",
        _opencode,
        50_000,
        is_threshold=True,
        reserve=OPENCODE_RESERVE,
        after_turn=_prune,
    ),
    Policy("OpenHands, 240 events", _openhands(240, 2), 30_000),
    Policy("OpenHands, 80 events", _openhands(80, 4), 30_000),
)
