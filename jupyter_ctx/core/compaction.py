"""Compaction as pure functions: the request, the cut, and the message the new context begins with.

Before:  [user 1][reply][results][reply]…[results n] | [reply n][results n+1]
         └──────────── the prompt as last sent ────┘   └─ not yet sent as input ─┘
After:   [summary + re-injected][tail: newest whole steps that fit] | [reply n][results n+1]

The request for the summary is the prompt exactly as last sent plus one user message, so it reads
the whole prompt from the cache and writes nothing new. What was not yet sent stays verbatim, and
so does the tail; on models that bind thinking to its prefix, both without their thinking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import CompactionError
from .blocks import (
    Block,
    Message,
    Text,
    ToolResult,
    ToolUse,
    text_of,
    tool_results,
    user,
    without_images,
)
from .entries import Reinjected
from .memory import MOST_FACTS, split_memory
from .preview import clean_text
from .reinjection import Section

Estimate = Callable[[Message], int]

INSTRUCTION_OPEN = "[Compaction]"
SUMMARY_OPEN = "<summary>"
SUMMARY_CLOSE = "</summary>"
CUT_PLACEHOLDER = "\n[… left out to make room …]\n"
LEAST_CUT_CHARS = 400


def find_last_sent(view: Sequence[Message]) -> int:
    """Return how many messages the prompt had when it was last sent: all before the last reply.

    0 if nothing was answered yet.
    """
    for index in range(len(view) - 1, -1, -1):
        if view[index].role == "assistant":
            return index
    return 0


def find_end(view: Sequence[Message]) -> int:
    """Return how many messages there are before those of the user alone at the end of the view.

    That is: all of it but a new prompt, and what the program said beside it.
    """
    end = len(view)
    while end and view[end - 1].role == "user" and not tool_results(view[end - 1]):
        end -= 1
    return end


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
    """Return the user message that asks for the summary; `focus` shapes it.

    A template may say `{most}`: how many facts there may be to remember.
    """
    wish = f"\nThe user asked that the summary keeps above all: {focus}\n" if focus else ""
    text = template.format(budget=f"{budget_tokens:,}", focus=wish, most=MOST_FACTS).strip()
    return user(Text(f"{INSTRUCTION_OPEN} {text}"))


def is_instruction(message: Message) -> bool:
    """Say whether `message` asks for a summary: how scripted models tell it from a prompt."""
    return message.role == "user" and text_of(message.content).startswith(INSTRUCTION_OPEN)


def shrink(messages: Sequence[Message], attempt: int) -> tuple[Message, ...]:
    """Return a compaction request's messages made shorter, for a request that was itself too long.

    Attempt 1 takes out images and what an earlier compaction put back; each further one leaves out
    the oldest half of the turns too, or of the steps where there is one turn; where one step is all
    there is, the longest texts are cut to half, beginning and end. The first message (a prompt or
    the summary so far) and the last, the instruction, always stay; no pair is split. Raises
    CompactionError when nothing is left to take out.
    """
    bare = tuple(_bare(message) for message in messages)
    if attempt == 1 and bare != tuple(messages):
        return bare
    places = range(2, len(bare) - 1)
    turns = [index for index in places if _is_prompt(bare[index])]
    cuts = turns or [index for index in places if bare[index].role == "assistant"]
    if not cuts:
        return (*_halved(bare[:-1]), bare[-1])
    return (bare[0], *bare[cuts[len(cuts) // 2] :])


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not tool_results(message)


def _bare(message: Message) -> Message:
    """Return the message with a line in place of each image, and without what was put back."""
    content = tuple(
        block
        for block in without_images(message).content
        if not (isinstance(block, Text) and block.part == "reinjected")
    )
    return Message(message.role, content) if content else message


def _halved(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with their longest texts cut to half the length of the longest.

    Raises CompactionError if none is longer than `LEAST_CUT_CHARS`.
    """
    longest = max((len(t) for m in messages for b in m.content for t in _texts_of(b)), default=0)
    if longest <= LEAST_CUT_CHARS:
        raise CompactionError(
            "The compaction request is longer than the window, and it is one step."
        )
    return tuple(
        Message(m.role, tuple(_cut_block(block, longest // 2) for block in m.content))
        for m in messages
    )


def _texts_of(block: Block) -> list[str]:
    match block:
        case Text(text=text):
            return [text]
        case ToolResult(content=content):
            return [inner.text for inner in content if isinstance(inner, Text)]
        case ToolUse(input=input_):
            return [value for value in input_.values() if isinstance(value, str)]
        case _:
            return []


def _cut_block(block: Block, most: int) -> Block:
    match block:
        case Text(text=text, part=part):
            return Text(_cut_text(text, most), part)
        case ToolResult(tool_use_id=id_, content=content, is_error=is_error):
            inner = (
                Text(_cut_text(b.text, most), b.part) if isinstance(b, Text) else b for b in content
            )
            return ToolResult(id_, tuple(inner), is_error)
        case ToolUse(id=id_, name=name, input=input_):
            cut = {k: _cut_text(v, most) if isinstance(v, str) else v for k, v in input_.items()}
            return ToolUse(id_, name, cut)
        case _:
            return block


def _cut_text(text: str, most: int) -> str:
    """Return beginning and end of a text longer than `most` characters, in about so many."""
    if len(text) <= most:
        return text
    half = max(1, (most - len(CUT_PLACEHOLDER)) // 2)
    return f"{text[:half]}{CUT_PLACEHOLDER}{text[-half:]}"


def read_reply(
    reply: Message, stop_reason: str, *, has_memory: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the summary text of a reply, and the facts of its `<memory>` part if it may have one.

    Raises CompactionError if there is no summary to use; a reply with a tool call has none, since
    its stop reason is not `end_turn`.
    """
    if stop_reason != "end_turn":
        raise CompactionError(f"The summary was not finished (it stopped with {stop_reason}).")
    text = text_of(reply.content).strip()
    text, facts = split_memory(text) if has_memory else (text, ())
    text = text.removeprefix(SUMMARY_OPEN).removesuffix(SUMMARY_CLOSE).strip()
    if not text:
        raise CompactionError("The model sent no summary.")
    return text, facts


def build_summary_message(
    intro: str, summary: str, sections: Sequence[Section | None], remark: str = ""
) -> tuple[Message, tuple[Reinjected, ...]]:
    """Return the ONE user message the new context begins with, and what is in it.

    `remark` is a line about the summary, behind it.
    """
    given = [section for section in sections if section is not None]
    parts = (intro.strip(), f"{SUMMARY_OPEN}\n{summary}\n{SUMMARY_CLOSE}", remark)
    head = Text(clean_text("\n\n".join(filter(None, parts))), "summary")
    rest = [Text(clean_text(section.text), "reinjected") for section in given]
    return user(head, *rest), tuple(item for section in given for item in section.items)
