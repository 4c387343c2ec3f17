"""What must be there before the first turn of a session: what connects, and what is described.

The wiring gives the parts; each knows nothing of the others.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Connector: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
"""Connects something, in bounded time, and returns sentences for the user. Asked once."""

Describer: TypeAlias = Callable[[], Awaitable[str]]
"""Returns a Markdown section for the system prompt, "" if there is nothing."""

log = logging.getLogger("jupyter_ctx")


class SessionStart:
    """Everything that `connectors` connect and `describers` describe. Implements core.ports.Start.

    Connectors run at the same time; sections stand in the order of the describers. What one of
    either raises is a warning in the log, made free of keys by `redact`, and no turn's end.
    """

    def __init__(
        self,
        connectors: Sequence[Connector],
        describers: Sequence[Describer],
        redact: Callable[[str], str],
    ) -> None:
        self._connectors = tuple(connectors)
        self._describers = tuple(describers)
        self._redact = redact

    async def connect(self) -> Sequence[str]:
        """Connect everything; return what the user should know."""
        nothing: Sequence[str] = ()
        said = await asyncio.gather(*(self._try(one, nothing) for one in self._connectors))
        return [sentence for sentences in said for sentence in sentences]

    async def describe(self) -> str:
        """Return the sections, one below the other."""
        sections = await asyncio.gather(*(self._try(one, "") for one in self._describers))
        return "\n\n".join(section.strip() for section in sections if section.strip())

    async def _try(self, ask: Callable[[], Awaitable[T]], otherwise: T) -> T:
        try:
            return await ask()
        except Exception:
            log.warning("At the session's start:\n%s", self._redact(traceback.format_exc()))
            return otherwise
