"""Asks before a tool acts, by `input()`: the whole code first, then one question.

Modes: `ask`, `edits` (edits run unasked), `auto` (nothing asks), `plan` (only reading is allowed).
Rules and mode live here, outside the transcript: no compaction touches them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from ..config import PermissionMode
from ..core.blocks import ToolUse
from ..core.ports import Allowed, Denied, ToolSpec
from .markdown import escape, fence
from .plaintext import one_line, shown_exactly

if TYPE_CHECKING:
    from .kernel import MainCaller

ASKS_AGAIN = 3
HEADLESS_TEXT = "Denied: no one can be asked here; set JUPYTER_CTX_PERMISSIONS=auto"
PLAN_TEXT = "Denied: plan mode allows only reading; the user ends it with /permissions ask"
UNCLEAR_TEXT = "Denied by the user: the question was not answered with y, a or n"
NO_REASON = "no reason given"

_NO = re.compile(r"(?:n|no)(?:[\s,.:;–—-]+(.*))?", re.IGNORECASE | re.DOTALL)


class CannotAskError(Exception):
    """The front end cannot answer questions."""


class Asker(Protocol):
    """How the person is asked. Called on the main thread."""

    def show(self, markdown: str, text: str) -> None:
        """Show what is asked about: Markdown that is safe already, and its plain form."""
        ...

    def ask(self, question: str) -> str:
        """Return the line that is typed. Raises CannotAskError; an interrupt goes through."""
        ...


class AskPermissions:
    """Decides by mode, by the rules of this session, or by asking. Implements core.ports.

    `mode` gives the mode in force, `asker` who asks; both are looked up for each call.
    """

    def __init__(
        self, main: MainCaller, mode: Callable[[], PermissionMode], asker: Callable[[], Asker]
    ) -> None:
        self._main = main
        self._mode = mode
        self._asker = asker
        self._rules: list[str] = []

    @property
    def rules(self) -> tuple[str, ...]:
        """What is allowed for this session, in the order it was: "run code"."""
        return tuple(self._rules)

    def revoke(self) -> None:
        """Forget every rule."""
        self._rules.clear()

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        """Return the decision for exactly this call."""
        mode = self._mode()
        if spec.reads_only:
            return Allowed()
        if mode == "plan":
            return Denied(PLAN_TEXT)
        if mode == "auto" or (mode == "edits" and _is_edit(spec)) or _scope(spec) in self._rules:
            return Allowed()
        return await self._main.call(lambda: self._ask(use, spec))

    def _ask(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        asker, scope = self._asker(), _scope(spec)
        asker.show(*describe(use, spec))
        question = f"Allow? [y]es once, [a]lways for this session ({scope}), [n]o (and why): "
        for _ in range(1 + ASKS_AGAIN):
            try:
                answer = read_answer(asker.ask(question))
            except CannotAskError:
                return Denied(HEADLESS_TEXT)  # the line of the call tells the person
            if answer == "always":
                self._rules.append(scope)
            if answer in ("once", "always"):
                return Allowed()
            if isinstance(answer, Denied):
                return answer
        return Denied(UNCLEAR_TEXT)


def read_answer(line: str) -> Literal["once", "always"] | Denied | None:
    """Return what a typed line means, None if it is neither yes, always nor no."""
    line = line.strip()
    match line.lower():
        case "y" | "yes":
            return "once"
        case "a" | "always":
            return "always"
        case _:
            said_no = _NO.fullmatch(line)
            if said_no is None:
                return None
            return Denied(f"Denied by the user: {(said_no[1] or '').strip() or NO_REASON}")


def describe(use: ToolUse, spec: ToolSpec) -> tuple[str, str]:
    """Return what is asked about, whole, as Markdown and as plain text.

    Characters that would make code look other than it is are spelled out.
    """
    code = use.input.get("code")
    if isinstance(code, str) and set(use.input) == {"code"}:
        shown, info = shown_exactly(code), "python"
    else:
        shown = shown_exactly(json.dumps(dict(use.input), indent=2, ensure_ascii=False))
        info = "json"
    title = f"The agent asks to {_scope(spec)}:"
    return f"{escape(title)}\n\n{fence(shown, info)}", f"{title}\n\n{shown}"


def _scope(spec: ToolSpec) -> str:
    """Return what an answer for the whole session covers."""
    return one_line(spec.permission or f"use {spec.name}")


def _is_edit(spec: ToolSpec) -> bool:
    return spec.permission.startswith("edit")
