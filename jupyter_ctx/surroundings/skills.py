"""Skills: the standard `SKILL.md`, whose front matter says what it is called and when to load it.

Of YAML this reads what such front matter has: `key: value`, quoted values, and block texts (`>` and
`|`). Nested values (`metadata:`, lists) are passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

NAME_CHARS = 64
DESCRIPTION_CHARS = 1_024
"""The standard's limits."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*)|)$")
_BLOCK = re.compile(r"[>|][+-]?[0-9]?[+-]?(?:[ \t]+#.*)?$")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A skill as its file says: its name, when to load it, and its text without front matter.

    `source` names the file for people; `path` is its real path, whose folder may hold more files.
    """

    name: str
    description: str
    text: str
    source: str
    path: str


class BadSkillError(Exception):
    """A file that is no skill by the standard; the text says why."""


def parse_skill(text: str, folder_name: str, source: str, path: str) -> SkillFile:
    """Return the skill of a SKILL.md's text. Raises BadSkillError.

    Without a name in the front matter it is called as its folder.
    """
    fields, body = split_front_matter(text)
    name = fields.get("name", folder_name)
    if len(name) > NAME_CHARS or not _NAME.fullmatch(name):
        raise BadSkillError("its name must be 1 to 64 of a-z, 0-9 and single hyphens")
    description = " ".join(fields.get("description", "").split())
    if not description:
        raise BadSkillError("its front matter has no description")
    if len(description) > DESCRIPTION_CHARS:
        raise BadSkillError(f"its description is longer than {DESCRIPTION_CHARS:,} characters")
    if not body.strip():
        raise BadSkillError("it has no text below its front matter")
    return SkillFile(name, description, body.strip(), source, path)


def split_front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """Return the texts of the front matter by key, and what is below it.

    Raises BadSkillError if there is no front matter, or it does not end.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise BadSkillError("it does not begin with front matter (a line `---`)")
    for at, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            return dict(_fields(lines[1:at])), "\n".join(lines[at + 1 :])
    raise BadSkillError("its front matter does not end (with a line `---`)")


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and text of each value that is a text."""
    at = 0
    while at < len(lines):
        match = _KEY.match(lines[at])
        at += 1
        if match is None:
            continue
        key, value = match[1], (match[2] or "").strip()
        below = at
        while below < len(lines) and (not lines[below].strip() or lines[below][0] in " \t"):
            below += 1
        block, at = lines[at:below], below
        if _BLOCK.fullmatch(value):
            yield key, _block(block, is_folded=value[0] == ">")
        elif value:
            yield key, _plain(" ".join([value, *(line.strip() for line in block)]).strip())


def _block(lines: Sequence[str], *, is_folded: bool) -> str:
    indent = min((len(one) - len(one.lstrip()) for one in lines if one.strip()), default=0)
    cut = [line[indent:].rstrip() for line in lines]
    if not is_folded:
        return "\n".join(cut).strip("\n")
    paragraphs = "\n".join(cut).strip("\n").split("\n\n")
    return "\n".join(" ".join(one.split("\n")) for one in paragraphs)


def _plain(value: str) -> str:
    """Return a value without its quotes, or without the comment behind it."""
    if value[:1] == "'" and value[-1:] == "'" and len(value) > 1:
        return value[1:-1].replace("''", "'")
    if value[:1] == '"' and value[-1:] == '"' and len(value) > 1:
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    return re.split(r"[ \t]#", value, maxsplit=1)[0].rstrip()
