"""`jupyter ctx lab`: JupyterLab on a folder or a notebook, with the agent's panel open."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

QUICK_START = "01_first_turn.ipynb"
PAGE_OPTION = "jupyterCtxPanel"
"""The option of JupyterLab's page that opens the panel; labextension/src/index.ts reads it."""


def start(
    target: Path | None,
    arguments: Sequence[str],
    stdout: TextIO,
    stderr: TextIO,
    become: Callable[[str, list[str]], object] = os.execv,
) -> int:
    """Become JupyterLab on `target`, a folder or a notebook; None: on the quick-start.

    That is copied into the current folder if it is not there. `arguments` go to JupyterLab. Returns
    2, with the reason on stderr, if nothing could be started.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        print("JupyterLab is not installed: pip install jupyterlab ipykernel", file=stderr)
        return 2
    try:
        command = build_command(target or put_quick_start(Path.cwd(), stdout), arguments)
    except OSError as error:
        print(f"jupyter ctx lab: {error}", file=stderr)
        return 2
    stdout.flush()
    become(command[0], command)
    return 0


def build_command(target: Path, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs JupyterLab on `target`.

    Raises FileNotFoundError if it is not there.
    """
    if not target.exists():
        raise FileNotFoundError(f"{target} does not exist.")
    path = target.resolve()
    folder = path if path.is_dir() else path.parent
    url = "/lab" if path.is_dir() else f"/lab/tree/{path.name}"
    return [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url={url}",
        f"--ServerApp.tornado_settings={{'page_config_data': {{'{PAGE_OPTION}': 'true'}}}}",
        *arguments,
    ]


def put_quick_start(folder: Path, stdout: TextIO) -> Path:
    """Copy the quick-start into `folder` unless it is there, and return its path.

    Raises OSError if it cannot be written, or is not in this installation.
    """
    path = folder / QUICK_START
    if path.exists():
        return path
    for source in _places():
        if source.exists():
            shutil.copyfile(source, path)
            print(f"Wrote {QUICK_START} into this folder.", file=stdout)
            return path
    raise FileNotFoundError(f"{QUICK_START} is not in this installation: name a folder.")


def _places() -> list[Path]:
    """Where the quick-start may lie: in Jupyter's data folders, and in a work tree."""
    from jupyter_core.paths import jupyter_path

    shared = [Path(path) / QUICK_START for path in jupyter_path("jupyter-ctx")]
    return [*shared, Path(__file__).parent.parent / "notebooks" / QUICK_START]
