"""The conversation as a list of items, oldest first: what an export for people is made of. Pure.

Turns that were rewound, refused or never answered are left out, as they are out of the conversation
itself; what a compaction replaced is all there. The user's own cells stand where each was first run
with its present source, so that code of the agent finds what it needs above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..core.blocks import Image, Json, Message, Text, ToolResult, ToolUse, title_of, words_of
from ..core.entries import CompactionEntry, EditEntry, MessageEntry
from ..core.ports import NotebookCell
from ..core.repair import INTERRUPTED_TEXT
from ..core.transcript import Transcript
from ..errors import StoreError
from .source import Source

_OURS = re.compile(
    r"^[ \t]*%(?:(?:re)?load_ext[ \t]+jupyter_ctx|config[ \t]+JupyterCtx\b).*$\n?", re.M
)
"""Lines that only this program needs: where it is not installed, they would fail."""

_RAN_CELL = re.compile(r"\[cell .{1,200} ran; its outputs, [^\]\n]*\]\n?")
_NO_OUTPUT = re.compile(r"\((?:\w+ completed with )?no output\)")
_TOLD = ("[Stopped ", "[The turn failed")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user asked in turn `turn`, as typed."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Markdown that the model wrote."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the program's: a turn that was stopped, a compaction."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call that is no code: its name, its input, and whether it failed."""

    turn: int
    name: str
    input: Json
    is_error: bool


@dataclass(frozen=True, slots=True)
class Code:
    """Code that ran, or was to run.

    `turn` 0: the user's own cell. `id` is its cell's or its call's. `failed`: it raised.
    `is_whole`: it ran to its end or to an error of its own, so it can run again.
    """

    turn: int
    id: str
    source: str
    outputs: Sequence[Json] = ()
    failed: bool = False
    is_whole: bool = True


Item: TypeAlias = Prompt | Answer | Note | Step | Code


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session's title, and its items."""

    title: str
    items: tuple[Item, ...]


def read_conversation(source: Source) -> Conversation:
    """Return what was said and run. A stored result that is gone is told as the model saw it."""
    reader = _Reader(source)
    prompts = reader.transcript.prompts
    title = next(filter(None, map(title_of, prompts.values())), "")
    return Conversation(title, tuple(reader.items()))


@dataclass(slots=True)
class _Turn:
    at: float
    items: list[Item] = field(default_factory=list)


class _Reader:
    """Reads the entries once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.transcript = Transcript(source.entries)
        ran = {cell.id: cell.source for cell in source.cells}
        self._sources: dict[str, str] = {**source.sources, **ran}

    def items(self) -> Iterator[Item]:
        """Yield the early cells, then turns and the user's cells by their time."""
        for early in sorted(self.source.early, key=lambda cell: cell.count or 0):
            outputs = self._redacted(early.outputs)
            yield from _own_cell(early.id, early.source, outputs, early.failed)
        blocks = [(turn.at, turn.items) for turn in self._turns().values()]
        for cell in self.source.cells:
            if not cell.is_agent:
                outputs = self._redacted(cell.outputs)
                own = _own_cell(cell.id, cell.source, outputs, cell.failed)
                blocks.append((cell.changed_at, list(own)))
        for _, items in sorted(blocks, key=lambda block: block[0]):
            yield from items

    def _turns(self) -> dict[int, _Turn]:
        turns: dict[int, _Turn] = {}
        for entry in self.source.entries:
            match entry:
                case MessageEntry(turn=n) if n in self.transcript.prompts:
                    if entry.kind == "prompt" and entry.step == 0:
                        turns[n] = _Turn(entry.at, [Prompt(n, self._prompt(n, entry.message))])
                    elif n in turns:
                        turns[n].items += self._message(entry)
                case CompactionEntry(turn=n) if n in turns and n in self.transcript.prompts:
                    turns[n].items.append(Note(n, _compaction_line(entry)))
                case EditEntry(edit=edit) if edit.kind == "cell" and edit.after is not None:
                    self._sources[edit.target] = str(edit.after.get("source", ""))
                case _:
                    pass
        return turns

    def _prompt(self, turn: int, message: Message) -> str:
        """Return the user's words; a long prompt was stored, and its message has the ends only."""
        try:
            return self.source.texts.read_text(f"prompt-{turn}")
        except StoreError:
            return words_of(message)

    def _message(self, entry: MessageEntry) -> Iterator[Item]:
        for block in entry.message.content:
            match block:
                case Text(text=text) if entry.kind == "reply":
                    yield Answer(entry.turn, text)
                case Text(text=text) if entry.kind == "note" and text.startswith(_TOLD):
                    yield Note(entry.turn, text.strip("[]"))
                case ToolUse() if entry.kind == "reply":
                    yield self._call(entry.turn, block)
                case _:
                    pass

    def _call(self, turn: int, use: ToolUse) -> Item:
        use = replace(use, input=self.source.redactor.json(use.input))
        result = self.transcript.results.get(use.id)
        code = use.input.get("code") if use.name == "run_code" else self._cell_source(use)
        if not isinstance(code, str):
            return Step(turn, use.name, use.input, result is None or result.is_error)
        if result is None:
            return Code(turn, use.id, code, is_whole=False)
        outputs = self._outputs(use.id, result)
        is_whole = not result.is_error or (len(use.input) == 1 and not _is_cut(result, outputs))
        return Code(turn, use.id, code, outputs, result.is_error, is_whole)

    def _cell_source(self, use: ToolUse) -> str | None:
        """Return what `run_cell` ran, as far as it is known; None for other tools."""
        return self._sources.get(str(use.input.get("cell_id"))) if use.name == "run_cell" else None

    def _outputs(self, tool_use_id: str, result: ToolResult) -> Sequence[Json]:
        """Return the outputs of a call: those that were stored, else its text as one stream."""
        try:
            stored = tuple(self.source.texts.read_result(tool_use_id).outputs)
        except StoreError:
            stored = ()  # a result that is all text has no file, or its file is gone
        if stored:
            return self._redacted(stored)
        text = _RAN_CELL.sub("", self.source.redactor.text(_text_of(result)), count=1)
        if not text.strip() or _NO_OUTPUT.fullmatch(text.strip()):
            return ()
        name = "stderr" if result.is_error else "stdout"
        return ({"output_type": "stream", "name": name, "text": text.rstrip("\n") + "\n"},)

    def _redacted(self, outputs: Sequence[Json]) -> Sequence[Json]:
        """Return outputs without keys: before they are cut, which would hide half a key's end."""
        return tuple(self.source.redactor.json(output) for output in outputs)


def early_cells(cells: Sequence[NotebookCell], known: Sequence[str]) -> tuple[NotebookCell, ...]:
    """Return the code cells of a notebook that ran in this kernel before anybody recorded."""
    return tuple(
        cell
        for cell in cells
        if cell.type == "code" and cell.is_early and cell.count and cell.id not in known
    )


def _own_cell(cell_id: str, source: str, outputs: Sequence[Json], failed: bool) -> Iterator[Code]:
    """Yield a cell of the user's, without the lines that load this program."""
    kept = _OURS.sub("", source)
    if kept.strip():
        yield Code(0, cell_id, kept, outputs, failed, not (failed and _is_interrupt(outputs)))


def _is_cut(result: ToolResult, outputs: Sequence[Json]) -> bool:
    """Whether the code of a failed call never ran, or was stopped while it did."""
    text = _text_of(result)
    return (
        text.startswith("Denied")
        or text.strip() == INTERRUPTED_TEXT
        or _is_interrupt(outputs)
        or text.rstrip().rsplit("\n", 1)[-1].startswith("KeyboardInterrupt")
    )


def _is_interrupt(outputs: Sequence[Json]) -> bool:
    return any(output.get("ename") == "KeyboardInterrupt" for output in outputs)


def _text_of(result: ToolResult) -> str:
    return "\n".join(
        f"[{block.media_type}]" if isinstance(block, Image) else block.text
        for block in result.content
    )


def _compaction_line(entry: CompactionEntry) -> str:
    return (
        f"Compaction {entry.n}: turns {entry.first_turn} to {entry.last_turn} were summarised, "
        f"{entry.tokens_before:,} tokens became {entry.tokens_after:,}."
    )


def input_line(values: Mapping[str, object], most_chars: int = 200) -> str:
    """Return a call's short inputs on one line, as `name=value`; texts of several lines are not."""
    said = [f"{name}={value!r}" for name, value in values.items() if not is_long(value)]
    line = ", ".join(said)
    return line if len(line) <= most_chars else line[: most_chars - 1] + "…"


def is_long(value: object) -> bool:
    """Whether an input is a text to be shown on lines of its own."""
    return isinstance(value, str) and ("\n" in value or len(value) > 80)
