"""Permission questions that a page answers: each once, by its id and what was shown.

All of it happens on the thread of the turn's loop.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..core.blocks import ToolUse
from ..core.ports import Denied
from ..core.preview import clean_text
from ..ipython.asked import Asked
from ..ipython.permissions import NO_REASON, Always, Answer
from ..ipython.plaintext import shown_exactly
from ..ipython.rules import Rule
from .calls import RefusedError
from .wire import Item, sha256_of

SEEN_S = 3.0
"""So long a page has to say that it shows a question, before the cell itself asks."""

MAX_REASON_CHARS = 2_000
MAX_COMING_CHARS = 200_000
"""So long may the sources be together of the changes that a question tells to come."""
MOST_COMING = 100
"""So many changes a question tells to come; a deletion has no source, and is drawn all the same."""

_CHANGES: Mapping[str, tuple[str, frozenset[str]]] = {
    "edit_cell": ("edit", frozenset({"cell_id", "source"})),
    "insert_cell": ("insert", frozenset({"source", "cell_type", "after"})),
    "delete_cell": ("delete", frozenset({"cell_id"})),
    "move_cell": ("move", frozenset({"cell_id", "after"})),
}
"""The calls that a page can draw into the notebook: what each does, and its arguments."""

OTHER_TEXT = "Denied: the answer was given to another text than the one that is asked about"

How = Literal["once", "always", "denied", "expired", "elsewhere"]


@dataclass(slots=True)
class _Open:
    item: Item
    sha256: str
    offers: Mapping[str, Rule]
    answer: asyncio.Future[Answer | None]
    seen: asyncio.Future[None]
    must_wait: bool


class Questions:
    """The questions that are open. `tell` shows an item on the pages."""

    def __init__(self, tell: Callable[[Item], None]) -> None:
        self._tell = tell
        self._open: dict[str, _Open] = {}

    @property
    def current(self) -> Item | None:
        """The newest open question, None if there is none."""
        return next((one.item for one in reversed(self._open.values())), None)

    async def ask(
        self,
        use: ToolUse,
        asked: Asked,
        offers: Mapping[str, Rule],
        *,
        turn: int,
        step: int,
        must_wait: bool,
        coming: Sequence[ToolUse] = (),
    ) -> Answer | None:
        """Return what a page answers; None if none shows the question in 3 s, or all have gone.

        `coming` are the calls of the same step behind this one. `must_wait`: there is nobody else
        to ask, so it waits for a page. A question ends with the turn that asks it: when this is
        cancelled.
        """
        item, sha256 = _item_of(use, asked, offers, turn, step)
        item["coming"] = _changes_of(coming) if item["change"] is not None else []
        loop = asyncio.get_running_loop()
        question = _Open(
            item, sha256, offers, loop.create_future(), loop.create_future(), must_wait
        )
        question_id = str(item["id"])
        self._open[question_id] = question
        how: How = "expired"
        reason = ""
        try:
            self._tell(item)
            if not must_wait:
                waits: set[asyncio.Future[Any]] = {question.answer, question.seen}
                await asyncio.wait(waits, timeout=SEEN_S, return_when=asyncio.FIRST_COMPLETED)
            is_heard = question.answer.done() or question.seen.done() or must_wait
            answer = await question.answer if is_heard else None
            how, reason = _how(answer)
            return answer
        finally:
            del self._open[question_id]
            closed = {"kind": "question_closed", "id": question_id, "how": how, "reason": reason}
            self._tell(dict(closed))

    def see(self, question_id: str) -> None:
        """A page shows the question. Raises RefusedError if it is not open."""
        seen = self._find(question_id).seen
        if not seen.done():
            seen.set_result(None)

    def decide(self, question_id: str, sha256: str, choice: str, word: str, reason: str) -> How:
        """Answer a question; return how that counts. Raises RefusedError, which changes nothing.

        What was shown is told by `sha256`; any other than that of the question is a denial.
        """
        question = self._find(question_id)
        answer: Answer
        if sha256 != question.sha256:
            answer = Denied(OTHER_TEXT)
        elif choice == "once":
            answer = "once"
        elif choice == "always" and word in question.offers:
            answer = Always(word)
        elif choice == "deny":
            said = clean_text(" ".join(reason.split())[:MAX_REASON_CHARS])
            answer = Denied(f"Denied by the user: {said or NO_REASON}")
        else:
            raise RefusedError("bad", "The question offers no such answer.")
        question.answer.set_result(answer)
        return _how(answer)[0]

    def leave(self) -> None:
        """No page is left: who can be asked otherwise is."""
        for question in self._open.values():
            if not question.must_wait and not question.answer.done():
                question.answer.set_result(None)

    def _find(self, question_id: str) -> _Open:
        question = self._open.get(question_id)
        if question is None or question.answer.done():
            raise RefusedError("gone", "This question is not open any more.")
        return question


def _how(answer: Answer | None) -> tuple[How, str]:
    match answer:
        case None:
            return "elsewhere", ""
        case "once":
            return "once", ""
        case Always():
            return "always", ""
        case Denied(message=message):
            return "denied", message


def _item_of(
    use: ToolUse, asked: Asked, offers: Mapping[str, Rule], turn: int, step: int
) -> tuple[Item, str]:
    """Return the item of a question, and the sha256 of what it shows."""
    title, text = clean_text(asked.title), clean_text(shown_exactly(asked.text))
    digest = sha256_of(title, text)
    cell_id = use.input.get("cell_id")
    item: Item = {
        "kind": "question",
        "id": secrets.token_urlsafe(12),
        "sha256": digest,
        "turn": turn,
        "step": step,
        "tool_use_id": use.id,
        "verb": asked.act.verb,
        "title": title,
        "text": text,
        "info": asked.info,
        "cell_id": clean_text(cell_id) if isinstance(cell_id, str) else None,
        "change": _change_of(use),
        "offers": [{"word": word, "label": str(rule)} for word, rule in offers.items()],
        "at": time.time(),
    }
    return item, digest


def _changes_of(calls: Sequence[ToolUse]) -> list[Item]:
    """Return the changes of cells among calls: a page shows all before it is asked of each."""
    changes: list[Item] = []
    left = MAX_COMING_CHARS
    for use in calls:
        change = _change_of(use)
        if change is None:
            continue
        left -= len(str(change["source"] or ""))
        if left < 0 or len(changes) == MOST_COMING:
            break
        changes.append({"tool_use_id": use.id, **change})
    return changes


def _change_of(use: ToolUse) -> Item | None:
    """Return what a call changes of the notebook's cells, as it is drawn there.

    None if it changes none, or has arguments that its tool does not take: those are asked about as
    they are. `after` None is the end for an insertion, the top for a move.
    """
    op, names = _CHANGES.get(use.name, ("", frozenset()))
    given = use.input
    kind = given.get("cell_type", "code") if op == "insert" else None
    texts = {name: given.get(name) for name in ("cell_id", "source", "after")}
    needed = names & {"cell_id", "source"}
    if (
        not op
        or not set(given) <= names
        or kind not in (None, "code", "markdown", "raw")
        or any(texts[name] is None for name in needed)
        or not all(text is None or isinstance(text, str) for text in texts.values())
    ):
        return None
    told = {name: None if text is None else clean_text(str(text)) for name, text in texts.items()}
    return {"op": op, "cell_type": kind, **told}
