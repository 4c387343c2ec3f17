"""The shapes of well-known keys and tokens, for the setting `redact_known_keys`.

A shape is a literal and runs of characters behind it, each of bounded length, so that a text that
arrives in pieces is held back by no more than one key's length. The lengths leave room around those
that the issuers document or hand out; ids, hashes and base64 have none of these beginnings.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Run: TypeAlias = tuple[str, int, int]
"""A run of characters: the inside of a regex class, how many at least and at most."""

CONTEXT_CHARS = 3
"""So many characters before a text can decide whether a key begins with it."""

_ALNUM = "A-Za-z0-9"
_WORD = "A-Za-z0-9_-"
_BASE64_LINES = r"A-Za-z0-9+/=\r\n\\"
_PEM_BODY = r"A-Za-z0-9+/=\s\\:,.()@_-"
_LABEL = "A-Z0-9 "
_PEM_CHARS = 8_192
"""A private key of 8,192 bits has about 6,500."""

# Short literals also end ordinary words (`task-force`). What comes before a key then is no letter
# and no digit, or the end of an escape: \n, %3D, the ANSI colour ESC[32m.
_NOT_IN_WORD = rf"(?:(?<![{_ALNUM}])|(?<=\\[nrtbfv])|(?<=[0-9\[;]m)|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of key. `literal` begins it; `name` is what stands in its place.

    `whole` matches one at a place of a text. `begun` matches there what may grow into one, and only
    up to the end of the text. `is_closed`: its end is a literal, so what matches is all of it.
    """

    name: str
    literal: str
    whole: re.Pattern[str]
    begun: re.Pattern[str]
    is_closed: bool

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where keys of this shape stand in `text`: start and end."""
        at = text.find(self.literal)
        while at >= 0:
            if match := self.whole.match(text, at):
                yield at, match.end()
            at = text.find(self.literal, at + 1)

    def find_open(self, text: str, start: int) -> int:
        """Return where, from `start` on, a key may begin that `text` does not settle.

        Its literal is there, whole. The text's length if there is no such place.
        """
        at = text.find(self.literal, start)
        while at >= 0:
            if self._is_open(text, at):
                return at
            at = text.find(self.literal, at + 1)
        return len(text)

    def _is_open(self, text: str, at: int) -> bool:
        match = self.whole.match(text, at)
        if match is not None:
            return match.end() == len(text) and not self.is_closed
        return self.begun.match(text, at) is not None


def _make(name: str, literal: str, *rest: str | Run, after: str = "", free: bool = False) -> Shape:
    """Return a shape of `literal` and the `rest`: literals and runs.

    Behind it stands none of `after` (default: of its last run). `free`: it may begin within a word.
    """
    begins = "" if free else _NOT_IN_WORD
    last = rest[-1]
    is_closed = isinstance(last, str)
    ends = "" if isinstance(last, str) else f"(?![{after or last[0]}])"
    whole = "".join([begins, re.escape(literal), *map(_pattern, rest), ends])
    begun = ""
    for part in reversed(rest):
        begun = _begun(part, begun)
    return Shape(
        name,
        literal,
        re.compile(whole),
        re.compile(f"{begins}{re.escape(literal)}{begun}"),
        is_closed,
    )


def _pattern(part: str | Run) -> str:
    if isinstance(part, str):
        return re.escape(part)
    chars, least, most = part
    # The first literal that closes a private key ends it, not the last. A label gives back what
    # its literal needs; no other run does, so that a text of nothing but beginnings costs little.
    manner = "?" if chars == _PEM_BODY else "" if chars == _LABEL else "+"
    return f"[{chars}]{{{least},{most}}}{manner}"


def _begun(part: str | Run, following: str) -> str:
    """Return the pattern of a beginning of `part`, or of all of it and what is `following`."""
    if isinstance(part, str):
        some = ""
        for char in reversed(part):
            some = f"(?:{re.escape(char)}{some})?"
    else:
        chars, _, most = part
        some = f"[{chars}]{{0,{most}}}"
    return f"(?:{_pattern(part)}{following}|{some}\\Z)" if following else f"{some}\\Z"


def _shapes() -> Iterator[Shape]:
    yield _make("Anthropic key", "sk-ant-", (_WORD, 16, 400), free=True)
    for kind in ("proj", "svcacct", "admin", "None"):
        yield _make("OpenAI key", f"sk-{kind}-", (_WORD, 20, 400), free=True)
    yield _make("OpenRouter key", "sk-or-v1-", (_ALNUM, 32, 128), free=True)
    yield _make("OpenAI key", "sk-", (_ALNUM, 32, 128))
    for kind in "pousr":
        yield _make("GitHub token", f"gh{kind}_", (_ALNUM, 36, 255))
    yield _make("GitHub token", "github_pat_", (f"{_ALNUM}_", 36, 255), free=True)
    for kind in ("AKIA", "ASIA"):
        yield _make("AWS key id", kind, ("A-Z0-9", 16, 16), after=_ALNUM)
    for name in (
        "aws_secret_access_key",
        "AWS_SECRET_ACCESS_KEY",
        "SecretAccessKey",
        "secretAccessKey",
    ):
        between = (r"\s\"'\\:=", 1, 12)
        yield _make("AWS secret key", name, between, (f"{_ALNUM}/+", 40, 40), free=True)
    yield _make("Google key", "AIza", (_WORD, 35, 35))
    yield _make("Google secret", "GOCSPX-", (_WORD, 24, 64))
    yield _make("Google token", "ya29.", (f".{_WORD}", 20, 2_000))
    for kind in "abceoprs":
        yield _make("Slack token", f"xox{kind}-", (f"{_ALNUM}-", 10, 255))
    yield _make("Slack token", "xapp-", (f"{_ALNUM}-", 20, 255))
    yield _make("Slack webhook", "hooks.slack.com/services/", (f"{_ALNUM}/", 20, 100), free=True)
    yield _make("Hugging Face token", "hf_", (_ALNUM, 30, 100))
    parts = ((_WORD, 8, 4_096), ".eyJ", (_WORD, 8, 8_192), ".", (_WORD, 8, 2_048))
    yield _make("web token", "eyJ", *parts)
    head = ((_LABEL, 0, 40), "PRIVATE KEY", (_LABEL, 0, 6), "-----")
    begin, end = "-----BEGIN ", "-----END "
    yield _make("private key", begin, *head, (_PEM_BODY, 0, _PEM_CHARS), end, *head, free=True)
    # One whose end was cut off: a preview, a page of a file.
    yield _make("private key", begin, *head, (_BASE64_LINES, 40, _PEM_CHARS), free=True)


@functools.cache
def known_shapes() -> tuple[Shape, ...]:
    """Return every shape that is known, those of one issuer together; made at the first call."""
    return tuple(_shapes())


def find_open(text: str, start: int) -> int:
    """Return where, from `start` on, a key of any shape may begin that `text` does not settle.

    The text's length if there is no such place: what is before it will not change.
    """
    begun = _beginnings()
    longest = max(map(len, begun))
    near_end = range(max(start, len(text) - longest), len(text))
    cut = next((at for at in near_end if text[at:] in begun), len(text))
    for shape in known_shapes():
        if shape.literal in text:
            cut = min(cut, shape.find_open(text, start))
    return cut


@functools.cache
def _beginnings() -> frozenset[str]:
    """Return what a text may end with and a literal begin with."""
    literals = {shape.literal for shape in known_shapes()}
    return frozenset(one[:end] for one in literals for end in range(1, len(one)))
