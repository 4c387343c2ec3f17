"""One server for all tests of a worker, one browser a file, a fresh profile for each page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from .notebook_page import NotebookPage
from .server import LabServer, find_chromium, start_lab

NEWS = "@jupyterlab/apputils-extension:notification"
"""JupyterLab's question about news would lie over what a test clicks on."""

PageFor: TypeAlias = Callable[[str], NotebookPage]

PATIENCE_MS = 60_000
"""So long anything in a page may take on a busy machine before its test fails."""
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab server with folders of its own, no key, and our extension."""
    with start_lab(tmp_path_factory.mktemp("lab")) as server:
        server.write_settings(NEWS, '{"fetchNews": "false"}')
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine; none is downloaded.

    It ends with its file: while it is open, Playwright has a loop running on this thread, in which
    no later test could run one of its own.
    """
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page_for(lab: LabServer, browser: Browser) -> Iterator[PageFor]:
    """A function that opens a notebook by its path, in a browser profile of its own.

    A script error in any page fails the test.
    """
    opened: list[NotebookPage] = []

    def open_page(path: str) -> NotebookPage:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE_MS)
        page = NotebookPage(context.new_page(), f"{lab.url}/lab/tree/{path}?reset")
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        page.page.context.close()
    lab.forget()
    assert [error for page in opened for error in page.errors] == []
