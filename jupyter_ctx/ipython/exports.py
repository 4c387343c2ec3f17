"""`/export`: where the file goes, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.blocks import title_of
from ..errors import PromptError
from . import words
from .markdown import escape, fence, safe_markdown

if TYPE_CHECKING:
    from ..export.forms import Style
    from ..export.source import Exported
    from ..session import Session
    from .commands import Host, Shown


@dataclass(frozen=True, slots=True)
class Folders:
    """Where exports may go: `here`, the notebook's own folder, and all below the `roots`."""

    here: str
    roots: Sequence[str]


def make_style() -> Style:
    """Return how text of others becomes Markdown in which nothing acts."""
    from ..export.forms import Style

    return Style(safe_markdown, escape, fence)


def run_export(host: Host, argument: str) -> Shown:
    """Write the session to the file named, by default one named after its title."""
    from .commands import Shown

    session, folders = host.session, host.export_folders
    exported = session.export(find_target(argument, session, folders))
    lines = describe(exported, folders.here)
    return Shown("  \n".join(map(escape, lines)), "\n".join(lines))


def find_target(argument: str, session: Session, folders: Folders) -> Path:
    """Return the path that `argument` names, counted from the notebook's folder.

    Without one, or with only a folder, it is the first free name made of the title. Raises
    PromptError: there is no such folder, it is no folder of the user's, or a hidden one.
    """
    from ..export.files import find_free, name_of

    named = argument.strip()
    if len(named) > 1 and named[0] == named[-1] and named[0] in "'\"":
        named = named[1:-1]
    path = Path(os.path.abspath(os.path.join(folders.here, os.path.expanduser(named))))
    if path.is_dir():
        prompts = session.transcript.prompts.values()
        title = next(filter(None, map(title_of, prompts)), "")
        path = find_free(path / name_of(title, ".ipynb"))
    _check_folder(path, folders)
    return path


def _check_folder(path: Path, folders: Folders) -> None:
    """Raise PromptError unless the file would lie in a folder of the user's, links followed."""
    if not path.parent.is_dir():
        raise PromptError(f"There is no folder {path.parent}; make it first, or name another.")
    real = os.path.join(os.path.realpath(path.parent), path.name)
    inside = [root for root in map(os.path.realpath, folders.roots) if _is_in(real, root)]
    if not inside:
        raise PromptError(
            f"{path} lies outside of your folders ({', '.join(folders.roots)}); "
            "name a file in one of them."
        )
    parts = os.path.relpath(real, max(inside, key=len)).split(os.sep)
    if any(part.startswith(".") for part in parts):
        raise PromptError(f"{path} would be a hidden file, or in a hidden folder; name another.")


def _is_in(path: str, root: str) -> bool:
    return os.path.commonpath([path, root]) == root


def describe(exported: Exported, folder: str) -> list[str]:
    """Return what was written, in sentences; the file is named from `folder` if it lies in it."""
    path = str(exported.path)
    name = os.path.relpath(path, folder) if _is_in(path, os.path.abspath(folder)) else path
    prompts = words.count(exported.prompts, "prompt")
    cells = words.count(exported.code_cells, "piece") + " of code"
    lines = [f"Exported to {name}: {prompts}, {cells} with outputs."]
    if exported.unrunnable:
        said = words.count(exported.unrunnable, "piece")
        lines.append(f"{said} of code never ran to the end, and so stands there as text.")
    return lines
