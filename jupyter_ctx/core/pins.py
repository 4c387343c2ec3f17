"""Pins: words of the user that hold until taken off. Nothing here records.

Rule: a pin stands in the view once, verbatim. A new one joins the next prompt as a notice; a
compaction puts back those whose notice it takes out; and whatever brings an older view back (a
rewind, an undo, a prompt left out) has the next prompt tell again what is missing there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import PromptError
from .blocks import Message, Text
from .entries import PinEntry, UnpinEntry
from .preview import clean_text
from .transcript import Transcript
from .window import DEFAULTS

if TYPE_CHECKING:
    from .engine import Engine

PIN_SHARE = 0.05
"""All pins together take at most this share of the window (DESIGN.md 5, re-injects)."""


def pin_notice(n: int, text: str) -> str:
    """Return what the model is told of pin `n`."""
    return f"Pinned by the user, always holds (pin {n}): {text}"


def unpin_notice(n: int) -> str:
    """Return what the model is told when pin `n` was taken off."""
    return f"The user took pin {n} off: it holds no longer."


def stands_in(view: Sequence[Message], notice: str) -> bool:
    """Say whether a notice, or a compaction that put it back, stands in `view`."""
    return any(
        isinstance(block, Text)
        and block.part in ("notebook", "reinjected")
        and notice in block.text
        for message in view
        for block in message.content
    )


def untold_notices(transcript: Transcript) -> tuple[str, ...]:
    """Return the notices that the next prompt has to carry, in the order of the pins."""
    view = transcript.view
    notices = []
    for n, text in sorted({**transcript.unpinned, **transcript.pins}.items()):
        is_told = stands_in(view, pin_notice(n, text))
        if n in transcript.pins:
            notices += [] if is_told else [pin_notice(n, text)]
        elif is_told and not stands_in(view, unpin_notice(n)):
            notices.append(unpin_notice(n))
    return tuple(notices)


def most_pin_tokens(window: int | None) -> int:
    """Return what all pins together may take, in tokens; 10,000 where the window is not known."""
    return DEFAULTS.instructions_tokens if window is None else math.floor(window * PIN_SHARE)


def plan_pin(engine: Engine, text: str) -> PinEntry:
    """Return the entry that pins `text`, redacted. Raises PromptError: it is blank or too long."""
    text = clean_text(engine.ports.redactor.text(text)).strip() if text.strip() else ""
    if not text:
        raise PromptError("The pin is empty: write the text to keep behind `/pin`.")
    transcript = engine.transcript
    n = max([0, *transcript.pins, *transcript.unpinned]) + 1
    count, most = engine.meter.estimate_text, most_pin_tokens(engine.window)
    pins = {**transcript.pins, n: text}
    tokens = sum(count(pin_notice(number, kept)) for number, kept in pins.items())
    if tokens > most:
        raise PromptError(
            f"The pin is too long: pins may take {most:,} tokens, 5 % of the window, and "
            f"with it they take ≈{tokens:,}. Shorten it, or take another off."
        )
    return PinEntry(engine.ports.clock.now(), n, text)


def plan_unpin(engine: Engine, n: int) -> tuple[UnpinEntry, str]:
    """Return the entry that takes pin `n` off, and its text. Raises PromptError: there is none."""
    pins = engine.transcript.pins
    text = pins.get(n)
    if text is None:
        there = ", ".join(map(str, sorted(pins)))
        has = f"the pins are {there}" if there else "this session has none"
        raise PromptError(f"There is no pin {n}; {has}.")
    return UnpinEntry(engine.ports.clock.now(), n), text
