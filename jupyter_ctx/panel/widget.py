"""The panel in a notebook's output: an anywidget that speaks the panel's protocol.

Its messages are the same JSON as on the comms of JupyterLab's panel, as a widget's custom messages.
anywidget is imported when a widget is first shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

Mode: TypeAlias = Literal["cell", "panel"]
"""Below a running cell: what it does, Stop and questions. Or the whole conversation."""

STATIC = Path(__file__).parent / "static"
VIEW_MIME = "application/vnd.jupyter.widget-view+json"

_log = logging.getLogger(__name__)


class WidgetComm:
    """A widget's way to its pages, as if it were a comm of ours; see `ipython.gauge`.

    `route` is called with each call of a page as soon as the kernel has it, where ipykernel can do
    that (7.4 and later): on the shell channel's thread, while a cell blocks the main thread. The
    same message comes again by `on_msg`, so whoever hears it must know it by its id.
    """

    def __init__(self, mode: Mode) -> None:
        self._widget: Any = _widget_class()(mode=mode)
        self._hear: list[Callable[[Any], object]] = []
        self.comm_id: str = self._widget.comm.comm_id
        self._widget.on_msg(lambda widget, content, buffers: self._take(content))
        comm = self._widget.comm
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = self._route

    @property
    def bundle(self) -> dict[str, object]:
        """The view of it, as a MIME bundle."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.comm_id}
        return {VIEW_MIME: view}

    def carry(self, markdown: str) -> None:
        """Show Markdown that is safe in the widget, in place of what it carried before."""
        self._widget.carried = markdown

    def send(self, data: Mapping[str, object]) -> None:
        """Send one message to the widget's pages."""
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

    def _take(self, content: object) -> None:
        for hear in self._hear:
            hear({"content": {"data": content, "comm_id": self.comm_id}})

    def _route(self, data: object, default: object) -> object:
        """Hear a call before it is routed anywhere; return where it is to go, as it came."""
        try:
            match data:
                case {"method": "custom", "content": {"type": "call"} as content}:
                    self._take(content)
        except Exception:  # the kernel's own thread: nothing may be raised into it
            _log.debug("A call of a widget could not be heard.", exc_info=True)
        return default


class Widgets:
    """The widgets of one kernel, one of each mode, made when first shown.

    `join` has a widget's comm hear and be told what every page of ours is.
    """

    def __init__(self, join: Callable[[WidgetComm], None]) -> None:
        self._join = join
        self._made: dict[Mode, WidgetComm] = {}

    def get(self, mode: Mode) -> WidgetComm:
        """Return the widget of that mode. Raises ImportError or OSError if it cannot be made."""
        if mode not in self._made:
            made = self._made[mode] = WidgetComm(mode)
            made.on_close(lambda message: self._made.pop(mode, None))
            self._join(made)
        return self._made[mode]


@cache
def _widget_class() -> Any:
    """Return the widget's class; its script and style are read once."""
    import anywidget
    from traitlets import Unicode

    class AgentWidget(anywidget.AnyWidget):
        """`mode` as in `Mode`; `carried` is Markdown shown below the running turn."""

        _esm = (STATIC / "widget.js").read_text("utf-8")
        _css = (STATIC / "widget.css").read_text("utf-8")
        mode = Unicode("panel").tag(sync=True)
        carried = Unicode("").tag(sync=True)

    return AgentWidget
