"""Asks before a tool acts, by `input()`: the whole code or diff first, then one question.

Modes: `ask`, `edits` (what `/undo` can take back runs unasked), `auto` (nothing asks), `plan` (only
reading is allowed). Above all three stand the files that always ask. Rules and mode live here and
beside the transcript, outside the conversation: no compaction touches them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ..config import PermissionMode
from ..core.acting import find_actor
from ..core.blocks import ToolUse
from ..core.ports import Allowed, Denied, ToolSpec
from ..errors import PromptError, StoreError
from .asked import Asked, ask_plainly, asked_by, group_of
from .markdown import escape
from .rules import (
    EDIT_VERBS,
    Act,
    Rule,
    covers,
    find_offers,
    kind_of,
    rules_from_json,
    rules_to_json,
)

if TYPE_CHECKING:
    from .kernel import MainCaller

ASKS_AGAIN = 3
HEADLESS_TEXT = "Denied: no one can be asked here; set JUPYTER_CTX_PERMISSIONS=auto"
HEADLESS_FILE_TEXT = (
    "Denied: no one can be asked here, and writing this file is asked about in every mode"
)
PLAN_TEXT = "Denied: plan mode allows only reading; the user ends it with /permissions ask"
UNCLEAR_TEXT = "Denied by the user: the question was not answered with y, a or n"
NO_REASON = "no reason given"

_NO = re.compile(r"(?:n|no)(?:[\s,.:;–—-]+(.*))?", re.IGNORECASE | re.DOTALL)
_ALWAYS = re.compile(r"(?:a|always)(?:[\s,:]+([a-z]+))?", re.IGNORECASE)


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


class Look(Protocol):
    """Looks at what calls act on."""

    async def look(self, use: ToolUse, spec: ToolSpec) -> Asked:
        """Return the call as it is asked about, its target as it stands now."""
        ...


class RuleStore(Protocol):
    """Keeps the rules of one session, outside the conversation."""

    def load_rules(self) -> object:
        """Return the JSON that was saved last, None if none was. Raises StoreError."""
        ...

    def save_rules(self, rules: Mapping[str, object]) -> None:
        """Save the JSON. Raises StoreError; what was saved then stays."""
        ...


@dataclass(frozen=True, slots=True)
class Always:
    """Allowed for the session; `word` widens it ("made", "any"), "" does not."""

    word: str = ""


Answer: TypeAlias = Literal["once"] | Always | Denied


class Pages(Protocol):
    """Asks on the pages that show the panel. Called on the loop of the turn."""

    async def ask(self, use: ToolUse, asked: Asked, offers: Mapping[str, Rule]) -> Answer | None:
        """Return what is answered there, None if no page shows the question."""
        ...

    def warn(self, text: str) -> None:
        """Show a sentence."""
        ...


class AskPermissions:
    """Decides by mode, by the rules of this session, or by asking. Implements core.ports.

    `mode` gives the mode in force, `asker` who asks, `pages` who is asked first, None: nobody; all
    are looked up for each call. Until `take` names a session, rules last as long as the object.
    """

    def __init__(
        self,
        main: MainCaller,
        mode: Callable[[], PermissionMode],
        asker: Callable[[], Asker],
        pages: Callable[[], Pages | None] = lambda: None,
    ) -> None:
        self._main = main
        self._mode = mode
        self._asker = asker
        self._pages = pages
        self._rules: tuple[Rule, ...] = ()
        self._session_id = ""
        self._store: RuleStore | None = None
        self._targets: Look | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """What is allowed for this session, in the order it was: "run code"."""
        return tuple(map(str, self._rules))

    def take(self, session_id: str, store: RuleStore | None, targets: Look | None) -> Sequence[str]:
        """Go over to a session: its own rules count, and no others.

        Returns sentences for the person: where rules cannot be read, none count.
        """
        self._session_id, self._store, self._targets = session_id, store, targets
        self._rules = ()
        if store is None:
            return []
        try:
            stored = store.load_rules()
            self._rules = () if stored is None else rules_from_json(stored, session_id)
        except StoreError as error:
            return [f"What was allowed for this session is not any more: {error}"]
        except ValueError as error:
            return [
                "What was allowed for this session is not any more: "
                f"its permissions.json was not written by this program ({error})."
            ]
        return []

    def revoke(self, n: int | None = None) -> None:
        """Forget rule `n`, counted from 1 as listed; None: every rule.

        Raises PromptError if there is no such rule, and StoreError if that could not be saved: the
        rule then ends here and would be back when the session is resumed.
        """
        if n is None:
            kept: tuple[Rule, ...] = ()
        elif 1 <= n <= len(self._rules):
            kept = self._rules[: n - 1] + self._rules[n:]
        else:
            there = f"they are 1 to {len(self._rules)}" if self._rules else "there is none"
            raise PromptError(f"There is no rule {n}; {there}.")
        had, self._rules = self._rules, kept
        if had != kept:
            self._save()

    async def check(self, use: ToolUse, spec: ToolSpec) -> Allowed | Denied:
        """Return the decision for exactly this call."""
        mode = self._mode()
        if spec.reads_only:
            return Allowed()
        if mode == "plan":
            return Denied(PLAN_TEXT)
        if mode == "auto" and kind_of(group_of(spec)) != "file":
            return Allowed()
        targets = self._targets
        asked = ask_plainly(use, spec) if targets is None else await targets.look(use, spec)
        if self._is_allowed(asked.act, mode):
            return Allowed()
        if (actor := find_actor()) is not None:
            asked = asked_by(actor, asked)
        offers, pages = find_offers(asked.act), self._pages()
        if pages is not None and (answer := await pages.ask(use, asked, offers)) is not None:
            return self._carry_out(answer, offers, pages.warn)
        return await self._main.call(lambda: self._ask(asked, offers))

    def _carry_out(
        self, answer: Answer, offers: Mapping[str, Rule], warn: Callable[[str], None]
    ) -> Allowed | Denied:
        if isinstance(answer, Denied):
            return answer
        if isinstance(answer, Always):
            self._allow(offers[answer.word], warn)
        return Allowed()

    def _is_allowed(self, act: Act, mode: PermissionMode) -> bool:
        if act.always_asks:
            return False
        if mode == "auto" or (mode == "edits" and act.verb in EDIT_VERBS):
            return True
        return any(covers(rule, act) for rule in self._rules)

    # The question -------------------------------------------------------------------------------

    def _ask(self, asked: Asked, offers: Mapping[str, Rule]) -> Allowed | Denied:
        asker = self._asker()
        asker.show(asked.markdown, asked.plain)
        question = question_of(offers)
        for _ in range(1 + ASKS_AGAIN):
            try:
                answer = read_answer(asker.ask(question))
            except CannotAskError:  # the line of the call tells the person
                guarded = asked.act.always_asks and self._mode() == "auto"
                return Denied(HEADLESS_FILE_TEXT if guarded else HEADLESS_TEXT)
            match answer:
                case Denied():
                    return answer
                case "once":
                    return Allowed()
                case Always(word=word) if word in offers:
                    self._allow(offers[word], lambda said: asker.show(escape(said), said))
                    return Allowed()
        return Denied(UNCLEAR_TEXT)

    def _allow(self, rule: Rule, warn: Callable[[str], None]) -> None:
        if rule in self._rules:
            return
        self._rules = (*self._rules, rule)
        try:
            self._save()
        except StoreError as error:
            warn(f"Allowed until the kernel restarts, but not saved: {error}")

    def _save(self) -> None:
        if self._store is not None:
            self._store.save_rules(rules_to_json(self._rules, self._session_id))


def question_of(offers: Mapping[str, Rule]) -> str:
    """Return the question; it names what each answer for the whole session would cover."""
    if not offers:
        return "Allow? [y]es once, [n]o (and why): "
    scope = "; ".join(f"`a {word}`: {rule}" if word else f"{rule}" for word, rule in offers.items())
    return f"Allow? [y]es once, [a]lways for this session ({scope}), [n]o (and why): "


def read_answer(line: str) -> Answer | None:
    """Return what a typed line means, None if it is neither yes, always nor no."""
    line = line.strip()
    if line.lower() in ("y", "yes"):
        return "once"
    if said := _ALWAYS.fullmatch(line):
        return Always((said[1] or "").lower())
    if said := _NO.fullmatch(line):
        return Denied(f"Denied by the user: {(said[1] or '').strip() or NO_REASON}")
    return None
