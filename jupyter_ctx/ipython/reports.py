"""What commands show, as Markdown and as plain text; pure functions of JSON and values.

What those show that change the conversation is in `wayback.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from ..core.blocks import PART_NAMES, Part
from ..core.preparation import State
from . import words
from .markdown import escape, safe_markdown
from .plaintext import one_line, plain

Report = tuple[str, str]
Row = tuple[str, ...]

SOURCE_TEXTS = {
    "api": "the provider says so",
    "server": "the server says so",
    "error": "learnt from an error of the provider",
    "table": "from the bundled table",
    "unknown": "not known",
}
PREPARATIONS: dict[State, str] = {
    "none": "",
    "running": "Its summary is being written in the background.",
    "ready": "Its summary is ready, so that it will keep nobody waiting.",
}
MISS_REASONS = {
    "model_changed": "another model",
    "system_changed": "another system prompt",
    "tools_changed": "other tools",
    "messages_changed": "other messages",
    "previous_message_not_found": "the prompt before is not known any more",
    "unavailable": "not said",
}
BREAK_CAUSES = {
    "compaction": "a compaction",
    "rewind": "a rewind",
    "model_switch": "a switch of the model",
    "summary_edit": "an edited summary",
    "summary_undo": "an undone summary",
    "refusal": "a refused exchange was left out",
    "left_out": "a prompt that failed was left out",
    "repair": "the conversation was mended",
    "prefix": "system prompt and tools were made anew",
    "settings": "a setting was changed",
}
UNEXPLAINED = "nothing known"
SUMMARY_STATES = {"edited": "edited by you", "undone": "undone"}
MOST_AGENTS = 20
"""So many sub-agents, the newest, stand in `/cost`."""

MOST_MISSES = 10
"""So many cache misses have a row, the newest; those before are counted."""

MOST_ROWS_OF_A_KIND = 5
"""More things of one kind that a compaction put back share a row."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing `/doctor` looked at; `advice` says what to do about it, "" if nothing."""

    level: Literal["ok", "warning", "fault"]
    what: str
    advice: str = ""


def table(head: Row, rows: Sequence[Row], right: int = 1) -> Report:
    """Return a table whose columns from `right` on are aligned to the right."""
    marks = ["---" if at < right else "--:" for at in range(len(head))]
    cells = [[escape(cell).replace("|", "\\|") for cell in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    markdown = "\n".join([lines[0], f"| {' | '.join(marks)} |", *lines[1:]])
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    texts = (
        "  ".join(
            cell.ljust(width) if at < right else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )
    return markdown, "\n".join(texts)


def join(*reports: Report | str) -> Report:
    """Return the reports one below the other; a string is a line of text."""
    made = [(escape(one), plain(one)) if isinstance(one, str) else one for one in reports]
    kept = [one for one in made if one[0]]
    return "\n\n".join(m for m, _ in kept), "\n\n".join(t for _, t in kept)


def context_report(
    context: Mapping[str, object], set_window: int = 0, preparation: State = "none"
) -> Report:
    """Return what fills the window, by part, in tokens and per cent.

    `set_window` is the window that is set; 0: none is. `preparation` is the state of a summary that
    is made beside the conversation.
    """
    used, window = _int(context.get("used_tokens")), context.get("window_tokens")
    about = "≈" if context.get("is_estimate") else ""
    whole = window if isinstance(window, int) and window > 0 else None
    source = source_text(str(context.get("window_source")), whole, set_window)
    title = f"{about}{used:,} tokens, window unknown. Model {context.get('model')}."
    if whole is not None:
        percent = f"{about}{round(100 * used / whole)} %"
        title = (
            f"{about}{used:,} of {whole:,} tokens, {percent}. "
            f"Model {context.get('model')}; window: {source}."
        )
    rows = [
        (PART_NAMES[name], f"{tokens:,}", _percent(tokens, whole or used))
        for name, tokens in _parts(context)
    ]
    free, reserve = context.get("free_tokens"), context.get("reserve_tokens")
    if isinstance(free, int):
        rows.append(("Free", f"{free:,}", _percent(free, whole or used)))
    if isinstance(reserve, int):
        rows.append(("of it reserved for the answer", f"{reserve:,}", ""))
    measured = (
        f"Measured by the provider: {_int(context.get('measured_tokens')):,}; "
        f"estimated since: {_int(context.get('estimated_tokens')):,}."
    )
    return join(
        title,
        table(("Part", "Tokens", "Share"), rows),
        measured,
        _forecast(context),
        PREPARATIONS[preparation],
        _spent(context),
    )


def _forecast(context: Mapping[str, object]) -> str:
    compaction = context.get("compaction")
    if not isinstance(compaction, Mapping):
        return ""
    mode, left = compaction.get("mode"), compaction.get("steps_left")
    made = _int(context.get("compactions"))
    said = f"Compaction: {mode}; {words.count(made, 'compaction')} so far."
    if isinstance(left, int):
        said += (
            " The next comes after this step."
            if left < 1
            else f" The next comes in about {words.count(left, 'step')}."
        )
    account, price = compaction.get("account"), compaction.get("price")
    if isinstance(account, int | float) and isinstance(price, int | float):
        since = "since the last" if made else "so far"
        said += (
            f" Paid {since} for carrying what it would drop: {account:,.0f} weighted "
            f"tokens; its price: {price:,.0f}."
        )
    return said


def _spent(context: Mapping[str, object]) -> str:
    cost, ratio = context.get("cost_usd"), context.get("cache_read_ratio")
    money = words.money(cost) if isinstance(cost, int | float) else "cost not known"
    read = f", {round(100 * ratio)} % of input read from cache" if isinstance(ratio, float) else ""
    return f"Session so far: {money}{read}."


def source_text(source: str, window: int | None, set_window: int) -> str:
    """Return who says how large the window is; one that is set does, where it is in force."""
    if set_window > 0 and window == set_window:
        return "as set"
    return SOURCE_TEXTS.get(source, "")


def cost_report(cost: Mapping[str, object]) -> Report:
    """Return tokens by kind, money, the cache-read ratio, what compactions and sub-agents cost."""
    usage = cost.get("usage")
    kinds = {
        "uncached": "Input, uncached",
        "cache_read": "Input, read from cache",
        "cache_write": "Input, written to cache",
        "output": "Output",
    }
    counts = usage if isinstance(usage, Mapping) else {}
    rows = [(kinds[kind], _or_unknown(counts.get(kind))) for kind in kinds]
    money = cost.get("cost_usd")
    ratio, source = cost.get("cache_read_ratio"), cost.get("price_source")
    if isinstance(money, int | float):
        total = f"Session so far: {words.money(money)}."
    elif source:
        total = "Session so far: not known; a call's price or its tokens were not told."
    else:
        total = f"Session so far: the price of {cost.get('model')} is not known."
    read = (
        f"{round(100 * ratio)} % of all input was read from the cache."
        if isinstance(ratio, float)
        else ""
    )
    return join(
        total,
        table(("Kind", "Tokens"), rows),
        read,
        _compactions(cost.get("compactions")),
        _agents(cost.get("agents")),
        _cache_misses(cost.get("cache_misses")),
        f"Prices: {source}." if source else "",
    )


def _compactions(listed: object) -> Report | str:
    if not isinstance(listed, Sequence) or not listed:
        return "No compaction so far."
    rows = [
        (
            f"Compaction {one['n']}",
            f"{one['tokens_before']:,}",
            f"{one['tokens_after']:,}",
            words.money(one["cost_usd"]) or "not known",
        )
        for one in listed
    ]
    return table(("", "Tokens before", "after", "Cost"), rows)


def _agents(listed: object) -> Report | str:
    """Return the newest sub-agents with what each cost; the totals have it already."""
    if not isinstance(listed, Sequence) or not listed:
        return ""
    rows = [
        (
            one_line(str(one["description"]), 60),
            str(one["outcome"]),
            f"{one['steps']:,}",
            words.money(one["cost_usd"]) or "not known",
        )
        for one in listed[-MOST_AGENTS:]
    ]
    before = len(listed) - len(rows)
    return join(
        table(("Sub-agent", "Ended", "Steps", "Cost"), rows, right=2),
        f"{before:,} more before these." if before else "",
    )


def _cache_misses(listed: object) -> Report | str:
    """Return the misses that the provider told, each with its reason and the break behind it."""
    if not isinstance(listed, Sequence) or not listed:
        return ""
    rows = [
        (
            f"Turn {one['turn']}, step {one['step']}",
            MISS_REASONS.get(str(one["reason"]), str(one["reason"])),
            BREAK_CAUSES.get(str(one["cause"]), UNEXPLAINED),
            _or_unknown(one["tokens"]),
        )
        for one in listed[-MOST_MISSES:]
    ]
    before = len(listed) - len(rows)
    return join(
        table(("Cache miss", "The provider says", "Behind it", "Tokens"), rows, right=3),
        f"{before:,} more before these." if before else "",
    )


def summary_report(found: Mapping[str, object], missing: Sequence[str] = ()) -> Report:
    """Return one compaction: its numbers, the summary, what it replaced and put back.

    `missing` are the names in the summary that the kernel has no more.
    """
    replaced = found.get("replaced")
    turns = ""
    if isinstance(replaced, Mapping):
        first, last = replaced.get("first_turn"), replaced.get("last_turn")
        span = f"turn {first}" if first == last else f"turns {first} to {last}"
        turns = f"It replaced {words.count(_int(replaced.get('messages')), 'message')} of {span}."
    cost, seconds = found.get("cost_usd"), found.get("seconds")
    figures = [
        f"{_int(found.get('tokens_before')):,} → {_int(found.get('tokens_after')):,} tokens",
        words.duration(seconds) if isinstance(seconds, int | float) else "",
        words.money(cost) if isinstance(cost, int | float) else "",
    ]
    state = SUMMARY_STATES.get(str(found.get("state")), "")
    about = ", ".join(filter(None, (str(found.get("trigger")), state)))
    title = f"Compaction {found.get('n')} ({about}): {' · '.join(filter(None, figures))}"
    summary = str(found.get("summary", ""))
    back = found.get("reinjected")
    rows = _put_back(back) if isinstance(back, Sequence) else []
    put_back = table(("Put back", "Which", "Tokens"), rows, right=2) if rows else ""
    shown = lower_headings(safe_markdown(summary)), plain(summary)
    gone = f"Named above, but not in the kernel any more: {', '.join(missing)}." if missing else ""
    return join(title, turns, shown, gone, put_back)


def lower_headings(markdown: str) -> str:
    """Return safe Markdown whose headings are small: they are not those of the notebook."""
    fence, lines = "", []
    for line in markdown.split("\n"):
        run = re.match(r"`{3,}", line)
        if run and not fence:
            fence = run.group()
        elif fence and line.strip() == fence:
            fence = ""
        elif not fence and re.match(r"#{1,3} ", line):
            line = f"#### {line.lstrip('#').lstrip()}"
        lines.append(line)
    return "\n".join(lines)


def _put_back(items: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each thing put back; of many of a kind one row, with their sum."""
    rows: list[Row] = []
    for kind, group in groupby(items, key=lambda one: str(one["kind"])):
        each = [(str(one["id"]), _int(one["tokens"])) for one in group]
        if len(each) > MOST_ROWS_OF_A_KIND:
            few = ", ".join(id_ for id_, _ in each[:3])
            each = [(f"{few}, … {each[-1][0]} ({len(each)})", sum(tokens for _, tokens in each))]
        rows += [(kind, id_, f"{tokens:,}") for id_, tokens in each]
    return rows


def pins_report(pins: Mapping[int, str], made: int | None = None) -> Report:
    """Return what is pinned, each text under its number; `made` is the pin just added."""
    if not pins:
        return join("Nothing is pinned.")
    lead = f"{words.count(len(pins), 'pin')}; each is kept verbatim through every compaction."
    if made is not None:
        lead = f"Pin {made} is kept; the model hears of it with the next prompt."
    shown = pins if made is None else {made: pins[made]}
    return join(lead, *(f"{n}: {text}" for n, text in sorted(shown.items())))


def doctor_report(findings: Sequence[Finding]) -> Report:
    """Return what was looked at, faults first, each with what to do."""
    order = {"fault": 0, "warning": 1, "ok": 2}
    marks = {"fault": "Fault", "warning": "Note", "ok": "OK"}
    rows = [
        (marks[one.level], one.what, one.advice)
        for one in sorted(findings, key=lambda one: order[one.level])
    ]
    faults = sum(one.level == "fault" for one in findings)
    title = f"{words.count(faults, 'fault')} found." if faults else "No fault found."
    return join(title, table(("", "Looked at", "What to do"), rows, right=3))


def _parts(context: Mapping[str, object]) -> list[tuple[Part, int]]:
    parts = context.get("parts")
    if not isinstance(parts, Mapping):
        return []
    return [(name, _int(parts.get(name))) for name in PART_NAMES]


def _percent(tokens: int, whole: int) -> str:
    return f"{100 * tokens / whole:.1f} %" if whole else ""


def _int(value: object) -> int:
    return round(value) if isinstance(value, int | float) else 0


def _or_unknown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "not said"
