"""A case, carried out and judged: what holds of every session, whatever happens to it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from jupyter_ctx.config import Settings
from jupyter_ctx.core import due
from jupyter_ctx.core.blocks import words_of
from jupyter_ctx.core.entries import (
    CompactionEntry,
    Entry,
    ExcludeEntry,
    MessageEntry,
    ModelEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from jupyter_ctx.core.events import CtxEvent, TurnFinished, TurnStarted
from jupyter_ctx.core.pins import pin_notice
from jupyter_ctx.core.repair import repair
from jupyter_ctx.core.transcript import Transcript
from jupyter_ctx.core.view import build_view
from tests.direct import judge
from tests.fake_anthropic import FakeAnthropic, FakeModel
from tests.sequences import BINDS, FREE, WINDOWS, Act, Sent, World, make_act

UNPREPARED = {"prepare_calls": 0, "prepare_idle_s": 0.0}
"""No summary is made beside the conversation: such a one is lost with its kernel."""
PRESETS = ("economic", "crush", "crush", "claude-code", "manual", "off")
RANGES = re.compile(r"`prompt-(\d+)`(?: to `prompt-(\d+)`)?")
_BREAKS = (CompactionEntry, ExcludeEntry, ModelEntry, RepairEntry)
_BY_THE_USER = (RewindEntry, SummaryEditEntry, SummaryUndoEntry)


@dataclasses.dataclass(frozen=True)
class Case:
    """A window for each of the two models, the longest answer, settings, and what happens."""

    windows: tuple[int, int]
    acts: tuple[Act, ...]
    compaction: str = "crush"
    seed: int = 0
    max_output: int = 8_000
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def run(
        self,
        home: Path | None = None,
        watch: Callable[..., None] = lambda world, event: None,
        *,
        uses_http: bool = False,
    ) -> World:
        """Carry it out and return the world as it is then."""
        random.seed(self.seed)  # the jitter of retries
        models = {
            name: FakeModel(
                window=window,
                max_output=min(self.max_output, window),
                binds_thinking=name == BINDS,
            )
            for name, window in zip((BINDS, FREE), self.windows, strict=True)
        }
        worlds: list[World] = []
        start = FakeAnthropic if uses_http else judge
        # On windows as small as most of these no summary would be prepared before it is due.
        early = mock.patch.object(due, "MOST_AHEAD_SHARE", 1.0)
        with early, start(lambda body: worlds[0].answer(body), models=models) as fake:
            values: dict[str, Any] = {"compaction": self.compaction, **self.settings}
            made = Settings(model=BINDS, **values)
            worlds.append(World(fake, home, made, watch=watch, uses_http=uses_http))
            worlds[0].run(self.acts)
            worlds[0].close()
        return worlds[0]


def make_case(seed: int, *, twins: bool = False) -> Case:
    """Return what follows from a seed; `twins`: something that a resumed session can do the same.

    A seeded random makes longer sequences than Hypothesis would, in a tenth of the time.
    """
    choose = random.Random(seed).choice
    windows = choose(WINDOWS[:2] + WINDOWS), choose(WINDOWS[:2] + WINDOWS)
    count, is_calm = choose(range(1, 25)), choose((False, True))
    acts = tuple(make_act(choose, min(windows), twins=twins, is_calm=is_calm) for _ in range(count))
    preset, most = choose(PRESETS[: 4 if is_calm else None]), choose((8_000, 64_000))
    prepares = not twins and choose((True, True, False))
    return Case(windows, acts, preset, seed, most, {} if prepares else UNPREPARED)


# What is sent -----------------------------------------------------------------------------------


def assert_requests(world: World) -> None:
    """Hold every law of what is sent to every request of the session."""
    faults = [(r.number, r.error) for r in world.fake.refused]
    assert not faults, faults
    for sent in world.sent:
        assert sent.record.input_tokens <= (sent.record.window_tokens or 0)
    steps = [sent for sent in world.sent if not sent.is_summary]
    for before, now in itertools.pairwise(steps):
        assert_follows(before, now, world.session.transcript.entries)
    assert_rewinds(steps, world.session.transcript.entries)
    assert_nothing_is_forgotten(steps, world.session.transcript.entries)


def assert_follows(before: Sent, now: Sent, entries: Sequence[Entry]) -> None:
    """A request begins with the one before it, unless the transcript says what came between."""
    for key in ("system", "tools"):
        assert bare(now.record.json.get(key)) == bare(before.record.json.get(key)), key
    between = entries[before.entries : now.entries]
    if any(isinstance(entry, _BREAKS + _BY_THE_USER) for entry in between):
        return
    old, new = wires(before), wires(now)
    assert new[: len(old)] == old, (before.record.number, now.record.number)


def assert_rewinds(steps: Sequence[Sent], entries: Sequence[Entry]) -> None:
    """The first request after a rewind begins as the rewound turn's did, byte for byte.

    Where nothing was changed on purpose since, and no compaction came before either request.
    """
    for at, rewind in enumerate(entries):
        if not isinstance(rewind, RewindEntry):
            continue
        began = _place_of_prompt(entries, rewind.turn)
        old = next((sent for sent in steps if sent.entries > began), None)
        new = next((sent for sent in steps if sent.entries > at), None)
        if old is None or new is None or old.entries > at:
            continue
        if any(_is_prompt(entry) for entry in entries[began + 1 : old.entries]):
            continue  # the turn was given up before it sent anything
        since = [*entries[began : old.entries], *entries[at + 1 : new.entries]]
        if any(isinstance(entry, _BREAKS + _BY_THE_USER) for entry in since):
            continue
        if any(isinstance(e, (*_BREAKS[1:], *_BY_THE_USER[1:])) for e in entries[began:at]):
            continue
        kept = wires(old)[:-1]
        assert wires(new)[: len(kept)] == kept, (old.record.number, new.record.number)


def _is_prompt(entry: Entry) -> bool:
    return isinstance(entry, MessageEntry) and entry.kind == "prompt"


def _place_of_prompt(entries: Sequence[Entry], turn: int) -> int:
    return next(
        place
        for place, entry in enumerate(entries)
        if _is_prompt(entry) and getattr(entry, "turn", None) == turn
    )


def assert_nothing_is_forgotten(steps: Sequence[Sent], entries: Sequence[Entry]) -> None:
    """Each request has every pin once, word for word, and every prompt in words or by its name."""
    for sent, transcript in zip(steps, _transcripts(steps, entries), strict=True):
        text = "\n".join(_texts(sent.record.messages))
        for n, pin in transcript.pins.items():
            assert text.count(pin_notice(n, pin)) == 1, (sent.record.number, n)
        named = {
            n
            for first, last in RANGES.findall(text)
            for n in range(int(first), int(last or first) + 1)
        }
        for turn, prompt in transcript.prompts.items():
            assert turn in named or words_of(prompt)[:60] in text, (sent.record.number, turn)
        newest = words_of(transcript.prompts[max(transcript.prompts)])
        assert newest[:300] in text, (sent.record.number, newest[:80])


def _transcripts(steps: Sequence[Sent], entries: Sequence[Entry]) -> Iterator[Transcript]:
    """Yield the transcript as it was at each request; always the same one, gone on."""
    transcript = Transcript()
    for sent in steps:
        for entry in entries[len(transcript.entries) : sent.entries]:
            transcript.append(entry)
        yield transcript


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in the messages of a request."""
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["text"]
        value = value.get("content", ())
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def bare(value: Any) -> Any:
    """Return a message without its cache markers."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key != "cache_control"}
    return [bare(item) for item in value] if isinstance(value, list) else value


def wires(sent: Sent) -> list[str]:
    """Return the messages of a request as JSON, markers apart."""
    return [json.dumps(bare(m), ensure_ascii=False) for m in sent.record.messages]


def bodies(world: World) -> list[str]:
    """Return every request's body."""
    return [sent.record.body.decode() for sent in world.sent]


def figures(world: World) -> dict[str, object]:
    """Return what a session shows of its window and cost."""
    context = world.session.context()
    return {name: context[name] for name in ("used_tokens", "parts", "usage", "compactions")}


# The session itself -----------------------------------------------------------------------------


def watch(world: World, event: CtxEvent | None) -> None:
    """Check the session itself: at every event its sums, after every act its view."""
    session = world.session
    context: Any = session.context()
    assert sum(context["parts"].values()) == context["used_tokens"]
    if event is not None:
        return
    transcript = session.transcript
    assert build_view(transcript.entries) == tuple(transcript.view)
    if not world.is_open:
        assert repair(transcript.view) == tuple(transcript.view)
    events, world.events = world.events, []
    started = sum(isinstance(e, TurnStarted) for e in events)
    finished = [e for e in events if isinstance(e, TurnFinished)]
    assert started <= 1
    assert len(finished) == started - (started and world.given_up)
    if finished:
        assert events[-1] is finished[0]
        error = finished[0].error or ""
        assert not error.startswith(("Error in jupyter_ctx", "The turn did not end")), error
    assert not session.is_running
