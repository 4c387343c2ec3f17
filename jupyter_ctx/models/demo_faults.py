"""What the demo model does on command, so that it can be seen without a provider that does it.

A command is a word behind `demo:` in the prompt, such as `demo: overloaded`; the rest of the prompt
is answered as ever. A fault comes once for a prompt, at its first call; so what follows it (a wait,
a retry, a compaction) is the session's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from ..core.blocks import Thinking
from ..errors import (
    AuthError,
    ModelError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    StreamBrokenError,
)

THINK: Final = "think"
CUT: Final = "cut"
LONG: Final = "long"
REFUSE: Final = "refuse"
WAIT_S: Final = 1.0
"""How long `demo: limit` asks to wait, in seconds."""

WORDS: Final[Mapping[str, str]] = {
    THINK: "thinks before it answers",
    "overloaded": "is overloaded once (529), and is asked again",
    "limit": f"takes no more requests for {WAIT_S:g} s (429)",
    CUT: "breaks off in the middle of its answer once",
    "overflow": "refuses the prompt as too long once, so that a talk of some length is compacted",
    LONG: "reaches the longest answer once, and is asked to go on",
    REFUSE: "ends its answer as a provider does that refuses",
    "key": "refuses the key, always",
}
"""Every command and what the demo then does."""

LASTING: Final = frozenset({THINK, REFUSE, "key"})
"""What holds for every call of a prompt; the others come once."""
_COMMAND: Final = re.compile(r"\bdemo: *([a-z]+)\b", re.I)
REFUSED: Final = "It is the demo model, as asked: send the prompt without `demo: refuse`."
THOUGHT: Final = (
    "The prompt asks me to think. I am a script: what I do next is settled by its words, and "
    "this text is here so that thinking can be seen."
)


def find_commands(prompt: str) -> list[str]:
    """Return the commands of a prompt, in order; words that are none are left out."""
    return [word for each in _COMMAND.findall(prompt) if (word := each.lower()) in WORDS]


def thought() -> Thinking:
    """Return the demo's thinking; of no other model's form, so that none is sent it."""
    return Thinking({"type": "reasoning", "model": "demo", "thinking": THOUGHT, "fields": {}})


def make_fault(word: str) -> ModelError | None:
    """Return the error that `word` asks for, None if it asks for none before the answer."""
    faults: Mapping[str, Callable[[], ModelError]] = {
        "overloaded": lambda: OverloadedError(
            "The demo model is overloaded, as asked: it is tried again.", status=529
        ),
        "limit": lambda: RateLimitedError(
            "The demo model takes no more requests now, as asked: it is tried again.",
            retry_after_s=WAIT_S,
        ),
        "overflow": lambda: PromptTooLongError(
            "The prompt is too long for the demo model, as asked."
        ),  # no figures, as some servers: it would be a lie to learn from
        "key": lambda: AuthError(
            "The demo model refuses the key, as asked: send the prompt without `demo: key`.",
            status=401,
        ),
    }
    return faults[word]() if word in faults else None


def broken() -> StreamBrokenError:
    """Return the error of an answer that broke off."""
    return StreamBrokenError("The demo model broke off its answer, as asked: it is tried again.")
