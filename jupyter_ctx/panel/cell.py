"""The panel below a cell: the widget, and under it the conversation as static Markdown.

The Markdown is renewed at each turn's end, so that the saved notebook can be read without a kernel.
While a turn runs, a smaller widget may stand below its own cell.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Literal

from IPython.core.interactiveshell import InteractiveShell

from ..errors import PromptError
from .widget import WidgetComm, Widgets

WIDGET_TEXT = "The agent's panel: needs a running kernel. %agent /panel shows it again."
MISSING_TEXT = "The panel below a cell needs anywidget: pip install anywidget"


class PanelCells:
    """Shows the panel in the running cell. `record` gives the conversation: Markdown and text.

    Implements `ipython.agent.Below`.
    """

    def __init__(
        self, shell: InteractiveShell, widgets: Widgets, record: Callable[[], tuple[str, str]]
    ) -> None:
        self._shell = shell
        self._widgets = widgets
        self._record = record
        self._display_id: str | None = None
        self._shown = ("", "")

    def for_cell(
        self, setting: Literal["auto", "on", "off"]
    ) -> Callable[[], WidgetComm | None] | None:
        """Return what makes the widget below the running cell, None if there is to be none."""
        return self._widgets.for_cell(setting)

    def show(self) -> None:
        """Show both, in place of those of an earlier cell. Raises PromptError: no widget there.

        Where nobody can be asked (nbclient, nbconvert) there is nobody to see a widget either.
        """
        kernel: Any = getattr(self._shell, "kernel", None)
        if getattr(kernel, "_allow_stdin", True):
            try:
                view = self._widgets.get("panel").bundle
            except (ImportError, OSError) as error:
                raise PromptError(f"{MISSING_TEXT} ({error})") from None
            self._publish({**view, "text/plain": WIDGET_TEXT}, uuid.uuid4().hex)
        self._display_id = uuid.uuid4().hex
        self._shown = self._record()
        self._show_record(update=False)

    def renew(self) -> None:
        """Bring the conversation up to date, if it is shown; from any thread."""
        if self._display_id is None or (now := self._record()) == self._shown:
            return
        self._shown = now
        self._show_record(update=True)

    def _show_record(self, *, update: bool) -> None:
        markdown, text = self._shown
        assert self._display_id is not None  # it is shown
        data: dict[str, object] = {"text/markdown": markdown, "text/plain": text}
        self._publish(data, self._display_id, update=update)

    def _publish(self, data: dict[str, object], display_id: str, *, update: bool = False) -> None:
        publisher: Any = self._shell.display_pub
        publisher.publish(data, {}, transient={"display_id": display_id}, update=update)
