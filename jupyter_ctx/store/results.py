"""Offloaded results and long texts of one session: files below `tool-results/<session_id>/`.

Rules:
* A file appears whole or not at all, and no name leads out of the folder: what is no plain name is
  stored under its sha256; links, pipes and devices are not followed.
* What cannot be written is kept in memory, within bounds, so that it can still be read in this
  kernel; it is written when the store works again.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TextIO, cast

from ..core.blocks import Json
from ..core.ports import SpooledText, ToolOutput
from ..errors import StoreError
from .files import (
    FILE_MODE,
    make_folder,
    open_new,
    open_regular,
    remove_leftovers,
    replace_file,
    store_errors,
    temp_path,
)

FOLDER = "tool-results"
VERSION = 1

KEPT_CHARS = 64 * 1024 * 1024
"""Characters kept in memory when the store fails, all texts together; the oldest go first."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_TEXT_NAME = re.compile(r"(?:prompt|turn|cell)-")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
_SPOOL_PREFIX = ".spool-"


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What `<tool_use_id>.json` holds: the tool's name and its nbformat outputs."""

    tool: str
    outputs: tuple[Json, ...]


def file_stem(name: str) -> str:
    """Return the file name, without suffix, of a text: `name` if it is plain, else its sha256."""
    if _PLAIN_NAME.fullmatch(name) and not _DEVICE.fullmatch(name):
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def result_stem(tool_use_id: str) -> str:
    """Return the file name, without suffix, of a result; never a prompt's or a cell's."""
    if _TEXT_NAME.match(tool_use_id):
        return hashlib.sha256(tool_use_id.encode("utf-8", "surrogatepass")).hexdigest()
    return file_stem(tool_use_id)


class Results(Protocol):
    """The results of one session, on disk or in memory. Every method raises StoreError."""

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str: ...
    def save_text(self, name: str, text: str) -> str: ...
    def make_spool(self) -> BinaryIO: ...
    def open_text(self, name: str) -> TextIO: ...
    def read_result(self, tool_use_id: str) -> StoredResult: ...
    def find_path(self, name: str) -> Path | None: ...
    def has(self, name: str) -> bool: ...
    def close(self) -> None: ...


class KeptTexts:
    """Texts that have no file, the newest `limit_chars` of them; spooled ones by their path."""

    def __init__(self, limit_chars: int = KEPT_CHARS) -> None:
        self._limit = limit_chars
        self._texts: dict[str, str | Path] = {}

    def keep(self, stem: str, text: str | Path) -> None:
        """Keep `text` under `stem` and drop the oldest that are too much."""
        self._texts.pop(stem, None)
        self._texts[stem] = text
        total = sum(len(kept) for kept in self._texts.values() if isinstance(kept, str))
        for oldest, kept in list(self._texts.items()):
            if total <= self._limit:
                return
            if isinstance(kept, str):
                total -= len(kept)
                del self._texts[oldest]

    def drop(self, stem: str) -> None:
        """Forget the text: it has a file now."""
        self._texts.pop(stem, None)

    def has(self, stem: str) -> bool:
        """Say whether a text of that name is kept."""
        return stem in self._texts

    def items(self) -> Sequence[tuple[str, str | Path]]:
        """Return what is kept, oldest first."""
        return tuple(self._texts.items())

    def open_text(self, stem: str) -> TextIO | None:
        """Return the text as a stream, None if it is not kept. Raises OSError."""
        kept = self._texts.get(stem)
        if kept is None:
            return None
        if isinstance(kept, str):
            return io.StringIO(kept, newline="")
        return _open_text(kept)


class ResultFolder:
    """The results of one session below `home`, which must be there to store anything.

    The folders in it are created at the first write.
    """

    def __init__(self, home: Path, session_id: str, kept: KeptTexts | None = None) -> None:
        self.home = home
        self.path = home / FOLDER / session_id
        self.kept = kept or KeptTexts()
        self._spools: set[Path] = set()

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Store text and outputs of a result; return the text's path relative to the home.

        A spooled text is moved into place. Raises StoreError; the text can then still be read.
        """
        stem = result_stem(tool_use_id)
        spooled = isinstance(output.text, SpooledText)
        text = Path(output.text.path) if isinstance(output.text, SpooledText) else output.text
        try:
            data = _outputs_json(tool, output.outputs)
        except (TypeError, ValueError, RecursionError) as error:
            self.kept.keep(stem, text)
            raise StoreError(f"The outputs of {tool_use_id} are no JSON: {error}.") from error
        path = self._save(stem, text)
        with store_errors(self.path / f"{stem}.json"):
            replace_file(self.path / f"{stem}.json", data)
        if spooled:
            self._spools.discard(cast("Path", text))
        return path

    def save_text(self, name: str, text: str) -> str:
        """Store a text of the session; return its path relative to the home. Raises StoreError."""
        return self._save(file_stem(name), text)

    def make_spool(self) -> BinaryIO:
        """Return a new open file, 0600, whose `name` is its path, to write a long text into.

        It lies in the session's folder, or in the system's temporary folder where that cannot be
        written. `save_result` moves it into place; what is left over is removed by `close`, or
        when the session is opened again. Raises StoreError.
        """
        try:
            self._make_folder()
            path = self.path / f"{_SPOOL_PREFIX}{os.getpid()}-{os.urandom(8).hex()}"
            return self._remember(_open_spool(path))
        except OSError:
            # Results stay readable in this kernel when the store is full or gone (DESIGN.md 9).
            return self._remember(_temporary_spool())

    def open_text(self, name: str) -> TextIO:
        """Return the text of a result or prompt as a stream, its newlines as they are.

        Raises StoreError if there is none or it cannot be read.
        """
        for stem in _stems(name):
            path = self.path / f"{stem}.txt"
            with store_errors(path, "read"):
                if self._is_folder():
                    with suppress(FileNotFoundError):
                        return _open_text(path)
                if kept := self.kept.open_text(stem):
                    return kept
        raise StoreError(
            f"There is no stored text {name!r} in this session.",
            path=str(self.path / f"{_stems(name)[0]}.txt"),
        )

    def read_text(self, name: str) -> str:
        """Return the whole text of a result or prompt. Raises StoreError as `open_text` does."""
        with self.open_text(name) as file:
            return file.read()

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a result's tool and outputs. Raises StoreError if there are none."""
        path = self.path / f"{result_stem(tool_use_id)}.json"
        with store_errors(path, "read"), os.fdopen(open_regular(path), "rb") as file:
            data = file.read()
        try:
            stored = json.loads(data)
            tool, outputs = stored["tool"], stored["outputs"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(f"{path} is no stored result.", path=str(path)) from error
        if not isinstance(tool, str) or not isinstance(outputs, list):
            raise StoreError(f"{path} is no stored result.", path=str(path))
        return StoredResult(tool, tuple(outputs))

    def find_path(self, name: str) -> Path | None:
        """Return the path of a stored text, None if it has no file."""
        if not self._is_folder():
            return None
        paths = (self.path / f"{stem}.txt" for stem in _stems(name))
        return next((path for path in paths if path.is_file() and not path.is_symlink()), None)

    def has(self, name: str) -> bool:
        """Say whether a text of that name, or a result's outputs, can be read here."""
        if any(self.kept.has(stem) for stem in _stems(name)) or self.find_path(name):
            return True
        return self._is_folder() and (self.path / f"{result_stem(name)}.json").is_file()

    def clean(self) -> None:
        """Remove half-written files that a killed process left. Only the session's owner may."""
        if self._is_folder():
            remove_leftovers(self.path, _SPOOL_PREFIX)

    def close(self) -> None:
        """Write what was kept in memory if that is possible now, and remove spools left over."""
        self._write_kept()
        _unlink_all(self._spools)

    def _save(self, stem: str, text: str | Path) -> str:
        path = self.path / f"{stem}.txt"
        try:
            with store_errors(path):
                self._make_folder()
                _put(path, text)
        except StoreError:
            self.kept.keep(stem, text)
            raise
        self.kept.drop(stem)
        self._write_kept()
        return path.relative_to(self.home).as_posix()

    def _write_kept(self) -> None:
        for stem, text in self.kept.items():
            try:
                self._make_folder()
                _put(self.path / f"{stem}.txt", text)
            except OSError:
                return  # said when it happened; it stays readable from memory
            self.kept.drop(stem)

    def _make_folder(self) -> None:
        if not self.home.is_dir():
            # A home that vanished (unmounted, say) is not made anew in another place.
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.home))
        make_folder(self.path)
        if not self._is_folder():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.path))

    def _is_folder(self) -> bool:
        """Say whether the session's folder is there and no link to another one."""
        try:
            return stat.S_ISDIR(os.lstat(self.path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _remember(self, spool: BinaryIO) -> BinaryIO:
        self._spools.add(Path(spool.name))
        return spool


class MemoryResults:
    """The results of a session without a home: bounded, gone with the kernel."""

    def __init__(self) -> None:
        self._kept = KeptTexts()
        self._results: dict[str, StoredResult] = {}
        self._spools: set[Path] = set()

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Keep text and outputs of a result while there is room; return a name for it."""
        stem, text = result_stem(tool_use_id), output.text
        self._kept.keep(stem, Path(text.path) if isinstance(text, SpooledText) else text)
        self._results[stem] = StoredResult(tool, output.outputs)
        for old in [old for old in self._results if not self._kept.has(old)]:
            del self._results[old]
        return f"memory:{stem}"

    def save_text(self, name: str, text: str) -> str:
        """Keep a text while there is room; return a name for it."""
        stem = file_stem(name)
        self._kept.keep(stem, text)
        return f"memory:{stem}"

    def make_spool(self) -> BinaryIO:
        """Return a new open file in the system's temporary folder. Raises StoreError."""
        spool = _temporary_spool()
        self._spools.add(Path(spool.name))
        return spool

    def open_text(self, name: str) -> TextIO:
        """Return a kept text as a stream. Raises StoreError if there is none."""
        for stem in _stems(name):
            with store_errors(stem, "read"):
                if kept := self._kept.open_text(stem):
                    return kept
        raise StoreError(f"There is no stored text {name!r} in this session.")

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a result's tool and outputs. Raises StoreError if there are none."""
        found = self._results.get(result_stem(tool_use_id))
        if found is None:
            raise StoreError(f"There is no stored result {tool_use_id!r} in this session.")
        return found

    def find_path(self, name: str) -> Path | None:
        """Return None: nothing here has a file."""
        return None

    def has(self, name: str) -> bool:
        """Say whether a text of that name is kept."""
        return any(self._kept.has(stem) for stem in _stems(name))

    def close(self) -> None:
        """Remove the spools."""
        _unlink_all(self._spools)


def _stems(name: str) -> tuple[str, ...]:
    """Return the file names `name` may have: a text's first, then a result's."""
    return tuple(dict.fromkeys((file_stem(name), result_stem(name))))


def _open_spool(path: Path) -> BinaryIO:
    return open(path, "w+b", opener=lambda name, _: open_new(Path(name), os.O_RDWR))


def _temporary_spool() -> BinaryIO:
    folder = Path(tempfile.gettempdir())
    with store_errors(folder):
        return _open_spool(folder / f"jupyter-ctx{_SPOOL_PREFIX}{os.urandom(8).hex()}")


def _unlink_all(paths: set[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # moved into place already, or its folder is gone
            os.unlink(path)
    paths.clear()


def _open_text(path: Path) -> TextIO:
    return os.fdopen(open_regular(path), "r", encoding="utf-8", errors="replace", newline="")


def _put(path: Path, text: str | Path) -> None:
    """Put a text, or the file it was spooled to, at `path` in one step. Raises OSError."""
    if isinstance(text, str):
        replace_file(path, text.encode("utf-8", "backslashreplace"))
        return
    os.chmod(text, FILE_MODE)
    try:
        os.replace(text, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_over(text, path)


def _copy_over(source: Path, target: Path) -> None:
    """Move a file to another disk: copy it beside its place, then rename."""
    temporary = temp_path(target)
    try:
        with (
            open(source, "rb") as old,
            os.fdopen(open_new(temporary), "wb") as new,
        ):
            shutil.copyfileobj(old, new, 1024 * 1024)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    os.unlink(source)


def _outputs_json(tool: str, outputs: Sequence[Json]) -> bytes:
    stored = {"version": VERSION, "tool": tool, "outputs": list(outputs)}
    try:
        return json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(stored, separators=(",", ":")).encode()
