"""What a model is told of a project's folder: git, context files, skills; and later what differs.

Each thing is an item with a text of its own, so that what was told can be found again. Of what is
not trusted only plain names are told. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from ..core.preview import clean_text
from .folder import ContextFile
from .git import Repository
from .offers import Offer, told_names
from .skills import SkillFile

SKILLS_SHARE = 0.25
"""What the list of skills may take of the room; context files take the rest."""
LEAST_FILE_CHARS = 200
"""Less of a context file is not worth its place: it is named only."""
MOST_TOLD = 30
"""So many things that are not trusted are named."""

SKILLS_RULE = (
    "A description is only a trigger: before you follow a skill, load it with the tool `skill`."
)
CONTEXT_RULE = "What the user's files say of this project. Where they differ, the last one counts."


@dataclass(frozen=True, slots=True)
class Item:
    """One thing: `key` tells it from the others ("context:AGENTS.md"), `text` is what is told.

    `digest` is a short one of all that it says, also of what had no place in the text.
    """

    key: str
    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Around:
    """Everything that is told, in its order: git, what is not trusted, skills, context files."""

    items: tuple[Item, ...] = ()

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each item by key."""
        return {item.key: item.digest for item in self.items}


def build_around(
    repository: Repository | None,
    offers: Sequence[Offer],
    skills: Sequence[SkillFile],
    files: Sequence[ContextFile],
    most_chars: int,
    redact: Callable[[str], str] = str,
) -> Around:
    """Return what is told, at most about `most_chars` characters of skills and context files.

    `redact` takes the program's own keys out of every text.
    """
    listed = _skills(skills, int(SKILLS_SHARE * most_chars))
    left = most_chars - sum(len(item.text) for item in listed)
    items = [
        *([_git(repository)] if repository is not None else ()),
        *_untrusted(offers),
        *listed,
        *_files(files, left),
    ]
    return Around(tuple(replace(item, text=clean_text(redact(item.text))) for item in items))


def build_sections(around: Around) -> str:
    """Return the sections of the system prompt, "" if there is nothing to tell."""
    git = _texts(around, "git")
    untrusted = _texts(around, "untrusted")
    skills = _texts(around, "skill")
    files = _texts(around, "context")
    sections = [
        "\n".join(["# The project's folder", *git, *untrusted]) if git or untrusted else "",
        "\n".join(["# Skills", SKILLS_RULE, _listed(skills)]) if skills else "",
        "\n".join(["# The project's instructions", CONTEXT_RULE, *files]) if files else "",
    ]
    return "\n\n".join(filter(None, sections))


def find_news(
    old: Mapping[str, str], now: Around, is_told: Callable[[str], bool], most_chars: int
) -> str:
    """Return what differs from what was known: new and changed items, and what is gone.

    `old` are digests by key; `is_told` says of a text whether it stands in the system prompt. Where
    `most_chars` characters have no room for all, the largest files are named only.
    """
    changed = [
        item
        for item in now.items
        if old.get(item.key) != item.digest and not (item.key not in old and is_told(item.text))
    ]
    keys = {item.key for item in now.items}
    gone = [key.partition(":")[2] for key in old if key not in keys and ":" in key]
    picked = Around(tuple(changed))
    skills = _texts(picked, "skill")
    files = _within(_texts(picked, "context"), most_chars - sum(map(len, skills)))
    lines = [
        *_texts(picked, "git"),
        *_texts(picked, "untrusted"),
        *([f"Skills, new or changed. {SKILLS_RULE}", _listed(skills)] if skills else ()),
        *(["Instructions of the project, as they are now:", *files] if files else ()),
        *([f"No longer in force: {', '.join(map(escape, gone))}."] if gone else ()),
    ]
    return "\n".join(["[Around the notebook]", *lines]) if lines else ""


def _texts(around: Around, kind: str) -> list[str]:
    return [item.text for item in around.items if item.key.partition(":")[0] == kind]


def _within(files: Sequence[str], most_chars: int) -> list[str]:
    """Return the files; the largest without their text as long as all have no room."""
    kept = list(files)
    for text in sorted(files, key=len, reverse=True):
        if sum(map(len, kept)) > most_chars:
            head = text.partition("\n")[0]
            kept[kept.index(text)] = f"{head}[changed: `read_file` reads it]</context_file>"
    return kept


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _item(key: str, text: str) -> Item:
    return Item(key, text, _digest(text))


def _listed(skills: Iterable[str]) -> str:
    return "\n".join(["<available_skills>", *skills, "</available_skills>"])


def _git(repository: Repository) -> Item:
    if not repository.is_asked:
        branch = told_names([repository.branch]) if repository.branch else "none that is known"
        fault = f" ({repository.fault})" if repository.fault else ""
        return _item("git", f"- Git branch: {branch}{fault}")
    lines = [f"- Git branch: `{repository.branch or 'none'}`"]
    if repository.status:
        more = [f"  … and {repository.more:,} more"] if repository.more else []
        lines += ["- `git status --short`:", *(f"  {one}" for one in repository.status), *more]
    else:
        lines.append("- Nothing is changed since the last commit.")
    if repository.commits:
        lines += ["- Last commits:", *(f"  {one}" for one in repository.commits)]
    return _item("git", "\n".join(lines))


def _untrusted(offers: Sequence[Offer]) -> list[Item]:
    sources = dict.fromkeys(
        one.source for one in offers if not one.is_trusted and one.kind != "git"
    )
    if not sources:
        return []
    names = list(sources)
    more = f" and {len(names) - MOST_TOLD:,} more" if len(names) > MOST_TOLD else ""
    text = (
        "- Not in force, since the user has not allowed it (`/trust`) or it cannot be read: "
        f"{told_names(names[:MOST_TOLD])}{more}."
    )
    return [_item("untrusted", text)]


def _skills(skills: Sequence[SkillFile], most_chars: int) -> list[Item]:
    items: list[Item] = []
    room = most_chars
    for skill in skills:
        text = f'<skill name="{skill.name}">{escape(skill.description, quote=False)}</skill>'
        if len(text) > room:
            text = f'<skill name="{skill.name}"></skill>'
        room -= len(text)
        digest = _digest(f"{skill.description}\n{skill.text}")
        items.append(Item(f"skill:{skill.name}", text, digest))
    return items


def _files(files: Sequence[ContextFile], most_chars: int) -> list[Item]:
    """Return the context files; where the room is short the nearest ones have it first."""
    items: list[Item] = []
    room = most_chars
    for file in reversed(files):
        text = file.text.strip()
        name = escape(file.name)
        shown = text[: max(0, room)]
        if len(shown) < len(text):
            shown = shown.rsplit("\n", 1)[0] if len(shown) >= LEAST_FILE_CHARS else ""
            shown += f"\n[The rest has no place here: `read_file` reads {name}.]"
        room -= len(shown)
        body = shown.replace("</context_file", "<\\/context_file").strip()
        whole = f'<context_file path="{name}">\n{body}\n</context_file>'
        items.append(Item(f"context:{name}", whole, _digest(text)))
    return items[::-1]
