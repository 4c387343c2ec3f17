"""The notebook update in front of a prompt: asked for, made valid for the wire, and made to fit.

A prompt never waits for more than it: without an answer, or where there is no room, it goes as it
is. What an update says is fixed once it is sent, like everything in the log.
"""

from __future__ import annotations

import logging
import math
import traceback
from typing import TYPE_CHECKING

from .blocks import json_bytes
from .offload import Room
from .ports import Update
from .preview import clean_text
from .tokens import SAFETY
from .window import share_of

if TYPE_CHECKING:
    from .engine import Engine

CHARS_PER_TOKEN = 2
"""An update is asked for at this many characters a token: source code has about three."""
CUT_LINE = "[Cut here: there is no room for more. `list_cells` tells the rest.]"

log = logging.getLogger("jupyter_ctx")


def update_tokens(engine: Engine) -> int:
    """Return the most that an update may take, in tokens; 0: none is wanted.

    DESIGN.md 4: an outline, then only what changed.
    """
    return share_of(engine.limits, "update_tokens", engine.window)


async def load_update(engine: Engine) -> Update | None:
    """Return what changed since the model last heard of it; None if nobody can say.

    A failure is a warning in the log and no update, never the turn's.
    """
    most = update_tokens(engine)
    if most <= 0:
        return None
    redact = engine.ports.redactor.text
    try:
        update = await engine.ports.updates.load(engine.transcript.seen, most * CHARS_PER_TOKEN)
    except Exception:
        log.warning("The notebook was not looked at:\n%s", redact(traceback.format_exc()))
        return None
    text = clean_text(redact(update.text)) if update.text.strip() else ""
    return Update(text, update.seen)


def fit_update(text: str, prompt: str, most_tokens: int, room: Room) -> str:
    """Return as many of the update's first lines as there is room for behind `prompt`'s own need.

    The law of the room holds with it: used + prompt + update + compaction request fit the window.
    What is cut ends with a line that says so; "" if not even that fits.
    """
    most = most_tokens
    if room.law_tokens is not None:
        most = min(most, room.law_tokens - _cautious(prompt, room))
    most_bytes = room.bytes_left - json_bytes(prompt)

    def fits(candidate: str) -> bool:
        return _cautious(candidate, room) <= most and json_bytes(candidate) <= most_bytes

    if not text or fits(text):
        return text
    lines = text.split("\n")
    low, high = 0, len(lines)  # `low` lines fit, with the last line; `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        if fits("\n".join([*lines[:middle], CUT_LINE])):
            low = middle
        else:
            high = middle
    cut = "\n".join([*lines[:low], CUT_LINE])
    return cut if fits(cut) else ""


def _cautious(text: str, room: Room) -> int:
    return math.ceil(SAFETY * (room.count(text) + BLOCK_TOKENS)) if text else 0


BLOCK_TOKENS = 16
"""What a message or a block takes beside its text, in tokens, with room to spare."""
