"""A session as a notebook: prompts and answers as Markdown cells, code as code cells with outputs.

Run from the top in a fresh kernel, the code cells do what they did. Code that raised carries the
tag `raises-exception`, so that running goes on behind it; code that never ran, or was stopped,
stands as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..core.blocks import Json
from ..errors import StoreError
from .forms import Style, clean_output, step_text
from .items import Answer, Code, Conversation, Item, Note, Prompt, Step
from .source import Source

KEY = "jupyter_ctx_export"
"""Where a notebook and its cells say what they were made of. Not where a session's own notebook
names its session: an export is nobody's notebook."""


def build_notebook(source: Source, conversation: Conversation, style: Style) -> bytes:
    """Return the notebook's file, valid and redacted. Raises StoreError if it cannot be one."""
    import nbformat

    cells = [_with_id(cell, n) for n, cell in enumerate(_cells(conversation, style), start=1)]
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
            KEY: {"version": 1, "session": source.session_id, "program": source.version},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    node = nbformat.from_dict(source.redactor.json(notebook))
    try:
        nbformat.validate(node)
    except nbformat.ValidationError as error:
        reason = str(error).split("\n", 1)[0]
        raise StoreError(f"The session cannot be written as a notebook: {reason}") from error
    text: str = nbformat.writes(node)
    return (text.rstrip("\n") + "\n").encode("utf-8", "replace")


def _with_id(cell: dict[str, object], n: int) -> dict[str, object]:
    return {"id": f"cell-{n}", **cell}


def _cells(conversation: Conversation, style: Style) -> Iterator[dict[str, object]]:
    """Yield the cells; calls of tools that follow each other share one."""
    if conversation.title:
        yield _markdown("title", 0, f"# {style.escape(conversation.title)}")
    steps: list[Step] = []
    for item in conversation.items:
        if isinstance(item, Step):
            steps.append(item)
            continue
        yield from _steps(steps, style)
        steps = []
        yield _cell(item, style)
    yield from _steps(steps, style)


def _steps(steps: Sequence[Step], style: Style) -> Iterator[dict[str, object]]:
    if steps:
        yield _markdown("tools", steps[0].turn, "\n\n".join(step_text(style, s) for s in steps))


def _cell(item: Item, style: Style) -> dict[str, object]:
    match item:
        case Prompt(turn=turn, text=text):
            return _markdown("prompt", turn, f"**Prompt {turn}**\n\n{style.safe(text)}")
        case Answer(turn=turn, text=text):
            return _markdown("answer", turn, style.safe(text))
        case Note(turn=turn, text=text):
            return _markdown("note", turn, f"*{style.escape(text)}*")
        case Step(turn=turn):
            return _markdown("tools", turn, step_text(style, item))
        case Code(turn=turn, source=source, is_whole=False):
            lead = "Code that did not run to its end:"
            return _markdown("code", turn, f"{lead}\n\n{style.fence(source, 'python')}")
        case Code():
            return _code(item)


def _code(item: Code) -> dict[str, object]:
    outputs = [made for one in item.outputs if (made := clean_output(one)) is not None]
    metadata = _metadata("code" if item.turn else "cell", item.turn)
    if item.failed:
        metadata["tags"] = ["raises-exception"]
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": json.loads(json.dumps(outputs, default=str)),
        "source": item.source.encode("utf-8", "replace").decode(),
    }


def _markdown(kind: str, turn: int, text: str) -> dict[str, object]:
    source = text.encode("utf-8", "replace").decode()
    return {"cell_type": "markdown", "metadata": _metadata(kind, turn), "source": source}


def _metadata(kind: str, turn: int) -> dict[str, object]:
    said: Json = {"kind": kind, "turn": turn} if turn else {"kind": kind}
    return {KEY: said}
