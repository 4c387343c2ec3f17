"""One prompt to the agent on a notebook file: a new notebook, its transcript, an exit status.

The new notebook is that of the session: opened later, it goes on with the same conversation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from ..errors import ConfigError, CtxError
from ..ipython.plaintext import plain
from ..store.sessions import transcript_file
from .documents import DocumentError, save_document, save_text
from .front import Front, KernelGoneError, Ran, Stop, start
from .page import NotebookPage
from .plan import LOAD, InputError, Options, Plan, is_agent_cell, make_plan
from .told import HINT, Told

DONE, FAILED, USAGE = 0, 1, 2
MODE = "__import__('jupyter_ctx.ipython.extension', fromlist=['x']).permission_mode()"
"""The kernel is asked: cells and IPython's own configuration may have set it too."""


def run(options: Options, environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Do it; return the exit status: 0 done, 1 failed or stopped, 2 unusable input."""
    try:
        plan = make_plan(options, environ)
    except (InputError, DocumentError, ConfigError) as error:
        print(error, file=err)
        return USAGE
    if plan.replays:
        print(plain(plan.answer or "").strip(), file=out, flush=True)
        kept = f"{plan.output} is as it was (setting rerun = replay)."
        print(f"Stored answer: this prompt was answered before; {kept}", file=err)
        return DONE
    return Task(plan, out, err).run()


class Task:
    """One run of a plan."""

    def __init__(self, plan: Plan, out: TextIO, err: TextIO) -> None:
        self._plan = plan
        self._out = out
        self._err = err
        self._page = NotebookPage(plan.document["cells"], str(plan.output))
        self._stop = Stop()
        self._session_id: str | None = None
        self._faults: list[str] = []

    def run(self) -> int:
        """Run it in a new kernel, and write what came of it; return the exit status."""
        plan = self._plan
        has_begun = False
        try:
            folder = str(plan.folder)
            with start(plan.kernel, folder, plan.environ, self._page, self._stop) as front:
                try:
                    has_begun = self._set_up(front)
                    if has_begun:
                        self._work(front)
                finally:
                    self._session_id = front.session_id
        except KernelGoneError as error:
            self._faults.append(str(error))
        except KeyboardInterrupt:
            self._faults.append("Stopped by you.")
        if has_begun:
            self._write()
        for fault in self._faults:
            self._say(fault)
        return FAILED if self._faults else DONE

    # In the kernel ------------------------------------------------------------------------------

    def _set_up(self, front: Front) -> bool:
        """Load the agent and make the settings of the command line; return whether it worked."""
        loaded = front.run(LOAD, self._plan.load)
        if not loaded.ok:
            self._fail(loaded, "The agent cannot be loaded in this kernel")
            return False
        front.settle()  # so that the kernel knows of its page before the first prompt
        if self._plan.has_session:
            if self._plan.answer is not None:
                self._say("Asked anew, in a new session (setting rerun = ask)")
            new = front.run("%agent /new", on_display=Told(self._out, self._err))
            if not new.ok:
                self._fail(new, "No new session could be started")
                return False
        return True

    def _work(self, front: Front) -> None:
        """Run the notebook if asked to, then the prompt, then what the agent made and did not run.

        A notebook's own cells may set settings; those of the command line come after them.
        """
        options = self._plan.options
        if options.execute:
            self._execute(front)
        for name, value in options.explicit.items():
            made = front.run(f"%config JupyterCtx.{name} = {value!r}")
            if not made.ok:
                self._fail(made, f"The setting {name} was not taken")
                return
        if self._is_stopped("The agent was not asked."):
            return
        if options.timeout_s:
            self._stop.deadline = time.monotonic() + options.timeout_s
        told = Told(self._out, self._err, everything=options.prompt.lstrip().startswith("/"))
        ran = front.run(self._plan.prompt["source"], self._plan.prompt, told)
        told.end()
        if told.was_denied:
            self._say(HINT)
        if not ran.ok:
            self._fail(ran, "")
        else:
            self._run_made(front)

    def _execute(self, front: Front) -> None:
        """Run the notebook's own code cells up to the first that fails, as Run All does."""
        own = [
            cell for cell in self._page.cells if cell not in (self._plan.prompt, self._plan.load)
        ]
        for cell in own:
            if cell["cell_type"] != "code" or not cell["source"].strip():
                continue
            if is_agent_cell(cell):
                self._say(f"Cell {cell['id']} asks the agent itself: it was not run.")
                continue
            ran = front.run(cell["source"], cell)
            if self._stop.is_due:
                return
            if not ran.ok and "raises-exception" not in cell["metadata"].get("tags", ()):
                self._say(f"Cell {cell['id']} failed, those below it were not run: {ran.error}")
                return

    def _run_made(self, front: Front) -> None:
        """Run the cells that the agent made and did not run itself, where it may run code unasked.

        The first that fails ends it.
        """
        left = [cell for cell in self._page.unrun if not is_agent_cell(cell)]
        if left and front.evaluate(MODE) != "auto":
            names = ", ".join(cell["id"] for cell in left)
            self._say(f"Made but not run (--permissions auto runs them): {names}")
            return
        for cell in left:
            ran = front.run(cell["source"], cell)
            if self._is_stopped("Not all cells that the agent made were run."):
                return
            if not ran.ok:
                self._faults.append(f"Cell {cell['id']}, which the agent made, failed: {ran.error}")
                return

    # What is said and written -------------------------------------------------------------------

    def _is_stopped(self, so: str) -> bool:
        if self._stop.is_due:
            self._faults.append(f"{self._stop.reason} {so}")
        return self._stop.is_due

    def _fail(self, ran: Ran, what: str) -> None:
        if self._stop.is_due:
            self._faults.append(self._stop.reason)
        else:
            self._faults.append(f"{what}: {ran.error}" if what else f"Failed: {ran.error}")

    def _write(self) -> None:
        """Write the new notebook and put a copy of the transcript beside it."""
        plan = self._plan
        try:
            save_document(plan.document, plan.output)
        except DocumentError as error:
            self._faults.append(str(error))
            return
        made = len(self._page.made)
        cells = f"{made} cell{'' if made == 1 else 's'} made by the agent"
        self._say(f"Wrote {plan.output} ({cells}){self._copy_transcript(plan.transcript)}.")

    def _copy_transcript(self, target: Path) -> str:
        """Copy the transcript; return what is said of it."""
        try:
            home = self._plan.home
            if self._session_id is None:
                return "; there is no transcript"
            source = transcript_file(home, self._session_id)
            save_text(source.read_text(encoding="utf-8"), target)
        except (OSError, RuntimeError, CtxError, UnicodeDecodeError) as error:
            return f"; its transcript could not be copied ({error})"
        return f" and {target.name}"

    def _say(self, text: str) -> None:
        print(plain(text), file=self._err, flush=True)
