"""What a person has allowed for a session: exact rules, about what a call does and to what. Pure.

A rule never reaches further than its words: not to another group of tools ("edit" is no "delete"),
not to a cell whose source was not shown, not to the files that always ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias, cast, get_args

from ..core.entries import Edit, EditEntry, EditUndoneEntry, Entry
from .plaintext import on_one_line

Kind: TypeAlias = Literal["", "cell", "file"]
Reach: TypeAlias = Literal["all", "this", "made", "any"]

VERSION = 1
MOST_RULES = 1_000
"""More are not read from a file: nobody has answered so many questions."""

CELL_VERBS = ("edit cells", "move cells", "delete cells", "run cells")
FILE_VERBS = ("edit files", "write files")
EDIT_VERBS = ("insert cells", "edit cells", "move cells", *FILE_VERBS)
"""The groups that the mode `edits` lets run unasked: all of them can be undone by `/undo`."""

_STORED = ("verb", "reach", "target", "digest")
_FIELD_CHARS = 4_096  # no verb and no path is longer (PATH_MAX of Linux)
_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_DIGEST = re.compile(r"[0-9a-f]{1,128}", re.ASCII)


def kind_of(verb: str) -> Kind:
    """Return what calls of a group act on: one cell, one file, or nothing that has a name."""
    if verb in CELL_VERBS:
        return "cell"
    return "file" if verb in FILE_VERBS else ""


@dataclass(frozen=True, slots=True)
class Act:
    """What one call would do. `verb` is the group its tool names ("edit cells").

    `target` is the cell's id or the file's real path, "" if there is none or nobody knows it;
    `name` is how it is shown, "" if whole. `is_made`: the agent made the target, and of a deletion:
    nobody has changed it since. `digest` is that of the source that would run, "" of other acts.
    `always_asks`: no mode and no rule covers it.
    """

    verb: str
    target: str = ""
    is_made: bool = False
    digest: str = ""
    always_asks: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something allowed for this session.

    `reach` says to which targets of `verb`: `all` of a group without targets, `this` one, those the
    agent `made`, or `any`. `digest` binds "run this cell" to the source that was shown. `name` is
    how the target was shown when it was asked about; it is not stored, and then shown whole.
    """

    verb: str
    reach: Reach = "all"
    target: str = ""
    digest: str = ""
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        act, _, noun = self.verb.rpartition(" ")
        match self.reach:
            case "all":
                return on_one_line(self.verb)
            case "this":
                shown = f"{act} {noun.removesuffix('s')} {on_one_line(self.name or self.target)}"
                return f"{shown} as shown" if self.digest else shown
            case "made":
                return f"{self.verb} the agent made"
            case "any":
                where = " in the project" if noun == "files" else ""
                return f"{act} any {noun.removesuffix('s')}{where}"


def covers(rule: Rule, act: Act) -> bool:
    """Say whether `rule` allows `act`."""
    if act.always_asks or rule.verb != act.verb:
        return False
    match rule.reach:
        case "all":
            return not kind_of(act.verb)
        case "this":
            same = bool(act.target) and rule.target == act.target
            return same and rule.digest == act.digest
        case "made":
            return bool(act.target) and act.is_made
        case "any":
            return bool(act.target) and act.verb != "delete cells"


def find_offers(act: Act) -> Mapping[str, Rule]:
    """Return the rules that may be made where `act` is asked about, the narrowest first.

    The keys are what is typed behind `a`: "" or a word. None is offered for what always asks, for a
    target nobody knows, and for deleting a cell that is not the agent's.
    """
    verb, kind = act.verb, kind_of(act.verb)
    if act.always_asks or (kind and not act.target):
        return {}
    if not kind:
        return {"": Rule(verb)}
    if verb == "delete cells":
        return {"": Rule(verb, "made")} if act.is_made else {}
    offers = {"": Rule(verb, "this", act.target, act.digest, act.name)}
    if act.is_made:
        offers["made"] = Rule(verb, "made")
    return {**offers, "any": Rule(verb, "any")}


# Stored -----------------------------------------------------------------------------------------


def rules_to_json(rules: Iterable[Rule], session_id: str) -> Mapping[str, object]:
    """Return what is stored of a session's rules."""
    stored = [{name: getattr(rule, name) for name in _STORED} for rule in rules]
    return {"version": VERSION, "session_id": session_id, "rules": stored}


def rules_from_json(stored: object, session_id: str) -> tuple[Rule, ...]:
    """Return the rules of session `session_id`.

    Raises ValueError if anything is not as `rules_to_json` makes it: of a file that somebody else
    may have written, no part counts.
    """
    match stored:
        case {"version": int(version), "session_id": str(id), "rules": [*items], **more}:
            if version != VERSION or isinstance(version, bool):
                raise ValueError(f"its version is {version}, and {VERSION} is known")
            if id != session_id:
                raise ValueError("it belongs to another session")
            if not more and len(items) <= MOST_RULES:
                return tuple(dict.fromkeys(map(_rule_of, items)))
    raise ValueError("it holds what no version of this program writes")


def _rule_of(item: object) -> Rule:
    match item:
        case {
            "verb": str(verb),
            "reach": str(reach),
            "target": str(target),
            "digest": str(digest),
            **more,
        } if not more:
            rule = Rule(verb, cast(Reach, reach), target, digest)
            if _is_valid(rule):
                return rule
    raise ValueError("it holds a rule that cannot be made")


def _is_valid(rule: Rule) -> bool:
    """Say whether a question could have offered the rule."""
    if len(rule.verb) > _FIELD_CHARS or not _ONE_LINE.fullmatch(rule.verb):
        return False
    if rule.reach not in get_args(Reach) or len(rule.target) > _FIELD_CHARS:
        return False
    if not kind_of(rule.verb):
        return rule == Rule(rule.verb)
    if rule.verb == "delete cells":
        return rule == Rule(rule.verb, "made")
    if rule.reach == "this":
        runs = rule.verb == "run cells"
        return bool(rule.target) and bool(rule.digest) == runs and _is_digest(rule.digest)
    return rule.reach != "all" and rule == Rule(rule.verb, rule.reach)


def _is_digest(text: str) -> bool:
    return not text or _DIGEST.fullmatch(text) is not None


# What the agent made ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Made:
    """What the agent made in a session, and has not taken away again.

    `cells` maps a cell's id to its source as the agent left it; `files` are real paths.
    """

    cells: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    files: frozenset[str] = frozenset()


def find_made(entries: Iterable[Entry]) -> Made:
    """Return what the agent made, as the transcript's edits tell; those undone do not count."""
    edits: dict[int, Edit] = {}
    for entry in entries:
        match entry:
            case EditEntry(n=n, edit=edit):
                edits[n] = edit
            case EditUndoneEntry(n=n):
                edits.pop(n, None)
            case _:
                pass
    cells: dict[str, str] = {}
    files: set[str] = set()
    for edit in edits.values():
        if edit.after is None:
            cells.pop(edit.target, None)
            files.discard(edit.target)
        elif edit.kind == "file":
            files.update([edit.target] if edit.before is None else ())
        elif edit.before is None or edit.target in cells:
            source = edit.after.get("source")
            cells[edit.target] = source if isinstance(source, str) else cells.get(edit.target, "")
    return Made(cells, frozenset(files))
