"""What a project's folder would add, as values: offers, hooks and servers as they stand there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["settings", "hooks", "mcpServers", "context", "skill", "git"]
ExtensionKind: TypeAlias = Literal["hooks", "mcpServers"]

NAME_CHARS = 100
"""Longest name that a model is told of something that is not trusted."""

_PLAIN = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True)
class Mark:
    """What is trusted: a part (an Offer's kind) of the file at a real path, with this digest."""

    path: str
    part: str
    digest: str


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that the project's folder would add.

    `name` is for people (`AGENTS.md`, a skill's name), `source` the file it comes from, counted
    from the project's folder; both as they are, so they are escaped where they are shown. `path` is
    that file's real path, `digest` of what was read, `text` what it says. `fault` says why it
    cannot be used (then nobody can trust it), "" if it can. `is_trusted`: exactly this is;
    `is_changed`: another form of it is. `value` is what was read of it: the JSON of settings, hooks
    and servers, a SkillFile. `note` is a sentence of ours on what was read and is passed over.
    """

    kind: Kind
    name: str
    source: str
    path: str
    digest: str = ""
    text: str = ""
    fault: str = ""
    is_trusted: bool = False
    is_changed: bool = False
    value: object = field(default=None, compare=False, repr=False)
    note: str = ""

    @property
    def mark(self) -> Mark:
        """What trusting it means."""
        return Mark(self.path, self.kind, self.digest)


@dataclass(frozen=True, slots=True)
class Extension:
    """`hooks` or `mcpServers` of one file, raw: `value` is the JSON as it stands there.

    `source` names the file for people; `folder` is the real path of the project's folder, or of the
    home, which the entries were written for. `is_trusted`: they may be used; `is_own`: they
    stand in the home.
    """

    kind: ExtensionKind
    source: str
    folder: str
    value: object
    is_trusted: bool = True
    is_own: bool = False


def digest_of(value: object) -> str:
    """Return the sha256 of JSON in a form that does not depend on spaces and the order of keys."""
    data = json.dumps(value, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.sha256(data).hexdigest()


def told_names(names: Iterable[str]) -> str:
    """Return names as a model may hear them of what is not trusted: plain ones, others counted.

    A plain name has letters, digits, `.`, `_`, `-` and `/`, and at most 100 characters.
    """
    plain, odd = [], 0
    for name in names:
        if len(name) <= NAME_CHARS and _PLAIN.fullmatch(name):
            plain.append(f"`{name}`")
        else:
            odd += 1
    more = f"{odd:,} with unusual names" if odd else ""
    return ", ".join([*plain, more] if more else plain)
