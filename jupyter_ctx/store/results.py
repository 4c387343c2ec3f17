"""Offloaded results and long texts of one session: files below `tool-results/<session_id>/`.

Rules:
* A file appears whole or not at all, and no name leads out of the folder: what is no plain name is
  stored under its sha256; links, pipes and devices are not followed.
* What cannot be written is kept in memory, within bounds, so that it can still be read in this
  kernel; it is written when the store works again.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ..core.ports import ToolOutput
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
from .kept import Kept, KeptTexts, open_text, temporary_spool, text_or_path, unlink_all
from .stored import StoredResult, dump_outputs, file_stem, load_outputs, result_stem, stems_of

FOLDER = "tool-results"
_SPOOL_PREFIX = ".spool-"


class ResultFolder:
    """The results of one session below `home`, which must be there to store anything.

    The folders in it are created at the first write.
    """

    def __init__(self, home: Path, session_id: str) -> None:
        self.home = home
        self.path = home / FOLDER / session_id
        self._kept = KeptTexts()
        self._spools: set[Path] = set()

    def save_result(self, tool_use_id: str, tool: str, output: ToolOutput) -> str:
        """Store text and outputs of a result; return the text's path relative to the home.

        A spooled text is moved into place. Raises StoreError; what was saved can then be read all
        the same, but for outputs that are no JSON.
        """
        stem, text = result_stem(tool_use_id), text_or_path(output)
        try:
            data = dump_outputs(tool, output.outputs)
        except StoreError:
            self._kept.keep(stem, Kept(text))
            raise
        return self._save(stem, Kept(text, data))

    def save_text(self, name: str, text: str) -> str:
        """Store a text of the session; return its path relative to the home.

        Raises StoreError; the text can then be read all the same.
        """
        return self._save(file_stem(name), Kept(text))

    def save_spool(self, name: str, path: Path) -> str:
        """Store a text that was written to a spool, which is moved into place; else as above."""
        return self._save(file_stem(name), Kept(path))

    def make_spool(self) -> tuple[int, Path]:
        """Create a file, 0600, to write a long text into; return its open descriptor and its path.

        It lies in the session's folder, or in the system's temporary folder where that cannot be
        written. `save_result` moves it into place; what is left over is removed by `close`, or
        when the session is opened again. Raises StoreError.
        """
        try:
            self._make_folder()
            path = self.path / f"{_SPOOL_PREFIX}{os.urandom(8).hex()}"
            fd = open_new(path, os.O_RDWR)
        except OSError:
            # Results stay readable in this kernel when the store is full or gone (DESIGN.md 9).
            fd, path = temporary_spool()
        self._spools.add(path)
        return fd, path

    def open_text(self, name: str) -> TextIO:
        """Return the text of a result or prompt as a stream, its newlines as they are.

        Raises StoreError if there is none or it cannot be read.
        """
        for stem in stems_of(name):
            path = self.path / f"{stem}.txt"
            with store_errors(path, "read"):
                if kept := self._kept.open_text(stem):
                    return kept
                if self._is_folder():
                    with suppress(FileNotFoundError):
                        return open_text(path)
        raise StoreError(
            f"There is no stored text {name!r} in this session.",
            path=str(self.path / f"{stems_of(name)[0]}.txt"),
        )

    def read_text(self, name: str) -> str:
        """Return the whole text of a result or prompt. Raises StoreError as `open_text` does."""
        with self.open_text(name) as file:
            return file.read()

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a result's tool and outputs. Raises StoreError if there are none."""
        stem = result_stem(tool_use_id)
        path = self.path / f"{stem}.json"
        data = self._kept.data(stem)
        if data is None:
            with store_errors(path, "read"), os.fdopen(open_regular(path), "rb") as file:
                data = file.read()
        return load_outputs(data, str(path))

    def find_path(self, name: str) -> Path | None:
        """Return the path of a stored text, None if it has no file."""
        if not self._is_folder():
            return None
        paths = (self.path / f"{stem}.txt" for stem in stems_of(name))
        return next((path for path in paths if path.is_file() and not path.is_symlink()), None)

    def has(self, name: str) -> bool:
        """Say whether a text of that name, or a result's outputs, can be read here."""
        if any(self._kept.has(stem) for stem in stems_of(name)) or self.find_path(name):
            return True
        return self._is_folder() and (self.path / f"{result_stem(name)}.json").is_file()

    def clean(self) -> None:
        """Remove what a killed process left. Only the session's owner may. Raises OSError."""
        if self._is_folder():
            remove_leftovers(self.path, _SPOOL_PREFIX)

    def close(self) -> None:
        """Write what was kept in memory if that is possible now, and remove spools left over."""
        self._write_kept()
        unlink_all(self._spools)

    def _save(self, stem: str, kept: Kept) -> str:
        path = self.path / f"{stem}.txt"
        try:
            with store_errors(path):
                self._write(stem, kept)
        except StoreError:
            self._kept.keep(stem, kept)
            raise
        self._write_kept()
        return path.relative_to(self.home).as_posix()

    def _write(self, stem: str, kept: Kept) -> None:
        """Put a result's files in place, the text last: it is there only if all is."""
        self._make_folder()
        if kept.data is not None:
            replace_file(self.path / f"{stem}.json", kept.data)
        _put(self.path / f"{stem}.txt", kept.text)
        self._kept.drop(stem)

    def _write_kept(self) -> None:
        for stem, kept in self._kept.items():
            try:
                self._write(stem, kept)
            except OSError:
                return  # said when it happened; it stays readable from memory

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
        with open(source, "rb") as old, os.fdopen(open_new(temporary), "wb") as new:
            shutil.copyfileobj(old, new, 1024 * 1024)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    os.unlink(source)
