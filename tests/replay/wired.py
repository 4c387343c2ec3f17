"""Plays a recorded conversation over HTTP: the real session and SDK, the strict fake of a protocol.

Prompts, replies and results come from the recording, as in `player`; here the requests are what the
adapter sends, and the cached tokens are what the fake reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from jupyter_ctx.config import Settings
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.entries import ExcludeEntry
from jupyter_ctx.core.events import CompactionFailed, CtxEvent, TurnFinished
from jupyter_ctx.core.window import Limits, summary_budget
from jupyter_ctx.session import Session
from jupyter_ctx.testing import FakeKernel, MemoryStore
from tests.fake_anthropic import Call, FakeAnthropic, FakeModel, Recorded, Reply, last_text, reply
from tests.fake_openai import FakeOpenAI
from tests.talk import COUNTER, MODEL, talk

from .figures import REPLY_CHARS_PER_TOKEN
from .player import SUMMARY_FILL, ReplayTools
from .trajectories import Conversation, Step, clipped

MESSAGES, COMPLETIONS = "Messages API", "Chat Completions"
OPENAI_MODEL = "gpt-5"
"""A name with known prices, so that compactions are weighed as on the other path."""
MOST_REPLY_CHARS = 12_000
"""A longer reply would be over the first output limit, and be asked for twice."""


@dataclass(frozen=True)
class Wired:
    """What came of one conversation over one protocol.

    `prompt` and `cached` are tokens of all prompts as the fake reports them, `counted` the cached
    ones as the session adds them up. `breaks`: requests that do not begin with the whole of the
    one before; `explained`: compactions and refusals. `failures`: turns, summaries, and requests
    that broke a rule of the protocol.
    """

    protocol: str
    window: int
    requests: int
    prompt: int
    cached: int
    counted: int | None
    breaks: int
    explained: int
    failures: tuple[str, ...]

    @property
    def share(self) -> float:
        """Which share of the prompts' tokens was read from the cache."""
        return self.cached / self.prompt

    @property
    def unexplained(self) -> int:
        """Breaks beyond compactions and refusals."""
        return max(0, self.breaks - self.explained)


def play_wired(conversation: Conversation, window: int, protocol: str) -> Wired:
    """Play the conversation over `protocol`, on a window of so many tokens."""
    reply_chars = min(MOST_REPLY_CHARS, int(REPLY_CHARS_PER_TOKEN * window))
    conversation = _with_plain_ids(clipped(conversation, reply_chars))
    script = _Script(window)
    store = MemoryStore()
    tools = ReplayTools(conversation, FakeKernel(), store)
    failures: list[str] = []

    def note(event: CtxEvent) -> None:
        match event:
            case TurnFinished(outcome=outcome, error=error) if outcome != "done":
                failures.append(str(error))
            case CompactionFailed(reason=reason):
                failures.append(f"compaction: {reason}")
            case _:
                pass

    with (
        _serve(script, window, protocol) as server,
        talk(server, tools=tools, store=store) as session,
    ):
        for turn in conversation.turns:
            script.steps = list(turn.steps)
            session.ask(turn.prompt, on_event=note)
        failures += [str(record.error) for record in server.refused]
        return _figures(server, session, window, protocol, failures)


def _serve(script: _Script, window: int, protocol: str) -> FakeAnthropic:
    facts = FakeModel(window=window, max_output=min(64_000, window // 2), binds_thinking=True)
    if protocol == MESSAGES:
        return FakeAnthropic(script, models={MODEL: facts})
    return FakeOpenAI(script, kind="llama.cpp", models={OPENAI_MODEL: facts})


class _Script:
    """Answers summaries with one of half its budget, everything else with the recorded steps."""

    def __init__(self, window: int) -> None:
        tokens = int(0.5 * summary_budget(Limits.of(Settings(model=MODEL)), window))
        self.steps: list[Step] = []
        self._summary = "## Task\n" + SUMMARY_FILL * (tokens // COUNTER.count(SUMMARY_FILL))

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        if last_text(dict(body)).startswith(INSTRUCTION_OPEN):
            return reply(self._summary)
        step = self.steps.pop(0)
        calls = [_fake_call(call.name, call.id, call.input) for call in step.calls]
        return reply(*([step.text] if step.text.strip() else []), tools=calls, chunk=4_000)


def _fake_call(name: str, id_: str, input_: Mapping[str, Any]) -> Call:
    return Call(name, id_, **input_)


def _with_plain_ids(conversation: Conversation) -> Conversation:
    """Return the conversation with ids that both fakes send as they are."""

    def step(old: Step) -> Step:
        calls = (replace(call, id=call.id.replace("toolu_", "c_")) for call in old.calls)
        return replace(old, calls=tuple(calls))

    turns = (replace(turn, steps=tuple(map(step, turn.steps))) for turn in conversation.turns)
    return replace(conversation, turns=tuple(turns))


# Figures ------------------------------------------------------------------------------------------


def _figures(
    server: FakeAnthropic,
    session: Session,
    window: int,
    protocol: str,
    failures: Sequence[str],
) -> Wired:
    sent = [record for record in server.messages if record.status == 200]
    read_prompt = _read_messages if protocol == MESSAGES else _read_completions
    prompts = [read_prompt(record.usage or {}) for record in sent]
    excluded = sum(isinstance(e, ExcludeEntry) for e in session.transcript.entries)
    return Wired(
        protocol=protocol,
        window=window,
        requests=len(sent),
        prompt=sum(whole for whole, _ in prompts),
        cached=sum(cached for _, cached in prompts),
        counted=session.total_usage.cache_read,
        breaks=count_breaks(sent, lambda r: last_text(r.json).startswith(INSTRUCTION_OPEN)),
        explained=len(session.transcript.compactions) + excluded,
        failures=tuple(failures),
    )


def count_breaks(requests: Sequence[Recorded], is_summary: Callable[[Recorded], bool]) -> int:
    """Return how many requests do not begin with all of the one before, by the fake's digests.

    A request for a summary is not gone on from: it is a step's prompt, the beginning of one or more
    than one, with the instruction behind; any other counts as a break too.
    """
    steps = [record for record in requests if not is_summary(record)]
    known = {digest for record in steps for digest in record.prefix_hashes}
    ends = {record.prefix_hashes[-1] for record in steps}
    own = sum(not _begins_with(after, before) for before, after in pairwise(steps))
    strange = [
        record
        for record in requests
        if is_summary(record)
        and record.prefix_hashes[-2] not in known
        and ends.isdisjoint(record.prefix_hashes)
    ]
    return own + len(strange)


def _begins_with(record: Recorded, before: Recorded) -> bool:
    end = len(before.prefix_hashes)
    return record.prefix_hashes[end - 1 : end] == before.prefix_hashes[-1:]


def _read_messages(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Return a prompt's tokens and the cached ones among them, as the Messages API tells them."""
    read = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + read, read


def _read_completions(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Return the same, as Chat Completions tells them."""
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
