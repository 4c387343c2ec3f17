"""The panel in a real JupyterLab and Chromium: how it streams, how soon it is there, its size."""

from __future__ import annotations

import statistics

from playwright.sync_api import Browser

from tests.kernels import ROOT
from tests.ui.notebook_page import NotebookPage
from tests.ui.panel_page import Panel
from tests.ui.server import LabServer

from . import panel_stream
from .panel_page import lab_and_browser, new_context
from .table import Row

LOADS = 5

WATCH = """(() => {
  const app = new Promise(found => {
    const look = () => window.jupyterapp ? found(window.jupyterapp) : requestAnimationFrame(look);
    look();
  });
  void app.then(app => app.restored).then(() => { performance.mark('lab'); });
  const seen = new MutationObserver(() => {
    if (document.querySelector('.jctx-notebook:not([hidden]) > .jctx-panel textarea')) {
      performance.mark('panel');
      seen.disconnect();
    }
  });
  seen.observe(document, { subtree: true, childList: true });
})()"""

MARKED = """() => ['lab', 'panel'].map(name => performance.getEntriesByName(name)[0]?.startTime)
  .every(at => at !== undefined)"""

AFTER = """() => performance.getEntriesByName('panel')[0].startTime
  - performance.getEntriesByName('lab')[0].startTime"""

SAVED = "() => fetch('/lab/api/workspaces').then(r => r.text()).then(t => t.includes('ctx:panel'))"


def start_row(lab: LabServer, browser: Browser) -> Row:
    """Load a page whose panel was open, again and again."""
    path = lab.write_notebook("start.ipynb", ["1 + 1"])
    context = new_context(browser)
    page = NotebookPage(context.new_page(), f"{lab.url}/lab/tree/{path}?reset")
    Panel(page).open()
    page.page.wait_for_function(SAVED)
    context.add_init_script(WATCH)
    found: list[float] = []
    for _ in range(LOADS):
        page.page.goto(page.page.url.split("?")[0])
        page.page.wait_for_function(MARKED)
        found.append(page.page.evaluate(AFTER))
        page.wait_idle()
    context.close()
    told = f"{statistics.median(found):,.0f} ms", f"{max(found):,.0f} ms the slowest of {LOADS}"
    return Row("panel drawn after JupyterLab is restored (median)", *told, "", "≤ 300 ms")


def size_rows() -> list[Row]:
    """Weigh the bundles as they are shipped."""
    lab = sorted((ROOT / "jupyter_ctx" / "labextension" / "static").glob("*.js"))
    widget = ROOT / "jupyter_ctx" / "panel" / "static" / "widget.js"
    first = next(one for one in lab if one.name.startswith("remoteEntry"))
    sizes = sum(one.stat().st_size for one in lab), widget.stat().st_size
    return [
        Row(
            "JupyterLab extension, all scripts, minified, not compressed",
            _kb(sizes[0]),
            f"{_kb(first.stat().st_size)} its first",
            "",
            "≤ 350 KB",
        ),
        Row("widget's script, likewise", _kb(sizes[1]), "", "", "≤ 250 KB"),
    ]


def _kb(size: int) -> str:
    return f"{size / 1_000:,.0f} KB"


def measure() -> list[Row]:
    """Measure all of it with one server and one browser."""
    with lab_and_browser() as (lab, browser):
        rows = panel_stream.measure(lab, browser)
        rows.append(start_row(lab, browser))
    return [*rows, *size_rows()]
