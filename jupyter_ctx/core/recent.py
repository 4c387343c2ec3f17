"""Cells and files that were edited or run most recently, in their present form. Pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .entries import Reinjected
from .reinjection import MOST_OLDER, CountText, Section, is_longer

MOST_EACH_TOKENS = 5_000
"""A longer cell or file is given by name and id only (DESIGN.md 5, re-injects)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The present text of a cell or a file; `changed_at` in seconds since the epoch, 0: not known.

    `label` is what the model knows it by; `fault` why there is no text, "" if there is.
    """

    id: str
    label: str
    text: str
    kind: Literal["cell", "file"] = "cell"
    changed_at: float = 0.0
    fault: str = ""


def merge_by_time(cells: Sequence[Source], files: Sequence[Source]) -> list[Source]:
    """Return cells and files together, the newest first.

    `cells` come newest first and keep that order; one whose time is not known, or lies before that
    of an older one (the clock was set back), counts as old as the newest older one.
    """
    timed: list[tuple[float, Source]] = []
    newest = 0.0
    for cell in reversed(cells):
        newest = max(newest, cell.changed_at)
        timed.append((newest, cell))
    timed.reverse()
    others = sorted(((file.changed_at, file) for file in files), key=lambda pair: -pair[0])
    return [source for _, source in heapq.merge(timed, others, key=lambda pair: -pair[0])]


def choose_sources(
    sources: Sequence[Source],
    budget_tokens: int,
    count: CountText,
    most_each_tokens: int = MOST_EACH_TOKENS,
    older: Sequence[str] = (),
    lost: Sequence[str] = (),
) -> Section | None:
    """Return the sources (newest first) as one section; what is too long only by name and id.

    `most_each_tokens` bounds one source, `budget_tokens` all of them. Of `older` ones the first
    `MOST_OLDER` labels are given, and so of those that are `lost`, each with the reason.
    """
    if not sources and not older and not lost:
        return None
    what = "Cells and files" if any(s.kind == "file" for s in sources) else "Cells"
    chunks = [f"# {what} edited or run most recently, newest first, in their present form"]
    items: list[Reinjected] = []
    spent = 0
    for source in sources:
        chunk = _whole(source)
        is_long = is_longer(source.text, most_each_tokens, count)
        if is_long or spent + count(chunk) > budget_tokens:
            chunk = f"## {source.label}\nToo long to repeat: `read_{source.kind}` gives it."
        chunks.append(chunk)
        items.append(Reinjected(source.kind, source.id, count(chunk)))
        spent += items[-1].tokens
    for title, labels in (("Older ones", older), ("Edited by you, but not to be had now", lost)):
        if labels:
            more = f" and {len(labels) - MOST_OLDER:,} more" if len(labels) > MOST_OLDER else ""
            chunks.append(f"{title}: {', '.join(labels[:MOST_OLDER])}{more}")
    return Section("\n\n".join(chunks), tuple(items))


def _whole(source: Source) -> str:
    """Return a source under its label, fenced by more backticks than are in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", source.text)), 3)
    language = "python" if source.kind == "cell" else ""
    return f"## {source.label}\n{fence}{language}\n{source.text}\n{fence}"
