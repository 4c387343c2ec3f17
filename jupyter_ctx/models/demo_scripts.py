"""What the demo model says: a script by words of the prompt, over what the tools returned.

A script is asked for one step at a time: it is told the prompt and the calls made since, and
returns the texts and calls that come next. Pure, and no part of it knows how they are sent.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.blocks import (
    Message,
    Text,
    ToolResult,
    ToolUse,
    text_of,
    tool_results,
    tool_uses,
)
from ..core.budget import DONE, is_nudge
from ..core.loop import CONTINUE_TEXT, PAUSED_TEXT

LIST_NAMES = """\
for _name in sorted(set(globals()) - {"In", "Out", "exit", "quit", "open", "get_ipython"}):
    if not _name.startswith("_") and type(globals()[_name]).__name__ != "module":
        print(_name, type(globals()[_name]).__name__)
del _name"""

LAST_ERROR = """\
import sys as _sys
_error = getattr(_sys, "last_value", None)
print(f"{type(_error).__name__}: {_error}" if _error is not None else "no error so far")
del _error, _sys"""

LARGE_LOG = """\
for _step in range(20_000):
    print(f"step {_step:>5}  loss {2.5 * 0.9997 ** _step + 0.1:.4f}")
del _step"""

PLOT = """\
import matplotlib.pyplot as _plt
_figure, _axes = _plt.subplots(figsize=(5, 3))
_axes.plot([2.5 * 0.9 ** n + 0.1 for n in range(40)])
_axes.set(title="A falling curve", xlabel="step", ylabel="loss")
_plt.show()
del _figure, _axes, _plt"""

PLAN = [
    {"text": "Look at the data", "state": "in_progress"},
    {"text": "Clean it", "state": "pending"},
    {"text": "Check the result", "state": "pending"},
]

AGENT_TASK = "# The task\n"
"""What stands over the task in what a sub-agent is told."""
TASK = "What is in this notebook?"


@dataclass(frozen=True, slots=True)
class Done:
    """A call of this turn and what it returned."""

    use: ToolUse
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A call to make."""

    name: str
    input: dict[str, object]


Steps = list["Step | str"]


# Reading the conversation -----------------------------------------------------------------------


def read_turn(messages: Sequence[Message]) -> tuple[str, list[Done]]:
    """Return the newest prompt and the calls made since, with their results."""
    begin, prompt = 0, ""
    for index, message in enumerate(messages):
        words = _words(message)
        if message.role == "user" and words:
            begin, prompt = index, words
    done: list[Done] = []
    for message, following in itertools.pairwise(messages[begin:]):
        results = {result.tool_use_id: result for result in tool_results(following)}
        done += [
            Done(use, _plain(results[use.id]), results[use.id].is_error)
            for use in tool_uses(message)
            if use.id in results
        ]
    return prompt, done


def _words(message: Message) -> str:
    """Return what the user typed: for a summary message, the last words it quotes."""
    typed = [b for b in message.content if isinstance(b, Text) and b.part == "conversation"]
    if typed:
        words = text_of(typed)
        return "" if words in (CONTINUE_TEXT, PAUSED_TEXT) else words  # not the user's
    quoted = [
        block.text
        for block in message.content
        if isinstance(block, Text) and block.part == "reinjected" and "## Turn " in block.text
    ]
    return re.split(r"## Turn \d+\n", quoted[0])[-1].strip() if quoted else ""


def _plain(result: ToolResult) -> str:
    return text_of(block for block in result.content if isinstance(block, Text))


def summarise(messages: Sequence[Message]) -> str:
    """Return a summary made of the user's words and the first lines of the results."""
    prompts: list[str] = []
    findings: list[str] = []
    for message in messages:
        words = _words(message) if message.role == "user" else ""
        if words and not is_nudge(words):
            prompts.append(words.splitlines()[0][:100])
        findings += [
            line for result in tool_results(message) if (line := _first_line(_plain(result)))
        ]
    asked = "\n".join(f"- {words}" for words in prompts[-6:]) or "- nothing yet"
    seen = "\n".join(f"- {line}" for line in findings[-10:]) or "- nothing yet"
    return f"## Task\nThe user asked, oldest first:\n{asked}\n\n## Findings\n{seen}"


def _first_line(text: str) -> str:
    return next((line.strip()[:120] for line in _shown(text).splitlines() if line.strip()), "")


def _shown(text: str) -> str:
    """Return a result without the line that stands over the preview of a stored one."""
    first, _, rest = text.partition("\n")
    return rest if first.startswith("[") and "read_result(" in first else text


# The scripts ------------------------------------------------------------------------------------


def script(prompt: str, done: Sequence[Done]) -> Steps:
    """Return the next step of the script that fits the prompt: texts and calls, in order."""
    denied = next((each for each in done if each.text.startswith("Denied")), None)
    if denied is not None:
        found = re.match(r"Denied by [^:\n]*: (.*)", denied.text, re.DOTALL)
        reason = found.group(1).strip() if found else ""
        return [f"I did not run it: {reason}" if reason else "I did not run it."]
    if is_nudge(prompt):
        return [DONE]
    prompt = re.sub(r"\bdemo: *[a-z]+\b[,.]?", "", prompt, flags=re.I)
    prompt = prompt.rpartition(AGENT_TASK)[2]
    words = prompt.lower()
    if skill := re.search(r"\bskill ([a-z0-9-]+)", words):
        lead = f"I load the skill `{skill.group(1)}`."
        return _once(lead, Step("skill", {"name": skill.group(1)}), done)
    if code := re.search(r"`([^`]+)`", prompt):
        return _run(code.group(1), done)
    if kept := _keeping(prompt, done):
        return kept
    if stored := re.search(r"\b(?:turn|prompt)-\d+\b|\bdemo_[0-9a-f]+\b", prompt):
        return _read(stored.group(), prompt, done)
    if re.search(r"\b(add|insert|edit|change|rewrite|comment)\b", words):
        mentioned = re.search(r"@cell:([\w-]+)", prompt)
        return _edit(mentioned.group(1), done) if mentioned else _add(done)
    if re.search(r"\b(large|big|long|log|output)\b", words):
        return _large(done)
    if re.search(r"\b(plot|figure|chart|draw)\b", words):
        return _plot(done)
    if re.search(r"\b(error|fail\w*|wrong|fix|why)\b", words):
        return _error(done)
    return _tour(done)


def _run(code: str, done: Sequence[Done]) -> Steps:
    if not done:
        return [f"I run `{code}`.", Step("run_code", {"code": code})]
    verb = "It failed" if done[-1].failed else "It returned"
    return [f"{verb}:\n\n```text\n{_head(done[-1].text, 12)}\n```"]


def _keeping(prompt: str, done: Sequence[Done]) -> Steps:
    """Return the script for a plan, a fact to keep, a sub-agent or an MCP tool; [] for no such."""
    if re.search(r"\b(?:make|write) (?:a|the) plan\b", prompt, re.I):
        return _once("I make a plan.", Step("update_plan", {"items": PLAN}), done)
    if fact := re.match(r"\s*(?:please )?remember(?: that)? (.+)", prompt, re.I):
        return _once("I keep that.", Step("remember", {"text": fact.group(1)}), done)
    if re.search(r"\bsub-?agents?\b", prompt, re.I):
        task: dict[str, object] = {"description": "Look at the notebook", "prompt": TASK}
        return _once("I give that to a sub-agent.", Step("task", task), done)
    if tool := re.search(r"\bmcp__[\w-]+", prompt):
        given = re.search(r"\{.*\}", prompt, re.S)
        step = Step(tool.group(), _object(given.group() if given else "{}"))
        return _once(f"I call `{tool.group()}`.", step, done)
    return []


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _once(lead: str, step: Step, done: Sequence[Done]) -> Steps:
    """Make one call, and say what it returned."""
    if not done:
        return [lead, step]
    if done[-1].failed:
        return [f"That did not work: {_last_line(done[-1].text)}"]
    return [f"It says:\n\n```text\n{_head(done[-1].text, 12)}\n```"]


def _read(name: str, prompt: str, done: Sequence[Done]) -> Steps:
    """Read a stored text; lines 1 to 10 unless the prompt says which."""
    if not done:
        lines = re.search(r"\blines? (\d+)(?: to (\d+))?", prompt)
        start = int(lines[1]) if lines else 1
        end = int(lines[2] or start) if lines else 10
        where = {"tool_use_id": name, "start_line": start, "end_line": end}
        return [f"I read `{name}` in the store.", Step("read_result", where)]
    return [f"It says:\n\n```text\n{_head(done[-1].text, 12)}\n```"]


def _add(done: Sequence[Done]) -> Steps:
    if not done:
        source = "# Added by the demo model\nsquares = [n * n for n in range(10)]\nsum(squares)"
        return ["I add a cell at the end.", Step("insert_cell", {"source": source})]
    if done[-1].failed:
        return [f"That did not work: {_last_line(done[-1].text)}"]
    return ["The cell stands at the end. To have one edited, mention it: `Comment @cell:3`."]


def _edit(cell: str, done: Sequence[Done]) -> Steps:
    """Put a comment over the mentioned cell."""
    if not done:
        return [f"I read the cell `{cell}`.", Step("read_cell", {"cell_id": cell})]
    last = done[-1]
    if last.failed:
        named = re.search(r"In\[\d+\] is `([^`]+)`", last.text) if len(done) == 1 else None
        if named:
            return [Step("read_cell", {"cell_id": named.group(1)})]
        return [f"That did not work: {_last_line(last.text)}"]
    if last.use.name != "read_cell":
        return ["The cell has a comment now. Undo takes it back."]
    head, _, source = last.text.partition("\n")
    if re.search(r"^\[.*; go on with start_\w+=\d+\]$", source, re.M):
        return ["The window is nearly full: I see a part of the cell only, so I leave it as it is."]
    name = re.match(r"\[cell ([^\s,]+)", head)
    source = f"# Looked at by the demo model\n{source}"
    return [Step("edit_cell", {"cell_id": name.group(1) if name else cell, "source": source})]


def _large(done: Sequence[Done]) -> Steps:
    if not done:
        return [
            "I print a training log of 20,000 lines; that is far more than fits.",
            Step("run_code", {"code": LARGE_LOG}),
        ]
    if len(done) == 1:
        read = {"tool_use_id": done[0].use.id, "start_line": 10_000, "end_line": 10_002}
        return [
            "The whole log is stored and I have its head and tail. I read three lines of it.",
            Step("read_result", read),
        ]
    last = re.findall(r"step\s+19999\s+loss ([\d.]+)", done[0].text)
    middle = re.findall(r"step\s+9999\s+loss ([\d.]+)", done[1].text)
    return [
        "The loss falls"
        + (f" to **{middle[0]}** half-way" if middle else "")
        + (f" and ends at **{last[0]}**" if last else "")
        + ". The other 19,990 lines are in the store, outside the window."
    ]


def _plot(done: Sequence[Done]) -> Steps:
    if not done:
        return ["I draw a small figure.", Step("run_code", {"code": PLOT})]
    if done[-1].failed:
        return [f"That did not work: {_last_line(done[-1].text)}"]
    return ["The figure is above. It is scaled once, and I see it too."]


def _error(done: Sequence[Done]) -> Steps:
    if not done:
        return [
            "I look at the last error and at the cells.",
            Step("run_code", {"code": LAST_ERROR}),
            Step("list_cells", {}),
        ]
    error = _first_line(done[0].text)
    if error.startswith("no error"):
        return ["No cell has failed so far."]
    kind = re.escape(error.partition(":")[0])
    failed = re.findall(rf"^(\S+) [^\n]*\bfailed\b[^\n]*\b{kind}\b", done[1].text, re.M)
    if len(done) == 2 and failed:
        return [Step("read_cell", {"cell_id": failed[-1], "outputs": False})]
    if len(done) > 2 and not done[2].failed:
        cell = f"```text\n{_head(done[2].text, 10)}\n```"
        return [f"The last error is **{error}**, raised by this cell:\n\n{cell}"]
    return [f"The last error is **{error}**. I do not see the cell that raised it."]


def _tour(done: Sequence[Done]) -> Steps:
    if not done:
        return [
            "I look at the cells and the variables.",
            Step("list_cells", {}),
            Step("run_code", {"code": LIST_NAMES}),
        ]
    found = re.findall(r"^(\w+) (\w+)$", done[1].text, re.M) if len(done) > 1 else []
    if not found and len(done) > 1 and "read_result(" in done[1].text:
        return ["The window is nearly full: the list of names went to the store. Ask again."]
    if not found and len(done) < 2:
        return ["The conversation was compacted, the list of names with it. Ask again."]
    if not found:
        return ["The kernel holds no variables yet. Run a cell that makes some, then ask again."]
    names = [name for name, _ in sorted(found, key=_interest)][:3]
    if len(done) == 2:
        return [Step("inspect", {"names": names})]
    kinds = ", ".join(f"`{name}` ({kind})" for name, kind in found[:8])
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    return [
        f"The kernel holds {_variables(len(found))}: {kinds}{more}.\n\n"
        f"The most telling ones:\n\n```text\n{_head(done[2].text, 14)}\n```"
    ]


def _variables(count: int) -> str:
    return "1 variable" if count == 1 else f"{count:,} variables"


def _interest(found: tuple[str, str]) -> int:
    """Order frames and arrays first, then containers, then the rest."""
    order = {"DataFrame": 0, "ndarray": 1, "Series": 1, "dict": 2, "list": 2}
    return order.get(found[1], 3)


def _head(text: str, lines: int) -> str:
    kept = _shown(text).replace("```", "'''").rstrip().lstrip("\n").splitlines()
    return "\n".join(kept[:lines] + (["…"] if len(kept) > lines else []))


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
