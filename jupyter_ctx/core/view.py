"""What the model sees of a transcript: a pure function of its entries.

Law: an entry that names nothing known (a compaction, rewind, edit or undo) changes nothing, and
within one compaction's life the view only grows. So an older view is found again by two numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .blocks import Message, without_images, without_thinking
from .entries import (
    CompactionEntry,
    Entry,
    ExcludeEntry,
    MessageEntry,
    RepairEntry,
    RewindEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
)

NEAR_MESSAGES = 16
"""So far ahead a message that a repair kept is looked for: few are left out between two."""


@dataclass(frozen=True, slots=True)
class _Replaced:
    """The view before a compaction, and how many messages the view had right after it."""

    compaction: CompactionEntry
    before: tuple[Message, ...]
    after: int

    def shorten(self, after: int) -> _Replaced:
        """Return the same without the kept messages from `after` on: they were left out since."""
        end, gone = len(self.before), self.after - after
        while gone and end:
            end -= 1
            gone -= bool(_kept(self.before[end], self.compaction.drop_thinking))
        return _Replaced(self.compaction, self.before[:end], after)


@dataclass(slots=True)
class View:
    """What the model sees, entry by entry: the state of the fold.

    `turns` holds, for each user turn, how many open compactions there were when it began, and how
    many messages the view had. Within one compaction's life the view only grows, so the two numbers
    find the old view again without keeping a copy of it.
    """

    messages: list[Message] = field(default_factory=list)
    replaced: list[_Replaced] = field(default_factory=list)
    turns: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def in_force(self) -> frozenset[int]:
        """The numbers of the compactions that an undo can reach."""
        return frozenset(open_.compaction.n for open_ in self.replaced)

    def add(self, entry: Entry) -> None:
        """Take in one entry, which came right after the last."""
        match entry:
            case MessageEntry(message=message, kind=kind, turn=turn):
                if kind == "prompt":
                    self.turns.setdefault(turn, (len(self.replaced), len(self.messages)))
                self.messages.append(message)
            case CompactionEntry() as compaction:
                before = tuple(self.messages)
                self.messages = [compaction.message, *kept_messages(before, compaction)]
                self.replaced.append(_Replaced(compaction, before, len(self.messages)))
            case SummaryEditEntry(n=n, message=message, drop_thinking=drop_thinking):
                self._edit(n, message, drop_thinking)
            case SummaryUndoEntry(n=n, drop_thinking=drop_thinking):
                self._undo(n, drop_thinking)
            case RewindEntry(turn=turn):
                self._rewind(turn)
            case ExcludeEntry(messages=count):
                self._exclude(count)
            case RepairEntry(messages=messages):
                mended = _as_before(self.messages, messages)
                self.messages, self.replaced, self.turns = mended, [], {}
            case _:
                pass

    def _edit(self, n: int, message: Message, drop_thinking: bool) -> None:
        """Put `message` in place of the summary of compaction `n`, if it is not undone."""
        for index, open_ in enumerate(self.replaced):
            if open_.compaction.n != n:
                continue
            if index + 1 == len(self.replaced):
                self.messages = [message, *_bare(self.messages[1:], drop_thinking)]
            else:  # a later compaction took it out of the view: it comes back by an undo
                later = self.replaced[index + 1]
                before = (message, *_bare(later.before[1:], drop_thinking))
                self.replaced[index + 1] = replace(later, before=before)

    def _undo(self, n: int, drop_thinking: bool) -> None:
        if not self.replaced or self.replaced[-1].compaction.n != n:
            return
        last = self.replaced.pop()
        depth, since = len(self.replaced), list(last.before)
        moved = {}  # where a turn that began since the compaction begins now
        for index in range(last.after, len(self.messages)):
            moved[index] = len(since)
            kept = _kept(self.messages[index], drop_thinking)
            since += [kept] if kept else []
        moved[len(self.messages)] = len(since)
        self.messages = since
        self.turns = {
            turn: (depth, moved[length]) if opened > depth else (opened, length)
            for turn, (opened, length) in self.turns.items()
        }

    def _rewind(self, turn: int) -> None:
        if turn not in self.turns:
            return
        opened, length = self.turns[turn]
        view = self.replaced[opened].before if opened < len(self.replaced) else self.messages
        self.messages = list(view[:length])
        del self.replaced[opened:]
        self.turns = {n: began for n, began in self.turns.items() if n < turn}

    def _exclude(self, count: int) -> None:
        """Leave the newest `count` messages out; the summary the view begins with always stays."""
        least = 1 if self.replaced else 0
        end = max(least, len(self.messages) - max(0, count))
        del self.messages[end:]
        for index in reversed(range(len(self.replaced))):
            if end >= self.replaced[index].after:
                break
            self.replaced[index] = self.replaced[index].shorten(end)
            end = len(self.replaced[index].before)
        lengths = [*(len(open_.before) for open_ in self.replaced), len(self.messages)]
        self.turns = {
            turn: (opened, length)
            for turn, (opened, length) in self.turns.items()
            if length < lengths[opened]
        }


def build_view(entries: Iterable[Entry]) -> tuple[Message, ...]:
    """Return what the model sees: the newest summary, then every message it kept.

    Total: an empty transcript gives an empty view. Never edits or reorders an entry; a compaction,
    rewind, edit or undo that names nothing known changes nothing.
    """
    view = View()
    for entry in entries:
        view.add(entry)
    return tuple(view.messages)


def kept_messages(view: Sequence[Message], compaction: CompactionEntry) -> tuple[Message, ...]:
    """Return the messages of `view` that stay behind the compaction's summary, as they stay."""
    tail = view[max(0, compaction.drop_messages) :]
    kept = tuple(left for m in tail if (left := _kept(m, compaction.drop_thinking)))
    return tuple(map(without_images, kept)) if compaction.drop_images else kept


def _as_before(view: Sequence[Message], mended: Sequence[Message]) -> list[Message]:
    """Return `mended`, each message that stood in `view` being the very object that stood there.

    A session that was loaded has equal ones: what is known of a message by its object (a prompt, a
    reply's tokens) must be known of it there too.
    """
    found, at = [], 0
    for message in mended:
        near = range(at, min(at + NEAR_MESSAGES, len(view)))
        same = next((index for index in near if view[index] == message), None)
        found.append(message if same is None else view[same])
        at = at if same is None else same + 1
    return found


def _kept(message: Message, drop_thinking: bool) -> Message | None:
    """Return the message as it stays, without its thinking if `drop_thinking`; None if empty."""
    return without_thinking(message) if drop_thinking else message


def _bare(messages: Sequence[Message], drop_thinking: bool) -> Sequence[Message]:
    """Return as many messages, without their thinking if `drop_thinking` and there is more."""
    return [_kept(message, drop_thinking) or message for message in messages]
