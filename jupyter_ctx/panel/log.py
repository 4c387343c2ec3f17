"""What the panel was told since the extension was loaded: numbered, coalesced, kept for `open`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .wire import Item, coalesce, is_delta, valid

EVERY_S = 0.04
"""Deltas are sent at most so often: often enough to read along, seldom enough for a slow page."""

KEPT_TURNS = 30
"""So many turns are kept as they were told; older ones are told from what is stored."""

_PASSING = frozenset(
    (
        "session",
        "queued",
        "unqueued",
        "question",
        "question_closed",
        "rewound",
        "cleared",
        "kernel_awaited",
    )
)
"""What is true now and not of a turn: `open` tells it otherwise."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was told before item `seq`: of each turn kept, its items."""

    seq: int
    turns: Mapping[int, Sequence[Item]]


class PanelLog:
    """The items of one load of the extension, called `epoch`. May be used from any thread.

    `send` gets messages for all pages, in order. `later` has a function called in some seconds and
    returns False where nothing can; then deltas are sent at once.
    """

    def __init__(
        self,
        epoch: str,
        send: Callable[[Mapping[str, object]], None],
        later: Callable[[Callable[[], None], float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = epoch
        self._send = send
        self._later = later
        self._clock = clock
        self._lock = threading.RLock()
        self._seq = 0
        self._waiting: list[Item] = []
        self._is_due = False
        self._sent_at = float("-inf")
        self._turns: dict[int, list[Item]] = {}
        self._turn: int | None = None

    def add(self, item: Item) -> None:
        """Tell an item: at once, or, if it is a delta, within 40 ms."""
        item = {name: valid(value) for name, value in item.items()}
        with self._lock:
            self._waiting.append(item)
            left = self._sent_at + EVERY_S - self._clock()
            if not is_delta(item) or left <= 0:
                self._flush()
            elif not self._is_due:
                self._is_due = self._later(self._come_due, left)
                if not self._is_due:
                    self._flush()

    @property
    def seq(self) -> int:
        """The number of the next item that is sent."""
        return self._seq

    def flush(self) -> None:
        """Tell what waits."""
        with self._lock:
            self._flush()

    def snapshot(self) -> Snapshot:
        """Return what was told, nothing left waiting."""
        with self._lock:
            self._flush()
            turns = {turn: tuple(coalesce(items)) for turn, items in self._turns.items()}
            return Snapshot(self._seq, turns)

    def forget(self, from_turn: int = 0) -> None:
        """Keep nothing of turn `from_turn` and later ones: they are no part of the conversation."""
        with self._lock:
            self._flush()
            self._turns = {n: items for n, items in self._turns.items() if n < from_turn}
            self._turn = max(self._turns, default=None)

    def _come_due(self) -> None:
        with self._lock:
            self._is_due = False
            self._flush()

    def _flush(self) -> None:
        items, self._waiting = coalesce(self._waiting), []
        if not items:
            return
        message = {"version": 1, "type": "panel", "epoch": self.epoch, "seq": self._seq}
        self._seq += len(items)
        self._sent_at = self._clock()
        self._keep(items)
        self._send({**message, "items": items})

    def _keep(self, items: Iterable[Item]) -> None:
        for item in items:
            kind = item["kind"]
            if kind == "turn_started":
                turn = item["turn"]
                assert isinstance(turn, int)
                self._turn, self._turns[turn] = turn, []
                while len(self._turns) > KEPT_TURNS:
                    del self._turns[min(self._turns)]
            if self._turn is not None and kind not in _PASSING:
                kept = self._turns[self._turn]
                _drop_replaced(kept, item)
                kept.append(item)


def _drop_replaced(kept: list[Item], item: Item) -> None:
    """Drop what an item makes needless: the deltas of a finished text, the tail of a done tool.

    They lie behind the beginning of the step or of the tool: no more is looked at.
    """
    match item["kind"]:
        case "text_finished":
            gone, key, begins = "text_delta", "block", "step_started"
        case "tool_output" | "tool_finished":
            gone, key, begins = "tool_output", "tool_use_id", "tool_started"
        case _:
            return
    at = len(kept)
    while at > 0 and kept[at - 1]["kind"] != begins:
        at -= 1
    kept[at:] = [one for one in kept[at:] if one["kind"] != gone or one[key] != item[key]]
