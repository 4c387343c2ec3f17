"""What commands show, as Markdown and as plain text; pure functions of JSON and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from ..core.blocks import PART_NAMES, Message, Part, title_of
from ..core.preparation import State
from ..core.usage import Prices, Usage
from . import words
from .asked import unified
from .markdown import escape, fence, safe_markdown
from .plaintext import plain, shown_exactly

if TYPE_CHECKING:
    from ..core.edits import EditUndo
    from ..core.rewind import Rewind
    from ..core.summaries import Undo
    from ..session import Session

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
MOST_MISSES = 10
"""So many cache misses have a row, the newest; those before are counted."""

DIFF_LINES = 200
"""So many lines of what an undo put back are shown."""

MOST_TURNS = 10
"""So many turns are listed to go back to, the newest."""

MOST_ROWS_OF_A_KIND = 5
"""More things of one kind that a compaction put back share a row."""

SUMMARY_STATES = {"edited": "edited by you", "undone": "undone"}


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
    source = _source_text(str(context.get("window_source")), whole, set_window)
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


def _source_text(source: str, window: int | None, set_window: int) -> str:
    """Return who says how large the window is; one that is set does, where it is in force."""
    if set_window > 0 and window == set_window:
        return "as set"
    return SOURCE_TEXTS.get(source, "")


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
    money = words.money(cost) if isinstance(cost, int | float) else "price not known"
    read = f", {round(100 * ratio)} % of input read from cache" if isinstance(ratio, float) else ""
    return f"Session so far: {money}{read}."


def cost_report(cost: Mapping[str, object]) -> Report:
    """Return tokens by kind, money, the cache-read ratio and the cost of each compaction."""
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
    total = (
        f"Session so far: {words.money(money)}."
        if isinstance(money, int | float)
        else f"Session so far: the price of {cost.get('model')} is not known."
    )
    ratio, source = cost.get("cache_read_ratio"), cost.get("price_source")
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


def model_lines(session: Session, *, switched: bool, is_known: bool = True) -> list[str]:
    """Return what is known of the model, and after a switch what it does to the cache.

    A name that is not known is no error: compatible servers have names of their own.
    """
    facts = session.facts
    source = _source_text(facts.window_source, facts.window_tokens, session.settings.window_tokens)
    window = f"{facts.window_tokens:,} tokens ({source})" if facts.window_tokens else "not known"
    lines = [f"Model: {facts.label or session.model_name}.", f"Window: {window}."]
    prices = facts.prices
    if prices is None:
        lines.append("Price: not known.")
    else:
        lines.append(
            f"Price per million tokens: ${prices.input:g} in, ${prices.output:g} out, "
            f"${prices.cache_read:g} read from cache. Source: {prices.source}."
        )
    if not is_known and facts.window_source not in ("api", "server"):
        lines.append(
            f"This version knows no model {session.model_name}; if the server has none either, "
            "the next prompt fails."
        )
    if switched:
        lines.append(anew_line(session, _int(session.context().get("used_tokens"))))
    return lines


def anew_line(session: Session, tokens: int) -> str:
    """Return what the next prompt does to the cache, of which nothing can be read, and its cost."""
    does = "writes the whole context to the cache anew"
    if not session.settings.prompt_cache:
        does = "sends the whole context, as every prompt without the cache"
    return f"The next prompt {does}: {_anew(session, tokens)}."


def undo_line(session: Session, undo: Undo) -> str:
    """Return what `/summary undo` would do and cost, or why it cannot be done."""
    if undo.refusal:
        return undo.refusal
    back = words.count(undo.messages, "message")
    return (
        f"/summary undo puts {back} back; the next prompt is then written anew: "
        f"{_anew(session, undo.tokens)}."
    )


def turns_report(session: Session) -> Report:
    """Return the turns that `/rewind` can go back to, and what going back by one would cost."""
    transcript = session.transcript
    turns = transcript.turns
    if not turns:
        return join("The conversation has no turn yet.")
    plans = [session.plan_rewind(n) for n in turns[-MOST_TURNS:]]
    rows = [
        (
            str(plan.entry.turn),
            _title(transcript.prompts.get(plan.entry.turn)),
            f"≈{plan.tokens:,}",
            "does not fit" if plan.refusal else f"≈{plan.written_tokens:,}",
        )
        for plan in plans
    ]
    before = len(turns) - len(rows)
    return join(
        table(("Turn", "Prompt", "Tokens before it", "Written anew"), rows, right=2),
        f"{before:,} more before these." if before else "",
        rewind_line(session, plans[-1]),
    )


def _title(prompt: Message | None) -> str:
    return "" if prompt is None else title_of(prompt)


def rewind_line(session: Session, rewind: Rewind) -> str:
    """Return what a rewind would do and cost, or why it cannot be made."""
    if rewind.refusal:
        return rewind.refusal
    undone = ""
    if rewind.undone:
        numbers = ", ".join(map(str, sorted(rewind.undone)))
        undone = f", undoes compaction {numbers}"
    edits = f", puts back {words.count(len(rewind.edits), 'edit')}" if rewind.edits else ""
    ran = f" {ran_line(rewind)}" if rewind.ran else ""
    return (
        f"/rewind {rewind.entry.turn} takes out {words.count(rewind.messages, 'message')} of "
        f"{words.count(len(rewind.turns), 'turn')}{undone}{edits}. {rewound_line(session, rewind)}"
        f"{ran}"
    )


def rewound_line(session: Session, rewind: Rewind) -> str:
    """Return what the prompt after a rewind costs."""
    return (
        f"The next prompt then begins with ≈{rewind.tokens:,} tokens, of which "
        f"{_anew(session, rewind.written_tokens)} are written anew."
    )


def ran_line(rewind: Rewind) -> str:
    """Return what a rewind leaves as it is."""
    if not rewind.ran:
        return "The kernel's variables stay as they are."
    calls = ", ".join(f"{count:,} × {name}" for name, count in rewind.ran)
    return f"Code that ran is not undone ({calls}): what it made and wrote stays."


def put_back_lines(session: Session, rewind: Rewind) -> list[str]:
    """Return which edits a rewind put back, and which it could not, with the reason."""
    lines = []
    if rewind.put_back:
        titles = [session.title_of_edit(n) for n in rewind.put_back[:MOST_TURNS]]
        more = len(rewind.put_back) - len(titles)
        lines.append(f"Put back: {', '.join(titles)}{f' and {more:,} more' if more else ''}.")
    for n, reason in rewind.not_put_back[:MOST_TURNS]:
        lines.append(f"Not put back: {session.title_of_edit(n)} (edit {n}). {reason}")
    if more := len(rewind.not_put_back) - MOST_TURNS:
        lines += [f"{more:,} more not put back."] if more > 0 else []
    return lines


def undo_report(undo: EditUndo) -> Report:
    """Return what an undo put back, as the difference from what stood there."""
    title = f"Undone: {undo.title} (edit {undo.n}). The next prompt tells the model."
    left = f"{words.count(undo.left, 'more edit')} can be undone by /undo." if undo.left else ""
    part = "text" if undo.edit.kind == "file" else "source"
    now, then = (str((state or {}).get(part, "")) for state in (undo.edit.after, undo.edit.before))
    lines = [] if now == then else shown_exactly(unified(now, then)).split("\n")
    cut = len(lines) - DIFF_LINES
    shown = "\n".join([*lines[:DIFF_LINES], *([f"… {cut:,} more lines"] if cut > 0 else [])])
    diff = (fence(shown, "diff"), shown) if shown else ""
    return join(title, diff, left)


def _anew(session: Session, tokens: int) -> str:
    prices = session.facts.prices
    cost = "" if prices is None else f", {words.money(_price_anew(prices, tokens, session))}"
    return f"≈{tokens:,} tokens{cost}"


def _price_anew(prices: Prices, tokens: int, session: Session) -> float:
    """Return what a prompt costs, in USD, of which nothing is read from the cache."""
    if not session.settings.prompt_cache:
        return prices.cost_usd(Usage(uncached=tokens))
    for_an_hour = tokens if session.settings.cache_ttl == "1h" else 0
    return prices.cost_usd(Usage(uncached=0, cache_write=tokens, cache_write_1h=for_an_hour))


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
