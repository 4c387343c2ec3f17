"""What comes back of the project after a compaction: the files the agent edited, as they are now.

Which ones these are the transcript says, so a resumed session knows them too. Implements
core.ports.Workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ..core.absent import NoWorkspace
from ..core.edits import open_edits
from ..core.ports import EditedFile
from ..core.transcript import Transcript
from ..errors import ToolError
from ..tools.filestate import MOST_BYTES, load
from ..tools.filetypes import decode
from ..tools.project import Project

MOST_READ = 50
"""So many files, the last edited ones, are read; of the others only the names come back."""

GONE = "it is no longer there"
OUTSIDE = "it lies outside this project"
UNREADABLE = "it cannot be read as text now"


class ProjectWorkspace(NoWorkspace):
    """The edited files of `project`. `transcript` gives the session's, at the time of asking."""

    def __init__(self, project: Project, transcript: Callable[[], Transcript]) -> None:
        self._project = project
        self._transcript = transcript

    async def load_files(self) -> Sequence[EditedFile]:
        """Return the files with an edit that is not undone, the last one edited first."""
        edited: dict[str, float] = {}
        for entry in open_edits(self._transcript()):
            if entry.edit.kind == "file":
                edited.setdefault(entry.edit.target, entry.at)
        return await asyncio.to_thread(self._read_all, list(edited.items()))

    def _read_all(self, edited: Sequence[tuple[str, float]]) -> list[EditedFile]:
        return [self._read(path, at, n < MOST_READ) for n, (path, at) in enumerate(edited)]

    def _read(self, path: str, at: float, is_wanted: bool) -> EditedFile:
        """Return one file as it is now; what is in the way of its text is its fault."""
        try:
            place = self._project.find(path)
        except ToolError:
            return EditedFile(path, "", at, OUTSIDE)
        try:
            found = load(self._project, place) if is_wanted else None
        except ToolError:
            return EditedFile(place.name, "", at, UNREADABLE)
        if found is None:
            return EditedFile(place.name, "", at, GONE if is_wanted else "")
        text = decode(found.data)
        if text is None and len(found.data) <= MOST_BYTES:
            return EditedFile(place.name, "", at, UNREADABLE)
        # Of one that is too large the beginning will do: it is named only.
        shown = found.data.decode("utf-8", "replace") if text is None else text.shown
        return EditedFile(place.name, shown, at)
