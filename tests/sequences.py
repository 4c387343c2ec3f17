"""Whatever may happen to a session, as plain data, and a world in which it happens.

A sequence is a list of acts: turns with their answers and faults, stops at any await, kills,
compactions, rewinds, edits, undos, switches, pins, budgets, waits, resumes. It is made by a
`Choose` (Hypothesis, or a seeded random) and carried out by a `World`, which watches every request.
The same sequence gives the same requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from jupyter_ctx.config import Settings
from jupyter_ctx.core import background
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.entries import Entry
from jupyter_ctx.core.events import CtxEvent, StepFinished, TurnFinished
from jupyter_ctx.core.ports import (
    Allowed,
    Cell,
    Denied,
    Execution,
    Model,
    ToolOutput,
    ToolSpec,
    Variable,
)
from jupyter_ctx.core.redact import Redactor
from jupyter_ctx.errors import CompactionError, PromptError, ToolError
from jupyter_ctx.models.anthropic import AnthropicModel
from jupyter_ctx.session import Place, Ports, Session
from jupyter_ctx.store.sessions import SessionStore, find_repairs
from jupyter_ctx.testing import FakeClock, FakeKernel, InlineRunner, MemoryStore
from tests.direct import DirectModel, NearCounter, facts_of
from tests.fake_anthropic import (
    NO_USAGE,
    Call,
    FakeAnthropic,
    FakeModel,
    Raw,
    Recorded,
    Text,
    Thinking,
    corrupt,
    disconnect,
    error_event,
    last_text,
    no_stop_reason,
    status,
    too_large,
    too_long,
    truncate,
)
from tests.fake_anthropic.script import Broken, Given, Reply, Status
from tests.pictures import png

T = TypeVar("T")
BINDS, FREE = "claude-sonnet-5-5", "claude-sonnet-5"
WINDOWS = (8_000, 16_000, 64_000, 200_000)
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SIZES = (0, 1, 40, 300, 3_000, 9_000, 40_000, 200_000)

Choose: TypeAlias = Callable[[Sequence[Any]], Any]
How: TypeAlias = Literal["cancel", "give up", "kill"]


# What may happen --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A text: what it is made of, and how many characters."""

    kind: str
    chars: int

    @property
    def text(self) -> str:
        """The text itself."""
        unit = {
            "prose": "In the table of the year, the mean was taken twice. ",
            "cjk": "数据分析的结果表明平均值上升。",
            "digits": "3.14159 2.71828 1.41421 ",
            "code": "for i in range(10):\n    print(i, end='\\t')\n",
            "blank": " \n",
            "error": "Traceback (most recent call last):\nValueError: no such column\n",
        }[self.kind]
        return (unit * (self.chars // len(unit) + 1))[: self.chars]


@dataclass(frozen=True)
class Words(Piece):
    """A text given as it is."""

    kind: str
    chars: int = 0

    @property
    def text(self) -> str:
        """The text itself."""
        return self.kind


@dataclass(frozen=True)
class Stop:
    """Something ends the act at its await number `at` (from 1), or its event where it is given up.

    0: it is given up as soon as a step is done, before its tools run.
    """

    at: int
    how: How = "cancel"


@dataclass(frozen=True)
class Turn:
    """A prompt, the answers it gets (then "Done."), and those to requests for a summary.

    `drains`: as soon as a prepared summary could be used, the prompt is found too long, once.
    """

    prompt: Piece
    answers: tuple[Given, ...] = ()
    summaries: tuple[Given, ...] = ()
    stop: Stop | None = None
    drains: bool = False


@dataclass(frozen=True)
class Compact:
    """`/compact`."""

    summaries: tuple[Given, ...] = ()
    focus: str = ""
    stop: Stop | None = None


@dataclass(frozen=True)
class Switch:
    """`/model`: to the other of the two."""


@dataclass(frozen=True)
class Pin:
    """`/pin`: a text that must survive."""

    text: str


@dataclass(frozen=True)
class Unpin:
    """`/unpin`: of those in force, the one at `place` from the first (cyclic)."""

    place: int = 0


@dataclass(frozen=True)
class Rewind:
    """`/rewind`: to before the turn that stands at `back` from the newest (1), as far as there are.

    A far one goes past compactions.
    """

    back: int = 1


@dataclass(frozen=True)
class EditSummary:
    """`/summary edit`."""

    text: str


@dataclass(frozen=True)
class UndoSummary:
    """`/summary undo`."""


@dataclass(frozen=True)
class Budget:
    """`/budget`: what each turn is to write, in tokens; 0: none."""

    tokens: int


@dataclass(frozen=True)
class Wait:
    """Nobody asks anything for so long; what is prepared beside the conversation goes on."""

    seconds: float


@dataclass(frozen=True)
class Resume:
    """The kernel is restarted and the session loaded from what was stored."""


Change: TypeAlias = Pin | Unpin | Rewind | EditSummary | UndoSummary | Budget
Act: TypeAlias = Turn | Compact | Switch | Change | Wait | Resume


# Making sequences -------------------------------------------------------------------------------


def make_piece(choose: Choose, sizes: Sequence[int] = SIZES) -> Piece:
    """Return a text of any kind."""
    kinds = ("prose", "cjk", "digits", "code", "blank", "error")
    return Piece(choose(kinds), choose(sizes))


def make_call(choose: Choose) -> Call:
    """Return a tool call: mostly a good one."""
    ids = (None,) * 6 + ("same", "not a wire id!", "x" * 200, "数据")
    name = choose(("make", "make", "make", "bounded", "fly"))
    input_: dict[str, object] = {"kind": choose(("prose", "cjk", "digits", "code", "blank"))}
    input_["chars"] = choose(SIZES)
    trouble = choose(("", "", "", "", "image", "images", "error", "raise", "interrupt", "deny"))
    if trouble:
        input_["trouble"] = trouble
    raw = choose((None,) * 9 + ('{"chars": 3, "ki',))
    return Call(name, _id=choose(ids), _raw=raw, **input_)


def make_reply(choose: Choose) -> Reply:
    """Return a whole reply: thinking, texts and calls in any order, or nothing at all."""
    parts: list[Any] = []
    for kind in choose(
        (
            *("text", "thinking text", "thinking text calls", "thinking calls", "text calls"),
            *("calls", "calls thinking", "thinking calls thinking calls", "thinking text thinking"),
            *("", "thinking", "text thinking", "redacted text opaque calls"),
        )
    ).split():
        match kind:
            case "text":
                parts.append(Text(make_piece(choose, (0, 1, 60, 60, 2_000, 12_000)).text))
            case "thinking" | "redacted":
                thought = make_piece(choose, (1, 60, 2_000)).text
                parts.append(Thinking(thought, redacted=kind == "redacted"))
            case "opaque":
                parts.append(Raw(SEARCH))
            case _:
                parts += [make_call(choose) for _ in range(choose((1, 1, 2, 4)))]
    stops = (None,) * 8 + ("max_tokens", "model_context_window_exceeded", "pause_turn")
    stop = choose((*stops, "refusal", "stop_sequence", "end_turn"))
    usage = choose((None,) * 9 + (NO_USAGE,))
    return Reply(tuple(parts), stop, usage, chunk=400)


def make_fault(choose: Choose, window: int) -> Given:
    """Return an answer that is a fault."""
    faults: tuple[Given, ...] = (
        status(529),
        status(429, retry_after=7),
        status(429, retry_after=900),
        status(500),
        status(400, "something is wrong"),
        status(401, "invalid x-api-key"),
        status(400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        disconnect(),
        disconnect(4),
        truncate(),
        corrupt(),
        no_stop_reason(),
        error_event("overloaded_error"),
        error_event("invalid_request_error"),
        too_long(window + window // 20, window),
        too_long(window * 9 // 10, window * 8 // 10),
        too_large(),
    )
    fault: Given = choose(faults)
    return fault


def make_answers(choose: Choose, window: int, most: int) -> tuple[Given, ...]:
    """Return the answers of a turn."""
    return tuple(
        make_fault(choose, window) if choose(range(6)) == 5 else make_reply(choose)
        for _ in range(choose(range(most + 1)))
    )


def make_summaries(choose: Choose, window: int) -> tuple[Given, ...]:
    """Return answers to requests for a summary; none: all of them succeed."""
    kind = choose(("good",) * 5 + ("fault", "long", "long", "cut", "call", "empty"))
    match kind:
        case "good":
            return ()
        case "fault":
            return (make_fault(choose, window),)
        case "long":
            return (Reply((Text(make_piece(choose, (3_000, 40_000, 40_000)).text),)),)
        case "cut":
            return (Reply((Text("half a sum"),), "max_tokens"),)
        case "call":
            return (Reply((Text("I look."), Call("make", chars=3))),)
    return (Reply(()),)


def make_stop(choose: Choose, *, twins: bool) -> Stop | None:
    """Return a stop, mostly none."""
    if choose(range(4)) != 3:
        return None
    ways: tuple[How, ...] = ("cancel",) if twins else ("cancel", "give up", "kill")
    how = choose(ways)
    soonest = (0,) * 9 if how == "give up" else ()
    return Stop(choose((*soonest, *range(1, 16), *range(1, 40))), how)


def make_turn(choose: Choose, window: int, *, twins: bool = False, most: int = 5) -> Turn:
    """Return a turn of up to `most` answers."""
    return Turn(
        make_piece(choose, (1, 1, 30, 30, 300, 3_000, 60_000)),
        make_answers(choose, window, most),
        make_summaries(choose, window),
        make_stop(choose, twins=twins),
    )


def make_work(choose: Choose, window: int) -> Turn:
    """Return a turn of steps that bring something: an overflow is all that goes wrong."""
    answers: list[Given] = []
    for _ in range(choose(range(9))):
        made = Call("make", kind=choose(("prose", "digits")), chars=choose((300, 3_000, 9_000)))
        step = Reply((Thinking("hm"), Text(Piece("prose", choose((60, 2_000))).text), made))
        answers.append(choose((*(step,) * 9, too_long(window + window // 20, window))))
    prompt = Piece("prose", choose((30, 300, 3_000)))
    summaries = choose(((), make_summaries(choose, window)))
    return Turn(prompt, tuple(answers), summaries, drains=choose((False, False, True)))


def make_act(choose: Choose, window: int, *, twins: bool = False, is_calm: bool = False) -> Act:
    """Return one act; `is_calm`: mostly work; `twins`: one that a resumed session does the same."""
    by_the_user = ("switch", "pin", "unpin", "rewind", "edit", "undo", "budget", "resume", "wait")
    often = ("compact",) * 4 + ("rewind", "edit", "edit", "undo")
    match choose(("turn",) * 16 + often + by_the_user):
        case "turn" if is_calm:
            return make_work(choose, window)
        case "turn":
            return make_turn(choose, window, twins=twins)
        case "compact":
            summaries, stop = make_summaries(choose, window), make_stop(choose, twins=twins)
            return Compact(summaries, choose(("", "the columns")), stop)
        case "switch":
            return Switch()
        case "pin":
            return Pin(f"pin {choose(range(1_000))}")
        case "unpin":
            return Unpin(choose(range(3)))
        case "rewind":
            return Rewind(choose((1, 1, 2, 3, 5, 9)))
        case "edit":
            return EditSummary(f"Edited: {make_piece(choose, (1, 60, 2_000)).text}")
        case "undo":
            return UndoSummary()
        case "budget":
            return Budget(choose((0, 50, 2_000, 20_000)))
        case "wait":
            return Wait(choose((1.0, 245.0, 400.0, 4_000.0)))
    return Resume()


# Carrying them out ------------------------------------------------------------------------------


class _Kernel(FakeKernel):
    """A kernel whose questions take an await."""

    def __init__(self, point: Callable[[], Any]) -> None:
        super().__init__({"df": [1], "数": 2})
        self.cells = [Cell("aaa", "df = load('a.csv')", 1, 1), Cell("bbb", "# ~~~\n" * 30, 2, 2)]
        self._point = point

    async def load_variables(self) -> Sequence[Variable]:
        await self._point()
        return await super().load_variables()

    async def load_cells(self) -> Sequence[Cell]:
        await self._point()
        return await super().load_cells()

    async def run_code(self, code: str) -> Execution:
        raise AssertionError("no tool of these sequences runs code")


_TURNS_OF_THE_LOOP = 200
SCHEMA = {"type": "object", "properties": {}}


class _Tools:
    """Tools whose results are what their input says."""

    specs: Sequence[ToolSpec] = (
        ToolSpec("bounded", "Bounds itself.", SCHEMA, reads_only=True, offloads=False),
        ToolSpec("make", "Makes a result.", SCHEMA, reads_only=False, permission="make"),
    )

    def __init__(self, point: Callable[[], Any]) -> None:
        self._point = point
        self.ran: list[ToolUse] = []

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        await self._point()
        self.ran.append(use)
        input_, trouble = use.input, use.input.get("trouble")
        if use.name not in ("make", "bounded") or trouble == "raise":
            raise ToolError(f"There is no tool {use.name}, or it cannot.")
        text = Piece(str(input_.get("kind", "prose")), int(str(input_.get("chars", 0)))).text
        if "number" in input_:  # a fact that stands nowhere else
            half = len(text) // 2
            text = f"{text[:half]}HIDDEN-{input_['number']}{text[half:]}"
        images = (_PICTURE,) * {"image": 1, "images": 7, "error": 1}.get(str(trouble), 0)
        return ToolOutput(
            text[:cap_chars] if use.name == "bounded" else text,
            images,
            is_error=trouble == "error",
            interrupted=trouble == "interrupt",
        )


_PICTURE = png(560, 280)


class _Permissions:
    def __init__(self, point: Callable[[], Any]) -> None:
        self._point = point

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        await self._point()
        return Denied("Denied by the user: no") if use.input.get("trouble") == "deny" else Allowed()


@dataclass
class Sent:
    """One request: what was sent, in which act, and how many entries there were then."""

    record: Recorded
    act: int
    entries: int

    @property
    def is_summary(self) -> bool:
        """It asks for a summary."""
        return last_text(self.record.json).startswith(INSTRUCTION_OPEN)


@dataclass
class World:
    """A session and all that surrounds it; `watch` sees it after every act and at every event.

    `home` None keeps the session in memory. `uses_http`: the fake is asked through the SDK.
    """

    fake: FakeAnthropic
    home: Path | None = None
    settings: Settings = field(default_factory=lambda: Settings(model=BINDS))
    model: str = BINDS
    watch: Callable[[World, CtxEvent | None], None] = lambda world, event: None
    uses_http: bool = False
    act: int = 0
    answers: list[Given] = field(default_factory=list)
    summaries: list[Given] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    events: list[CtxEvent] = field(default_factory=list)
    points: int = 0
    stop: Stop | None = None
    given_up: bool = False
    open_since: int | None = None
    snapshot: list[Entry] | Path | None = None
    explained: bool = False
    budget: int = 0
    drains: bool = False
    refusals: int = 0
    cwd: str = "/home/user"

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.loop = asyncio.Runner()
        self._driven: asyncio.Task[Any] | None = None
        self.kernel = _Kernel(self.point)
        self.tools = _Tools(self.point)
        self.store: Any = MemoryStore()
        if self.home is not None:
            self.store = SessionStore(self.home, self.clock.now).create("test-session")
        self.session = self._open(())

    def _open(self, entries: Sequence[Entry]) -> Session:
        if self.home is not None:
            entries = self.store.entries
        known: Mapping[str, FakeModel] = self.fake.models
        return Session(
            list(entries),
            self.settings,
            Place("test-session", None, self.cwd, "Linux", "2026-01-01", "0"),
            Ports(
                model=self._model(self.model),
                counter=NearCounter(),
                tools=self.tools,
                store=self.store,
                clock=self.clock,
                kernel=self.kernel,
                permissions=_Permissions(self.point),
                runner=InlineRunner(),
                redactor=Redactor({}),
                make_model=self._model,
                known_facts=lambda name: facts_of(name, known),
            ),
        )

    def _model(self, name: str) -> Model:
        if self.uses_http:
            environ = {"ANTHROPIC_BASE_URL": self.fake.url, "ANTHROPIC_API_KEY": "sk-ant-test"}
            return AnthropicModel(name, self.settings, environ, Redactor({}))
        return DirectModel(name, self.fake, self.point, self._saw)

    def _saw(self, record: Recorded) -> None:
        self.sent.append(Sent(record, self.act, len(self.session.transcript.entries)))

    # Acts

    def run(self, acts: Sequence[Act]) -> None:
        """Carry the acts out."""
        for act in acts:
            self.do(act)

    def do(self, act: Act) -> None:
        """Carry one act out."""
        self.act += not isinstance(act, Resume)
        self.points, self.stop, self.given_up, self.snapshot = 0, None, False, None
        match act:
            case Turn():
                self.answers, self.summaries = list(act.answers), list(act.summaries)
                self.drains = act.drains
                self._drive(act.stop, lambda: self.session.run(f"[{self.act}] {act.prompt.text}"))
            case Compact():
                self.answers, self.summaries = [], list(act.summaries)
                self._drive(act.stop, lambda: self.session.run_compaction(act.focus))
            case Switch():
                self.model = FREE if self.model == BINDS else BINDS
                self.session.switch_model(self.model)
            case Wait(seconds=seconds):
                self.loop.run(self._pass(seconds))
            case Resume():
                self.resume()
            case _:
                self._say(act)
        self.watch(self, None)

    async def _pass(self, seconds: float) -> None:
        """Let time pass, and give what goes on beside the conversation its turns at the loop."""
        self.clock.advance(seconds)
        for _ in range(_TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)

    def _say(self, act: Change) -> None:
        """Carry out what the user says between turns; what is refused in words changes nothing."""
        session, count = self.session, len(self.session.transcript.entries)
        try:
            match act:
                case Pin(text=text):
                    session.pin(text)
                case Unpin(place=place):
                    pins = [*session.pins]
                    session.unpin(pins[place % len(pins)] if pins else 0)
                case Rewind(back=back):
                    turns = session.transcript.turns
                    session.rewind(turns[max(0, len(turns) - back)] if turns else 0)
                case EditSummary(text=text):
                    session.edit_summary(text)
                case UndoSummary():
                    session.undo_summary()
                case Budget(tokens=tokens):
                    self.budget = session.budget_tokens = tokens
        except (PromptError, CompactionError):
            self.refusals += 1
            assert len(session.transcript.entries) == count

    @property
    def is_open(self) -> bool:
        """A turn was given up, and no prompt since has mended what it left."""
        return self.open_since == self.session.transcript.turn

    def resume(self) -> None:
        """Restart: a new session from what is stored (or was, when the old one was killed)."""
        self.loop.run(self.session.aclose())
        if isinstance(self.store, MemoryStore):
            kept = self.snapshot if isinstance(self.snapshot, list) else list(self.store.entries)
            entries = [*kept, *find_repairs(kept)]
            texts = self.store.texts
            self.store = MemoryStore()
            self.store.entries, self.store.texts = list(entries), texts
        else:
            assert self.home is not None
            self.store.close()
            if isinstance(self.snapshot, Path):
                self.home = self.snapshot
            self.store = SessionStore(self.home, self.clock.now).load("test-session")
            entries = list(self.store.entries)
        self.snapshot = self.open_since = None
        self.session = self._open(entries)
        self.session.budget_tokens = self.budget  # the user sets it anew in a new kernel

    def close(self) -> None:
        """Close store, connections and loop."""
        self.loop.run(self.session.aclose())
        self.loop.close()
        if not isinstance(self.store, MemoryStore):
            self.store.close()

    def answer(self, body: dict[str, Any]) -> Given:
        """Return the script's answer to a request that broke no rule."""
        if last_text(body).startswith(INSTRUCTION_OPEN):
            return self.summaries.pop(0) if self.summaries else f"## Task\nSummary {self.act}."
        if self.drains and background.can_use(self.session._engine):
            self.drains = False
            self.answers.insert(0, self._too_long())
        given = self.answers.pop(0) if self.answers else "Done."
        self.explained = self.explained or isinstance(given, Status | Broken)
        self.explained = self.explained or getattr(given, "stop_reason", None) == "refusal"
        return given

    def _too_long(self) -> Status:
        window = self.session.facts.window_tokens or 0
        return too_long(window + window // 20, window)

    async def point(self) -> None:
        """Stand for an await in the world outside: a place where a stop may come."""
        self.points += 1
        await asyncio.sleep(0)
        if self.stop is not None and self.points == self.stop.at:
            if self.stop.how == "kill":
                self._take_snapshot()
            assert self._driven is not None
            self._driven.cancel()
            await asyncio.sleep(0)

    def _take_snapshot(self) -> None:
        if isinstance(self.store, MemoryStore):
            self.snapshot = list(self.store.entries)
            return
        assert self.home is not None
        self.snapshot = self.home.with_name(f"{self.home.name}-{self.act}")
        shutil.copytree(self.home, self.snapshot)

    def _drive(self, stop: Stop | None, start: Callable[[], Any]) -> None:
        self.stop, self.explained = stop, False
        if stop is not None and stop.how == "give up":
            self.stop = None
        self.loop.run(self._drain(start(), stop))
        if self.snapshot is not None:
            self.resume()

    async def _drain(self, events: Any, stop: Stop | None) -> None:
        count, self._driven = 0, asyncio.current_task()
        async with contextlib.aclosing(events):
            async for event in events:
                self._see(event)
                count += 1
                is_now = stop is not None and (
                    count == stop.at or (stop.at == 0 and isinstance(event, StepFinished))
                )
                if stop is not None and stop.how == "give up" and is_now:
                    self.given_up = not isinstance(event, TurnFinished)
                    self.open_since = self.session.transcript.turn if self.given_up else None
                    return

    def _see(self, event: CtxEvent) -> None:
        self.events.append(event)
        self.watch(self, event)
