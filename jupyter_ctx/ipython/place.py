"""Where the kernel is: its notebook, its folder, the cell that runs."""

from __future__ import annotations

import contextvars
import datetime
import os
import platform
from collections.abc import Mapping
from typing import Any

asking_page: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "asking_page", default=None
)
"""The client that asked for the turn this context is part of, where no cell did."""


def find_notebook(namespace: Mapping[str, object], environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of the kernel's notebook, None if nobody says.

    It is what the server says (`JPY_SESSION_NAME`), else VS Code (`__vsc_ipynb_file__`). The file
    need not exist. A relative path counts from the kernel's folder.
    """
    named = environ.get("JPY_SESSION_NAME") or namespace.get("__vsc_ipynb_file__")
    if not isinstance(named, str) or not named.strip():
        return None
    return os.path.abspath(named)


def find_cell_id(shell: Any) -> str:
    """Return the front end's id of the running cell, else `in-N` with N of its In[N]."""
    get_parent = getattr(shell, "get_parent", None)
    parent = get_parent() if get_parent is not None else None
    if isinstance(parent, Mapping):
        metadata = parent.get("metadata")
        found = metadata.get("cellId") if isinstance(metadata, Mapping) else None
        if isinstance(found, str) and found:
            return found
    return f"in-{shell.execution_count - 1}"


def find_asker(shell: Any) -> tuple[str | None, str | None]:
    """Return the client that asked for the running cell, and the front end's id of that cell.

    A page is one client of the kernel for each notebook it shows. None: nobody says.
    """
    if (page := asking_page.get()) is not None:
        return page, None
    get_parent = getattr(shell, "get_parent", None)
    parent = get_parent() if get_parent is not None else None
    if not isinstance(parent, Mapping):
        return None, None
    header, metadata = parent.get("header"), parent.get("metadata")
    client = header.get("session") if isinstance(header, Mapping) else None
    cell_id = metadata.get("cellId") if isinstance(metadata, Mapping) else None
    return (
        client if isinstance(client, str) and client else None,
        cell_id if isinstance(cell_id, str) and cell_id else None,
    )


def find_folder() -> str:
    """Return the working folder, "" if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def describe_platform() -> str:
    """Return the system in a few words: "Linux-6.1 x86_64, Python 3.11.7"."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{system}, Python {platform.python_version()}"


def today() -> str:
    """Return the date, as in 2026-11-30."""
    return datetime.date.today().isoformat()
