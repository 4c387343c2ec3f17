"""The user's prompt, as the log gets it: what the program adds stands in front of their words.

In this order: pins and notices, what hooks say, what changed in the notebook, what the user
attached, the text. The law of the room holds for all of it; what does not fit is stored, cut or
left out, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import StoreError
from .attachments import Attachment, Fitted, fit_attachments
from .blocks import Text, json_bytes, user
from .edits import undone_notices
from .entries import MessageEntry
from .hooked import fit_words
from .offload import Room, ingest_prompt
from .pins import untold_notices
from .planning import untold_plan
from .ports import Update
from .preview import clean_text
from .repair import orphan_results
from .tokens import SAFETY
from .update import fit_update, update_tokens

if TYPE_CHECKING:
    from .engine import Engine

NOT_SENT = "[The user's prompt before this one was not sent. {reason}]"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user typed, and what the program adds to it (`notices`: one text block each).

    `attachments` are what the user named in it, shown in front of it as far as there is room.
    `hooked` is what hooks say with it.
    """

    text: str
    notices: tuple[str, ...] = ()
    cell_id: str | None = None
    attachments: tuple[Attachment, ...] = ()
    hooked: str = ""


def record_prompt(engine: Engine, prompt: Prompt, turn: int, update: Update | None) -> None:
    """Record the prompt of `turn`, behind the results that an earlier turn may still owe.

    `update` is what changed in the notebook, None if nobody can say.
    """
    if orphans := orphan_results(engine.transcript.view):
        at = engine.ports.clock.now()
        engine.record(MessageEntry(at, turn, 0, "repair", user(*orphans)))
    pins = (*untold_notices(engine.transcript), *untold_plan(engine), *undone_notices(engine))
    room = engine.room()
    pin_tokens = math.ceil(SAFETY * sum(map(room.count, pins)))
    room = replace(room, used_tokens=room.used_tokens + pin_tokens)
    text = _fit_text(engine, prompt.text, turn, room)
    hooked, room = _fit_hooked(engine, prompt.hooked, text, room)
    attached = _fit_attachments(engine, prompt.attachments, text, room)
    told, seen = "", None
    if update is not None:
        told = fit_update(update.text, text, update_tokens(engine), attached.room)
        seen = update.seen or None
    words = (*_clean_words(engine, (*pins, *prompt.notices)), hooked, told)
    notices = [Text(word, "notebook") for word in words if word]
    engine.record(
        MessageEntry(
            at=engine.ports.clock.now(),
            turn=turn,
            step=0,
            kind="prompt",
            message=user(*notices, *attached.blocks, Text(text)),
            cell_id=prompt.cell_id,
            seen=seen,
        )
    )
    engine.ports.updates.note_told(told)


def _fit_text(engine: Engine, text: str, turn: int, room: Room) -> str:
    """Return the user's text as it is sent; a very long one goes to the store, a preview stays."""
    text = engine.ports.redactor.text(text)
    fitted = ingest_prompt(text, turn, room)
    if fitted.stored is not None:
        try:
            engine.ports.store.save_text(f"prompt-{turn}", fitted.stored)
        except StoreError as error:
            engine.warn_store(error)
        engine.note(
            "info",
            f"The prompt is long: {len(text):,} characters.",
            f"The model sees its beginning and end, and reads on in `prompt-{turn}`.",
        )
    return fitted.text


def _fit_hooked(engine: Engine, hooked: str, text: str, room: Room) -> tuple[str, Room]:
    """Return what there is room for of a hook's words behind the prompt's own need."""
    if not hooked:
        return "", room
    own = math.ceil(SAFETY * room.count(text))
    behind = replace(
        room, used_tokens=room.used_tokens + own, bytes_left=room.bytes_left - json_bytes(text)
    )
    hooked, left = fit_words(engine, hooked, behind)
    tokens, size = left.used_tokens - behind.used_tokens, behind.bytes_left - left.bytes_left
    used, bytes_left = room.used_tokens + tokens, room.bytes_left - size
    return hooked, replace(room, used_tokens=used, bytes_left=bytes_left)


def _clean_words(engine: Engine, notices: Sequence[str]) -> list[str]:
    """Return the notices as they may be sent, with one of a prompt that was left out before."""
    left_out = engine.transcript.left_out
    not_sent = [] if left_out is None else [NOT_SENT.format(reason=left_out.reason)]
    return [clean_text(engine.ports.redactor.text(word)) for word in (*notices, *not_sent)]


def _fit_attachments(
    engine: Engine, attachments: Sequence[Attachment], text: str, room: Room
) -> Fitted:
    """Return what was attached as far as there is room behind the prompt's `text`."""
    redact = engine.ports.redactor.text
    clean = [
        replace(one, text=redact(one.text)) if isinstance(one, Text) else one for one in attachments
    ]
    attached = fit_attachments(clean, text, room)
    if attached.cut or attached.left_out:
        engine.note(
            "warning",
            "What is attached does not fit whole.",
            f"Cut: {attached.cut:,}. Left out: {attached.left_out:,}. The agent is told where.",
        )
    return attached
