"""The memory of one project: `memory/<project hash>.md` below the home, a fact a line.

The file is the user's as much as ours: a fact is added as one line, taken out as one line, and
every other byte stays. Read as a fact is each line that is neither blank, a heading nor a comment,
with or without bullet and date. Implements core.ports.Memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ..core.ports import Fact
from ..core.preview import clean_text
from ..errors import StoreError
from .files import open_regular, replace_file, store_errors
from .locks import writing

MOST_FACTS = 200
"""So many are kept; to keep another, one has to be taken out."""
MOST_BYTES = 128 * 1024
"""A larger file is none of ours: of it the beginning is read, and nothing is written."""
MOST_FACT_CHARS = 1_000
"""So much is read of a line that was written by hand."""
HASH_CHARS = 16

HEAD = """# What you told the agent in {project}

<!-- One fact a line. Edit it as you like; new sessions read it when they begin. -->

"""
_LINE = re.compile(r"(?:[-*•]\s+)?(?:(\d{4}-\d{2}-\d{2})(?::|\s)\s*)?(.*)", re.DOTALL)
_NO_FACT = ("#", "<!--", "-->")


def memory_path(home: Path, project: str) -> Path:
    """Return where the facts of the project in the folder `project` are kept."""
    real = os.path.realpath(project).encode("utf-8", "surrogateescape")
    return home / "memory" / f"{hashlib.sha256(real).hexdigest()[:HASH_CHARS]}.md"


class MemoryFile:
    """The facts of the project in the folder `project`; its file is made with the first one.

    `today` gives the date that a fact is kept with (2026-11-30), `redact` takes the program's own
    keys out of what is written.
    """

    is_on = True

    def __init__(
        self,
        home: Path,
        project: str,
        today: Callable[[], str],
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.path = memory_path(home, project)
        self._project = project
        self._today = today
        self._redact = redact

    @property
    def place(self) -> str:
        """Say where the file lies, or will."""
        return str(self.path)

    async def load(self) -> Sequence[Fact]:
        """Return what is kept, in the order of the file. Raises StoreError."""
        return await asyncio.to_thread(self.read)

    async def add(self, facts: Sequence[str]) -> Sequence[str]:
        """Keep facts, and return those that were not known. Raises StoreError; none is kept then.

        Known is what reads the same but for case, spaces and the stop at its end.
        """
        return await asyncio.to_thread(self._add, facts)

    async def remove(self, facts: Sequence[str]) -> Sequence[str]:
        """Take facts out and return those that were there. Raises StoreError; all stay then."""
        return await asyncio.to_thread(self._remove, facts)

    def read(self) -> tuple[Fact, ...]:
        """Return what is kept. Raises StoreError."""
        with store_errors(self.path, "read"):
            return _facts(self._load())

    # On a thread of its own -----------------------------------------------------------------------

    def _add(self, facts: Sequence[str]) -> tuple[str, ...]:
        with writing(self.path), store_errors(self.path):
            text = self._load_whole()
            known = {_key(fact.text) for fact in _facts(text)}
            new: dict[str, str] = {}
            for fact in facts:
                line = " ".join(clean_text(self._redact(fact)).split())
                if line and _key(line) not in known:
                    new.setdefault(_key(line), line)
            if not new:
                return ()
            if len(known) + len(new) > MOST_FACTS:
                raise StoreError(
                    f"The memory is full: it has {len(known):,} of {MOST_FACTS:,} facts. Take some "
                    f"out with `/memory forget N`, or in {self.path}.",
                    path=str(self.path),
                )
            at = self._today()
            lines = "".join(f"- {at}: {line}\n" for line in new.values())
            begin = text or HEAD.format(project=_one_line(self._project))
            whole = begin + ("" if begin.endswith("\n") else "\n") + lines
            if len(whole.encode("utf-8", "surrogateescape")) > MOST_BYTES:
                raise StoreError(
                    f"The memory is full: with this {self.path} is larger than {MOST_BYTES:,} "
                    "bytes. Shorten it by hand.",
                    path=str(self.path),
                )
            self._save(whole)
            return tuple(new.values())

    def _remove(self, facts: Sequence[str]) -> tuple[str, ...]:
        with writing(self.path), store_errors(self.path):
            lines = self._load_whole().splitlines(keepends=True)
            wanted = {_key(fact) for fact in facts}
            gone: list[str] = []
            kept: list[str] = []
            for line in lines:
                fact = _fact(line)
                if fact is not None and _key(fact.text) in wanted:
                    gone.append(fact.text)
                else:
                    kept.append(line)
            if gone:
                self._save("".join(kept))
            return tuple(dict.fromkeys(gone))

    def _load(self) -> str:
        """Return the file's text, "" if there is none; of one too large the beginning."""
        try:
            fd = open_regular(self.path)
        except FileNotFoundError:
            return ""
        with os.fdopen(fd, "rb") as file:
            return file.read(MOST_BYTES + 1).decode("utf-8", "surrogateescape")

    def _load_whole(self) -> str:
        text = self._load()
        if len(text.encode("utf-8", "surrogateescape")) > MOST_BYTES:
            raise StoreError(
                f"{self.path} is too large to be a memory: shorten it by hand.", path=str(self.path)
            )
        return text

    def _save(self, text: str) -> None:
        replace_file(self.path, text.encode("utf-8", "surrogateescape"))


def _facts(text: str) -> tuple[Fact, ...]:
    found = (_fact(line) for line in text[:MOST_BYTES].splitlines())
    return tuple(fact for fact in found if fact is not None)


def _fact(line: str) -> Fact | None:
    """Return the fact on a line of the file, None if there is none."""
    line = line.strip()
    if line.startswith(_NO_FACT):
        return None
    match = _LINE.fullmatch(line)
    assert match is not None  # every part of the pattern may be absent
    text = _one_line(match[2][:MOST_FACT_CHARS])
    return Fact(text, match[1] or "") if re.search(r"\w", text) else None


def _one_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _key(text: str) -> str:
    """Return what two spellings of the same fact have in common."""
    return _one_line(text).casefold().rstrip(" .!")
