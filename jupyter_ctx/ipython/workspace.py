"""What comes back of the project after a compaction: the plan, and the files the agent edited.

What the plan is and which files these are the transcript says, so a resumed session knows it too.
Implements core.ports.Workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ..core.absent import NoWorkspace
from ..core.blocks import ToolUse
from ..core.edits import open_edits
from ..core.entries import MessageEntry
from ..core.ports import EditedFile, PlanItem, Skill
from ..core.transcript import Transcript
from ..errors import ToolError
from ..tools.filestate import MOST_BYTES, load
from ..tools.filetypes import decode
from ..tools.project import Project
from ..tools.skills import Loadable

MOST_READ = 50
"""So many files, the last edited ones, are read; of the others only the names come back."""

GONE = "it is no longer there"
OUTSIDE = "it lies outside this project"
UNREADABLE = "it cannot be read as text now"


class ProjectWorkspace(NoWorkspace):
    """The edited files of `project`. `transcript` gives the session's, at the time of asking.

    `skills` gives the skills in force then.
    """

    def __init__(
        self,
        project: Project,
        transcript: Callable[[], Transcript],
        skills: Callable[[], Sequence[Loadable]] = tuple,
    ) -> None:
        self._project = project
        self._transcript = transcript
        self._skills = skills

    async def load_skills(self) -> Sequence[Skill]:
        """Return the skills that were loaded and are in force, the last one loaded first."""
        names = skills_in_use(self._transcript())
        known = await asyncio.to_thread(self._skills) if names else ()
        texts = {one.name: one.text for one in known}
        return [Skill(name, texts[name]) for name in names if name in texts]

    async def load_plan(self) -> Sequence[PlanItem]:
        """Return the plan in order; empty: there is none."""
        plan = self._transcript().plan
        return () if plan is None else plan.items

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


def skills_in_use(transcript: Transcript) -> list[str]:
    """Return the names of the skills that were loaded, the last one loaded first.

    Loads of turns that were rewound, and those that failed, do not count.
    """
    names: dict[str, None] = {}
    for entry in reversed(transcript.entries):
        if not isinstance(entry, MessageEntry) or entry.turn not in transcript.prompts:
            continue
        for block in reversed(entry.message.content):
            if isinstance(block, ToolUse) and block.name == "skill":
                result = transcript.results.get(block.id)
                if result is not None and not result.is_error:
                    names.setdefault(str(block.input.get("name")))
    return list(names)
