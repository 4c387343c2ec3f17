"""Recorded conversations as turns and steps: of the corpus, of our own, and joined to long ones.

The corpus lies beside the repository (`../shared/corpus/trajectories`); `find_corpus` skips a test
loudly without it. `small_conversation` is always there.
"""

from __future__ import annotations

import json
import random
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jupyter_ctx.core.blocks import Image, Json
from jupyter_ctx.core.ports import ToolOutput
from tests.corpus import CORPUS

TRAJECTORIES = CORPUS / "trajectories"
KEPT_CHARS, SHOWN_CHARS = 50_000, 2_000
"""A longer result counts as its preview where the length of a conversation is measured."""
CUT = "\n[…]"

CountText = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the recording, and what it brought."""

    id: str
    name: str
    input: Json
    output: ToolOutput

    @property
    def text(self) -> str:
        """The text of the result."""
        assert isinstance(self.output.text, str)  # nothing recorded was spooled
        return self.output.text


@dataclass(frozen=True, slots=True)
class Step:
    """One reply: its text and its calls; without calls it ends the turn."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt, and the replies up to the one that ends the turn."""

    prompt: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole recording; ids of calls are unique in it."""

    name: str
    turns: tuple[Turn, ...]

    @property
    def steps(self) -> int:
        """How many replies there are."""
        return sum(len(turn.steps) for turn in self.turns)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are called, sorted."""
        return tuple(sorted({c.name for t in self.turns for s in t.steps for c in s.calls}))

    def tokens(self, count: CountText) -> int:
        """Return the tokens of its texts, a very long result counted as its preview."""
        return sum(_turn_tokens(turn, count) for turn in self.turns)


def find_corpus() -> Path:
    """Return the folder of the recorded conversations; skips the test if there is none."""
    if not TRAJECTORIES.is_dir():
        pytest.skip(f"NO CORPUS: {TRAJECTORIES} is absent, so nothing recorded was replayed")
    return TRAJECTORIES


@cache
def load_corpus() -> tuple[Conversation, ...]:
    """Return every recorded conversation, by name."""
    return tuple(load(path) for path in sorted(find_corpus().glob("*.jsonl")))


def load(path: Path) -> Conversation:
    """Return one recorded conversation. A turn whose end was not recorded ends with "Done."."""
    with path.open(encoding="utf-8") as lines:
        messages = [json.loads(line) for line in lines][1:]
    turns: list[tuple[str, list[Step]]] = []
    for index, message in enumerate(messages):
        blocks = message["content"]
        if message["role"] == "assistant":
            answers = messages[index + 1]["content"] if index + 1 < len(messages) else []
            turns[-1][1].append(_step(blocks, answers))
        elif not any(block["type"] == "tool_result" for block in blocks):
            turns.append((_texts(blocks) or "Go on.", []))
    made = [Turn(prompt, _ended(steps)) for prompt, steps in turns]
    return Conversation(path.stem, tuple(made))


def _step(blocks: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> Step:
    """Return a reply with the results of the next message; words said there go with the last."""
    results = {b["tool_use_id"]: b for b in answers if b["type"] == "tool_result"}
    said = _texts(answers) if results else ""
    uses = [block for block in blocks if block["type"] == "tool_use"]
    calls = [Call(b["id"], b["name"], b["input"], _output(results[b["id"]])) for b in uses]
    if calls and said:
        last = calls[-1]
        output = replace(last.output, text=f"{last.text}\n\n{said}")
        calls[-1] = replace(last, output=output)
    return Step(_texts(blocks) or ("" if calls else "Done."), tuple(calls))


def _ended(steps: Sequence[Step]) -> tuple[Step, ...]:
    is_open = not steps or steps[-1].calls
    return (*steps, Step("Done.")) if is_open else tuple(steps)


def _output(block: Mapping[str, Any]) -> ToolOutput:
    content = block["content"]
    images = [_image(b["source"]) for b in content if b["type"] == "image"]
    return ToolOutput(_texts(content), tuple(images), is_error=bool(block.get("is_error")))


def _texts(blocks: Iterable[Mapping[str, Any]]) -> str:
    return "\n\n".join(b["text"] for b in blocks if b["type"] == "text" and b["text"].strip())


def _image(source: Mapping[str, str]) -> Image:
    data = source["data"]
    head = b64decode(data[:64])
    is_png = head.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", head[16:24]) if is_png else (1_000, 700)
    return Image(source["media_type"], data, width, height)


def _turn_tokens(turn: Turn, count: CountText) -> int:
    texts = [turn.prompt]
    for step in turn.steps:
        texts.append(step.text)
        for call in step.calls:
            texts.append(json.dumps(dict(call.input), ensure_ascii=False))
            text = call.text
            texts.append(text if len(text) <= KEPT_CHARS else text[:SHOWN_CHARS])
    return sum(map(count, texts))


# Making others of them ----------------------------------------------------------------------------


def renamed(conversation: Conversation, prefix: str) -> Conversation:
    """Return the conversation with `prefix` before every id."""

    def step(old: Step) -> Step:
        return replace(old, calls=tuple(replace(c, id=f"{prefix}{c.id}") for c in old.calls))

    turns = (replace(t, steps=tuple(map(step, t.steps))) for t in conversation.turns)
    return replace(conversation, turns=tuple(turns))


def join(parts: Sequence[Conversation], tokens: int, seed: int, count: CountText) -> Conversation:
    """Return conversations one after the other, in a random order, until there are `tokens`.

    Whole turns only, the last one that is begun included. Once all were taken, they come again.
    """
    choose = random.Random(seed)
    turns: list[Turn] = []
    left, taken = tokens, 0
    while left > 0:
        for part in choose.sample(parts, len(parts)):
            taken += 1
            for turn in renamed(part, f"s{taken}_").turns:
                if left > 0:
                    turns.append(turn)
                    left -= _turn_tokens(turn, count)
    return Conversation(f"joined-{tokens}-{seed}", tuple(turns))


def clipped(conversation: Conversation, reply_chars: int) -> Conversation:
    """Return the conversation with replies of at most about so many characters.

    For small windows: no model writes a file that takes most of its window.
    """

    def clip(step: Step) -> Step:
        strings = [step.text, *(v for c in step.calls for v in c.input.values())]
        chars = sum(len(v) for v in strings if isinstance(v, str))
        if chars <= reply_chars:
            return step
        keep = reply_chars / chars
        calls = (replace(c, input=clip_input(c.input, keep)) for c in step.calls)
        return replace(step, text=_clip_text(step.text, keep), calls=tuple(calls))

    turns = (replace(t, steps=tuple(map(clip, t.steps))) for t in conversation.turns)
    return replace(conversation, turns=tuple(turns))


def clip_input(input_: Json, keep: float) -> Json:
    """Return a call's input with its texts cut to the share `keep`."""
    return {
        name: _clip_text(value, keep) if isinstance(value, str) else value
        for name, value in _shallow(input_, keep).items()
    }


def _shallow(input_: Json, keep: float) -> Json:
    """Return the input with values that are no texts left out where they are the larger part."""
    plain = {k: v for k, v in input_.items() if len(json.dumps(v)) < 2_000 or isinstance(v, str)}
    return plain if keep < 1 else input_


def _clip_text(text: str, keep: float) -> str:
    return text if len(text) < 200 else text[: int(len(text) * keep)] + CUT


def small_conversation(turns: int = 6, steps: int = 8, seed: int = 1) -> Conversation:
    """Return a conversation of our own: tables, logs, a long output, calls in parallel."""
    choose = random.Random(seed)
    made = []
    for turn in range(turns):
        replies = [_small_step(choose, turn, step) for step in range(steps)]
        prompt = f"Step {turn} of the analysis: look at table_{turn}.csv, and say what you find."
        made.append(Turn(prompt, (*replies, Step(f"Table {turn} has no gap."))))
    return Conversation("small", tuple(made))


def _small_step(choose: random.Random, turn: int, step: int) -> Step:
    calls = []
    for place in range(choose.choice((1, 1, 1, 2, 5))):
        rows = choose.choice((2, 10, 30, 30, 80, 700))
        lines = [f"{n:5} {choose.random():.6f} {choose.choice('abcdef') * 3}" for n in range(rows)]
        code = f"df = load('table_{turn}.csv'); print(df.part({step}, {place}).head({rows}))"
        id_ = f"toolu_{turn:02}{step:02}{place:02}"
        calls.append(Call(id_, "run_code", {"code": code}, ToolOutput("\n".join(lines))))
    return Step(f"I look at part {step}.", tuple(calls))


def is_name(text: str) -> bool:
    """Say whether `text` may stand in a tool call's id."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,128}", text) is not None
