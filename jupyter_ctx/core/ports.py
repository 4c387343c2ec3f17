"""What the core asks of the world. Adapters implement these; `jupyter_ctx.testing` has fakes.

Every async method runs on the loop that drives the turn. A method that must touch the user's
kernel gets itself to the kernel's main thread; the core never knows about threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, TypeVar

from .blocks import Block, Image, Json, Message, ToolUse
from .entries import CacheMiss, Edit, Entry
from .plan import PlanItem as PlanItem
from .usage import Prices, Usage

T = TypeVar("T")
CacheTtl: TypeAlias = Literal["5m", "1h"]
CellType: TypeAlias = Literal["code", "markdown", "raw"]
ThinkingMode: TypeAlias = Literal["adaptive", "off"]
HookName: TypeAlias = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SessionEnd",
]


# The model ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A prompt cache breakpoint: on the last tool, on the system prompt, or on one block."""

    where: Literal["tools", "system", "message"]
    message: int = -1
    block: int = -1


@dataclass(frozen=True, slots=True)
class Request:
    """One model call, complete: the adapter adds nothing that changes the cached prefix.

    `messages` are sent as they are, in order. `max_tokens` is the output limit in tokens.
    `breakpoints` is empty when the prompt cache is off. `previous_message_id` is the provider's id
    of the newest reply this model gave in the session, None before the first, to ask why the cache
    was missed since; it is no part of the prompt.
    """

    model: str
    system: str
    tools: tuple[Json, ...]
    messages: tuple[Message, ...]
    max_tokens: int
    breakpoints: tuple[Breakpoint, ...] = ()
    cache_ttl: CacheTtl = "5m"
    thinking: ThinkingMode = "off"
    effort: str | None = None
    previous_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """Some more text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Some more of the thinking's summary, for showing only."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A tool call has begun; its input is not complete yet."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class BlockDone:
    """A block is complete, byte for byte what must be sent back."""

    block: Block


@dataclass(frozen=True, slots=True)
class ReplyDone:
    """The last item of every complete stream: `message_stop` came, with a stop reason.

    `cache_miss` is what the provider said of the prompt cache, None if nothing. `beside` is what it
    charges beside the answer (a compaction of its own, say): paid, but no part of the window.
    """

    stop_reason: str
    usage: Usage
    message_id: str | None = None
    detail: str | None = None
    cache_miss: CacheMiss | None = None
    beside: Usage | None = None


Delta: TypeAlias = TextPart | ThinkingPart | ToolPart | BlockDone | ReplyDone


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model; None means not known, never a guess.

    `window_tokens` is the context window, `max_output_tokens` the most it writes; `window_source`
    says who said so. `binds_thinking`: thinking is refused after an edited prefix (API.md 1), so a
    compaction must leave the tail's thinking out. `factor_prior` multiplies a cl100k count before
    anything was learnt. A request may have `max_images`. `label` is its name for people, "" if none
    is known. `listed` are the names of the models that its server lists.
    """

    name: str
    window_tokens: int | None
    window_source: Literal["api", "server", "error", "table", "unknown"]
    max_output_tokens: int | None
    prices: Prices | None = None
    adaptive_thinking: bool = False
    binds_thinking: bool = False
    factor_prior: float = 1.35
    max_images: int = 100
    label: str = ""
    listed: tuple[str, ...] = ()


class Model(Protocol):
    """A language model behind one SDK, whose errors it translates into `jupyter_ctx.errors`."""

    @property
    def name(self) -> str:
        """The model's name, as requests carry it."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives; the last item is a ReplyDone.

        Makes one attempt: retries are the loop's. Raises a ModelError; a stream that ends without
        a ReplyDone has raised StreamBrokenError. Closing the iterator closes the connection.
        """
        ...

    async def load_facts(self) -> ModelFacts:
        """Return what is known of the model; asks the provider once. Raises a ModelError."""
        ...

    async def count_tokens(self, request: Request) -> int | None:
        """Return the provider's own count of the request's input, None if it has none."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class Counter(Protocol):
    """Counts tokens without a network: an estimate, in linear time on any text."""

    def count(self, text: str) -> int:
        """Return the raw (uncalibrated) number of tokens in `text`."""
        ...


# Tools ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as the model sees it, and how its calls are treated.

    `reads_only`: never asks for permission, allowed in plan mode. `permission` names the group an
    "allow for this session" covers ("run code"). A tool with `offloads` False bounds its own
    results and is never offloaded. `max_result_chars`: longer results are offloaded. On windows of
    fewer than `least_window` tokens it is not told, and cannot be called.
    """

    name: str
    description: str
    input_schema: Json
    reads_only: bool
    max_result_chars: int = 50_000
    offloads: bool = True
    permission: str = ""
    least_window: int = 0


@dataclass(frozen=True, slots=True)
class SpooledText:
    """A text too long to hold (over 8 MB), written to `path` while it was made.

    `head` and `tail` are its first and last characters (64 Ki at most each); `chars`, `lines` and
    `size_bytes` are of the whole.
    """

    path: str
    chars: int
    lines: int
    size_bytes: int
    head: str
    tail: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool brought.

    `text` is the form for the model, valid UTF-8, carriage returns and ANSI resolved; may be empty.
    `images` are scaled already. `outputs` are nbformat outputs, for the store. `mime_types` names
    every type the outputs had. `interrupted`: Stop arrived while it ran; the turn ends after it.
    `edits` are the changes it made to cells and files, in order: they are kept, for undo.
    `plan` is the plan it made, None: none; `remembered` the facts that it kept.
    """

    text: str | SpooledText
    images: tuple[Image, ...] = ()
    outputs: tuple[Json, ...] = ()
    mime_types: tuple[str, ...] = ()
    is_error: bool = False
    interrupted: bool = False
    edits: tuple[Edit, ...] = ()
    plan: tuple[PlanItem, ...] | None = None
    remembered: tuple[str, ...] = ()


class ToolRunner(Protocol):
    """The tools of a session, sorted by name."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Every tool there is now, sorted by name.

        One may come, go or change in the life of a session; the model is told at a compaction.
        """
        ...

    async def run(self, use: ToolUse, cap_chars: int) -> ToolOutput:
        """Run one call. Raises ToolError (no such tool, input off schema, cannot be done).

        `cap_chars` is the most that a tool which bounds itself may return, in characters.
        """
        ...


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The call may not run; `message` is what the model is told."""

    message: str


class Permissions(Protocol):
    """Decides about one call at a time; may ask the user."""

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        """Return the decision for exactly this call."""
        ...


# The kernel -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A live name of the user's namespace; `shape` and `size` are short texts, "" if none.

    `cell` is the cell that bound it last ("In[3]"), None if not known.
    """

    name: str
    type: str
    shape: str = ""
    size: str = ""
    cell: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as the kernel knows it: executed at least once.

    `id` is the front end's cell id, else `in-N`. `count` is N of In[N]. `order` grows with each
    execution; `source_order` is that of the first execution with the present source (0: `order`).
    `is_agent`: its source is `%agent` or `%%agent`. `failed`: it raised. `changed_at` is when its
    present source was first known, in seconds since the epoch; 0: not known. `spooled` holds the
    text when it was too long for memory; `outputs` then carry its head only.
    """

    id: str
    source: str
    count: int
    order: int
    outputs: tuple[Json, ...] = ()
    failed: bool = False
    source_order: int = 0
    is_agent: bool = False
    changed_at: float = 0.0
    spooled: SpooledText | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """What running code brought.

    `outputs` are nbformat outputs in order, streams merged, display updates applied. `spooled`
    holds the text when it was too long for memory; `outputs` then carry its head only.
    """

    outputs: tuple[Json, ...] = ()
    failed: bool = False
    interrupted: bool = False
    spooled: SpooledText | None = None


class Kernel(Protocol):
    """The user's kernel. Every method gets itself to the main thread as needed."""

    async def run_code(self, code: str) -> Execution:
        """Run `code` as scratch: In, Out, `_` and the execution count stay as they were."""
        ...

    async def on_main(self, look: Callable[[Mapping[str, object]], T]) -> T:
        """Call `look` with the user's namespace on the main thread and return its result."""
        ...

    async def load_variables(self) -> Sequence[Variable]:
        """Return the user's live names, sorted by name; calls nothing that could compute."""
        ...

    async def load_cells(self) -> Sequence[Cell]:
        """Return the executed cells, oldest execution first; one per cell id (its newest)."""
        ...


# The notebook document --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell of the notebook as it stands now, run or not.

    `id` is the front end's. `count` is N of In[N] as it is shown, None: not run. `outputs` are
    nbformat outputs as far as they are known. `failed`: its last run raised. `extra` is what else
    nbformat keeps of it (`metadata`, `attachments`), as far as it is known. `is_early`: that run
    may be this kernel's too, from before anybody recorded its cells.
    """

    id: str
    type: CellType
    source: str
    count: int | None = None
    outputs: tuple[Json, ...] = ()
    failed: bool = False
    extra: Json = field(default_factory=dict)
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class NotebookState:
    """The notebook as far as it can be seen: its cells in their order.

    `source` says who tells of it: the front end (what the user sees, unsaved edits included), the
    file on disk, or the kernel (only what was executed, in the order of execution). `path` is the
    file's absolute path, None if it has none. `can_edit`: the cell tools reach it. `faults` say
    what is wrong with a file, a clause each. `widgets` is what the file keeps of the widgets in its
    outputs (`metadata.widgets`), None: nothing.
    """

    cells: tuple[NotebookCell, ...]
    source: Literal["front end", "disk", "kernel"]
    path: str | None = None
    can_edit: bool = False
    faults: tuple[str, ...] = ()
    widgets: Json | None = None


@dataclass(frozen=True, slots=True)
class InsertCell:
    """Insert a cell directly below `after`; None: at the end, or at the top if `at_top`.

    To put back one that was there: its `id` (None, or one that is taken: a new one), its `outputs`
    and `count`, and what else it had (`extra`, as in NotebookCell).
    """

    source: str
    type: CellType
    after: str | None = None
    at_top: bool = False
    id: str | None = None
    outputs: tuple[Json, ...] = ()
    count: int | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EditCell:
    """Give a cell another source, if its source still is `expected`."""

    cell_id: str
    source: str
    expected: str


@dataclass(frozen=True, slots=True)
class DeleteCell:
    """Delete a cell, if its source still is `expected`."""

    cell_id: str
    expected: str


@dataclass(frozen=True, slots=True)
class MoveCell:
    """Move a cell directly below `after`; None: to the top."""

    cell_id: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class SetOutputs:
    """Give a cell the outputs of a run that happened in the kernel; `count` None: no number."""

    cell_id: str
    outputs: tuple[Json, ...]
    count: int | None = None


CellChange: TypeAlias = InsertCell | EditCell | DeleteCell | MoveCell | SetOutputs


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that was made and read back.

    `cell` is as it stands now (of a deleted one, as it stood); `index` its place from 0. `above`
    and `below` are the ids of its neighbours, None at an end; `before` what stood there, None if
    nothing did, and `above_before` the id of the cell it stood below.
    """

    cell: NotebookCell
    index: int
    above: str | None = None
    below: str | None = None
    before: NotebookCell | None = None
    above_before: str | None = None


class Notebook(Protocol):
    """The notebook document, behind whatever front end there is."""

    async def load(self, outputs_of: Sequence[str] = ()) -> NotebookState:
        """Return it as it stands now; never fails: what cannot be seen is not in it.

        Outputs that this kernel did not make may have a line in their place; not those of the cells
        named by `outputs_of`, as far as they can be had.
        """
        ...

    async def apply(self, change: CellChange) -> Applied:
        """Make one change and read it back.

        Raises ToolError: no such cell (near ones are named), a source that changed (the present one
        is given), or not applied (with what the user can do by hand). Never "done" unread: what was
        handed on and cannot be read back raises UnreadError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Update:
    """What changed around the conversation since the model last heard of it.

    `text` is for the model, "" if nothing changed; `seen` what it knows then: JSON that is stored
    with the prompt and comes back at the next one.
    """

    text: str
    seen: Json


class Updates(Protocol):
    """Watches notebook, namespace and folder between turns."""

    async def load(self, seen: Json | None, most_chars: int) -> Update:
        """Return what changed since `seen`; None: nothing is known yet, so an outline.

        The text has at most `most_chars` characters; the most important comes first. What the agent
        itself did since is not told: it knows.
        """
        ...

    def note_told(self, text: str) -> None:
        """The model was told `text`: the newest update, or as much of it as there was room for."""
        ...


# What surrounds the conversation -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What the hooks of one event decided.

    `blocked_by` is the reason of the one that blocks what was about to happen, None if none does.
    `context` is text for the model, `shown` lines for the user; both may be empty. `ended_by` is
    why the turn is to end here, None: it goes on.
    """

    blocked_by: str | None = None
    context: str = ""
    shown: tuple[str, ...] = ()
    ended_by: str | None = None


class Hooks(Protocol):
    """Commands and callables of the user that run at fixed points of a session."""

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Run every hook of event `name` with `payload` and return what they decided together.

        Raises nothing of its own: a hook that fails or takes too long says so in `shown`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that is kept: its sentence, and the day it was stated (2026-11-30), "": not known."""

    text: str
    date: str = ""


class Memory(Protocol):
    """Facts that the user stated, kept across sessions."""

    @property
    def is_on(self) -> bool:
        """Say whether facts are kept; else a summary is not asked for any."""
        ...

    @property
    def place(self) -> str:
        """Say where the user finds them: a file's path, "" if there is none."""
        ...

    async def load(self) -> Sequence[Fact]:
        """Return what is kept, the oldest first. Raises StoreError."""
        ...

    async def add(self, facts: Sequence[str]) -> Sequence[str]:
        """Keep facts, a sentence each, and return those that were not known. Raises StoreError."""
        ...

    async def remove(self, facts: Sequence[str]) -> Sequence[str]:
        """Take facts out and return those that were there: the undo of `add`. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was loaded in this session: its name and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file that the agent or the user edited in this session, as it is now.

    `path` is as the model is told it; `changed_at` in seconds since the epoch. `fault` says why its
    text cannot be given ("it is no longer there"), "" if it can.
    """

    path: str
    text: str
    changed_at: float
    fault: str = ""


class Start(Protocol):
    """What must be there before the first turn of a session in this kernel."""

    async def connect(self) -> Sequence[str]:
        """Connect what brings further tools, once; return sentences for the user.

        Takes bounded time and raises nothing of its own: what cannot be reached says so.
        """
        ...

    async def describe(self) -> str:
        """Return what the system prompt of a new session tells of its surroundings.

        Markdown, a section for each (git, context files, skills, memory); "" if there is nothing.
        Asked once, right before the system prompt is frozen. Raises nothing of its own.
        """
        ...


class Workspace(Protocol):
    """What else the session works on, beside the kernel. Every method returns what is so now."""

    async def load_plan(self) -> Sequence[PlanItem]:
        """Return the plan in order; empty: none was made."""
        ...

    async def load_skills(self) -> Sequence[Skill]:
        """Return the skills in use, the last one loaded first."""
        ...

    async def load_files(self) -> Sequence[EditedFile]:
        """Return the edited files, the last one edited first."""
        ...


class Files(Protocol):
    """The project's files, to put one back as it was."""

    async def put(self, path: str, wanted: Json | None, expected: Json | None) -> None:
        """Make the file at `path` as `wanted` says (as in Edit), None: take it away.

        Raises ToolError, and leaves everything as it is: what stands there is not `expected`, the
        path is none of the project's, or it cannot be written. One that is as wanted already is
        left alone.
        """
        ...

    def name(self, path: str) -> str:
        """Return an absolute path as the model is told it: from the project's folder."""
        ...


# The store and the clock ------------------------------------------------------------------------


class Store(Protocol):
    """Where one session lives. Every method raises StoreError and damages nothing stored."""

    def append(self, entry: Entry) -> None:
        """Write one entry and flush it to the operating system before returning."""
        ...

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Store a tool's outputs and text; return the text's path as the model is told it."""
        ...

    def save_text(self, name: str, text: str) -> str:
        """Store a text of this session (`prompt-<turn>`); return its path likewise."""
        ...


class AgentLog(Protocol):
    """Where the transcript of one sub-agent goes. Every method raises StoreError."""

    def append(self, entry: Entry) -> None:
        """Write one entry and flush it to the operating system before returning."""
        ...

    def close(self) -> None:
        """Write what still waits; nothing is appended any more."""
        ...


class Agents(Protocol):
    """Where the transcripts of a session's sub-agents go."""

    def open_agent(self, agent_id: str) -> AgentLog:
        """Begin the transcript of the sub-agent that call `agent_id` starts. Raises StoreError."""
        ...


class Clock(Protocol):
    """Time, so that tests own it."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        ...

    async def sleep(self, seconds: float, hurry: asyncio.Event) -> None:
        """Wait until `hurry` is set, `seconds` at most; a cancelled turn stops waiting at once."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait while nothing else is to be done: between turns, beside the user's own work."""
        ...
