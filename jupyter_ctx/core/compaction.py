"""Compaction as pure functions: the request, the cut, and the message the new context begins with.

Before:  [user 1][reply][results][reply]…[results n] | [reply n][results n+1]
         └──────────── the prompt as last sent ────┘   └─ not yet sent as input ─┘
After:   [summary + re-injected][tail: newest whole steps that fit] | [reply n][results n+1]

The request for the summary is the prompt exactly as last sent plus one user message, so it reads
the whole prompt from the cache and writes nothing new. What was not yet sent stays verbatim, and
so does the tail; on models that bind thinking to its prefix, both without their thinking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..errors import CompactionError
from .blocks import Block, Image, Message, Text, ToolResult, text_of, tool_results, user
from .transcript import Reinjected

Estimate = Callable[[Message], int]
CountText = Callable[[str], int]

INSTRUCTION_OPEN = "[Compaction]"
SUMMARY_OPEN = "<summary>"
SUMMARY_CLOSE = "</summary>"
MOST_NAMES, MOST_OLDER = 10, 20
IMAGE_PLACEHOLDER = "[Image left out to make room]"


def find_last_sent(view: Sequence[Message]) -> int:
    """Return how many messages the prompt had when it was last sent: all before the last reply.

    0 if nothing was answered yet.
    """
    for index in range(len(view) - 1, -1, -1):
        if view[index].role == "assistant":
            return index
    return 0


def find_tail(view: Sequence[Message], sent: int, budget_tokens: int, estimate: Estimate) -> int:
    """Return the index in `view` where the kept messages begin: the tail, or `sent` if it is empty.

    The tail is the newest whole steps of `view[:sent]` that fit `budget_tokens`. A step is a reply
    with everything up to the next reply, so no tool pair is split and the first kept message is the
    assistant's. The first message of the view never stays.
    """
    begin, tokens = sent, 0
    for index in range(sent - 1, 0, -1):
        tokens += estimate(view[index])
        if tokens > budget_tokens:
            break
        if view[index].role == "assistant":
            begin = index
    return begin


def build_instruction(template: str, budget_tokens: int, focus: str) -> Message:
    """Return the user message that asks for the summary; `focus` shapes it."""
    wish = f"\nThe user asked that the summary keeps above all: {focus}\n" if focus else ""
    text = template.format(budget=f"{budget_tokens:,}", focus=wish).strip()
    return user(Text(f"{INSTRUCTION_OPEN} {text}"))


def is_instruction(message: Message) -> bool:
    """Say whether `message` asks for a summary: how scripted models tell it from a prompt."""
    return message.role == "user" and text_of(message.content).startswith(INSTRUCTION_OPEN)


def shrink(messages: Sequence[Message], attempt: int) -> tuple[Message, ...]:
    """Return a compaction request's messages made shorter, for a request that was itself too long.

    Attempt 1 takes out images and what an earlier compaction put back; each further one leaves out
    the oldest half of the turns too, or of the steps where there is one turn. The first message (a
    prompt or the summary so far) and the last, the instruction, always stay; no pair is split.
    Raises CompactionError when nothing is left to take out.
    """
    bare = tuple(_bare(message) for message in messages)
    if attempt == 1 and bare != tuple(messages):
        return bare
    places = range(2, len(bare) - 1)
    turns = [index for index in places if _is_prompt(bare[index])]
    cuts = turns or [index for index in places if bare[index].role == "assistant"]
    if not cuts:
        raise CompactionError(
            "The compaction request is longer than the window, and it is one step."
        )
    return (bare[0], *bare[cuts[len(cuts) // 2] :])


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not tool_results(message)


def _bare(message: Message) -> Message:
    """Return the message with a line in place of each image, and without what was put back."""
    content = tuple(
        _without_images(block)
        for block in message.content
        if not (isinstance(block, Text) and block.part == "reinjected")
    )
    return Message(message.role, content) if content else message


def _without_images(block: Block) -> Block:
    match block:
        case Image():
            return Text(IMAGE_PLACEHOLDER)
        case ToolResult(tool_use_id=id_, content=content, is_error=is_error):
            texts = (Text(IMAGE_PLACEHOLDER) if isinstance(b, Image) else b for b in content)
            return ToolResult(id_, tuple(texts), is_error)
        case _:
            return block


def read_summary(reply: Message, stop_reason: str) -> str:
    """Return the summary text of a reply. Raises CompactionError if there is none to use.

    A tool call in it is ignored, since its stop reason is then not `end_turn`.
    """
    if stop_reason != "end_turn":
        raise CompactionError(f"The summary was not finished (it stopped with {stop_reason}).")
    text = text_of(reply.content).strip()
    if not text:
        raise CompactionError("The model sent no summary.")
    return text.removeprefix(SUMMARY_OPEN).removesuffix(SUMMARY_CLOSE).strip()


# What is put back -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """One part of what a compaction puts back: its text and, one by one, what is in it."""

    text: str
    items: tuple[Reinjected, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """A prompt of the user: turn number and their words."""

    turn: int
    text: str


def choose_instructions(
    prompts: Sequence[Instruction],
    first_turn: int | None,
    budget_tokens: int,
    count: CountText,
    long_tokens: int = 2_000,
) -> Section | None:
    """Return the user's prompts (oldest first in `prompts`) as one section, newest chosen first.

    The newest is given whole, and so is the one of `first_turn`; of the others, one longer than
    `long_tokens` is given by its beginning and name. What does not fit `budget_tokens` is left out
    and said so. Shown oldest first, so that a later word overrules an earlier one.
    """
    if not prompts:
        return None
    newest = prompts[-1].turn
    must = {newest, first_turn}
    chosen: dict[int, str] = {}
    spent = 0
    for prompt in sorted(prompts, key=lambda p: (p.turn not in must, -p.turn)):
        text = prompt.text
        if prompt.turn not in must and count(text) > long_tokens:
            text = f"{text[:600]}\n[… {len(text):,} characters in all: `prompt-{prompt.turn}`]"
        tokens = count(text)
        if prompt.turn not in must and spent + tokens > budget_tokens:
            continue
        chosen[prompt.turn] = text
        spent += tokens
    left_out = [prompt.turn for prompt in prompts if prompt.turn not in chosen]
    lines = ["# What the user asked, in their own words, oldest first"]
    lines += [f"## Turn {turn}\n{chosen[turn]}" for turn in sorted(chosen)]
    if left_out:
        lines.append(f"Not repeated here, read them with `read_result`: {_prompt_names(left_out)}")
    items = tuple(
        Reinjected("instruction", f"prompt-{turn}", count(chosen[turn])) for turn in sorted(chosen)
    )
    return Section("\n\n".join(lines), items)


def _prompt_names(turns: Sequence[int]) -> str:
    """Return the names of the prompts of `turns`, which ascend: as few words as a long list allows.

    Runs are given by their ends; beyond `MOST_NAMES` runs, the rest by theirs.
    """
    runs: list[tuple[int, int]] = []
    for turn in turns:
        if runs and turn == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], turn)
        else:
            runs.append((turn, turn))
    if len(runs) > MOST_NAMES:
        runs[MOST_NAMES - 1 :] = [(runs[MOST_NAMES - 1][0], runs[-1][1])]
    return ", ".join(
        f"`prompt-{first}`" + (f" to `prompt-{last}`" if last > first else "")
        for first, last in runs
    )


def choose_lines(
    title: str,
    kind: str,
    rows: Iterable[tuple[str, str]],
    budget_tokens: int,
    count: CountText,
) -> Section | None:
    """Return a section of one-line rows, (id, line) each, first ones first, as many as fit.

    None if there are no rows, or the budget is 0.
    """
    rows = list(rows)
    chosen: list[tuple[str, str, int]] = []
    spent = 0
    for id_, line in rows:
        tokens = count(line) + 1
        if spent + tokens > budget_tokens:
            break
        chosen.append((id_, line, tokens))
        spent += tokens
    if not chosen:
        return None
    lines = [title, *(f"- {line}" for _, line, _ in chosen)]
    if len(chosen) < len(rows):
        lines.append(f"- … and {len(rows) - len(chosen):,} more")
    items = tuple(Reinjected(kind, id_, tokens) for id_, _, tokens in chosen)
    return Section("\n".join(lines), items)


@dataclass(frozen=True, slots=True)
class Source:
    """The present source of a cell."""

    id: str
    label: str
    text: str


def choose_sources(
    sources: Sequence[Source],
    budget_tokens: int,
    count: CountText,
    most_each_tokens: int = 5_000,
    older: Sequence[str] = (),
) -> Section | None:
    """Return the sources (newest first) as one section; what is too long only by name and id.

    `most_each_tokens` bounds one source, `budget_tokens` all of them (tokens, DESIGN.md 5). Of
    `older` cells the first `MOST_OLDER` labels are given.
    """
    if not sources and not older:
        return None
    lines = ["# Cells edited or run most recently, newest first, in their present form"]
    items: list[Reinjected] = []
    spent = 0
    for source in sources:
        tokens = count(source.text)
        if tokens > most_each_tokens or spent + tokens > budget_tokens:
            lines.append(f"## {source.label}\nToo long to repeat: `read_cell` gives it.")
            items.append(Reinjected("cell", source.id, 0))
            continue
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", source.text)), 3)
        lines.append(f"## {source.label}\n{fence}python\n{source.text}\n{fence}")
        items.append(Reinjected("cell", source.id, tokens))
        spent += tokens
    if older:
        more = f" and {len(older) - MOST_OLDER:,} more" if len(older) > MOST_OLDER else ""
        lines.append(f"Older ones, for `read_cell`: {', '.join(older[:MOST_OLDER])}{more}")
    return Section("\n\n".join(lines), tuple(items))


def build_summary_message(
    intro: str, summary: str, sections: Sequence[Section | None]
) -> tuple[Message, tuple[Reinjected, ...]]:
    """Return the ONE user message the new context begins with, and what is in it."""
    given = [section for section in sections if section is not None]
    head = Text(f"{intro.strip()}\n\n{SUMMARY_OPEN}\n{summary}\n{SUMMARY_CLOSE}", "summary")
    rest = [Text(section.text, "reinjected") for section in given]
    return user(head, *rest), tuple(item for section in given for item in section.items)
