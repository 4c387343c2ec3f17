"""What a user does to a summary: undo its compaction, or rewrite it. Entries, never rewrites.

Only the newest compaction in force can be changed, since the view begins with its summary. Either
way the next prompt is written to the cache anew, and thinking bound to what changes is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import PromptError
from .blocks import Message
from .compaction import build_summary_message
from .compactor import must_drop_thinking
from .entries import CompactionEntry, ModelEntry, SummaryEditEntry, SummaryUndoEntry
from .offload import LEAST_RESULT_TOKENS
from .preview import clean_text
from .tokens import SAFETY
from .view import build_view
from .window import LEAST_OUTPUT, summary_budget

if TYPE_CHECKING:
    from .engine import Engine
    from .transcript import Transcript


@dataclass(frozen=True, slots=True)
class Undo:
    """An undo that was not made yet: `messages` come back, the next prompt takes `tokens` (≈).

    `needed_tokens` is that with what must stay free for an answer and the next compaction;
    `window_tokens` None: not known.
    """

    entry: SummaryUndoEntry
    messages: int
    tokens: int
    needed_tokens: int
    window_tokens: int | None

    @property
    def refusal(self) -> str:
        """Why it cannot be made, in words; "" if it can."""
        if self.window_tokens is None or self.needed_tokens <= self.window_tokens:
            return ""
        return (
            f"Undo puts the {self.messages:,} messages back. That needs {self.needed_tokens:,} of "
            f"{self.window_tokens:,} tokens now, so choose a larger model first."
        )


def plan_undo(engine: Engine, n: int | None = None) -> Undo:
    """Return what undoing compaction `n` takes, None: the newest in force.

    Raises PromptError if it is not the newest in force.
    """
    transcript = engine.transcript
    last = _newest(engine, n, "undone")
    drop = must_drop_thinking(engine, transcript.view[1:])
    entry = SummaryUndoEntry(engine.ports.clock.now(), last.n, drop)
    tokens = _tokens_undone(engine, last, entry)
    return Undo(
        entry,
        len(transcript.replaced_by(last.n)),
        tokens,
        needed_tokens(engine, tokens),
        engine.window,
    )


def _tokens_undone(engine: Engine, last: CompactionEntry, undo: SummaryUndoEntry) -> int:
    """Return what the prompt takes once `last` is undone.

    That is what was used right before it, a figure of the provider's for the most part, and an
    estimate of what came since. After a switch of the model all of it is estimated.
    """
    entries, count = engine.transcript.entries, engine.meter.estimate_request
    estimated = count(build_view([*entries, undo]))
    made = [isinstance(entry, CompactionEntry) and entry.n == last.n for entry in entries]
    at = len(made) - 1 - made[::-1].index(True)
    if any(isinstance(entry, ModelEntry) for entry in entries[at:]):
        return estimated
    return max(0, last.tokens_before + estimated - count(build_view(entries[:at])))


def needed_tokens(engine: Engine, tokens: int) -> int:
    """Return what a prompt of `tokens` (an estimate) needs of the window.

    That is × 1.15, with room for an answer, its smallest result and the next compaction.
    """
    keep = engine.room().compaction_tokens + LEAST_OUTPUT + LEAST_RESULT_TOKENS
    return math.ceil(SAFETY * tokens) + keep


def plan_edit(engine: Engine, text: str) -> SummaryEditEntry:
    """Return the entry by which `text` takes the place of the newest summary in force.

    Raises PromptError if there is none, or the text is blank or longer than a summary may be (or
    the present one is).
    """
    last = _newest(engine, None, "edited")
    text = clean_text(engine.ports.redactor.text(text)).strip() if text.strip() else ""
    if not text:
        raise PromptError("The summary is empty: write the text behind `/summary edit`.")
    count = engine.meter.estimate_text
    most = max(summary_budget(engine.limits, engine.window), count(last.summary))
    if (tokens := count(text)) > most:
        raise PromptError(f"The summary is too long: ≈{tokens:,} tokens; it may take {most:,}.")
    head, _ = build_summary_message(engine.texts.resume, text, ())
    message = Message("user", (*head.content, *last.message.content[1:]))
    drop = must_drop_thinking(engine, engine.transcript.view[1:])
    return SummaryEditEntry(engine.ports.clock.now(), last.n, message, text, drop)


def summary_to_json(transcript: Transcript, entry: CompactionEntry) -> dict[str, object]:
    """Return a compaction as the JSON of `/summary` (DESIGN.md 2), version 1."""
    replaced = transcript.replaced_by(entry.n)
    return {
        "version": 1,
        "n": entry.n,
        "trigger": entry.trigger,
        "summary": entry.summary,
        "replaced": {
            "first_turn": entry.first_turn,
            "last_turn": entry.last_turn,
            "messages": len(replaced) or entry.drop_messages,
        },
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
        "seconds": entry.seconds,
        "cost_usd": entry.cost_usd,
        "reinjected": [
            {"kind": item.kind, "id": item.id, "tokens": item.tokens} for item in entry.reinjected
        ],
        "state": _find_state(transcript, entry.n),
    }


def _newest(engine: Engine, n: int | None, done: str) -> CompactionEntry:
    """Return the newest compaction in force. Raises PromptError if it is not `n`."""
    last = engine.transcript.active_compaction
    if last is None:
        raise PromptError(f"No compaction is in force, so none can be {done}.")
    if n not in (None, last.n):
        raise PromptError(f"Only the newest compaction in force can be {done}: {last.n}, not {n}.")
    return last


def _find_state(transcript: Transcript, n: int) -> str:
    if n in transcript.undone:
        return "undone"
    return "edited" if n in transcript.edited else "active"
