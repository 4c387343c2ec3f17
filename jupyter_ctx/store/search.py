"""Finding sessions by words: titles and prompts at once, every text on request.

`search.json` in the home keeps the prompts of all sessions, so that a search reads of a transcript
only what was appended since. It is no more than that: it can be removed at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..core.blocks import words_of
from ..core.entries import MessageEntry
from ..errors import StoreError
from .codec import load_line
from .files import open_regular, replace_file
from .jsonl import READ_BYTES, TRANSCRIPT
from .metadata import SessionInfo
from .turns import entry_text

INDEX = "search.json"
VERSION = 1
PROMPT_CHARS = 2_000
"""Of a longer prompt only so many characters are searched at once; all of it in the full text."""
SESSION_CHARS = 200_000
"""Of a session's prompts only the first so many characters are searched at once, likewise."""
EXCERPT_CHARS = 160

_PROMPT = b'"kind":"prompt"'


@dataclass(frozen=True, slots=True)
class Found:
    """A session that has every word searched for, in one text of it.

    `where` is what that text is, `turn` its turn (None: of the title); `excerpt` is one line of it
    around the first word, at most `EXCERPT_CHARS` characters and two ellipses.
    """

    info: SessionInfo
    where: Literal["title", "prompt", "text"]
    turn: int | None
    excerpt: str


@dataclass(slots=True)
class _Known:
    """The prompts of one session, with their turns; `size` bytes of its transcript were read."""

    size: int = 0
    inode: int = 0
    chars: int = 0
    prompts: list[tuple[int, str]] = field(default_factory=list)


class Index:
    """The prompts of the sessions below `home`, as far as they were read."""

    def __init__(self, home: Path) -> None:
        self._path = home / INDEX
        self._known = _load(self._path)
        self._is_changed = False

    def prompts(self, folder: Path) -> Sequence[tuple[int, str]]:
        """Return turn and text of each prompt of the session in `folder`; [] if it has no file."""
        known = self._known.get(folder.name, _Known())
        with suppress(OSError), os.fdopen(open_regular(folder / TRANSCRIPT), "rb", READ_BYTES) as f:
            there = os.fstat(f.fileno())
            if there.st_ino != known.inode or there.st_size < known.size:
                known = _Known(inode=there.st_ino)
            if there.st_size > known.size:
                f.seek(known.size)
                _read_on(known, f)
                self._known[folder.name] = known
                self._is_changed = True
        return known.prompts

    def save(self, names: Iterable[str]) -> None:
        """Keep what was read of the sessions called `names`, and forget every other one."""
        there = set(names)
        gone = self._known.keys() - there
        if not self._is_changed and not gone:
            return
        kept = {name: known for name, known in self._known.items() if name in there}
        stored = {name: [one.size, one.inode, one.chars, one.prompts] for name, one in kept.items()}
        data = json.dumps({"version": VERSION, "sessions": stored}, separators=(",", ":")).encode()
        with suppress(OSError):  # the next search reads the transcripts again
            replace_file(self._path, data)


def find_in(info: SessionInfo, prompts: Iterable[tuple[int, str]], text: str) -> Found | None:
    """Return where a session's title or a prompt of it has every word of `text`, None: nowhere.

    Upper and lower case are the same. A text without words is in every title.
    """
    words = text.casefold().split()
    if _has(info.title, words):
        return Found(info, "title", None, excerpt(info.title, words))
    for turn, prompt in prompts:
        if _has(prompt, words):
            return Found(info, "prompt", turn, excerpt(prompt, words))
    return None


def find_in_file(info: SessionInfo, folder: Path, text: str) -> Found | None:
    """Return the first message of a session's transcript that has every word, None: none has.

    Results that were offloaded are searched as far as the model was shown them.
    """
    words = text.casefold().split()
    raw = [json.dumps(word, ensure_ascii=False)[1:-1].casefold() for word in words]
    with suppress(OSError), os.fdopen(open_regular(folder / TRANSCRIPT), "rb", READ_BYTES) as file:
        for line in file:
            if not _has(line.decode("utf-8", "replace"), raw):
                continue
            entry = _message(line)
            if entry is not None and _has(said := entry_text(entry), words):
                return Found(info, "text", entry.turn, excerpt(said, words))
    return None


def excerpt(text: str, words: Sequence[str]) -> str:
    """Return one line of `text` around the first of `words` (folded), whitespace made single."""
    line = " ".join(text.split())
    at = max(0, line.casefold().find(words[0]) if words else 0)
    start = max(0, min(at - EXCERPT_CHARS // 4, len(line) - EXCERPT_CHARS))
    cut = line[start : start + EXCERPT_CHARS]
    before, after = "…" if start else "", "…" if start + EXCERPT_CHARS < len(line) else ""
    return f"{before}{cut}{after}"


def _has(text: str, words: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _message(line: bytes) -> MessageEntry | None:
    try:
        entry = load_line(line)
    except StoreError:
        return None  # a bad line, which `load` names
    return entry if isinstance(entry, MessageEntry) else None


def _read_on(known: _Known, lines: Iterable[bytes]) -> None:
    """Add the prompts of the whole lines that follow."""
    for line in lines:
        if not line.endswith(b"\n"):
            return  # it is being written
        known.size += len(line)
        if _PROMPT not in line or known.chars >= SESSION_CHARS:
            continue
        entry = _message(line)
        if entry is not None and entry.kind == "prompt" and (words := words_of(entry.message)):
            cut = words[:PROMPT_CHARS]
            known.chars += len(cut)
            known.prompts.append((entry.turn, cut))


def _load(path: Path) -> dict[str, _Known]:
    """Return what is kept; nothing if it is lost, bad, or of another version."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            stored = json.load(file)
        if stored["version"] != VERSION:
            return {}
        return dict(_known(stored["sessions"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _known(sessions: Mapping[str, Any]) -> Iterator[tuple[str, _Known]]:
    for name, (size, inode, chars, prompts) in sessions.items():
        listed = [(int(turn), str(text)) for turn, text in prompts]
        yield name, _Known(int(size), int(inode), int(chars), listed)
