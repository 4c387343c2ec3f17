"""`metadata.json`: what a list of sessions shows. The transcript can always rebuild it."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ..core.blocks import title_of
from ..core.entries import (
    CompactionEntry,
    CompactionFailedEntry,
    Entry,
    MessageEntry,
    ModelEntry,
    SessionEntry,
    SpentEntry,
)
from ..core.transcript import Transcript
from ..core.usage import Usage
from .files import open_regular, replace_file

VERSION = 1
MOST_BYTES = 256 * 1024
"""A larger file is none of ours: titles and paths are short."""
MOST = 2**53
"""No number is larger: so far JSON's readers count exactly."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session as lists show it.

    `created` and `updated` are seconds since the epoch. `tokens` is all input and output so far,
    `cost` is in USD, None when not known. `title` is the first prompt's first line. `turns` counts
    the prompts that no rewind took back, None when not known (an older version stored it).
    """

    session_id: str
    created: float
    updated: float
    title: str = ""
    notebook: str | None = None
    cwd: str = ""
    model: str | None = None
    tokens: int = 0
    cost: float | None = None
    parent: str | None = None
    turns: int | None = None


class MetadataFields(TypedDict, total=False):
    """What `update_metadata` takes: the fields of SessionInfo that change."""

    title: str
    notebook: str | None
    model: str | None
    tokens: int
    cost: float | None
    updated: float
    turns: int | None


def read_info(path: Path, session_id: str) -> SessionInfo | None:
    """Return what `metadata.json` at `path` says, None if it is lost or bad."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(MOST_BYTES + 1)
        stored = json.loads(data) if len(data) <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None  # the caller rebuilds it from the transcript
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        return None
    hints = _hints()
    found: dict[str, object] = {"session_id": session_id}
    for spec in dataclasses.fields(SessionInfo):
        if spec.name in stored and spec.name != "session_id":
            value = stored[spec.name]
            wanted = int | float if hints[spec.name] is float else hints[spec.name]
            if not isinstance(value, wanted) or isinstance(value, bool) or _is_impossible(value):
                return None
            found[spec.name] = value
    if not {"created", "updated"} <= found.keys():
        return None
    return SessionInfo(**found)  # type: ignore[arg-type]  # every value was checked above


def _is_impossible(value: object) -> bool:
    """Say whether it is a number that no time, count or cost is; NaN and infinity are none."""
    return isinstance(value, int | float) and not 0 <= value <= MOST


@functools.cache
def _hints() -> Mapping[str, Any]:
    return typing.get_type_hints(SessionInfo)


def write_info(path: Path, info: SessionInfo) -> None:
    """Replace `metadata.json` at `path` in one step. Raises OSError."""
    stored = {"version": VERSION, **dataclasses.asdict(info)}
    text = json.dumps(stored, ensure_ascii=False, indent=1)
    replace_file(path, text.encode("utf-8", "backslashreplace") + b"\n")


def build_info(session_id: str, entries: Iterable[Entry]) -> SessionInfo:
    """Return the metadata that the transcript implies; the cost is not known from it.

    Total: entries without a SessionEntry give a session without notebook and folder.
    """
    info, is_begun = SessionInfo(session_id, 0.0, 0.0), False
    entries = tuple(entries)
    for entry in entries:
        at = getattr(entry, "at", None)
        if at is not None and not _is_impossible(at):
            info = dataclasses.replace(info, created=info.created or at, updated=at)
        if isinstance(entry, SessionEntry):
            info = _name(info, entry, is_begun=is_begun)
            is_begun = is_begun or entry.session_id == session_id
        info = _add(info, entry)
    prompts = Transcript(entries).prompts
    title = next(map(title_of, prompts.values()), "")
    return dataclasses.replace(info, title=title, turns=len(prompts))


def _name(info: SessionInfo, entry: SessionEntry, *, is_begun: bool) -> SessionInfo:
    """Take what a SessionEntry says; a later one of the same session says its notebook's new path.

    Those of the sessions it was forked from come before its own first one.
    """
    info = dataclasses.replace(info, notebook=entry.notebook, cwd=entry.cwd)
    if is_begun:
        return info
    return dataclasses.replace(info, created=entry.at, parent=entry.parent)


def _add(info: SessionInfo, entry: Entry) -> SessionInfo:
    match entry:
        case ModelEntry(model=model):
            return dataclasses.replace(info, model=model)
        case MessageEntry(kind="reply", model=model, usage=usage):
            return dataclasses.replace(
                info, model=model or info.model, tokens=info.tokens + _tokens(usage)
            )
        case (
            CompactionEntry(usage=usage)
            | CompactionFailedEntry(usage=usage)
            | SpentEntry(usage=usage)
        ):
            return dataclasses.replace(info, tokens=info.tokens + _tokens(usage))
    return info


def _tokens(usage: Usage | None) -> int:
    return 0 if usage is None else (usage.input_tokens or 0) + (usage.output or 0)
