"""What the benches of the panel measure with in the page, and a JupyterLab for it to run in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.ui.server import LabServer, find_chromium, start_lab

OBSERVE = """(() => {
  const told = { tasks: [], shifts: [], sent: [], painted: [] };
  window.measured = told;
  const keep = (type, list) => new PerformanceObserver(entries => {
    for (const entry of entries.getEntries().filter(one => !one.hadRecentInput)) {
      list.push({ at: entry.startTime, ms: entry.duration, value: entry.value ?? 0,
        by: (entry.sources ?? []).map(one => one.node?.className ?? one.node?.nodeName ?? '?') });
    }
  }).observe({ type, buffered: true });
  keep('longtask', told.tasks);
  keep('layout-shift', told.shifts);

  // Each word is numbered. `count(message)` gives the number of the last word that a message of the
  // kernel brings, null if it brings none; `read()` that of the last word that is shown.
  window.measure = (count, read) => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    kernel.iopubMessage.connect((_, message) => {
      const word = count(message);
      if (word !== null) {
        told.sent.push({ word, at: Date.parse(message.header.date) });
      }
    });
    let isDue = false;
    const look = () => {
      isDue = false;
      const word = read();
      const channel = new MessageChannel(); // its message comes after the frame is painted
      channel.port1.onmessage = () => {
        told.painted.push({ word, at: performance.timeOrigin + performance.now() });
      };
      channel.port2.postMessage(null);
    };
    new MutationObserver(() => {
      if (!isDue) {
        isDue = true;
        requestAnimationFrame(look);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
    told.from = performance.now();
  };
  window.lastWord = text => {
    const at = text.lastIndexOf('w');
    const found = /^w(\\d{4})/.exec(text.slice(at));
    return found ? Number(found[1]) : -1;
  };
})()"""
"""What moves within half a second after a key or click is no shift, as browsers count it.

`Date.parse` reads milliseconds: a paint may seem up to one later than it is."""


@contextmanager
def lab_and_browser() -> Iterator[tuple[LabServer, Browser]]:
    """Give a server with folders of its own and the Chromium of this machine."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_lab(Path(folder) / "lab") as lab,
        sync_playwright() as playwright,
    ):
        args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=args)
        yield lab, chromium
        chromium.close()


def new_context(browser: Browser) -> BrowserContext:
    """Return a fresh profile whose every page is observed from its first moment."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script(OBSERVE)
    return context
