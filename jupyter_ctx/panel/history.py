"""Stored turns as items: what the live events would have told, from the transcript. Reads only.

Law: folded by the page, a stored turn is the same as the live one, but for what is not stored: how
long a tool ran and how it was allowed, attachments, notes, what was remembered, and retries; and
estimates are made anew.

The entries are walked from the end, so that a page costs as much as lies behind it, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from ..core.blocks import (
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    text_of,
    tool_results,
    words_of,
)
from ..core.breaks import REFUSED
from ..core.entries import (
    CompactionEntry,
    CompactionFailedEntry,
    EditEntry,
    Entry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    PlanEntry,
    RewindEntry,
    SpentEntry,
    UnknownEntry,
)
from ..core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    CtxEvent,
    PlanChanged,
    ResultOffloaded,
    StepFinished,
    StepStarted,
    TextFinished,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnOutcome,
    TurnStarted,
)
from ..core.loop import STOPPED_TEXT
from ..core.preview import count_lines
from ..core.repair import INTERRUPTED_TEXT
from ..core.toolcalls import SHOWN_CHARS
from ..core.usage import Usage
from ..errors import StoreError
from .wire import PROMPT_CHARS, Around, Item, item_of, result_counted

if TYPE_CHECKING:
    from ..session import Session

RUNS_CODE = ("run_code", "run_cell")
"""Tools whose outputs can be shown."""

_EDITED = ("Deleted", "Edited", "Inserted", "Moved", "Wrote")
"""How the results of calls that edited something begin."""

_FAILED = "[The turn failed: "
_DENIED = "Denied"
CUT_OFF = "The kernel ended before the turn did."


@dataclass(frozen=True, slots=True)
class Span:
    """One turn's entries, oldest first: its prompt, and all up to the next turn's."""

    turn: int
    entries: Sequence[Entry]


def find_turns(
    entries: Sequence[Entry], before: int | None = None, most: int | None = None
) -> tuple[list[Span], bool]:
    """Return the newest `most` turns before turn `before`, oldest first, and if there are earlier.

    None: no limit. What was rewound is in none of them.
    """
    found: list[Span] = []
    behind: list[Entry] = []  # what stands behind the prompt that is looked for, newest first
    nameless: list[Entry] = []  # the same, of which turn is not known yet
    floor: int | None = None  # turns from here on were rewound
    for entry in reversed(entries):
        turn = getattr(entry, "turn", None)
        if isinstance(entry, RewindEntry):
            floor = entry.turn if floor is None else min(floor, entry.turn)
        elif not isinstance(turn, int):
            nameless.append(entry)
        elif floor is not None and turn >= floor:
            if _is_prompt(entry):
                nameless.clear()
        else:
            behind += nameless
            nameless.clear()
            if not _is_prompt(entry):
                behind.append(entry)
                continue
            if before is None or turn < before:
                if most is not None and len(found) >= most:
                    return found[::-1], True
                found.append(Span(turn, [entry, *reversed(behind)]))
            behind = []
    return found[::-1], False


def _is_prompt(entry: Entry) -> bool:
    return isinstance(entry, MessageEntry) and entry.kind == "prompt" and entry.step == 0


def turn_numbers(session: Session, before: int | None, most: int) -> tuple[list[int], bool]:
    """Return the numbers of the newest `most` turns before turn `before`, and if there are more."""
    spans, has_earlier = find_turns(session.transcript.entries, before, most)
    return [span.turn for span in spans], has_earlier


def items_by_turn(session: Session, turns: Sequence[int]) -> dict[int, list[Item]]:
    """Return the items of stored turns, by turn; what is not in the conversation is left out."""
    if not turns:
        return {}
    wanted = set(turns)
    first, entries = min(wanted), session.transcript.entries
    spans, _ = find_turns(entries[_index_of(entries, first) :], max(wanted) + 1)
    return {span.turn: items_of(session, span) for span in spans if span.turn in wanted}


def _index_of(entries: Sequence[Entry], turn: int) -> int:
    """Return where the prompt of `turn` stands, 0 if it does not."""
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if isinstance(entry, MessageEntry) and entry.turn == turn and _is_prompt(entry):
            return at
    return 0


def items_of(session: Session, span: Span) -> list[Item]:
    """Return the items of one turn and of what stands behind it."""
    return _Telling(session, span).tell()


def prompt_of(session: Session, turn: int, prompt: Message, most_chars: int) -> str:
    """Return a turn's prompt as it was typed; of one too long to be sent whole, the beginning."""
    text = words_of(prompt)
    if f"prompt-{turn}" in text:  # a preview names where the whole lies
        return session.read_prompt(turn, most_chars) or text
    return text


@dataclass(slots=True)
class _Telling:
    """One turn being told."""

    session: Session
    span: Span
    items: list[Item] = field(default_factory=list)
    step: int = 0
    block: int = 0
    last_text: str = ""
    stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    uses: dict[str, ToolUse] = field(default_factory=dict)
    stopped_at: int | None = None
    edits: list[EditEntry] = field(default_factory=list)
    plans: dict[str, PlanEntry] = field(default_factory=dict)
    outcome: TurnOutcome | None = None
    error: str | None = None
    is_left_out: bool = False

    def tell(self) -> list[Item]:
        prompt, *rest = self.span.entries
        assert isinstance(prompt, MessageEntry)  # a span begins with its prompt
        self._prompt(prompt)
        end = self._end(rest)
        self.stopped_at = next((e.step for e in rest if _is_stop(e)), None)
        for entry in rest[:end]:
            self._entry(entry)
        if not self._is_running():
            self._finish(prompt.at, rest[:end])
        for entry in rest[end:]:
            self._entry(entry)
        return self.items

    def _end(self, rest: Sequence[Entry]) -> int:
        """Return how many of the entries behind the prompt belong to the turn itself.

        Only a compaction that the user asked for comes behind a turn's last message.
        """
        last = -1
        for at, entry in enumerate(rest):
            match entry:
                case MessageEntry(turn=turn) | SpentEntry(turn=turn) if turn == self.span.turn:
                    last = at
                case ExcludeEntry():
                    last = at
                case CompactionEntry(trigger=trigger) | CompactionFailedEntry(trigger=trigger):
                    if trigger != "manual":
                        last = at
                case _:
                    pass
        return last + 1

    def _is_running(self) -> bool:
        return self.session.is_running and self.span.turn == self.session.transcript.turn

    def _add(self, event: CtxEvent, around: Around | None = None, **known: object) -> None:
        item = item_of(event, around)
        assert item is not None  # only events with an item are made here
        self.items.append({**item, **known})

    def _prompt(self, entry: MessageEntry) -> None:
        text = prompt_of(self.session, entry.turn, entry.message, PROMPT_CHARS + 1)
        around = Around(
            at=entry.at,
            origin="panel" if entry.cell_id is None else "cell",
            cell_id=entry.cell_id,
        )
        self._add(TurnStarted(entry.turn, text), around)

    def _entry(self, entry: Entry) -> None:
        match entry:
            case MessageEntry(kind="reply"):
                self._reply(entry)
            case MessageEntry():
                self._answers(entry)
            case CompactionEntry():
                self._compaction(entry)
            case CompactionFailedEntry(turn=turn, reason=reason, trigger=trigger):
                self._spend(entry.usage)
                self._add(CompactionStarted(turn, self._next_compaction(entry), trigger))
                self._add(CompactionFailed(turn, reason, 0, paused=False))
            case SpentEntry(usage=usage):
                self._spend(usage)
            case EditEntry():
                self.edits.append(entry)
            case PlanEntry(tool_use_id=str(id_)):
                self.plans[id_] = entry
            case PlanEntry():
                self._add(PlanChanged(entry.turn, entry.items, entry.by))
            case ExcludeEntry(reason=reason):
                self.is_left_out = True
                self.outcome, self.error = "failed", reason
            case _:
                pass

    def _spend(self, usage: Usage | None, model: str | None = None) -> float | None:
        if usage is None:
            return None
        self.usage += usage
        cost = self.session.price(usage, model)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        return cost

    # A step ---------------------------------------------------------------------------------------

    def _reply(self, entry: MessageEntry) -> None:
        turn, self.step = entry.turn, entry.step
        self._add(StepStarted(turn, entry.step))
        for block in entry.message.content:
            match block:
                case Text(text=text):
                    self.block += 1
                    self._add(TextFinished(turn, self.block, text))
                case Thinking(wire=wire) if isinstance(said := wire.get("thinking"), str) and said:
                    self._add(ThinkingDelta(turn, said))
                case ToolUse(id=id_):
                    self.uses[id_] = block
                case _:
                    pass
        if said := text_of(entry.message.content):
            self.last_text = said
        self.stop_reason = entry.stop_reason or "end_turn"
        cost = self._spend(entry.usage, entry.model)
        usage = entry.usage or Usage()
        self._add(StepFinished(turn, entry.step, self.stop_reason, usage, cost))

    def _answers(self, entry: MessageEntry) -> None:
        """Tell the results of a message, what of them is stored, and what its words say."""
        if entry.turn != self.span.turn:
            return  # what the next turn's prompt had to mend first
        self.step = max(self.step, entry.step)
        if results := [one for one in tool_results(entry.message) if one.tool_use_id in self.uses]:
            self._results(results, entry.step)
        if entry.kind != "note":
            return
        said = text_of(entry.message.content)
        if said == STOPPED_TEXT:
            self.outcome, self.stop_reason = "stopped", "stopped"
        elif said.startswith(_FAILED):
            self.outcome, self.stop_reason = "failed", "error"
            self.error = said[len(_FAILED) :].removesuffix("]")

    def _results(self, results: Sequence[ToolResult], step: int) -> None:
        """Tell the results of one step, in order."""
        ended = [one for one in results if not _is_cut(one)]
        stopped = None
        if self.stopped_at == step and ended and (ended[-1] is results[-1] or ended[-1].is_error):
            stopped = ended[-1]  # the stop arrived in it, and so the others were not begun
        offloaded: list[ResultOffloaded] = []
        for result in ended:
            offloaded += self._result(result, step, is_stopped=result is stopped)
        if stopped is None and len(ended) < len(results):
            self._begin(self.uses.pop(results[len(ended)].tool_use_id), step)
        for event in offloaded:
            self._add(event)
        for result in results:
            tokens = self.session.estimate_tokens(result)
            self.items.append(result_counted(self.span.turn, result.tool_use_id, tokens))
        self.uses.clear()

    def _begin(self, use: ToolUse, step: int) -> None:
        self._add(ToolStarted(self.span.turn, step, use.id, use.name, use.input))

    def _result(
        self, result: ToolResult, step: int, *, is_stopped: bool
    ) -> Iterator[ResultOffloaded]:
        """Tell how a call ended; yield what of its result is stored."""
        use = self.uses.pop(result.tool_use_id)
        turn, fate = self.span.turn, self.session.transcript.fates.get(use.id)
        text = _head(self.session, result, fate)
        denied = result.is_error and text.startswith(_DENIED)
        if not denied:
            self._begin(use, step)
        chars, lines = (len(text), count_lines(text)) if fate is None else (fate.chars, fate.lines)
        finished = ToolFinished(
            turn,
            step,
            use.id,
            use.name,
            text,
            result.is_error,
            denied,
            chars,
            lines,
            0.0,
            is_stopped,
            sum(isinstance(block, Image) for block in result.content),
        )
        around = Around(input=use.input, has_outputs=not denied and use.name in RUNS_CODE)
        self._add(finished, around, seconds=None)
        if plan := self.plans.pop(use.id, None):
            self._add(PlanChanged(plan.turn, plan.items, plan.by))
        if text.startswith(_EDITED):
            self._edit(use)
        if fate is not None and fate.fate == "offload":
            shown = sum(len(block.text) for block in result.content if isinstance(block, Text))
            yield ResultOffloaded(turn, use.id, use.name, None, chars, lines, shown)

    def _edit(self, use: ToolUse) -> None:
        """Tell the edit that a call made: the first of its kind that no other call made."""
        kind = "cell" if use.name.endswith("_cell") else "file"
        entry = next((one for one in self.edits if one.edit.kind == kind), None)
        if entry is None:
            return
        self.edits.remove(entry)
        target = entry.edit.target
        self.items.append(
            {
                "kind": "edit_made",
                "turn": self.span.turn,
                "tool_use_id": use.id,
                "cell_id": target if kind == "cell" else None,
                "path": None if kind == "cell" else target,
            }
        )
        if entry.n in self.session.transcript.undone_edits:
            self.items.append({"kind": "edit_undone", "tool_use_id": use.id})

    # Compactions and the end ----------------------------------------------------------------------

    def _compaction(self, entry: CompactionEntry) -> None:
        transcript = self.session.transcript
        self.usage += entry.usage or Usage()
        if entry.usage is not None:
            costs = (self.cost, entry.cost_usd)
            self.cost = None if None in costs else sum(one for one in costs if one is not None)
        self._add(CompactionStarted(entry.turn, entry.n, entry.trigger))
        self._add(
            CompactionFinished(
                entry.turn,
                entry.n,
                entry.trigger,
                entry.tokens_before,
                entry.tokens_after,
                entry.seconds,
                entry.cost_usd,
            ),
            Around(replaced=(entry.first_turn, entry.last_turn)),
        )
        for condition, ones in (("edited", transcript.edited), ("undone", transcript.undone)):
            if entry.n in ones:
                self.items.append({"kind": "summary_changed", "n": entry.n, "condition": condition})

    def _next_compaction(self, entry: CompactionFailedEntry) -> int:
        """Return the number that a failed compaction would have had."""
        return 1 + sum(one.at <= entry.at for one in self.session.transcript.compactions)

    def _finish(self, began: float, entries: Sequence[Entry]) -> None:
        """Tell how the turn ended; one of a kernel that died was cut off."""
        if self.uses and self.outcome is None:
            self._begin(next(iter(self.uses.values())), self.step)
        self.uses.clear()
        outcome = self.outcome or "done"
        if self.outcome is None and self.stop_reason in ("", "tool_use"):
            outcome, self.error = "stopped", CUT_OFF
        if self.is_left_out:
            self.step = max(1, self.step)
            self.stop_reason = "refusal" if self.error == REFUSED else "error"
        ended = max(
            (entry.at for entry in entries if not isinstance(entry, _UNTIMED)), default=began
        )
        self._add(
            TurnFinished(
                self.span.turn,
                outcome,
                self.stop_reason,
                self.last_text,
                self.step,
                self.usage,
                self.cost,
                max(0.0, ended - began),
                self.error,
            )
        )


_UNTIMED = (UnknownEntry,)
"""Entries of whom nothing is known."""


def _is_stop(entry: Entry) -> TypeGuard[MessageEntry]:
    return (
        isinstance(entry, MessageEntry)
        and entry.kind == "note"
        and text_of(entry.message.content) == STOPPED_TEXT
    )


def _is_cut(result: ToolResult) -> bool:
    """Whether a result says that its call never came to an end."""
    return result.is_error and text_of(result.content) == INTERRUPTED_TEXT


def _head(session: Session, result: ToolResult, fate: FateEntry | None) -> str:
    """Return the beginning of a result's text, as it is told when its call ends."""
    if fate is not None and fate.chars == 0:
        return ""
    if fate is not None and fate.fate == "offload":
        try:
            with session.results.open_text(result.tool_use_id) as file:
                return file.read(SHOWN_CHARS)
        except (StoreError, OSError):
            pass  # gone: what the model saw of it is left
    first = next((block.text for block in result.content if isinstance(block, Text)), "")
    return first[:SHOWN_CHARS]
