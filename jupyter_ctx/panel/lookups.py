"""What a page looks up: a summary with what it replaced, outputs, a stored text, the sessions.

Every answer is bounded, whatever is stored. Nothing here changes anything.
"""

from __future__ import annotations

import json
import math
import ntpath
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.blocks import PARTS
from ..core.preview import clean_text
from ..errors import PromptError, StoreError
from ..ipython import wayback
from ..ipython.plaintext import one_line
from .calls import RefusedError
from .history import items_by_turn, prompt_of
from .wire import Item, bounded, cut

if TYPE_CHECKING:
    from ..core.entries import CompactionEntry
    from ..ipython.sessions import SessionRow, Shelf
    from ..session import Session

ITEMS_CHARS = 300_000
"""So long the items of an answer are together, as JSON."""

OUTPUTS_CHARS = 400_000
"""So long the outputs of an answer are together, as JSON."""

RESULT_CHARS = 40_000
"""So much of a stored text an answer has, in characters; as JSON each takes at most 12."""

SKIP_CHARS = 1_000_000
"""A long text is skipped in pieces of so many characters."""

SHORT_CHARS = 400
"""A turn too long for an answer keeps so much of each text."""

PROMPT_CHARS = 400_000
"""A prompt that takes more characters as JSON cannot be put back into a page's box."""

MOST_SESSIONS = 100
"""So many sessions are listed at once, the newest; the search finds every one."""

TITLE_CHARS = 200
"""So long a line of a listed session is: its title, its notebook, the text that was found."""

MOST_COUNT = 10**9
"""A stored count or sum above this is none that a session can have."""

LEFT_OUT = "[Too large to show here: {chars:,} characters]"


# Summaries --------------------------------------------------------------------------------------


def summary(session: Session, n: int | None) -> dict[str, object] | None:
    """Return compaction `n` (None: the last) as JSON, None if there is none.

    With what it replaced, as items (the newest turns that have room), what each part of the window
    held before and after (None in sessions stored before that was told), and whether it can be
    undone.
    """
    found = session.summary(n)
    entry = session.find_compaction(n)
    if found is None or entry is None:
        return None
    turns = range(entry.first_turn, entry.last_turn + 1)
    told = items_by_turn(session, turns[-MOST_TURNS:])
    return {
        **found,
        "parts": _parts_of(entry),
        "replaced_items": fit_turns([told[turn] for turn in sorted(told)], ITEMS_CHARS)[0],
        "undo": _undo(session, entry.n),
    }


def _parts_of(entry: CompactionEntry) -> dict[str, dict[str, int]] | None:
    """Return the tokens of each part before and after; they add up to the compaction's totals."""
    if len(entry.parts_before) != len(PARTS) or len(entry.parts_after) != len(PARTS):
        return None
    return {
        "before": dict(zip(PARTS, entry.parts_before, strict=True)),
        "after": dict(zip(PARTS, entry.parts_after, strict=True)),
    }


MOST_TURNS = 200
"""So many turns that a summary replaced are told, the newest."""


def _undo(session: Session, n: int) -> dict[str, object]:
    """Return whether compaction `n` can be undone, why not, and what that does to the cache."""
    if session.is_running:
        return {"ok": False, "reason": "A turn is running: undo it when that is done.", "price": ""}
    try:
        undo = session.plan_undo(n)
    except PromptError as error:
        return {"ok": False, "reason": str(error), "price": ""}
    price = wayback.anew_line(session, undo.tokens)
    return {"ok": not undo.refusal, "reason": undo.refusal, "price": price}


# Turns within bounds ----------------------------------------------------------------------------


def fit_turns(turns: Sequence[Sequence[Item]], most_chars: int) -> tuple[list[Item], int]:
    """Return the items of the newest turns that take at most `most_chars` as JSON, and how many.

    The newest is always there; one that is too long alone is told in short.
    """
    kept: list[Sequence[Item]] = []
    room = most_chars
    for items in reversed(turns):
        chars = _chars_of(items)
        if chars > room and not kept:
            items = shorten(items, most_chars)
            chars = _chars_of(items)
        if chars > room:
            break
        room -= chars
        kept.append(items)
    return [item for items in reversed(kept) for item in items], len(kept)


def shorten(items: Sequence[Item], most_chars: int) -> list[Item]:
    """Return a turn's items in at most `most_chars` as JSON.

    What tools got and gave is cut first, then every text; then the oldest items are left out behind
    the first, and a note says so.
    """
    short = [_short(item, tools_only=True) for item in items]
    if _chars_of(short) <= most_chars:
        return short
    short = [_short(item, tools_only=False) for item in items]
    if _chars_of(short) <= most_chars:
        return short
    first, *rest = short
    note: Item = {
        "kind": "note_added",
        "turn": first.get("turn", 0),
        "level": "info",
        "title": "This turn is too long to show whole.",
        "detail": "Its first steps are left out here; nothing of it is lost.",
    }
    room = most_chars - _chars_of([first, note])
    kept: list[Item] = []
    for item in reversed(rest):
        room -= _chars_of([item])
        if room < 0:
            break
        kept.append(item)
    return [first, note, *reversed(kept)]


def _short(item: Item, *, tools_only: bool) -> Item:
    """Return an item with its long texts cut; what it is stays as it was."""
    if tools_only and not str(item["kind"]).startswith("tool_"):
        return item
    made = {key: cut(v, SHORT_CHARS) if isinstance(v, str) else v for key, v in item.items()}
    given = item.get("input")
    if isinstance(given, Mapping):
        made["input"] = {
            cut(str(key), 100): cut(value, SHORT_CHARS) if isinstance(value, str) else value
            for key, value in bounded(given, SHORT_CHARS * 4).items()
        }
    return made


def _chars_of(value: object) -> int:
    return len(json.dumps(value))


# Prompts ----------------------------------------------------------------------------------------


def prompt(session: Session, turn: int) -> str:
    """Return the whole prompt of a turn. Raises RefusedError if it is gone, or too long."""
    message = session.transcript.prompts.get(turn)
    if message is None:
        raise RefusedError("gone", "There is no such turn in this conversation.")
    return whole(prompt_of(session, turn, message, PROMPT_CHARS + 1))


def whole(text: str) -> str:
    """Return a text that goes back to a page's box: all of it. Raises RefusedError: too long."""
    if _chars_of(text) > PROMPT_CHARS:
        raise RefusedError("large", "This prompt is too long to be edited here.")
    return text


# Results ----------------------------------------------------------------------------------------


def outputs(session: Session, tool_use_id: str) -> dict[str, object]:
    """Return a result's outputs in nbformat's form, within bounds; its text if it has none.

    Raises RefusedError if there is no such result.
    """
    try:
        found = session.results.outputs(tool_use_id)
    except KeyError:
        raise RefusedError("gone", "There is no such result in this session.") from None
    except StoreError as error:
        raise RefusedError("gone", str(error)) from None
    if not found:
        text = result(session, tool_use_id, 0)["text"]
        found = ({"output_type": "stream", "name": "stdout", "text": text},) if text else ()
    return {"outputs": fit_outputs(found)}


def fit_outputs(found: Iterable[Mapping[str, object]]) -> list[Item]:
    """Return outputs in at most `OUTPUTS_CHARS` as JSON; a line stands for what is too large."""
    room, made = OUTPUTS_CHARS, []
    for output in found:
        one = _fit_output(output, max(0, room - 1_000))
        room -= _chars_of(one)
        if room < 0:
            made.append(_line("More outputs are stored than can be shown here."))
            break
        made.append(one)
    return made


def _fit_output(output: Mapping[str, object], most_chars: int) -> Item:
    """Return one output in at most `most_chars` and a little: its largest forms go first."""
    one: Item = {str(key): value for key, value in output.items()}
    data = one.get("data")
    if isinstance(data, Mapping):
        sizes = {str(mime): _chars_of(value) for mime, value in data.items()}
        kept = {str(mime): value for mime, value in data.items()}
        while kept and sum(sizes[mime] for mime in kept) > most_chars:
            largest = max(kept, key=lambda mime: sizes[mime])
            del kept[largest]
            kept.setdefault("text/plain", LEFT_OUT.format(chars=sizes[largest]))
            sizes["text/plain"] = _chars_of(kept["text/plain"])
            if set(kept) == {"text/plain"} and sizes["text/plain"] > most_chars:
                return _line(LEFT_OUT.format(chars=sizes["text/plain"]))
        one["data"] = kept
    if _chars_of(one) <= most_chars:
        return one
    text = one.get("text")
    if isinstance(text, list):
        text = "".join(map(str, text))
    if isinstance(text, str):
        return {**_line(""), "text": cut(text, max(200, most_chars // 12))}
    return _line(LEFT_OUT.format(chars=_chars_of(one)))


def _line(text: str) -> Item:
    return {"output_type": "stream", "name": "stdout", "text": text}


def result(session: Session, tool_use_id: str, start: int) -> dict[str, object]:
    """Return a piece of a result's text from character `start` on, and where the next begins.

    `next` is None at its end. Raises RefusedError if there is no such result, or its text is gone.
    """
    try:
        with session.results.open_text(tool_use_id) as file:
            left = start
            while left > 0 and (passed := file.read(min(left, SKIP_CHARS))):
                left -= len(passed)
            text = "" if left else file.read(RESULT_CHARS + 1)
    except KeyError:
        raise RefusedError("gone", "There is no such result in this session.") from None
    except (StoreError, OSError) as error:
        raise RefusedError("gone", str(error)) from None
    shown = text[:RESULT_CHARS]
    return {
        "text": clean_text(shown),
        "next": start + len(shown) if len(text) > RESULT_CHARS else None,
        "chars": session.transcript.fates[tool_use_id].chars,
    }


# Sessions ---------------------------------------------------------------------------------------


def sessions(shelf: Shelf, text: str, full: bool) -> dict[str, object]:
    """Return the newest sessions that have every word of `text`, and how many have.

    In title or prompts; with `full`, in any message. Without words, the deleted ones come too.
    Raises StoreError.
    """
    listed = shelf.find(text, full=full, most=MOST_SESSIONS)
    trashed = () if text.strip() else shelf.trashed()[:MOST_SESSIONS]
    return {
        "rows": [session_row(row) for row in listed.rows],
        "total": listed.total,
        "trashed": [session_row(row) for row in trashed],
    }


def session_row(row: SessionRow) -> Item:
    """Return a stored session as a page lists it: every text one line, every number one."""
    turns, cost = row.turns, row.cost_usd
    return {
        "id": row.id,
        "title": one_line(row.title, TITLE_CHARS),
        "notebook": None if row.notebook is None else _file_name(row.notebook),
        "turns": turns if turns is not None and 0 <= turns <= MOST_COUNT else None,
        "cost_usd": cost if cost is not None and 0 <= cost <= MOST_COUNT else None,
        "updated": row.updated if math.isfinite(row.updated) else 0.0,
        "state": row.state,
        "found": row.found,
        "excerpt": one_line(row.excerpt, TITLE_CHARS),
    }


def _file_name(path: str) -> str:
    return one_line(ntpath.basename(path), TITLE_CHARS)
