"""One session open for reading and writing: the Store port, on disk or in memory."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO, Unpack

from ..core.blocks import cell_names, tool_uses
from ..core.entries import EditEntry, Entry, FateEntry, MessageEntry, SessionEntry
from ..core.ports import AgentLog, ToolOutput
from ..errors import StoreError
from .agents import MemoryAgent, open_agent
from .files import open_regular, remove_leftovers, replace_file, store_errors
from .jsonl import TRANSCRIPT, JsonlFile
from .kept import MemoryResults
from .locks import SessionLock
from .metadata import MetadataFields, SessionInfo, write_info
from .results import ResultFolder
from .stored import Results, StoredResult
from .turns import prompt_text, turn_text

RULES = "permissions.json"
RULES_BYTES = 1024 * 1024
"""A larger file of rules is not read."""

_TURN = re.compile(r"turn-(\d{1,9})", re.ASCII)
_PROMPT = re.compile(r"prompt-(\d{1,9})", re.ASCII)


class MemorySession:
    """A session that no disk holds: a Store that lasts as long as the kernel.

    `entries` are those given and those appended since. `warnings` are sentences for the user.
    `path` is the session's folder, None here.
    """

    path: Path | None = None

    def __init__(
        self,
        info: SessionInfo,
        entries: Sequence[Entry] = (),
        warnings: Sequence[str] = (),
        results: Results | None = None,
    ) -> None:
        self.session_id = info.session_id
        self.warnings = list(warnings)
        self._info = info
        self._entries = list(entries)
        self._results: Results = results or MemoryResults()
        self._rules: object = None

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry, oldest first."""
        return self._entries

    @property
    def info(self) -> SessionInfo:
        """What a list of sessions shows of this one."""
        return self._info

    def append(self, entry: Entry) -> None:
        """Add one entry."""
        self._entries.append(entry)

    def open_agent(self, agent_id: str) -> AgentLog:
        """Begin the transcript of a sub-agent. Raises StoreError."""
        return MemoryAgent()

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Store a tool's outputs and text; return the text's path, relative to the store's home.

        Raises StoreError; the text can then still be read in this kernel.
        """
        return self._results.save_result(tool_use_id, tool, output)

    def save_text(self, name: str, text: str) -> str:
        """Store a text of this session (`prompt-<turn>`); return its path likewise."""
        return self._results.save_text(name, text)

    def save_spool(self, name: str, path: Path) -> str:
        """Store a text that was written to a spool, which is moved into place; else likewise."""
        return self._results.save_spool(name, path)

    def has_text(self, name: str) -> bool:
        """Say whether a result, or a text that was stored, can be read under that name."""
        return self._results_with(name).has(name)

    def make_spool(self) -> tuple[int, Path]:
        """Create a file to write a long text into; return its open descriptor and its path.

        `save_result` moves it into place. Raises StoreError where there is no disk at all.
        """
        return self._results.make_spool()

    def open_text(self, name: str) -> TextIO:
        """Return a stored text as a stream: of a `tool_use` id, `prompt-<turn>` or `turn-<n>`.

        Raises StoreError if there is none.
        """
        if match := _TURN.fullmatch(name):
            text = turn_text(self._entries, int(match[1]))
            if text is None:
                raise StoreError(f"This session has no turn {match[1]}.")
            return io.StringIO(text, newline="")
        results = self._results_with(name)
        if (match := _PROMPT.fullmatch(name)) and not results.has(name):
            words = prompt_text(self._entries, int(match[1]))
            if words is not None:
                return io.StringIO(words, newline="")
        return results.open_text(name)

    def read_text(self, name: str) -> str:
        """Return a whole stored text; see `open_text`."""
        with self.open_text(name) as file:
            return file.read()

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a stored result's tool and outputs. Raises StoreError if there is none."""
        return self._results_with(tool_use_id).read_result(tool_use_id)

    def find_path(self, name: str) -> Path | None:
        """Return the path of a stored text, None if it has no file."""
        return self._results_with(name).find_path(name)

    def update_metadata(self, **fields: Unpack[MetadataFields]) -> None:
        """Change what lists show of this session."""
        self._info = dataclasses.replace(self._info, **fields)

    def load_rules(self) -> object:
        """Return the JSON last given to `save_rules`, None if there is none.

        No part of the conversation: no compaction and no rewind touches it. Raises StoreError.
        """
        return self._rules

    def save_rules(self, rules: object) -> None:
        """Keep what the user allowed for this session. Raises StoreError; the old then stays."""
        self._rules = rules

    def close(self) -> None:
        """Remove temporary files; a second call does nothing."""
        self._results.close()

    def _results_with(self, name: str) -> Results:
        """Return where a text of that name lies; a place without it if there is none."""
        return self._results


class OpenSession(MemorySession):
    """A session in a folder and its results; while it is open nobody else writes it.

    `lock` is None where there can be none (a read-only disk). A fork also reads the results that
    its parent had when it was forked.
    """

    def __init__(
        self,
        home: Path,
        folder: Path,
        info: SessionInfo,
        entries: Sequence[Entry],
        lock: SessionLock | None,
        warnings: Sequence[str] = (),
    ) -> None:
        own = ResultFolder(home, info.session_id)
        super().__init__(info, entries, warnings, own)
        self.path: Path = folder
        self._own = own
        self._inherited = list(_inherited(home, entries))
        self._file = JsonlFile(folder / TRANSCRIPT, entries)
        self._lock = lock

    def append(self, entry: Entry) -> None:
        """Write one entry and flush it to the operating system before returning.

        Raises StoreError while it is not on disk; it counts among `entries` all the same, and is
        written before the next one.
        """
        super().append(entry)
        self._file.append(entry)

    def open_agent(self, agent_id: str) -> AgentLog:
        """Begin the transcript of a sub-agent in `agents/`. Raises StoreError."""
        return open_agent(self.path, agent_id)

    def update_metadata(self, **fields: Unpack[MetadataFields]) -> None:
        """Change what lists show of this session. Raises StoreError; the old file then stays."""
        super().update_metadata(**fields)
        path = self.path / "metadata.json"
        with store_errors(path):
            write_info(path, self._info)

    def load_rules(self) -> object:
        """Return what `permissions.json` beside the transcript holds, None if there is none.

        Raises StoreError: it cannot be read, is no regular file, is torn or too large.
        """
        path = self.path / RULES
        with store_errors(path, "read"):
            try:
                fd = open_regular(path)
            except FileNotFoundError:
                return None
            with os.fdopen(fd, "rb") as file:
                data = file.read(RULES_BYTES + 1)
        try:
            if len(data) > RULES_BYTES:
                raise ValueError("it is too large")
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} could not be read ({error}).", path=str(path)) from error

    def save_rules(self, rules: object) -> None:
        """Replace `permissions.json` in one step, 0600. Raises StoreError; the old then stays."""
        path = self.path / RULES
        with store_errors(path):
            replace_file(path, json.dumps(rules, indent=1).encode() + b"\n")

    def missing_results(self) -> tuple[str, ...]:
        """Return the ids of the offloaded results whose text is gone."""
        return tuple(
            entry.tool_use_id
            for entry in self._entries
            if isinstance(entry, FateEntry)
            and entry.path is not None
            and self.find_path(entry.tool_use_id) is None
        )

    def clean(self) -> None:
        """Remove what a killed process left half written. Only its owner may. Raises StoreError."""
        with store_errors(self.path, "cleaned"):
            self._own.clean()
            remove_leftovers(self.path)

    def close(self) -> None:
        """Write what still waits, remove spools, free the lock; a second call does nothing.

        Raises StoreError if entries that waited for the disk are lost.
        """
        with ExitStack() as stack:
            if self._lock is not None:
                stack.callback(self._lock.release)
            stack.callback(super().close)
            self._file.close()

    def _results_with(self, name: str) -> Results:
        if self._own.has(name):
            return self._own
        older = (folder for folder, names in self._inherited if name in names)
        return next((folder for folder in older if folder.has(name)), self._own)


def _inherited(home: Path, entries: Sequence[Entry]) -> Iterator[tuple[ResultFolder, set[str]]]:
    """Yield the sessions that this one was forked from, the nearest first, with their names then.

    A fork's transcript is its parent's up to the fork, then its own SessionEntry.
    """
    starts = [i for i, entry in enumerate(entries) if isinstance(entry, SessionEntry)]
    for at in reversed(starts):
        start = entries[at]
        if isinstance(start, SessionEntry) and start.parent is not None:
            yield ResultFolder(home, start.parent), _stored_names(entries[:at])


def _stored_names(entries: Iterable[Entry]) -> set[str]:
    """Return the names under which a transcript may have stored texts."""
    names: set[str] = set()
    for entry in entries:
        if isinstance(entry, MessageEntry):
            names.update(use.id for use in tool_uses(entry.message))
            if entry.kind == "prompt":
                names.add(f"prompt-{entry.turn}")
                names.update(cell_names(entry.message))
        elif isinstance(entry, FateEntry):
            names.add(entry.tool_use_id)
        elif isinstance(entry, EditEntry):
            names.update((f"edit-{entry.n}-before", f"edit-{entry.n}-after"))
    return names
