"""Completes commands and mentions behind `%agent`, and in the cells of `%%agent`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from .place import find_folder

if TYPE_CHECKING:
    from ..tools.project import Project

Complete = Callable[[str], Iterable[str]]

MOST_NAMES = 5_000
"""So many names, the last ones, and so many files of a folder are looked through."""

MOST_SHOWN = 500
"""So many completions are offered."""

_CELL = re.compile(r"%%agent(?![\w.])[ \t]*")
_LINE = re.compile(r"\s*%%?agent[ \t]+")


def make_matcher(
    complete_command: Complete, complete_mention: Complete
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return a matcher for IPython's completer.

    `complete_command` gets the text from the slash on and returns what its last word may become;
    `complete_mention` what stands behind the `@`, and returns whole mentions. Text that is no
    prompt, and words of a prompt that are neither, are left alone.
    """

    @context_matcher(identifier="jupyter_ctx")  # type: ignore[untyped-decorator]  # IPython's
    def match(context: CompletionContext) -> SimpleMatcherResult:
        prompt = find_prompt(context.full_text, context.cursor_line, context.cursor_position)
        if prompt is None:
            return SimpleMatcherResult(completions=[], suppress=False)
        begun = prompt.lstrip()
        if begun.startswith("/"):
            if "\n" in begun:
                return SimpleMatcherResult(completions=[], suppress=True)
            word = re.split(r"\s+", begun)[-1]
            return _result(word, complete_command(begun), "command")
        from .mentions import find_begun

        if (mention := find_begun(prompt)) is None:
            return SimpleMatcherResult(completions=[], suppress=False)
        return _result(f"@{mention}", complete_mention(mention), "mention")

    result: Callable[[CompletionContext], SimpleMatcherResult] = match
    return result


def find_prompt(full_text: str, line: int, column: int) -> str | None:
    """Return the prompt up to the cursor, None if the cursor stands in none.

    `line` counts from 0 in `full_text`; `column` in that line.
    """
    lines = full_text.split("\n")
    if line >= len(lines):
        return None
    before = [*lines[:line], lines[line][:column]]
    if line and (begun := _CELL.match(lines[0])):
        first = lines[0][begun.end() :].strip()
        return "\n".join([first, *before[1:]] if first else before[1:])
    if begun := _LINE.match(before[-1]):
        return before[-1][begun.end() :]
    return None


def _result(word: str, found: Iterable[str], kind: str) -> SimpleMatcherResult:
    return SimpleMatcherResult(
        completions=[SimpleCompletion(text, type=kind) for text in islice(found, MOST_SHOWN)],
        matched_fragment=word,
        suppress=True,
    )


# Mentions ---------------------------------------------------------------------------------------


def complete_mention(
    begun: str,
    names: Mapping[str, object],
    hidden: Mapping[str, object],
    cells: Sequence[tuple[str, int]],
    project: Project | None,
) -> list[str]:
    """Return what `@` and the begun word may become: mentions that are there, names first.

    `names` is the namespace and `hidden` IPython's part of it; nothing is asked of the values.
    `cells` are id and count of those that ran, oldest first.
    """
    if begun.startswith('"'):
        return _files(begun[1:], project)
    kind, colon, rest = begun.partition(":")
    if colon:
        if kind not in ("cell", "out"):
            return []
        newest = cells[::-1]
        found = [str(count) for _, count in newest if str(count).startswith(rest)]
        if kind == "cell":
            found += [id for id, _ in newest if id.startswith(rest)]
        return [f"@{kind}:{one}" for one in dict.fromkeys(found)]
    if "/" in begun or begun.startswith((".", "~")):
        return _files(begun, project)
    from .inventory import user_names

    last = dict(list(names.items())[-MOST_NAMES:])
    words = sorted(name for name in user_names(last, hidden) if name.startswith(begun))
    words += [word for word in ("error", "cell:", "out:") if word.startswith(begun)]
    return [*(f"@{word}" for word in words), *_files(begun, project)]


def _files(begun: str, project: Project | None) -> list[str]:
    """Return the files and folders of the project that a begun path may mean.

    A path counts from the project's folder, else from the working folder.
    """
    if project is None:
        return []
    folder, slash, start = begun.rpartition("/")
    found = _entries(project, folder)
    if not os.path.isabs(os.path.expanduser(folder)) and (here := find_folder()):
        found = {**_entries(project, os.path.join(here, folder)), **found}
    hides = not start.startswith(".")
    shown = sorted(
        (name, is_folder)
        for name, is_folder in found.items()
        if name.startswith(start) and not (hides and name.startswith("."))
    )
    words = (_mention_of(f"{folder}{slash}{name}", is_folder) for name, is_folder in shown)
    return [word for word in words if word]


def _entries(project: Project, folder: str) -> dict[str, bool]:
    """Return the names in a folder of the project, and whether each is a folder; none elsewhere."""
    from ..errors import ToolError

    is_root = folder in ("", ".") or folder.rstrip(os.sep) == project.root
    try:
        path = project.root if is_root else project.find(folder).path
        with os.scandir(path) as entries:
            return {one.name: one.is_dir() for one in islice(entries, MOST_NAMES)}
    except (ToolError, OSError):
        return {}


def _mention_of(path: str, is_folder: bool) -> str:
    """Return the mention of a path, in quotes if it needs them; "" if no mention can name it."""
    from .mentions import Mention, mention_of, parse

    if is_folder:
        return f"@{path}/" if parse(f"@{path}/x").mentions == (Mention(f"{path}/x"),) else ""
    return mention_of(path)
