"""Who acts now: the conversation itself, or one of its sub-agents.

Each sub-agent runs in a task of its own, so the word travels with the task's context to whatever
the task calls: the question for a permission names the sub-agent, and what it reads counts as seen
by itself alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """A sub-agent: the id of the `task` call that started it, and what it is to do in a few words.

    `description` is the model's own text.
    """

    id: str
    description: str


_actor: ContextVar[Actor | None] = ContextVar("jupyter_ctx_actor", default=None)


def find_actor() -> Actor | None:
    """Return the sub-agent that acts now, None: it is the conversation itself."""
    return _actor.get()


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Have `actor` act within the block, and in the tasks that are started there."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)
