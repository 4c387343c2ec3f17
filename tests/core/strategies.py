"""Generated conversations and transcripts, and a counter that is hard on dense text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from jupyter_ctx.core.blocks import (
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    assistant,
    user,
)
from jupyter_ctx.core.entries import (
    CompactionEntry,
    CompactionFailedEntry,
    CountEntry,
    Entry,
    ExcludeEntry,
    FateEntry,
    MessageEntry,
    ModelEntry,
    PinEntry,
    PrefixEntry,
    RepairEntry,
    RewindEntry,
    SpentEntry,
    SummaryEditEntry,
    SummaryUndoEntry,
    UnknownEntry,
    UnpinEntry,
)
from jupyter_ctx.core.ports import ModelFacts
from jupyter_ctx.core.usage import Usage


class ByteCounter:
    """Counts a token for every two bytes of UTF-8: dense for digits, denser for CJK and emoji."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return (len(text.encode("utf-8", "surrogatepass")) + 1) // 2


def facts(window: int | None = 200_000, **changes: object) -> ModelFacts:
    """Return the facts of a made-up model."""
    known = ModelFacts("model", window, "api", 64_000)
    return replace(known, **changes)  # type: ignore[arg-type]  # fields of ModelFacts


def prompt(text: str = "go", turn: int = 1) -> MessageEntry:
    return MessageEntry(0.0, turn, 0, "prompt", user(Text(text)))


def reply_entry(*content: Block, usage: Usage | None = None, **changes: object) -> MessageEntry:
    """Return a reply; its stop reason follows from its content."""
    blocks = content or (Text("done"),)
    stop = "tool_use" if any(isinstance(block, ToolUse) for block in blocks) else "end_turn"
    fields = {"usage": usage, "stop_reason": stop, **changes}
    return MessageEntry(0.0, 1, 1, "reply", assistant(*blocks), **fields)  # type: ignore[arg-type]


def results_entry(*content: Block) -> MessageEntry:
    return MessageEntry(0.0, 1, 1, "results", user(*content))


def compaction_entry(
    n: int = 1, drop: int = 1, text: str = "summary", **changes: object
) -> CompactionEntry:
    fields = {
        "at": 0.0,
        "n": n,
        "turn": 1,
        "trigger": "proactive",
        "message": user(Text(text, "summary")),
        "summary": text,
        "drop_messages": drop,
        "drop_thinking": False,
        "first_turn": 1,
        "last_turn": 1,
        "tokens_before": 1_000,
        "tokens_after": 100,
        "seconds": 1.0,
        "cost_usd": None,
        "usage": None,
        **changes,
    }
    return CompactionEntry(**fields)  # type: ignore[arg-type]


# Anything at all ---------------------------------------------------------------------------------

_ids = st.sampled_from(["a", "b", "c", "d"])
_texts = st.sampled_from(["", " ", "x", "some text", "数据", "\n"])
_images = st.builds(Image, st.just("image/png"), st.just("aGk="), st.integers(0, 60), st.just(40))
_results = st.builds(
    ToolResult,
    _ids,
    st.lists(st.builds(Text, _texts) | _images, max_size=2).map(tuple),
    st.booleans(),
)
_uses = st.builds(ToolUse, _ids, st.just("run_code"), st.just({"code": "1"}))
_thinking = st.builds(Thinking, st.just({"type": "thinking", "thinking": "", "signature": "s" * 9}))
blocks = st.one_of(st.builds(Text, _texts), _images, _thinking, _uses, _results)
messages = st.builds(
    Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=4).map(tuple)
)
broken_views = st.lists(messages, max_size=8).map(tuple)


# Conversations as the loop makes them ------------------------------------------------------------


@dataclass
class Maker:
    """Makes steps with ids and texts that never repeat."""

    draw: st.DrawFn
    made: int = 0

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-{self.made}"

    def reply(self, calls: int) -> Message:
        thought: list[Block] = []
        if self.draw(st.integers(0, 2)) == 0:
            thought = [Thinking({"type": "thinking", "thinking": self.name("t"), "signature": "s"})]
        uses = [ToolUse(self.name("use"), "run_code", {"code": "1"}) for _ in range(calls)]
        said: list[Block] = [Text(self.name("reply"))] if self.draw(st.booleans()) else []
        if not uses and not said and self.draw(st.integers(0, 3)):
            said = [Text(self.name("reply"))]
        return assistant(*(thought + said + list(uses) or [Text(self.name("reply"))]))

    def results(self, reply: Message) -> Message:
        uses = [block for block in reply.content if isinstance(block, ToolUse)]
        return user(*(ToolResult(use.id, (Text(self.name("out"), "results"),)) for use in uses))


@st.composite
def valid_views(draw: st.DrawFn, least_turns: int = 0) -> tuple[Message, ...]:
    """Return a view that any provider takes: turns of steps, every call answered."""
    maker, view = Maker(draw), list[Message]()
    for _ in range(draw(st.integers(least_turns, 4))):
        view.append(user(Text(maker.name("prompt"))))
        for _ in range(draw(st.integers(0, 3))):
            view.append(maker.reply(draw(st.integers(1, 3))))
            view.append(maker.results(view[-1]))
        view.append(maker.reply(0))
    return tuple(view)


@dataclass
class _Log:
    """Entries as they are made, with what is needed to make the next one."""

    maker: Maker
    entries: list[Entry] = field(default_factory=list)
    turn: int = 0
    compactions: int = 0

    def add(self, kind: str) -> None:
        draw = self.maker.draw
        match kind:
            case "turn":
                self.turn += 1
                said = user(Text(self.maker.name("prompt")))
                self.entries.append(MessageEntry(0.0, self.turn, 0, "prompt", said))
            case "step":
                reply = self.maker.reply(draw(st.integers(0, 2)))
                usage = Usage(draw(st.integers(0, 5_000)), 0, 0, draw(st.integers(0, 500)))
                self.entries.append(
                    MessageEntry(
                        *(0.0, self.turn, 1, "reply", reply, "m", usage),
                        raw_tokens=draw(st.integers(0, 900)),
                        stop_reason="end_turn",
                    )
                )
                if any(isinstance(block, ToolUse) for block in reply.content):
                    results = self.maker.results(reply)
                    self.entries.append(MessageEntry(0.0, self.turn, 1, "results", results))
            case "compaction":
                self.compactions += 1
                self.entries.append(
                    compaction_entry(
                        self.compactions,
                        draw(st.integers(1, 6)),
                        self.maker.name("summary"),
                        drop_thinking=draw(st.booleans()),
                    )
                )
            case "count":
                self.entries.append(
                    CountEntry(0.0, draw(st.integers(1, 6_000)), draw(st.integers(0, 900)))
                )
            case "edit":
                text = self.maker.name("edited")
                n = draw(st.integers(1, max(1, self.compactions)))
                drop = draw(st.booleans())
                self.entries.append(SummaryEditEntry(0.0, n, user(Text(text)), text, drop))
            case "undo":
                n = draw(st.integers(1, max(1, self.compactions)))
                self.entries.append(SummaryUndoEntry(0.0, n, draw(st.booleans())))
            case "rewind":
                self.entries.append(RewindEntry(0.0, draw(st.integers(1, max(1, self.turn)))))
            case "exclude":
                self.entries.append(ExcludeEntry(0.0, draw(st.integers(-1, 5)), "refusal"))
            case "repair":
                self.entries.append(RepairEntry(0.0, (user(Text(self.maker.name("mended"))),), ""))
            case _:
                self.entries.append(draw(_without_effect))


_without_effect: st.SearchStrategy[Entry] = st.sampled_from(
    [
        PrefixEntry(0.0, "system", ({"name": "run_code"},)),
        ModelEntry(0.0, "m"),
        ModelEntry(0.0, "other"),
        FateEntry(0.0, "a", "keep", "run_code", 3, 1),
        CompactionFailedEntry(0.0, 1, "proactive", "no text"),
        SpentEntry(0.0, 1, Usage(1, 1, 1, 1), "raised"),
        PinEntry(0.0, 1, "keep this"),
        UnpinEntry(0.0, 1),
        UnknownEntry({"type": "later"}),
    ]
)
MOVES = ("turn", "step", "step", "step", "compaction", "edit", "undo", "rewind", "exclude", "note")


@st.composite
def logs(draw: st.DrawFn, moves: tuple[str, ...] = (*MOVES, "count", "repair")) -> list[Entry]:
    """Return entries as a session with a restless user would write them."""
    log = _Log(Maker(draw))
    for kind in ["turn", *draw(st.lists(st.sampled_from(moves), max_size=25))]:
        log.add(kind)
    return log.entries
