"""What the tests over the wire share: scripts of steps, and how to look at recorded requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from jupyter_ctx.core.compaction import INSTRUCTION_OPEN
from jupyter_ctx.core.events import CtxEvent
from jupyter_ctx.session import Session
from tests.fake_anthropic import (
    Call,
    FakeAnthropic,
    FakeModel,
    Recorded,
    Reply,
    call,
    last_text,
    reply,
)
from tests.fake_anthropic.prompt import THINKING_TYPES, blocks_of, canonical
from tests.talk import MODEL, talk

Event = TypeVar("Event")

SUMMARY = "## Task\nGo on with the count. Steps so far are done."


def plain_talk(server: FakeAnthropic, **values: Any) -> AbstractContextManager[Session]:
    """Open a session that prepares no summary beside its calls, so that these can be counted."""
    return talk(server, **{"prepare_calls": 0, **values})


def window(tokens: int, model: str = MODEL, **more: Any) -> dict[str, FakeModel]:
    """Return the models of a server whose one model has a window of `tokens`."""
    facts = {"max_output": 8_000, "binds_thinking": True, "cache_floor": 512, **more}
    return {model: FakeModel(window=tokens, **facts)}


def is_summary(record: Recorded) -> bool:
    """Whether a request asks for a summary."""
    return last_text(record.json).startswith(INSTRUCTION_OPEN)


def summaries(requests: Iterable[Recorded]) -> list[Recorded]:
    """Return the requests that ask for a summary."""
    return [record for record in requests if is_summary(record)]


def of(events: Iterable[CtxEvent], kind: type[Event]) -> list[Event]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def printing(code: str, text: str = "", **more: Any) -> Reply:
    """Return a reply that runs `code`."""
    return reply(*([text] if text else []), tools=[call("run_code", code=code)], **more)


def steps(count: int, lines: int = 30) -> Iterator[Reply]:
    """Yield replies that each run code printing some lines, with thinking."""
    for n in range(count):
        code = f"for i in range({lines}): print('step {n} line', i, i * 37 % 101)"
        yield printing(code, f"Step {n}.", thinking=f"thought {n}")


def answering(
    script: Iterable[object], summary: object = SUMMARY
) -> Callable[[dict[str, Any]], object]:
    """Answer summaries with `summary` and everything else from `script`, calls of bodies made."""
    left = iter(script)

    def answer(body: dict[str, Any]) -> object:
        if last_text(body).startswith(INSTRUCTION_OPEN):
            return summary
        given = next(left)
        return given(body) if callable(given) else given

    return answer


def filler(tokens: int) -> Reply:
    """Return an answer that takes about so many tokens by the fake's count."""
    return reply("The history grows by a sentence that says little. " * (tokens * 32 // 500))


def messages_of(record: Recorded) -> list[dict[str, Any]]:
    """Return a request's messages in blocks, whatever the protocol; `tool` ones make one message.

    Of Chat Completions, without the system prompt.
    """
    found: list[dict[str, Any]] = []
    for message in record.messages:
        role, content = message["role"], blocks_of(message["content"])
        calls = [
            {"type": "tool_use", "id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        ]
        content = [_image_of(part) if part["type"] == "image_url" else part for part in content]
        if role == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
            content = [{**result, "content": content}]
            if found and found[-1]["role"] == "user":
                found[-1]["content"] += content
                continue
        if role != "system":
            found.append({"role": "user" if role == "tool" else role, "content": content + calls})
    return found


def _image_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return an `image_url` part as an image block."""
    kind, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def blocks(record: Recorded, kind: str) -> list[dict[str, Any]]:
    """Return the blocks of one type in a request's messages, those within results too."""
    found: list[dict[str, Any]] = []
    for message in messages_of(record):
        for block in message["content"]:
            inner = block.get("content") or [] if block["type"] == "tool_result" else []
            found += [each for each in [block, *inner] if each["type"] == kind]
    return found


def results(record: Recorded) -> dict[str, str]:
    """Return the texts of all tool results of a request by the id of their call, in order."""
    return {
        block["tool_use_id"]: "".join(inner.get("text", "") for inner in block["content"])
        for block in blocks(record, "tool_result")
    }


def text_of_messages(record: Recorded) -> str:
    """Return every text of a request's messages, results included."""
    return "\n".join(block["text"] for block in blocks(record, "text"))


def head_of(record: Recorded) -> str:
    """Return the texts of a request's first message: the summary and what was put back."""
    first = messages_of(record)[0]
    return "\n".join(b["text"] for b in first["content"] if b["type"] == "text")


def without_marks(
    messages: Sequence[dict[str, Any]], *, thinking: bool = True
) -> list[tuple[str, ...]]:
    """Return what messages say: role and blocks without markers, without thinking if so wished."""
    return [
        (
            message["role"],
            *(
                canonical(block)
                for block in message["content"]
                if thinking or block["type"] not in THINKING_TYPES
            ),
        )
        for message in messages
    ]


__all__ = [
    "SUMMARY",
    "Call",
    "answering",
    "blocks",
    "filler",
    "head_of",
    "is_summary",
    "messages_of",
    "of",
    "plain_talk",
    "printing",
    "results",
    "steps",
    "summaries",
    "text_of_messages",
    "window",
    "without_marks",
]
