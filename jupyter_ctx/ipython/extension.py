"""Loads the agent into an IPython shell, and takes it out again.

Loading imports the standard library, IPython and comm; the rest comes with the first turn
(`wiring.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError

from . import magics, place, syntax
from .agent import Agent
from .completion import make_matcher
from .recorder import CellRecorder
from .traits import JupyterCtx
from .wiring import Wiring

if TYPE_CHECKING:
    from ..panel.cell import PanelCells
    from ..panel.door import Door
    from ..panel.service import PanelService
    from ..session import Session
    from .frontend import FrontendLink
    from .gauge import Gauge


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
