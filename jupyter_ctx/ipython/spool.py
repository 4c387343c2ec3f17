"""A text that is too long to hold is written to a file while it is made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..core.ports import SpooledText

HEAD_CHARS = 65_536
"""Characters of a spooled text's beginning that stay in memory (core.ports.SpooledText)."""

TAIL_CHARS = 65_536
"""… and of its end."""


def valid_text(text: str) -> str:
    """Return `text` as it can be written in UTF-8: each lone surrogate becomes U+FFFD.

    Two halves that belong together become their one character.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8_bytes(text: str) -> int:
    """Return how many bytes `text` has in UTF-8; a lone surrogate counts as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Spool:
    """A growing text of which memory holds the head, the tail and the counts only.

    With a `path` (and its open descriptor `handle`) every character is in that file as UTF-8 when
    `write` returns. Without one, or after the disk failed, the middle is lost and `error` says why
    (None if there never was a file). No method raises OSError.
    """

    def __init__(
        self, handle: int | None = None, path: Path | None = None, error: OSError | None = None
    ) -> None:
        self._handle = handle
        self.path = path
        self.error = error
        self.head = ""
        self.tail = ""
        self.chars = 0
        self.size_bytes = 0
        self._newlines = 0

    @property
    def lines(self) -> int:
        """The number of lines; an unfinished last line counts."""
        return self._newlines + bool(self.tail and not self.tail.endswith("\n"))

    def write(self, text: str) -> None:
        """Add `text`, which must be valid (see `valid_text`)."""
        if not text:
            return
        data = text.encode()
        self._save(data)
        self.size_bytes += len(data)
        self.chars += len(text)
        self._newlines += text.count("\n")
        if len(self.head) < HEAD_CHARS:
            self.head += text[: HEAD_CHARS - len(self.head)]
        self.tail = text[-TAIL_CHARS:] if len(text) >= TAIL_CHARS else self.tail + text
        self.tail = self.tail[-TAIL_CHARS:]

    def write_block(self, text: str) -> None:
        """Add `text` on lines of its own."""
        if self.tail and not self.tail.endswith("\n"):
            self.write("\n")
        self.write(text)
        if text and not text.endswith("\n"):
            self.write("\n")

    def finish(self) -> SpooledText | None:
        """Close the file and return what it holds; None if the whole text is in no file."""
        path = self.path
        self._close()
        if path is None or self.error is not None:
            return None
        return SpooledText(str(path), self.chars, self.lines, self.size_bytes, self.head, self.tail)

    def discard(self) -> None:
        """Close the file and remove it."""
        self._close()
        if self.path is not None:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:  # the store vanished or became read-only: nothing to remove
                self.error = error
            self.path = None

    def _save(self, data: bytes) -> None:
        if self._handle is None:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            self.discard()
            self.error = error

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            os.close(handle)
        except OSError as error:  # a network file system reports a failed write only here
            self.error = error


def open_spool(folder: Path) -> Spool:
    """Return a spool to a new file in `folder` (made, 0700, if need be; the file is 0600).

    Never raises: where no file can be made, the spool has none and its `error` says why.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="spool-", suffix=".txt", dir=folder)
    except OSError as error:
        return Spool(error=error)
    return Spool(handle, Path(name))
