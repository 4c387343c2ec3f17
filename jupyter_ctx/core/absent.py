"""Ports of what a session may do without: hooks, memory, and a workspace beside the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Json
from .ports import EditedFile, HookName, HookOutcome, PlanItem, Skill


class NoHooks:
    """No hook is set."""

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Return an outcome that decides nothing."""
        return HookOutcome()


class NoMemory:
    """Nothing is kept across sessions."""

    is_on = False

    async def add(self, facts: Sequence[str]) -> Sequence[str]:
        """Keep nothing."""
        return ()


class NoWorkspace:
    """There is neither plan nor skill nor edited file."""

    async def load_plan(self) -> Sequence[PlanItem]:
        """Return no plan."""
        return ()

    async def load_skills(self) -> Sequence[Skill]:
        """Return no skill."""
        return ()

    async def load_files(self) -> Sequence[EditedFile]:
        """Return no file."""
        return ()
