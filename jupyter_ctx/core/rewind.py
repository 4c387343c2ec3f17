"""Back to before a turn of the user: an entry, after which the view is what it was before.

Whatever came since goes at once, compactions included; nothing is deleted. The view is made of the
very messages that stood there, behind what they stood behind, so their thinking stays. Pins, fates,
the budget and a learnt window stay too, and numbers of turns go on growing: no name is given twice.
Edits of cells and files that those turns made are put back before; what their code did stays done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import PromptError
from .compaction import find_last_sent
from .edits import LoadText, find_ran, open_edits, undo_since
from .entries import EditEntry, MessageEntry, RewindEntry
from .summaries import needed_tokens
from .view import build_view

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True, slots=True)
class Rewind:
    """A rewind that was not made yet: `turns` go, ascending, and their `messages` with them.

    It undoes the compactions `undone`, newest first. The next prompt then begins with `tokens` (≈,
    system and tools included), of which `written_tokens` (≈) are written to the cache anew.
    `needed_tokens` is `tokens` with what must stay free for an answer and the next compaction,
    `window_tokens` None: not known. `is_longer`: the view is longer after it than before.

    `edits` are those of these turns that are not undone, newest first; once it was made, `put_back`
    the numbers of those that were, and `not_put_back` the others', each with the reason. `ran` says
    how often code ran in these turns, by tool: that cannot be undone.
    """

    entry: RewindEntry
    turns: tuple[int, ...]
    messages: int
    undone: tuple[int, ...]
    tokens: int
    written_tokens: int
    needed_tokens: int
    window_tokens: int | None
    is_longer: bool
    edits: tuple[EditEntry, ...] = ()
    ran: tuple[tuple[str, int], ...] = ()
    put_back: tuple[int, ...] = ()
    not_put_back: tuple[tuple[int, str], ...] = ()

    @property
    def refusal(self) -> str:
        """Why it cannot be made, in words; "" if it can. What makes the view shorter always can."""
        window = self.window_tokens
        if not self.is_longer or window is None or self.needed_tokens <= window:
            return ""
        undone = ", ".join(map(str, sorted(self.undone)))
        return (
            f"Going back to before turn {self.entry.turn} undoes compaction {undone}. That needs "
            f"{self.needed_tokens:,} of {window:,} tokens now, so choose a larger model first."
        )


def plan_rewind(engine: Engine, turn: int) -> Rewind:
    """Return what going back to before user turn `turn` takes.

    Raises PromptError if that turn is not in the conversation: it names those that are.
    """
    transcript = engine.transcript
    if turn not in transcript.turns:
        raise PromptError(_unknown(turn, transcript.turns))
    entry = RewindEntry(engine.ports.clock.now(), turn)
    view = build_view([*transcript.entries, entry])
    undone = transcript.opened_since(turn)
    estimate = engine.meter.estimate_request
    tokens = estimate(view)
    turns = tuple(n for n in transcript.turns if n >= turn)
    messages = sum(isinstance(e, MessageEntry) and e.turn in turns for e in transcript.entries)
    # The provider still has the beginning of the present prompt; what follows it was a reply.
    new = view if undone else view[find_last_sent(view) :]
    return Rewind(
        entry,
        turns,
        messages,
        undone,
        tokens,
        tokens if undone else sum(map(engine.meter.estimate_message, new)),
        needed_tokens(engine, tokens),
        engine.window,
        tokens > estimate(transcript.view),
        tuple(edit for edit in open_edits(transcript) if edit.turn >= turn),
        find_ran(transcript, turns),
    )


async def put_back_edits(engine: Engine, rewind: Rewind, load_text: LoadText) -> Rewind:
    """Put back the edits of the turns that go, as far as that can be done; return how it went."""
    done, others = await undo_since(engine, rewind.edits, load_text)
    return replace(rewind, put_back=done, not_put_back=others)


def _unknown(turn: int, turns: Sequence[int]) -> str:
    if not turns:
        return f"There is no turn {turn} to go back to: the conversation has none yet."
    runs: list[list[int]] = []
    for n in turns:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    names = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"There is no turn {turn} to go back to; there is {', '.join(names)}."
