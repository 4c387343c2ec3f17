"""A summary that is prepared in the background: what it is of, and when it may still be used.

Law: it replaces exactly the messages it was made of. So it counts only while the view is an exact
extension of them: its first messages are the very same objects, on the same prefix, for the same
model, and no summary was made, rewritten or undone since. Anything else makes it stale for good.
"""

from __future__ import annotations

import asyncio
import operator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..errors import CompactionError, ModelError
from .blocks import Message
from .entries import (
    CompactionEntry,
    Entry,
    ModelEntry,
    PrefixEntry,
    RepairEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)
from .ports import Request
from .reply import Reply
from .transcript import Transcript
from .usage import Usage

State: TypeAlias = Literal["none", "running", "ready"]
_BREAKS = (
    CompactionEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    RepairEntry,
    PrefixEntry,
    ModelEntry,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A request for a summary of `messages`, the prompt as last sent, and what fits it.

    Of the messages those before `cut` give way to the summary; it may have `summary_tokens`. It is
    due when the account is as full as `moment` says (FIRST_CALL or MID_TURN), also where the
    summary of a turn's end comes too late for the next one's first call. What a hook asks of it may
    take `room_tokens`. `is_for_account`: it is made since the account will be full, not since the
    window will, or nobody asks anything.
    """

    messages: tuple[Message, ...]
    cut: int
    summary_tokens: int
    room_tokens: int
    moment: float
    prefix: PrefixEntry | None
    request: Request
    reply: Reply
    is_for_account: bool = False

    def extends_to(self, transcript: Transcript, model: str) -> bool:
        """Say whether the view, as it is now, begins with exactly what would be summarised."""
        return (
            transcript.prefix is self.prefix
            and self.request.model == model
            and len(transcript.view) >= len(self.messages)
            and all(map(operator.is_, self.messages, transcript.view))
        )


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a preparation: a usable summary unless `error` says why there is none."""

    seconds: float
    usage: Usage | None
    error: CompactionError | ModelError | None = None


@dataclass(eq=False, slots=True)
class Preparation:
    """A summary under way, or ready. `task` makes the model call and touches no transcript."""

    draft: Draft
    task: asyncio.Task[Made]
    is_broken: bool = False

    def observe(self, entry: Entry) -> None:
        """Take in an entry that was just appended; some make the summary stale for good."""
        self.is_broken = self.is_broken or isinstance(entry, _BREAKS)

    def is_valid(self, transcript: Transcript, model: str) -> bool:
        """Say whether it may be used: nobody cancelled it, and the view is an exact extension."""
        return (
            not self.is_broken
            and not self.task.cancelled()
            and self.draft.extends_to(transcript, model)
        )

    @property
    def made(self) -> Made | None:
        """What came of it; None while it runs, and if it was cancelled."""
        return self.task.result() if self.task.done() and not self.task.cancelled() else None

    @property
    def state(self) -> State:
        """Whether its summary is still awaited or is there; `none` if there will be none."""
        if not self.task.done():
            return "running"
        made = self.made
        return "none" if made is None or made.error is not None else "ready"

    def cancel(self) -> None:
        """Give it up, from any thread."""
        cancel_task(self.task)


def cancel_task(task: asyncio.Task[Made] | asyncio.Task[None]) -> None:
    """Cancel a task from any thread; nothing if it, or its loop, has ended."""
    loop = task.get_loop()
    if task.done() or loop.is_closed():
        return
    if _running_loop() is loop:
        task.cancel()
    else:
        loop.call_soon_threadsafe(task.cancel)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
