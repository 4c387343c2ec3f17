"""The panel in a notebook's output: an anywidget that speaks the panel's protocol.

Its messages are the same JSON as on the comms of JupyterLab's panel, as a widget's custom messages.
anywidget is imported when a widget is first shown.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

Mode: TypeAlias = Literal["cell", "panel"]
"""Below a running cell: what it does, Stop and questions. Or the whole conversation."""

STATIC = Path(__file__).parent / "static"
WIDGET_PROTOCOL = "2.1.0"
"""The protocol of Jupyter widgets that front ends look for when a widget is announced."""
VIEW_MIME = "application/vnd.jupyter.widget-view+json"

_log = logging.getLogger(__name__)


class WidgetComm:
    """A widget's way to its pages, as if it were a comm of ours; see `ipython.gauge`.

    Where ipykernel can do that (7.4 and later), what a page says is heard as soon as the kernel has
    it: on the shell channel's thread, while a cell blocks the main thread. The same message comes
    again later, so whoever hears it must know a call by its id, and take no harm of another heard
    twice. `leave` is called with comm and client of a page that goes; `handled` on the thread that
    has handled a message.
    """

    def __init__(
        self, mode: Mode, leave: Callable[[str, str], None], handled: Callable[[], None]
    ) -> None:
        self._leave = leave
        self._handled = handled
        self._hear: list[Callable[[Any], object]] = []
        self._is_open = False
        self._opening = threading.Lock()
        self._widget: Any = _widget_class()(mode=mode)
        self._widget.on_msg(lambda widget, content, buffers: self._handle(content))
        comm = self._widget.comm
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = self._route
        self.comm_id: str = comm.comm_id

    def open(self) -> None:
        """Let pages know of it: once everybody who is to hear them does.

        Their first word may come before this returns: what it is answered waits until then.
        """
        with self._opening:
            self._widget.announce()
            self._is_open = True

    @property
    def bundle(self) -> dict[str, object]:
        """The view of it, as a MIME bundle."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.comm_id}
        return {VIEW_MIME: view}

    def carry(self, markdown: str) -> None:
        """Show Markdown that is safe in the widget, in place of what it carried before."""
        self._widget.carried = markdown

    def send(self, data: Mapping[str, object]) -> None:
        """Send one message to the widget's pages; there are none before it is open."""
        with self._opening:
            is_open = self._is_open
        if is_open:
            self._widget.send(dict(data))

    def on_msg(self, hear: Callable[[Any], object]) -> None:
        """Have `hear` called with what pages say, in the form of a comm message."""
        self._hear.append(hear)

    def on_close(self, closed: Callable[[Any], object]) -> None:
        """Have `closed` called when somebody else closes the widget."""
        self._widget.comm.on_close(closed)

    def close(self) -> None:
        """Take the widget out of its pages."""
        self._widget.close()

    def _handle(self, content: object) -> None:
        """Hear a message where the front end or ipykernel sent it: on any thread."""
        self._take(content)
        self._handled()

    def _take(self, content: object) -> None:
        match content:
            case {"type": "bye", "client": str(client)}:
                self._leave(self.comm_id, client)
        for hear in self._hear:
            hear({"content": {"data": content, "comm_id": self.comm_id}})

    def _route(self, data: object, default: object) -> object:
        """Hear a message before it is routed anywhere; return where it is to go, as it came."""
        try:
            match data:
                case {"method": "custom", "content": {"type": str()} as content}:
                    self._take(content)
        except Exception:  # the kernel's own thread: nothing may be raised into it
            _log.debug("A call of a widget could not be heard.", exc_info=True)
        return default


class Widgets:
    """The widgets of one kernel, one of each mode, made when first shown.

    `join` has a widget's comm hear and be told what every page of ours is, `leave` is told of one
    of its pages that goes. `panels` gives the comms on which the panel is open, `is_shown` whether
    the front end has said that it shows widgets, `tell_turns` has turns told from now on.
    `handled` is called where a message was handled.
    """

    def __init__(
        self,
        join: Callable[[WidgetComm], None],
        leave: Callable[[str, str], None],
        panels: Callable[[], Collection[str]],
        is_shown: Callable[[], bool],
        tell_turns: Callable[[], None],
        handled: Callable[[], None],
    ) -> None:
        self._join = join
        self._leave = leave
        self._panels = panels
        self._is_shown = is_shown
        self._tell_turns = tell_turns
        self._handled = handled
        self._made: dict[Mode, WidgetComm] = {}

    def get(self, mode: Mode) -> WidgetComm:
        """Return the widget of that mode. Raises ImportError or OSError if it cannot be made."""
        if mode not in self._made:
            made = self._made[mode] = WidgetComm(mode, self._leave, self._handled)
            made.on_close(lambda message: self._made.pop(mode, None))
            self._join(made)
            made.open()
        return self._made[mode]

    def for_cell(
        self, setting: Literal["auto", "on", "off"]
    ) -> Callable[[], WidgetComm | None] | None:
        """Return what makes the widget below the running cell, None if there is to be none.

        To be called on the main thread before the turn begins; what it returns when it has begun.
        """
        if setting == "off" or (setting == "auto" and not self._is_of_use()):
            return None
        self._tell_turns()
        return self._make_for_cell

    def _make_for_cell(self) -> WidgetComm | None:
        try:
            widget = self.get("cell")
        except (ImportError, OSError):
            _log.warning("The widget could not be made.", exc_info=True)
            return None
        widget.carry("")
        return widget

    def _is_of_use(self) -> bool:
        """Whether it can be seen and heard while a cell runs, and no other page tells the same."""
        own = {made.comm_id for made in self._made.values()}
        return hears_while_busy() and self._is_shown() and own.issuperset(self._panels())


def hears_while_busy() -> bool:
    """Whether a widget is heard while a cell blocks the main thread: by ipykernel 7 and later."""
    version: tuple[Any, ...] = getattr(sys.modules.get("ipykernel"), "version_info", (0,))
    return bool(version[0] >= 7)


@cache
def _widget_class() -> Any:
    """Return the widget's class; its script and style are read once."""
    import anywidget
    from comm import create_comm
    from traitlets import Unicode

    class AgentWidget(anywidget.AnyWidget):
        """`mode` as in `Mode`; `carried` is Markdown shown below the running turn.

        Pages hear of it when it is announced, not when it is made: their first word comes at once.
        """

        _esm = (STATIC / "widget.js").read_text("utf-8")
        _css = (STATIC / "widget.css").read_text("utf-8")
        mode = Unicode("panel").tag(sync=True)
        carried = Unicode("").tag(sync=True)

        def open(self) -> None:
            own: Any = self
            if own.comm is None:
                own.comm = create_comm(target_name="jupyter.widget", primary=False)

        def announce(self) -> None:
            own: Any = self
            data = {"state": own.get_state(), "buffer_paths": []}
            own.comm.open(data=data, metadata={"version": WIDGET_PROTOCOL})

    return AgentWidget
