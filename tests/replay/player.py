"""Plays a recorded conversation through the engine: its own requests, no kernel, no network.

Prompts, replies and results come from the recording; summaries are written by a script that keeps
the marked facts it finds. What each call costs is what the cache model says, and the engine hears
exactly that.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Block, Text, ToolUse, text_of
from jupyter_ctx.core.compaction import is_instruction
from jupyter_ctx.core.entries import CompactionEntry, ExcludeEntry
from jupyter_ctx.core.events import CompactionFailed, TurnFinished
from jupyter_ctx.core.ports import (
    BlockDone,
    Delta,
    ModelFacts,
    ReplyDone,
    Request,
    ToolOutput,
    ToolSpec,
)
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.core.usage import Prices
from jupyter_ctx.core.window import Limits, summary_budget
from jupyter_ctx.errors import PromptTooLongError
from jupyter_ctx.ipython.storedtexts import StoredTexts
from jupyter_ctx.session import Place, Ports, Session, SessionFile
from jupyter_ctx.testing import AllowAll, FakeClock, FakeKernel, InlineRunner, MemoryStore
from jupyter_ctx.tools import make_tools

from .billing import OUTPUT, READ, UNCACHED, WRITE, Charge, PromptCache
from .counting import COUNTER, Cl100kSizes
from .trajectories import Call, Conversation, Step, Turn, clip_input

MODEL = "replayed"
STEP_S = 10.0
"""What a step takes, by the clock of the replay."""
SUMMARY_FILL = "The part was read, checked and left as it is; its figures stand in the results. "
FACT = re.compile(r"\b(?:NAME|PATH)-[0-9]+\b")
"""Marked facts, which a summary must keep."""
PRICES = Prices(UNCACHED, OUTPUT, READ, WRITE, 2.0, "the replay's weights")


def facts_for(window: int) -> ModelFacts:
    """Return a model of that window, whose tokens are cl100k's."""
    return ModelFacts(
        MODEL, window, "api", min(64_000, window // 2), prices=PRICES, factor_prior=1.0
    )


def spec_of(name: str) -> ToolSpec:
    """Return a tool that was called in a recording."""
    schema = {"type": "object", "properties": {}}
    return ToolSpec(name, f"Runs `{name}` and gives its output.", schema, reads_only=True)


# What happened ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """One call: its input, its output tokens, and why its prefix was not that of the call before.

    `broke` is "" where it was.
    """

    is_summary: bool
    charge: Charge
    output: int
    broke: str = ""

    @property
    def weighted(self) -> float:
        """What the call costs, in weighted tokens."""
        return self.charge.weighted + OUTPUT * self.output


@dataclass(slots=True)
class Played:
    """A conversation that was played: every call, and the session as it ended."""

    conversation: Conversation
    window: int
    session: Session
    sent: list[Sent] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    refused: int = 0
    cut_replies: int = 0

    @property
    def cost(self) -> float:
        """All of it, in weighted tokens."""
        return sum(sent.weighted for sent in self.sent)

    @property
    def input_cost(self) -> float:
        """The input of all calls, in weighted tokens."""
        return sum(sent.charge.weighted for sent in self.sent)

    @property
    def least_input_cost(self) -> float:
        """Each token written once, and read once a step: what a perfect cache costs.

        Calls of a log that only grew; one token is paid for as input, the first time as a write.
        """
        sizes = [sent.charge.input for sent in self.sent]
        before = [0, *sizes]
        return sum(
            READ * old + WRITE * (new - old) for old, new in zip(before, sizes, strict=False)
        )

    @property
    def breaks(self) -> Mapping[str, int]:
        """How often the prefix was not that of the call before, by cause."""
        causes = [sent.broke for sent in self.sent if sent.broke]
        return {cause: causes.count(cause) for cause in sorted(set(causes))}

    @property
    def compactions(self) -> int:
        """How many there were."""
        return len(self.session.transcript.compactions)

    @property
    def refusals(self) -> int:
        """How many exchanges were taken off the end."""
        return sum(isinstance(e, ExcludeEntry) for e in self.session.transcript.entries)

    @property
    def peak(self) -> int:
        """The most tokens of a call, its answer included."""
        return max(sent.charge.input + sent.output for sent in self.sent)


# The ports ----------------------------------------------------------------------------------------


class ReplayModel:
    """Answers with the recording's replies, and bills as the cache model says.

    A request that comes while another is answered takes its reply when it is begun, so a summary
    may be asked for beside a step.
    """

    def __init__(self, facts: ModelFacts, summary_tokens: int, clock: FakeClock) -> None:
        self.facts = facts
        self.cache = PromptCache(Cl100kSizes())
        self.steps: list[Step] = []
        self.played: Played | None = None
        self.on_request: Callable[[Request], None] = lambda request: None
        self._summary_tokens = summary_tokens
        self._clock = clock
        self._last: Charge | None = None
        self._seen = 0

    @property
    def name(self) -> str:
        """The model's name."""
        return self.facts.name

    async def load_facts(self) -> ModelFacts:
        """Return the facts it was made with."""
        return self.facts

    async def count_tokens(self, request: Request) -> int | None:
        """Return the exact count."""
        return self.cache.count(request)

    async def aclose(self) -> None:
        """Nothing to close."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply, whole blocks at a time."""
        played = self.played
        assert played is not None
        tokens, window = self.cache.count(request), played.window
        if tokens + min(request.max_tokens, 1) > window:
            played.refused += 1
            raise PromptTooLongError(
                f"prompt is too long: {tokens} tokens > {window} maximum",
                actual_tokens=tokens,
                limit_tokens=window,
            )
        is_summary = is_instruction(request.messages[-1])
        self._clock.time += STEP_S
        charge = self.cache.charge(request, self._clock.time)
        blocks = self._summary(request) if is_summary else self._reply(request, window - tokens)
        output = sum(map(self.cache.sizes.block, blocks))
        broke = "" if is_summary else self._cause(charge, played)
        played.sent.append(Sent(is_summary, charge, output, broke))
        self.on_request(request)
        await asyncio.sleep(0)
        for block in blocks:
            yield BlockDone(block)
        has_calls = any(isinstance(block, ToolUse) for block in blocks)
        yield ReplyDone("tool_use" if has_calls else "end_turn", charge.usage(output))

    def _cause(self, charge: Charge, played: Played) -> str:
        """Say why less was read than the last step left in the cache; "" if nothing is missing."""
        last, self._last = self._last, charge
        entries = played.session.transcript.entries
        since, self._seen = entries[self._seen :], len(entries)
        if last is None or charge.read >= last.marked:
            return ""
        if any(isinstance(entry, CompactionEntry) for entry in since):
            return "compaction"
        if any(isinstance(entry, ExcludeEntry) for entry in since):
            return "refusal"
        return "first image" if charge.has_image != last.has_image else "unexplained"

    def _reply(self, request: Request, room: int) -> list[Block]:
        """Return the recorded reply; one longer than may be written now is cut."""
        step = self.steps.pop(0)
        most = min(request.max_tokens, room)
        blocks = _blocks(step, 1.0)
        tokens = sum(map(self.cache.sizes.block, blocks))
        keep = 1.0
        while tokens > most and keep > 0.01:
            keep *= 0.8 * most / tokens
            blocks = _blocks(step, keep)
            tokens = sum(map(self.cache.sizes.block, blocks))
        assert self.played is not None
        self.played.cut_replies += keep < 1
        return blocks

    def _summary(self, request: Request) -> list[Block]:
        """Return a summary of about its budget that keeps the facts marked in the request."""
        texts = [text_of(m.content) for m in request.messages[:-1]]
        facts = dict.fromkeys(fact for text in texts for fact in FACT.findall(text))
        told = f"## Findings\n{' '.join(facts)}\n## Task\n"
        left = int(0.9 * self._summary_tokens) - COUNTER.count(told)
        fill = SUMMARY_FILL * max(0, left // COUNTER.count(SUMMARY_FILL))
        return [Text(told + fill + "Go on.")]


def _blocks(step: Step, keep: float) -> list[Block]:
    """Return a reply's blocks, its texts cut to the share `keep`."""
    text = step.text if keep >= 1 else step.text[: int(len(step.text) * keep)]
    blocks: list[Block] = [Text(text)] if text.strip() else []
    for call in step.calls:
        blocks.append(
            ToolUse(call.id, call.name, clip_input(call.input, keep) if keep < 1 else call.input)
        )
    return blocks or [Text("Done.")]


class ReplayTools:
    """The real tools and those of the recording, whose calls bring what they brought there."""

    def __init__(self, conversation: Conversation, kernel: FakeKernel, store: SessionFile) -> None:
        ours = make_tools(kernel, StoredTexts(store), Settings(model=MODEL)).specs  # type: ignore[arg-type]  # never asked
        theirs = set(conversation.tools) - {spec.name for spec in ours}
        specs = [*ours, *map(spec_of, theirs)]
        self.specs: Sequence[ToolSpec] = sorted(specs, key=lambda spec: spec.name)
        self._calls: dict[str, Call] = {
            call.id: call
            for turn in conversation.turns
            for step in turn.steps
            for call in step.calls
        }

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        """Return the recorded output."""
        return self._calls[use.id].output


# Playing ------------------------------------------------------------------------------------------

NO_SETTINGS: Mapping[str, object] = {}
BeforeTurn = Callable[[Session, int], None]
Watch = Callable[[Session, Request], None]


def play(
    conversation: Conversation,
    window: int,
    *,
    store: SessionFile | None = None,
    before_turn: BeforeTurn = lambda session, turn: None,
    watch: Watch | None = None,
    settings: Mapping[str, object] = NO_SETTINGS,
) -> Played:
    """Play the conversation on a window of so many tokens; `settings` are the session's.

    `before_turn` is called with the turn's number from 1; `watch` sees every request as it is sent.
    """
    clock, kernel, facts = FakeClock(), FakeKernel(), facts_for(window)
    values = Settings(model=MODEL, **settings)  # type: ignore[arg-type]  # checked by Settings
    model = ReplayModel(facts, summary_budget(Limits.of(values), window), clock)
    store = store or MemoryStore()
    ports = Ports(
        model=model,
        counter=COUNTER,
        tools=ReplayTools(conversation, kernel, store),
        store=store,
        clock=clock,
        kernel=kernel,
        permissions=AllowAll(),
        runner=InlineRunner(),
        redactor=Redactor({}),
        make_model=lambda name: model,
        known_facts=lambda name: facts,
    )
    place = Place("replay", None, "/home/user", "Linux", "2026-01-01", "0")
    session = Session((), values, place, ports)
    played = model.played = Played(conversation, window, session)
    if watch is not None:
        model.on_request = lambda request: watch(session, request)
    asyncio.run(_run(played, model, before_turn))
    return played


async def _run(played: Played, model: ReplayModel, before_turn: BeforeTurn) -> None:
    for number, turn in enumerate(played.conversation.turns, 1):
        before_turn(played.session, number)
        await _run_turn(played, model, turn)
    await played.session.aclose()


async def _run_turn(played: Played, model: ReplayModel, turn: Turn) -> None:
    model.steps = list(turn.steps)
    async for event in played.session.run(turn.prompt):
        match event:
            case TurnFinished(outcome=outcome, error=error) if outcome != "done":
                played.failures.append(str(error))
            case CompactionFailed(reason=reason):
                played.failures.append(f"compaction: {reason}")
            case _:
                pass
