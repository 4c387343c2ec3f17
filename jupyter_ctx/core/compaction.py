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
from .blocks import Block, Image, Message, Text, ToolResult, text_of, tool_results, user
from .reinjection import Section
from .transcript import Reinjected

Estimate = Callable[[Message], int]

INSTRUCTION_OPEN = "[Compaction]"
SUMMARY_OPEN = "<summary>"
SUMMARY_CLOSE = "</summary>"
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


def build_summary_message(
    intro: str, summary: str, sections: Sequence[Section | None]
) -> tuple[Message, tuple[Reinjected, ...]]:
    """Return the ONE user message the new context begins with, and what is in it."""
    given = [section for section in sections if section is not None]
    head = Text(f"{intro.strip()}\n\n{SUMMARY_OPEN}\n{summary}\n{SUMMARY_CLOSE}", "summary")
    rest = [Text(section.text, "reinjected") for section in given]
    return user(head, *rest), tuple(item for section in given for item in section.items)
