"""`jupyter ctx export`: a stored session written to a file, without a kernel.

The session is only read, so it may be open in a live kernel meanwhile. The cells that the user ran
are known in their kernel alone; `/export` there has them too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import CtxError, StoreError

if TYPE_CHECKING:
    from ..store.metadata import SessionInfo
    from ..store.sessions import SessionStore

HELP = "write a stored session to a file"
TEXT = """\
Write a stored session to OUT: a notebook (.ipynb), Markdown (.md), or its lines (.jsonl).

SESSION is an id, or the notebook it belongs to; without one it is the newest of this folder.
A file that is there is left alone unless --force is given. Keys of the program are taken out, and
with JUPYTER_CTX_REDACT_KNOWN_KEYS=true whatever has the shape of a known key.
"""


def add_parser(commands: Any) -> None:
    """Add the command to those of `jupyter ctx` (what `add_subparsers` returned)."""
    parser = commands.add_parser(
        "export",
        help=HELP,
        description=TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("session", metavar="SESSION", nargs="?", help="an id or a notebook file")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=Path,
        help="the new file (default: a notebook in this folder, named after the title)",
    )
    parser.add_argument("--force", action="store_true", help="write over OUT if it is there")


def export(
    session: str | None,
    output: Path | None,
    force: bool,
    environ: Mapping[str, str],
    out: TextIO,
    err: TextIO,
) -> int:
    """Carry the command out; return its exit status: 0, or 1 with the reason on `err`."""
    try:
        lines = _export(session, output, force, environ, err)
    except (CtxError, RuntimeError) as error:  # RuntimeError: there is no home folder
        err.write(f"{error}\n")
        return 1
    out.write("\n".join(lines) + "\n")
    return 0


def _export(
    wanted: str | None, output: Path | None, force: bool, environ: Mapping[str, str], err: TextIO
) -> list[str]:
    from ..config import find_home, load_settings
    from ..export.files import find_free, name_of
    from ..export.writer import Writer
    from ..ipython.exports import describe, make_style
    from ..store.codec import entry_to_json
    from ..store.sessions import SessionStore
    from .source import load_source

    settings = load_settings({}, environ)
    info = _find(SessionStore(find_home(settings)), wanted)
    source = load_source(info.session_id, settings, environ, err)
    target = output or find_free(Path(name_of(source.redactor.text(info.title), ".ipynb")))
    made = Writer(entry_to_json, make_style()).save(source, target.absolute(), over=force)
    return describe(made, os.getcwd())


def _find(store: SessionStore, wanted: str | None) -> SessionInfo:
    """Return which session is meant. Raises StoreError if there is none."""
    infos = store.list()
    if wanted is None:
        here = os.getcwd()
        found = next((one for one in infos if one.cwd and _is_same(one.cwd, here)), None)
        if found is None:
            raise StoreError(
                f"There is no session of the folder {here}; `jupyter ctx sessions` lists all.",
                path=here,
            )
        return found
    by_id = (one for one in infos if one.session_id == wanted)
    by_notebook = (one for one in infos if one.notebook and _is_same(one.notebook, wanted))
    found = next(by_id, None) or next(by_notebook, None)
    if found is None:
        raise StoreError(f"There is no session {wanted!r}, and none of a notebook of that name.")
    return found


def _is_same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
