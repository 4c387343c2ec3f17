"""The shell command `jupyter ctx`: thin; what a subcommand needs is imported when it runs."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ._version import __version__
from .headless.export import add_parser as add_export
from .headless.stored import add_parsers as add_stored

RUN_HELP = "one prompt to the agent on a notebook file, without a person"
RUN_TEXT = """\
Ask the agent once, on a notebook file, with nobody there.

The notebook itself is never changed. A new one is written: its cells, the prompt with the
answer, and the cells the agent made, run, with their outputs; and the transcript beside it
(NAME.transcript.jsonl). The answer goes to stdout, everything else to stderr.

The notebook's cells are not run before, unless --execute asks for it.
Nobody can be asked for permission here, so by default code and edits are denied, and the answer
says so: --permissions auto lets the agent act. Model and keys come from the environment
(ANTHROPIC_API_KEY, JUPYTER_CTX_MODEL, ...); with none the built-in demo model answers.
With JUPYTER_CTX_RERUN=replay the same prompt again on the same OUT shows the stored answer.
"""
RUN_END = """\
Ctrl-C stops the agent, and what there is is written; twice kills the kernel.
Exit status: 0 done; 1 failed or stopped, with the reason on stderr; 2 unusable input."""

LAB_HELP = "JupyterLab with the agent's panel open"
LAB_TEXT = """\
Start JupyterLab with the agent's panel open: on DIR, on a notebook, or on the quick-start.

Without DIR the quick-start notebook is copied into this folder, if it is not there, and opened.
All other arguments go to JupyterLab (--no-browser, --port 9000, ...).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: this process's) and return the exit status."""
    parser = build_parser()
    options, others = parser.parse_known_args(argv)
    if options.command == "lab":
        from .lab import start

        return start(options.target, others, sys.stdout, sys.stderr)
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if options.command == "export":
        from .headless.export import export

        given = (options.session, options.output, options.force)
        return export(*given, os.environ, sys.stdout, sys.stderr)
    if options.command in ("sessions", "show", "doctor"):
        from .headless import stored

        return stored.run(options, os.environ, sys.stdout, sys.stderr)
    from .headless.plan import Options
    from .headless.run import run

    return run(
        Options(
            notebook=options.notebook,
            prompt=options.prompt,
            output=options.output,
            model=options.model,
            permissions=options.permissions,
            kernel=options.kernel,
            timeout_s=options.timeout,
            execute=options.execute,
            force=options.force,
        ),
        os.environ,
        sys.stdout,
        sys.stderr,
    )


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `jupyter ctx`; it exits with status 2 on a wrong command line."""
    parser = argparse.ArgumentParser(
        prog="jupyter ctx", description="The notebook agent of jupyter_ctx, from the shell."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help=RUN_HELP,
        description=RUN_TEXT,
        epilog=RUN_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("notebook", metavar="NOTEBOOK", type=Path, help="the notebook file, .ipynb")
    run.add_argument("--prompt", metavar="TEXT", required=True, help="what the agent should do")
    run.add_argument(
        "-o",
        "--output",
        metavar="OUT.ipynb",
        type=Path,
        help="the new notebook (default: NAME.agent.ipynb beside the notebook); the agent's file "
        "tools work in the folder or repository that holds it",
    )
    run.add_argument("--force", action="store_true", help="write over OUT.ipynb if it is there")
    run.add_argument("--execute", action="store_true", help="run all code cells first")
    run.add_argument("--model", metavar="NAME", help="the model (default: as set, see above)")
    run.add_argument(
        "--permissions",
        metavar="MODE",
        choices=("ask", "edits", "auto", "plan"),
        help="ask (default, if none is set): code and edits are denied; edits: cells and files "
        "may be edited; auto: all is allowed but writing guarded files; plan: only reading",
    )
    run.add_argument(
        "--timeout",
        metavar="S",
        type=_seconds,
        default=0.0,
        help="stop the agent after so many seconds (default 0: never)",
    )
    run.add_argument(
        "--kernel", metavar="NAME", help="the kernel (default: the notebook's own, else python3)"
    )
    add_export(commands)
    add_stored(commands)
    lab = commands.add_parser(
        "lab",
        help=LAB_HELP,
        description=LAB_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    lab.add_argument(
        "target",
        metavar="DIR",
        type=Path,
        nargs="?",
        help="a folder or a notebook (default: the quick-start, which is copied here)",
    )
    return parser


def _seconds(text: str) -> float:
    """Return a time in seconds. Raises ArgumentTypeError if the text is none."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
