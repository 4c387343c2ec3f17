"""The agent of one kernel: its session, its settings, and what runs a prompt in a cell.

It knows the session and the shell. Which model, store and tools there are is the business of the
Opener it is given (`wiring.py`).
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from ..errors import BusyError, CtxError, PromptError, StoreError

# What a shell without a turn does not need is imported where it is used: loading stays quick.
if TYPE_CHECKING:
    from ..config import PermissionMode, Settings
    from ..core.attachments import Attachment
    from ..core.events import CtxEvent, TurnFinished
    from ..session import Session
    from ..store.sessions import Fork
    from ..surroundings import Folder
    from ..tools.mcp import McpServers, ServerReport
    from .asking import InputAsker
    from .bridge import Bridge
    from .commands import Shown
    from .exports import Folders
    from .frontend import FrontendLink
    from .gauge import Gauge, Look
    from .hooking import LoadedHooks
    from .live import Sink
    from .mentions import Mention
    from .permissions import AskPermissions
    from .ports import Below, Opened, Opener, Panel
    from .render import CellRenderer
    from .reports import Finding
    from .sessions import Shelf
    from .terminal import TerminalRenderer

    Renderer = CellRenderer | TerminalRenderer

EMPTY_TEXT = "Type what the agent should do: `%agent TEXT`, or `%%agent` with the text below it."
THREAD_TEXT = "`%agent` runs in the kernel's main thread only; run it in a cell of its own."
STOPPED_TEXT = "Stopped by you before the first step. Nothing was sent."
RESTARTED_TITLE = "Kernel restarted: the variables are gone, the conversation is not."
RESTARTED_NOTE = (
    "The kernel was restarted since the last turn: every variable, import and function made before "
    "is gone. What is in the namespace now was made since then."
)
ELSEWHERE_TITLE = "Its turns ran in another kernel: their variables are not here."
ELSEWHERE_NOTE = (
    "The turns so far ran in another kernel: none of their variables, imports and functions is "
    "here. What is in the namespace now was made in this kernel."
)
PANEL_TEXT = "A turn runs in the panel; wait for it, or stop it there, then run this cell again."
LOOKS = frozenset(("help", "context", "cost"))
"""Commands that only look, also at a session whose turn runs."""
NO_PANEL_TEXT = "The panel is for notebooks; here, ask with `%agent TEXT`."
PANEL_HERE_TEXT = "This is the panel; `%agent /panel` in a cell shows it there."
REPLAYED_TEXT = "Stored answer: this cell asked the same before (setting rerun = replay)"
ASKED_ANEW_TEXT = "Asked anew: this cell asked the same before (setting rerun = ask)"


class Agent:
    """What `%agent` and `jupyter_ctx.current_session()` talk to. One for each kernel.

    `gauge`, `link`, `panel`, `below` and `opener` are set once they are made: they look back at the
    agent.
    """

    gauge: Gauge | None = None
    link: FrontendLink | None = None
    panel: Panel | None = None
    below: Below | None = None
    opener: Opener

    def __init__(self, shell: InteractiveShell, put: Callable[[str, object], None]) -> None:
        self._shell = shell
        self._put = put
        self._opened: Opened | None = None
        self._renderer: Renderer | None = None
        self._notes: list[tuple[str, str]] = []
        self._cells = 0
        self._cell_id: str | None = None

    # What others ask ----------------------------------------------------------------------------

    @cached_property
    def bridge(self) -> Bridge:
        """The bridge between this kernel's threads."""
        from .bridge import Bridge

        return Bridge(self._observe, self._settle)

    @cached_property
    def permissions(self) -> AskPermissions:
        """Asks the person, by the mode in force, and keeps the rules of the session."""
        from .permissions import AskPermissions

        return AskPermissions(
            self.bridge, lambda: self.permission_mode, self.make_asker, lambda: self.panel
        )

    @property
    def current(self) -> Session | None:
        """The kernel's session, None before the first turn."""
        return None if self._opened is None else self._opened.session

    @property
    def session(self) -> Session:
        """The kernel's session; the notebook's own, or a new one, if there is none yet."""
        if self._opened is None:
            self._take(self.opener.open_here(), is_first=True)
        assert self._opened is not None  # just taken
        return self._opened.session

    @property
    def permission_mode(self) -> PermissionMode:
        """The mode in force."""
        return self.opener.kept_settings().permissions

    @property
    def on_event(self) -> Callable[[CtxEvent], None]:
        """Shows events in the running cell."""
        return self._show_with(self._require_renderer())

    def put_setting(self, name: str, value: object) -> None:
        """Set a setting for this kernel. Raises ConfigError."""
        self._put(name, value)

    def start_new(self) -> Session:
        """Leave the session and start another. Raises BusyError while a turn runs."""
        return self._replace(self.opener.open_new)

    def resume(self, session_id: str | None, *, fork: Fork = "held") -> Session:
        """Go on with a stored session, or a copy. Raises StoreError, BusyError in a turn."""
        current = None if self._opened is None else self._opened.session.id
        if session_id is not None and session_id == current and fork != "always":
            raise PromptError(f"Session {session_id} is the one that is open here.")
        return self._replace(lambda: self.opener.open_stored(session_id, current, fork))

    @property
    def sessions(self) -> Shelf:
        """The stored sessions."""
        return self.opener.make_shelf(None if self._opened is None else self._opened.session.id)

    def known_models(self) -> Sequence[str]:
        """Return the names of models that can be chosen."""
        return self.opener.known_models()

    def find_lack(self, name: str) -> CtxError | None:
        """Return why a model cannot be used, as far as that is known; None: nothing is missing."""
        return self.opener.find_lack(name)

    @property
    def folder(self) -> Folder:
        """The project's folder, and what it and the home add. Raises ConfigError."""
        return self.opener.folder

    @property
    def servers(self) -> Sequence[ServerReport]:
        """The MCP servers of the session as they stand now. Raises CtxError."""
        return () if (servers := self._mcp) is None else servers.report()

    @property
    def hooks(self) -> LoadedHooks | None:
        """The commands of the settings files that run as hooks, None without a session."""
        return None if self._opened is None else self._opened.hooks

    @property
    def tool_sources(self) -> Mapping[str, str]:
        """Who brought each tool that is not built in, by the tool's name."""
        return {} if self._opened is None else self._opened.tool_sources()

    def restart_server(self, name: str) -> str:
        """Reach an MCP server again and return how that came out; blocks. Raises ToolError."""
        servers = self._mcp
        if servers is None:
            raise PromptError("This session has no MCP servers.")
        return self.bridge.wait(lambda: servers.restart(name))

    @property
    def _mcp(self) -> McpServers | None:
        session = self.session  # opened if there is none yet
        opened = self._opened
        return opened.servers if opened is not None and opened.session is session else None

    @property
    def export_folders(self) -> Folders:
        """Where exports may be written."""
        return self.opener.export_folders

    def show_panel(self) -> None:
        """Show the panel below the running cell. Raises PromptError where there is none."""
        if self.below is None:
            raise PromptError(NO_PANEL_TEXT)
        if threading.current_thread() is not threading.main_thread():
            raise PromptError(PANEL_HERE_TEXT)
        self.below.show()

    def find_faults(self) -> Sequence[Finding]:
        """Look at everything a turn needs."""
        return self.opener.find_faults(self.current)

    def look(self) -> Look | None:
        """Return what the gauge shows of the session; None before it."""
        session = self.current
        if session is None:
            return None
        from dataclasses import asdict

        from .gauge import Look

        def look() -> Look:
            costs = session.total_costs
            priced = None if costs is None else asdict(costs)
            return Look(session.id, session.state, session.context(), priced)

        return self.bridge.look(look)

    @property
    def why(self) -> str:
        """Why this model was chosen, in a few words; "" without a session."""
        return "" if self._opened is None else self._opened.why

    @property
    def is_in_cell(self) -> bool:
        """Whether a `%agent` cell runs."""
        return self._cells > 0

    @property
    def cell_id(self) -> str | None:
        """The cell whose prompt runs, None: none."""
        return self._cell_id

    def make_sink(self) -> Sink:
        """Return where the output of the agent's code is shown."""
        if self.panel is not None and self.bridge.is_launched:
            return self.panel.make_sink()
        sink = (self._renderer or self._make_renderer()).make_sink()
        if self.panel is None:
            return sink
        from .sinks import TeeSink

        return TeeSink(sink, self.panel.make_sink())

    def make_asker(self) -> InputAsker:
        """Return who asks the person for permission."""
        from .asking import InputAsker

        return InputAsker(self._shell, self._renderer or self._make_renderer())

    def close(self) -> None:
        """Stop what runs, close the session and its model's connections, end the thread."""
        opened, self._opened = self._opened, None
        if "bridge" in vars(self):
            self.bridge.close(None if opened is None else opened.session.aclose)
        if opened is not None:
            self._close(opened)

    # What a cell asks ---------------------------------------------------------------------------

    def run(self, text: str) -> None:
        """Run the text of a `%agent` cell: a command or a prompt.

        Raises CtxError: it could not run, or was stopped, or failed.
        """
        if threading.current_thread() is not threading.main_thread():
            raise PromptError(THREAD_TEXT)
        if not text.strip():
            raise PromptError(EMPTY_TEXT)
        try:
            self._cells += 1
            with self._rendering() as renderer:
                if text.lstrip().startswith("/"):
                    self._run_command(text.strip(), renderer)
                else:
                    self._run_prompt(text, renderer)
        finally:
            self._cells -= 1
            self._cell_id = None
            if self.panel is not None:
                self.panel.settle()

    def _run_command(self, text: str, renderer: Renderer) -> None:
        from .commands import parse

        command, argument = parse(self.opener.redact(text))
        if self._opened is not None:
            try:
                self._refresh(self._opened.session)
            except CtxError as error:  # a command may be what finds the fault, or mends it
                self._notes.append((str(error), ""))
        shown: Shown | None
        if command.name in LOOKS:  # a turn of the panel may run
            shown = self.bridge.look(lambda: command.run(self, argument))
        else:
            shown = command.run(self, argument)
        self._tell(renderer)
        if shown is not None:
            shown = self.opener.redact_shown(shown)
            renderer.show(shown.markdown, shown.text, shown.json)
        self._settle()

    def _run_prompt(self, text: str, renderer: Renderer) -> None:
        from . import words
        from .mentions import parse
        from .place import find_cell_id

        if self._cells == 1 and self._opened is not None and self._opened.session.is_running:
            raise BusyError(PANEL_TEXT)
        prompt = parse(text)
        session = self.session
        self._refresh(session)
        self._tell(renderer)
        cell_id = self._cell_id = find_cell_id(self._shell)
        if (answer := session.find_answer(cell_id, prompt.text)) is not None:
            if session.settings.rerun == "replay":
                self._replay(answer, renderer)
                return
            renderer.line(ASKED_ANEW_TEXT)
        attachments = self._look_up(prompt.mentions)
        self._show_live(renderer, session.settings)
        ended = _Ended(self._show_with(renderer))
        session.ask(prompt.text, cell_id=cell_id, attachments=attachments, on_event=ended)
        assert ended.event is not None  # a turn that returns has told of its end
        if ended.event.outcome != "done":
            raise CtxError(words.failure(ended.event))

    async def load_mentioned(self, mentions: Sequence[Mention]) -> tuple[Attachment, ...]:
        """Return what a prompt's mentions name. Raises PromptError: nothing is to be sent then.

        For the loop of the turns; a session must be open.
        """
        if not mentions:
            return ()
        opened = self._opened
        assert opened is not None  # a prompt has a session
        if opened.attacher is None:
            raise PromptError("Nothing can be mentioned here.")
        return await opened.attacher.load(mentions, opened.session.facts.window_tokens)

    def refresh(self) -> None:
        """Bring new settings into force between turns. Raises CtxError."""
        if self._opened is not None:
            self._refresh(self._opened.session)

    def add_note(self, text: str) -> None:
        """Have a sentence said about the session, with the next cell; from any thread."""
        self._notes.append((text, ""))

    def take_notes(self) -> Sequence[tuple[str, str]]:
        """Return what is to be said about the session, once: title and detail of each."""
        notes, self._notes = self._notes, []
        return notes

    def _show_live(self, renderer: Renderer, settings: Settings) -> None:
        """Have a widget show the turn while it runs, where one is of use."""
        from .render import CellRenderer

        if self.below is not None and isinstance(renderer, CellRenderer):
            renderer.find_live = self.below.for_cell(settings.cell_widget)
            if renderer.find_live is not None and self.link is not None:
                self.link.remember_cell()

    def _look_up(self, mentions: Sequence[Mention]) -> tuple[Attachment, ...]:
        """The same for a cell's thread; blocks."""
        if not mentions:
            return ()
        found: list[tuple[Attachment, ...]] = []
        events: tuple[CtxEvent, ...] = ()  # it tells of none

        async def look() -> AsyncGenerator[CtxEvent, None]:
            found.append(await self.load_mentioned(mentions))
            for event in events:
                yield event

        self.bridge.run(look, lambda event: None)
        if not found:
            raise BusyError(STOPPED_TEXT)
        return found[0]

    def _replay(self, answer: str, renderer: Renderer) -> None:
        from .markdown import safe_markdown
        from .plaintext import plain

        renderer.show(safe_markdown(answer), plain(answer))
        renderer.line(REPLAYED_TEXT)

    # Behind them --------------------------------------------------------------------------------

    def _refresh(self, session: Session) -> None:
        if not session.is_running:
            self.opener.refresh(session, self.opener.settings())

    def _replace(self, open_other: Callable[[], Opened]) -> Session:
        if self._opened is not None and self._opened.session.is_running:
            raise BusyError("A turn is running; wait for it or stop it first.")
        opened = open_other()
        old, self._opened = self._opened, None
        self._take(opened, is_first=old is None)
        if old is not None:
            try:
                self.bridge.finish(old.session.aclose)  # may still record what it prepared
            finally:
                self._close(old)
        return opened.session

    def _close(self, opened: Opened) -> None:
        """Close a session; that its store can no more be written is said, and stops nothing."""
        try:
            opened.close()
        except StoreError as error:
            self._notes.append((str(error), ""))

    def _take(self, opened: Opened, *, is_first: bool) -> None:
        """Make the session the kernel's, and note what must be said about it."""
        self._opened = opened
        session = opened.session
        if is_first:
            self._notes.append(_model_note(session, opened.why))
        if opened.resumed:
            self._tell_lost(session, is_first=is_first)
        self._notes.extend((warning, "") for warning in opened.warnings)
        permissions = self.permissions
        warnings = permissions.take(session.id, opened.rules, opened.targets)
        self._notes.extend((warning, "") for warning in warnings)
        if permissions.rules:
            rules = "; ".join(permissions.rules)
            self._notes.append(("", f"Still allowed in this session: {rules} (/permissions)"))
        if self.panel is not None:
            self.panel.take_session(is_first=is_first)

    def _tell_lost(self, session: Session, *, is_first: bool) -> None:
        """Tell person and model that the variables are not here, by name as far as known."""
        from ..core.names import find_lost, lost_line

        lost = lost_line(find_lost(session.transcript, self._shell.user_ns))
        note = RESTARTED_NOTE if is_first else ELSEWHERE_NOTE
        self._notes.append((RESTARTED_TITLE if is_first else ELSEWHERE_TITLE, lost))
        session.add_startup_note(f"{note} {lost}".rstrip())

    def _tell(self, renderer: Renderer) -> None:
        """Show what is to be said about the session, once."""
        for title, detail in self.take_notes():
            if title:
                renderer.note(title, detail)
            else:
                renderer.line(detail)

    def _observe(self, event: CtxEvent) -> None:
        if self.gauge is not None:
            self.gauge.notice(event)
        if self.panel is not None:
            self.panel.notice(event)

    def _settle(self) -> None:
        """Nothing runs any more: the gauge shows it."""
        if self.gauge is not None:
            self.gauge.send()
        if self.panel is not None:
            self.panel.settle()
        if self.below is not None:
            self.below.renew()

    def _show_with(self, renderer: Renderer) -> _Shower:
        return _Shower(renderer, None if self.gauge is None else self.gauge.flush)

    @contextmanager
    def _rendering(self) -> Iterator[Renderer]:
        """Give the cell its renderer; within a cell that has one, a second for what is nested."""
        outer, self._renderer = self._renderer, self._make_renderer()
        try:
            yield self._renderer
        finally:
            self._renderer.close()
            self._renderer = outer

    def _require_renderer(self) -> Renderer:
        return self._renderer or self._make_renderer()

    def _make_renderer(self) -> Renderer:
        if getattr(self._shell, "kernel", None) is not None:
            from .render import CellRenderer

            return CellRenderer(self._shell, self._context)
        from .terminal import TerminalRenderer

        return TerminalRenderer(self._context)

    def _context(self) -> Mapping[str, object]:
        session = self.current
        return {} if session is None else self.bridge.look(session.context)


class _Shower:
    """Shows events with a renderer; between them lets it and the gauge do what has waited."""

    def __init__(self, renderer: Renderer, flush: Callable[[], float | None] | None) -> None:
        self._renderer = renderer
        self._flush = flush

    def __call__(self, event: CtxEvent) -> None:
        self._renderer(event)

    def tick(self) -> float | None:
        waits = [self._renderer.tick(), self._flush() if self._flush is not None else None]
        return min((wait for wait in waits if wait is not None), default=None)


class _Ended:
    """Passes events on and keeps the last one of the turn."""

    def __init__(self, show: _Shower) -> None:
        self._show = show
        self.event: TurnFinished | None = None
        self.tick = show.tick

    def __call__(self, event: CtxEvent) -> None:
        from ..core.events import TurnFinished

        if isinstance(event, TurnFinished):
            self.event = event
        self._show(event)


def _model_note(session: Session, why: str) -> tuple[str, str]:
    """Return what the first turn says about the model: title and detail, or only a quiet line."""
    from ..config import DEMO_MODEL

    if session.model_name != DEMO_MODEL:
        return "", f"Model {session.model_name}"
    if why == "it is set":
        return "Demo model: answers are scripted, offline and free.", ""
    return (
        "Demo model: no key is set.",
        "Answers are scripted, offline and free; everything else is real. "
        "To use Claude, set ANTHROPIC_API_KEY before Jupyter starts.",
    )
