"""The `<memory>` part of a summary's reply: facts that the user stated, for later sessions.

Law: whatever the part looks like, the rest of the reply is the summary. A part that is never closed
ends where the summary goes on; if nothing else is there, the reply is all summary and no fact.
"""

from __future__ import annotations

import re

from .preview import clean_text

MOST_FACTS, MOST_FACT_CHARS = 10, 300
"""What one compaction may bring; a longer sentence is no fact, so it is left out."""

MEMORY_TOKENS, MEMORY_SHARE = 500, 0.02
"""What is kept free for the part in the answer: tokens, and at most this share of the window."""

_OPEN = re.compile(
    r"(?:^|(?<=<summary>)|(?<=</summary>)|(?<=</memory>))[ \t]*<memory>",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSE = re.compile(r"</memory>", re.IGNORECASE)
_STRAY = re.compile(r"^(?:[ \t]*</memory>)+", re.IGNORECASE | re.MULTILINE)
_TAG = re.compile(r"</?memory>", re.IGNORECASE)
# Where the summary goes on behind a part that was not closed.
_RESUMES = re.compile(r"^[ \t]*(?:#|</?summary>)|(?=</summary>)", re.IGNORECASE | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_NONE = re.compile(r"\W*(?:none|n/a|nothing|no facts?)\W*", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def split_memory(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a reply without its `<memory>` parts, and the facts in them, each once.

    A tag counts at the beginning of a line only, or right behind another tag: a summary may speak
    of the word. At most `MOST_FACTS` facts.
    """
    rest, parts = _cut_parts(text)
    rest = _STRAY.sub("", rest)
    if parts and not rest.strip():
        return _TAG.sub("", text).strip(), ()
    facts = [fact for part in parts for line in part.splitlines() if (fact := make_fact(line))]
    return rest.strip(), tuple(dict.fromkeys(facts))[:MOST_FACTS]


def _cut_parts(text: str) -> tuple[str, list[str]]:
    kept: list[str] = []
    parts: list[str] = []
    at = 0
    while opened := _OPEN.search(text, at):
        kept.append(text[at : opened.start()])
        begin = opened.end()
        another = _OPEN.search(text, begin)
        most = another.start() if another else len(text)
        closed = _CLOSE.search(text, begin, most)
        if closed:
            end, at = closed.start(), closed.end()
        else:
            resumed = _RESUMES.search(text, begin, most)
            end = at = resumed.start() if resumed else most
        parts.append(text[begin:end])
    kept.append(text[at:])
    return "".join(kept), parts


def make_fact(line: str) -> str:
    """Return the fact on a line as one sentence is kept, "" if there is none to keep.

    A bullet goes; blank text, "none" and more than `MOST_FACT_CHARS` characters are no fact.
    """
    words = " ".join(_CONTROL.sub(" ", clean_text(_BULLET.sub("", line))).split())
    if len(words) > MOST_FACT_CHARS or _NONE.fullmatch(words) or not re.search(r"\w", words):
        return ""
    return words
