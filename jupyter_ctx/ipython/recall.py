"""What a new session is told of the memory: a section of its system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.ports import Fact, Memory
from ..errors import StoreError

MOST_CHARS, WINDOW_SHARE, CHARS_PER_TOKEN = 6_000, 0.02, 3
"""The section's length in characters: at most this, and at most this share of the window."""

LEAD = (
    "# Memory\n"
    "What the user stated in earlier sessions of this project, oldest first. Of two that differ "
    "the later one counts, and what they say now counts above all."
)
MORE = "- … and {count:,} older ones, not shown here"


class MemorySection:
    """Tells what `memory` has when a session begins; `window` gives the model's, None: unknown."""

    def __init__(self, memory: Memory, window: Callable[[], int | None]) -> None:
        self._memory = memory
        self._window = window

    async def connect(self) -> Sequence[str]:
        """Return why the memory cannot be read, in a sentence; () if it can."""
        try:
            await self._memory.load()
        except StoreError as error:
            return (f"What you told in earlier sessions is not known here. {error}",)
        return ()

    async def describe(self) -> str:
        """Return the section, "" if nothing is kept or it cannot be read."""
        try:
            facts = await self._memory.load()
        except StoreError:
            return ""  # `connect` has said so
        window = self._window()
        most = MOST_CHARS
        if window is not None:
            most = min(most, int(window * WINDOW_SHARE * CHARS_PER_TOKEN))
        return memory_section(facts, most)


def memory_section(facts: Sequence[Fact], most_chars: int) -> str:
    """Return the newest facts that `most_chars` characters have room for, in their order."""
    kept: list[str] = []
    for fact in reversed(facts):
        line = f"- {fact.date}: {fact.text}" if fact.date else f"- {fact.text}"
        most_chars -= len(line) + 1
        if most_chars < 0:
            break
        kept.append(line)
    if not kept:
        return ""
    more = [MORE.format(count=len(facts) - len(kept))] if len(kept) < len(facts) else []
    return "\n".join([LEAD, *more, *reversed(kept)])
