"""A conversation of 5,000 messages in JupyterLab's panel, next to one of 60.

Opened, loaded to its first turn, scrolled, typed beside, and answered in: how long the page's tasks
are, and how long a frame and a key take until they are painted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from playwright.sync_api import Browser, Page, expect

from jupyter_ctx.core.blocks import Text, user
from jupyter_ctx.core.entries import Entry, MessageEntry, PrefixEntry
from jupyter_ctx.store.sessions import SessionStore
from tests.fake_anthropic import FakeAnthropic
from tests.fake_anthropic.script import Reply
from tests.fake_anthropic.script import Text as Said
from tests.ui.conftest import NEWS
from tests.ui.notebook_page import NotebookPage
from tests.ui.panel_page import TURN_MS, Panel
from tests.ui.server import LabServer
from tests.ui.test_first_turn import connected

from .logs import STEPS_PER_TURN, build_log
from .panel_page import lab_and_browser, new_context
from .table import Row, times

MESSAGES, FEW = 5_000, 60
TEXT_CHARS = 300
MODEL = "claude-sonnet-5-5"
OLDEST = "An okapi stood at the beginning."
"""What only the oldest message says."""

TOOLS = ({"name": "run_code", "description": "Runs code.", "input_schema": {"type": "object"}},)

DELTAS, PACE_S = 400, 0.01
TYPED = "how does churn differ between the plans of this year "
TURNS = 4
"""So often the wheel is turned, each time up and down again."""

WATCH = """() => {
  const told = { from: performance.now(), frames: [], keys: [], isOver: false };
  window.watched = told;
  let last = told.from;
  const look = at => {
    told.frames.push(at - last);
    last = at;
    if (!told.isOver) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  told.onKey = event => {
    requestAnimationFrame(() => {
      const channel = new MessageChannel(); // its message comes after the frame is painted
      channel.port1.onmessage = () => { told.keys.push(performance.now() - event.timeStamp); };
      channel.port2.postMessage(null);
    });
  };
  addEventListener('keydown', told.onKey, true);
}"""

TOLD = """async () => {
  await new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)));
  const { watched: told, measured } = window;
  told.isOver = true;
  removeEventListener('keydown', told.onKey, true);
  const tasks = measured.tasks.filter(one => one.at >= told.from).map(one => one.ms);
  return { tasks, frames: told.frames.slice(1), keys: told.keys };
}"""

LOAD = """async () => {
  const log = document.querySelector('.jctx-notebook:not([hidden]) .jctx-log');
  let presses = 0;
  for (let more; (more = log.querySelector('.jctx-earlier button')); ) {
    if (!more.disabled) {
      more.click();
      presses += 1;
    }
    await new Promise(requestAnimationFrame);
  }
  return presses;
}"""
"""In the page: what looks at it from outside takes long on so many elements."""

FOUND = """text => {
  getSelection().removeAllRanges();
  for (let n = 0; n < 9 && window.find(text); n += 1) { // the session's title has it too
    if (getSelection().anchorNode?.parentElement?.closest('.jctx-log')) return true;
  }
  return false;
}"""


@dataclass(frozen=True)
class Watched:
    """What a page did meanwhile, in ms: long tasks, from frame to frame, and from keys to paint."""

    tasks: list[float]
    frames: list[float]
    keys: list[float]

    @property
    def longest(self) -> str:
        """The longest task over 50 ms, and how many there were."""
        return f"{max(self.tasks, default=0):,.0f} ms ({len(self.tasks)})"


@dataclass(frozen=True)
class Figures:
    """What was measured with one conversation; times in seconds."""

    drawn: float
    whole: float
    presses: int
    loading: Watched
    scrolling: Watched
    typing: Watched
    streaming: Watched
    is_found: bool


def write_session(lab: LabServer, session_id: str, messages: int) -> None:
    """Put a session of so many messages into the server's home, by the store."""
    store = SessionStore(lab.home_dir)
    written = store.create(session_id)
    for entry in _entries(session_id, messages):
        written.append(entry)
    written.close()


def _entries(session_id: str, messages: int) -> Iterator[Entry]:
    is_first = True
    for entry in list(build_log(messages, TEXT_CHARS, MODEL, session_id))[1:]:
        if is_first and isinstance(entry, MessageEntry):
            is_first = False
            yield replace(entry, message=user(Text(OLDEST)))
        elif isinstance(entry, PrefixEntry):
            yield replace(entry, tools=TOOLS)
        else:
            yield entry


def measure_one(lab: LabServer, browser: Browser, messages: int) -> Figures:
    """Open a session of so many messages, go to its beginning and back, type, and ask."""
    session_id = f"long-{messages}"
    write_session(lab, session_id, messages)
    pieces = [f"w{at:04} " for at in range(DELTAS)]
    answer = Reply((Said("".join(pieces)),), chunk=len(pieces[0]))
    with FakeAnthropic([answer], pace_s=PACE_S) as server:
        load = "import os; os.environ['JUPYTER_CTX_COMPACTION'] = 'manual'\n"
        cells = [load + connected(server, "auto"), f"%agent /resume {session_id}"]
        path = lab.write_notebook(f"{session_id}.ipynb", cells)
        context = new_context(browser)
        page = NotebookPage(context.new_page(), f"{lab.url}/lab/tree/{path}?reset")
        page.run_cell(0)
        page.run_cell(1)
        page.page.evaluate("() => window.jupyterapp.restored.then(() => null)")
        panel, last = Panel(page), messages // (2 * STEPS_PER_TURN)
        begin = time.perf_counter()
        page.command("jupyter-ctx:show-panel")
        expect(panel.turn(last)).to_be_visible(timeout=TURN_MS)
        drawn = time.perf_counter() - begin
        presses, whole, loading = load_all(page.page, panel)
        is_found = bool(page.page.evaluate(FOUND, OLDEST))
        scrolling = scroll(page.page, panel)
        typing = type_slowly(page.page, panel)
        streaming = stream(page.page, panel, last + 1)
        assert server.refused == []
        context.close()
    return Figures(drawn, whole, presses, loading, scrolling, typing, streaming, is_found)


def load_all(page: Page, panel: Panel) -> tuple[int, float, Watched]:
    """Press "Show earlier turns" until the first stands there; return how often, and how long."""
    page.evaluate(WATCH)
    begin = time.perf_counter()
    presses = int(page.evaluate(LOAD))
    whole = time.perf_counter() - begin
    told = Watched(**page.evaluate(TOLD))
    expect(panel.turn(1)).to_contain_text(OLDEST)
    return presses, whole, told


def scroll(page: Page, panel: Panel) -> Watched:
    """Turn the wheel over the conversation, up and down."""
    panel.log.hover()
    panel.log.evaluate("node => { node.scrollTop = node.scrollHeight / 2 }")
    page.evaluate(WATCH)
    for by in [-400] * 20 * TURNS + [400] * 20 * TURNS:
        page.mouse.wheel(0, by)
    panel.log.evaluate("node => { node.scrollTop = node.scrollHeight }")
    return Watched(**page.evaluate(TOLD))


def type_slowly(page: Page, panel: Panel) -> Watched:
    """Type a prompt as a person does, and take it out again."""
    panel.prompt.click()
    page.evaluate(WATCH)
    page.keyboard.type(TYPED, delay=40)
    told: dict[str, Any] = page.evaluate(TOLD)
    panel.prompt.fill("")
    return Watched(**told)


def stream(page: Page, panel: Panel, turn: int) -> Watched:
    """Ask, and look on until the answer is there."""
    page.keyboard.type("Count")
    page.evaluate(WATCH)
    page.keyboard.press("Enter")
    page.wait_for_function(
        """word => [...document.querySelectorAll('.jctx-turn .jctx-body')].at(-1)
          ?.textContent.includes(word)""",
        arg=f"w{DELTAS - 1:04}",
        polling=200,
    )
    told = Watched(**page.evaluate(TOLD))
    expect(panel.turn(turn)).to_contain_text(f"w{DELTAS - 1:04}", timeout=TURN_MS)
    panel.wait_done()
    return told


def _at(part: float, found: list[float]) -> float:
    """Return the figure that so large a part of them does not exceed."""
    return sorted(found)[min(len(found) - 1, int(part * len(found)))] if found else 0.0


def _pair(name: str, ours: float, theirs: float, unit: str, reach: str = "") -> Row:
    shown = f"{ours:,.2f} {unit}", f"{theirs:,.2f} {unit}"
    return Row(name, *shown, times(ours / theirs) if theirs else "", reach)


def measure() -> list[Row]:
    """Measure the long conversation and a short one, with one server and one browser."""
    with lab_and_browser() as (lab, browser):
        lab.write_settings(NEWS, '{"fetchNews": "false"}')
        few = measure_one(lab, browser, FEW)
        many = measure_one(lab, browser, MESSAGES)
    what = f"{MESSAGES:,} messages, next to {FEW}"
    rows = [
        _pair(f"panel opened on {what}, until its end is drawn", many.drawn, few.drawn, "s"),
        _pair(f"all of it loaded, in {many.presses} presses", many.whole, few.whole, "s"),
        Row("longest task over 50 ms (number), loading", many.loading.longest, "", ""),
        Row(
            "find in page: text of the oldest message",
            "found" if many.is_found else "not found",
            "found" if few.is_found else "not found",
            "",
            "found",
        ),
    ]
    for name in ("scrolling", "typing", "streaming"):
        ours, theirs = getattr(many, name), getattr(few, name)
        label = f"longest task over 50 ms (number), {name}"
        rows.append(Row(label, ours.longest, theirs.longest, "", "none"))
        label = f"from frame to frame, p95, {name}"
        rows.append(_pair(label, _at(0.95, ours.frames), _at(0.95, theirs.frames), "ms"))
    keys = _at(0.95, many.typing.keys), _at(0.95, few.typing.keys)
    rows.append(_pair("from a key to paint, p95", *keys, "ms"))
    return rows
