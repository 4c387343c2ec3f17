"""What runs around a compaction: the user's hooks, and the memory of what they stated.

Whatever a hook says is cleaned, redacted and bounded before it goes anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import CompactionError, StoreError
from .blocks import Json
from .entries import CompactionEntry, Trigger
from .ports import HookName
from .preview import clean_text
from .window import DEFAULTS

if TYPE_CHECKING:
    from .engine import Engine

HOOK_SHARE = 0.05
"""What a hook's text for the model may take of the window, as every other budget."""
MOST_SHOWN_LINES, MOST_LINE_CHARS = 20, 500
"""What one event's hooks may show to the user."""
CUT_TEXT = " [… cut]"


async def before_compaction(engine: Engine, trigger: Trigger, focus: str) -> str:
    """Run the PreCompact hooks and return what they would have the summary keep.

    Raises CompactionError if one of them blocks the compaction.
    """
    payload = {"trigger": trigger, "custom_instructions": focus}
    context, blocked_by = await _run(engine, "PreCompact", payload)
    if blocked_by is not None:
        reason = f": {blocked_by}" if blocked_by else "."
        raise CompactionError(f"A PreCompact hook blocked the compaction{reason}")
    return context


async def restart_session(engine: Engine) -> str:
    """Run the SessionStart hooks of a context that begins anew; return their words for the model.

    They cannot block: the compaction is paid for.
    """
    context, _ = await _run(engine, "SessionStart", {"source": "compact"})
    return context


async def after_compaction(engine: Engine, entry: CompactionEntry) -> None:
    """Run the PostCompact hooks; the compaction is recorded already."""
    payload = {
        "trigger": entry.trigger,
        "summary": entry.summary,
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
    }
    await _run(engine, "PostCompact", payload)


async def _run(engine: Engine, name: HookName, payload: Json) -> tuple[str, str | None]:
    """Run the hooks of an event; note what they show. Returns their context and why they block."""

    def clean(text: str) -> str:
        return engine.ports.redactor.text(clean_text(text)).strip()

    outcome = await engine.ports.hooks.run(name, payload)
    lines = [line for text in outcome.shown for line in clean(text).splitlines() if line.strip()]
    for line in lines[:MOST_SHOWN_LINES]:
        engine.note("info", f"{name} hook: {_clip(line)}")
    if len(lines) > MOST_SHOWN_LINES:
        engine.note("info", f"{name} hook: … and {len(lines) - MOST_SHOWN_LINES:,} more lines")
    context = cut_to(clean(outcome.context), hook_tokens(engine.window), engine.meter.estimate_text)
    blocked_by = outcome.blocked_by
    return context, None if blocked_by is None else _clip(" ".join(clean(blocked_by).split()))


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
        engine.note("info", f"Remembered: {' · '.join(new)}")
