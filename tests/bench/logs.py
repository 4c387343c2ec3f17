"""Long sessions, made without a provider: a log of so many messages, as entries."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_ctx.core.blocks import Message, Text, ToolResult, ToolUse
from jupyter_ctx.core.entries import (
    Entry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    PrefixEntry,
    SessionEntry,
)
from jupyter_ctx.core.usage import Usage

STEPS_PER_TURN = 10
SYSTEM = "You help in a notebook."


def build_log(messages: int, text_chars: int, model: str, session_id: str) -> Iterator[Entry]:
    """Yield a session of so many messages, each with about so many characters of text.

    Turns of a prompt, calls with their results, and an answer; ids and words differ throughout.
    """
    yield SessionEntry(0.0, session_id, None, "/home/user", "0")
    yield PrefixEntry(0.0, SYSTEM, ())
    yield ModelEntry(0.0, model)
    body = "The table has 5,000 rows; the mean of column c is 0.25, the rest is as before. "
    text = (body * (text_chars // len(body) + 1))[:text_chars]
    per_turn = 2 * STEPS_PER_TURN
    for n in range(messages):
        turn, place = n // per_turn + 1, n % per_turn
        step = (place + 1) // 2
        words = Text(f"{n}: {text}")
        if place == 0:
            yield MessageEntry(float(n), turn, 0, "prompt", Message("user", (words,)))
        elif place % 2:
            use = ToolUse(f"toolu_{n:08}", "run_code", {"code": f"print({n})"})
            last = place == per_turn - 1
            content = (words,) if last else (words, use)
            usage = Usage(0, 100 * n, 100, 50)
            yield MessageEntry(
                float(n),
                turn,
                step,
                "reply",
                Message("assistant", content),
                stop_reason="end_turn" if last else "tool_use",
                usage=usage,
                model=model,
            )
        else:
            result = ToolResult(f"toolu_{n - 1:08}", (words,))
            yield FateEntry(float(n), result.tool_use_id, "keep", "run_code", text_chars, 1, None)
            yield MessageEntry(float(n), turn, step, "results", Message("user", (result,)))
