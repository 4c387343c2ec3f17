"""Fakes for tests, ours and yours: a scripted model, a kernel, a store and a clock, all in memory.

>>> from jupyter_ctx.testing import ScriptedModel, call, make_session, reply
>>> session = make_session(ScriptedModel(reply(call("run_code", code="6 * 7")), reply("It is 42.")))
>>> str(session.ask("What is 6 × 7?"))
'It is 42.'
>>> len(session.model.requests)
2

A script that ends too early raises AssertionError, so a test cannot pass by asking too much.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal, TextIO, TypeVar

from .config import Settings
from .core.absent import NoFiles, NoHooks, NoMemory, NoNotebook, NoUpdates, NoWorkspace
from .core.blocks import Block, Json, Message, Text, Thinking, ToolUse, message_to_wire
from .core.entries import Entry
from .core.events import CtxEvent
from .core.ports import (
    Allowed,
    Applied,
    BlockDone,
    Cell,
    CellChange,
    DeleteCell,
    Delta,
    Denied,
    EditCell,
    EditedFile,
    Execution,
    Fact,
    Files,
    HookName,
    HookOutcome,
    Hooks,
    InsertCell,
    Memory,
    ModelFacts,
    MoveCell,
    Notebook,
    NotebookCell,
    NotebookState,
    PlanItem,
    ReplyDone,
    Request,
    SetOutputs,
    Skill,
    TextPart,
    ThinkingPart,
    ToolOutput,
    ToolPart,
    ToolSpec,
    Update,
    Updates,
    Variable,
    Workspace,
)
from .core.redact import Redactor
from .core.usage import Usage
from .errors import ModelError, StoreError, ToolError
from .session import Place, Ports, Session

T = TypeVar("T")

__all__ = [
    "AllowAll",
    "DenyAll",
    "FakeClock",
    "FakeFiles",
    "FakeHooks",
    "FakeKernel",
    "FakeMemory",
    "FakeNotebook",
    "FakeTools",
    "FakeUpdates",
    "FakeWorkspace",
    "InlineRunner",
    "LetterCounter",
    "MemoryStore",
    "ScriptedModel",
    "ScriptedReply",
    "call",
    "make_session",
    "reply",
    "thinking",
]


# The model --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """An answer of a ScriptedModel. `usage` None: computed from the request's length."""

    blocks: tuple[Block, ...]
    stop_reason: str
    usage: Usage | None = None
    detail: str | None = None


_ids = itertools.count(1)


def call(name: str, /, **input_: object) -> ToolUse:
    """Return a tool call with an id of its own."""
    return ToolUse(f"toolu_{next(_ids):06}", name, input_)


def thinking(text: str, signature: str = "signed") -> Thinking:
    """Return a thinking block."""
    return Thinking({"type": "thinking", "thinking": text, "signature": signature})


def reply(
    *blocks: str | Block, stop_reason: str | None = None, usage: Usage | None = None
) -> ScriptedReply:
    """Return an answer; strings become text. It stops with `tool_use` if it calls a tool."""
    made = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    calls = any(isinstance(block, ToolUse) for block in made)
    return ScriptedReply(made, stop_reason or ("tool_use" if calls else "end_turn"), usage)


Answer = ScriptedReply | BaseException | Callable[[Request], "ScriptedReply | BaseException"]


class ScriptedModel:
    """A model that gives the answers of a script, in order, and keeps every request.

    An exception in the script is raised in place of an answer. A callable gets the request.
    """

    def __init__(self, *answers: Answer, facts: ModelFacts | None = None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self._facts = facts or ModelFacts("scripted", 200_000, "api", 64_000, factor_prior=1.0)

    @property
    def name(self) -> str:
        """The name in its facts, `scripted` by default."""
        return self._facts.name

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the next answer of the script, each text in two parts."""
        self.requests.append(request)
        if not self.answers:
            last = request.messages[-1] if request.messages else None
            raise AssertionError(f"The script has no answer left for {last}.")
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        for block in answer.blocks:
            await asyncio.sleep(0)
            match block:
                case Text(text=text):
                    yield TextPart(text[: len(text) // 2])
                    yield TextPart(text[len(text) // 2 :])
                case Thinking(wire=wire):
                    yield ThinkingPart(str(wire.get("thinking", "")))
                case ToolUse(id=id_, name=name):
                    yield ToolPart(id_, name)
                case _:
                    pass
            yield BlockDone(block)
        usage = answer.usage or _usage_of(request, answer)
        yield ReplyDone(answer.stop_reason, usage, f"msg_{len(self.requests)}", answer.detail)

    async def load_facts(self) -> ModelFacts:
        """Return the facts it was made with."""
        return self._facts

    async def count_tokens(self, request: Request) -> int | None:
        """Return None: it has no count of its own."""
        return None

    async def aclose(self) -> None:
        """Nothing to close."""


def _usage_of(request: Request, answer: ScriptedReply) -> Usage:
    """Return usage as a provider would: a quarter of the letters, all of it uncached."""
    sent = json.dumps([message_to_wire(m) for m in request.messages], ensure_ascii=False)
    prefix = request.system + json.dumps([dict(tool) for tool in request.tools])
    told = json.dumps(message_to_wire(Message("assistant", answer.blocks)))
    return Usage((len(sent) + len(prefix)) // 4 + 1, 0, 0, len(told) // 4 + 1)


class LetterCounter:
    """Counts a token for every four letters."""

    def count(self, text: str) -> int:
        """Return a quarter of the length, rounded up."""
        return (len(text) + 3) // 4


# The kernel and its tools -----------------------------------------------------------------------


@dataclass(slots=True)
class FakeKernel:
    """A kernel of one dictionary: code is run by `exec`, what it prints is its output."""

    namespace: dict[str, object] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    interrupts: bool = False

    async def run_code(self, code: str) -> Execution:
        """Run `code`; the value of a last expression is not shown."""
        out = io.StringIO()
        failed = False
        with contextlib.redirect_stdout(out):
            try:
                exec(compile(code, "<code>", "exec"), self.namespace)
            except Exception as error:
                out.write(f"{type(error).__name__}: {error}\n")
                failed = True
        text = out.getvalue()
        outputs = ({"output_type": "stream", "name": "stdout", "text": text},) if text else ()
        return Execution(outputs, failed=failed, interrupted=self.interrupts)

    async def on_main(self, look: Callable[[Mapping[str, object]], T]) -> T:
        """Call `look` with the dictionary."""
        return look(self.namespace)

    async def load_variables(self) -> Sequence[Variable]:
        """Return the dictionary's public names with their types."""
        return [
            Variable(name, type(value).__name__)
            for name, value in sorted(self.namespace.items())
            if not name.startswith("_")
        ]

    async def load_cells(self) -> Sequence[Cell]:
        """Return `cells`."""
        return self.cells


Tool = Callable[..., "str | ToolOutput"]


class FakeTools:
    """Tools from functions: `FakeTools(echo=lambda text: text)`.

    `run_code` runs in `kernel` unless given. `specs` replaces the spec of a tool by name.
    """

    def __init__(
        self,
        kernel: FakeKernel | None = None,
        *,
        specs: Iterable[ToolSpec] = (),
        **functions: Tool,
    ) -> None:
        self.kernel = kernel or FakeKernel()
        self.functions = functions
        named = {spec.name: spec for spec in specs}
        names = sorted({"run_code", *functions})
        self.specs: Sequence[ToolSpec] = tuple(
            named.get(name)
            or ToolSpec(
                name,
                f"The tool {name}.",
                {"type": "object", "properties": {}},
                reads_only=name != "run_code",
                permission="run code" if name == "run_code" else "",
            )
            for name in names
        )
        self.calls: list[ToolUse] = []

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        """Run one call."""
        self.calls.append(use)
        if use.name in self.functions:
            made = self.functions[use.name](**use.input)
            return made if isinstance(made, ToolOutput) else ToolOutput(made)
        if use.name != "run_code":
            raise ToolError(f"There is no tool {use.name!r}.")
        execution = await self.kernel.run_code(str(use.input.get("code", "")))
        text = "".join(str(output.get("text", "")) for output in execution.outputs)
        return ToolOutput(
            text,
            outputs=execution.outputs,
            is_error=execution.failed,
            interrupted=execution.interrupted,
        )


class AllowAll:
    """Allows every call."""

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        """Return Allowed."""
        return Allowed()


class DenyAll:
    """Denies every call that does not only read, with `reason`."""

    def __init__(self, reason: str = "no") -> None:
        self.reason = reason

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        """Return Denied unless the tool only reads."""
        return Allowed() if spec.reads_only else Denied(f"Denied by the user: {self.reason}")


# The store and the clock ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result in a MemoryStore."""

    outputs: tuple[Json, ...]


class MemoryStore:
    """A session in memory. `fails` True: every write raises StoreError, as a full disk does."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.texts: dict[str, str] = {}
        self.outputs: dict[str, tuple[Json, ...]] = {}
        self.metadata: dict[str, object] = {}
        self.fails = False

    def _check(self) -> None:
        if self.fails:
            raise StoreError("No space left on device.", path="memory")

    def append(self, entry: Entry) -> None:
        """Keep the entry."""
        self._check()
        self.entries.append(entry)

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Keep a result; its path is its id."""
        self._check()
        text = output.text if isinstance(output.text, str) else output.text.head
        self.texts[tool_use_id] = text
        self.outputs[tool_use_id] = output.outputs
        return f"tool-results/{tool_use_id}.txt"

    def save_text(self, name: str, text: str) -> str:
        """Keep a text; its path is its name."""
        self._check()
        self.texts[name] = text
        return f"tool-results/{name}.txt"

    def read_text(self, name: str) -> str:
        """Return a kept text. Raises StoreError if there is none."""
        if name not in self.texts:
            raise StoreError(f"There is no stored text {name!r}.", path="memory")
        return self.texts[name]

    def open_text(self, name: str) -> TextIO:
        """Return a kept text as a stream. Raises StoreError if there is none."""
        return io.StringIO(self.read_text(name), newline="")

    def read_result(self, tool_use_id: str) -> KeptResult:
        """Return a kept result. Raises StoreError if there is none."""
        if tool_use_id not in self.outputs:
            raise StoreError(f"There is no stored result {tool_use_id!r}.", path="memory")
        return KeptResult(self.outputs[tool_use_id])

    def update_metadata(
        self,
        *,
        title: str,
        model: str,
        tokens: int,
        cost: float | None,
        updated: float,
        turns: int,
    ) -> None:
        """Keep metadata."""
        self._check()
        self.metadata = {
            "title": title,
            "model": model,
            "tokens": tokens,
            "cost": cost,
            "updated": updated,
            "turns": turns,
        }


class FakeClock:
    """A clock that moves only when it is slept on, or told to; `sleeps` are the seconds asked for.

    Who waits between turns (`wait`) goes on when `advance` has come so far.
    """

    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self.time = now
        self.sleeps: list[float] = []
        self._waiting: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        """Return the time."""
        return self.time

    def monotonic(self) -> float:
        """Return the time."""
        return self.time

    async def sleep(self, seconds: float, hurry: asyncio.Event) -> None:
        """Move on by `seconds`, at once; by none if `hurry` is set."""
        seconds = 0.0 if hurry.is_set() else seconds
        self.sleeps.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    async def wait(self, seconds: float) -> None:
        """Wait until `advance` has moved the clock on by `seconds`."""
        due = asyncio.Event()
        self._waiting.append((self.time + seconds, due))
        await due.wait()

    def advance(self, seconds: float) -> None:
        """Move on by `seconds` and wake those whose time has come; on their loop only."""
        self.time += seconds
        for until, due in self._waiting:
            if until <= self.time:
                due.set()
        self._waiting = [(until, due) for until, due in self._waiting if not due.is_set()]


# What surrounds the conversation ----------------------------------------------------------------


@dataclass(slots=True)
class FakeHooks:
    """Hooks from outcomes by name; `calls` are the events that came, with their payloads."""

    outcomes: dict[HookName, HookOutcome] = field(default_factory=dict)
    calls: list[tuple[HookName, Json]] = field(default_factory=list)

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Return the outcome set for `name`."""
        self.calls.append((name, payload))
        return self.outcomes.get(name, HookOutcome())


@dataclass(slots=True)
class FakeMemory:
    """A memory in a list. `fails` True: it cannot be written."""

    facts: list[str] = field(default_factory=list)
    is_on: bool = True
    fails: bool = False
    place: str = ""

    async def load(self) -> Sequence[Fact]:
        """Return `facts`, of no known day."""
        return [Fact(fact) for fact in self.facts]

    async def add(self, facts: Sequence[str]) -> Sequence[str]:
        """Keep the facts that are new and return them."""
        self._check()
        new = [fact for fact in dict.fromkeys(facts) if fact not in self.facts]
        self.facts += new
        return new

    async def remove(self, facts: Sequence[str]) -> Sequence[str]:
        """Take facts out and return those that were there."""
        self._check()
        gone = [fact for fact in dict.fromkeys(facts) if fact in self.facts]
        self.facts = [fact for fact in self.facts if fact not in gone]
        return gone

    def _check(self) -> None:
        if self.fails:
            raise StoreError("No space left on device.", path="memory")


@dataclass(slots=True)
class FakeNotebook:
    """A notebook of `cells`, told by `source`; it can be changed if that is a front end.

    New cells are called `new-1`, `new-2` and so on, unless they bring an id. `on_apply` is called
    once, before the next change: what the user does meanwhile. `spoils` adds a blank to every
    source that is written.
    """

    cells: list[NotebookCell] = field(default_factory=list)
    source: Literal["front end", "disk", "kernel"] = "front end"
    path: str | None = "/home/user/analysis.ipynb"
    on_apply: Callable[[], None] | None = None
    spoils: bool = False
    inserted: int = 0

    async def load(self, outputs_of: Sequence[str] = ()) -> NotebookState:
        """Return the cells as they are now."""
        return NotebookState(
            tuple(self.cells), self.source, self.path, can_edit=self.source == "front end"
        )

    async def apply(self, change: CellChange) -> Applied:
        """Make one change. Raises ToolError as a real notebook does."""
        if self.source != "front end":
            raise ToolError("Not applied: no front end shows the notebook.")
        meanwhile, self.on_apply = self.on_apply, None
        if meanwhile is not None:
            meanwhile()
        if isinstance(change, InsertCell):
            return self._insert(change)
        at, cell = self._find(change.cell_id)
        above = self._above(at)
        if isinstance(change, EditCell | DeleteCell) and change.expected != cell.source:
            raise ToolError(f"Not applied: the source now is:\n\n{cell.source}")
        match change:
            case EditCell(source=source):
                self.cells[at] = replace(cell, source=source + " " * self.spoils)
            case SetOutputs(outputs=outputs, count=count):
                self.cells[at] = replace(cell, outputs=outputs, count=count)
            case DeleteCell():
                del self.cells[at]
                below = self.cells[at].id if at < len(self.cells) else None
                return Applied(cell, at, above, below, cell, above)
            case MoveCell(after=after):
                del self.cells[at]
                at = 0 if after is None else self._find(after)[0] + 1
                self.cells.insert(at, cell)
        return self._applied(at, cell, above)

    def _insert(self, change: InsertCell) -> Applied:
        self.inserted += 1
        cell = NotebookCell(
            change.id or f"new-{self.inserted}",
            change.type,
            change.source + " " * self.spoils,
            change.count,
            change.outputs,
            extra=change.extra,
        )
        end = 0 if change.at_top else len(self.cells)
        at = end if change.after is None else self._find(change.after)[0] + 1
        self.cells.insert(at, cell)
        return self._applied(at, None, None)

    def _find(self, cell_id: str) -> tuple[int, NotebookCell]:
        for at, cell in enumerate(self.cells):
            if cell.id == cell_id:
                return at, cell
        raise ToolError(f"There is no cell `{cell_id}`.")

    def _above(self, at: int) -> str | None:
        return self.cells[at - 1].id if at else None

    def _applied(self, at: int, before: NotebookCell | None, above_before: str | None) -> Applied:
        below = self.cells[at + 1].id if at + 1 < len(self.cells) else None
        return Applied(self.cells[at], at, self._above(at), below, before, above_before)


@dataclass(slots=True)
class FakeFiles:
    """Files in a dictionary: what stands at each path, as an Edit says it."""

    states: dict[str, Json] = field(default_factory=dict)

    async def put(self, path: str, wanted: Json | None, expected: Json | None) -> None:
        """Put the file back. Raises ToolError if it is not as expected."""
        now = self.states.get(path)
        if now == wanted:
            return
        if now != expected:
            raise ToolError(f"`{path}` is not as the agent left it any more.")
        if wanted is None:
            del self.states[path]
        else:
            self.states[path] = wanted

    def name(self, path: str) -> str:
        """Return the path's last part."""
        return path.rpartition("/")[2]


@dataclass(slots=True)
class FakeUpdates:
    """Updates as they are scripted, one a prompt, then none; an exception is raised.

    `asked` is what each was asked with (`seen`, `most_chars`); `told` what the model was told.
    """

    script: list[Update | Exception] = field(default_factory=list)
    asked: list[tuple[Json | None, int]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    async def load(self, seen: Json | None, most_chars: int) -> Update:
        """Return or raise what is next."""
        self.asked.append((seen, most_chars))
        following = self.script.pop(0) if self.script else Update("", seen or {})
        if isinstance(following, Exception):
            raise following
        return following

    def note_told(self, text: str) -> None:
        """Keep the text."""
        self.told.append(text)


@dataclass(slots=True)
class FakeWorkspace:
    """A plan, skills and files as they are set."""

    plan: list[PlanItem] = field(default_factory=list)
    skills: list[Skill] = field(default_factory=list)
    files: list[EditedFile] = field(default_factory=list)

    async def load_plan(self) -> Sequence[PlanItem]:
        """Return `plan`."""
        return self.plan

    async def load_skills(self) -> Sequence[Skill]:
        """Return `skills`."""
        return self.skills

    async def load_files(self) -> Sequence[EditedFile]:
        """Return `files`."""
        return self.files


class InlineRunner:
    """Runs a turn in place, with a loop of its own: for scripts and tests.

    Where a loop runs already (in a notebook), a thread takes it.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def run(
        self,
        start: Callable[[], AsyncIterator[CtxEvent]],
        on_event: Callable[[CtxEvent], None],
    ) -> None:
        """Drive the generator to its end."""

        async def drive() -> None:
            self._task = asyncio.current_task()
            async for event in start():
                on_event(event)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(drive())
        else:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, drive()).result()

    def iterate(self, start: Callable[[], AsyncIterator[CtxEvent]]) -> AsyncIterator[CtxEvent]:
        """Return the generator itself: it runs on the awaiting loop."""
        return start()

    def cancel(self) -> None:
        """Cancel the running turn."""
        if self._task is not None:
            self._task.cancel()


# A session --------------------------------------------------------------------------------------


class FakeSession(Session):
    """A session over fakes; they stay at hand as attributes."""

    model: ScriptedModel
    tools: FakeTools
    store: MemoryStore
    clock: FakeClock
    kernel: FakeKernel


def make_session(
    model: ScriptedModel,
    *,
    tools: FakeTools | None = None,
    kernel: FakeKernel | None = None,
    store: MemoryStore | None = None,
    clock: FakeClock | None = None,
    permissions: AllowAll | DenyAll | None = None,
    redactor: Redactor | None = None,
    hooks: Hooks | None = None,
    memory: Memory | None = None,
    workspace: Workspace | None = None,
    updates: Updates | None = None,
    notebook: Notebook | None = None,
    files: Files | None = None,
    entries: Iterable[Entry] = (),
    **settings: object,
) -> FakeSession:
    """Return a session over fakes; `settings` are those of `jupyter_ctx.Settings`.

    Unless `prepare_calls` or `prepare_idle_s` say so, no summary is prepared in the background: a
    script's answers are then asked for in their order.
    """
    settings = {"prepare_calls": 0, "prepare_idle_s": 0.0, **settings}
    kernel = kernel or (tools.kernel if tools else FakeKernel())
    tools = tools or FakeTools(kernel)
    store = store or MemoryStore()
    clock = clock or FakeClock()

    def make_model(name: str) -> ScriptedModel:
        if name != model.name:
            raise ModelError(f"There is no model {name!r} in this test.")
        return model

    ports = Ports(
        model=model,
        counter=LetterCounter(),
        tools=tools,
        store=store,
        clock=clock,
        kernel=kernel,
        permissions=permissions or AllowAll(),
        runner=InlineRunner(),
        redactor=redactor or Redactor(()),
        make_model=make_model,
        known_facts=lambda name: model._facts,
        hooks=hooks or NoHooks(),
        memory=memory or NoMemory(),
        workspace=workspace or NoWorkspace(),
        updates=updates or NoUpdates(),
        notebook=notebook or NoNotebook(),
        files=files or NoFiles(),
    )
    place = Place("test-session", None, "/home/user", "Linux", "2026-01-01", "0")
    session = FakeSession(entries, Settings(**settings), place, ports)  # type: ignore[arg-type]  # checked by Settings
    session.model, session.tools, session.store = model, tools, store
    session.clock, session.kernel = clock, kernel
    return session
