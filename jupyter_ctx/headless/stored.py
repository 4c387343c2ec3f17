"""`jupyter ctx sessions`, `show` and `doctor`: what is stored and what is set, without a kernel.

Sessions are only read, so they may be open in live kernels meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from ..errors import CtxError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..ipython.reports import Report
    from ..ipython.sessions import Shelf

T = TypeVar("T")

SESSIONS_TEXT = """\
List the stored sessions, the newest first, or those with every word of TEXT in one title or prompt.
"""
SHOW_TEXT = """\
Write a session's conversation to stdout, as Markdown.

SESSION is an id, or words of the title or a prompt of the one session that has them.
"""
DOCTOR_TEXT = "Look at everything a turn needs but the kernel: exit status 1 if something is wrong."
MOST = 1_000


def add_parsers(commands: Any) -> None:
    """Add the commands to those of `jupyter ctx` (what `add_subparsers` returned)."""
    sessions = _add(commands, "sessions", "list stored sessions, or find them", SESSIONS_TEXT)
    sessions.add_argument("text", metavar="TEXT", nargs="*", help="words to search for")
    sessions.add_argument("--full", action="store_true", help="search every message")
    acts = sessions.add_mutually_exclusive_group()
    acts.add_argument("--trash", action="store_true", help="list the deleted ones")
    acts.add_argument("--delete", metavar="ID", help="move a session to the trash for 30 days")
    acts.add_argument("--restore", metavar="ID", help="take a session out of the trash")
    show = _add(commands, "show", "write a stored conversation to stdout", SHOW_TEXT)
    show.add_argument(
        "session", metavar="SESSION", nargs="+", help="an id, or words of one session"
    )
    _add(commands, "doctor", "look for faults, and what to do about each", DOCTOR_TEXT)


def _add(commands: Any, name: str, summary: str, text: str) -> Any:
    form = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=summary, description=text, formatter_class=form)


def run(options: argparse.Namespace, environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Carry one of the commands out; return its exit status: 0, or 1 with the reason on `err`."""
    does = {"sessions": _sessions, "show": _show, "doctor": _doctor}[options.command]
    try:
        return does(options, environ, out, err)
    except (CtxError, RuntimeError) as error:  # RuntimeError: there is no home folder
        err.write(f"{error}\n")
        return 1


def _sessions(
    options: argparse.Namespace, environ: Mapping[str, str], out: TextIO, err: TextIO
) -> int:
    from ..ipython.sessions import sessions_report, trash_report

    shelf, text, now = _shelf(environ), " ".join(options.text), time.time()
    report: Report
    if options.delete is not None:
        shelf.delete(options.delete)
        out.write(f"Deleted: {options.delete}. --restore takes that back for 30 days.\n")
        return 0
    if options.restore is not None:
        out.write(f"Restored: {shelf.restore(options.restore).id}.\n")
        return 0
    if options.trash:
        report = trash_report(shelf.trashed(), now)
    else:
        listed = shelf.find(text, full=options.full, most=MOST)
        report = sessions_report(listed, now, text, full=options.full, hint=False)
    out.write(f"{report[1]}\n")
    return 0


def _show(options: argparse.Namespace, environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    from ..config import load_settings
    from ..export.items import read_conversation
    from ..export.markdown import build_markdown
    from ..ipython.exports import make_style
    from ..ipython.sessions import find_session
    from .source import load_source

    session_id = find_session(
        _shelf(environ),
        " ".join(options.session),
        "jupyter ctx sessions --full TEXT",
        "jupyter ctx show ID",
    )
    source = load_source(session_id, load_settings({}, environ), environ, err)
    made = build_markdown(source, read_conversation(source), make_style())
    out.write(made.decode("utf-8", "replace"))
    return 0


def _doctor(
    options: argparse.Namespace, environ: Mapping[str, str], out: TextIO, err: TextIO
) -> int:
    from ..config import load_settings
    from ..core.redact import Redactor, secrets_from
    from ..ipython.doctor import find_shell_faults
    from ..ipython.reports import doctor_report
    from ..models import make_model

    redactor = Redactor(secrets_from(environ))
    findings = find_shell_faults(
        lambda: load_settings({}, environ),
        lambda name: make_model(name, load_settings({}, environ), environ, redactor),
        _wait,
    )
    out.write(f"{redactor.text(doctor_report(findings)[1])}\n")
    return 1 if any(finding.level == "fault" for finding in findings) else 0


def _wait(start: Callable[[], Awaitable[T]]) -> T:
    async def wait() -> T:
        return await start()

    return asyncio.run(wait())


def _shelf(environ: Mapping[str, str]) -> Shelf:
    from ..config import find_home, load_settings
    from ..ipython.sessions import Shelf
    from ..store.sessions import SessionStore

    return Shelf(SessionStore(find_home(load_settings({}, environ))), None)
