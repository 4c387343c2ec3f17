"""Files of the project that a mention may have meant: by its last part first, then by likeness."""

from __future__ import annotations

import difflib
import os
from collections import deque
from collections.abc import Iterator

from ..tools.base import NEAR_NAMES
from ..tools.project import Project
from .mentions import mention_of

MOST_ENTRIES = 5_000
"""So many entries of folders are looked at, those nearest to the project's folder first."""

CLOSE = 0.6
"""How alike two names must be, from 0 to 1 (difflib's ratio)."""

LEAST_PART = 3
"""Shorter words stand in too many names by chance."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


def near_files(project: Project, word: str) -> list[str]:
    """Return mentions of the files nearest to `word`, a path or the last part of one; best first.

    A file of that very name, in whatever case and folder, comes before one whose name without its
    suffix is that, this before names that hold it, and these before names that are like it. Hidden
    files are left out.
    """
    last = word.rstrip("/").rpartition("/")[2].lower()[:200]
    if not last:
        return []
    ranked: list[tuple[int, float, int, str]] = []
    matcher = difflib.SequenceMatcher(b=last, autojunk=False)
    for at, path in enumerate(_walk(project.root)):
        name = path.rpartition("/")[2].lower()[:200]
        stem = name.partition(".")[0]
        rank = 0 if name == last else 1 if last in (stem, name.rpartition(".")[0]) else 2
        ratio = 1.0
        if rank == 2 and (len(last) < LEAST_PART or last.partition(".")[0] not in name):
            rank = 3
            matcher.set_seq1(name)
            if matcher.real_quick_ratio() < CLOSE or matcher.quick_ratio() < CLOSE:
                continue
            if (ratio := matcher.ratio()) < CLOSE:
                continue
        ranked.append((rank, -ratio, at, path))
    mentions = (mention_of(path) for _, _, _, path in sorted(ranked))
    return [one for one in mentions if one][:NEAR_NAMES]


def _walk(root: str) -> Iterator[str]:
    """Yield files below a folder by their paths from there, the nearest first; no link is followed.

    Of a folder that cannot be read nothing is told.
    """
    left, waiting = MOST_ENTRIES, deque([""])
    while waiting:
        folder = waiting.popleft()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.name.startswith(".") or entry.name in _SKIPPED:
                        continue
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        yield path
        except OSError:
            continue
