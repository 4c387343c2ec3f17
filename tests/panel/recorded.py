"""What the panel is told of real sessions over fakes: the fixtures that both languages read.

`python -m tests.panel.recorded` writes them anew; a test compares them with what is made now.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_ctx.core.blocks import Image, ToolUse, tool_results
from jupyter_ctx.core.entries import MessageEntry
from jupyter_ctx.core.events import (
    CompactionFinished,
    CompactionStarted,
    CtxEvent,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from jupyter_ctx.core.plan import PlanItem, count_done
from jupyter_ctx.core.ports import ModelFacts, ToolOutput
from jupyter_ctx.core.usage import Prices, Usage
from jupyter_ctx.errors import AuthError, OverloadedError, StreamBrokenError
from jupyter_ctx.ipython.sessions import SessionRow
from jupyter_ctx.panel.history import find_turns, items_of
from jupyter_ctx.panel.lookups import session_row, summary
from jupyter_ctx.panel.wire import (
    Around,
    Item,
    coalesce,
    item_of,
    memory_changed,
    plan_changed,
    result_counted,
    sha256_of,
    tool_output,
)
from jupyter_ctx.testing import (
    Answer,
    DenyAll,
    FakeClock,
    FakeSession,
    FakeTools,
    ScriptedModel,
    make_session,
    reply,
    thinking,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "panel"
AT = 1_790_000_000.0
PRICES = Prices(3.0, 15.0, 0.3, 3.75, 6.0, "this test")
FACTS = ModelFacts("scripted", 200_000, "api", 64_000, factor_prior=1.0, prices=PRICES)
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
FIGURE = {
    "output_type": "display_data",
    "data": {"image/png": PIXEL, "text/plain": "<Figure size 640x480 with 1 Axes>"},
    "metadata": {},
}
CHURN = "churn = (\n    df.groupby('cohort')\n    .agg(left=('left', 'mean'))\n)\nchurn"
TABLE = "          left\ncohort        \n2026-01  0.181\n2026-02  0.164\n2026-03  0.120"


class Told:
    """A session and the items that tell it, in order."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.items: list[Item] = []
        self._inputs: dict[str, Mapping[str, object]] = {}
        self._seen = 0

    def ask(self, text: str, cell_id: str | None = None) -> Told:
        """Run a turn to its end."""
        self._run(lambda: self.session.run(text, cell_id=cell_id), cell_id)
        return self

    def compact(self, focus: str = "") -> Told:
        """Run a compaction that the user asked for."""
        self._run(lambda: self.session.run_compaction(focus), None)
        return self

    def add(self, item: Item) -> None:
        """Tell an item of the panel's own."""
        self.items.append(item)

    def _run(self, start: Callable[[], AsyncIterator[CtxEvent]], cell_id: str | None) -> None:
        async def drive() -> None:
            async for event in start():
                self.hear(event, cell_id)

        asyncio.run(drive())

    def hear(self, event: CtxEvent, cell_id: str | None = None) -> None:
        """Tell an event, with what the kernel's side knows beside it."""
        if isinstance(event, ToolStarted):
            self._inputs[event.tool_use_id] = event.input
        if isinstance(event, StepStarted | CompactionStarted | TurnFinished):
            self._count_results()
        item = item_of(event, self._around(event, cell_id))
        if item is not None:
            self.items.append(item)

    def _count_results(self) -> None:
        """Tell how large the results are that were recorded since the last look."""
        entries = self.session.transcript.entries
        new, self._seen = entries[self._seen :], len(entries)
        for entry in (one for one in new if isinstance(one, MessageEntry)):
            for result in tool_results(entry.message):
                tokens = self.session.estimate_tokens(result)
                self.items.append(result_counted(entry.turn, result.tool_use_id, tokens))

    def _around(self, event: CtxEvent, cell_id: str | None) -> Around:
        session = self.session
        replaced, input_, has_outputs = (0, 0), None, False
        if isinstance(event, CompactionFinished):
            entry = session.find_compaction(event.n)
            assert entry is not None
            replaced = (entry.first_turn, entry.last_turn)
        if isinstance(event, ToolFinished):
            input_ = self._inputs.get(event.tool_use_id) or self._asked(event.tool_use_id)
            has_outputs = "Figure" in event.text
        return Around(
            at=session.clock.now(),
            origin="panel" if cell_id is None else "cell",
            cell_id=cell_id,
            input=input_,
            has_outputs=has_outputs,
            replaced=replaced,
            context=session.context(),
        )

    def _asked(self, tool_use_id: str) -> Mapping[str, object] | None:
        """Return the input of a call that was denied: it stands in the reply."""
        for message in self.session.transcript.view:
            for block in message.content:
                if isinstance(block, ToolUse) and block.id == tool_use_id:
                    return block.input
        return None


class TickingClock(FakeClock):
    """A clock by which every look at it takes 0.1 s."""

    def monotonic(self) -> float:
        """Return the seconds since the beginning, and move on."""
        self.time = round(self.time + 0.1, 1)
        return round(self.time - AT, 1)


def told(*answers: Answer, tools: FakeTools | None = None, **more: Any) -> Told:
    """Return a session that gives `answers`, with a window of 200,000 tokens."""
    model = ScriptedModel(*answers, facts=FACTS)
    return Told(make_session(model, tools=tools, clock=TickingClock(), **more))


def use(name: str, n: int, **input_: object) -> ToolUse:
    """Return a call whose id is the same every time."""
    return ToolUse(f"toolu_{n:02}", name, input_)


def notebook_tools() -> FakeTools:
    """Return tools whose output is always the same: a table, a figure, a long text, an error."""
    long = "\n".join(f"row {n:,}: value {n * n:,}" for n in range(4_000))

    def run_code(code: str = "") -> ToolOutput:
        if "plot" in code:
            text = "<Figure size 640x480 with 1 Axes>"
            return ToolOutput(text, (Image("image/png", PIXEL, 1, 1),), outputs=(FIGURE,))
        if "1/0" in code:
            return ToolOutput("ZeroDivisionError: division by zero", is_error=True)
        if "while True" in code:
            return ToolOutput("KeyboardInterrupt: ", is_error=True, interrupted=True)
        return ToolOutput(TABLE)

    return FakeTools(
        run_code=run_code,
        inspect=lambda names=(): "df: DataFrame, 4,000 × 12",
        read_file=lambda path="": long,
        edit_cell=lambda cell_id="", source="": f"Edited code cell `{cell_id}`: 5 of 9, 3 lines.",
    )


# Scenes -----------------------------------------------------------------------------------------


def tools_scene() -> Told:
    """Return a whole turn: thinking, text, three calls, an error, an answer with code."""
    return told(
        reply(
            thinking("The cohorts are months of signup."),
            "I look at the columns first.",
            use("inspect", 1, names=["df"]),
            use("run_code", 2, code=CHURN),
        ),
        reply("One more check.", use("run_code", 3, code="1/0")),
        reply(
            "Churn falls from **18.1 %** to **12.0 %**.\n\n```python\n"
            "churn['left'].plot.bar()\n```\n\nIt falls with every cohort."
        ),
        tools=notebook_tools(),
    ).ask("How does churn change by cohort?")


def figure_scene() -> Told:
    """Return a turn with a figure, a stored result and an edit that is undone, from a cell."""
    scene = told(
        reply("I draw it.", use("run_code", 1, code="churn.plot.bar()")),
        reply(use("read_file", 2, path="rows.txt")),
        reply(use("edit_cell", 3, cell_id="c5", source="a = 1\nb = 2\nc = 3")),
        reply("Drawn, read, and cell 5 is edited."),
        tools=notebook_tools(),
    ).ask("Plot churn, then read @rows.txt", cell_id="cell-7")
    at = [item["kind"] for item in scene.items].index("turn_finished")
    made = {"kind": "edit_made", "turn": 1, "tool_use_id": "toolu_03", "cell_id": "c5"}
    scene.items.insert(at, {**made, "path": None})
    scene.add({"kind": "edit_undone", "tool_use_id": "toolu_03"})
    started = scene.items[0]
    started["attachments"] = [{"label": "@rows.txt", "detail": "file, 4,000 lines"}]
    return scene


def question_scene() -> Told:
    """Return a turn whose code is asked about, allowed once, and prints while it runs."""
    scene = told(
        reply("This needs a run.", use("run_code", 1, code=CHURN)),
        reply("Done."),
        tools=notebook_tools(),
    ).ask("Compute churn")
    at = [item["kind"] for item in scene.items].index("tool_started")
    scene.items[at:at] = [question(turn=1, step=1, tool_use_id="toolu_01", text=CHURN)]
    closed: Item = {"kind": "question_closed", "id": "q1", "how": "once", "reason": ""}
    scene.items.insert(at + 1, closed)
    for item in scene.items:
        if item["kind"] == "tool_finished":
            item["decision"] = "once"
    scene.items[at + 3 : at + 3] = [
        tool_output(1, "toolu_01", "10 %\n"),
        tool_output(1, "toolu_01", "10 %\n60 %\n"),
    ]
    return scene


def question(*, turn: int, step: int, tool_use_id: str, text: str) -> Item:
    """Return a question about code."""
    title = "The agent asks to run code:"
    return {
        "kind": "question",
        "id": "q1",
        "sha256": sha256_of(title, text),
        "turn": turn,
        "step": step,
        "tool_use_id": tool_use_id,
        "verb": "run code",
        "title": title,
        "text": text,
        "info": "python",
        "cell_id": None,
        "change": None,
        "offers": [{"word": "", "label": "run code"}],
        "coming": [
            {
                "tool_use_id": "toolu_09",
                "op": "insert",
                "cell_id": None,
                "source": "churn.plot()",
                "cell_type": "code",
                "after": "c5",
            }
        ],
        "at": AT,
    }


def denied_scene() -> Told:
    """Return a turn whose code is denied with a reason."""
    return told(
        reply("I would delete it.", use("run_code", 1, code="import shutil\nshutil.rmtree('.')")),
        reply("Nothing was deleted."),
        tools=notebook_tools(),
        permissions=DenyAll("not that folder"),
    ).ask("Clean up")


def compaction_scene() -> Told:
    """Return a manual compaction between two turns, edited and then undone."""
    scene = told(
        reply("One. " * 1_200),
        reply("One again."),
        reply("The user counts. One was said."),
        reply("Two."),
        tools=notebook_tools(),
        tail_tokens=0,
    )
    scene.ask("Count to one").ask("And again").compact("the numbers").ask("Count to two")
    scene.session.edit_summary("The user counts to two.")
    scene.add({"kind": "summary_changed", "n": 1, "condition": "edited"})
    scene.session.undo_summary()
    scene.add({"kind": "summary_changed", "n": 1, "condition": "undone"})
    return scene


def midturn_scene() -> Told:
    """Return a compaction by itself between the steps of a turn."""
    full = Usage(21_000, 0, 0, 40)
    scene = told(
        reply("I read the first.", use("read_file", 1, path="a")),
        reply("And the second.", use("read_file", 2, path="b"), usage=full),
        reply("The user compares two files; both are lists of lines."),
        reply("They are the same."),
        tools=FakeTools(read_file=lambda path="": "\n".join(f"line {n}" for n in range(300))),
        window_tokens=24_000,
        compaction="crush",
        tail_tokens=0,
    )
    return scene.ask("Compare a and b")


def retry_scene() -> Told:
    """Return a step that breaks off in its stream, is overloaded twice, and then comes through."""

    def broken(_request: object) -> Exception:
        return StreamBrokenError("The stream ended early.")

    scene = told(
        broken,
        OverloadedError("Anthropic is overloaded (529).", retry_after_s=18.0),
        reply("Here it is."),
        tools=notebook_tools(),
    ).ask("Try")
    at = [item["kind"] for item in scene.items].index("retry_scheduled")
    scene.items[at:at] = [  # as a stream that breaks after its first words
        {"kind": "thinking_delta", "turn": 1, "text": "Hm"},
        {"kind": "text_delta", "turn": 1, "block": 1, "text": "Here it"},
        {"kind": "step_discarded", "turn": 1, "step": 1},
    ]
    return scene


def failure_scene() -> Told:
    """Return a turn that fails: the key is refused. Its text goes back to the composer."""
    scene = told(AuthError("The key was refused (401)."), tools=notebook_tools()).ask("Hello")
    scene.add(
        {
            "kind": "failed",
            "id": "p2",
            "title": "No variable, cell or file is called @cohrt.",
            "detail": "Nearest: @cohort, @costs. Nothing was sent.",
            "text": "Plot @cohrt",
        }
    )
    return scene


def stop_scene() -> Told:
    """Return a turn that is stopped while its code runs."""
    return told(
        reply("It may take long.", use("run_code", 1, code="while True: pass")),
        tools=notebook_tools(),
    ).ask("Wait for ever")


def cleared_scene() -> Told:
    """Return a compaction that finds nothing to compact, and then another conversation."""
    scene = told(reply("Hello."), tools=notebook_tools()).ask("Hello").compact()
    scene.add({"kind": "cleared"})
    return scene


def around_scene() -> Told:
    """Return what is no turn: the session, a queue, what a command showed, notes, a rewind."""
    scene = told(reply("One."), reply("Two."), reply("Three."), tools=notebook_tools())
    scene.add(session_item(turns=0))
    scene.ask("One?")
    scene.add({"kind": "queued", "id": "p2", "text": "Two?", "attachments": []})
    scene.add({"kind": "queued", "id": "p3", "text": "Never.", "attachments": []})
    scene.add({"kind": "unqueued", "id": "p3", "how": "cancelled"})
    scene.add({"kind": "unqueued", "id": "p2", "how": "started"})
    scene.add({"kind": "kernel_awaited", "is_waiting": True})
    scene.add({"kind": "kernel_awaited", "is_waiting": False})
    scene.ask("Two?")
    scene.add(
        {
            "kind": "shown",
            "id": "p4",
            "command": "/cost",
            "markdown": "Session so far: **$0.04**.",
            "text": "Session so far: $0.04.",
            "data": {"application/vnd.jupyter-ctx.context+json": {"version": 1}},
        }
    )
    note = {"kind": "note_added", "turn": 2, "level": "warning", "title": "The disk is full."}
    scene.add({**note, "detail": "What comes now is kept in memory."})
    scene.session.rewind(2)
    scene.add({"kind": "rewound", "turn": 2})
    scene.ask("Three?")
    return scene


PLAN = [
    {"text": "Look at the columns", "state": "done"},
    {"text": "Compute churn by cohort", "state": "in_progress"},
    {"text": "Plot it", "state": "pending"},
]
FACTS_KEPT = ("Amounts are in cents.",)


def plan_tools() -> FakeTools:
    """Return tools that make a plan, and keep a fact."""

    def update_plan(items: Sequence[Mapping[str, Any]] = ()) -> ToolOutput:
        plan = tuple(PlanItem(**item) for item in items)
        return ToolOutput(f"The plan has {count_done(plan)} of {len(plan)} done.", plan=plan)

    return FakeTools(
        run_code=lambda code="": ToolOutput(TABLE),
        update_plan=update_plan,
        remember=lambda text="": ToolOutput("Kept for later sessions.", remembered=(text,)),
    )


def plan_scene() -> Told:
    """Return a turn with a plan and a fact that is kept; the user edits both."""
    scene = told(
        reply("I plan it.", use("update_plan", 1, items=PLAN), use("run_code", 2, code=CHURN)),
        reply(use("remember", 3, text=FACTS_KEPT[0])),
        reply("Churn is computed."),
        reply(use("update_plan", 4, items=[])),
        reply("The plan is done."),
        tools=plan_tools(),
    ).ask("Churn by cohort; amounts are in cents")
    plan = scene.session.edit_plan([PlanItem("Plot it", "in_progress")])
    scene.add(plan_changed(1, plan))
    scene.add(memory_changed(1, FACTS_KEPT, is_undone=True))
    return scene.ask("Go on")


def session_item(turns: int) -> Item:
    """Return who the conversation is."""
    return {
        "kind": "session",
        "id": "test-session",
        "title": "Churn by cohort",
        "notebook": "churn.ipynb",
        "model": "scripted",
        "permission_mode": "ask",
        "is_demo": False,
        "why": "",
        "turns": turns,
        "cells": 9,
        "variables": 12,
    }


SCENES: Mapping[str, Callable[[], Told]] = {
    "turn_tools": tools_scene,
    "turn_figure": figure_scene,
    "turn_question": question_scene,
    "turn_denied": denied_scene,
    "turn_compaction": compaction_scene,
    "turn_midturn": midturn_scene,
    "turn_retry": retry_scene,
    "turn_failure": failure_scene,
    "turn_plan": plan_scene,
    "turn_stop": stop_scene,
    "around": around_scene,
    "cleared": cleared_scene,
}


def open_answer() -> dict[str, object]:
    """Return the answer to `open` while a question of the running turn waits."""
    done, running = tools_scene().items, question_scene().items
    asked = [item["kind"] for item in running].index("question")
    later = [{**item, "turn": 2} if "turn" in item else item for item in running[:asked]]
    return {
        "epoch": "e1",
        "seq": 57,
        "session": session_item(turns=2),
        "items": coalesce([*done, *later]),
        "first_turn": 1,
        "has_earlier": False,
        "queue": [{"kind": "queued", "id": "p3", "text": "And then?", "attachments": []}],
        "question": {**running[asked], "turn": 2},
        "plan": PLAN,
        "is_running": True,
        "is_kernel_awaited": False,
        "commands": [{"name": "/compact", "usage": "/compact [FOCUS]", "help": "Compact now."}],
        "models": ["claude-sonnet-5-5", "demo"],
    }


def messages() -> list[dict[str, object]]:
    """Return messages of items as a page gets them: in pieces, one twice, behind `open_answer`."""
    running = question_scene().items
    asked = [item["kind"] for item in running].index("question")
    items = [{**item, "turn": 2} if "turn" in item else item for item in running[asked + 1 :]]
    head = {"version": 1, "type": "panel", "epoch": "e1"}
    told = [{**head, "seq": 57 + at, "items": items[at : at + 2]} for at in range(0, len(items), 2)]
    return [told[0], told[0], *told[1:]]


def sessions_answer() -> dict[str, object]:
    """Return the answer to `sessions`: one here, one elsewhere, one with hostile texts, deleted."""
    churn = SessionRow("s1", "Churn by cohort", "work/churn.ipynb", 7, 1.06, AT, "here")
    refunds = SessionRow("s2", "Refund outliers", "work/refunds.ipynb", 4, 0.22, AT, "elsewhere")
    hostile = SessionRow(
        "s3",
        "<img src=x onerror=alert(1)>\n\u202egpj.exe \x1b[2J\ud800",
        "C:\\work\\<b>.ipynb",
        -1,
        math.nan,
        math.inf,
        found="prompt",
        turn=2,
        excerpt="</mark><script>left join</script> \x00 left  join",
    )
    gone = SessionRow("s4", "Load the export", None, None, None, AT, "deleted")
    return {
        "rows": [session_row(row) for row in (churn, refunds, hostile)],
        "total": 41,
        "trashed": [session_row(gone)],
    }


def summary_answer() -> dict[str, object]:
    """Return the answer to `summary` of a compaction by itself: every part before and after."""
    found = summary(midturn_scene().session, None)
    assert found is not None
    return found


CALLS: tuple[Mapping[str, object], ...] = (
    {"op": "open", "args": {"turns": 30}},
    {"op": "earlier", "args": {"before": 31, "turns": 30}},
    {
        "op": "submit",
        "args": {
            "text": "Why is churn high? 📈",
            "images": [{"media_type": "image/png", "data": PIXEL, "name": "plot.png"}],
        },
    },
    {"op": "prompt", "args": {"turn": 2}},
    {"op": "prompt", "args": {"turn": None, "id": "p3"}},
    {"op": "unqueue", "args": {"id": "p3"}},
    {"op": "stop", "args": {"seq": 12}},
    {"op": "try_now", "args": {"turn": 3, "step": 1, "attempt": 2}},
    {
        "op": "decide",
        "args": {
            "question": "q1",
            "sha256": sha256_of("The agent asks to run code:", CHURN),
            "choice": "always",
            "word": "",
            "reason": "",
        },
    },
    {"op": "seen", "args": {"question": "q1"}},
    {"op": "complete", "args": {"text": "Plot @ch", "cursor": 8}},
    {
        "op": "estimate",
        "args": {"text": "Plot @churn", "images": [{"width_px": 640, "height_px": 480}]},
    },
    {"op": "summary", "args": {"n": None}},
    {"op": "edit_summary", "args": {"n": 1, "text": "The user counts."}},
    {"op": "undo_summary", "args": {}},
    {"op": "compact", "args": {"focus": ""}},
    {"op": "outputs", "args": {"tool_use_id": "toolu_01"}},
    {"op": "result", "args": {"tool_use_id": "toolu_01", "start": 0}},
    {"op": "context", "args": {}},
    {"op": "undo_edit", "args": {"tool_use_id": None}},
    {"op": "forget", "args": {"facts": FACTS_KEPT}},
    {"op": "rewind", "args": {"turn": 2}},
    {"op": "sessions", "args": {"text": "left join", "full": False}},
    {"op": "resume", "args": {"id": "20261130-104000-a1b2c3", "copy": False}},
    {"op": "delete_session", "args": {"id": "20261130-104000-a1b2c3"}},
    {"op": "restore_session", "args": {"id": "20261130-104000-a1b2c3"}},
    {"op": "configure", "args": {"settings": {"permissions": "edits"}}},
    {"op": "set_mode", "args": {"mode": "plan"}},
    {"op": "set_model", "args": {"name": "demo"}},
    {"op": "models", "args": {}},
)
"""One call of each operation."""


def make_all() -> dict[str, object]:
    """Return every fixture by name, as JSON."""
    made: dict[str, object] = {}
    for name, scene in SCENES.items():
        random.seed(5)  # how long a retry waits
        made_now = scene()
        items, entries = made_now.items, made_now.session.transcript.entries
        made[name] = {
            "about": scene.__doc__,
            "items": items,
            "coalesced": coalesce(items),
            "stored": [
                item for span in find_turns(entries)[0] for item in items_of(made_now.session, span)
            ],
        }
    made["open"] = {"about": open_answer.__doc__, "result": open_answer(), "then": messages()}
    made["sessions"] = {"about": sessions_answer.__doc__, "result": sessions_answer()}
    made["summary"] = {"about": summary_answer.__doc__, "result": summary_answer()}
    made["calls"] = {"about": "Every call, with its arguments.", "calls": CALLS}
    found: dict[str, object] = json.loads(json.dumps(made))
    return found


def write(name: str, fixture: object) -> None:
    """Write one fixture."""
    text = json.dumps(fixture, indent=1, ensure_ascii=False)
    (FIXTURES / f"{name}.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    for name, fixture in make_all().items():
        write(name, fixture)
