"""What a test does with a notebook that is open in a browser."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page
from playwright.sync_api import TimeoutError as PageTimeoutError

READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const kernel = panel?.sessionContext?.session?.kernel;
  return Boolean(panel?.sessionContext?.isReady && panel.content?.model
    && kernel?.connectionStatus === 'connected' && kernel.status === 'idle'
    && panel.content.widgets.every(cell => cell.model.executionState !== 'running'));
}"""

ASK = """() => {
  const { session } = window.jupyterapp?.shell.currentWidget?.sessionContext ?? {};
  if (session?.kernel?.connectionStatus === 'connected') {
    void session.kernel.requestKernelInfo();
  }
}"""

RUN = """([index, wait]) => {
  const app = window.jupyterapp;
  app.shell.currentWidget.content.activeCellIndex = index;
  const done = app.commands.execute('notebook:run-cell');
  return wait ? done.then(() => null) : null;
}"""

TIMEOUT_MS = 60_000
"""Longest wait for anything in the page, on a busy machine."""

ASK_AFTER_MS = 15_000
"""So long without "idle": ask the kernel, in case its word was lost."""


class NotebookPage:
    """A notebook in JupyterLab. `errors` collects what the page's scripts threw."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.errors: list[str] = []
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(url)
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until the notebook in front is loaded and its kernel has nothing to do.

        A kernel that has just started may say "idle" before the server listens to it; any request
        makes it say so again. One that runs a cell says "idle" after each comm message it answers
        meanwhile; the cells tell whether one of them runs.
        """
        for _ in range(TIMEOUT_MS // ASK_AFTER_MS):
            try:
                self.page.wait_for_function(READY, timeout=ASK_AFTER_MS)
            except PageTimeoutError:
                self.page.evaluate(ASK)
            else:
                return
        self.page.wait_for_function(READY)

    def run_cell(self, index: int) -> list[dict[str, Any]]:
        """Run cell `index` (from 0), wait until it is done, and return its outputs."""
        self.page.evaluate(RUN, [index, True])
        return self.cell_outputs(index)

    def start_cell(self, index: int) -> None:
        """Run cell `index` and return at once."""
        self.page.evaluate(RUN, [index, False])

    def answer_input(self, answer: str) -> None:
        """Type `answer` into the field of a cell that waits for `input()`, and press Enter."""
        field = self.page.locator(".jp-Stdin-input")
        field.fill(answer)
        field.press("Enter")

    def interrupt(self) -> None:
        """Press Stop: interrupt the kernel of the notebook in front."""
        self.command("notebook:interrupt-kernel")

    def cell_outputs(self, index: int) -> list[dict[str, Any]]:
        """Return the outputs of cell `index` as nbformat has them."""
        outputs: list[dict[str, Any]] = self.page.evaluate(
            "index => window.jupyterapp.shell.currentWidget.content.widgets[index]"
            ".model.outputs.toJSON()",
            index,
        )
        return outputs

    def set_source(self, index: int, source: str) -> None:
        """Replace the source of cell `index` as an edit by the user would."""
        self.page.evaluate(
            "([index, source]) => window.jupyterapp.shell.currentWidget.content.widgets[index]"
            ".model.sharedModel.setSource(source)",
            [index, source],
        )

    def output_area(self, index: int) -> Locator:
        """Return where the outputs of cell `index` are drawn."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-OutputArea")

    def command(self, name: str, **args: object) -> None:
        """Run one of JupyterLab's commands and wait until it is done."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
            [name, args],
        )

    def open(self, path: str) -> None:
        """Open another notebook in this page, or bring it to the front."""
        self.command("docmanager:open", path=path)
        self.page.wait_for_function(
            "path => window.jupyterapp.shell.currentWidget?.context?.path === path", arg=path
        )
        self.wait_idle()

    def restart_kernel(self) -> None:
        """Restart the kernel of the notebook in front, without the question."""
        self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
        )
        self.wait_idle()

    def reload(self) -> None:
        """Load the page anew; the kernel lives on. Does not wait for the kernel."""
        self.page.reload()
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
        )

    def set_theme(self, *, dark: bool) -> None:
        """Switch to JupyterLab's own dark or light theme."""
        self.command("apputils:change-theme", theme=f"JupyterLab {'Dark' if dark else 'Light'}")
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg=str(not dark).lower()
        )
