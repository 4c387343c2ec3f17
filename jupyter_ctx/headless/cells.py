"""What a running cell sends, folded into the outputs that its notebook keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .page import JsonDict, read_output

_KINDS = ("stream", "display_data", "execute_result", "error")
_FIELDS = {
    "stream": ("name", "text"),
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
    "error": ("ename", "evalue", "traceback"),
}


class Displays:
    """The outputs of all cells that have a display id: an update reaches each of them."""

    def __init__(self) -> None:
        self._outputs: dict[str, list[JsonDict]] = {}

    def add(self, display_id: str, output: JsonDict) -> None:
        """Note an output under its display id."""
        self._outputs.setdefault(display_id, []).append(output)

    def update(self, display_id: str, content: Mapping[str, Any]) -> None:
        """Put what was sent in the place of what stands under that id."""
        made = read_output({"output_type": "display_data", **_pick("display_data", content)})
        for output in self._outputs.get(display_id, ()) if "data" in made else ():
            output.update(data=made["data"], metadata=made["metadata"])


class CellOutputs:
    """The outputs of one cell while it runs; `outputs` is the list that the notebook holds.

    `on_display` hears of every display, new or updated: its id, None if it has none, and content.
    """

    def __init__(
        self,
        outputs: list[JsonDict],
        displays: Displays,
        on_display: Callable[[str | None, Mapping[str, Any]], None] = lambda name, content: None,
    ) -> None:
        self.outputs = outputs
        self._displays = displays
        self._on_display = on_display
        self._clears_next = False

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Fold one message in; other kinds than outputs change nothing."""
        if kind == "clear_output":
            self._clears_next = True
            if not content.get("wait"):
                self._clear()
        elif kind == "update_display_data":
            display_id = _display_id(content)
            if display_id is not None:
                self._displays.update(display_id, content)
                self._on_display(display_id, content)
        elif kind in _KINDS:
            if self._clears_next:
                self._clear()
            self._append(kind, content)

    def _append(self, kind: str, content: Mapping[str, Any]) -> None:
        last = self.outputs[-1] if self.outputs else {}
        if kind == "stream" and last.get("name") == content["name"]:
            last["text"] += content["text"]
            return
        output = read_output({"output_type": kind, **_pick(kind, content)})
        self.outputs.append(output)
        if kind in ("display_data", "execute_result"):
            display_id = _display_id(content)
            if display_id is not None:
                self._displays.add(display_id, output)
            self._on_display(display_id, content)

    def _clear(self) -> None:
        self.outputs.clear()
        self._clears_next = False


def _pick(kind: str, content: Mapping[str, Any]) -> JsonDict:
    return {name: content[name] for name in _FIELDS[kind] if name in content}


def _display_id(content: Mapping[str, Any]) -> str | None:
    transient = content.get("transient")
    found = transient.get("display_id") if isinstance(transient, Mapping) else None
    return found if isinstance(found, str) else None
