"""What runs around a compaction: the user's hooks, and the memory of what they stated.

`run_hooks` is how hooks of every event are run, those of a turn too (`hooked.py`).

Whatever a hook says is cleaned, redacted and bounded before it goes anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import CompactionError, StoreError
from .blocks import Json
from .entries import CompactionEntry, Trigger
from .events import MemoryChanged
from .ports import HookName, HookOutcome
from .preview import clean_text
from .window import DEFAULTS

if TYPE_CHECKING:
    from .engine import Engine

HOOK_SHARE = 0.05
"""What a hook's text for the model may take of the window, as every other budget."""
MOST_SHOWN_LINES, MOST_LINE_CHARS = 20, 500
"""What one event's hooks may show to the user."""
CUT_TEXT = " [… cut]"
CANNOT_BLOCK: tuple[HookName, ...] = ("SessionStart", "PostCompact", "SessionEnd")

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
_UNSEEN = re.compile("[\x01-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor or turns text around; nothing of it is shown or sent."""


async def before_compaction(engine: Engine, trigger: Trigger, focus: str) -> str:
    """Run the PreCompact hooks and return what they would have the summary keep.

    Raises CompactionError if one of them blocks the compaction.
    """
    payload = {"trigger": trigger, "custom_instructions": focus}
    outcome = await run_hooks(engine, "PreCompact", payload)
    if outcome.blocked_by is not None:
        reason = _clip(" ".join(outcome.blocked_by.split()))
        reason = f": {reason}" if reason else "."
        raise CompactionError(f"A PreCompact hook blocked the compaction{reason}")
    return outcome.context


async def restart_session(engine: Engine) -> str:
    """Run the SessionStart hooks of a context that begins anew; return their words for the model.

    They cannot block: the compaction is paid for.
    """
    return (await run_hooks(engine, "SessionStart", {"source": "compact"})).context


async def after_compaction(engine: Engine, entry: CompactionEntry) -> None:
    """Run the PostCompact hooks; the compaction is recorded already."""
    payload = {
        "trigger": entry.trigger,
        "summary": entry.summary,
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
    }
    await run_hooks(engine, "PostCompact", payload)


async def run_hooks(engine: Engine, name: HookName, payload: Json) -> HookOutcome:
    """Run the hooks of an event, note what they show, and return what they decided.

    Its texts are as they may be sent: cleaned, redacted, each at most 5 % of the window. What
    blocks an event that nothing can block is shown to the user.
    """

    def clean(text: str) -> str:
        bare = _UNSEEN.sub("", _ESCAPES.sub("", clean_text(text)))
        return engine.ports.redactor.text(bare).strip()

    def bound(text: str) -> str:
        return cut_to(clean(text), hook_tokens(engine.window), engine.meter.estimate_text)

    outcome = await engine.ports.hooks.run(name, engine.ports.redactor.json(payload))
    shown, blocked_by, ended_by = outcome.shown, outcome.blocked_by, outcome.ended_by
    if blocked_by is not None and name in CANNOT_BLOCK:
        shown, blocked_by = (*shown, blocked_by), None
    lines = [line for text in shown for line in clean(text).splitlines() if line.strip()]
    for line in lines[:MOST_SHOWN_LINES]:
        engine.note("info", f"{name} hook: {_clip(line)}")
    if len(lines) > MOST_SHOWN_LINES:
        engine.note("info", f"{name} hook: … and {len(lines) - MOST_SHOWN_LINES:,} more lines")
    return HookOutcome(
        None if blocked_by is None else bound(blocked_by),
        bound(outcome.context),
        ended_by=None if ended_by is None else _clip(" ".join(clean(ended_by).split())),
    )


def _clip(line: str) -> str:
    return line if len(line) <= MOST_LINE_CHARS else line[: MOST_LINE_CHARS - 1] + "…"


def hook_tokens(window: int | None) -> int:
    """Return what a hook's text may take, in tokens; 10,000 where the window is not known."""
    return DEFAULTS.instructions_tokens if window is None else int(window * HOOK_SHARE)


def cut_to(text: str, most_tokens: int, count: Callable[[str], int]) -> str:
    """Return as much of the beginning of `text` as takes `most_tokens`, with a mark if it is cut.

    "" if there is no room for the mark. A very long text is never counted whole.
    """
    head = text[: max(0, most_tokens) * 16]
    if len(head) == len(text) and count(text) <= most_tokens:
        return text
    room = most_tokens - count(CUT_TEXT)
    while head and (tokens := count(head)) > room:
        head = head[: min(len(head) - 1, int(len(head) * max(0.0, room) / tokens))]
    return f"{head.rstrip()}{CUT_TEXT}" if head.strip() and room > 0 else ""


async def remember(engine: Engine, facts: Sequence[str]) -> None:
    """Keep the facts that the user stated, and note those that are new.

    A memory that cannot be written is a warning, never the compaction's failure.
    """
    facts = [engine.ports.redactor.text(fact) for fact in facts]
    if not facts:
        return
    try:
        new = await engine.ports.memory.add(facts)
    except StoreError as error:
        engine.note("warning", "What you stated could not be kept for later sessions.", str(error))
        return
    if new:
        engine.notes.append(MemoryChanged(engine.turn, tuple(new)))
