"""Loads the agent into an IPython shell, and chooses what it is made of.

Only here, and in the shell command, model, store, tools and kernel are picked. Loading imports the
standard library, IPython and comm; the rest comes with the first turn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError

from .._version import __version__
from ..config import DEMO_MODEL, Settings, find_home, load_settings, make_settings, read_env
from ..errors import ConfigError, StoreError
from . import magics, place, syntax
from .agent import Agent, Opened
from .completion import make_matcher
from .recorder import CellRecorder
from .traits import JupyterCtx

if TYPE_CHECKING:
    from ..core.ports import Cell, Memory, Model, ModelFacts
    from ..export.source import Exporter
    from ..panel.cell import PanelCells
    from ..panel.door import Door
    from ..panel.service import PanelService
    from ..session import Session
    from ..store.sessions import AnySession, Fork, SessionStore
    from ..surroundings import Folder
    from ..surroundings.watch import FolderWatch
    from ..tools import Registry
    from ..tools.files import FileTools
    from ..tools.mcp import McpServers
    from ..tools.project import Project
    from ..tools.seen import Seen
    from .celltexts import CellTexts
    from .document import Document
    from .exports import Folders
    from .frontend import FrontendLink
    from .gauge import Gauge
    from .hooking import LoadedHooks
    from .kernel import IPythonKernel
    from .redaction import LiveRedactor
    from .reports import Finding
    from .sessions import Shelf
    from .start import SessionStart
    from .updates import KernelUpdates
    from .workspace import ProjectWorkspace

_run_here: set[str] = set()
"""Sessions that were open in this process: the extension may be loaded again, or `/resume` them."""

PROVIDER_SETTINGS = ("base_url", "timeout_s", "prices")
"""A change of these needs a new adapter, not only another model name."""


class Extension:
    """Everything that loading puts into a shell; `close` takes it out again, in reverse."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._undo = ExitStack()
        try:
            self._load(shell, self._undo)
        except BaseException:
            self._undo.close()
            raise

    def _load(self, shell: Any, undo: ExitStack) -> None:
        try:
            config = JupyterCtx(shell)
        except TraitError as error:
            raise UsageError(str(error)) from None
        shell.configurables.append(config)
        undo.callback(_discard, shell.configurables, config)
        recorder = CellRecorder(shell)
        undo.callback(recorder.close)
        self.agent = agent = Agent(shell, config.put)
        undo.callback(agent.close)
        agent.opener = Wiring(shell, agent, recorder, config.explicit)
        undo.callback(magics.install(shell, magics.make_magic(agent.run)))
        syntax.install(shell.input_transformer_manager)
        undo.callback(syntax.uninstall, shell.input_transformer_manager)
        if shell.Completer is not None:
            matcher = make_matcher(
                lambda text: _complete(agent, text),
                lambda begun: _complete_mention(shell, recorder, begun),
            )
            shell.Completer.custom_matchers.append(matcher)
            undo.callback(_discard, shell.Completer.custom_matchers, matcher)
        manager = getattr(getattr(shell, "kernel", None), "comm_manager", None)
        if manager is not None:
            from .frontend import FrontendLink
            from .gauge import Gauge

            agent.gauge = gauge = Gauge(manager, agent.look)
            undo.callback(gauge.close)
            link = FrontendLink(
                shell.kernel, gauge, lambda: place.find_asker(shell), lambda: recorder.is_running
            )
            undo.callback(link.close)
            agent.link = link
            door = _open_door(shell, agent, recorder, gauge)
            undo.callback(door.close)
            link.on_call, link.find_call = door.calls.hear, door.find_call
            gauge.attach(link.greet, link.hear, door.leave)
            agent.below = _make_below(shell, gauge, link, door)

    def close(self) -> None:
        """Take everything out of the shell."""
        self._undo.close()


_loaded: dict[InteractiveShell, Extension] = {}
"""By shell: a process has a second one within `IPython.embed()`, say."""


def load(shell: InteractiveShell) -> None:
    """Put the agent into the shell; one that is there already is replaced."""
    unload(shell)
    _loaded[shell] = Extension(shell)


def unload(shell: InteractiveShell) -> None:
    """Take the agent out of the shell; without one this does nothing."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.close()


def current_session() -> Session | None:
    """Return the session of the shell that runs, None before its first turn."""
    shell = get_ipython()
    extension = None if shell is None else _loaded.get(shell)
    return None if extension is None else extension.agent.current


def permission_mode() -> str | None:
    """Return the permission mode in force in the shell that runs, None without the agent."""
    shell = get_ipython()
    extension = None if shell is None else _loaded.get(shell)
    return None if extension is None else extension.agent.permission_mode


def find_stored(store: SessionStore, notebook: str, cwd: str) -> AnySession | None:
    """Open the session of the notebook at that path, else the one its own metadata names.

    None: there is none. Raises StoreError.
    """
    from .disk import read_notebook

    if (found := store.find(notebook)) is not None:
        return store.load(found.session_id)
    on_disk = read_notebook(notebook)
    named = None if on_disk is None else on_disk.session_id
    return None if named is None else store.claim(named, notebook, cwd)


class Wiring:
    """Opens sessions over this package's adapters. Implements `agent.Opener`.

    `explicit` gives the settings made by `%config` and the command line.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        agent: Agent,
        recorder: CellRecorder,
        explicit: Callable[[], Mapping[str, object]],
    ) -> None:
        self._shell = shell
        self._agent = agent
        self._recorder = recorder
        self._explicit = explicit
        self._redactor: LiveRedactor | None = None
        self._mcp: McpServers | None = None
        self._hooks: LoadedHooks | None = None
        self._users: tuple[Callable[[Settings], None], ...] = ()
        self._folder: tuple[tuple[str, str, Path | None], Folder] | None = None
        self._good: tuple[Settings, Settings] | None = None

    def settings(self) -> Settings:
        """Return the settings in force, without a home those of no file. Raises ConfigError."""
        own = self._own_settings()
        of_project = self._find_folder(own).settings()
        found = load_settings(self._explicit(), project=of_project) if of_project else own
        self._good = found, own
        return found

    def kept_settings(self) -> Settings:
        """Return the settings in force; files that cannot be read any more are as they last were.

        For what a turn asks while it runs: a file that is being edited ends none. Raises
        ConfigError if there never were any.
        """
        try:
            return self.settings()
        except ConfigError:
            if self._good is None:
                raise
            explicit: dict[str, Any] = dict(self._explicit())
            return replace(self._good[0], **explicit)

    def _own_settings(self) -> Settings:
        """Return the settings without those of the project's folder. Raises ConfigError."""
        try:
            return load_settings(self._explicit())
        except RuntimeError:  # there is no home folder to look for settings.json in
            return make_settings({**read_env(os.environ), **self._explicit()})

    @property
    def folder(self) -> Folder:
        """The project's folder, what it and the home add, and what of it is in force."""
        return self._find_folder(self._own_settings())

    @property
    def _kept_folder(self) -> Folder:
        """The same for a turn that runs: found by the settings as they last could be read."""
        try:
            return self.folder
        except ConfigError:
            if self._good is None:
                raise
            return self._find_folder(self._good[1])

    def _find_folder(self, settings: Settings) -> Folder:
        from ..store.trust import TrustFile
        from ..surroundings import Folder
        from ..tools.project import find_root

        try:
            home = find_home(settings)
        except (ConfigError, RuntimeError):
            home = None
        notebook = place.find_notebook(self._shell.user_ns, os.environ)
        here = os.path.dirname(notebook) if notebook else place.find_folder()
        key = (find_root(notebook, here), here, home)
        if self._folder is None or self._folder[0] != key:
            folder = Folder(key[0], here or key[0], home, TrustFile(home, place.today))
            self._folder = (key, folder)
        return self._folder[1]

    def redact(self, text: str) -> str:
        """Return `text` without the program's own keys, those set since the start included."""
        return self._redact().text(text)

    # Opening ------------------------------------------------------------------------------------

    def open_here(self) -> Opened:
        """Open the newest session of the kernel's notebook, or start one."""
        settings = self.settings()
        store = self._store(settings)
        notebook = place.find_notebook(self._shell.user_ns, os.environ)
        try:
            stored = None if notebook is None else find_stored(store, notebook, place.find_folder())
        except StoreError as error:
            return self._open(self._create(store, notebook), settings, [str(error)])
        return self._open(stored or self._create(store, notebook), settings)

    def open_new(self) -> Opened:
        """Start a session for the kernel's notebook."""
        settings = self.settings()
        notebook = place.find_notebook(self._shell.user_ns, os.environ)
        return self._open(self._create(self._store(settings), notebook), settings)

    def open_stored(
        self, session_id: str | None, current: str | None, fork: Fork = "held"
    ) -> Opened:
        """Open a session by id; None: the newest of this folder but the current one."""
        settings = self.settings()
        store = self._store(settings)
        if session_id is None:
            folder = place.find_folder()
            found = store.latest(folder, but=current)
            if found is None:
                raise StoreError(f"There is no other session of the folder {folder}.", path=folder)
            session_id = found.session_id
        return self._open(store.load(session_id, fork=fork), settings)

    def make_shelf(self, current: str | None) -> Shelf:
        """Return the stored sessions; `current` is the id of the kernel's own."""
        from .sessions import Shelf

        return Shelf(self._store(self.settings()), current)

    def _store(self, settings: Settings) -> SessionStore:
        from ..store.sessions import SessionStore

        try:
            home = find_home(settings)
        except (ConfigError, RuntimeError):
            home = None  # nowhere to expand `~` to: the store lives in memory and says so
        return SessionStore(home)

    @staticmethod
    def _create(store: SessionStore, notebook: str | None) -> AnySession:
        return store.create(notebook=notebook, cwd=place.find_folder())

    def _open(self, stored: AnySession, settings: Settings, warnings: Sequence[str] = ()) -> Opened:
        """Put a session together over what is stored of it."""
        from ..models import choose_model
        from ..session import Place, Session
        from ..tools import make_tools
        from ..tools.seen import Seen
        from .attach import Attacher
        from .targets import Targets
        from .updates import ToolNotebook
        from .workspace import ProjectWorkspace

        self._redact(settings)
        kernel = self._kernel(stored, settings)
        try:
            name, why = choose_model(settings, os.environ)
            notebook = self._notebook(kernel)
            seen = Seen()
            watch = self._watch(lambda: session)
            texts = self._cell_texts(stored)
            updates = self._updates(kernel, notebook, seen, watch, lambda: session, texts.keep)
            told = ToolNotebook(notebook, updates.note_applied)
            files = self._files(settings, notebook, seen)
            memory = self._memory(settings, files.project)
            tools = make_tools(
                kernel,
                StoredTexts(stored, texts),
                settings,
                notebook=told,
                seen=seen,
                files=files,
                memory=memory,
                skills=lambda: self._kept_folder.skills(),
            )
            workspace = ProjectWorkspace(
                files.project, lambda: session.transcript, lambda: self._kept_folder.skills()
            )
            servers = self._servers(files.project.root, tools, lambda: session)
            self._mcp = servers
            start = self._start(memory, lambda: session.facts.window_tokens, watch, servers)
            ports = self._ports(
                stored, kernel, tools, name, files, updates, workspace, memory, start, servers
            )
            hooks = self._hooks = self._load_hooks(stored, files.project.root)
            ports = replace(ports, hooks=hooks.commands)
            where = Place(
                stored.session_id,
                stored.info.notebook,
                place.find_folder(),
                place.describe_platform(),
                place.today(),
                __version__,
            )
            session = Session(list(stored.entries), settings, where, ports)
        except BaseException:
            kernel.close()
            stored.close()
            raise

        def close() -> None:
            kernel.close()
            stored.close()

        resumed = session.transcript.turn > 0 and session.id not in _run_here
        _run_here.add(session.id)
        self._users = (tools.use, kernel.use)
        targets = Targets(
            notebook, files.project, lambda: session.transcript.entries, self.redact, seen
        )
        attacher = Attacher(kernel, notebook, tools, files.project)
        said = [*warnings, *stored.warnings]
        return Opened(
            session,
            close,
            said,
            resumed,
            why,
            stored,
            targets,
            attacher,
            servers,
            hooks,
            lambda: tools.sources,
        )

    # The parts ----------------------------------------------------------------------------------

    def _ports(
        self,
        stored: AnySession,
        kernel: IPythonKernel,
        tools: Registry,
        model: str,
        files: FileTools,
        updates: KernelUpdates,
        workspace: ProjectWorkspace,
        memory: Memory,
        start: SessionStart,
        servers: McpServers,
    ) -> Any:
        from ..models.counting import TiktokenCounter
        from ..session import Ports
        from ..tools.filestate import ProjectFiles

        return Ports(
            model=self.make_model(model),
            counter=TiktokenCounter(),
            tools=tools,
            store=stored,
            clock=SystemClock(),
            kernel=kernel,
            permissions=self._agent.permissions,
            runner=self._agent.bridge,
            redactor=self._redact(),
            make_model=self.make_model,
            known_facts=self.known_facts,
            exporter=_make_exporter(),
            finish_turn=tools.finish_turn,
            notebook=files.notebook,
            files=ProjectFiles(files.project),
            updates=updates,
            workspace=workspace,
            agents=stored,
            memory=memory,
            start=start,
            closers=(servers.aclose,),
        )

    def _files(self, settings: Settings, notebook: Document, seen: Seen) -> FileTools:
        """Return what the tools over the project's files work on."""
        from ..tools.files import FileTools
        from .disk import parse_notebook

        own = place.find_notebook(self._shell.user_ns, os.environ)
        return FileTools(self._project(settings), seen, own, notebook, parse_notebook)

    def _project(self, settings: Settings) -> Project:
        """Return the project's folder; the program's own home in it is guarded."""
        from ..tools.project import Project, find_root

        try:
            guarded = [str(find_home(settings))]
        except (ConfigError, RuntimeError):
            guarded = []
        notebook = place.find_notebook(self._shell.user_ns, os.environ)
        return Project(find_root(notebook, place.find_folder()), guarded)

    def _watch(self, session: Callable[[], Session]) -> FolderWatch:
        """Return what tells the model of the project's folder."""
        from ..surroundings.watch import FolderWatch

        return FolderWatch(
            lambda: self._kept_folder,
            lambda: session().facts.window_tokens,
            os.environ,
            self.redact,
        )

    def _start(
        self,
        memory: Memory,
        window: Callable[[], int | None],
        watch: FolderWatch,
        servers: McpServers,
    ) -> SessionStart:
        """Return what connects and is described before a session's first turn."""
        from .recall import MemorySection
        from .start import SessionStart

        section = MemorySection(memory, window)
        return SessionStart(
            [section.connect, watch.connect, servers.connect],
            [watch.describe, section.describe],
            self.redact,
        )

    def _load_hooks(self, stored: AnySession, root: str) -> LoadedHooks:
        """Return the hooks of a session: those of the home, and of the trusted project."""
        from ..hooks.commands import Setting
        from .hooking import LoadedHooks

        transcript = "" if stored.path is None else str(stored.path / "transcript.jsonl")
        setting = Setting(stored.session_id, transcript, root, place.find_folder)
        return LoadedHooks(lambda: self.folder, setting, os.environ)

    def _servers(self, root: str, tools: Registry, session: Callable[[], Session]) -> McpServers:
        """Return the MCP servers of a session: those of the home, and of the trusted project."""
        from .mcp import make_servers

        return make_servers(lambda: self.folder, root, tools, session, self.redact)

    def _memory(self, settings: Settings, project: Project) -> Memory:
        """Return what is kept of the project across sessions; without a home nothing is."""
        from ..core.absent import NoMemory
        from ..store.memory import MemoryFile

        try:
            home = find_home(settings)
        except (ConfigError, RuntimeError):
            return NoMemory()
        return MemoryFile(home, project.root, place.today, self.redact)

    def _updates(
        self,
        kernel: IPythonKernel,
        notebook: Document,
        seen: Seen,
        watch: FolderWatch,
        session: Callable[[], Session],
        keep: Callable[[Cell], str | None],
    ) -> KernelUpdates:
        """Return who watches what changes between turns; the agent's own runs are told to it."""
        from .foldernews import FolderNews
        from .updates import KernelUpdates, Surroundings

        def look_around() -> Surroundings:
            return Surroundings(place.today(), place.find_folder())

        def look_further() -> FolderNews:
            return FolderNews(watch, session().transcript)

        call = self._agent.bridge.call
        updates = KernelUpdates(
            kernel, notebook, kernel.look_at_names, call, look_around, seen, look_further, keep
        )
        kernel.watcher = updates
        return updates

    def _notebook(self, kernel: IPythonKernel) -> Document:
        """Return the notebook document: by its page where there is one."""
        from .changes import Changes
        from .document import Document
        from .livepage import LivePage
        from .nextcell import NextCell

        shell, link = self._shell, self._agent.link

        def running_cell() -> str | None:
            return place.find_asker(shell)[1]

        def find_path() -> str | None:
            return place.find_notebook(shell.user_ns, os.environ)

        page = None if link is None else LivePage(link, running_cell)
        bridge = self._agent.bridge
        changes = Changes(page, NextCell(shell, bridge, lambda: not bridge.is_launched))
        return Document(kernel, find_path, link, changes, self._recorder.early_count)

    @property
    def export_folders(self) -> Folders:
        """Where `/export` may write: the project, the working folder and the person's home."""
        from ..tools.project import find_root
        from .exports import Folders

        notebook, folder = place.find_notebook(self._shell.user_ns, os.environ), place.find_folder()
        home = os.path.expanduser("~")
        roots = [find_root(notebook, folder), folder, *([home] if os.path.isabs(home) else ())]
        here = folder if notebook is None else os.path.dirname(notebook)
        return Folders(here, list(dict.fromkeys(filter(None, roots))))

    def _cell_texts(self, stored: AnySession) -> CellTexts:
        """Return who stores large outputs of the user's cells; long ones are spooled now."""
        from .celltexts import CellSpool, CellTexts

        redactor = self._redact()

        def make_spool() -> CellSpool:
            try:
                return CellSpool(redactor, *stored.make_spool())
            except StoreError as error:
                return CellSpool(redactor, error=OSError(str(error)))

        self._recorder.make_spool = make_spool
        return CellTexts(stored, self._recorder.cells, redactor.text, self._agent.add_note)

    def _kernel(self, stored: AnySession, settings: Settings) -> IPythonKernel:
        from .kernel import IPythonKernel
        from .spool import Spool

        def make_spool() -> Spool:
            try:
                return Spool(*stored.make_spool())
            except StoreError as error:
                return Spool(error=OSError(str(error)))

        return IPythonKernel(
            self._shell,
            self._agent.bridge,
            self._recorder,
            settings,
            self._redact(),
            make_spool,
            self._agent.make_sink,
        )

    def _redact(self, settings: Settings | None = None) -> LiveRedactor:
        """Return the redactor of the program's own keys, those set since the start included.

        `settings` says whether known shapes of keys go too; without them it stays as it was.
        """
        from ..core.redact import secrets_from
        from .redaction import LiveRedactor

        wants_shapes = None if settings is None else settings.redact_known_keys
        if self._redactor is None:
            self._redactor = LiveRedactor()
            wants_shapes = self._wants_shapes() if settings is None else wants_shapes
        self._redactor.renew(secrets_from(os.environ), known_keys=wants_shapes)
        return self._redactor

    def _wants_shapes(self) -> bool:
        try:
            return self.settings().redact_known_keys
        except ConfigError:
            return True  # until the settings can be read, rather too much is taken out

    def make_model(self, name: str) -> Model:
        """Return the model called `name` under the settings in force. Raises ConfigError."""
        from ..models import make_model

        return make_model(name, self.settings(), os.environ, self._redact())

    def known_facts(self, name: str) -> ModelFacts:
        """Return what is known of a model without asking anybody."""
        from ..models import find_url
        from ..models.facts import find_prices, table_facts

        if name != DEMO_MODEL:
            settings = self.kept_settings()
            return table_facts(name, settings, find_url(name, settings, os.environ))
        from ..models.demo import demo_facts

        return demo_facts(find_prices(name, self.kept_settings().prices))

    def known_models(self) -> Sequence[str]:
        """Return the names of models that this version knows, OpenAI's where its key is set."""
        from ..models.facts import OPENAI_TABLE, TABLE

        has_key = bool(os.environ.get("OPENAI_API_KEY", "").strip())
        return [*TABLE, *(f"openai:{one}" for one in OPENAI_TABLE if has_key), DEMO_MODEL]

    def refresh(self, session: Session, settings: Settings) -> None:
        """Bring new settings into force between turns; a new model is switched to."""
        from ..models import choose_model

        self._redact(settings)
        if self._hooks is not None:
            self._hooks.load()
        if (servers := self._mcp) is not None and (named := servers.read()) is not None:
            self._agent.bridge.post(partial(servers.use, named))
        old = session.settings
        if settings == old:
            return
        name, _ = choose_model(settings, os.environ)
        changed = any(getattr(old, one) != getattr(settings, one) for one in PROVIDER_SETTINGS)
        if changed or name != session.model_name:
            session.switch_model(name)  # first: until it can be used, the settings are not taken
        for use in self._users:
            use(settings)
        session.settings = settings

    def find_faults(self, session: Session | None) -> Sequence[Finding]:
        """Look at everything a turn needs."""
        from . import doctor

        return doctor.find_faults(self._shell, self._agent, self.settings, self.make_model)


def _make_exporter() -> Exporter:
    """Return who writes sessions to files."""
    from ..export.writer import Writer
    from ..store.codec import entry_to_json
    from .exports import make_style

    return Writer(entry_to_json, make_style())


class StoredTexts:
    """The stored texts of a session, as `read_result` reads them; `cells` stores more."""

    def __init__(self, stored: AnySession, cells: CellTexts | None = None) -> None:
        self._stored = stored
        self._cells = cells

    def read_text(self, name: str) -> Any:
        """Return a text, a long one as the path of its file; None if there is none of that name."""
        if self._cells is not None:
            self._cells.keep_named(name)
        path = self._stored.find_path(name)
        if path is not None:
            return path
        try:
            return self._stored.read_text(name)
        except StoreError:
            if name in self.names():
                raise
            return None

    def names(self) -> Sequence[str]:
        """Return the names of all results, prompts, turns and cells' outputs, oldest first."""
        from ..core.entries import FateEntry, MessageEntry

        names: list[str] = []
        for entry in self._stored.entries:
            match entry:
                case FateEntry(tool_use_id=tool_use_id):
                    names.append(tool_use_id)
                case MessageEntry(kind="prompt", turn=turn):
                    names += [f"prompt-{turn}", f"turn-{turn}"]
                case _:
                    pass
        names += () if self._cells is None else self._cells.names()
        return list(dict.fromkeys(names))


class SystemClock:
    """The machine's clock. Implements core.ports.Clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancelled turn stops waiting at once."""
        await asyncio.sleep(seconds)

    async def wait(self, seconds: float) -> None:
        """Wait between turns."""
        await asyncio.sleep(seconds)


def _open_door(shell: Any, agent: Agent, recorder: CellRecorder, gauge: Gauge) -> Door:
    """Let pages' calls in; what carries them out is made with the first."""
    from ..panel.door import Door

    def make(door: Door) -> PanelService:
        from ..panel.service import PanelService
        from ..panel.wire import kernel_awaited
        from .idle import IdleMain
        from .inventory import user_names

        def count_names() -> tuple[int, int]:
            names = user_names(dict(list(shell.user_ns.items())), shell.user_ns_hidden)
            return len(recorder.labels()), len(list(names))

        idle = IdleMain(
            shell,
            lambda: recorder.is_running,
            lambda text: service.take_raw(text),
            lambda waits: service.tell(kernel_awaited(waits)),
        )
        service = PanelService(
            agent, door, idle, count_names, lambda begun: _complete_mention(shell, recorder, begun)
        )
        return service

    def post(function: Callable[[], None]) -> bool:
        return "bridge" in vars(agent) and agent.bridge.post(function)

    return Door(shell.kernel, gauge, post, make)


def _make_below(shell: Any, gauge: Gauge, link: FrontendLink, door: Door) -> PanelCells:
    """Have the panel shown in outputs too; the gauge closes what is made."""
    from ..panel.cell import PanelCells
    from ..panel.widget import Widgets

    widgets = Widgets(
        gauge.join,
        door.leave,
        lambda: door.panels,
        lambda: link.has_page and link.shows_widgets,
        door.open,
        link.stay_busy,
    )
    return PanelCells(shell, widgets, door.record)


def _complete(agent: Agent, text: str) -> list[str]:
    from .commands import complete

    return complete(agent, text)


def _complete_mention(shell: Any, recorder: CellRecorder, begun: str) -> list[str]:
    from ..tools.project import Project, find_root
    from .completion import complete_mention

    notebook = place.find_notebook(shell.user_ns, os.environ)
    project = Project(find_root(notebook, place.find_folder()))
    return complete_mention(begun, shell.user_ns, shell.user_ns_hidden, recorder.labels(), project)


def _discard(items: list[Any], item: object) -> None:
    """Remove `item` itself from a list, if it is there."""
    items[:] = [one for one in items if one is not item]
