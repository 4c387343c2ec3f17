"""What the commands say that change the conversation: what they would do, what they did, the price.

Each of them has the next prompt written to the cache anew, in part or whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.blocks import Message, title_of
from ..core.usage import Prices, Usage
from ..errors import AuthError, CtxError
from . import words
from .asked import unified
from .markdown import fence
from .plaintext import shown_exactly
from .reports import Report, join, source_text, table

if TYPE_CHECKING:
    from ..core.edits import EditUndo
    from ..core.ports import ModelFacts
    from ..core.rewind import Rewind
    from ..core.summaries import Undo
    from ..core.switch import Switch
    from ..session import Session

DIFF_LINES = 200
"""So many lines of what an undo put back are shown."""

MOST_TURNS = 10
"""So many turns are listed to go back to, the newest."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model that can be chosen: what the switch would be, and what is missing for it."""

    switch: Switch
    lack: CtxError | None = None


def model_lines(session: Session, *, is_known: bool = True) -> list[str]:
    """Return what is known of the model in use.

    A name that is not known is no error: compatible servers have names of their own.
    """
    facts = session.facts
    lines = facts_lines(session, facts, facts.label or session.model_name)
    if not is_known and facts.window_source not in ("api", "server", "table"):
        lines.append(
            f"This version knows no model {session.model_name}; if the server has none either, "
            "the next prompt fails."
        )
    return lines


def switched_lines(session: Session, before: str) -> list[str]:
    """Return what a switch that was just made does to the cache, and how to go back for nothing.

    `before` is the model that was in use.
    """
    switch = session.plan_switch(session.model_name, checks=False)
    if switch.returns:
        return [_RETURNS.format(name=session.model_name)]
    lines = _room_lines(session, switch) or [anew_line(session)]
    return [*lines, f"Until then /model {session.last_speaker or before} goes back at no cost."]


_RETURNS = (
    "{name} wrote the last answer: what its cache still holds of the conversation is read from it."
)


def _room_lines(session: Session, switch: Switch) -> list[str]:
    """Return what stands in the way of a conversation in the window there; [] if nothing does."""
    window = switch.window_tokens
    if not switch.fits:
        return [
            f"Its window of {window:,} tokens has no room to work in beside system prompt and "
            "tools: every prompt is refused there."
        ]
    if not switch.compacts or window is None:
        return []
    most = _priced(session, min(switch.tokens, window), switch.facts.prices)
    return [
        f"The conversation (≈{switch.tokens:,} tokens) does not fit there: the first prompt is "
        "preceded by a compaction, whose summary may leave out the oldest part.",
        f"The compaction writes to the cache anew what it reads, at most {most}, and the first "
        "prompt what is left.",
    ]


def facts_lines(session: Session, facts: ModelFacts, name: str) -> list[str]:
    """Return a model's name, window and price, each with who said so."""
    source = source_text(facts.window_source, facts.window_tokens, session.settings.window_tokens)
    window = f"{facts.window_tokens:,} tokens ({source})" if facts.window_tokens else "not known"
    lines = [f"Model: {name}.", f"Window: {window}."]
    prices = facts.prices
    if prices is None:
        return [*lines, "Price: not known."]
    price = (
        f"Price per million tokens: ${prices.input:g} in, ${prices.output:g} out, "
        f"${prices.cache_read:g} read from cache. Source: {prices.source}."
    )
    return [*lines, price]


def switch_lines(session: Session, switch: Switch) -> list[str]:
    """Return what a switch would bring and cost; nothing is switched."""
    facts = replace(switch.facts, window_tokens=switch.window_tokens)
    name = facts.name
    lines = facts_lines(session, facts, facts.label or name)
    if name == session.model_name:
        return [*lines, "It is the one in use."]
    if facts.window_source in ("table", "unknown"):
        lines.append("What its server says of the window is asked with the first prompt.")
    cost = _priced(session, switch.tokens, facts.prices)
    if switch.returns:
        lines.append(_RETURNS.format(name=name))
    else:
        lines += _room_lines(session, switch) or [
            f"The first prompt there {_does(session)}: {cost}."
        ]
    lines.append(f"Nothing is switched; /model {name} does it.")
    return lines


def models_report(session: Session, choices: Sequence[Choice]) -> Report:
    """Return a table of the models that can be switched to, with what each would cost."""
    rows = [
        (
            one.switch.facts.name,
            "?" if one.switch.window_tokens is None else f"{one.switch.window_tokens:,}",
            *_price_cells(one.switch.facts.prices),
            ", ".join(_first_there(session, one)),
        )
        for one in choices
    ]
    heads = ("Model", "Window", "In", "Out", "Cached", "The first prompt there")
    return join(
        table(heads, rows, right=4),
        "Prices in USD per million tokens. /model NAME? tells of any other, /model NAME switches.",
    )


def choice_line(session: Session, choice: Choice) -> str:
    """Return in a few words what a switch to one model would bring and cost."""
    window = choice.switch.window_tokens
    sized = "window not known" if window is None else f"{window:,} tokens"
    return " · ".join((sized, *_first_there(session, choice)))


def _first_there(session: Session, choice: Choice) -> Sequence[str]:
    """Return what the first prompt there takes, and what is missing for it."""
    switch = choice.switch
    if switch.facts.name == session.model_name:
        cost = "in use"
    elif not switch.fits:
        cost = "no room"
    elif switch.returns:
        cost = "read from its cache"
    else:
        cost = _priced(session, switch.tokens, switch.facts.prices)
        cost += " after a compaction" if switch.compacts else ""
    if choice.lack is None:
        return (cost,)
    return (cost, "no key" if isinstance(choice.lack, AuthError) else "cannot be used here")


def _price_cells(prices: Prices | None) -> tuple[str, str, str]:
    if prices is None:
        return "?", "?", "?"
    return f"${prices.input:g}", f"${prices.output:g}", f"${prices.cache_read:g}"


def anew_line(session: Session, tokens: int | None = None) -> str:
    """Return what the next prompt does to the cache, of which nothing can be read, and its cost.

    `tokens` is what it takes; None: what is used now.
    """
    if tokens is None:
        used = session.context()["used_tokens"]
        assert isinstance(used, int)  # the context JSON always has it
        tokens = used
    return f"The next prompt {_does(session)}: {_anew(session, tokens)}."


def _does(session: Session) -> str:
    """Return what a prompt does of which no cache holds anything."""
    if not session.settings.prompt_cache:
        return "sends the whole context, as every prompt without the cache"
    return "writes the whole context to the cache anew"


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
    return _priced(session, tokens, session.facts.prices)


def _priced(session: Session, tokens: int, prices: Prices | None) -> str:
    cost = "" if prices is None else f", {words.money(_price_anew(prices, tokens, session))}"
    return f"≈{tokens:,} tokens{cost}"


def _price_anew(prices: Prices, tokens: int, session: Session) -> float:
    """Return what a prompt costs, in USD, of which nothing is read from the cache."""
    if not session.settings.prompt_cache:
        return prices.cost_usd(Usage(uncached=tokens))
    for_an_hour = tokens if session.settings.cache_ttl == "1h" else 0
    return prices.cost_usd(Usage(uncached=0, cache_write=tokens, cache_write_1h=for_an_hour))
