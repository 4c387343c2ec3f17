"""Looks at a project's folder for the model: at a session's start, and before each prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from . import git
from .describe import Around, build_around, build_sections
from .folder import Folder
from .offers import Offer

ROOM_SHARE = 0.10
"""What skills and context files may take of the window, in the system prompt."""
CHARS_PER_TOKEN = 3
MOST_CHARS = 120_000
"""… and at most so many characters; with a window that is not known a third of it."""


class FolderWatch:
    """Tells of the project's folder.

    `find_folder` gives it, at the time of asking; `window_tokens` the model's context window, None
    if it is not known; `environ` the kernel's environment, of which git gets the least.
    """

    def __init__(
        self,
        find_folder: Callable[[], Folder],
        window_tokens: Callable[[], int | None],
        environ: Mapping[str, str],
        redact: Callable[[str], str],
    ) -> None:
        self._find_folder = find_folder
        self._window_tokens = window_tokens
        self._environ = environ
        self._redact = redact
        self._is_late = False

    async def connect(self) -> Sequence[str]:
        """Say to the user what of this folder is not trusted; a connector for SessionStart."""
        return await asyncio.to_thread(self._warn)

    async def describe(self) -> str:
        """Return the sections of the system prompt; a describer for SessionStart."""
        return build_sections(await asyncio.to_thread(self.look))

    def look(self) -> Around:
        """Return what is told as things stand now. Blocks: for another than the main thread."""
        folder = self._find_folder()
        offers = folder.offers()
        return build_around(
            self._ask_git(folder, offers),
            offers,
            folder.skills(),
            folder.context_files(),
            self._room(),
            self._redact,
        )

    def _warn(self) -> list[str]:
        folder = self._find_folder()
        waiting = [one for one in folder.offers() if not one.is_trusted and one.kind != "git"]
        said = [folder.fault] if folder.fault else []
        if waiting:
            said.append(f"Not in force here: {count_kinds(waiting)}. `/trust` shows and allows it.")
        return said

    def _ask_git(self, folder: Folder, offers: Sequence[Offer]) -> git.Repository | None:
        """Ask git where it may run; once it took too long, only the branch is read."""
        found = [one for one in offers if one.kind == "git"]
        if not found:
            return None
        if self._is_late or not any(one.is_trusted for one in found):
            return git.Repository(git.read_branch(folder.root))
        repository = git.ask(folder.root, self._environ)
        self._is_late = repository.is_late
        return repository

    def _room(self) -> int:
        window = self._window_tokens()
        if not window:
            return MOST_CHARS // 3
        return min(MOST_CHARS, int(ROOM_SHARE * window * CHARS_PER_TOKEN))


KIND_NAMES = {
    "settings": ("settings file", "settings files"),
    "hooks": ("set of hooks", "sets of hooks"),
    "mcpServers": ("set of MCP servers", "sets of MCP servers"),
    "context": ("context file", "context files"),
    "skill": ("skill", "skills"),
    "git": ("git configuration", "git configurations"),
}


def count_kinds(offers: Sequence[Offer]) -> str:
    """Return how many offers of each kind there are: "2 skills, 1 context file"."""
    counts: dict[str, int] = {}
    for one in offers:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    return ", ".join(f"{n:,} {KIND_NAMES[kind][n > 1]}" for kind, n in counts.items())
