"""Laws of the program's own lines."""

from __future__ import annotations

import pytest

from jupyter_ctx.core.events import (
    CompactionFailed,
    RetryScheduled,
    ToolFinished,
    TurnFinished,
)
from jupyter_ctx.core.usage import Usage
from jupyter_ctx.ipython import words


def finished(outcome="done", error=None, steps=5, cost=0.04) -> TurnFinished:
    usage = Usage(31, 10_000, 2_000, 400)
    return TurnFinished(1, outcome, "end_turn", "", steps, usage, cost, 24.2, error)


def test_footer_is_as_drawn():
    """Steps and time, tokens and money, and how full the window is."""
    context = {"used_tokens": 82_000, "window_tokens": 200_000, "is_estimate": False}

    assert words.footer(finished(), context) == (
        "5 steps, 24 s · 12,431 tokens, $0.04 · context 41 %"
    )


def test_footer_leaves_out_what_is_not_known():
    """An unknown price is left out, an estimate marked, an unknown window named."""
    context = {"used_tokens": 81_900, "window_tokens": None, "is_estimate": True}

    assert words.footer(finished(steps=1, cost=None), context) == (
        "1 step, 24 s · 12,431 tokens · context ≈81,900 tokens, window unknown"
    )


def test_durations():
    """Tenths below ten seconds, minutes above sixty."""
    assert [words.duration(s) for s in (0.01, 0.24, 9.94, 9.96, 59.4, 185)] == [
        "<0.1 s",
        "0.2 s",
        "9.9 s",
        "10 s",
        "59 s",
        "3 min 05 s",
    ]


def test_money():
    """Cents; less than half a cent is not shown as nothing; unknown is empty."""
    assert [words.money(c) for c in (None, 0, 0.0004, 0.005, 1234.5)] == [
        "",
        "$0.00",
        "<$0.01",
        "$0.01",
        "$1,234.50",
    ]


def test_tool_lines():
    """A call is one line: what ran, how it went, how long it took."""
    done = ToolFinished(1, 1, "id", "run_code", "", True, False, 0, 0, 0.24)
    code = {"code": "import os\n# look\ndf.head()\n"}

    assert words.tool_line("run_code", code) == "Running code, 3 lines: df.head()…"
    assert words.tool_line("run_code", code, done) == (
        "Ran code, 3 lines: df.head() · failed · 0.2 s"
    )
    assert words.tool_line("inspect", {"names": ["df", "users"]}) == "Inspecting df, users…"
    assert (
        words.tool_line("edit_file", {"path": "src/a.py", "old": "x"}) == "Editing file src/a.py…"
    )
    assert words.tool_line("skill", {"name": "clean-sales"}) == "Loading skill clean-sales…"
    search = {"pattern": "TODO", "glob": "*.py"}
    assert words.tool_line("search_files", search) == "Searching the files: TODO, *.py…"
    assert words.tool_line("search_files", {}) == "Searching the files…"


def test_a_read_cell_is_named_by_its_number():
    """The person sees numbers, not ids: a cell that was read is named by the one it has."""
    text = "[cell e51a1847-a445-4a1f-ae50-fa835319d5fa, In[9], failed; outputs: none]\nf(In[1])"
    done = ToolFinished(1, 1, "id", "read_cell", text, False, False, 0, 0, 0.0)
    gone = ToolFinished(1, 1, "id", "read_cell", "No such cell.", True, False, 0, 0, 0.0)
    call = {"cell_id": "e51a1847"}

    assert words.tool_line("read_cell", call, done) == "Read cell In[9] · <0.1 s"
    assert words.tool_line("read_cell", call, gone) == "Read cell e51a1847 · failed · <0.1 s"


@pytest.mark.parametrize(
    ("name", "input_", "text", "line"),
    [
        (
            "insert_cell",
            {"source": "x"},
            "Inserted code cell `a1`: 3 of 9, at …",
            "Inserted cell 3 of 9",
        ),
        (
            "edit_cell",
            {"cell_id": "a1"},
            "Edited code cell `a1`: 3 of 9, at …",
            "Edited cell 3 of 9",
        ),
        (
            "move_cell",
            {"cell_id": "a1"},
            "Moved raw cell `a1`: 1,003 of 1,009, …",
            "Moved cell 1,003 of 1,009",
        ),
        ("delete_cell", {"cell_id": "a1"}, "Deleted cell `a1`, which stood …", "Deleted cell a1"),
        ("run_cell", {"cell_id": "a1"}, "[cell a1 ran; its outputs, …]", "Ran cell a1"),
    ],
)
def test_a_changed_cell_is_named_by_its_place(name, input_, text, line):
    """What was done to a cell is said in words, with the place that the person sees."""
    done = ToolFinished(1, 1, "id", name, text, False, False, 0, 0, 0.0)

    assert words.tool_line(name, input_, done) == f"{line} · <0.1 s"


def test_stopped_tool_line_says_stopped():
    """A call that the user stopped did not fail."""
    done = ToolFinished(1, 1, "id", "run_code", "", True, False, 0, 0, 1.8, interrupted=True)

    assert words.tool_line("run_code", {"code": "x"}, done) == (
        "Ran code, 1 line: x · stopped · 1.8 s"
    )


def test_denied_tool_line_says_why():
    """A denied call says that it was and why."""
    text = "Denied by the user: use polars"
    done = ToolFinished(1, 1, "id", "run_code", text, True, True, 0, 0, 0.0)

    assert words.tool_line("run_code", {"code": "x"}, done) == f"Code not run, 1 line: x · {text}"


def test_a_call_that_never_began_is_told_without_its_input():
    """Where the input is not known, the line makes up neither lines nor names."""
    done = ToolFinished(1, 1, "id", "", "Denied", True, True, 0, 0, 0.0)

    assert words.tool_line("run_code", {}, done) == "Code not run · Denied"
    assert words.tool_line("inspect", {}, done) == "Not inspected · Denied"


def test_retry_counts_down():
    """The countdown names the reason, the time left and the try."""
    event = RetryScheduled(1, 5, 3, 8, 18.0, "Anthropic is overloaded (529).")

    assert words.retry_lines(event, 18.0) == (
        "Anthropic is overloaded (529). Next try in 0:18.",
        "Try 3 of 8. Nothing is lost: step 5 starts again where it was.",
    )


def test_failures_are_one_sentence():
    """A stop names its step; an error is its own sentence, on one line."""
    assert words.failure(finished("stopped")) == (
        "Stopped by you at step 5. Code that had run stays run."
    )
    assert words.failure(finished("stopped", steps=0)) == (
        "Stopped by you before the first step. The prompt was not sent."
    )
    assert words.failure(finished("failed", "The key was\nrefused (401).")) == (
        "The key was refused (401)."
    )


def test_paused_compaction_says_what_to_type():
    """A paused compaction names its failures and the command."""
    event = CompactionFailed(1, "The summary was empty.", 3, True)

    assert words.compaction_failed_line(event) == (
        "Compaction is paused after 3 failures: The summary was empty. Run /compact to try again."
    )
