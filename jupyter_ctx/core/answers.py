"""Answers that were given before: what a prompt run again may be shown without asking anew."""

from __future__ import annotations

from collections.abc import Iterable

from .blocks import text_of, words_of
from .budget import is_bare_done
from .entries import Entry, MessageEntry, RewindEntry


def find_answer(entries: Iterable[Entry], cell_id: str, text: str) -> str | None:
    """Return the newest answer to the same text from the same cell, None if there is none.

    `text` is the prompt as a transcript has it: without secrets and broken characters. What was
    rewound since, stopped or cut is no answer.
    """
    turn, answers = 0, dict[int, str]()
    for entry in entries:
        match entry:
            case MessageEntry(kind="prompt") if entry.cell_id == cell_id:
                turn = entry.turn if words_of(entry.message) == text else 0
            case MessageEntry(kind="reply", stop_reason="end_turn") if entry.turn == turn:
                said = text_of(entry.message.content)
                if said and not (turn in answers and is_bare_done(said)):
                    answers[turn] = said
            case RewindEntry(turn=gone):
                answers = {turn: said for turn, said in answers.items() if turn < gone}
            case _:
                pass
    return answers[max(answers)] if answers else None
