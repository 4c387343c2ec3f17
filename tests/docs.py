"""Write the generated parts of the documents, and run the notebooks anew: `make docs`.

A generated part stands between `<!-- NAME -->` and `<!-- /NAME -->`, each on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jupyter_ctx.config import Settings, settings_table
from jupyter_ctx.core.ports import ToolSpec
from jupyter_ctx.ipython.commands import COMMANDS
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools import make_tools
from jupyter_ctx.tools.files import FileTools
from jupyter_ctx.tools.project import Project
from jupyter_ctx.tools.seen import Seen

from . import notebooks

ROOT = Path(__file__).parents[1]

DOCUMENTS = (ROOT / "README.md",)


def commands_table() -> str:
    """Return every command with its one-line help and an example."""
    rows = [(f"`{one.usage}`", one.help, f"`%agent {one.example}`") for one in COMMANDS.values()]
    return _table(("Command", "Does", "Example"), rows)


def tools_table() -> str:
    """Return every tool the model has, with the first sentence of its description."""
    files = FileTools(Project("/"), Seen())
    rows = [
        (f"`{spec.name}({', '.join(_properties(spec.input_schema))})`", _first_sentence(spec))
        for spec in make_tools(FakeKernel(), NoTexts(), Settings(), files=files).specs
    ]
    return _table(("Tool", "Does"), rows)


class NoTexts:
    """A session that has stored nothing yet."""

    def read_text(self, name: str) -> None:
        """Return None: there is no such text."""

    def names(self) -> Sequence[str]:
        """Return no name."""
        return ()


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands_table,
    "tools": tools_table,
    "settings": settings_table,
}
"""What can be generated, by name; each gives whole lines."""

_PART = re.compile(r"^<!-- (?P<name>\w+) -->\n.*?^<!-- /(?P=name) -->$", re.DOTALL | re.MULTILINE)


def refresh(text: str) -> str:
    """Return `text` with every generated part as it should be. Raises KeyError on a new name."""

    def write(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- {name} -->\n{PARTS[name]()}<!-- /{name} -->"

    return _PART.sub(write, text)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _properties(schema: Mapping[str, object]) -> list[str]:
    properties = schema.get("properties")
    return list(properties) if isinstance(properties, Mapping) else []


def _first_sentence(spec: ToolSpec) -> str:
    """Return the first sentence of a tool's description, on one line."""
    line = " ".join(spec.description.split("\n\n")[0].split())
    return line.split(". ")[0].removesuffix(".") + "."


def main() -> None:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        if (fresh := refresh(text)) != text:
            document.write_text(fresh, encoding="utf-8")
            print(f"{document.relative_to(ROOT)}: written")
    notebooks.main()


if __name__ == "__main__":
    main()
