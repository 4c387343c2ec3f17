"""Take the README's pictures from a real JupyterLab: `python -m tests.ui.screenshot [FOLDER]`.

The first cells of the quick-start run with the demo model; nothing in the pictures is drawn by
hand. They go to `notebooks/images`, or to FOLDER.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from .notebook_page import NotebookPage
from .panel_page import Panel
from .server import LabServer, find_chromium, start_lab

ROOT = Path(__file__).parents[2]
QUICK_START = ROOT / "notebooks" / "01_first_turn.ipynb"
CELLS = ("load", "data", "ask", "fails", "why")

WIDTH_PX, HEIGHT_PX = 1000, 1440
PANEL_SIZE: ViewportSize = {"width": 1240, "height": 920}
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": '{"fetchNews": "false"}',
    "@jupyterlab/apputils-extension:themes": '{"theme": "JupyterLab Light"}',
}


def main(folder: Path) -> None:
    """Write `panel.png`, `lab.png` and `gauge.png` to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as base,
        start_lab(Path(base) / "lab", {"JUPYTER_CTX_PERMISSIONS": "auto"}) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        context = browser.new_context(viewport={"width": WIDTH_PX, "height": HEIGHT_PX})
        notebook = run_quick_start(lab, context.new_page(), CELLS)
        notebook.page.screenshot(path=folder / "lab.png")
        notebook.page.locator(".jctx-gauge:visible").click()
        breakdown = notebook.page.get_by_role("dialog", name="Context")
        breakdown.evaluate("node => { node.style.boxShadow = 'none'; }")
        breakdown.screenshot(path=folder / "gauge.png")
        browser.close()
    take_panel(folder)


def take_panel(folder: Path) -> None:
    """Write `panel.png`: a figure, and a proposed edit in its cell, with its question."""
    with (
        tempfile.TemporaryDirectory() as base,
        start_lab(Path(base) / "lab") as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport=PANEL_SIZE)
        notebook = run_quick_start(lab, page, ("data", "fails"))
        panel = Panel(notebook).open()
        panel.widen()
        panel.ask("Plot a figure")
        panel.allow()
        panel.wait_done()
        expect(panel.log.get_by_role("group", name="Figure").locator("img")).to_be_visible()
        panel.ask("Comment @cell:data")
        expect(panel.question).to_be_visible()
        page.screenshot(path=folder / "panel.png")
        browser.close()


def run_quick_start(lab: LabServer, page: Page, ids: Sequence[str]) -> NotebookPage:
    """Run cells of the quick-start and return the notebook with the last one in view."""
    for plugin, text in SETTINGS.items():
        lab.write_settings(plugin, text)
    quick_start = nbformat.read(QUICK_START, as_version=4)
    quick_start.cells = [cell for cell in quick_start.cells if cell.id in ids]
    nbformat.write(quick_start, lab.root_dir / QUICK_START.name)
    notebook = NotebookPage(page, f"{lab.url}/lab/tree/{QUICK_START.name}?reset")
    notebook.command("application:toggle-left-area")
    for index in range(len(ids)):
        notebook.run_cell(index)
    notebook.command("docmanager:save")
    expect(page.get_by_text("Saving completed")).to_be_hidden()
    notebook.page.mouse.move(WIDTH_PX / 2, 5)
    return notebook


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "notebooks" / "images")
