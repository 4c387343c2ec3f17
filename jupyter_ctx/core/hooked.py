"""What the user's hooks say in a turn, and where it goes.

Rule: nothing that was sent is ever changed for a hook. Its words stand in the message that is about
to be recorded: with the prompt, as the result of a call that it forbids, behind the results of a
reply, or as one line that has the model go on. Each place has 5 % of the window at most, and the
law of the room holds for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .around import cut_to, hook_tokens, run_hooks
from .blocks import Text, ToolUse, json_bytes
from .offload import LEAST_RESULT_TOKENS, Room
from .ports import Denied, HookName, SpooledText, ToolOutput
from .tokens import SAFETY

if TYPE_CHECKING:
    from .engine import Engine

SAYS = "[A {name} hook of the user says:]\n{text}"
STOP_TEXT = "[A Stop hook of the user has you go on:]\n{text}"
DENIED_TEXT = "Denied by a PreToolUse hook of the user: {text}"
BLOCKED_TEXT = "A UserPromptSubmit hook blocked the prompt: {text}"
MOST_HOLDS = 3
"""So often in a turn the Stop hooks can have the model go on."""
MOST_RESPONSE_CHARS = 200_000
"""What a PostToolUse hook is given of a result's text."""
FRAME_TOKENS = 32
"""What a text block takes beside its hook's words: the line above them, and the block."""


@dataclass(frozen=True, slots=True)
class PromptWords:
    """What hooks say before a prompt is recorded: words for the model, why it is not to be sent."""

    text: str = ""
    blocked_by: str | None = None


async def before_prompt(engine: Engine, prompt: str) -> PromptWords:
    """Run the SessionStart hooks, with the first prompt in this kernel, and the UserPromptSubmit's.

    What SessionStart's say is kept until a prompt was recorded with it.
    """
    if engine.start_words is None:
        source = "resume" if engine.transcript.turn else "startup"
        started = await run_hooks(engine, "SessionStart", {"source": source})
        engine.start_words = started.context
    outcome = await run_hooks(engine, "UserPromptSubmit", {"prompt": prompt})
    blocked_by = outcome.blocked_by if outcome.ended_by is None else outcome.ended_by
    if blocked_by is not None:
        return PromptWords(blocked_by=BLOCKED_TEXT.format(text=blocked_by))
    said: list[tuple[HookName, str]] = [
        ("SessionStart", engine.start_words),
        ("UserPromptSubmit", outcome.context),
    ]
    return PromptWords(
        "\n\n".join(SAYS.format(name=name, text=text) for name, text in said if text)
    )


def fit_words(engine: Engine, text: str, room: Room) -> tuple[str, Room]:
    """Return as much of `text` as has its share and the room, and the room that is left then."""
    most = hook_tokens(engine.window)
    if room.law_tokens is not None:
        most = min(most, math.floor(room.law_tokens / SAFETY) - FRAME_TOKENS)
    text = cut_to(text, most, room.count) if text else ""
    if not text or json_bytes(text) > room.bytes_left:
        return "", room
    tokens = math.ceil(SAFETY * (room.count(text) + FRAME_TOKENS))
    left = room.bytes_left - json_bytes(text)
    return text, replace(room, used_tokens=room.used_tokens + tokens, bytes_left=left)


@dataclass(slots=True)
class CallHooks:
    """The hooks around the calls of one reply. `ended_by` is why the turn ends behind them."""

    engine: Engine
    ended_by: str | None = None
    _said: list[tuple[HookName, str]] = field(default_factory=list)

    async def before(self, use: ToolUse) -> Denied | None:
        """Run the PreToolUse hooks of a call; return the denial if one forbids it."""
        payload = {"tool_name": use.name, "tool_input": dict(use.input), "tool_use_id": use.id}
        outcome = await run_hooks(self.engine, "PreToolUse", payload)
        self._said.append(("PreToolUse", outcome.context))
        self.ended_by = self.ended_by or outcome.ended_by
        reason = outcome.blocked_by if outcome.ended_by is None else outcome.ended_by
        return None if reason is None else Denied(DENIED_TEXT.format(text=reason))

    async def after(self, use: ToolUse, output: ToolOutput) -> None:
        """Run the PostToolUse hooks of a call that ran; what they say stands behind the results."""
        whole = output.text
        text = whole.head if isinstance(whole, SpooledText) else whole[:MOST_RESPONSE_CHARS]
        chars = whole.chars if isinstance(whole, SpooledText) else len(whole)
        response = {
            "text": text,
            "chars": chars,
            "is_error": output.is_error,
            "images": len(output.images),
        }
        payload = {
            "tool_name": use.name,
            "tool_input": dict(use.input),
            "tool_response": response,
            "tool_use_id": use.id,
        }
        outcome = await run_hooks(self.engine, "PostToolUse", payload)
        said = filter(None, [outcome.blocked_by or "", outcome.context])
        self._said += [("PostToolUse", text) for text in said]
        self.ended_by = self.ended_by or outcome.ended_by

    def take_words(self, room: Room, results: int) -> tuple[Sequence[Text], Room]:
        """Return the block with what the hooks said, none or one, and the room that is left then.

        Each of `results` results keeps the least that it needs.
        """
        said = [SAYS.format(name=name, text=text) for name, text in self._said if text]
        self._said.clear()
        kept = results * LEAST_RESULT_TOKENS
        narrow = replace(room, used_tokens=room.used_tokens + kept)
        text, left = fit_words(self.engine, "\n\n".join(said), narrow)
        left = replace(left, used_tokens=left.used_tokens - kept)
        return ([Text(text, "notebook")] if text else []), left


async def before_stop(engine: Engine, answer: str, holds: int, *, can_hold: bool) -> str:
    """Run the Stop hooks; return what has the model go on, "" if nothing does.

    `holds` is how often they did in this turn. An answer that is not complete is not gone on from.
    """
    payload = {"stop_hook_active": holds > 0, "last_assistant_message": answer}
    outcome = await run_hooks(engine, "Stop", payload)
    if outcome.blocked_by is None or outcome.ended_by is not None or not can_hold:
        return ""
    if holds >= MOST_HOLDS:
        engine.note("warning", f"A Stop hook had the turn go on {holds} times; it ends here.")
        return ""
    text, _ = fit_words(engine, STOP_TEXT.format(text=outcome.blocked_by), engine.room())
    return text


async def end_session(engine: Engine) -> None:
    """Run the SessionEnd hooks of a session that had its SessionStart here."""
    if engine.start_words is not None:
        engine.start_words = None
        await run_hooks(engine, "SessionEnd", {"reason": "other"})
