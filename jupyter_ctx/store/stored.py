"""The names and forms in which results and texts of a session are stored."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from ..core.blocks import Json
from ..core.ports import ToolOutput
from ..errors import StoreError

VERSION = 1

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_TEXT_NAME = re.compile(r"(?:prompt|turn|cell|edit)-")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What `<tool_use_id>.json` holds: the tool's name and its nbformat outputs."""

    tool: str
    outputs: tuple[Json, ...]


class Results(Protocol):
    """The results of one session, on disk or in memory. Every method raises StoreError."""

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Store text and outputs of a result; return the text's path as the model is told it."""
        ...

    def save_text(self, name: str, text: str) -> str:
        """Store a text of the session; return its path likewise."""
        ...

    def save_spool(self, name: str, path: Path) -> str:
        """Store a text that was written to a spool; return its path likewise."""
        ...

    def make_spool(self) -> tuple[int, Path]:
        """Create a file to write a long text into; return its open descriptor and its path."""
        ...

    def open_text(self, name: str) -> TextIO:
        """Return the text of a result or prompt as a stream, its newlines as they are."""
        ...

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a result's tool and outputs."""
        ...

    def find_path(self, name: str) -> Path | None:
        """Return the path of a stored text, None if it has no file."""
        ...

    def has(self, name: str) -> bool:
        """Say whether a text of that name, or a result's outputs, can be read here."""
        ...

    def close(self) -> None:
        """Remove spools that no result took."""
        ...


def file_stem(name: str) -> str:
    """Return the file name, without suffix, of a text: `name` if it is plain, else its sha256."""
    if _PLAIN_NAME.fullmatch(name) and not _DEVICE.fullmatch(name):
        return name
    return _digest(name)


def result_stem(tool_use_id: str) -> str:
    """Return the file name, without suffix, of a result; never a prompt's or a cell's."""
    return _digest(tool_use_id) if _TEXT_NAME.match(tool_use_id) else file_stem(tool_use_id)


def stems_of(name: str) -> tuple[str, ...]:
    """Return the file names `name` may have: a text's first, then a result's."""
    return tuple(dict.fromkeys((file_stem(name), result_stem(name))))


def dump_outputs(tool: str, outputs: Sequence[Json]) -> bytes:
    """Return the JSON file of a result. Raises StoreError if the outputs are no JSON."""
    stored = {"version": VERSION, "tool": tool, "outputs": list(outputs)}
    try:
        try:
            return json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            return json.dumps(stored, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"The outputs of {tool} are no JSON: {error}.") from error


def load_outputs(data: bytes, where: str) -> StoredResult:
    """Return the result that a JSON file holds. Raises StoreError that names `where`.

    What stands among its outputs and is no object is left out.
    """
    try:
        stored = json.loads(data)
        tool, outputs = stored["tool"], stored["outputs"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{where} is no stored result.", path=where) from error
    if not isinstance(tool, str) or not isinstance(outputs, list):
        raise StoreError(f"{where} is no stored result.", path=where)
    return StoredResult(tool, tuple(one for one in outputs if isinstance(one, dict)))


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
