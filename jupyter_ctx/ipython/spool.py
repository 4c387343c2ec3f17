"""A text that is too long to hold is written to a file while it is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        self._end: list[str] = []
        self._end_chars = 0
        self.chars = 0
        self.size_bytes = 0
        self._newlines = 0

    @property
    def lines(self) -> int:
        """The number of lines; an unfinished last line counts."""
        return self._newlines + self._is_line_open

    @property
    def tail(self) -> str:
        """The last `TAIL_CHARS` characters."""
        self._end[:] = ["".join(self._end)[-TAIL_CHARS:]]
        self._end_chars = len(self._end[0])
        return self._end[0]

    @property
    def _is_line_open(self) -> bool:
        return bool(self._end) and self._end[-1][-1:] not in ("", "\n")

    def write(self, text: str) -> None:
        """Add `text`, which must be valid (see `valid_text`)."""
        if not text:
            return
        data = text.encode()
        self._save(data)
        self.size_bytes += len(data)
        self.chars += len(text)
        self._newlines += _count_newlines(data)
        if len(self.head) < HEAD_CHARS:
            self.head += text[: HEAD_CHARS - len(self.head)]
        self._end.append(text[-TAIL_CHARS:])
        self._end_chars += len(self._end[-1])
        if self._end_chars > 8 * TAIL_CHARS:
            self._end = [self.tail]

    def write_block(self, text: str) -> None:
        """Add `text` on lines of its own."""
        if self._is_line_open:
            self.write("\n")
        self.write(text)
        if text and not text.endswith("\n"):
            self.write("\n")

    def finish(self) -> SpooledText | None:
        """Close the file and return what it holds; None if the whole text is in no file."""
        path = self.path
        self._close()
        return self._describe(path)

    def look(self) -> SpooledText | None:
        """Return what the file holds by now, which may grow; None if it is not the whole text."""
        return self._describe(self.path)

    def _describe(self, path: Path | None) -> SpooledText | None:
        if path is None or self.error is not None:
            return None
        from ..core.ports import SpooledText

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


def _count_newlines(data: bytes) -> int:
    """Count the newlines; where they are far apart, finding is twice as fast as counting."""
    if data[:1024].count(b"\n") > 32:
        return data.count(b"\n")
    return len(data) - len(data.replace(b"\n", b""))
