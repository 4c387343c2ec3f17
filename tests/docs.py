"""Write the generated parts of the documents: `make docs`.

A generated part stands between `<!-- NAME -->` and `<!-- /NAME -->`, each on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from jupyter_ctx.config import settings_table

ROOT = Path(__file__).parents[1]

DOCUMENTS = (ROOT / "README.md",)

PARTS: Mapping[str, Callable[[], str]] = {"settings": settings_table}
"""What can be generated, by name; each gives whole lines."""

_PART = re.compile(r"^<!-- (?P<name>\w+) -->\n.*?^<!-- /(?P=name) -->$", re.DOTALL | re.MULTILINE)


def refresh(text: str) -> str:
    """Return `text` with every generated part as it should be. Raises KeyError on a new name."""

    def write(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- {name} -->\n{PARTS[name]()}<!-- /{name} -->"

    return _PART.sub(write, text)


def main() -> None:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        if (fresh := refresh(text)) != text:
            document.write_text(fresh, encoding="utf-8")
            print(f"{document.relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
