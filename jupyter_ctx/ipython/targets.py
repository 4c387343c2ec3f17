"""What a call would act on, looked at as it stands now, for the question and for the rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..core.absent import NoNotebook
from ..core.blocks import ToolUse
from ..core.entries import Entry
from ..core.ports import Notebook, NotebookState, ToolSpec
from ..errors import ToolError
from ..tools.filestate import load
from ..tools.project import Project
from ..tools.seen import Seen
from .asked import Asked, FileNow, ask_of_cell, ask_of_file, ask_plainly, given_path, group_of
from .rules import find_made, kind_of


@dataclass(frozen=True, slots=True)
class Targets:
    """Looks at cells and files. `entries` gives the transcript, which tells what the agent made.

    `redact` takes the program's own keys out of what is shown: a question is saved with the
    notebook. `seen` is told which source the user is asked to let run. Without a project nothing is
    known of a file, so every write of one asks.
    """

    notebook: Notebook = field(default_factory=NoNotebook)
    project: Project | None = None
    entries: Callable[[], Iterable[Entry]] = tuple
    redact: Callable[[str], str] = str
    seen: Seen = field(default_factory=Seen)

    async def look(self, use: ToolUse, spec: ToolSpec) -> Asked:
        """Return the call as it is asked about, its target as it stands now."""
        asked = await self._look(use, spec)
        return replace(asked, title=self.redact(asked.title), text=self.redact(asked.text))

    async def _look(self, use: ToolUse, spec: ToolSpec) -> Asked:
        verb = group_of(spec)
        if kind_of(verb) == "file":
            return await self._look_at_file(use, spec)
        if kind_of(verb) == "cell" or verb == "insert cells":
            state = await self.notebook.load()
            if verb == "run cells":
                self._note_source(state, use.input.get("cell_id"))
            return ask_of_cell(use, spec, state, find_made(self.entries()))
        return ask_plainly(use, spec)

    def _note_source(self, state: NotebookState, cell_id: object) -> None:
        cell = next((cell for cell in state.cells if cell.id == cell_id), None)
        if cell is not None:
            self.seen.note_asked(cell.id, cell.source)

    async def _look_at_file(self, use: ToolUse, spec: ToolSpec) -> Asked:
        path = given_path(use)
        if self.project is None:
            asked = ask_plainly(use, spec)
            return replace(asked, act=replace(asked.act, always_asks=True))
        if path is None:
            return ask_plainly(use, spec)
        try:
            now = await asyncio.to_thread(_read, self.project, path)
        except ToolError:  # the tool will refuse the path in its own words
            return ask_plainly(use, spec)
        return ask_of_file(use, spec, now, find_made(self.entries()))


def _read(project: Project, path: str) -> FileNow:
    """Return the file as it stands. Raises ToolError if the path names none of the project."""
    place = project.find(path)
    asks = project.must_ask(path)
    try:
        loaded = load(project, place)
        text = None if loaded is None else loaded.text.shown
    except ToolError as error:
        return FileNow(place.path, place.name, None, str(error).rstrip("."), asks)
    return FileNow(place.path, place.name, text, "", asks)
