"""What a notebook update says: an outline at first, then what changed. Pure; bounded in length."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.ports import Cell, NotebookState
from ..tools.lines import shorten
from ..tools.outline import CellView, describe_notebook, line_of, outline
from ..tools.outputs import render_outputs, summarise_outputs
from ..tools.terminal import resolve
from .watched import Changes, NameMark, Snapshot

OUTLINE_TITLE = "[The notebook as it stands]"
CHANGES_TITLE = "[What changed in the notebook since your last turn]"

OUTLINE_SHARE, DETAIL_SHARE, NAMES_SHARE = 0.75, 0.6, 0.25
"""Shares of an update's room: the outline, cells in detail, names."""

SOURCE_CHARS = 2_000
"""A longer source is not repeated: its beginning is."""
OUTPUT_CHARS = 600
"""Longest preview of a cell's outputs."""
MOST_DETAILS = 20
"""So many cells, the last ones that ran, are told in detail."""
MOST_LINES = 40
"""So many further cells get a line; the rest are counted."""
MOST_LISTED = 40
"""So many names of each kind are listed."""
WHAT_CHARS = 80

_TICKS = re.compile(r"`{3,}")


@dataclass(slots=True)
class News:
    """An update's text, and the cells whose whole source it gives: id, source, the chunk."""

    text: str = ""
    wholes: list[tuple[str, str, str]] = field(default_factory=list)


def tell_outline(
    state: NotebookState,
    views: Sequence[CellView],
    names: Mapping[str, NameMark],
    more_names: int,
    most_chars: int,
) -> News:
    """Return what a first prompt is told; empty if there is neither a cell nor a name."""
    chunks = []
    if views:
        head = describe_notebook(state, views)
        room = int(OUTLINE_SHARE * most_chars) - len(head)
        chunks.append(f"{head}\n{outline(views, room)}" if room > 500 else head)
    if names:
        listed = map(_named, names.items())
        chunks.append(
            _fit("Names in the kernel", listed, more_names, int(NAMES_SHARE * most_chars))
        )
    return News(_clip("\n".join([OUTLINE_TITLE, *chunks]), most_chars) if chunks else "")


def tell_changes(
    changes: Changes,
    views: Sequence[CellView],
    source: str,
    most_chars: int,
    keep: Callable[[Cell], str | None] = lambda cell: None,
) -> News:
    """Return what changed, the cells first; empty if nothing did. `source` is NotebookState's.

    `keep` stores the outputs of a cell if they are large, and returns the name they have then.
    """
    if not changes:
        return News()
    news = News()
    teller = _Teller(changes, {view.id: view for view in views}, source, news, keep)
    lines = [CHANGES_TITLE, *teller.cells(int(DETAIL_SHARE * most_chars))]
    lines += _tell_names(changes, int(NAMES_SHARE * most_chars))
    if changes.date:
        lines.append(f"Today is {changes.date}.")
    if len(lines) == 1 and not changes.cwd:
        return News()
    news.text = _clip("\n".join(lines), most_chars)
    return news


class _Teller:
    """Tells of cells: what happened to each, in a line, and in detail of the last ones."""

    def __init__(
        self,
        changes: Changes,
        views: Mapping[str, CellView],
        source: str,
        news: News,
        keep: Callable[[Cell], str | None],
    ) -> None:
        self._keep = keep
        self._changes = changes
        self._views = views
        self._is_kernel = source == "kernel"
        self._news = news
        self._new = {placed.cell.id: placed.above for placed in changes.inserted}
        self._moved = {placed.cell.id: placed.above for placed in changes.moved}

    def cells(self, most_chars: int) -> list[str]:
        """Return the lines about cells: those that ran last in detail, others short, counts."""
        told = [cell_id for cell_id in self._concerned() if cell_id in self._views]
        told.sort(key=self._order)
        chunks: list[str] = []
        room = most_chars
        for cell_id in reversed(told[-MOST_DETAILS:]):
            chunk, whole = self._detail(self._views[cell_id])
            if len(chunk) + 1 > room:
                break
            room -= len(chunk) + 1
            chunks.append(chunk)
            if whole is not None:
                self._news.wholes.append((cell_id, whole, chunk))
        chunks.reverse()
        rest = told[: len(told) - len(chunks)]
        lines = [self._line(self._views[cell_id]) for cell_id in rest[-MOST_LINES:]]
        while lines and sum(map(len, lines)) + len(lines) > most_chars // 3:
            lines.pop(0)
        left = len(rest) - len(lines)
        if left:
            noun = "cell" if left == 1 else "cells"
            lines.insert(
                0, f"- {left:,} more {noun} ran or changed before: `list_cells` tells them"
            )
        return [*lines, *chunks, *self._counts()]

    def _concerned(self) -> list[str]:
        """Return the cells that are worth a line, each once."""
        ids = [*self._new, *self._moved, *self._changes.changed]
        return list(dict.fromkeys(ids))

    def _order(self, cell_id: str) -> int:
        """Sort what ran by its run, what did not before it."""
        view = self._views[cell_id]
        return view.run.order if view.run is not None and self._has_run(cell_id) else 0

    def _has_run(self, cell_id: str) -> bool:
        pair = self._changes.changed.get(cell_id)
        if pair is not None:
            return _run_of(pair[0].run) != _run_of(pair[1].run) and bool(pair[1].run)
        view = self._views[cell_id]
        return cell_id in self._new and view.run is not None

    def _has_new_source(self, cell_id: str) -> bool:
        pair = self._changes.changed.get(cell_id)
        return cell_id in self._new or (pair is not None and pair[0].digest != pair[1].digest)

    def _happened(self, view: CellView) -> str:
        """Return what happened to a cell, in words."""
        said = []
        if view.id in self._new and not self._is_kernel:
            said.append(f"new, {_below(self._new[view.id])}")
        elif self._has_new_source(view.id) and view.id not in self._new:
            said.append("source changed")
        if view.id in self._moved:
            said.append(f"moved {_below(self._moved[view.id])}")
        if self._has_run(view.id):
            said.append(f"the user ran it: {view.place}, {view.state}")
        elif view.is_edited:
            said.append("edited since it ran")
        elif not said:
            said.append("its outputs changed")
        return "; ".join(said)

    def _line(self, view: CellView) -> str:
        return f"- {shorten(line_of(view), 200)} ({self._happened(view)})"

    def _detail(self, view: CellView) -> tuple[str, str | None]:
        """Return a cell's chunk, and its source if the chunk gives the whole of it."""
        if view.is_agent:
            return f"- {view.id}: `%agent` cell ({self._happened(view)})", None
        lines = [f"- {view.id}, {view.type}: {self._happened(view)}"]
        whole = None
        if self._has_new_source(view.id):
            shown, is_whole = _source(view.source)
            lines.append(shown)
            whole = view.source if is_whole else None
        if view.type == "code" and self._shows_outputs(view.id):
            lines += _outputs(view, self._keep)
        return "\n".join(lines), whole

    def _shows_outputs(self, cell_id: str) -> bool:
        pair = self._changes.changed.get(cell_id)
        ran_anew = pair is not None and pair[0].run != pair[1].run
        return ran_anew or (cell_id in self._new and self._views[cell_id].run is not None)

    def _counts(self) -> list[str]:
        lines = []
        if deleted := self._changes.deleted:
            more = f" and {len(deleted) - MOST_LISTED:,} more" if len(deleted) > MOST_LISTED else ""
            lines.append(f"- deleted: {', '.join(deleted[:MOST_LISTED])}{more}")
        if self._changes.more_cells:
            old, new = self._changes.more_cells
            lines.append(f"- of {new:,} further cells ({old:,} before) nothing is told here")
        return lines


def _run_of(run: str) -> str:
    """Return which run a mark stands for, without what it put out."""
    return run.partition(".")[0]


def _below(above: str | None) -> str:
    return "at the top" if above is None else f"below {above}"


def _source(source: str) -> tuple[str, bool]:
    """Return a source between fences, and whether it is the whole one."""
    text = resolve(source)
    if not text.strip():
        return "(empty)", text == source
    is_whole = len(text) <= SOURCE_CHARS
    shown = text if is_whole else text[: SOURCE_CHARS // 4].rsplit("\n", 1)[0]
    ticks = max([3, *(len(run[0]) + 1 for run in _TICKS.finditer(shown))]) * "`"
    note = "" if is_whole else f"\n(its first lines of {text.count(chr(10)) + 1:,}; `read_cell`)"
    return f"{ticks}\n{shown.rstrip()}\n{ticks}{note}", is_whole and text == source


def _outputs(view: CellView, keep: Callable[[Cell], str | None]) -> list[str]:
    """Return a preview of a cell's outputs: both ends of their text, or what they are.

    Large ones are stored, and the name is told that `read_result` reads them by.
    """
    if not view.outputs:
        return ["(no output)"]
    text = render_outputs(view.outputs, max_images=0, widgets=view.widgets).text.strip()
    if len(text) > OUTPUT_CHARS:
        said = shorten(summarise_outputs(view.outputs), 200)
        head, tail = text[: OUTPUT_CHARS // 2], text[-OUTPUT_CHARS // 4 :]
        left, lines = len(text) - len(head) - len(tail), text.count("\n") + 1
        if view.run is not None and (spooled := view.run.spooled) is not None:
            end = tail if view.run.failed else ""
            tail = resolve(spooled.tail[-OUTPUT_CHARS:])[-OUTPUT_CHARS // 4 :].rstrip()
            tail = f"{tail}\n{end}".rstrip()
            left, lines = spooled.chars - len(head) - len(tail), spooled.lines
        note = f"{left:,} more characters, {lines:,} lines in all: {said}; {_way_on(view, keep)}"
        text = f"{head}\n… [{note}] …\n{tail}"
    return [f"Output: {text}"] if text else ["(no output)"]


def _way_on(view: CellView, keep: Callable[[Cell], str | None]) -> str:
    """Return how the rest of a cell's outputs is read."""
    name = None if view.run is None else keep(view.run)
    return "`read_cell` with outputs=true" if name is None else f"`read_result` with `{name}`"


# Names ------------------------------------------------------------------------------------------


def _tell_names(changes: Changes, most_chars: int) -> list[str]:
    new, other, again = [], [], []
    for name, (old, mark) in changes.names.items():
        if old is None:
            new.append(_named((name, mark)))
        elif old.what != mark.what:
            other.append(f"{name} ({_cut(old.what)} → {_cut(mark.what)})")
        else:
            again.append(name)
    kinds = (
        ("New names", new),
        ("Of another type or shape", other),
        ("Bound anew", again),
        ("Names that are gone", list(changes.gone)),
    )
    lines = [_fit(title, found, 0, most_chars // 2) for title, found in kinds if found]
    if changes.more_names:
        old_count, count = changes.more_names
        lines.append(f"Of {count:,} further names ({old_count:,} before) nothing is told here.")
    return lines


def _named(item: tuple[str, NameMark]) -> str:
    name, mark = item
    return f"{name} ({', '.join(one for one in (_cut(mark.what), mark.cell) if one)})"


def _cut(what: str) -> str:
    return shorten(what, WHAT_CHARS)


def _fit(title: str, found: Iterable[str], more: int, most_chars: int) -> str:
    """Return a list in one line: as many as fit, the rest counted."""
    listed = list(found)
    shown: list[str] = []
    room = most_chars - len(title) - 40
    for one in listed[:MOST_LISTED]:
        if shown and len(one) + 2 > room:
            break
        shown.append(shorten(one, 200))
        room -= len(one) + 2
    left = len(listed) - len(shown) + more
    return f"{title}: {', '.join(shown)}" + (f" and {left:,} more" if left else "")


def _clip(text: str, most_chars: int) -> str:
    """Return the first whole lines that fit; a last line says that there was more."""
    if len(text) <= most_chars:
        return text
    note = "\n[more changed: `list_cells`]"
    return text[: max(0, most_chars - len(note))].rsplit("\n", 1)[0] + note


def is_outline_due(old: Snapshot, new: Snapshot) -> bool:
    """Whether so little is as it was known that an outline says more than the changes.

    So it is when a document came into sight, or most of its cells are other ones.
    """
    if new.source != "kernel" and old.source == "kernel":
        return True
    known = old.by_id
    common = sum(cell.id in known for cell in new.cells)
    return len(new.cells) > 4 and 2 * common < len(new.cells) and 2 * common < len(old.cells)
