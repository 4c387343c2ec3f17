"""A notebook agent whose context is managed in the kernel: `%load_ext jupyter_ctx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .config import Settings
    from .session import Session

__all__ = [
    "Session",
    "Settings",
    "__version__",
    "current_session",
    "load_ipython_extension",
    "unload_ipython_extension",
]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Put `%agent` into the shell. Silent; no network, no thread."""
    from .ipython.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take it out again: the shell is as it was before."""
    from .ipython.extension import unload

    unload(shell)


def current_session() -> Session | None:
    """Return the kernel's session, None before the first turn."""
    from .ipython.extension import current_session as current

    return current()


def __getattr__(name: str) -> Any:
    """Import `Session` and `Settings` when they are asked for."""
    if name == "Session":
        from .session import Session

        return Session
    if name == "Settings":
        from .config import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
