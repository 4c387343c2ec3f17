"""Results and texts in memory: of a session without a home, or while a disk fails."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ..core.ports import SpooledText, ToolOutput
from ..errors import StoreError
from .files import open_new, open_regular, store_errors
from .stored import StoredResult, dump_outputs, file_stem, load_outputs, result_stem, stems_of

KEPT_SIZE = 64 * 1024 * 1024
"""What is kept in memory at most: characters of texts and bytes of outputs, all together."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A text, or the path it is spooled at; `data` is the JSON of a result's outputs, if any."""

    text: str | Path
    data: bytes | None = None

    @property
    def size(self) -> int:
        """How much memory it takes: characters of the text and bytes of the JSON."""
        return (len(self.text) if isinstance(self.text, str) else 0) + len(self.data or b"")


class KeptTexts:
    """Results and texts by their file name; the oldest give way to what would be too much."""

    def __init__(self, limit: int = KEPT_SIZE) -> None:
        self._limit = limit
        self._kept: dict[str, Kept] = {}

    def keep(self, stem: str, kept: Kept) -> None:
        """Keep one, as the newest."""
        self._kept.pop(stem, None)
        self._kept[stem] = kept
        total = sum(other.size for other in self._kept.values())
        for oldest, other in list(self._kept.items()):
            if total <= self._limit:
                return
            total -= other.size
            if other.size:
                del self._kept[oldest]

    def drop(self, stem: str) -> None:
        """Forget one: it has its files now."""
        self._kept.pop(stem, None)

    def items(self) -> Iterable[tuple[str, Kept]]:
        """Return what is kept, oldest first."""
        return tuple(self._kept.items())

    def has(self, stem: str) -> bool:
        """Say whether something of that name is kept."""
        return stem in self._kept

    def open_text(self, stem: str) -> TextIO | None:
        """Return the text as a stream, None if it is not kept. Raises OSError."""
        kept = self._kept.get(stem)
        if kept is None:
            return None
        if isinstance(kept.text, str):
            return io.StringIO(kept.text, newline="")
        return open_text(kept.text)

    def data(self, stem: str) -> bytes | None:
        """Return the JSON of a result's outputs, None if it is not kept."""
        kept = self._kept.get(stem)
        return kept.data if kept else None


class MemoryResults:
    """The results of a session without a home: bounded, gone with the kernel."""

    def __init__(self) -> None:
        self._kept = KeptTexts()
        self._spools: set[Path] = set()

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Keep text and outputs of a result while there is room; return a name for it.

        Raises StoreError if the outputs are no JSON; the text is kept all the same.
        """
        stem, text = result_stem(tool_use_id), text_or_path(output)
        self._kept.keep(stem, Kept(text))
        self._kept.keep(stem, Kept(text, dump_outputs(tool, output.outputs)))
        return f"memory:{stem}"

    def save_text(self, name: str, text: str) -> str:
        """Keep a text while there is room; return a name for it."""
        stem = file_stem(name)
        self._kept.keep(stem, Kept(text))
        return f"memory:{stem}"

    def save_spool(self, name: str, path: Path) -> str:
        """Keep a text where it was spooled to; return a name for it."""
        stem = file_stem(name)
        self._kept.keep(stem, Kept(path))
        return f"memory:{stem}"

    def make_spool(self) -> tuple[int, Path]:
        """Create a file in the system's temporary folder; return descriptor and path."""
        fd, path = temporary_spool()
        self._spools.add(path)
        return fd, path

    def open_text(self, name: str) -> TextIO:
        """Return a kept text as a stream. Raises StoreError if there is none."""
        for stem in stems_of(name):
            with store_errors(stem, "read"):
                if kept := self._kept.open_text(stem):
                    return kept
        raise StoreError(f"There is no stored text {name!r} in this session.")

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a result's tool and outputs. Raises StoreError if there are none."""
        data = self._kept.data(result_stem(tool_use_id))
        if data is None:
            raise StoreError(f"There is no stored result {tool_use_id!r} in this session.")
        return load_outputs(data, tool_use_id)

    def find_path(self, name: str) -> Path | None:
        """Return None: nothing here has a file."""
        return None

    def has(self, name: str) -> bool:
        """Say whether a text of that name is kept."""
        return any(self._kept.has(stem) for stem in stems_of(name))

    def close(self) -> None:
        """Remove the spools."""
        unlink_all(self._spools)


def text_or_path(output: ToolOutput) -> str | Path:
    """Return the text of a result, or the path it is spooled at."""
    return Path(output.text.path) if isinstance(output.text, SpooledText) else output.text


def temporary_spool() -> tuple[int, Path]:
    """Create a file, 0600, in the system's temporary folder. Raises StoreError."""
    path = Path(tempfile.gettempdir()) / f"jupyter-ctx-spool-{os.urandom(8).hex()}"
    with store_errors(path):
        return open_new(path, os.O_RDWR), path


def open_text(path: Path) -> TextIO:
    """Open a stored text, a regular file, for reading. Raises OSError."""
    return os.fdopen(open_regular(path), "r", encoding="utf-8", errors="replace", newline="")


def unlink_all(paths: set[Path]) -> None:
    """Remove the files that are still there, and forget them all."""
    for path in paths:
        with suppress(OSError):  # moved into place already, or its folder is gone
            os.unlink(path)
    paths.clear()
