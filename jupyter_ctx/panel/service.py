"""The panel of one kernel: its turns, its queue, what it is told. The kernel's side of `panel.ts`.

Calls come on the loop of the turns (before the first turn on the main thread), events on the thread
that handles them; one lock guards the queue.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Any

from ..core.blocks import Json, ToolUse, tool_uses
from ..core.entries import MessageEntry
from ..core.events import (
    CompactionFinished,
    CompactionStarted,
    CtxEvent,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from ..core.preview import clean_text
from ..errors import BusyError, CtxError, PromptError
from ..ipython import commands, mentions, place
from ..ipython.asked import Asked
from ..ipython.permissions import Always, Answer
from ..ipython.rules import Rule
from . import ops
from .calls import Call, RefusedError, answer_to, refusal_of
from .door import Door
from .log import PanelLog
from .new_entries import NewEntries
from .prompts import Prompt, Work, label_of
from .questions import Questions
from .sink import PanelSink
from .wire import Around, Decision, Item, cut, item_of

if TYPE_CHECKING:
    from ..ipython.agent import Agent
    from ..ipython.commands import Shown
    from ..ipython.idle import IdleMain
    from ..session import Session

MOST_QUEUED = 20
FAILED_TEXT = "The prompt could not run"

_ON_MAIN = ("new", "resume")
"""Commands that replace the session: what the old one holds is closed on the main thread."""

_RUNS_CODE = ("run_code", "run_cell")
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without one, Python writes into the user's cell


class PanelService:
    """Implements `ipython.agent.Panel`, and carries out pages' calls.

    `count_names` tells how many executed cells and live names there are; `complete_mention` what
    stands behind an `@` may become.
    """

    def __init__(
        self,
        agent: Agent,
        door: Door,
        idle: IdleMain,
        count_names: Callable[[], tuple[int, int]],
        complete_mention: Callable[[str], Sequence[str]],
    ) -> None:
        self.agent = agent
        self.door = door
        self.complete_mention = complete_mention
        self.questions = Questions(self.tell)
        self.log = PanelLog(door.epoch, door.tell, agent.bridge.post)
        self.entries = NewEntries(agent, self.log, self.tell)
        self._idle = idle
        self._count_names = count_names
        self._lock = threading.RLock()
        self._queue: deque[Prompt] = deque()
        self._waited: set[str] = set()
        self._job: Prompt | Work | None = None
        self._has_started = False
        self._known_from: float = 0
        self._labels: tuple[Item, ...] = ()
        self._is_closed = False
        self._pages: dict[str, str] = {}
        self._silent: dict[str, str] = {}
        self.awaits_page = False
        """A widget was just put below the running cell: its page has no time to open the panel."""
        self._turn = 0
        self._running_tool: str | None = None
        self._sink: PanelSink | None = None
        self._inputs: dict[str, Json] = {}
        self._decisions: dict[str, Decision] = {}
        self._doing: set[asyncio.Task[None]] = set()
        agent.panel = self
        if agent.current is not None:
            self._skip_entries(agent.current)

    def close(self) -> None:
        """Start nothing more; nobody is told any more."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()
        self.agent.panel = None
        self._idle.close()

    def tell(self, item: Mapping[str, object]) -> None:
        """Tell all pages an item."""
        if not self._is_closed:
            self.log.add(dict(item))

    # Calls ----------------------------------------------------------------------------------------

    def handle(self, call: Call) -> None:
        """Carry out a call and answer it; one that takes longer is answered later."""
        if call.client in self._silent:
            self.note_page(call)
        try:
            op, args = call.read()
            run = ops.OPS.get(op)
            if run is None:
                raise RefusedError(
                    "unknown", f"The kernel knows no {cut(op, 40)!r}; reload the page."
                )
            result = run(self, call, args)
        except Exception as error:
            self.refuse(call, error)
            return
        if result is not None:
            self.answer(call, result)

    def answer(self, call: Call, result: Mapping[str, object]) -> None:
        """Send the result of a call."""
        for message in answer_to(call, result):
            self.door.tell(message, call.comm_id)

    def refuse(self, call: Call, error: BaseException) -> None:
        """Send why a call brought nothing."""
        for message in refusal_of(call, refusal_from(error)):
            self.door.tell(message, call.comm_id)

    @property
    def has_session(self) -> bool:
        """Whether a session is open: most calls then need no main thread."""
        return self.agent.current is not None

    @property
    def is_kept_from_main(self) -> bool:
        """Whether a cell runs on the main thread."""
        return self._idle.is_busy()

    @property
    def call_parent(self) -> object:
        """The made-up request of the call that is made on the main thread now, None if none is."""
        return self._idle.parent

    @property
    def waits_for_kernel(self) -> bool:
        """Whether what runs waits until a cell of the user's has ended."""
        return self._idle.waits

    def start_loop(self) -> None:
        """Start the thread of the turns: a call has come, and the main thread is not free."""
        self.agent.bridge.start()

    def on_main(self, call: Call, function: Callable[[], None]) -> None:
        """Do something on the main thread: here if this is it, else when that is idle."""
        if threading.current_thread() is threading.main_thread():
            function()
        else:
            self.door.on_idle(call, function)

    def note_page(self, call: Call) -> None:
        """A page has the panel open."""
        self._silent.pop(call.client, None)
        self._pages[call.client] = call.comm_id

    @property
    def panels(self) -> frozenset[str]:
        """The comms on which a page has the panel open; for any thread."""
        return frozenset(dict(self._pages).values())

    def note_closed(self, comm_id: str, client: str | None = None) -> None:
        """A comm is gone, and with it its pages, or one of them; from any thread."""
        for one, comm in list(self._pages.items()):
            if comm == comm_id and client in (None, one):
                self._pages.pop(one, None)
        if not self._pages:
            self.agent.bridge.post(self.questions.leave)

    # What waits -----------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether anything runs: for the panel, or below a cell."""
        return self._job is not None or self.agent.is_in_cell or self.agent.bridge.is_running

    @property
    def queue(self) -> list[Item]:
        """What waits, as items."""
        with self._lock:
            return [prompt.queued for prompt in self._queue]

    def submit(self, prompt: Prompt) -> bool:
        """Run a prompt, at once or when what runs has ended; return whether it waits."""
        with self._lock:
            if len(self._queue) >= MOST_QUEUED:
                raise RefusedError("full", f"{MOST_QUEUED} prompts wait already.")
            self._queue.append(prompt)
            self._start_next()
            waits = prompt in self._queue
            if waits:
                self._tell_queued(prompt)
            return waits

    def _tell_queued(self, prompt: Prompt) -> None:
        self._waited.add(prompt.id)
        self.tell(prompt.queued)

    def find_queued(self, prompt_id: str) -> Prompt:
        """Return a prompt that waits. Raises RefusedError if it does not."""
        with self._lock:
            found = next((one for one in self._queue if one.id == prompt_id), None)
        if found is None:
            raise RefusedError("gone", "This prompt does not wait any more.")
        return found

    def unqueue(self, prompt_id: str) -> None:
        """Take a prompt back that waits. Raises RefusedError if it does not."""
        with self._lock:
            self._queue.remove(self.find_queued(prompt_id))
            self._waited.discard(prompt_id)
            self.tell({"kind": "unqueued", "id": prompt_id, "how": "cancelled"})

    def is_known(self, seq: int | None) -> bool:
        """Whether a page that has heard what came before item `seq` knows of what runs.

        A prompt that waited begins by itself: a second press of Stop was not meant for it.
        """
        return seq is None or seq >= self._known_from

    def do(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something on the loop, beside what runs; it answers by itself and raises nothing."""

        def begin() -> None:
            task = asyncio.ensure_future(act())
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

        self.start_loop()
        self.agent.bridge.post(begin)

    def run_work(self, work: Work) -> None:
        """Do something as a turn is done. Raises RefusedError while anything runs."""
        with self._lock:
            if self.is_running:
                raise RefusedError("busy", "A turn is running; wait for it or stop it first.")
            self._launch(work)

    def _start_next(self) -> None:
        with self._lock:
            if self._is_closed or not self._queue or self.is_running:
                return
            prompt = self._queue.popleft()
            self._launch(prompt)

    def _launch(self, job: Prompt | Work) -> None:
        self._job, self._has_started = job, False
        waited = isinstance(job, Prompt) and job.id in self._waited
        self._known_from = inf if waited else 0
        start = job.run if isinstance(job, Work) else lambda: self._run(job)
        self.agent.bridge.launch(start, lambda event: None, self._idle, self._ended)

    def _ended(self, error: BaseException | None) -> None:
        """What ran has ended; on the loop."""
        with self._lock:
            job, self._job, self._known_from = self._job, None, 0
        self._labels = ()
        self._idle.give_up()
        if isinstance(job, Work):
            job.on_end(error)
        elif job is not None and error is not None:
            self._fail(job, error)
        self.entries.tell_new()

    def _fail(self, prompt: Prompt, error: BaseException) -> None:
        """A prompt could not run: it waits again if something else was first, else goes back."""
        with self._lock:
            if isinstance(error, BusyError) and self._may_wait(prompt):
                self._queue.appendleft(prompt)
                self._tell_queued(prompt)
                return
        said = refusal_from(error)
        self.tell(
            {
                "kind": "failed",
                "id": prompt.id,
                "title": clean_text(str(said)),
                "detail": "",
                "text": "" if self._has_started else clean_text(prompt.text),
            }
        )

    def _may_wait(self, prompt: Prompt) -> bool:
        """Whether a prompt that found the session busy is to be tried again.

        Not if what keeps it busy runs past us: nobody would tell of its end.
        """
        session = self.agent.current
        is_kept = session is not None and session.is_running and not self.is_running
        return not (self._has_started or prompt.is_command or is_kept)

    # A prompt -------------------------------------------------------------------------------------

    async def _run(self, prompt: Prompt) -> AsyncGenerator[CtxEvent, None]:
        """Run a prompt or command; on the loop."""
        place.asking_page.set(prompt.client)
        if prompt.id in self._waited:
            self._waited.discard(prompt.id)
            self.tell({"kind": "unqueued", "id": prompt.id, "how": "started"})
            self._known_from = self.log.seq
        session = await self.find_session()
        self.agent.refresh()
        run = self._run_command(prompt) if prompt.is_command else self._run_turn(prompt, session)
        async with aclosing(run) as events:
            async for event in events:
                yield event

    async def find_session(self) -> Session:
        """Return the kernel's session; one that is not open yet is opened on the main thread."""
        current = self.agent.current
        if current is not None:
            return current
        return await self.agent.bridge.call(lambda: self.agent.session)

    async def _run_turn(self, prompt: Prompt, session: Session) -> AsyncGenerator[CtxEvent, None]:
        parsed = mentions.parse(prompt.text)
        mentioned = await self.agent.load_mentioned(parsed.mentions)
        told = [label for one in mentioned if (label := label_of(one)) is not None]
        self._labels = (*prompt.labels, *told)
        attached = (*prompt.images, *mentioned)
        async with aclosing(session.run(parsed.text, attachments=attached)) as events:
            async for event in events:
                self._has_started = True
                yield event

    async def _run_command(self, prompt: Prompt) -> AsyncGenerator[CtxEvent, None]:
        agent = self.agent
        command, argument = commands.parse(agent.opener.redact(prompt.text))
        if command.name == "compact":
            async with aclosing(agent.session.run_compaction(argument)) as events:
                async for event in events:
                    yield event
            return
        if command.name in _ON_MAIN:
            shown = await agent.bridge.call(lambda: command.run(agent, argument))
        else:
            shown = await asyncio.to_thread(command.run, agent, argument)
        self.show(shown, prompt.text, prompt.id)

    def show(self, shown: Shown | None, command: str, id_: str = "") -> None:
        """Tell what a command showed, and how session and gauge stand after it."""
        if shown is not None:
            shown = self.agent.opener.redact_shown(shown)
            self.tell(
                {
                    "kind": "shown",
                    "id": id_ or new_id(),
                    "command": cut(command.strip(), 200),
                    "markdown": clean_text(shown.markdown),
                    "text": clean_text(shown.text),
                    "data": dict(shown.json),
                }
            )
        self.tell(self.describe_session())
        self.show_context()

    def show_context(self) -> None:
        """Have the gauge show what the next prompt is sent with."""
        if self.agent.gauge is not None:
            self.agent.gauge.send()

    # What the agent tells -------------------------------------------------------------------------

    def notice(self, event: CtxEvent) -> None:
        """Tell an event of any turn; on the thread that handles it."""
        session = self.agent.current
        if session is None or self._is_closed:
            return
        match event:
            case TurnStarted(turn=turn):
                self._turn = turn
                self._inputs.clear()
            case StepStarted() | CompactionStarted() | TurnFinished():
                self.entries.tell_new()  # the results of the step before are recorded now
            case ToolStarted(tool_use_id=tool_use_id, input=given):
                self._running_tool, self._inputs[tool_use_id] = tool_use_id, given
                self._sink = None
            case ToolFinished(tool_use_id=tool_use_id) if tool_use_id == self._running_tool:
                self._running_tool = None
            case ToolProgress(tool_use_id=tool_use_id):  # of a sub-agent, whose code may run next
                self._running_tool, self._sink = tool_use_id, None
            case _:
                pass
        if (item := item_of(event, self._around(event, session))) is not None:
            self.tell(item)
        match event:
            case TurnStarted(turn=turn):
                self._tell_notes(turn)
            case ToolFinished(tool_use_id=tool_use_id):
                self.entries.tell_new(tool_use_id)
            case TurnFinished():
                self.tell(self.describe_session())
            case _:
                self._tick()

    def _around(self, event: CtxEvent, session: Session) -> Around:
        now = time.time()
        match event:
            case TurnStarted():
                is_ours = isinstance(self._job, Prompt)
                origin, cell_id = ("panel", None) if is_ours else ("cell", self.agent.cell_id)
                return Around(
                    at=now,
                    origin=origin,  # type: ignore[arg-type]  # one of the two words
                    cell_id=cell_id,
                    attachments=self._labels if is_ours else (),
                )
            case ToolFinished(tool_use_id=tool_use_id):
                return Around(
                    at=now,
                    input=self._inputs.get(tool_use_id),
                    decision=self._decisions.pop(tool_use_id, None),
                    has_outputs=not event.denied and event.name in _RUNS_CODE,
                )
            case CompactionFinished(n=n):
                entry = session.find_compaction(n)
                replaced = (0, 0) if entry is None else (entry.first_turn, entry.last_turn)
                return Around(at=now, replaced=replaced)
            case TurnFinished():
                return Around(at=now, context=self.agent.bridge.look(session.context))
            case _:
                return Around(at=now)

    def _tick(self) -> None:
        """Have the gauge send what it holds back: in a turn of the panel nothing else does."""
        gauge = self.agent.gauge
        if gauge is not None and self._job is not None:
            wait = gauge.flush()
            if wait is not None:
                self.agent.bridge.post(gauge.flush, wait)  # type: ignore[arg-type]  # returns a time

    def _tell_notes(self, turn: int) -> None:
        """Tell what is to be said about the session; below a cell, the cell has told it."""
        if self._job is None:
            return
        for title, detail in self.agent.take_notes():
            if title:
                self.warn(title, detail, level="info", turn=turn)

    def settle(self) -> None:
        """Nothing runs any more, or a `%agent` cell has ended: what waits is next."""
        self.awaits_page = False
        if not self._is_closed:
            self.entries.tell_new()
            self._start_next()

    def take_session(self, *, is_first: bool) -> None:
        """The kernel has another session: pages ask for it anew."""
        session = self.agent.current
        if session is not None:
            self._skip_entries(session)
        self.log.forget()
        if not is_first:
            self.tell({"kind": "cleared"})
        self.tell(self.describe_session())

    def make_sink(self) -> PanelSink:
        """Return where the output of the code of the panel's turn is shown."""
        self._sink = PanelSink(
            self.tell, self._turn, self._running_tool or "", self.agent.bridge.post
        )
        return self._sink

    def take_raw(self, text: str) -> None:
        """Tell what a call wrote past Python's streams, while its tool runs."""
        if self._running_tool is not None:
            sink = self._sink or self.make_sink()
            sink.stream("stdout", text)
            sink.close()

    def record(self) -> tuple[str, str]:
        """Return the conversation's newest turns as Markdown that is safe, and as text."""
        return ops.record(self)

    # Questions ------------------------------------------------------------------------------------

    async def ask(self, use: ToolUse, asked: Asked, offers: Mapping[str, Rule]) -> Answer | None:
        """Return what a page answers, None if none shows the question; on the loop."""
        is_ours = self.agent.bridge.is_launched
        if not is_ours and not self._pages and not self.awaits_page:
            return None
        self._inputs[use.id] = use.input
        reply = self._find_reply()
        answer = await self.questions.ask(
            use,
            asked,
            offers,
            turn=reply.turn,
            step=reply.step,
            must_wait=is_ours,
            coming=_calls_behind(use, tool_uses(reply.message)),
        )
        if answer is None:  # pages that said nothing are asked again once they are heard
            self._silent, self._pages = {**self._silent, **self._pages}, {}
        if answer == "once":
            self._decisions[use.id] = "once"
        elif isinstance(answer, Always):
            self._decisions[use.id] = "always"
        return answer

    def _find_reply(self) -> MessageEntry:
        """Return the reply that is being carried out: the last message there is.

        It knows its turn and step, however late in the turn the first page came.
        """
        session = self.agent.current
        assert session is not None  # a turn of it asks
        entries = reversed(session.transcript.entries)
        return next(one for one in entries if isinstance(one, MessageEntry))

    def warn(self, text: str, detail: str = "", *, level: str = "warning", turn: int = 0) -> None:
        """Tell a sentence, as a note of the turn."""
        note = {"level": level, "title": clean_text(text), "detail": clean_text(detail)}
        self.tell({"kind": "note_added", "turn": turn or self._turn, **note})

    # The session ----------------------------------------------------------------------------------

    def describe_session(self) -> Item:
        """Return the item that says which session this is."""
        agent = self.agent
        session = agent.current
        cells, variables = self._count_names()
        known: dict[str, Any] = {"id": None, "title": "", "notebook": None, "model": "", "turns": 0}
        if session is not None:
            entry = session.transcript.session
            title = ops.title_of_session(session)
            known = {
                "id": session.id,
                "title": title,
                "notebook": None if entry is None else entry.notebook,
                "model": session.model_name,
                "turns": len(session.transcript.turns),
            }
        return {
            "kind": "session",
            **known,
            "permission_mode": agent.permission_mode,
            "is_demo": known["model"] == "demo",
            "why": agent.why,
            "cells": cells,
            "variables": variables,
        }

    def _skip_entries(self, session: Session) -> None:
        self._turn = session.transcript.turn
        self.entries.skip(session)


def _calls_behind(use: ToolUse, calls: Sequence[ToolUse]) -> Sequence[ToolUse]:
    """Return those of `calls` that come after `use`."""
    at = next((at for at, one in enumerate(calls) if one.id == use.id), len(calls))
    return calls[at + 1 :]


def new_id() -> str:
    """Return a new random id."""
    return secrets.token_urlsafe(9)


def refusal_from(error: BaseException) -> RefusedError:
    """Return an error as a page is told it."""
    match error:
        case RefusedError():
            return error
        case BusyError():
            return RefusedError("busy", str(error))
        case PromptError():
            return RefusedError("refused", str(error))
        case CtxError():
            return RefusedError("failed", str(error))
    _log.error("A call of the panel failed.", exc_info=error)
    return RefusedError("failed", f"{type(error).__name__}: {error}"[:2_000])
