"""What is exported: a session's entries, where its texts lie, and the cells the user ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..core.blocks import Json
from ..core.entries import Entry
from ..core.ports import Cell, NotebookCell
from ..core.redact import Redactor


class StoredOutputs(Protocol):
    """A stored tool result."""

    @property
    def outputs(self) -> Sequence[Json]:
        """Its nbformat outputs."""
        ...


class Texts(Protocol):
    """Where the session's stored texts and results lie. Both methods raise StoreError."""

    def read_text(self, name: str) -> str:
        """Return the text of `prompt-<turn>`, among others."""
        ...

    def read_result(self, tool_use_id: str) -> StoredOutputs:
        """Return a stored result."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """One session, to be exported.

    `cells` are those the user ran in this kernel, `early` those of the notebook that ran before
    anybody recorded, `sources` those of all its cells as they stand, by id; all are known in the
    session's own kernel only. `version` is the program's.
    """

    session_id: str
    entries: Sequence[Entry]
    texts: Texts
    redactor: Redactor
    version: str
    cells: Sequence[Cell] = ()
    early: Sequence[NotebookCell] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the file's absolute path, and how much of the conversation is in it.

    `unrunnable` counts the pieces of code that did not run to their end and so stand as text.
    """

    path: Path
    prompts: int
    code_cells: int
    unrunnable: int


class Exporter(Protocol):
    """Writes sessions to files (`export.writer.Writer`)."""

    def save(self, source: Source, path: Path, *, over: bool = False) -> Exported:
        """Write the session to `path`, whose suffix names the form: .ipynb, .md or .jsonl.

        A file that is there is written over only if `over` says so. Raises PromptError for another
        suffix, StoreError that names the file and another name if it is there, StoreError if it
        cannot be written; nothing is changed then.
        """
        ...
