"""A session as one Markdown text: prompts as headings, answers, code and its outputs' text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..core.blocks import Json
from .forms import Style, clean_output, cut, step_text
from .items import Answer, Code, Conversation, Item, Note, Prompt, Step
from .source import Source

OUTPUT_CHARS = 20_000
"""A longer text of an output shows its two ends, in characters: a page is to be read."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SHOWN_TYPES = ("text/markdown", "text/plain", "text/latex", "text/html")


def build_markdown(source: Source, conversation: Conversation, style: Style) -> bytes:
    """Return the file, redacted."""
    parts = [f"# {style.escape(conversation.title or 'Session')}", f"Session {source.session_id}"]
    for item in conversation.items:
        parts.extend(_parts(item, style))
    text = source.redactor.text("\n\n".join(part for part in parts if part) + "\n")
    return text.encode("utf-8", "replace")


def _parts(item: Item, style: Style) -> Iterator[str]:
    match item:
        case Prompt(turn=turn, text=text):
            yield f"## Prompt {turn}"
            yield style.safe(text)
        case Answer(text=text):
            yield style.safe(text)
        case Note(text=text):
            yield f"*{style.escape(text)}*"
        case Step():
            yield step_text(style, item)
        case Code():
            yield from _code_parts(item, style)


def _code_parts(item: Code, style: Style) -> Iterator[str]:
    if not item.turn:
        yield "Cell of the notebook:"
    elif not item.is_whole:
        yield "Code that did not run to its end:"
    yield style.fence(item.source, "python")
    said = [text for output in item.outputs if (text := _output_text(output))]
    if said:
        yield "Output:"
        yield style.fence(cut("\n".join(said), OUTPUT_CHARS), "text")


def _output_text(output: Json) -> str:
    """Return an output's text; a picture is named."""
    made = clean_output(output)
    if made is None:
        return ""
    match made["output_type"]:
        case "stream":
            return _ANSI.sub("", str(made["text"])).rstrip("\n")
        case "error":
            return f"{made['ename']}: {made['evalue']}"
    data = made["data"]
    assert isinstance(data, dict)  # clean_output made it
    pictures = [mime for mime in data if mime.startswith("image/")]
    if pictures:
        return f"[{pictures[0]}]"
    return next((str(data[mime]).rstrip("\n") for mime in _SHOWN_TYPES if mime in data), "")
