"""What the agent of a kernel is given: who opens sessions, the panel, what is shown below cells.

`extension.py` and `wiring.py` choose what implements them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

# What a shell without a turn does not need is imported where it is used: loading stays quick.
if TYPE_CHECKING:
    from ..config import Settings
    from ..core.blocks import ToolUse
    from ..core.events import CtxEvent
    from ..errors import CtxError
    from ..session import Session
    from ..store.sessions import Fork
    from ..surroundings import Folder
    from ..tools.mcp import McpServers
    from .asked import Asked
    from .attach import Attacher
    from .commands import Shown
    from .exports import Folders
    from .hooking import LoadedHooks
    from .live import Sink
    from .permissions import Answer, Look, RuleStore
    from .render import Live
    from .reports import Finding
    from .rules import Rule
    from .sessions import Shelf


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that was opened. `warnings` are sentences for the person.

    `resumed`: it has turns, and they ran in another kernel. `why` says, in a few words, why this
    model was chosen. `rules` keeps what the user allows for the session, None: nothing does;
    `targets` looks at what calls would act on, `attacher` at what prompts mention. `servers` are
    its MCP servers, `hooks` the commands of the settings files, None: there are none.
    `tool_sources` says who brought a tool that is not built in.
    """

    session: Session
    close: Callable[[], None]
    warnings: Sequence[str] = ()
    resumed: bool = False
    why: str = ""
    rules: RuleStore | None = None
    targets: Look | None = None
    attacher: Attacher | None = None
    servers: McpServers | None = None
    hooks: LoadedHooks | None = None
    tool_sources: Callable[[], Mapping[str, str]] = dict


class Opener(Protocol):
    """Opens sessions over adapters of its choice."""

    def settings(self) -> Settings:
        """Return the settings in force. Raises ConfigError."""
        ...

    def kept_settings(self) -> Settings:
        """Return them for a turn that runs: files that broke meanwhile are as they last were."""
        ...

    def redact(self, text: str) -> str:
        """Return `text` without the program's own keys."""
        ...

    def redact_shown(self, shown: Shown) -> Shown:
        """Return what a command shows without them."""
        ...

    def open_here(self) -> Opened:
        """Open the notebook's session, or start one. Raises CtxError."""
        ...

    def open_new(self) -> Opened:
        """Start a session. Raises CtxError."""
        ...

    def open_stored(
        self, session_id: str | None, current: str | None, fork: Fork = "held"
    ) -> Opened:
        """Open a session; None: the newest of this folder but the current one. Raises CtxError."""
        ...

    @property
    def folder(self) -> Folder:
        """The project's folder, and what it and the home add. Raises ConfigError."""
        ...

    def refresh(self, session: Session, settings: Settings) -> None:
        """Bring new settings into force between turns. Raises CtxError."""
        ...

    def make_shelf(self, current: str | None) -> Shelf:
        """Return the stored sessions; `current` is the id of the kernel's own, None: it has none.

        Raises ConfigError.
        """
        ...

    def known_models(self) -> Sequence[str]:
        """Return the names of models that can be chosen."""
        ...

    def find_lack(self, name: str) -> CtxError | None:
        """Return why a model cannot be used, as far as that is known; None: nothing is missing."""
        ...

    @property
    def export_folders(self) -> Folders:
        """Where exports may be written."""
        ...

    def find_faults(self, session: Session | None) -> Sequence[Finding]:
        """Look at everything a turn needs."""
        ...


class Panel(Protocol):
    """The pages that show the panel, once one has called. Also `permissions.Pages`."""

    def notice(self, event: CtxEvent) -> None:
        """Show an event of a turn; on the thread that handles it."""
        ...

    def settle(self) -> None:
        """Nothing runs any more, or a `%agent` cell has ended."""
        ...

    def take_session(self, *, is_first: bool) -> None:
        """The kernel has another session."""
        ...

    def make_sink(self) -> Sink:
        """Return where the output of the code of the panel's turn is shown."""
        ...

    async def ask(self, use: ToolUse, asked: Asked, offers: Mapping[str, Rule]) -> Answer | None:
        """Return what is answered to a question there, None if no page shows it."""
        ...

    def warn(self, text: str) -> None:
        """Show a sentence."""
        ...


class Below(Protocol):
    """What of the panel is shown below cells."""

    def for_cell(self, setting: Literal["auto", "on", "off"]) -> Callable[[], Live | None] | None:
        """Return what makes the view of a turn about to begin, None: there is to be none."""
        ...

    def show(self) -> None:
        """Show the panel. Raises PromptError."""
        ...

    def renew(self) -> None:
        """Bring what is shown of the conversation up to date; from any thread."""
        ...
