"""Mentions in a prompt: `@name`, `@cell:N`, `@out:N`, `@error`, `@path/to/file`. Pure and total.

A mention begins where no word goes on: at the start, behind white space, or behind `(`, `,`, `;` or
a dash. So e-mail addresses, addresses of the web and quoted text have none. Code has none either:
what stands between backticks or in a fence, the decorators above a `def` or `class`, what is called
(`@cache(…)`), and the head line of a diff's hunk. `@@` is a literal `@`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["error", "cell", "out", "name", "file"]

_BEFORE = "(,;–—"
# What a path or a name is made of; a quoted path may hold anything else.
_WORD = re.compile(r'"([^"\n]+)"|((?:cell|out):[\w%=.-]+)|([\w./~][\w./~%+=-]*)')
_TRAILING = ".,-=%+/"
_NUMBER = re.compile(r"[\d.,]+[^\W\d]{0,3}%?")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_TICKS = re.compile(r"`+")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_DECORATOR = re.compile(r"[ \t]*@[^\W\d][\w.]*[ \t]*(?:\(.*|#.*)?$")
_DEFINES = re.compile(r"[ \t]*(?:async[ \t]+def|def|class)\b")
_COMMENT = re.compile(r"[ \t]*#.*$")
_BEGUN = re.compile(r'@("[^"\n]*|[\w./~%+=:-]*)$')


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention; `word` is what stands behind the `@`, without quotes.

    `is_quoted`: it is a path, whatever it looks like.
    """

    word: str
    is_quoted: bool = False

    @property
    def kind(self) -> Kind:
        """What it is by its form. A `name` may be a file too, where there is no such variable."""
        if self.is_quoted:
            return "file"
        if self.word == "error":
            return "error"
        if self.word.startswith("cell:"):
            return "cell"
        if self.word.startswith("out:"):
            return "out"
        return "name" if self.word.split(".")[0].isidentifier() and "/" not in self.word else "file"

    @property
    def rest(self) -> str:
        """What stands behind the colon, else the whole word."""
        return self.word.partition(":")[2] if self.kind in ("cell", "out") else self.word

    def __str__(self) -> str:
        return f'@"{self.word}"' if self.is_quoted else f"@{self.word}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A prompt as it is sent, with every `@@` outside code as `@`, and its mentions, each once."""

    text: str
    mentions: tuple[Mention, ...] = ()


def parse(text: str) -> Parsed:
    """Return the prompt's text and its mentions, in order. Total; linear in the text."""
    if "@" not in text:
        return Parsed(text)
    code = find_code(text)
    starts = [start for start, _ in code]
    parts: list[str] = []
    mentions: list[Mention] = []
    done = at = 0
    while (at := text.find("@", at)) >= 0:
        inside = bisect.bisect_right(starts, at) - 1
        if inside >= 0 and at < code[inside][1]:
            at = code[inside][1]
        elif text.startswith("@@", at):
            parts.append(text[done : at + 1])
            done = at = at + 2
        elif (found := _mention_at(text, at)) is not None:
            mentions.append(found[0])
            at = found[1]
        else:
            at += 1
    parts.append(text[done:])
    return Parsed("".join(parts), tuple(dict.fromkeys(mentions)))


def find_begun(text: str) -> str | None:
    """Return what stands behind the `@` of a mention that `text` ends in the middle of, else None.

    It may be empty; that of a quoted path begins with its quote.
    """
    begun = _BEGUN.search(text)
    if begun is None or not _can_begin(text, begun.start()):
        return None
    at = begun.start()
    is_code = any(start <= at < end for start, end in find_code(text))
    return None if is_code else begun[1]


def mention_of(path: str) -> str:
    """Return the mention of a file, in quotes if it needs them; "" if no mention can name it."""
    plain, quoted = f"@{path}", f'@"{path}"'
    if parse(plain).mentions == (Mention(path),):
        return plain
    return quoted if parse(quoted).mentions == (Mention(path, is_quoted=True),) else ""


def _can_begin(text: str, at: int) -> bool:
    return at == 0 or text[at - 1].isspace() or text[at - 1] in _BEFORE


def _mention_at(text: str, at: int) -> tuple[Mention, int] | None:
    """Return the mention whose `@` stands there, and where it ends; None if there is none."""
    if not _can_begin(text, at):
        return None
    match = _WORD.match(text, at + 1)
    if match is None:
        return None
    quoted, *_ = match.groups()
    if quoted is not None:
        return Mention(quoted, is_quoted=True), match.end()
    word = match[0].rstrip(_TRAILING)
    end = at + 1 + len(word)
    follows = text[match.end() : match.end() + 1]
    if follows in ("(", "@") and match.end() == end:  # a call; an address of several parts
        return None
    if not any(char.isalnum() for char in word) or _NUMBER.fullmatch(word):
        return None
    return Mention(word), end


# Code -------------------------------------------------------------------------------------------


def find_code(text: str) -> list[tuple[int, int]]:
    """Return where code stands, as ranges of characters in ascending order that do not overlap."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found: list[tuple[int, int]] = []
    fence = ""
    prose: list[int] = []  # the lines of the paragraph that is read
    for at, line in enumerate(lines):
        opened = _FENCE.match(line)
        if fence:
            found.append((starts[at], starts[at + 1]))
            if opened and line.strip() == opened[1] and opened[1].startswith(fence):
                fence = ""
        elif opened and "`" not in line[opened.end() :]:
            found += _code_in(text, lines, starts, prose)
            found.append((starts[at], starts[at + 1]))
            prose, fence = [], opened[1]
        elif line.strip():
            prose.append(at)
        else:
            found += _code_in(text, lines, starts, prose)
            prose = []
    found += _code_in(text, lines, starts, prose)
    return _merge([*found, *_decorators(lines, starts)])


def _code_in(
    text: str, lines: Sequence[str], starts: Sequence[int], prose: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the code spans of a paragraph, and the heads of hunks in it."""
    if not prose:
        return
    for at in prose:
        if hunk := _HUNK.match(lines[at]):
            yield starts[at], starts[at] + hunk.end()
    first, end = starts[prose[0]], starts[prose[-1] + 1] - 1
    runs = [run.span() for run in _TICKS.finditer(text, first, end)]
    by_length: dict[int, list[int]] = {}
    for index, (start, stop) in enumerate(runs):
        by_length.setdefault(stop - start, []).append(index)
    index = 0
    while index < len(runs):
        start, stop = runs[index]
        same = by_length[stop - start]
        place = bisect.bisect_right(same, index)
        if place == len(same):
            index += 1
            continue
        closing = same[place]
        yield start, runs[closing][1]
        index = closing + 1


def _decorators(lines: Sequence[str], starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the lines of decorators: those that a definition stands below."""
    at = 0
    while at < len(lines):
        if not _DECORATOR.match(lines[at]):
            at += 1
            continue
        first, depth = at, 0
        while at < len(lines):
            line = lines[at]
            if depth <= 0 and not (_DECORATOR.match(line) or _COMMENT.match(line)):
                break
            depth += line.count("(") - line.count(")")
            at += 1
        if at < len(lines) and _DEFINES.match(lines[at]):
            yield starts[first], starts[at]


def _merge(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
