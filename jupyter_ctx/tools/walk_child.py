"""Walks a project's folder for `search_files`; runs as a process of its own, which can be killed.

Started by `find_files.py`, never imported by it.
Standard input: one line of JSON with `root`, `glob` (a regular expression for the path from the
root), `prefix` (the folders that the glob names), `name` (the file that it names, or ""), `dots`
(expressions for dot folders it names), `pattern` (None: names only), `most` (hits), `line_chars`.
Standard output: one JSON object a line: `{"path", "size"}` for a name, `{"path", "cell", "line",
"char", "text"}` for a hit (`cell` "" but in a notebook), `{"error"}` for a bad pattern, and now and
then and at the end a tally: `{"files", "binary", "large", "denied", "is_cut", "is_done"}`.

Rule: no link is followed. Folders are opened from one another, so none can be swapped for a link.
"""

import importlib.util
import io
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MOST_ENTRIES = 200_000
"""So many files and folders are looked at."""

MOST_DEPTH = 64
"""Folders deeper than this are left out."""

MOST_BYTES = 32 * 1024 * 1024
"""A larger file is not searched: it would take all the time there is."""

MOST_IGNORE_BYTES = 256 * 1024
"""So much of a .gitignore is read."""

SNIFFED_BYTES = 8_192
"""A NUL in so many first bytes makes a file binary, as it does for git and grep."""

TALLY_FILES = 500
"""The tally is told after so many files."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Rule(NamedTuple):
    """One line of a .gitignore, for paths from its own folder."""

    base: str
    pattern: re.Pattern[str]
    is_negated: bool
    is_for_folders: bool


def load_sibling(name: str) -> Any:
    """Import the script of that name beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


searching = load_sibling("search_child")
globs = load_sibling("globs")


class Walk:
    """One walk, and what it counted."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.glob = re.compile(order["glob"], re.DOTALL)
        self.dots = [re.compile(dots, re.DOTALL) for dots in order["dots"]]
        self.prefix: list[str] = order["prefix"]
        self.entries = self.files = self.binary = self.large = self.denied = self.hits = 0
        self.is_cut = False

    def tell(self, is_done: bool = False) -> None:
        """Say how far it is."""
        names = ("files", "binary", "large", "denied", "is_cut")
        searching.say(is_done=is_done, **{name: getattr(self, name) for name in names})

    def paths(
        self, fd: int, parts: Sequence[str], rules: Sequence[Rule], ignores: bool
    ) -> Iterator[tuple[int, str, str]]:
        """Yield descriptor of its folder, name and path from the root, of every file wanted."""
        if ignores:
            rules = [*rules, *read_rules(fd, parts)]
        try:
            with os.scandir(fd) as found:  # never all of a folder of millions in memory
                listed = itertools.islice(found, MOST_ENTRIES + 1 - self.entries)
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            self.denied += 1
            return
        folders = []
        for entry in entries:
            self.entries += 1
            if self.entries > MOST_ENTRIES:
                self.is_cut = True
                return
            path = "/".join((*parts, entry.name))
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.name, path))
            elif entry.is_file(follow_symlinks=False) and self.is_wanted(path, rules, ignores):
                yield fd, entry.name, path
        for name, path in folders:
            yield from self.below(fd, [*parts, name], path, rules, ignores)

    def below(
        self, fd: int, parts: list[str], path: str, rules: Sequence[Rule], ignores: bool
    ) -> Iterator[tuple[int, str, str]]:
        """Yield the same of one folder further down, unless it is left out."""
        named = self.prefix[: len(parts)]
        if parts[: len(named)] != named:
            return
        is_named = len(named) == len(parts)
        name = parts[-1]
        is_named_dot = is_named or any(dots.fullmatch(name) for dots in self.dots)
        if name.startswith(".") and not is_named_dot:
            return
        if ignores and is_ignored(path, True, rules):
            if not is_named:
                return
            ignores = False
        if len(parts) > MOST_DEPTH:
            self.is_cut = True
            return
        try:
            folder = os.open(name, _FOLDER, dir_fd=fd)
        except OSError:
            self.denied += 1
            return
        try:
            yield from self.paths(folder, parts, rules, ignores)
        finally:
            os.close(folder)

    def is_wanted(self, path: str, rules: Sequence[Rule], ignores: bool) -> bool:
        """Say whether the glob means this file."""
        if not self.glob.fullmatch(path):
            return False
        is_named = path.rpartition("/")[2] == self.order["name"]
        return is_named or not (ignores and is_ignored(path, False, rules))

    def run(self) -> None:
        """Walk, and say what is found."""
        pattern = None if self.order["pattern"] is None else re.compile(self.order["pattern"])
        root = os.open(self.order["root"], _FOLDER)
        for fd, name, path in self.paths(root, (), (), True):
            self.files += 1
            if self.files % TALLY_FILES == 0:
                self.tell()
            if pattern is None:
                self.list(fd, name, path)
            else:
                self.search(fd, name, path, pattern)
            if self.hits >= self.order["most"]:
                self.is_cut = True
                break
        self.tell(is_done=True)

    def list(self, fd: int, name: str, path: str) -> None:
        """Say the file's name and size."""
        try:
            size = os.stat(name, dir_fd=fd, follow_symlinks=False).st_size
        except OSError:  # it is gone by now
            return
        self.say(path, size=size)

    def say(self, path: str, **fields: object) -> None:
        """Say one hit."""
        self.hits += 1
        searching.say(path=path, **fields)

    def search(self, fd: int, name: str, path: str, pattern: re.Pattern[str]) -> None:
        """Say the hits in one file."""
        try:
            file = os.open(name, _FILE, dir_fd=fd)
        except OSError:
            self.denied += 1
            return
        with os.fdopen(file, "rb") as stream:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode):
                return
            if state.st_size > MOST_BYTES:
                self.large += 1
                return
            data = stream.read(MOST_BYTES)
        if b"\x00" in data[:SNIFFED_BYTES]:
            self.binary += 1
            return
        for cell, text in texts_of(name, data):
            lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", errors="replace", newline="\n")
            for number, before, piece, is_last in searching.read_pieces(lines):
                for place, excerpt in searching.find_hits(
                    pattern, piece, is_last, self.order["line_chars"]
                ):
                    char = before + place if place or before else 0
                    self.say(path, cell=cell, line=number + 1, char=char, text=excerpt)
                    if self.hits >= self.order["most"]:
                        return


def texts_of(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the texts of a file: of a notebook each cell's source with its id, else all of it."""
    if name.lower().endswith(".ipynb"):
        try:
            notebook = json.loads(data)
            cells = notebook.get("cells") or notebook["worksheets"][0]["cells"]
            found = [(cell.get("id"), cell.get("source", cell.get("input", ""))) for cell in cells]
            sources = [(name, s if isinstance(s, str) else "".join(s)) for name, s in found]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            yield "", data
            return
        for at, (cell_id, source) in enumerate(sources, start=1):
            yield str(cell_id or f"number {at}"), source.encode("utf-8", "replace")
        return
    yield "", data


def read_rules(fd: int, parts: Sequence[str]) -> list[Rule]:
    """Return what the folder's .gitignore says, none if there is none."""
    try:
        file = os.open(".gitignore", _FILE, dir_fd=fd)
    except OSError:
        return []
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return []
        lines = stream.read(MOST_IGNORE_BYTES).decode("utf-8", "replace").splitlines()
    base = "".join(f"{part}/" for part in parts)
    return [rule for line in lines if (rule := read_rule(base, line)) is not None]


def read_rule(base: str, line: str) -> Rule | None:
    """Return the rule that a line of a .gitignore makes, None if it makes none."""
    line = re.sub(r"(?<!\\) +$", "", line)
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    line = line[is_negated:]
    is_for_folders = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    is_anchored = "/" in line
    try:
        found = globs.to_regex(line.lstrip("/"), braces=False)
        pattern = re.compile(found if is_anchored else f"(?:.*/)?{found}", re.DOTALL)
    except re.error:
        return None
    return Rule(base, pattern, is_negated, is_for_folders)


def is_ignored(path: str, is_folder: bool, rules: Sequence[Rule]) -> bool:
    """Say what the last rule that speaks of `path` says."""
    for rule in reversed(rules):
        speaks = is_folder or not rule.is_for_folders
        if speaks and rule.pattern.fullmatch(path[len(rule.base) :]):
            return not rule.is_negated
    return False


def main() -> None:
    """Walk as told."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    try:
        walk = Walk(order)
        if order["pattern"] is not None:
            re.compile(order["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        searching.say(error=str(error))
        return
    walk.run()


if __name__ == "__main__":
    main()
