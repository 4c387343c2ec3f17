"""What a session's store holds, and a session's tool results as users read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .core.blocks import Image, Json, ToolResult
from .core.ports import Store
from .core.transcript import Transcript
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

    def read_result(self, tool_use_id: str) -> StoredResult:
        """Return a stored result."""
        ...

    def update_metadata(
        self, *, title: str, model: str, tokens: int, cost: float | None, updated: float
    ) -> None:
        """Keep what a list of sessions shows."""
        ...


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
        if fate.fate == "offload":
            outputs = tuple(self._store.read_result(tool_use_id).outputs)
            return Result(self._store.read_text(tool_use_id), outputs, fate.path)
        try:
            outputs = tuple(self._store.read_result(tool_use_id).outputs)
        except StoreError:
            outputs = ()  # a result that is all text has no file
        return Result(_plain(self._transcript.results[tool_use_id]), outputs, None)

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
