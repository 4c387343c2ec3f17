"""The built-in demo model: scripted, offline, free; so that every part can be seen without a key.

It is no language model. It picks a script by words of the prompt, really calls the tools, and
writes its answer from what they returned (`demo_scripts`). Its window is small, so that a few turns
fill it and the conversation is compacted. Usage is counted as a provider with a prompt cache would.
On command in the prompt it thinks, or fails as providers do (`demo_faults`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence

from ..core.blocks import (
    Block,
    Message,
    Text,
    Thinking,
    ToolUse,
    images_of,
    message_to_wire,
)
from ..core.compaction import is_instruction
from ..core.counts import image_tokens
from ..core.ports import (
    BlockDone,
    Delta,
    ModelFacts,
    ReplyDone,
    Request,
    TextPart,
    ThinkingPart,
    ToolPart,
)
from ..core.usage import Prices, Usage
from . import demo_faults
from .demo_faults import make_fault, thought
from .demo_scripts import Step, read_turn, script, summarise

NAME = "demo"
LABEL = "Demo model: answers are scripted, offline and free"
WINDOW_TOKENS = 9_100
CHUNK_CHARS = 14
PACE_S = 0.006
"""Pause between two pieces of text, so that streaming can be seen."""

FREE = Prices(0.0, 0.0, 0.0, 0.0, 0.0, "the demo model is free")


class DemoModel:
    """Implements `core.ports.Model` without a network. `prices` None: it is free."""

    def __init__(self, prices: Prices | None = None) -> None:
        self._prices = prices
        self._cached = ""
        self._faulted: set[str] = set()

    @property
    def name(self) -> str:
        """Always `demo`."""
        return NAME

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the scripted answer to the request, text in small pieces.

        Raises the ModelError that the prompt asks for (`demo_faults`).
        """
        told = () if _is_compaction(request) else self._take_commands(request)
        for word in told:
            if (fault := make_fault(word)) is not None:
                raise fault
        if demo_faults.REFUSE in told:
            usage = self._usage(request, ())
            yield ReplyDone("refusal", usage, detail=demo_faults.REFUSED)
            return
        blocks = self._answer(request, thinks=demo_faults.THINK in told)
        if demo_faults.LONG in told:
            blocks = tuple(block for block in blocks if isinstance(block, Text))[:1]
        for block in blocks:
            async for delta in _pieces(block, breaks=demo_faults.CUT in told):
                yield delta
            yield BlockDone(block)
        calls = any(isinstance(block, ToolUse) for block in blocks)
        reason = "tool_use" if calls else "end_turn"
        if demo_faults.LONG in told:
            reason = "max_tokens"
        if reason == "end_turn" and not _is_compaction(request):
            self._faulted.clear()  # the prompt is answered
        yield ReplyDone(reason, self._usage(request, blocks))

    def _take_commands(self, request: Request) -> Sequence[str]:
        """Return what the newest prompt commands and this call is to do; a fault comes once."""
        prompt, _ = read_turn(request.messages)
        asked = demo_faults.find_commands(prompt)
        taken = [word for word in asked if word in demo_faults.LASTING]
        once = [word for word in asked if word not in {*taken, *self._faulted}][:1]
        self._faulted.update(once)
        return [*taken, *once]

    async def load_facts(self) -> ModelFacts:
        """Return the demo's own facts; its window is small on purpose."""
        return demo_facts(self._prices)

    async def count_tokens(self, request: Request) -> int | None:
        """Return the request's tokens as its usage will tell them."""
        return _tokens(_wire(request))

    async def aclose(self) -> None:
        """Nothing to close."""

    def _answer(self, request: Request, *, thinks: bool = False) -> tuple[Block, ...]:
        if _is_compaction(request):
            return (Text(summarise(request.messages[:-1])),)
        prompt, done = read_turn(request.messages)
        first = (thought(),) if thinks else ()
        return first + tuple(
            ToolUse(f"demo_{secrets.token_hex(4)}", step.name, step.input)
            if isinstance(step, Step)
            else Text(step)
            for step in script(prompt, done)
        )

    def _usage(self, request: Request, blocks: Sequence[Block]) -> Usage:
        """Return usage with what the request shares with the one before it as a cache read."""
        sent = _wire(request)
        shared = _common_prefix(self._cached, sent) if request.breakpoints else 0
        if not _is_compaction(request):
            self._cached = sent
        read = _tokens(sent[:shared])
        rest = max(1, _tokens(sent) - read)
        output = _tokens(json.dumps(message_to_wire(Message("assistant", tuple(blocks)))))
        if not request.breakpoints:
            return Usage(rest, 0, 0, output)
        return Usage(1, read, rest - 1, output)


async def _pieces(block: Block, *, breaks: bool) -> AsyncIterator[Delta]:
    """Yield a block piece by piece; `breaks`: a text breaks off half-way."""
    match block:
        case Text(text=text):
            for start in range(0, len(text), CHUNK_CHARS):
                yield TextPart(text[start : start + CHUNK_CHARS])
                await asyncio.sleep(PACE_S)
                if breaks and start + CHUNK_CHARS >= len(text) // 2:
                    raise demo_faults.broken()
        case Thinking(wire=wire):
            for word in str(wire["thinking"]).split(" "):
                yield ThinkingPart(f"{word} ")
                await asyncio.sleep(PACE_S)
        case ToolUse(id=id_, name=name):
            yield ToolPart(id_, name)
        case _:
            pass


def demo_facts(prices: Prices | None = None) -> ModelFacts:
    """Return what is known of the demo model; with `prices` it counts money as a paid one does."""
    return ModelFacts(
        NAME, WINDOW_TOKENS, "table", 2_000, prices=prices or FREE, factor_prior=1.0, label=LABEL
    )


def _wire(request: Request) -> str:
    parts = [request.system, *(json.dumps(dict(tool)) for tool in request.tools)]
    parts += [_message_wire(message) for message in request.messages]
    return "\n".join(parts)


def _message_wire(message: Message) -> str:
    """Return the message as it is sent; a picture as long as its pixels cost, not as its bytes."""
    wire = json.dumps(message_to_wire(message))
    for image in images_of(message):
        chars = 4 * image_tokens(image)
        wire = wire.replace(image.data, image.data[:chars].ljust(chars))
    return wire


def _tokens(text: str) -> int:
    return (len(text) + 3) // 4


def _common_prefix(left: str, right: str) -> int:
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    low, high = 0, shorter
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


def _is_compaction(request: Request) -> bool:
    return bool(request.messages) and is_instruction(request.messages[-1])
