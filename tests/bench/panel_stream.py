"""2,000 deltas of a turn in JupyterLab's panel, next to the same text as updates of an output.

From the moment when the kernel sends a message until what it brings is painted; both clocks are
this machine's. Words are numbered, so that none is lost unseen.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.fake_anthropic import FakeAnthropic
from tests.fake_anthropic.script import Reply, Text
from tests.ui.notebook_page import NotebookPage
from tests.ui.panel_page import TURN_MS, Panel
from tests.ui.server import LabServer
from tests.ui.test_first_turn import connected

from .panel_page import new_context
from .table import Row, times

DELTAS = 2_000
PACE_S = 0.005
EVERY_S = 0.04
WORDS = 60
"""So many words a paragraph has."""


def make_pieces() -> list[str]:
    """Return the deltas: numbered words of one size, in paragraphs."""
    ends = ["\n" if at % WORDS == WORDS - 1 else " " for at in range(DELTAS)]
    return [f"w{at:04}{end}" for at, end in enumerate(ends)]


def make_text(pieces: Sequence[str]) -> str:
    """Return the Markdown that the deltas make up."""
    return "".join(pieces).replace("\n", "\n\n")


PIECES = make_pieces()

IN_PANEL = """measure(
  message => {
    const data = message.content.data;
    if (message.header.msg_type !== 'comm_msg' || data?.type !== 'panel') return null;
    const text = data.items.filter(item => item.kind === 'text_delta').map(item => item.text);
    return text.length ? lastWord(text.join('').trimEnd()) : null;
  },
  () => lastWord(document.querySelector('.jctx-turn:last-of-type .jctx-body')?.textContent ?? '')
)"""

IN_CELL = """measure(
  message => message.header.msg_type === 'update_display_data'
    ? lastWord(message.content.data['text/markdown'].trimEnd()) : null,
  () => lastWord(document.querySelector('.jp-Cell-outputArea .jp-RenderedMarkdown')
    ?.textContent.trimEnd() ?? '')
)"""

UPDATES = f"""
import time
from IPython.display import Markdown, display
pieces = {PIECES!r}
text, due = "", 0.0
shown = display(Markdown(""), display_id=True)
for piece in pieces:
    time.sleep({PACE_S})
    text += piece.replace("\\n", "\\n\\n")
    if time.monotonic() >= due:
        shown.update(Markdown(text))
        due = time.monotonic() + {EVERY_S}
shown.update(Markdown(text))
"""


class Figures:
    """What was measured while text came: latencies in ms, long tasks and shifts."""

    def __init__(self, measured: dict[str, Any], shown: str) -> None:
        self.delays = sorted(_delays(measured["sent"], measured["painted"]))
        since = measured["from"]
        self.tasks = [one["ms"] for one in measured["tasks"] if one["at"] >= since]
        self.shifts = [one for one in measured["shifts"] if one["at"] >= since]
        self.words = re.findall(r"w\d{4}", shown)

    @property
    def is_whole(self) -> bool:
        """Whether every word stands there, once, in order."""
        return self.words == re.findall(r"w\d{4}", "".join(PIECES))

    def delay(self, part: float) -> float:
        """Return the delay that so large a part of the messages did not exceed."""
        return self.delays[min(len(self.delays) - 1, int(part * len(self.delays)))]


def _delays(sent: Sequence[dict[str, Any]], painted: Sequence[dict[str, Any]]) -> list[float]:
    """Return from each message how long until its last word was painted. Raises StopIteration."""
    return [
        next(one["at"] for one in painted if one["word"] >= message["word"]) - message["at"]
        for message in sent
    ]


def stream_in_panel(lab: LabServer, browser: Browser) -> Figures:
    """Have the second turn of a conversation stream the text."""
    size = len(PIECES[0])
    text = "".join(PIECES)
    script: list[str | Reply] = ["A first turn.", Reply((Text(text),), chunk=size)]
    with FakeAnthropic(script, pace_s=PACE_S) as server:
        path = lab.write_notebook("stream.ipynb", [connected(server, "auto")])
        page, panel = _open(lab, browser, path)
        panel.ask("Hello")
        expect(panel.turn(1)).to_contain_text("A first turn.", timeout=TURN_MS)
        panel.wait_done()
        page.page.evaluate(IN_PANEL)
        panel.prompt.press_sequentially("Count")  # as a person types: `fill` is no input
        panel.prompt.press("Enter")
        expect(panel.log).to_contain_text(f"w{DELTAS - 1:04}", timeout=TURN_MS)
        panel.wait_done()
        shown = page.page.locator(".jctx-turn .jctx-body").last.inner_text()
        return _close(page.page, shown)


def stream_in_cell(lab: LabServer, browser: Browser) -> Figures:
    """Have a cell show the same text by updates of one display."""
    path = lab.write_notebook("cell.ipynb", [textwrap.dedent(UPDATES)])
    context = new_context(browser)
    page = NotebookPage(context.new_page(), f"{lab.url}/lab/tree/{path}?reset")
    page.page.evaluate(IN_CELL)
    page.run_cell(0)
    area = page.output_area(0)
    expect(area).to_contain_text(f"w{DELTAS - 1:04}", timeout=TURN_MS)
    return _close(page.page, area.inner_text())


def _open(lab: LabServer, browser: Browser, path: str) -> tuple[NotebookPage, Panel]:
    context = new_context(browser)
    page = NotebookPage(context.new_page(), f"{lab.url}/lab/tree/{path}?reset")
    page.run_cell(0)
    panel = Panel(page).open()
    page.page.evaluate("() => window.jupyterapp.restored.then(() => null)")
    return page, panel


def _close(page: Page, shown: str) -> Figures:
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")
    figures = Figures(page.evaluate("window.measured"), shown)
    page.context.close()
    return figures


def measure(lab: LabServer, browser: Browser) -> list[Row]:
    """Stream both ways, one after the other."""
    ours, theirs = stream_in_panel(lab, browser), stream_in_cell(lab, browser)
    whole = f"{DELTAS:,} deltas: all there, in order"
    rows = [Row(whole, _whole(ours), _whole(theirs), "", "yes")]
    for name, part, reach in (("p50", 0.5, ""), ("p95", 0.95, "≤ 100 ms"), ("max", 1.0, "")):
        our, their = ours.delay(part), theirs.delay(part)
        told = f"{our:,.0f} ms", f"{their:,.0f} ms", times(our / their)
        rows.append(Row(f"from the kernel's send to paint, {name}", *told, reach))
    counts = f"{len(ours.delays):,}", f"{len(theirs.delays):,}"
    rows.append(Row("messages that brought them", *counts, ""))
    task = "longest task over 50 ms (number of them)"
    rows.append(Row(task, _longest(ours), _longest(theirs), "", "none"))
    rows.append(Row("layout shift", _shifted(ours), _shifted(theirs), "", "0"))
    return rows


def _longest(figures: Figures) -> str:
    return f"{max(figures.tasks, default=0):,.0f} ms ({len(figures.tasks)})"


def _shifted(figures: Figures) -> str:
    return f"{sum(shift['value'] for shift in figures.shifts):.4f}"


def _whole(figures: Figures) -> str:
    return "yes" if figures.is_whole else f"no: {len(figures.words):,} words"
