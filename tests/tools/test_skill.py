"""The tool `skill` gives a skill in force, in pages, and names near ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jupyter_ctx.errors import ToolError
from jupyter_ctx.tools.skills import make_skill


@dataclass(frozen=True)
class Known:
    name: str
    text: str
    path: str = "/p/.jupyter_ctx/skills/x/SKILL.md"


async def load(name: str, *known: Known, cap: int = 10_000, start_line: int | None = None) -> str:
    arguments: dict[str, object] = {"name": name}
    if start_line is not None:
        arguments["start_line"] = start_line
    output = await make_skill(lambda: known).run(arguments, cap)
    assert isinstance(output.text, str)
    return output.text


async def test_a_skill_comes_whole_with_its_folder() -> None:
    """The text, and where the files lie that it names."""
    text = await load("plot", Known("plot", "# Plot\nUse it."))

    assert text.endswith("# Plot\nUse it.")
    assert "/p/.jupyter_ctx/skills/x" in text


async def test_a_long_skill_is_read_on() -> None:
    """What does not fit is named by its line, from which it goes on."""
    known = Known("plot", "\n".join(f"line {n}" for n in range(1, 1_001)))

    first = await load("plot", known, cap=2_000)
    line = int(first.rpartition("start_line=")[2].rstrip("]"))
    second = await load("plot", known, cap=2_000, start_line=line)

    assert len(first) <= 2_000
    assert f"\nline {line}\n" in second
    assert f"line {line}\n" not in first


async def test_an_unknown_skill_names_near_ones() -> None:
    """An error result with what it may have meant, or that there is none."""
    with pytest.raises(ToolError, match="Nearest: `plot`"):
        await load("plots", Known("plot", "x"))
    with pytest.raises(ToolError, match="none in force"):
        await load("plots")


def test_it_only_reads() -> None:
    """It asks for no permission and is allowed in plan mode."""
    assert make_skill(lambda: ()).spec.reads_only
