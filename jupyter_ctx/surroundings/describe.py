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
GIT_SHARE, NAMES_SHARE = 0.25, 0.10
"""What git's words and the names of untrusted things may take beside it."""
GIT_CHARS = 4_000
"""… and git's words at most so many characters."""
FILE_CHARS = 40_000
"""So much of a context file is told, in characters."""
LEAST_FILE_CHARS = 200
"""Less of a context file is not worth its place: it is named only."""
MOST_TOLD = 30
"""So many things that are not trusted are named."""

CUT_LINE = "[There is no room for more here.]"

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
        *([_git(repository, int(GIT_SHARE * most_chars))] if repository is not None else ()),
        *_untrusted(offers, int(NAMES_SHARE * most_chars)),
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
        *([f"Skills, new or changed. {SKILLS_RULE}", _listed(skills)] if skills else ()),
        *(["Instructions of the project, as they are now:", *files] if files else ()),
        *([f"No longer in force: {', '.join(map(escape, gone))}."] if gone else ()),
        *_texts(picked, "untrusted"),
        *_texts(picked, "git"),
    ]
    text = "\n".join(["[Around the notebook]", *lines])
    if not lines or len(text) <= most_chars:
        return text if lines else ""
    return "\n".join([*_that_fit(text.split("\n"), most_chars - len(CUT_LINE)), CUT_LINE])


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


def _git(repository: Repository, most_chars: int) -> Item:
    if not repository.is_asked:
        branch = told_names([repository.branch]) if repository.branch else "none that is known"
        fault = f" ({repository.fault})" if repository.fault else ""
        return _item("git", f"- Git branch: {branch}{fault}")
    lines = [f"- Git branch: `{repository.branch or 'none'}`"]
    if repository.commits:
        lines += ["- Last commits:", *(f"  {one}" for one in repository.commits)]
    if not repository.status:
        lines.append("- Nothing is changed since the last commit.")
        return _item("git", "\n".join(lines))
    lines.append("- `git status --short`:")
    room = min(GIT_CHARS, most_chars) - sum(len(one) + 1 for one in lines)
    shown = _that_fit([f"  {one}" for one in repository.status], room)
    more = repository.more + len(repository.status) - len(shown)
    lines += [*shown, *([f"  … and {more:,} more"] if more else [])]
    digest = _digest("\n".join([*lines, *repository.status]))
    return Item("git", "\n".join(lines), digest)


def _that_fit(lines: Sequence[str], most_chars: int) -> list[str]:
    """Return the first lines that have room."""
    kept: list[str] = []
    for line in lines:
        most_chars -= len(line) + 1
        if most_chars < 0:
            break
        kept.append(line)
    return kept


def _untrusted(offers: Sequence[Offer], most_chars: int) -> list[Item]:
    sources = dict.fromkeys(
        one.source for one in offers if not one.is_trusted and one.kind != "git"
    )
    if not sources:
        return []
    names = list(sources)
    shown = _that_fit(names[:MOST_TOLD], most_chars)
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    text = (
        "- Not in force, since the user has not allowed it (`/trust`) or it cannot be read: "
        f"{told_names(shown)}{more}."
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
        shown = text[: max(0, min(room, FILE_CHARS))]
        if len(shown) < len(text):
            shown = shown.rsplit("\n", 1)[0] if len(shown) >= LEAST_FILE_CHARS else ""
            shown += f"\n[The rest has no place here: `read_file` reads {name}.]"
        room -= len(shown)
        body = shown.replace("</context_file", "<\\/context_file").strip()
        whole = f'<context_file path="{name}">\n{body}\n</context_file>'
        items.append(Item(f"context:{name}", whole, _digest(text)))
    return items[::-1]
