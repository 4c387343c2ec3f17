"""Shows a turn below its cell, as displays that are static Markdown when it is over.

One display for each text block, replaced while the text grows; one line for each call of a tool,
with the outputs of its code after it. While nothing is there yet a line tells what goes on; what
comes next takes that line's place. Everything is published on the thread that runs the cell.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, assert_never

from IPython.core.interactiveshell import InteractiveShell

from ..core.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ContextChanged,
    CtxEvent,
    MemoryChanged,
    NoteAdded,
    PlanChanged,
    ResultOffloaded,
    RetryScheduled,
    StepDiscarded,
    StepFinished,
    StepStarted,
    TextDelta,
    TextFinished,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from ..core.plan import PlanItem
from . import words
from .markdown import escape, safe_markdown, with_code
from .plaintext import plain
from .plans import plan_report
from .sinks import CellSink

TEXT_EVERY_S = 0.1
"""A growing text is shown again at most so often: the front end's cost grows with its length."""

TEXT_SHARE = 0.2
"""… and at most with this share of the time, however long it takes to make the text safe."""

KIND = "jupyter_ctx"
"""In a display's metadata, for programs: whether it is text of the answer, or a line about it."""
ANSWER = "answer"
LINE = "line"


class Live(Protocol):
    """What shows a running turn in an output of the cell, while that output is not static yet."""

    @property
    def bundle(self) -> Mapping[str, object]:
        """The view of it, as a MIME bundle."""
        ...

    def carry(self, markdown: str) -> None:
        """Show Markdown that is safe, in place of what it showed of it before."""
        ...


class CellRenderer:
    """Shows one turn in a cell of a kernel. Called with each event; `tick` between them.

    `context` gives the context JSON for the last line. What `find_live` gives when the turn has
    begun stands in the place of its first display until it is over, and shows its calls: the lines
    about them keep their places empty. When it is over, the outputs are what they are without it.
    """

    find_live: Callable[[], Live | None] | None = None

    def __init__(
        self,
        shell: InteractiveShell,
        context: Callable[[], Mapping[str, object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shell = shell
        self._context = context
        self._clock = clock
        self._waiting: _Display | None = None
        self._text: _Text | None = None
        self._step_texts: list[_Display] = []
        self._tools: dict[str, tuple[_Display, ToolStarted]] = {}
        self._retry: tuple[_Display, RetryScheduled, float] | None = None
        self._live: Live | None = None
        self._held: list[_Display] = []
        self._plan: _Display | None = None

    def __call__(self, event: CtxEvent) -> None:
        """Show what happened."""
        if not isinstance(event, RetryScheduled | ContextChanged):
            self._end_retry(event)
        match event:
            case StepStarted():
                self._step_texts = []
                self._wait(words.THINKING)
            case CompactionStarted():
                self._wait(words.COMPACTING)
            case TextDelta(text=text):
                self._add_text(text)
            case TextFinished(text=text):
                self._end_text(text)
            case StepDiscarded():
                self._discard()
            case ToolStarted():
                self._start_tool(event)
            case ToolProgress():
                self._advance_tool(event)
            case ToolFinished():
                self._end_tool(event)
            case ResultOffloaded():
                self.line(words.stored_line(event))
            case RetryScheduled():
                self._start_retry(event)
            case CompactionFinished():
                self.line(words.compacted_line(event))
            case CompactionFailed():
                self.line(words.compaction_failed_line(event))
            case NoteAdded(title=title, detail=detail):
                self.note(title, detail)
            case PlanChanged(items=items):
                self._show_plan(items)
            case MemoryChanged():
                self.line(words.memory_line(event))
            case TurnFinished():
                self._finish(event)
            case TurnStarted() | ThinkingDelta() | StepFinished() | ContextChanged():
                pass  # nothing that stays below a cell
            case _:
                assert_never(event)

    def tick(self) -> float | None:
        """Show what has waited; return in how many seconds to call again, None: not needed."""
        now = self._clock()
        if self._retry is not None:
            display, event, end = self._retry
            display.show(*_noted(*words.retry_lines(event, end - now)))
            return 1.0 if end > now else None
        return None if self._text is None else self._text.show_if_due(now)

    def line(self, text: str) -> None:
        """Show a quiet line."""
        self._take_waiting().show(*_quiet(text), kind=LINE)

    def note(self, title: str, detail: str = "") -> None:
        """Show a note: the fact, then what follows from it."""
        self._take_waiting().show(*_noted(title, detail), kind=LINE)

    def show(self, markdown: str, text: str, more: Mapping[str, object] | None = None) -> None:
        """Show Markdown that is safe already, with its plain form and further MIME types."""
        self._take_waiting().show(markdown, text, more)

    def close(self) -> None:
        """Leave nothing behind that only told what goes on."""
        self._flush_text()
        if self._waiting is not None:
            self._waiting.show("", "")
            self._waiting = None
        self._settle()

    def make_sink(self) -> CellSink:
        """Return where the output of a run goes; to be called before the shell's hooks change."""
        return CellSink(self._shell)

    # One thing each -----------------------------------------------------------------------------

    def _wait(self, text: str) -> None:
        display = self._waiting = self._take_waiting()
        self._hold(display)
        display.show(*_quiet(text), is_told=True)

    def _take_waiting(self) -> _Display:
        """Return the display of the waiting line, for what takes its place; else a new one."""
        self._flush_text()
        display, self._waiting = self._waiting, None
        if display in self._held[1:]:
            self._held.remove(display)
            display.release()
        return display or _Display(self._shell)

    def _hold(self, display: _Display) -> None:
        """Leave what `display` is about to `live`; the first such display is its place."""
        if self.find_live is not None:
            self._live, self.find_live = self.find_live(), None
        if self._live is not None and display not in self._held:
            display.hold(None if self._held else self._live)
            self._held.append(display)

    def _add_text(self, text: str) -> None:
        if self._text is None:
            self._text = _Text(self._take_waiting(), self._clock)
        self._text.add(text)
        self._text.show_if_due(self._clock())

    def _end_text(self, text: str) -> None:
        shown = self._text or _Text(self._take_waiting(), self._clock)
        self._text = None
        self._step_texts.append(shown.display)
        shown.finish(text)

    def _flush_text(self) -> None:
        """End a text block that was cut off: what came of it stays."""
        if self._text is not None:
            text, self._text = self._text, None
            text.finish(text.text)

    def _discard(self) -> None:
        """Take back the texts of a step whose stream broke; they come again in the same place."""
        open_ = [] if self._text is None else [self._text.display]
        shown, self._text, self._step_texts = [*self._step_texts, *open_], None, []
        for display in shown[1:]:
            display.show("", "")
        if shown:
            self._waiting = shown[0]
            self._wait(words.THINKING)

    def _start_tool(self, event: ToolStarted) -> None:
        display = self._take_waiting()
        self._hold(display)
        line = words.tool_line(event.name, event.input)
        display.show(*_quiet(line), kind=LINE, is_told=True)
        self._tools[event.tool_use_id] = display, event

    def _advance_tool(self, event: ToolProgress) -> None:
        if event.tool_use_id in self._tools:
            display, began = self._tools[event.tool_use_id]
            line = words.progress_line(began.name, began.input, event.text)
            display.show(*_quiet(line), kind=LINE, is_told=True)

    def _end_tool(self, event: ToolFinished) -> None:
        if event.tool_use_id in self._tools:
            display, began = self._tools.pop(event.tool_use_id)
            line = words.tool_line(began.name, began.input, event)
            display.show(*_quiet(line), kind=LINE, is_told=True)
        else:  # denied, or no such tool: it never began
            self.line(words.tool_line(event.name, {}, event))

    def _show_plan(self, items: Sequence[PlanItem]) -> None:
        """Show the plan; a later one of the same turn takes its place."""
        if self._plan is None:
            self._plan = self._take_waiting()
        self._plan.show(*plan_report(items), kind=LINE)

    def _start_retry(self, event: RetryScheduled) -> None:
        display = self._retry[0] if self._retry is not None else self._take_waiting()
        self._retry = display, event, self._clock() + event.wait_s
        display.show(*_noted(*words.retry_lines(event, event.wait_s)))

    def _end_retry(self, event: CtxEvent) -> None:
        if self._retry is not None:
            display, retry, end = self._retry
            self._retry = None
            left = end - self._clock()
            was_stopped = isinstance(event, TurnFinished) and left > 0
            line = words.retried_line(retry, left, was_stopped=was_stopped)
            display.show(*_quiet(line), kind=LINE)

    def _finish(self, event: TurnFinished) -> None:
        for display, began in self._tools.values():
            display.show(*_quiet(words.stopped_line(began.name, began.input)), kind=LINE)
        self._tools.clear()
        if event.outcome == "done" or words.tokens_of(event.usage):
            self.line(words.footer(event, self._context()))
        self._settle()

    def _settle(self) -> None:
        """The turn is over: every output becomes what it is without the widget."""
        held, self._held, self._live = self._held, [], None
        for display in held:
            display.settle()


_EMPTY: Mapping[str, object] = {"text/markdown": "", "text/plain": ""}


class _Display:
    """One output of the cell, published once and then replaced.

    One that is held shows `live`, or nothing, in place of what it is given.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._id = uuid.uuid4().hex
        self._shown: dict[str, object] | None = None
        self._told: dict[str, str] = {}
        self._is_held = False
        self._live: Live | None = None
        self._is_there = False

    def hold(self, live: Live | None) -> None:
        """From now on show `live`, or nothing."""
        self._is_held, self._live = True, live
        if self._is_there:
            self._publish(_EMPTY if live is None else {**_EMPTY, **live.bundle}, {})

    def release(self) -> None:
        """From now on show what it is given."""
        self._is_held, self._live = False, None

    def settle(self) -> None:
        """Show what it was given last, and from now on what it is given."""
        self.release()
        if self._shown is not None:
            self._publish(self._shown, self._told)

    def show(
        self,
        markdown: str,
        text: str,
        more: Mapping[str, object] | None = None,
        kind: str = "",
        *,
        is_told: bool = False,
    ) -> None:
        """Show it; `is_told`: where `live` stands here, it tells that by itself."""
        data: dict[str, object] = {"text/markdown": markdown, "text/plain": text, **(more or {})}
        if data == self._shown:
            return
        self._shown, self._told = data, {KIND: kind} if kind else {}
        if not self._is_held:
            self._publish(data, self._told)
            return
        if self._live is not None:
            self._live.carry("" if is_told else markdown)
        if not self._is_there:
            self._publish(_EMPTY if self._live is None else {**_EMPTY, **self._live.bundle}, {})

    def _publish(self, data: Mapping[str, object], told: Mapping[str, str]) -> None:
        publisher: Any = self._shell.display_pub
        place = {"display_id": self._id}
        publisher.publish(dict(data), dict(told), transient=place, update=self._is_there)
        self._is_there = True


class _Text:
    """A text block that grows in its display."""

    def __init__(self, display: _Display, clock: Callable[[], float]) -> None:
        self.display = display
        self._clock = clock
        self._parts: list[str] = []
        self._due = 0.0
        self._is_new = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._is_new = True

    def show_if_due(self, now: float) -> float | None:
        """Show the text if it has grown and it is time; return the seconds until it is."""
        if not self._is_new:
            return None
        if now < self._due:
            return self._due - now
        self._show(self.text)
        done = self._clock()
        self._due = done + max(TEXT_EVERY_S, (done - now) / TEXT_SHARE)
        return None

    def finish(self, text: str) -> None:
        """Show the whole of it."""
        self._show(text)

    def _show(self, text: str) -> None:
        self._is_new = False
        self.display.show(safe_markdown(text), plain(text), kind=ANSWER)


def _quiet(text: str) -> tuple[str, str]:
    """Return a quiet line as Markdown and as plain text."""
    line = plain(text)
    return f"*{escape(line)}*" if line else "", line


def _noted(title: str, detail: str = "") -> tuple[str, str]:
    """Return a note as Markdown and as plain text."""
    title, detail = plain(title), plain(detail)
    markdown = f"**{escape(title)}**"
    if detail:
        markdown += f"\n\n{with_code(detail)}"
    return markdown, "\n".join(filter(None, [title, detail]))
