"""A project's folder and the program's home: what they add, and what of it is in force.

Everything is read anew when it is asked for, and what was read is in force only if the digest of
exactly that is trusted. What lies in the home is the user's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

from ..errors import StoreError
from . import git
from .offers import Extension, ExtensionKind, Mark, Offer
from .parts import mcp_offers, settings_offers
from .reading import Found, list_names, read_own, read_text
from .skills import BadSkillError, SkillFile, parse_skill

CONTEXT_NAMES = ("AGENTS.md", "CLAUDE.md", "CRUSH.md")
OWN_FOLDER = ".jupyter_ctx"
SETTINGS_NAME = f"{OWN_FOLDER}/settings.json"
SKILLS_NAME = f"{OWN_FOLDER}/skills"
MCP_NAME = ".mcp.json"
MOST_SKILLS = 200
"""So many folders of one skills folder are looked at."""
MOST_OWN_BYTES = 8 * 1024 * 1024
"""So large may the user's own settings be: no hook that guards is lost for their size."""
MOST_FOLDERS = 32
"""So many folders, the nearest ones, are looked through for context files."""


class TrustStore(Protocol):
    """Keeps what is trusted of folders: real path, part and digest."""

    def load(self, folder: str) -> frozenset[tuple[str, str, str]]:
        """Return what is trusted of `folder`. Raises StoreError."""
        ...

    def add(self, folder: str, rows: Iterable[tuple[str, str, str]]) -> None:
        """Trust `rows`, instead of what was trusted of the same paths. Raises StoreError."""
        ...

    def remove(self, folder: str) -> None:
        """Trust nothing of `folder` any more. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A context file in force; `name` counts from the project's folder."""

    name: str
    text: str
    path: str


class Folder:
    """One project: `root` is its folder, `nearest` the notebook's in it, `home` the program's.

    `home` None: there is none. `store` keeps what is trusted.
    """

    def __init__(self, root: str, nearest: str, home: Path | None, store: TrustStore) -> None:
        self.root = os.path.realpath(root)
        self._nearest = os.path.realpath(nearest)
        self._home = home
        self._store = store
        self.fault = ""
        """Why nothing is trusted at the moment (trust.json is damaged, say), "" if it can be."""
        self.shown: tuple[Offer, ...] | None = None
        """What the user was shown last and has not answered, None: nothing."""

    # What there is ------------------------------------------------------------------------------

    def offers(self) -> tuple[Offer, ...]:
        """Return everything that the project's folder would add, in force or not."""
        return self._judge(
            [
                *self._settings_offers(),
                *self._mcp_offers(),
                *self._context_offers(),
                *self._skill_offers(),
                *git.find_offers(self.root),
            ]
        )

    def trust(self, offers: Iterable[Offer]) -> None:
        """Trust exactly these offers, as they were read. Raises StoreError."""
        self._store.add(self.root, [_row(one.mark) for one in offers if not one.fault])

    def revoke(self) -> None:
        """Trust nothing of this folder any more. Raises StoreError."""
        self._store.remove(self.root)

    # What is in force ---------------------------------------------------------------------------

    def settings(self) -> dict[str, object]:
        """Return the trusted settings, the notebook's folder's over the project's.

        What no project may set is not among them.
        """
        merged: dict[str, object] = {}
        for offer in self._judge(self._settings_offers()):
            if offer.kind == "settings" and offer.is_trusted:
                merged |= cast("dict[str, object]", offer.value)
        return merged

    def extensions(self, *, untrusted: bool = False) -> dict[ExtensionKind, tuple[Extension, ...]]:
        """Return what home and project say of `hooks` and `mcpServers`, raw, the home's first.

        Only what is in force; with `untrusted` also what is not, each saying which it is.
        """
        found = [*self._home_extensions(), *self._project_extensions()]
        shown = [one for one in found if one.is_trusted or untrusted]
        kinds: tuple[ExtensionKind, ...] = ("hooks", "mcpServers")
        return {kind: tuple(one for one in shown if one.kind == kind) for kind in kinds}

    def skills(self) -> tuple[SkillFile, ...]:
        """Return the skills in force, sorted by name; the user's own stand before the project's."""
        project = [one.value for one in self._judge(self._skill_offers()) if one.is_trusted]
        found = [*self._home_skills(), *cast("list[SkillFile]", project)]
        by_name: dict[str, SkillFile] = {}
        for skill in found:
            by_name.setdefault(skill.name, skill)
        return tuple(by_name[name] for name in sorted(by_name))

    def context_files(self) -> tuple[ContextFile, ...]:
        """Return the trusted context files, the project's first, the nearest last."""
        return tuple(
            ContextFile(one.name, one.text, one.path)
            for one in self._judge(self._context_offers())
            if one.is_trusted
        )

    # Looking ------------------------------------------------------------------------------------

    def _judge(self, found: Iterable[Offer]) -> tuple[Offer, ...]:
        offers = tuple(found)
        self.fault = ""
        if not offers:
            return ()
        try:
            trusted = self._store.load(self.root)
        except StoreError as error:
            self.fault = str(error)
            return offers
        known = {(path, part) for path, part, _ in trusted}
        return tuple(_judged(one, trusted, known) for one in offers)

    def _places(self) -> list[str]:
        """Return the folders that may hold a `.jupyter_ctx`, from the root; the nearest last."""
        below = os.path.relpath(self._nearest, self.root)
        return [""] if below == os.curdir or below.startswith(os.pardir) else ["", below]

    def _levels(self) -> list[str]:
        """Return every folder from the root down to the nearest, names from the root."""
        parts = self._places()[-1].split(os.sep) if len(self._places()) > 1 else []
        levels = [os.sep.join(parts[:count]) for count in range(len(parts) + 1)]
        return levels[-MOST_FOLDERS:]

    def _settings_offers(self) -> Iterator[Offer]:
        for found, source in self._read_each(self._places(), SETTINGS_NAME):
            yield from settings_offers(found, source)

    def _mcp_offers(self) -> Iterator[Offer]:
        for found, source in self._read_each(self._places(), MCP_NAME):
            yield from mcp_offers(found, source)

    def _context_offers(self) -> Iterator[Offer]:
        read: set[str] = set()
        for level in self._levels():
            for name in CONTEXT_NAMES:
                for found, source in self._read_each([level], name):
                    if found.path in read or not (found.text.strip() or found.fault):
                        continue
                    read.add(found.path)
                    yield Offer(
                        "context",
                        source,
                        source,
                        found.path,
                        found.digest,
                        found.text,
                        found.fault,
                    )

    def _skill_offers(self) -> Iterator[Offer]:
        for place in self._places():
            folder = os.path.join(place, SKILLS_NAME)
            for name in list_names(self.root, folder, MOST_SKILLS):
                file = os.path.join(folder, name, "SKILL.md")
                for found, source in self._read_each([""], file):
                    yield _skill_offer(found, name, source)

    def _read_each(self, places: Sequence[str], name: str) -> Iterator[tuple[Found, str]]:
        """Yield the files `name` of those places that are there, each with its name for people."""
        for place in places:
            source = os.path.join(place, name)
            found = read_text(self.root, source)
            if found is not None:
                yield found, source.replace(os.sep, "/")

    # The home -----------------------------------------------------------------------------------

    def _home_extensions(self) -> Iterator[Extension]:
        if self._home is None:
            return
        path = self._home / "settings.json"
        found = read_own(str(path), MOST_OWN_BYTES)
        for offer in settings_offers(found, str(path)) if found is not None else ():
            if offer.kind in ("hooks", "mcpServers"):
                own = str(self._home)
                yield Extension(offer.kind, str(path), own, offer.value, is_own=True)

    def _project_extensions(self) -> Iterator[Extension]:
        for offer in self._judge([*self._settings_offers(), *self._mcp_offers()]):
            if offer.kind in ("hooks", "mcpServers") and not offer.fault:
                yield Extension(offer.kind, offer.source, self.root, offer.value, offer.is_trusted)

    def _home_skills(self) -> Iterator[SkillFile]:
        for offer in self.home_skill_offers():
            if not offer.fault:
                yield cast("SkillFile", offer.value)

    def home_skill_offers(self) -> list[Offer]:
        """Return the user's own skills, those with a fault too; they need no trust."""
        if self._home is None:
            return []
        folder = self._home / "skills"
        offers = []
        for name in list_names(os.path.realpath(folder), "", MOST_SKILLS):
            path = folder / name / "SKILL.md"
            found = read_own(str(path))
            if found is not None:
                offers.append(replace(_skill_offer(found, name, str(path)), is_trusted=True))
        return offers


def _skill_offer(found: Found, folder_name: str, source: str) -> Offer:
    offer = Offer("skill", folder_name, source, found.path, found.digest, found.text, found.fault)
    if found.fault:
        return offer
    try:
        skill = parse_skill(found.text, folder_name, source, found.path)
    except BadSkillError as error:
        return replace(offer, fault=str(error))
    return replace(offer, name=skill.name, value=skill)


def _judged(
    offer: Offer, trusted: frozenset[tuple[str, str, str]], known: set[tuple[str, str]]
) -> Offer:
    is_trusted = not offer.fault and _row(offer.mark) in trusted
    is_changed = not is_trusted and (offer.path, offer.kind) in known
    return replace(offer, is_trusted=is_trusted, is_changed=is_changed)


def _row(mark: Mark) -> tuple[str, str, str]:
    return mark.path, mark.part, mark.digest
