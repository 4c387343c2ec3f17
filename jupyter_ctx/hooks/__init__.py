"""The user's hooks that are commands: read from settings, run as child processes."""

from __future__ import annotations

from .commands import HookCommands
from .entries import Hook, read_hooks

__all__ = ["Hook", "HookCommands", "read_hooks"]
