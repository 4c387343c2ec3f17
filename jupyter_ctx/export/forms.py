"""What the two forms for people share: safe Markdown, and outputs of bounded size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..core.blocks import Json
from .items import Step, input_line, is_long

OUTPUT_CHARS = 1_000_000
"""A longer text of an output shows its two ends, in characters."""

SOURCE_NAMES = {"source", "code", "text", "old", "new", "prompt"}
_WIDGETS = "application/vnd.jupyter.widget-"


@dataclass(frozen=True, slots=True)
class Style:
    """How text of others becomes Markdown in which nothing acts.

    `safe` takes Markdown, `escape` a text for use within a line, `fence` a text and its language.
    """

    safe: Callable[[str], str]
    escape: Callable[[str], str]
    fence: Callable[[str, str], str]


def step_text(style: Style, step: Step) -> str:
    """Return a tool call as Markdown: a line, and its long inputs in fences."""
    failed = " (failed)" if step.is_error else ""
    line = f"*{style.escape(step.name)}*{failed}"
    if said := input_line(step.input):
        line += f": {style.escape(said)}"
    long = [str(value) for value in step.input.values() if is_long(value)]
    return "\n\n".join([line, *(style.fence(cut(text), "") for text in long)])


def cut(text: str, most_chars: int = OUTPUT_CHARS) -> str:
    """Return a text with both ends and a line between them, if it is too long."""
    if len(text) <= most_chars:
        return text
    half = most_chars // 2
    left = len(text) - 2 * half
    return f"{text[:half]}\n[… {left:,} characters are left out …]\n{text[-half:]}"


def clean_output(output: Json) -> dict[str, object] | None:
    """Return an output as nbformat has it, None if it cannot be one.

    What was stored may come from code of any kind; live state of widgets is left out, for it is
    gone with its kernel.
    """
    match output.get("output_type"):
        case "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            return {"output_type": "stream", "name": name, "text": cut(_text(output.get("text")))}
        case "error":
            return {
                "output_type": "error",
                "ename": cut(_text(output.get("ename"))),
                "evalue": cut(_text(output.get("evalue"))),
                "traceback": [cut(_text(line)) for line in _lines(output.get("traceback"))],
            }
        case "display_data" | "execute_result" as kind:
            bundle = output.get("data")
            data = _bundle(bundle) if isinstance(bundle, Mapping) else {}
            metadata = output.get("metadata")
            made: dict[str, object] = {
                "output_type": kind,
                "data": data,
                "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
            }
            if kind == "execute_result":
                made["execution_count"] = None
            return made if data else None
    return None


def _bundle(data: Mapping[object, object]) -> dict[str, object]:
    made: dict[str, object] = {}
    for mime, value in data.items():
        if not isinstance(mime, str) or mime.startswith(_WIDGETS):
            continue
        is_json = mime == "application/json" or mime.endswith("+json")
        made[mime] = value if is_json else _value(mime, value)
    return made


def _value(mime: str, value: object) -> str:
    text = _text(value)
    return text if mime.startswith("image/") else cut(text)


def _lines(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def _text(value: object) -> str:
    """Return what a MIME type has as one valid text: nbformat also keeps lists of lines."""
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        text = "".join(value)
    elif isinstance(value, str):
        text = value
    else:
        text = "" if value is None else json.dumps(value, default=str)
    return text.encode("utf-8", "replace").decode()
