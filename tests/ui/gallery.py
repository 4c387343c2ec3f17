"""Pictures of the panel's states, from the real view: `python -m tests.ui.gallery OUT_DIR`.

The view is mounted with sample data and a host with nothing behind it (labextension/gallery), with
JupyterLab's own themes, in both of them and in three widths. What differs from the drawn interface,
and why, stands in labextension/README.md.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeAlias

from playwright.sync_api import Browser, Page, expect, sync_playwright

from .server import find_chromium

ROOT = Path(__file__).parents[2]
FRONT = ROOT / "labextension"
THEMES = Path(sys.prefix) / "share" / "jupyter" / "lab" / "themes" / "@jupyterlab"

WIDTHS_PX = (480, 320, 250)
THEME_NAMES = ("light", "dark")

Act: TypeAlias = Callable[[Page], None]


def open_gauge(page: Page) -> None:
    """Open the breakdown."""
    page.locator(".jctx-gauge").click()
    expect(page.get_by_role("dialog", name="Context")).to_be_visible()


def deny(page: Page) -> None:
    """Begin to deny, once the question takes an answer, with a reason."""
    button = page.get_by_role("button", name="Deny…")
    field = page.get_by_label("Deny: what should the agent do instead?")
    # A press that comes too early does nothing, as it must; the next one counts.
    for _ in range(20):
        button.click()
        with contextlib.suppress(AssertionError):
            expect(field).to_be_visible(timeout=200)
            break
    field.fill("use the id columns only")


def next_change(page: Page) -> None:
    """Look at the change that comes after the one that is asked about."""
    page.get_by_role("group", name="Permission request").press("j")
    expect(page.get_by_text("2 of 3")).to_be_visible()


def complete(page: Page) -> None:
    """Type a mention of which the list has more."""
    page.get_by_role("textbox", name="Prompt").press_sequentially("plot @co")
    expect(page.get_by_role("listbox", name="Completions")).to_be_visible()


def attach(page: Page) -> None:
    """Take a mention from the list, and write on."""
    complete(page)
    page.keyboard.press("Tab")
    page.get_by_role("textbox", name="Prompt").press_sequentially(
        "by plan, and compare with @cell:4"
    )
    expect(page.locator(".jctx-est")).to_have_count(1)


def open_compaction(page: Page) -> None:
    """Open the divider, with all that stands behind it."""
    page.locator(".jctx-compact > summary").click()
    expect(page.get_by_text("Re-injected")).to_be_visible()
    page.locator(".jctx-compact > summary").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('.jctx-log').scrollTop = 0")


def open_stored(page: Page) -> None:
    """Open the row whose result is stored."""
    page.get_by_text("Ran code, 2 lines").click()
    expect(page.get_by_text("lines kept whole")).to_be_visible()


def stop(page: Page) -> None:
    """Press Stop; what runs has not ended yet."""
    page.locator(".bar").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stopping…")).to_be_visible()


def open_menu(page: Page) -> None:
    """Open the menu behind ⋯."""
    page.get_by_role("button", name="More").click()


def open_models(page: Page) -> None:
    """Open the list of models, with what a switch to each costs; the narrowest panel has none."""
    button = page.get_by_role("button", name="Model:")
    if not button.is_visible():
        return
    button.click()
    expect(page.get_by_role("menuitemradio").nth(1)).to_contain_text("$")


def open_plan(page: Page) -> None:
    """Open the plan above the prompt."""
    page.locator(".jctx-plan > summary").click()
    expect(page.get_by_role("list", name="Plan")).to_be_visible()


def focus_prompt(page: Page) -> None:
    """Put the caret into the prompt."""
    page.get_by_role("textbox", name="Prompt").focus()


def list_sessions(page: Page) -> None:
    """Show the list of sessions."""
    page.locator(".jctx-head button.title").click()
    expect(page.get_by_role("listbox", name="Sessions")).to_be_visible()


def search_sessions(page: Page) -> None:
    """Search for words that three sessions have."""
    list_sessions(page)
    page.get_by_role("combobox", name="Search sessions").fill("left join")
    expect(page.locator(".jctx-ses mark")).to_have_count(3)


def find_no_session(page: Page) -> None:
    """Search for words that no session has."""
    list_sessions(page)
    page.get_by_role("combobox", name="Search sessions").fill("zebra crossing")
    expect(page.get_by_text("No session has")).to_be_visible()


def delete_session(page: Page) -> None:
    """Delete two sessions; the second is chosen still."""
    list_sessions(page)
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Delete")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Delete")
    expect(page.locator(".jctx-ses.gone")).to_have_count(3)


def resume_held(page: Page) -> None:
    """Choose the session that another kernel has."""
    list_sessions(page)
    page.get_by_role("option", name="Refund outliers").click()
    expect(page.get_by_role("alertdialog")).to_be_visible()


def nothing(_: Page) -> None:
    """Leave it as it is."""


STATES: dict[str, tuple[str, Act, int]] = {
    "writing": ("writing", open_stored, 720),
    "waiting": ("waiting", nothing, 620),
    "denying": ("waiting", deny, 560),
    "changes": ("changes", nothing, 560),
    "changes-next": ("changes", next_change, 560),
    "decisions": ("decisions", nothing, 420),
    "running": ("running", nothing, 420),
    "stopping": ("running", stop, 420),
    "gauge": ("finished", open_gauge, 660),
    "completion": ("finished", complete, 520),
    "attached": ("writing", attach, 620),
    "menu": ("finished", open_menu, 520),
    "models": ("finished", open_models, 520),
    "compaction": ("finished", open_compaction, 900),
    "finished": ("finished", nothing, 480),
    "plan": ("plan", nothing, 560),
    "plan-open": ("plan", open_plan, 620),
    "plan-done": ("plan-done", nothing, 480),
    "stopped": ("stopped", nothing, 420),
    "compacting": ("compacting", nothing, 420),
    "sessions": ("waiting", list_sessions, 560),
    "sessions-found": ("finished", search_sessions, 380),
    "sessions-none": ("finished", find_no_session, 320),
    "sessions-deleted": ("finished", delete_session, 520),
    "sessions-held": ("finished", resume_held, 560),
    "sessions-new": ("first-run", list_sessions, 320),
    "first-run": ("first-run", focus_prompt, 580),
    "faults": ("faults", nothing, 760),
    "no-notebook": ("no-notebook", nothing, 360),
    "no-package": ("no-package", nothing, 400),
}
"""A state: the scene it begins with, what is done in it, and how high the panel is, in pixels."""


@contextlib.contextmanager
def serve_gallery(base: Path) -> Iterator[str]:
    """Build the gallery into `base` and serve it from the loopback; gives its address."""
    npm_path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    node = shutil.which("node", path=npm_path)
    if node is None:
        raise FileNotFoundError("node, which the test environment brings along")
    vite = FRONT / "node_modules" / "vite" / "bin" / "vite.js"
    config = FRONT / "gallery" / "vite.config.js"
    subprocess.run(
        [node, vite, "build", "-c", config, "--outDir", base, "--emptyOutDir"],
        check=True,
        cwd=FRONT,
    )
    (base / "themes").mkdir()
    for name in THEME_NAMES:
        shutil.copy(THEMES / f"theme-{name}-extension" / "index.css", base / f"themes/{name}.css")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=os.fspath(base)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/index.html"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and says nothing about it."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def open_scene(
    browser: Browser, url: str, scene: str, theme: str, width_px: int, height_px: int
) -> Iterator[Page]:
    """Open a scene in a page of its own, as large as the panel; an error of its scripts is ours."""
    context = browser.new_context(
        viewport={"width": width_px, "height": height_px}, reduced_motion="reduce"
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{url}#{scene},{theme},{width_px},{height_px}")
    expect(page.locator(".jctx-panel")).to_be_visible()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    yield page
    context.close()
    assert errors == []


def main(folder: Path, only: str = "") -> None:
    """Write `STATE-THEME-WIDTH.png` for each state, theme and width to `folder`.

    `only`: some states, with commas between; "" for all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as base,
        serve_gallery(Path(base) / "gallery") as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for state, (scene, act, height_px) in STATES.items():
            if only and state not in only.split(","):
                continue
            for theme in THEME_NAMES:
                for width_px in WIDTHS_PX:
                    with open_scene(browser, url, scene, theme, width_px, height_px) as page:
                        act(page)
                        page.screenshot(path=folder / f"{state}-{theme}-{width_px}.png")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("python -m tests.ui.gallery OUT_DIR [STATE,…]")
    main(Path(sys.argv[1]), *sys.argv[2:])
