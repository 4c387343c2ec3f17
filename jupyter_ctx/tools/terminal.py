"""What a terminal would show of a text: carriage returns, backspaces, cursor moves, colours.

Progress bars end up in their last state, colours are dropped, and what is left holds no control
character but newline and tab. Linear in the length of the text, whatever is in it.
"""

from __future__ import annotations

import re

WIDTH_CHARS = 200
"""How far right a cursor move can lead past the end of a line, in characters."""

PADDING_CHARS = 100_000
"""All blanks that cursor moves may add to one text, in characters."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_RETURNS = re.compile(r"\r+\n")
_LINE_FEEDS = re.compile(r"[\x0b\x0c]")

# Sequences that move nothing: colours, modes, titles, hyperlinks, character sets. A string that
# does not end within 4,096 characters is none, else one stray byte would swallow the text.
_DECORATION = re.compile(
    r"\x1b\[[0-9;:]{0,64}m"
    r"|\x1b\[[?=>][0-9;]{0,64}[hl]"
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]{0,4096}\x1b\\"
    r"|\x1b[ -/]{1,4}[0-~]"
)
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<args>[0-?]{0,32})[ -/]{0,4}(?P<final>[@-~])"
    r"|\x1b[0-Z\\-~]"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)


def resolve(text: str) -> str:
    """Return what a terminal would show of `text`, as valid UTF-8 text.

    A text without control characters comes back as it is. Lone surrogates become U+FFFD.
    """
    text = mend_surrogates(text)
    if not _CONTROL.search(text):
        return text
    text = _LINE_FEEDS.sub("\n", _RETURNS.sub("\n", _DECORATION.sub("", text)))
    if not _CONTROL.search(text):
        return text
    screen = _Screen()
    for token in _TOKEN.finditer(text):
        screen.take(token)
    return screen.text()


def mend_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates as U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _Screen:
    """Rows of text and a cursor.

    A row is a string until something is written over it or behind it, then a list of characters:
    each token costs its own length, not that of its row.
    """

    def __init__(self) -> None:
        self._rows: list[str | list[str]] = [""]
        self._row = 0
        self._col = 0
        self._padding = PADDING_CHARS

    def take(self, token: re.Match[str]) -> None:
        """Act on one token."""
        if text := token["text"]:
            self._write(text)
        elif final := token["final"]:
            self._move(final, token["args"])
        elif control := token["control"]:
            self._control(control)

    def text(self) -> str:
        """Return all rows; the blanks that overwriting left at the end of a row are dropped."""
        return "\n".join(
            row if isinstance(row, str) else "".join(row).rstrip(" ") for row in self._rows
        )

    def _write(self, text: str) -> None:
        row = self._rows[self._row]
        if not row and not self._col:
            self._rows[self._row] = text
        else:
            cells = self._cells()
            self._pad(cells)
            cells[self._col : self._col + len(text)] = text
        self._col += len(text)

    def _cells(self) -> list[str]:
        row = self._rows[self._row]
        if isinstance(row, str):
            row = list(row)
            self._rows[self._row] = row
        return row

    def _pad(self, cells: list[str]) -> None:
        missing = self._col - len(cells)
        if missing > 0:
            blanks = min(missing, self._padding, WIDTH_CHARS)
            self._padding -= blanks
            cells.extend(" " * blanks)
            self._col = len(cells)

    def _control(self, control: str) -> None:
        if control == "\n":
            self._row, self._col = self._row + 1, 0
            if self._row == len(self._rows):
                self._rows.append("")
        elif control == "\r":
            self._col = 0
        elif control == "\b":
            self._col = max(0, self._col - 1)

    def _move(self, final: str, args: str) -> None:
        numbers = [int(part) if part.isdecimal() else 0 for part in args.split(";")]
        count = max(1, numbers[0])
        match final:
            case "A" | "F":
                self._row = max(0, self._row - count)
            case "B" | "E":
                self._row = min(len(self._rows) - 1, self._row + count)
            case "C":
                self._col = self._reach(self._col + count)
            case "D":
                self._col = max(0, self._col - count)
            case "G":
                self._col = self._reach(count - 1)
            case "H" | "f":
                self._row = min(len(self._rows) - 1, count - 1)
                self._col = self._reach(max(1, numbers[1]) - 1 if len(numbers) > 1 else 0)
            case "K":
                self._erase_line(numbers[0])
            case "J":
                self._erase_screen(numbers[0])
            case _:
                pass
        if final in "EF":
            self._col = 0

    def _reach(self, col: int) -> int:
        """Return `col`, but no further right than a terminal has columns or the row has text."""
        return min(col, max(len(self._rows[self._row]), WIDTH_CHARS))

    def _erase_line(self, mode: int) -> None:
        """Erase to the end (0) or the whole line (2); erasing to the start (1) is rare: ignored."""
        if mode == 0:
            del self._cells()[self._col :]
        elif mode == 2:
            self._rows[self._row] = []

    def _erase_screen(self, mode: int) -> None:
        """Erase below the cursor (0) or everything (2, 3)."""
        if mode == 0:
            del self._rows[self._row + 1 :]
            del self._cells()[self._col :]
        elif mode in (2, 3):
            self._rows, self._row, self._col = [""], 0, 0
