"""What a model knows of notebook and namespace, in short, and what differs between two such states.

A snapshot holds digests and short words, no sources and no values; it is stored with a prompt as
compact JSON. Pure: `apply(old, diff(old, new))` is `new`, and a property test says so.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.blocks import Json

VERSION = 1

MOST_CELLS = 2_000
"""So many cells, the first ones, are compared one by one; the rest are counted."""

MOST_NAMES = 2_000
"""So many names, the last ones bound first, are compared one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class CellMark:
    """A cell: `digest` stands for type and source, `run` for its last run here, "" if none."""

    id: str
    digest: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class NameMark:
    """A name: what it is, in words ("DataFrame 10 × 3"), which object, and which cell bound it."""

    what: str
    object: str = ""
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Notebook, namespace and surroundings at one moment.

    `kernel` tells one kernel's life from another's: objects and runs are of one life only. `n` is
    its number in that life. `source` is NotebookState's; `cwd` a digest of the working folder;
    `more_cells` and `more_names` count what is not in it. `around` is what FolderNews keeps of the
    project's folder; no difference in it is told from here.
    """

    kernel: str = ""
    n: int = 0
    source: str = "kernel"
    cells: tuple[CellMark, ...] = ()
    names: Mapping[str, NameMark] = field(default_factory=dict)
    date: str = ""
    cwd: str = ""
    more_cells: int = 0
    more_names: int = 0
    around: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from every other one."""
        return self.kernel, self.n

    @property
    def by_id(self) -> dict[str, CellMark]:
        """Its cells by id."""
        return {cell.id: cell for cell in self.cells}

    def to_json(self) -> dict[str, object]:
        """Return it for the transcript."""
        return {
            "v": VERSION,
            "kernel": self.kernel,
            "n": self.n,
            "source": self.source,
            "cells": [[cell.id, cell.digest, cell.run] for cell in self.cells],
            "names": {
                name: [mark.what, mark.object, mark.cell] for name, mark in self.names.items()
            },
            "date": self.date,
            "cwd": self.cwd,
            "more": [self.more_cells, self.more_names],
            "around": dict(self.around),
        }

    def in_kernel(self, kernel: str) -> Snapshot:
        """Return what is left of it in another kernel's life: no name and no run."""
        if kernel == self.kernel:
            return self
        cells = tuple(CellMark(cell.id, cell.digest) for cell in self.cells)
        return replace(self, kernel=kernel, n=-1, cells=cells, names={}, more_names=0)


def read_snapshot(seen: Json | None) -> Snapshot | None:
    """Return the snapshot that was stored; None if there is none, or it is of another version."""
    if seen is None or seen.get("v") != VERSION:
        return None
    found: Mapping[str, Any] = seen
    try:
        return Snapshot(
            kernel=str(found["kernel"]),
            n=int(found["n"]),
            source=str(found["source"]),
            cells=tuple(CellMark(*map(str, cell)) for cell in found["cells"]),
            names={str(name): NameMark(*map(str, one)) for name, one in found["names"].items()},
            date=str(found["date"]),
            cwd=str(found["cwd"]),
            more_cells=int(found["more"][0]),
            more_names=int(found["more"][1]),
            around={str(key): str(one) for key, one in found.get("around", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None  # an edited file: then nothing is known, and an outline is told


@dataclass(frozen=True, slots=True)
class Placed:
    """A cell that was inserted or moved, and the id of the one it stands below, None: the top."""

    cell: CellMark
    above: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two snapshots.

    `inserted` and `moved` are in the notebook's order. `changed` are cells at whose place nothing
    changed, and moved ones that are otherwise the same are in `moved` alone: a moved cell that
    changed is in both. `names` holds new and changed names with what they were, None: new.
    """

    inserted: tuple[Placed, ...] = ()
    moved: tuple[Placed, ...] = ()
    deleted: tuple[str, ...] = ()
    changed: Mapping[str, tuple[CellMark, CellMark]] = field(default_factory=dict)
    names: Mapping[str, tuple[NameMark | None, NameMark]] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    date: str = ""
    cwd: str = ""
    more_cells: tuple[int, int] | None = None
    more_names: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return self != Changes()


def diff(old: Snapshot, new: Snapshot) -> Changes:
    """Return what changed from `old` to `new`; both of one kernel's life. Falsy if nothing did."""
    before, after = old.by_id, new.by_id
    steady = _steady(
        [cell.id for cell in old.cells if cell.id in after],
        [cell.id for cell in new.cells if cell.id in before],
    )
    inserted: list[Placed] = []
    moved: list[Placed] = []
    above: str | None = None
    for cell in new.cells:
        if cell.id not in before:
            inserted.append(Placed(cell, above))
        elif cell.id not in steady:
            moved.append(Placed(cell, above))
        above = cell.id
    return Changes(
        inserted=tuple(inserted),
        moved=tuple(moved),
        deleted=tuple(cell.id for cell in old.cells if cell.id not in after),
        changed={
            cell.id: (before[cell.id], cell)
            for cell in new.cells
            if cell.id in before and before[cell.id] != cell
        },
        names={
            name: (old.names.get(name), mark)
            for name, mark in new.names.items()
            if old.names.get(name) != mark
        },
        gone=tuple(name for name in old.names if name not in new.names),
        date=new.date if new.date != old.date else "",
        cwd=new.cwd if new.cwd != old.cwd else "",
        more_cells=_counts(old.more_cells, new.more_cells),
        more_names=_counts(old.more_names, new.more_names),
    )


def apply(old: Snapshot, changes: Changes) -> Snapshot:
    """Return `old` with the changes made: what `diff` compared it with.

    Key, source and `around` stay.
    """
    marks = {**old.by_id, **{name: mark for name, (_, mark) in changes.changed.items()}}
    placed = [*changes.inserted, *changes.moved]
    marks |= {one.cell.id: one.cell for one in placed}
    leaving = {*changes.deleted, *(one.cell.id for one in placed)}
    order = [cell.id for cell in old.cells if cell.id not in leaving]
    waiting = {one.above: one.cell.id for one in placed}
    order = _place(order, waiting)
    names = {name: mark for name, mark in old.names.items() if name not in changes.gone}
    names |= {name: mark for name, (_, mark) in changes.names.items()}
    return replace(
        old,
        cells=tuple(marks[one] for one in order),
        names=names,
        date=changes.date or old.date,
        cwd=changes.cwd or old.cwd,
        more_cells=changes.more_cells[1] if changes.more_cells else old.more_cells,
        more_names=changes.more_names[1] if changes.more_names else old.more_names,
    )


def with_cell(old: Snapshot, cell: CellMark, above: str | None) -> Snapshot:
    """Return the snapshot with a cell standing below `above`, None: at the top; as it is now."""
    cells = [one for one in old.cells if one.id != cell.id]
    at = next((n for n, one in enumerate(cells, 1) if one.id == above), 0)
    return replace(old, cells=(*cells[:at], cell, *cells[at:]))


def without_cell(old: Snapshot, cell_id: str) -> Snapshot:
    """Return the snapshot without a cell."""
    return replace(old, cells=tuple(one for one in old.cells if one.id != cell_id))


def with_names(
    old: Snapshot, before: Mapping[str, NameMark], after: Mapping[str, NameMark]
) -> Snapshot:
    """Return the snapshot with the names as a run changed them, from `before` to `after` it."""
    names = {name: mark for name, mark in old.names.items() if name in after or name not in before}
    names |= {name: mark for name, mark in after.items() if before.get(name) != mark}
    return replace(old, names=names)


def _counts(old: int, new: int) -> tuple[int, int] | None:
    return None if old == new else (old, new)


def _place(order: Sequence[str], waiting: Mapping[str | None, str]) -> list[str]:
    """Return the order with each waiting cell directly below the one it is to stand below."""
    placed: list[str] = []
    for stop in (None, *order):
        if stop is not None:
            placed.append(stop)
        following = waiting.get(stop)
        while following is not None:
            placed.append(following)
            following = waiting.get(following)
    return placed


def _steady(old: Sequence[str], new: Sequence[str]) -> set[str]:
    """Return as many ids as possible that stand in the same order in both (same ids, each once)."""
    places = {one: at for at, one in enumerate(old)}
    tops: list[int] = []  # the smallest place that ends a row of each length
    ends: list[int] = []  # which of `new` that is
    before: list[int] = []
    for at, one in enumerate(new):
        length = bisect.bisect_left(tops, places[one])
        before.append(ends[length - 1] if length else -1)
        tops[length : length + 1] = [places[one]]
        ends[length : length + 1] = [at]
    found: set[str] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        found.add(new[at])
        at = before[at]
    return found


def bounded(cells: Iterable[CellMark]) -> tuple[tuple[CellMark, ...], int]:
    """Return the first `MOST_CELLS` cells, and how many more there are."""
    listed = tuple(cells)
    return listed[:MOST_CELLS], max(0, len(listed) - MOST_CELLS)
