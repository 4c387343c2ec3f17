"""Lets a `%agent` line reach the magic exactly as it was typed.

IPython would take a line that ends in `?` for a question about an object, one that ends in a
backslash for half a line, and would tokenise prose as Python. A first line is therefore rewritten
before anything is tokenised, and a later one by a transformer that comes before all others.
`%agent?` and `%agent??` alone stay questions about the magic.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence

from IPython.core.inputtransformer2 import TokenTransformBase, TransformerManager

_LINE = re.compile(r"%agent(?:[ \t]+(.*?))?[ \t]*(?:\r?\n)?", re.DOTALL)


def rewrite(line: str) -> str | None:
    """Return the call that a `%agent` line stands for, None if it is none."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    return f"get_ipython().run_line_magic('agent', {match[1] or ''!r})\n"


def rewrite_first_line(lines: list[str]) -> list[str]:
    """Rewrite a cell whose first line is `%agent …`; a line transform of IPython."""
    call = rewrite(lines[0]) if lines else None
    return lines if call is None else [call, *lines[1:]]


class AgentLine(TokenTransformBase):
    """Rewrites a `%agent` line anywhere in a cell, indented ones too, but none within a string."""

    priority = 1  # before help (5) and other magics (10)

    @classmethod
    def find(cls, tokens_by_line: Sequence[Sequence[tokenize.TokenInfo]]) -> AgentLine | None:
        """Find the first such line."""
        for tokens in tokens_by_line:
            head = [t for t in tokens[:64] if t.type not in (tokenize.INDENT, tokenize.DEDENT)][:2]
            if [t.string for t in head] != ["%", "agent"]:
                continue
            row, column = head[0].start
            if head[1].start[0] == row and rewrite(_physical(head[0].line)[column:]) is not None:
                return cls((row, column))
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Rewrite the line that was found; a backslash at its end is part of the text."""
        at, column = self.start_line, self.start_col
        call = rewrite(lines[at][column:])
        if call is None:
            raise SyntaxError("This is no %agent line.")  # leaves the line to other transformers
        return [*lines[:at], lines[at][:column] + call, *lines[at + 1 :]]


def _physical(line: str) -> str:
    """Return the first of the lines that the tokenizer took for one."""
    return line.partition("\n")[0]


def install(manager: TransformerManager) -> None:
    """Add both transforms to a shell's input."""
    manager.line_transforms.append(rewrite_first_line)
    manager.token_transformers.append(AgentLine)


def uninstall(manager: TransformerManager) -> None:
    """Take both away again; one that is not there is no error."""
    if rewrite_first_line in manager.line_transforms:
        manager.line_transforms.remove(rewrite_first_line)
    if AgentLine in manager.token_transformers:
        manager.token_transformers.remove(AgentLine)
