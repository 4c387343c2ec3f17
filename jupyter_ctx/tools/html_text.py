"""HTML as compact text for a model: tables as rows, no scripts, no styles, no markup.

A scanner of its own, since the standard library's parser takes quadratic time on broken markup
(`<a <a <a …`). This one looks at each character a bounded number of times.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

TABLE_DEPTH = 8
"""Tables nested deeper than this are read as plain text, so that nesting cannot cost copies."""

SPAN = 50
"""A cell reaches over so many rows or columns at most."""

_RAW = frozenset({"script", "style", "svg", "title", "button", "template", "select", "object"})
_BLOCK = frozenset(
    {"address", "article", "aside", "blockquote", "br", "caption", "center", "dd", "details"}
    | {"div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "li", "main", "nav", "ol", "p", "pre", "section"}
    | {"summary", "ul"}
)
_MEDIA = {"img": "image", "audio": "audio", "video": "video", "iframe": "frame", "canvas": "canvas"}
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)")
_STOP = re.compile(r"[>\"']")
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_DATA_URI = re.compile(r"(data:[\w.+-]{1,100}/[\w.+-]{1,100})[;,][^\"'\s<>)]*")


@dataclass(frozen=True, slots=True)
class _Tag:
    """A start or end tag; `attrs` is its text as written."""

    name: str
    is_end: bool
    attrs: str


@dataclass(slots=True)
class _Table:
    """A table being read; the open cell's pieces are the last of the writer's sinks."""

    rows: list[list[str]] = field(default_factory=list)
    in_cell: bool = False
    spans: tuple[int, int] = (1, 1)
    reaching: dict[int, tuple[int, str]] = field(default_factory=dict)
    above: dict[int, str] = field(default_factory=dict)

    def begin_row(self) -> None:
        """Start a row; cells of the rows above may reach down into it."""
        self.above = {place: cell for place, (_, cell) in self.reaching.items()}
        self.reaching = {
            place: (rows - 1, cell) for place, (rows, cell) in self.reaching.items() if rows > 1
        }
        self.rows.append([])

    def add(self, cell: str) -> None:
        """Add a cell behind those that reach down into its row."""
        row = self.rows[-1]
        while len(row) in self.above:
            row.append(self.above.pop(len(row)))
        rows, columns = self.spans
        if rows > 1:
            self.reaching[len(row)] = (rows - 1, cell)
        row.extend([cell, *[""] * (columns - 1)])


def html_to_text(markup: str) -> str:
    """Return the readable text of `markup`, "" if there is none.

    A table row is one line, its cells joined by ` | `. Pictures, players and frames leave a short
    mark in brackets. Total: any text is accepted.
    """
    writer = _Writer()
    for token in _tokens(_DATA_URI.sub(r"\1", markup)):
        if isinstance(token, str):
            writer.text(token)
        else:
            writer.tag(token)
    return writer.finish()


def _tokens(markup: str) -> Iterator[str | _Tag]:
    """Yield texts and tags in order, without comments and the content of scripts and the like."""
    scanner = _Scanner(markup)
    at = 0
    while at < len(markup):
        start = scanner.find("<", at)
        if start > at:
            yield markup[at:start]
        if start == len(markup):
            return
        if markup.startswith(("<!", "<?"), start):
            at = scanner.skip_declaration(start)
            continue
        opening = _TAG.match(markup, start)
        end = scanner.find_tag_end(opening.end()) if opening else len(markup)
        if opening is None or end == len(markup):
            yield "<"
            at = start + 1
            continue
        tag = _Tag(opening[2].lower(), bool(opening[1]), markup[opening.end() : end])
        yield tag
        at = end + 1
        if tag.name in _RAW and not tag.is_end and not tag.attrs.endswith("/"):
            at = scanner.skip_raw(tag.name, at)


class _Scanner:
    """Looks for things in a text and remembers what is not in the rest of it.

    What was not found behind one place is not behind a later one either, so that no search is
    repeated in vain: this is what keeps broken markup linear.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._absent: set[str] = set()
        self._quotes_count = True

    def find(self, what: str, at: int) -> int:
        """Return where `what` is next, the text's length if nowhere."""
        if what in self._absent:
            return len(self._text)
        found = self._text.find(what, at)
        if found < 0:
            self._absent.add(what)
            return len(self._text)
        return found

    def find_tag_end(self, at: int) -> int:
        """Return where the tag's `>` is, the text's length if nowhere.

        One inside a quoted value does not count, until quotes were once found not to balance.
        """
        first = self.find(">", at)
        if first == len(self._text) or not self._quotes_count:
            return first
        while stop := _STOP.search(self._text, at):
            if stop[0] == ">":
                return stop.start()
            at = min(self.find(stop[0], stop.end()) + 1, len(self._text))
        self._quotes_count = False
        return first

    def skip_declaration(self, at: int) -> int:
        """Return the place behind a comment, doctype or instruction that starts at `at`."""
        closing = "-->" if self._text.startswith("<!--", at) else ">"
        return min(self.find(closing, at + 2) + len(closing), len(self._text))

    def skip_raw(self, name: str, at: int) -> int:
        """Return the place behind the end tag of `name`, the text's end if there is none."""
        closing = re.compile(rf"</{name}\b[^>]*>?", re.IGNORECASE).search(self._text, at)
        return closing.end() if closing else len(self._text)


class _Writer:
    """Builds the text; its innermost sink is the page or the open table cell."""

    def __init__(self) -> None:
        self._sinks: list[list[str]] = [[]]
        self._tables: list[_Table] = []
        self._too_deep = 0
        self._pre = 0

    def text(self, markup: str) -> None:
        """Add text as written in the markup; outside `<pre>` blanks collapse."""
        text = _unescape(markup)
        if not self._pre:
            text = _BLANKS.sub(" ", text)
            if self._at_blank():
                text = text.removeprefix(" ")
        self._add(text)

    def tag(self, tag: _Tag) -> None:
        """Act on one tag."""
        if tag.name in ("table", "tr", "td", "th"):
            self._table_tag(tag)
        elif tag.name in _BLOCK:
            self._block(tag)
        elif tag.name in _MEDIA and not tag.is_end:
            self._add(_describe_media(tag))
        elif tag.name == "progress" and not tag.is_end:
            self._add(f"[progress {_attr(tag, 'value') or '?'}/{_attr(tag, 'max') or '?'}]")
        elif tag.name == "svg" and not tag.is_end:
            self._add("[SVG]")

    def finish(self) -> str:
        """Close what is open and return the text."""
        while self._tables:
            self._close_table()
        lines = (line.rstrip() for line in "".join(self._sinks[0]).split("\n"))
        return "\n".join(lines).strip("\n")

    def _add(self, text: str) -> None:
        if text:
            self._sinks[-1].append(text)

    def _at_blank(self) -> bool:
        sink = self._sinks[-1]
        return not sink or sink[-1][-1] in " \n"

    def _break(self) -> None:
        sink = self._sinks[-1]
        if sink and not sink[-1].endswith("\n"):
            sink.append("\n")

    def _block(self, tag: _Tag) -> None:
        if tag.name == "pre":
            self._pre = max(0, self._pre + (-1 if tag.is_end else 1))
        self._break()
        if tag.is_end:
            return
        if tag.name == "li":
            self._add("- ")
        elif len(tag.name) == 2 and tag.name[1].isdigit():
            self._add("#" * int(tag.name[1]) + " ")

    def _table_tag(self, tag: _Tag) -> None:
        if tag.name == "table":
            self._table(tag.is_end)
        elif self._too_deep or not self._tables:
            self._break()
        elif tag.name == "tr":
            self._close_cell()
            if not tag.is_end:
                self._tables[-1].begin_row()
        else:
            self._close_cell()
            if not tag.is_end:
                self._tables[-1].in_cell = True
                self._tables[-1].spans = (_span(tag, "rowspan"), _span(tag, "colspan"))
                self._sinks.append([])

    def _table(self, is_end: bool) -> None:
        if not is_end:
            if len(self._tables) == TABLE_DEPTH:
                self._too_deep += 1
            else:
                self._break()
                self._tables.append(_Table())
        elif self._too_deep:
            self._too_deep -= 1
        elif self._tables:
            self._close_table()

    def _close_cell(self) -> None:
        table = self._tables[-1]
        if not table.in_cell:
            return
        table.in_cell = False
        cell = _BLANKS.sub(" ", "".join(self._sinks.pop())).strip()
        if not table.rows:
            table.rows.append([])
        table.add(cell)

    def _close_table(self) -> None:
        self._close_cell()
        rows = [" | ".join(row).rstrip() for row in self._tables.pop().rows if any(row)]
        inside = bool(self._tables) and self._tables[-1].in_cell
        self._add("; ".join(rows) + " " if inside else "".join(row + "\n" for row in rows))


def _unescape(markup: str) -> str:
    """Return `markup` with its character references resolved."""
    try:
        return html.unescape(markup)
    except ValueError:  # a reference of more digits than an int may have is no character
        return markup


def _attr(tag: _Tag, name: str) -> str:
    """Return the value of an attribute, "" if it has none; at most 200 characters."""
    pattern = rf"(?:^|\s){name}\s{{0,4}}=\s{{0,4}}(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))"
    found = re.search(pattern, tag.attrs, re.IGNORECASE)
    value = next((group for group in found.groups() if group is not None), "") if found else ""
    return _BLANKS.sub(" ", _unescape(value)).strip()[:200]


def _span(tag: _Tag, name: str) -> int:
    """Return over how many rows or columns a cell reaches, SPAN at most."""
    if name not in tag.attrs:
        return 1
    value = _attr(tag, name)
    return min(max(1, int(value)), SPAN) if value.isdecimal() and len(value) < 6 else 1


def _describe_media(tag: _Tag) -> str:
    """Return a short mark for a picture, player or frame: its alternative text, else its source."""
    about = _attr(tag, "alt") or _attr(tag, "title") or _attr(tag, "src").removeprefix("data:")
    return f"[{_MEDIA[tag.name]}: {about}]" if about else f"[{_MEDIA[tag.name]}]"
