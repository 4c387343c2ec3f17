"""Chooses what a session in a shell is made of: model, store, tools, kernel and all the rest.

Only here, and in the shell command, adapters are picked; each is imported with the first turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from .._version import __version__
from ..config import DEMO_MODEL, Settings, find_home, load_settings, make_settings, read_env
from ..errors import ConfigError, CtxError, StoreError
from . import place
from .agent import Agent
from .ports import Opened
from .recorder import CellRecorder

if TYPE_CHECKING:
    from ..core.ports import Cell, Memory, Model, ModelFacts
    from ..export.source import Exporter
    from ..ports import Ports
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
    from .commands import Shown
    from .document import Document
    from .exports import Folders
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
    """Opens sessions over this package's adapters. Implements `ports.Opener`.

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
        self._told: dict[tuple[str, str], ModelFacts] = {}
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

        home = _find_home(settings)
        notebook = self._find_notebook()
        here = os.path.dirname(notebook) if notebook else place.find_folder()
        key = (find_root(notebook, here), here, home)
        if self._folder is None or self._folder[0] != key:
            folder = Folder(key[0], here or key[0], home, TrustFile(home, place.today))
            self._folder = (key, folder)
        return self._folder[1]

    def _find_notebook(self) -> str | None:
        """Return the path of the kernel's notebook, None if nobody says."""
        return place.find_notebook(self._shell.user_ns, os.environ)

    def redact(self, text: str) -> str:
        """Return `text` without the program's own keys, those set since the start included."""
        return self._redact().text(text)

    def redact_shown(self, shown: Shown) -> Shown:
        """Return what a command shows without the program's own keys."""
        redactor = self._redact()
        markdown, text = redactor.markdown(shown.markdown), redactor.text(shown.text)
        return replace(shown, markdown=markdown, text=text, json=redactor.json(shown.json))

    # Opening ------------------------------------------------------------------------------------

    def open_here(self) -> Opened:
        """Open the newest session of the kernel's notebook, or start one."""
        settings = self.settings()
        store = self._store(settings)
        notebook = self._find_notebook()
        try:
            stored = None if notebook is None else find_stored(store, notebook, place.find_folder())
        except StoreError as error:
            return self._open(self._create(store, notebook), settings, [str(error)])
        return self._open(stored or self._create(store, notebook), settings)

    def open_new(self) -> Opened:
        """Start a session for the kernel's notebook."""
        settings = self.settings()
        notebook = self._find_notebook()
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

        return SessionStore(_find_home(settings))  # without one it lives in memory and says so

    @staticmethod
    def _create(store: SessionStore, notebook: str | None) -> AnySession:
        return store.create(notebook=notebook, cwd=place.find_folder())

    def _open(self, stored: AnySession, settings: Settings, warnings: Sequence[str] = ()) -> Opened:
        """Put a session together over what is stored of it."""
        from ..models import choose_model
        from ..ports import Place
        from ..session import Session
        from ..tools import make_tools
        from ..tools.seen import Seen
        from .attach import Attacher
        from .storedtexts import StoredTexts
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
            hooks = self._hooks = self._load_hooks(stored, files.project.root)
            ports = self._ports(
                stored,
                kernel,
                tools,
                name,
                files,
                updates,
                workspace,
                memory,
                start,
                servers,
                hooks,
            )
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
        hooks: LoadedHooks,
    ) -> Ports:
        from ..models.counting import TiktokenCounter
        from ..ports import Ports
        from ..tools.filestate import ProjectFiles
        from .clock import SystemClock

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
            keep_facts=self._keep_facts,
            exporter=_make_exporter(),
            finish_turn=tools.finish_turn,
            notebook=files.notebook,
            files=ProjectFiles(files.project),
            updates=updates,
            workspace=workspace,
            agents=stored,
            memory=memory,
            start=start,
            hooks=hooks.commands,
            closers=(servers.aclose,),
        )

    def _files(self, settings: Settings, notebook: Document, seen: Seen) -> FileTools:
        """Return what the tools over the project's files work on."""
        from ..tools.files import FileTools
        from .disk import parse_notebook

        own = self._find_notebook()
        return FileTools(self._project(settings), seen, own, notebook, parse_notebook)

    def _project(self, settings: Settings) -> Project:
        """Return the project's folder; the program's own home in it is guarded."""
        from ..tools.project import Project, find_root

        home = _find_home(settings)
        guarded = [] if home is None else [str(home)]
        notebook = self._find_notebook()
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

        home = _find_home(settings)
        if home is None:
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

        page = None if link is None else LivePage(link, running_cell)
        bridge = self._agent.bridge
        changes = Changes(page, NextCell(shell, bridge, lambda: not bridge.is_launched))
        return Document(kernel, self._find_notebook, link, changes, self._recorder.early_count)

    @property
    def export_folders(self) -> Folders:
        """Where `/export` may write: the project, the working folder and the person's home."""
        from ..tools.project import find_root
        from .exports import Folders

        notebook, folder = self._find_notebook(), place.find_folder()
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
        """Return what is known of a model without asking anybody.

        What its server told in this kernel comes before the tables.
        """
        from ..models import find_url
        from ..models.facts import find_prices, table_facts

        settings = self.kept_settings()
        if name != DEMO_MODEL:
            url = find_url(name, settings, os.environ)
            facts = table_facts(name, settings, url)
            told = self._told.get((name, url))
            return facts if told is None else replace(told, prices=facts.prices or told.prices)
        from ..models.demo import demo_facts

        return demo_facts(find_prices(name, settings.prices))

    def _keep_facts(self, facts: ModelFacts) -> None:
        """Remember what a provider told of its model, as long as the address is the same."""
        if facts.window_source in ("api", "server") or facts.listed:
            url = self._find_url(facts.name)
            if url is not None:  # else the settings are just being edited: it is told again
                self._told[facts.name, url] = facts

    def known_models(self) -> Sequence[str]:
        """Return the names of models that can be chosen.

        Those that servers told of in this kernel and those that this version knows, OpenAI's where
        its key is set.
        """
        from ..models.facts import OPENAI_TABLE, TABLE

        told = [
            one
            for (name, url), facts in list(self._told.items())
            if self._find_url(name) == url
            for one in (*facts.listed, name)
        ]
        has_key = bool(os.environ.get("OPENAI_API_KEY", "").strip())
        openai = [f"openai:{one}" for one in OPENAI_TABLE if has_key]
        return [*dict.fromkeys((*told, *TABLE, *openai)), DEMO_MODEL]

    def _find_url(self, name: str) -> str | None:
        """Return where requests for a model go now, None where the settings name no address."""
        from ..models import find_url

        try:
            return find_url(name, self.kept_settings(), os.environ)
        except ConfigError:
            return None

    def find_lack(self, name: str) -> CtxError | None:
        """Return why model `name` cannot be used, as far as that is known without asking anybody.

        No key, or an SDK that is not installed; None: nothing is missing.
        """
        from ..models.sdk_model import SdkModel

        try:
            model = self.make_model(name)
            if isinstance(model, SdkModel):
                model.check_key()
        except CtxError as error:
            return error
        return None

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


def _find_home(settings: Settings) -> Path | None:
    """Return the program's home, None: there is nowhere to keep anything."""
    try:
        return find_home(settings)
    except (ConfigError, RuntimeError):  # nowhere to expand `~` to
        return None


def _make_exporter() -> Exporter:
    """Return who writes sessions to files."""
    from ..export.writer import Writer
    from ..store.codec import entry_to_json
    from .exports import make_style

    return Writer(entry_to_json, make_style())
