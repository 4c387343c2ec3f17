"""The transcripts of a session's sub-agents: `agents/<agent_id>/transcript.jsonl` in its folder.

Each holds the sub-agent's own entries only; it goes on from the session's own transcript, up to the
reply whose call of `task` has the sub-agent's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.entries import Entry
from ..errors import StoreError
from .files import make_folder, store_errors
from .jsonl import TRANSCRIPT, JsonlFile, load_entries
from .stored import file_stem

AGENTS = "agents"
"""The folder's name, in its session's folder."""


class MemoryAgent:
    """The transcript of a sub-agent that no disk holds."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def append(self, entry: Entry) -> None:
        """Add one entry."""
        self.entries.append(entry)

    def close(self) -> None:
        """Do nothing."""


def open_agent(folder: Path, agent_id: str) -> JsonlFile:
    """Begin the transcript of sub-agent `agent_id` in a session's folder.

    One that is there already (the id of a call that a server repeated) is gone on with. Raises
    StoreError.
    """
    path = find_transcript(folder, agent_id)
    with store_errors(path):
        make_folder(path.parent)
    return JsonlFile(path)


def load_agent(folder: Path, agent_id: str) -> Sequence[Entry]:
    """Return the entries of a sub-agent's transcript, as far as they can be read.

    Raises StoreError if there is none.
    """
    path = find_transcript(folder, agent_id)
    if not path.exists():
        raise StoreError(f"This session has no sub-agent {agent_id!r}.", path=str(path))
    return load_entries(path).entries


def find_transcript(folder: Path, agent_id: str) -> Path:
    """Return where the transcript of a sub-agent lies, there or not."""
    return folder / AGENTS / file_stem(agent_id) / TRANSCRIPT
