"""Shows a turn in a terminal: the growing text live, each finished block once, as it stays.

A live region taller than the screen would repeat lines in the scrollback, so only the end of the
growing text is live; when the block is finished the region goes and the block is printed.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, assert_never

from ..core.blocks import Json
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
from . import words
from .markdown import safe_markdown
from .mathtext import add_dollar
from .plaintext import plain
from .plans import plan_report
from .sinks import TerminalSink

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from rich.console import Console

TEXT_EVERY_S = 0.1
SPARE_LINES = 3
"""Lines of the screen that the live region leaves free."""


@functools.cache
def _parser() -> MarkdownIt:
    """Return the parser of rich's Markdown, taught the dollar as `safe_markdown` writes it."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt().enable("strikethrough").enable("table")
    add_dollar(parser)
    return parser


class TerminalRenderer:
    """Shows one turn in a terminal, or as plain text where there is none. See CellRenderer."""

    def __init__(
        self,
        context: Callable[[], Mapping[str, object]],
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console

        self._console = console or Console(file=sys.stdout, highlight=False)
        self._context = context
        self._clock = clock
        self._live: Any = None
        self._text = ""
        self._due = 0.0
        self._inputs: dict[str, Json] = {}
        self._retry: tuple[RetryScheduled, float] | None = None

    def __call__(self, event: CtxEvent) -> None:
        """Show what happened."""
        quiet = RetryScheduled | ContextChanged
        if not isinstance(event, quiet) and self._retry is not None:
            retry, end = self._retry
            self._end_live()
            left = end - self._clock()
            was_stopped = isinstance(event, TurnFinished) and left > 0
            self.line(words.retried_line(retry, left, was_stopped=was_stopped))
            self._retry = None
        match event:
            case StepStarted():
                self._show_live(words.THINKING)
            case CompactionStarted():
                self._show_live(words.COMPACTING)
            case TextDelta(text=text):
                self._text += text
                if self._clock() >= self._due:
                    self._show_tail()
            case TextFinished(text=text):
                self._end_text(text)
            case StepDiscarded():
                self._text = ""
                self._show_live(words.THINKING)
            case ToolStarted():
                self._inputs[event.tool_use_id] = event.input
                self._end_all()
                self._show_live(words.tool_line(event.name, event.input))
            case ToolProgress():
                input_ = self._inputs.get(event.tool_use_id, {})
                self._show_live(words.progress_line(event.name, input_, event.text))
            case ToolFinished():
                input_ = self._inputs.pop(event.tool_use_id, {})
                self.line(words.tool_line(event.name, input_, event))
            case ResultOffloaded():
                self.line(words.stored_line(event))
            case RetryScheduled():
                self._retry = event, self._clock() + event.wait_s
                self.tick()
            case CompactionFinished():
                self.line(words.compacted_line(event))
            case CompactionFailed():
                self.line(words.compaction_failed_line(event))
            case NoteAdded(title=title, detail=detail):
                self.note(title, detail)
            case PlanChanged(items=items):
                self.show(*plan_report(items))
            case MemoryChanged():
                self.line(words.memory_line(event))
            case TurnFinished():
                if event.outcome == "done" or words.tokens_of(event.usage):
                    self.line(words.footer(event, self._context()))
            case TurnStarted() | ThinkingDelta() | StepFinished() | ContextChanged():
                pass  # nothing that stays below a cell
            case _:
                assert_never(event)

    def tick(self) -> float | None:
        """Renew what is live; return in how many seconds to call again, None: not needed."""
        if self._retry is None:
            return None
        event, end = self._retry
        left = end - self._clock()
        self._show_live(" ".join(words.retry_lines(event, left)))
        return 1.0 if left > 0 else None

    def line(self, text: str) -> None:
        """Print a quiet line."""
        self._end_all()
        self._console.print(self._plain(text, style="dim"))

    def note(self, title: str, detail: str = "") -> None:
        """Print a note: the fact, then what follows from it."""
        self._end_all()
        self._console.print(self._plain(title, style="bold"))
        if detail:
            self._console.print(self._plain(detail))

    def show(self, markdown: str, text: str, more: Mapping[str, object] | None = None) -> None:
        """Print Markdown that is safe already; where there is no terminal its plain form."""
        self._end_all()
        self._print(markdown, text)

    def close(self) -> None:
        """Take the live region away."""
        self._end_all()

    def make_sink(self) -> TerminalSink:
        """Return where the output of a run goes; to be called before the shell's hooks change."""
        self._end_all()
        return TerminalSink()

    def _end_text(self, text: str) -> None:
        self._text = ""
        self._end_live()
        self._print(safe_markdown(text), plain(text))

    def _end_all(self) -> None:
        """Print what came of a text block that was cut off, and take the live region away."""
        if self._text:
            self._end_text(self._text)
        self._end_live()

    def _print(self, markdown: str, text: str) -> None:
        if self._console.is_terminal:
            from rich.markdown import Markdown

            shown = Markdown(markdown, hyperlinks=False)
            shown.parsed = _parser().parse(markdown)
            self._console.print(shown)
        else:
            self._console.print(self._plain(text), soft_wrap=True)

    def _show_tail(self) -> None:
        room = max(1, self._console.height - SPARE_LINES)
        self._show_live("\n".join(plain(self._text[-20_000:]).splitlines()[-room:]))
        self._due = self._clock() + TEXT_EVERY_S

    def _show_live(self, text: str) -> None:
        if not self._console.is_terminal:
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                console=self._console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        self._live.update(self._plain(text), refresh=True)

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @staticmethod
    def _plain(text: str, style: str = "") -> Any:
        from rich.text import Text

        return Text(plain(text), style=style)
