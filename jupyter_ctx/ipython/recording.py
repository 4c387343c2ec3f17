"""What the kernel's messages and IPython's history say, put into a log of outputs."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .bundles import clean_bundle, cut_text, text_of
from .outputlog import OutputLog, StreamName
from .spool import valid_text

if TYPE_CHECKING:
    from ..core.blocks import Json

MAX_NODES = 2_000
"""A larger JSON value in an output (a plot's data) is not kept, only its MIME type."""


def add_message(log: OutputLog, kind: str, content: Any) -> None:
    """Add what a message of the display publisher or the display hook shows."""
    if kind == "clear_output":
        log.clear(content["wait"])
        return
    data, metadata = _slim(content["data"]), content["metadata"] or {}
    display_id = content.get("transient", {}).get("display_id")
    if kind == "display_data":
        log.display(data, metadata, display_id=display_id)
    elif kind == "execute_result":
        log.display(data, metadata, kind="execute_result", count=content.get("execution_count"))
    elif kind == "update_display_data" and display_id is not None:
        log.update(data, metadata, display_id)


def add_history(log: OutputLog, output: Any, count: int) -> None:
    """Add one of IPython's recorded outputs (`IPython.core.history.HistoryOutput`)."""
    names: dict[str, StreamName] = {"out_stream": "stdout", "err_stream": "stderr"}
    if output.output_type in names:
        text = valid_text("".join(output.bundle["stream"]))
        log.stream(names[output.output_type], text)
    elif output.output_type == "execute_result":
        log.display(_slim(output.bundle), {}, kind="execute_result", count=count)
    else:
        log.display(_slim(output.bundle), {})


def _slim(data: Mapping[str, object]) -> dict[str, object]:
    """Return the bundle; a JSON value of more than `MAX_NODES` parts becomes an empty object."""
    return clean_bundle({mime: value if _is_small(value) else {} for mime, value in data.items()})


def _is_small(value: object) -> bool:
    left, queue = MAX_NODES, [value]
    while queue:
        inner = queue.pop()
        if isinstance(inner, (dict, list, tuple)):
            left -= len(inner)
            if left < 0:
                return False
            queue.extend(inner.values() if isinstance(inner, dict) else inner)
    return True


def error_output(known: Mapping[str, Any]) -> Json:
    """Return an error as IPython records it (ename, evalue, traceback) as an output of nbformat."""
    lines = [cut_text(valid_text(str(line))) for line in known["traceback"]]
    evalue = cut_text(valid_text(str(known["evalue"])))
    return {
        "output_type": "error",
        "ename": str(known["ename"]),
        "evalue": evalue,
        "traceback": lines,
    }


def describe(error: BaseException) -> Mapping[str, Any]:
    """Return an error as IPython would record it."""
    lines = traceback.format_exception_only(error)
    return {"ename": type(error).__name__, "evalue": text_of(error), "traceback": lines}
