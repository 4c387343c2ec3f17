"""One entry of every kind, with every kind of block: what the golden file holds."""

from jupyter_ctx.core.blocks import (
    Image,
    Opaque,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    user,
)
from jupyter_ctx.core.entries import (
    AgentEntry,
    CacheMiss,
    CompactionEntry,
    CompactionFailedEntry,
    CountEntry,
    Edit,
    EditEntry,
    EditUndoneEntry,
    Entry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    OverflowEntry,
    PinEntry,
    PlanEntry,
    PrefixEntry,
    Reinjected,
    RepairEntry,
    RewindEntry,
    SessionEntry,
    SpentEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    UnknownEntry,
    UnpinEntry,
)
from jupyter_ctx.core.plan import PlanItem
from jupyter_ctx.core.usage import Usage

THINKING = Thinking(
    {"type": "thinking", "thinking": "Hm\u2028…", "signature": "c2ln", "z": 1.0, "a": 10**25}
)
TOOLS = ({"name": "run_code", "input_schema": {"type": "object", "required": ["code"]}},)
USAGE = Usage(uncached=3, cache_read=20_000, cache_write=150_000, output=900, cache_write_1h=10)
CALL = ToolUse(
    "toolu_01", "run_code", {"code": "print(1)\n", "a": [None, True, 1.5, {"é": "\x00"}]}
)
RESULT = ToolResult("toolu_01", (Text("1\n", "results"), Image("image/png", "iVBORw0=", 640, 480)))
SUMMARY = user(Text("The summary.", "summary"), Text("Cells.", "reinjected"))

EXAMPLES: tuple[Entry, ...] = (
    SessionEntry(1.5, "20261130-101502-a1b2c3", "/home/u/a.ipynb", "/home/u", "0.1.0", "older"),
    SessionEntry(1.5, "20261130-101502-a1b2c4", None, "/home/u", "0.1.0"),
    PrefixEntry(2.0, "You help in a notebook. 日本語", TOOLS),
    ModelEntry(2.0, "claude-sonnet-5-5"),
    MessageEntry(
        3.0, 1, 0, "prompt", user(Text("Namespace: x", "notebook"), Text("Hi")), cell_id="c"
    ),
    MessageEntry(
        4.0,
        1,
        1,
        "reply",
        assistant(
            THINKING,
            Thinking({"type": "redacted_thinking", "data": "ZGF0YQ=="}),
            Opaque({"type": "server_tool_use", "id": "srvtoolu_1", "input": {}}),
            Opaque({"type": "text", "text": "cited", "citations": [{"start": 1}]}),
            Opaque({"no": "type"}),
            Text("I look."),
            CALL,
        ),
        model="claude-sonnet-5-5",
        usage=USAGE,
        raw_tokens=170_000,
        stop_reason="tool_use",
        message_id="msg_1",
    ),
    MessageEntry(5.0, 1, 1, "results", user(RESULT)),
    MessageEntry(5.0, 1, 1, "note", user(Text("[Stopped by the user]"))),
    MessageEntry(5.0, 1, 2, "repair", user(ToolResult("toolu_02", (Text("lost"),), is_error=True))),
    FateEntry(6.0, "toolu_01", "offload", "run_code", 300_000, 12, "tool-results/s/toolu_01.txt"),
    FateEntry(6.0, "toolu_02", "keep", "run_code", 4, 1),
    CompactionEntry(
        at=7.0,
        n=1,
        turn=1,
        trigger="proactive",
        message=SUMMARY,
        summary="The summary.",
        drop_messages=3,
        drop_thinking=True,
        first_turn=1,
        last_turn=1,
        tokens_before=150_000,
        tokens_after=9_000,
        seconds=4.25,
        cost_usd=None,
        usage=USAGE,
        reinjected=(Reinjected("cell", "c", 20),),
        focus="numbers",
    ),
    CompactionEntry(  # as it is written since it tells its parts
        at=7.5,
        n=2,
        turn=2,
        trigger="manual",
        message=SUMMARY,
        summary="The summary.",
        drop_messages=2,
        drop_thinking=False,
        first_turn=1,
        last_turn=2,
        tokens_before=120_000,
        tokens_after=12_000,
        seconds=3.5,
        cost_usd=0.25,
        usage=USAGE,
        parts_before=(2_000, 6_000, 1_000, 500, 500, 30_000, 80_000),
        parts_after=(2_000, 6_000, 2_000, 1_000, 500, 500, 0),
    ),
    CompactionFailedEntry(8.0, 1, "reactive", "no text came", Usage(output=0)),
    SpentEntry(8.0, 1, Usage(1, 2, 3, 4), "the output limit was raised"),
    OverflowEntry(8.0, 210_000, 200_000),
    CountEntry(8.0, 170_000),
    EditEntry(
        8.0, 1, 1, Edit("cell", "c1", {"type": "code", "source": "x = 1"}, {"source": "x = 2"})
    ),
    EditEntry(8.0, 2, 1, Edit("file", "/home/user/new.py", None, {"text": "x = 1"})),
    EditUndoneEntry(8.0, 2),
    MessageEntry(
        8.0,
        1,
        2,
        "reply",
        assistant(Text("Hello")),
        cache_miss=CacheMiss("messages_changed", 1_000),
        seen={"cells": [["c1", "3f2a"]]},
    ),
    SummaryEditEntry(9.0, 1, SUMMARY, "The summary."),
    SummaryUndoEntry(9.0, 1, drop_thinking=True),
    RewindEntry(9.0, 1),
    PinEntry(9.0, 1, "Use metric units."),
    UnpinEntry(9.0, 1),
    PlanEntry(
        9.0,
        1,
        1,
        (
            PlanItem("Load the sales", "done"),
            PlanItem("Plot them", "in_progress"),
            PlanItem("Tell"),
        ),
        "agent",
        "toolu_1",
    ),
    AgentEntry(9.0, 2, "toolu_2", "Count the rows", "done", 3, 4.5, USAGE, 0.0625, 2),
    ExcludeEntry(9.0, 2, "refusal"),
    RepairEntry(10.0, (user(Text("Hi")), assistant(Text("Hello"))), "line 3 was lost"),
    UnknownEntry({"v": 1, "type": "drawing", "z": 1, "a": 2.0}),
    UnknownEntry({"v": 2, "type": "message", "text": "of a newer version"}),
)

RECORDED: tuple[Entry, ...] = EXAMPLES[2:10]
"""A turn with a call and its result, as a session stores it after its SessionEntry."""
