"""Laws of what a turn leaves below its cell, and in a terminal."""

from __future__ import annotations

import io
import sys
from typing import Any, ClassVar

import pytest
from rich.console import Console

from jupyter_ctx.core.blocks import Json
from jupyter_ctx.core.events import (
    CompactionFinished,
    CompactionStarted,
    CtxEvent,
    MemoryChanged,
    NoteAdded,
    PlanChanged,
    RetryScheduled,
    StepDiscarded,
    StepStarted,
    TextDelta,
    TextFinished,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_ctx.core.plan import PlanItem
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.ipython.markdown import escape, fence
from jupyter_ctx.ipython.render import CellRenderer
from jupyter_ctx.ipython.sinks import CellSink
from jupyter_ctx.ipython.terminal import TerminalRenderer


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Cell:
    """Stands for a shell and its front end: `outputs` are what the saved cell holds."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.published = 0
        self.display_pub = self
        self._places: dict[str, int] = {}

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any],
        update: bool,
    ) -> None:
        self.published += 1
        place = transient["display_id"]
        if update:
            self.outputs[self._places[place]] = data
        else:
            assert place not in self._places, "a display id is new when it is first shown"
            self._places[place] = len(self.outputs)
            self.outputs.append(data)

    @property
    def markdown(self) -> list[str]:
        return [str(data.get("text/markdown", data)) for data in self.outputs]

    @property
    def plain(self) -> list[str]:
        return [str(data["text/plain"]) for data in self.outputs]


USAGE = Usage(100, 0, 0, 20)


def finished(outcome: str = "done", usage: Usage = USAGE) -> TurnFinished:
    return TurnFinished(1, outcome, "end_turn", "x", 1, usage, 0.0, 1.0)  # type: ignore[arg-type]


def text(*pieces: str, block: int = 1) -> list[CtxEvent]:
    deltas: list[CtxEvent] = [TextDelta(1, block, piece) for piece in pieces]
    return [*deltas, TextFinished(1, block, "".join(pieces))]


def tool(name: str = "run_code", code: str = "f()", error: bool = False) -> list[CtxEvent]:
    return [
        ToolStarted(1, 1, "t1", name, {"code": code}),
        ToolFinished(1, 1, "t1", name, "", error, False, 0, 0, 0.3),
    ]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cell() -> Cell:
    return Cell()


@pytest.fixture
def renderer(cell: Cell, clock: Clock) -> CellRenderer:
    context: Json = {"used_tokens": 410, "window_tokens": 1_000, "is_estimate": False}
    return CellRenderer(cell, lambda: context, clock)  # type: ignore[arg-type]


def show(renderer: Any, *events: CtxEvent) -> None:
    for event in events:
        renderer(event)


def test_a_whole_turn(renderer: CellRenderer, cell: Cell) -> None:
    """Text, call and last line stand in order; nothing is left of the lines that told progress."""
    show(renderer, TurnStarted(1, "hi"), StepStarted(1, 1), *text("I *look*."), *tool())
    show(renderer, StepStarted(1, 2), *text("So.", block=2), finished())

    assert cell.markdown == [
        "I *look*.",
        "*Ran code, 1 line: f() · 0.3 s*",
        "So.",
        "*1 step, 1.0 s · 120 tokens, \\$0.00 · context 41 %*",
    ]
    assert cell.plain[0] == "I *look*."


def test_every_output_is_static(renderer: CellRenderer, cell: Cell) -> None:
    """Each display holds Markdown and plain text, no other type."""
    show(renderer, StepStarted(1, 1), *text("<b>x</b>"), *tool(), finished())

    assert all(set(data) == {"text/markdown", "text/plain"} for data in cell.outputs)
    assert cell.markdown[0] == "&lt;b>x&lt;/b>"
    assert cell.plain[0] == "<b>x</b>"


def test_progress_is_seen_at_once(renderer: CellRenderer, cell: Cell) -> None:
    """While nothing is there yet a line says so; what comes takes its place."""
    show(renderer, StepStarted(1, 1))
    assert cell.plain == ["Thinking…"]
    show(renderer, TextDelta(1, 1, "A"))
    assert cell.plain == ["A"]


def test_growing_text_is_coalesced(renderer: CellRenderer, cell: Cell, clock: Clock) -> None:
    """A thousand pieces in one instant are shown once; the rest comes with the next tick."""
    for _ in range(1_000):
        renderer(TextDelta(1, 1, "a "))
    assert cell.published == 1
    wait = renderer.tick()
    assert wait is not None
    assert 0 < wait <= 0.1
    clock.now += wait
    renderer.tick()
    assert cell.plain == ["a " * 1_000]
    assert cell.published == 2
    assert renderer.tick() is None


def test_growing_text_is_safe(renderer: CellRenderer, cell: Cell, clock: Clock) -> None:
    """Text is escaped while it grows, also where its markup is not complete."""
    for piece in ("<scr", "ipt>alert(1)</scr", "ipt>[x](java", "script:y)"):
        clock.now += 1
        renderer(TextDelta(1, 1, piece))
        assert "<scr" not in cell.markdown[0]
        assert "](java" not in cell.markdown[0].replace("\\]", "")


def test_a_broken_stream_starts_again(renderer: CellRenderer, cell: Cell) -> None:
    """Text of a void step is taken back; the new text stands in its place."""
    show(renderer, StepStarted(1, 1), TextDelta(1, 1, "half"), StepDiscarded(1, 1))
    assert cell.plain == ["Thinking…"]
    show(renderer, *text("whole"), finished())
    assert cell.plain[0] == "whole"
    assert len(cell.plain) == 2


def test_text_of_a_stopped_turn_stays(renderer: CellRenderer, cell: Cell) -> None:
    """What came of a text before the stop is kept, closed and safe."""
    show(renderer, TextDelta(1, 1, "so `"), TextDelta(1, 1, "x"), finished("stopped"))

    assert cell.markdown[0] == "so &#96;x"


def test_a_turn_that_never_began_leaves_nothing(renderer: CellRenderer, cell: Cell) -> None:
    """A failure before any token leaves no word; the cell's error tells."""
    show(renderer, StepStarted(1, 1), finished("failed", Usage()))
    renderer.close()

    assert cell.plain == [""]


def test_failed_and_denied_calls_say_so(renderer: CellRenderer, cell: Cell) -> None:
    """A failed call is marked; a denied one, which never began, says why."""
    denied = ToolFinished(1, 1, "t2", "run_code", "Denied by the user: no", True, True, 0, 0, 0)
    show(renderer, *tool(error=True), denied)

    assert cell.plain[0] == "Ran code, 1 line: f() · failed · 0.3 s"
    assert cell.plain[1].endswith("Denied by the user: no")


def test_a_call_under_way_when_stopped_says_so(renderer: CellRenderer, cell: Cell) -> None:
    """A call without an end is shown as stopped, not as running."""
    show(renderer, ToolStarted(1, 1, "t", "run_code", {"code": "f()"}), finished("stopped"))

    assert cell.plain[0] == "Ran code, 1 line: f() · stopped"


@pytest.mark.parametrize(("waited", "told"), [(12, "12 s"), (31, "30 s")])
def test_retries_count_down_in_one_place(
    renderer: CellRenderer, cell: Cell, clock: Clock, waited: int, told: str
) -> None:
    """The countdown is renewed each second in one display, and leaves one quiet line.

    It tells how long was waited, also where that was ended early.
    """
    show(renderer, StepStarted(1, 5))
    show(renderer, RetryScheduled(1, 5, 2, 8, 18.0, "Anthropic is overloaded (529)"))
    assert cell.plain[0].startswith("Anthropic is overloaded (529). Next try in 0:18.\nTry 2 of 8")
    clock.now += 7
    assert renderer.tick() == 1.0
    assert "0:11" in cell.plain[0]
    show(renderer, RetryScheduled(1, 5, 3, 8, 30.0, "Anthropic is overloaded (529)"))
    clock.now += waited
    show(renderer, *text("ok"))

    assert cell.plain == [f"Anthropic is overloaded (529). Tried again after {told}.", "ok"]


def test_compactions_and_notes(renderer: CellRenderer, cell: Cell) -> None:
    """A compaction is one line with before and after; a note is title and detail, escaped."""
    show(renderer, CompactionStarted(1, 2, "proactive"))
    assert cell.plain == ["Compacting…"]
    show(renderer, CompactionFinished(1, 2, "proactive", 171_204, 38_010, 12.0, 0.05))
    show(renderer, NoteAdded(1, "warning", "Disk <full>", "Free *some*."))

    assert cell.plain[0] == (
        "Compacted: 171,204 → 38,010 tokens · 12 s, $0.05 · /summary 2 shows it"
    )
    assert cell.markdown[1] == "**Disk &lt;full>**\n\nFree \\*some\\*."


# Live output of the agent's code ------------------------------------------------------------------


@pytest.fixture
def sink(cell: Cell, clock: Clock) -> CellSink:
    return CellSink(cell, clock)  # type: ignore[arg-type]


def png(name: str) -> Json:
    return {"image/png": name}


def test_streams_are_printed(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    """Text goes to the streams; an error to stderr, as an error output would fail the cell."""
    sink = CellSink(cell)  # type: ignore[arg-type]
    sink.stream("stdout", "out\n")
    sink.error("ValueError", "bad", ["Traceback", "ValueError: bad"])
    sink.close()

    assert capsys.readouterr() == ("out\n", "Traceback\nValueError: bad\n")


def test_displays_and_their_updates(sink: CellSink, cell: Cell) -> None:
    """A display stands where it came, an update takes the place of its own."""
    sink.display(png("a"), {}, {"display_id": "own"}, False)
    sink.display(png("b"), {}, {}, False)
    sink.display(png("c"), {}, {"display_id": "own"}, True)

    assert cell.outputs == [png("c"), png("b")]


def test_a_clear_spares_what_stood_before(sink: CellSink, cell: Cell) -> None:
    """A run that clears and shows again, as an animation does, changes its own places only."""
    cell.publish({"text/plain": "the agent's text"}, transient={"display_id": "x"}, update=False)
    for frame in ("1", "2", "3"):
        sink.clear(wait=True)
        sink.display(png(frame), {}, {}, False)
    sink.close()

    assert cell.outputs == [{"text/plain": "the agent's text"}, png("3")]


def test_text_after_a_clear_takes_a_place_too(sink: CellSink, cell: Cell, clock: Clock) -> None:
    """A printed progress line replaces the one before it; what nothing replaces goes blank."""
    sink.display(png("old"), {}, {}, False)
    sink.display(png("old 2"), {}, {}, False)
    for done in range(5):
        sink.clear(wait=True)
        sink.stream("stdout", f"{done} of 5")
        clock.now += 1
    sink.close()

    assert cell.outputs == [{"text/plain": "4 of 5"}, {"text/plain": ""}]


def test_a_clear_without_wait_blanks_at_once(sink: CellSink, cell: Cell) -> None:
    """Without `wait` the places are blank until something comes."""
    sink.display(png("a"), {}, {}, False)
    sink.clear(wait=False)
    assert cell.outputs == [{"text/plain": ""}]
    sink.display(png("b"), {}, {}, False)
    assert cell.outputs == [png("b")]


def test_the_sink_keeps_the_streams_it_was_made_with(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture replaces the streams after the sink was made; output goes past it."""
    real = io.StringIO()
    monkeypatch.setattr(sys, "stdout", real)
    sink = CellSink(cell)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    sink.stream("stdout", "x")

    assert real.getvalue() == "x"


# The terminal -------------------------------------------------------------------------------------


def terminal(is_terminal: bool) -> tuple[TerminalRenderer, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=is_terminal,
        width=80,
        height=10,
        color_system=None,
        legacy_windows=False,
    )
    return TerminalRenderer(dict, console), out


def test_a_turn_without_a_terminal_is_plain_text() -> None:
    """Piped output is the plain text of each block, once."""
    renderer, out = terminal(False)
    show(renderer, StepStarted(1, 1), *text("I *lo", "ok*."), *tool(), *text("<b>", block=2))
    show(renderer, finished())

    assert out.getvalue().splitlines() == [
        "I *look*.",
        "Ran code, 1 line: f() · 0.3 s",
        "<b>",
        "1 step, 1.0 s · 120 tokens, $0.00",
    ]


def test_a_terminal_shows_dollars_and_code_as_they_are() -> None:
    """Two prices on one line have no backslash before them, and code keeps each of its own."""
    renderer, out = terminal(True)
    code = r"pattern = '\\$'"
    renderer.show(f"{escape('$2 in, $10 out')}\n\n{fence(code)}", "")

    assert out.getvalue().split()[:4] == ["$2", "in,", "$10", "out"]
    assert code in out.getvalue()


def test_a_terminal_shows_each_block_once_at_its_end() -> None:
    """The live region goes when a block is finished; the block stays, whole, however long."""
    renderer, out = terminal(True)
    lines = "\n\n".join(f"line {n}" for n in range(100))
    show(renderer, StepStarted(1, 1), *text(lines[:300], lines[300:]), finished())

    final = out.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert final.count("line 57") == 1
    assert final.count("line 99") == 1
    assert "context" not in final


def test_terminal_sequences_of_the_model_are_not_sent() -> None:
    """Control sequences in the model's text never reach the terminal."""
    for is_terminal in (True, False):
        renderer, out = terminal(is_terminal)
        show(renderer, *text("a\x1b]0;title\x07b\x9bc"), finished())
        assert "\x1b]0" not in out.getvalue()
        assert "\x07" not in out.getvalue()
        assert "\x9b" not in out.getvalue()


# Plan and memory ----------------------------------------------------------------------------------

BEGUN = (PlanItem("Load", "in_progress"), PlanItem("Plot <b>"))
DONE = (PlanItem("Load", "done"), PlanItem("Plot <b>", "in_progress"))


def test_a_plan_has_one_place_below_its_cell(renderer: CellRenderer, cell: Cell) -> None:
    """A later plan takes the place of the first; what its items say is text."""
    show(renderer, TurnStarted(1, "hi"), StepStarted(1, 1), *tool("update_plan"))
    show(renderer, PlanChanged(1, BEGUN, "agent"), StepStarted(1, 2), *tool("update_plan"))
    show(renderer, PlanChanged(1, DONE, "agent"), *text("So.", block=2), finished())

    assert cell.plain[:4] == [
        "Updated the plan · 0.3 s",
        "Plan: 1 of 2 done\n  [x] Load\n  [>] Plot <b>",
        "Updated the plan · 0.3 s",
        "So.",
    ]
    assert cell.markdown[1] == "Plan: 1 of 2 done\n\n- ✓ Load\n- ▸ **Plot &lt;b>**"


class Widget:
    """Stands for the view of a running turn in an output."""

    bundle: ClassVar[dict[str, object]] = {"application/x-view": "v"}

    def __init__(self) -> None:
        self.carried: list[str] = []

    def carry(self, markdown: str) -> None:
        self.carried.append(markdown)


def test_a_plan_is_seen_beside_a_widget(renderer: CellRenderer, cell: Cell) -> None:
    """The view of the running turn shows calls only, so the plan has its own place at once."""
    renderer.find_live = Widget
    show(renderer, TurnStarted(1, "hi"), StepStarted(1, 1), *tool("update_plan"))
    show(renderer, PlanChanged(1, BEGUN, "agent"), StepStarted(1, 2))

    assert cell.outputs[0]["application/x-view"] == "v"
    assert [text for text in cell.plain if text.startswith("Plan: 0 of 2 done")]


def test_what_is_remembered_is_said_with_its_way_back(renderer: CellRenderer, cell: Cell) -> None:
    """The line has the fact and the command that takes it out; taking it out is a line too."""
    show(renderer, MemoryChanged(1, ("Amounts are in cents.",)))
    show(renderer, MemoryChanged(1, ("Amounts are in cents.",), is_undone=True))

    assert cell.plain == [
        "Kept for later sessions (`/memory undo` takes it back): Amounts are in cents.",
        "Taken out of the memory: Amounts are in cents.",
    ]


def test_a_terminal_prints_plan_and_memory() -> None:
    """Without a terminal's own means they are plain lines."""
    renderer, out = terminal(False)
    show(renderer, *tool("update_plan"), PlanChanged(1, DONE, "agent"))
    show(renderer, MemoryChanged(1, ("Amounts are in cents.",)))

    assert out.getvalue().splitlines() == [
        "Updated the plan · 0.3 s",
        "Plan: 1 of 2 done",
        "  [x] Load",
        "  [>] Plot <b>",
        "Kept for later sessions (`/memory undo` takes it back): Amounts are in cents.",
    ]


def test_sub_agents_have_a_line_each_that_says_where_they_are(
    renderer: CellRenderer, cell: Cell
) -> None:
    """Two calls of `task` side by side each keep their own line, from the start to the answer."""
    for id_ in ("a", "b"):
        renderer(ToolStarted(1, 1, id_, "task", {"description": f"look at {id_}", "prompt": "?"}))
    assert cell.plain == ["Sub-agent at work: look at a…", "Sub-agent at work: look at b…"]
    renderer(ToolProgress(1, 1, "b", "task", "step 2: run_code"))
    assert cell.plain[1] == "Sub-agent at work: look at b · step 2: run_code…"
    for id_ in ("b", "a"):
        renderer(ToolFinished(1, 1, id_, "task", "Done.", False, False, 5, 1, 2.0))
    assert cell.plain == [f"Sub-agent answered: look at {id_} · 2.0 s" for id_ in ("a", "b")]
