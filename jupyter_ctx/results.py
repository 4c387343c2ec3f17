"""What a turn gave, what a session's store holds, and tool results as users read them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from .core.blocks import Image, Json, ToolResult
from .core.ports import Store
from .core.transcript import Transcript
from .core.usage import Usage
from .errors import StoreError


class StoredResult(Protocol):
    """A result as it is stored."""

    @property
    def outputs(self) -> Sequence[Json]:
        """Its nbformat outputs."""
        ...


class SessionFile(Store, Protocol):
    """Where one session lives, with what is read back from it. All of it raises StoreError."""

    def read_text(self, name: str) -> str:
        """Return a stored text: of a `tool_use` id, `prompt-<turn>` or `turn-<n>`."""
        ...

    def open_text(self, name: str) -> TextIO:
        """Return the same as a stream, its newlines as they are."""
        ...

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a stored result."""
        ...

    def update_metadata(
        self,
        *,
        title: str,
        model: str,
        tokens: int,
        cost: float | None,
        updated: float,
        turns: int,
    ) -> None:
        """Keep what a list of sessions shows."""
        ...


@dataclass(frozen=True, slots=True)
class TurnResult:
    """A finished turn: the last text the model wrote, the cells it changed, usage, stop reason.

    `outcome` is done, stopped or failed; `error` is the sentence when it failed.
    """

    text: str
    cells: tuple[str, ...]
    usage: Usage
    stop_reason: str
    outcome: str = "done"
    error: str | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Result:
    """One tool result: its whole text, its nbformat outputs, and where the text lies (or None)."""

    text: str
    outputs: tuple[Json, ...]
    path: str | None


class Results(Mapping[str, Result]):
    """Tool results by id, read where they lie; an offloaded one that is gone raises StoreError."""

    def __init__(self, transcript: Transcript, store: SessionFile) -> None:
        self._transcript = transcript
        self._store = store

    def __getitem__(self, tool_use_id: str) -> Result:
        fate = self._transcript.fates.get(tool_use_id)
        if fate is None:
            raise KeyError(tool_use_id)
        outputs = self.outputs(tool_use_id)
        if fate.fate == "offload":
            return Result(self._store.read_text(tool_use_id), outputs, fate.path)
        return Result(_plain(self._transcript.results[tool_use_id]), outputs, None)

    def outputs(self, tool_use_id: str) -> tuple[Json, ...]:
        """Return a result's outputs, () of one that is all text; its text is not read.

        Raises KeyError if there is no such result, StoreError if an offloaded one is gone.
        """
        fate = self._transcript.fates[tool_use_id]
        try:
            return tuple(self._store.read_result(tool_use_id).outputs)
        except StoreError:
            if fate.fate == "offload":
                raise
            return ()  # a result that is all text has no file

    def open_text(self, tool_use_id: str) -> TextIO:
        """Return a result's text as a stream: a large one is not read whole.

        Raises KeyError if there is no such result, StoreError if its text is gone.
        """
        if self._transcript.fates[tool_use_id].fate == "offload":
            return self._store.open_text(tool_use_id)
        return io.StringIO(_plain(self._transcript.results[tool_use_id]), newline="")

    def __iter__(self) -> Iterator[str]:
        return iter(self._transcript.fates)

    def __len__(self) -> int:
        return len(self._transcript.fates)


def _plain(result: ToolResult) -> str:
    return "\n\n".join(
        f"[{block.media_type}, {block.width_px} × {block.height_px} pixels]"
        if isinstance(block, Image)
        else block.text
        for block in result.content
    )
