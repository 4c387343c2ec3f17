"""Asks the person who sits at the front end, by `input()`."""

from __future__ import annotations

import builtins
import sys
from typing import Protocol

from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell

from .permissions import CannotAskError


class Shows(Protocol):
    """Shows Markdown and its plain form."""

    def show(self, markdown: str, text: str) -> None:
        """Show it."""
        ...


class InputAsker:
    """Shows what is asked about with `shows`, and asks on the stdin channel or the terminal."""

    def __init__(self, shell: InteractiveShell, shows: Shows) -> None:
        self._kernel = getattr(shell, "kernel", None)
        self._shows = shows

    def show(self, markdown: str, text: str) -> None:
        """Show what is asked about."""
        self._shows.show(markdown, text)

    def ask(self, question: str) -> str:
        """Return the line that is typed.

        Raises CannotAskError if the front end takes no input, or its input has ended.
        """
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        try:
            if self._kernel is not None:
                return str(self._kernel.raw_input(question))
            return builtins.input(question)
        except (StdinNotImplementedError, EOFError) as error:
            raise CannotAskError(str(error)) from None
