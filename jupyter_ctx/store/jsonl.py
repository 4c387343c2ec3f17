"""The transcript's file: one line for each entry, only ever appended to.

What `append` acknowledged has been handed to the operating system in one piece and outlives the
process. An entry that could not be written is kept and written first by the next append, in order,
so that a disk that was full for a while leaves no hole in the conversation.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.entries import Entry, RepairEntry, UnknownEntry
from ..errors import StoreError
from .codec import dump_line, load_line
from .files import FILE_MODE, ShortWriteError, open_new, open_regular, store_errors, write_all

TRANSCRIPT = "transcript.jsonl"
"""The file's name, in its session's folder."""

READ_BYTES = 256 * 1024
"""A transcript is read in pieces of so many bytes: a third of the time of Python's own 8 KB."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file held: the entries, and one StoreError with `line_no` for each bad line.

    `warnings` says the same and more in sentences: bad lines, a torn last line, unknown kinds.
    `has_gap`: a line is lost that later ones were built on, and no RepairEntry came since.
    """

    entries: tuple[Entry, ...]
    errors: tuple[StoreError, ...]
    warnings: tuple[str, ...]
    has_gap: bool = False


def load_entries(path: Path) -> Loaded:
    """Return the entries of the file at `path`, and what could not be read of it.

    A last line without its newline counts if it is whole. Raises StoreError only if the file
    cannot be opened or read.
    """
    entries: list[Entry] = []
    errors: list[StoreError] = []
    unknown: list[int] = []
    torn: int | None = None
    has_gap = False
    with store_errors(path, "read"), os.fdopen(open_regular(path), "rb", READ_BYTES) as file:
        for line_no, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                entry = load_line(line)
            except StoreError as error:
                if not line.endswith(b"\n"):
                    torn = line_no
                has_gap = has_gap or not _is_cut(line)
                text = f"Line {line_no} of {path} was left out: {error}."
                errors.append(StoreError(text, path=str(path), line_no=line_no))
                continue
            if isinstance(entry, UnknownEntry):
                unknown.append(line_no)
            has_gap = has_gap and not isinstance(entry, RepairEntry)
            entries.append(entry)
    warnings = tuple(_warnings(path, errors, unknown, torn))
    return Loaded(tuple(entries), tuple(errors), warnings, has_gap)


def _is_cut(line: bytes) -> bool:
    """Say whether a bad line only lacks its end: never acknowledged, so nothing rests on it."""
    text = line.decode("utf-8", "ignore").rstrip()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text) or error.msg.startswith("Unterminated string")
    except RecursionError:
        pass
    return False


def _warnings(
    path: Path, errors: Sequence[StoreError], unknown: Sequence[int], torn: int | None
) -> list[str]:
    said = [str(error) for error in errors if error.line_no != torn]
    if len(said) > 10:
        numbers = ", ".join(str(error.line_no) for error in errors if error.line_no != torn)
        said = [f"{len(said)} lines of {path} are no valid entries and were left out: {numbers}."]
    if unknown:
        numbers = ", ".join(map(str, unknown))
        said.append(
            f"Lines of {path} that a newer version wrote are kept but not understood: {numbers}."
        )
    if torn is not None:
        said.append(f"The last line of {path} (line {torn}) is torn and was set aside.")
    return said


class JsonlFile:
    """A transcript open for appending. `written` are the entries known to be in the file.

    One writer at a time: who opens it holds the session's lock. Threads may share it.
    """

    def __init__(self, path: Path, written: Sequence[Entry] = ()) -> None:
        self.path = path
        self._written: list[Entry] = list(written)
        self._waiting: deque[Entry] = deque()
        self._fd: int | None = None
        self._line_is_open = False
        self._lock = threading.Lock()

    def append(self, entry: Entry) -> None:
        """Write `entry`, after those that failed before, and hand it to the operating system.

        Raises StoreError if it is not in the file now; it is then kept for the next append. An
        entry that JSON cannot say is not kept.
        """
        line = dump_line(entry)
        with self._lock:
            self._waiting.append(entry)
            with store_errors(self.path):
                self._flush(line)

    def close(self) -> None:
        """Write what is still waiting, and close the file. Raises StoreError if that is lost."""
        with self._lock:
            try:
                if self._waiting:
                    with store_errors(self.path):
                        self._flush(dump_line(self._waiting[-1]))
            finally:
                if self._fd is not None:
                    os.close(self._fd)
                    self._fd = None

    def _flush(self, newest: bytes) -> None:
        """Write every waiting entry; `newest` is the line of the last of them."""
        fd = self._open()
        while self._waiting:
            line = newest if len(self._waiting) == 1 else dump_line(self._waiting[0])
            self._write(fd, line)
            self._written.append(self._waiting.popleft())

    def _write(self, fd: int, line: bytes) -> None:
        """Write one whole line; close a line that was left open first."""
        closing = b"\n" if self._line_is_open else b""
        try:
            write_all(fd, closing + line)
            self._line_is_open = False
        except ShortWriteError as error:
            written = error.written - len(closing)
            self._line_is_open = self._line_is_open if written < 0 else written > 0
            if written < len(line) - 1:
                raise
            # Only the newline is missing: the entry is in the file, the next append ends its line.

    def _open(self) -> int:
        """Return the descriptor of the file that is at `path` now."""
        try:
            there: os.stat_result | None = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if self._fd is not None:
            if there is not None and os.path.samestat(there, os.fstat(self._fd)):
                return self._fd
            os.close(self._fd)
            self._fd = None
        if there is None:
            # The file is gone with all that was in it, and its folder is there (again).
            self._fd = open_new(self.path, os.O_WRONLY | os.O_APPEND)
            self._waiting.extendleft(reversed(self._written))
            self._written.clear()
            self._line_is_open = False
        else:
            self._fd = self._reopen()
        return self._fd

    def _reopen(self) -> int:
        fd = open_regular(self.path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            self._line_is_open = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            os.fchmod(fd, FILE_MODE)
        except OSError:
            os.close(fd)
            raise
        return fd
