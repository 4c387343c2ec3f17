"""Writes a session to a file; its suffix says in which form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ..core.blocks import Json
from ..core.entries import Entry
from ..errors import PromptError
from .files import save_file
from .forms import Style
from .items import Code, Prompt, read_conversation
from .markdown import build_markdown
from .notebook import build_notebook
from .source import Exported, Source

SUFFIXES = (".ipynb", ".md", ".jsonl")
"""The forms there are: a notebook, Markdown, the lines of the transcript."""


class Writer:
    """Implements `source.Exporter`. `to_json` gives an entry as its line stores it."""

    def __init__(self, to_json: Callable[[Entry], Json], style: Style) -> None:
        self._to_json = to_json
        self._style = style

    def save(self, source: Source, path: Path, *, over: bool = False) -> Exported:
        """Write the session; see `Exporter.save`."""
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise PromptError(
                f"{path.name!r} does not say in which form: end it in {', '.join(SUFFIXES)}."
            )
        conversation = read_conversation(source)
        if suffix == ".ipynb":
            data = build_notebook(source, conversation, self._style)
        elif suffix == ".md":
            data = build_markdown(source, conversation, self._style)
        else:
            data = self._lines(source)
        save_file(path, data, over=over)
        code = [item for item in conversation.items if isinstance(item, Code)]
        whole = sum(item.is_whole for item in code)
        prompts = sum(isinstance(item, Prompt) for item in conversation.items)
        return Exported(path, prompts, whole, len(code) - whole)

    def _lines(self, source: Source) -> bytes:
        """Return the transcript: one versioned entry a line, redacted, in its order."""
        redact = source.redactor.json
        return b"".join(_line(redact(self._to_json(entry))) for entry in source.entries)


def _line(value: Json) -> bytes:
    """Return one line; where there is a lone surrogate it is escaped, so the file stays UTF-8."""
    try:
        return _dumps(value, ascii_only=False).encode() + b"\n"
    except UnicodeEncodeError:
        return _dumps(value, ascii_only=True).encode() + b"\n"


def _dumps(value: Json, *, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
