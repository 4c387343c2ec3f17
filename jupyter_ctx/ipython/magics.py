"""The magics `%agent` and `%%agent`: thin edges of the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import no_var_expand

from ..errors import CtxError

NAME = "agent"


def join_prompt(line: str, cell: str | None) -> str:
    """Return the prompt: the line, then the cell's text without the newline that ends it."""
    if cell is None:
        return line.strip()
    body = cell.removesuffix("\n")
    return f"{line.strip()}\n{body}" if line.strip() else body


def make_magic(run: Callable[[str], None]) -> Callable[..., None]:
    """Return the magic, for a line and for a cell."""

    @no_var_expand
    def agent(line: str, cell: str | None = None) -> None:
        """Ask the agent: `%agent TEXT`, or `%%agent` with the text below it.

        The text reaches the agent exactly as typed, `$`, `{}` and a `?` at the end included. It
        sees the notebook's cells and variables, and asks before it runs code. The answer appears
        below the cell; Stop (or Ctrl-C) stops it, and a stopped or failed turn fails the cell.

        A text that starts with `/` is a command; `%agent /help` lists them. Settings:
        `%config JupyterCtx`.
        """
        try:
            run(join_prompt(line, cell))
        except CtxError as error:
            raise UsageError(" ".join(str(error).split())) from None

    magic: Callable[..., None] = agent
    return magic


def install(shell: InteractiveShell, magic: Callable[..., None]) -> Callable[[], None]:
    """Register the magic for line and cell; return what puts back what was there before."""
    manager: Any = shell.magics_manager
    kinds = ("line", "cell")
    before = {kind: manager.magics[kind].get(NAME) for kind in kinds}
    had = vars(manager.user_magics).get(NAME)
    manager.register_function(magic, "line_cell", NAME)

    def undo() -> None:
        for kind in kinds:
            if before[kind] is None:
                manager.magics[kind].pop(NAME, None)
            else:
                manager.magics[kind][NAME] = before[kind]
        if had is None:
            vars(manager.user_magics).pop(NAME, None)
        else:
            setattr(manager.user_magics, NAME, had)

    return undo
