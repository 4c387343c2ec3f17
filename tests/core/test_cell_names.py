"""Stored outputs of the user's cells stay within reach of a compacted conversation."""

from __future__ import annotations

from jupyter_ctx.core.blocks import Json, Text, cell_names, text_of, user
from jupyter_ctx.core.ports import Update
from jupyter_ctx.testing import ScriptedModel, make_session, reply

TOLD = (
    "- big, code: the user ran it\nOutput: x\n… [9,000 more characters; `read_result` with `{}`] …"
)


class Told:
    """Updates that tell of one large output each turn."""

    def __init__(self) -> None:
        self.count = 0

    async def load(self, seen: Json | None, most_chars: int) -> Update:
        """Return the next cell's output."""
        self.count += 1
        return Update(TOLD.format(f"cell-big-{self.count}"), {})

    def note_told(self, text: str) -> None:
        """Nothing is kept."""


def test_names_are_found_in_updates_only() -> None:
    """What a notebook update names is stored; what the user writes is only words."""
    prompt = user(Text(TOLD.format("cell-a-3"), "notebook"), Text(TOLD.format("cell-b-4")))

    assert cell_names(prompt) == ("cell-a-3",)


def test_a_compaction_lists_the_outputs_it_took_out_of_sight() -> None:
    """The new context names every stored output whose update it replaced, the newest first."""
    long = reply("word " * 9_000)
    model = ScriptedModel(long, long, reply("A summary."), reply("Three."))
    session = make_session(model, updates=Told(), tail_tokens=0)
    session.ask("First.")
    session.ask("Second.")
    session.compact()
    session.ask("Third.")
    summary = text_of(model.requests[-1].messages[0].content)

    listed = [line for line in summary.split("\n") if "outputs of a cell" in line]
    assert [line.split("`")[1] for line in listed] == ["cell-big-2", "cell-big-1"]
