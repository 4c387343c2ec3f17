"""Takes the program's own keys out of text, whole or streamed; on request known shapes of keys too.

Law: no character of an occurrence stays, also where occurrences overlap, and any chunking of a text
gives the same result as the whole text at once. Work is linear in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, cast

from .keyshapes import CONTEXT_CHARS, Shape, find_open, known_shapes

T = TypeVar("T")

MIN_SECRET_CHARS = 8
"""A shorter value is no key, and would be found in ordinary words."""

DEFAULT_NAME = "ANTHROPIC_API_KEY"
"""What a secret given without a name is called in the replacement."""

_OWN_NAMES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
)
_OWN_PREFIXES = ("ANTHROPIC_", "OPENAI_", "OLLAMA_", "JUPYTER_CTX_")
_KEY_SUFFIXES = ("_API_KEY", "_AUTH_TOKEN")

_COMMON = " etaoinsrhldcumfpg0w1y2b.v3k_5-46x789jqz"
"""Characters of texts, about the commonest first; others are rarer. Only speed depends on it."""

_CORE_CHARS = 5
"""Up to here the search of a string looks at its last character first, whatever else it holds."""


def secrets_from(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the program's own keys in `environ`, by name; too short ones are left out.

    They are the provider SDKs' keys and every `*_API_KEY` or `*_AUTH_TOKEN` of theirs or ours.
    """
    others = (
        name
        for name in sorted(environ)
        if name.startswith(_OWN_PREFIXES) and name.endswith(_KEY_SUFFIXES)
    )
    found: dict[str, str] = {}
    for name in (*_OWN_NAMES, *others):
        value = environ.get(name, "").strip()
        if len(value) >= MIN_SECRET_CHARS:
            found.setdefault(name, value)
    return found


def is_own_key(name: str) -> bool:
    """Say whether an environment variable of that name holds a key of the program."""
    return name in _OWN_NAMES or (name.startswith(_OWN_PREFIXES) and name.endswith(_KEY_SUFFIXES))


class Redactor:
    """Replaces every secret by `[redacted: NAME]`, as it is and as JSON escapes it.

    `secrets` maps names to values; a plain iterable of values is named `DEFAULT_NAME`. Values under
    `MIN_SECRET_CHARS` are ignored. With `known_keys`, what has a shape of `core.keyshapes` goes
    too, whoever it belongs to. Without both it changes nothing.
    """

    def __init__(
        self, secrets: Mapping[str, str] | Iterable[str] = (), *, known_keys: bool = False
    ) -> None:
        self._shapes: tuple[Shape, ...] = known_shapes() if known_keys else ()
        pairs = (
            secrets.items()
            if isinstance(secrets, Mapping)
            else [(DEFAULT_NAME, value) for value in secrets]
        )
        forms: dict[str, str] = {}
        for name, value in pairs:
            for form in _forms(value.strip()):
                forms.setdefault(form, f"[redacted: {name}]")
        # The longest first: of two keys that begin at the same place the longer one gives the name.
        self._forms = sorted(forms.items(), key=lambda item: (-len(item[0]), item[0]))
        self._probes = [_probes(form) for form, _ in self._forms]

    def text(self, text: str) -> str:
        """Return `text` without the secrets."""
        return _replace(text, self._spans(text, 0)) if self._occurs_in(text) else text

    def json(self, value: T) -> T:
        """Return a JSON value with every string in it redacted, keys of objects too.

        Works at any depth. What holds no secret anywhere is returned as it is; else objects become
        dicts and inner arrays lists; a tuple stays a tuple at the top.
        """
        if isinstance(value, str):
            return cast("T", self.text(value))
        if not (self._forms or self._shapes) or not self._is_in(value):
            return value
        if isinstance(value, tuple):
            return cast("T", tuple(self.json(item) for item in value))
        return cast("T", self._copy(value))

    def stream(self) -> Stream:
        """Return a redactor for one text that arrives in pieces."""
        return Stream(self)

    def _is_in(self, value: object) -> bool:
        return any(self._occurs_in(text) for text in _strings(value))

    def _occurs_in(self, text: str) -> bool:
        """Return whether a secret is in `text`: most texts lack one of its rarer characters."""
        for probes in self._probes:
            for probe in probes:
                if probe not in text:
                    break
            else:
                return True
        return any(shape.literal in text for shape in self._shapes)

    def _copy(self, value: object) -> object:
        """Copy `value` breadth first: nesting costs no stack."""
        root: list[object] = [value]
        queue: list[list[object] | dict[str, object]] = [root]
        while queue:
            holder = queue.pop()
            if isinstance(holder, dict):
                for key, inner in holder.items():
                    holder[key] = self._shallow(inner)
                values = list(holder.values())
            else:
                holder[:] = values = [self._shallow(inner) for inner in holder]
            queue.extend(inner for inner in values if isinstance(inner, (list, dict)))
        return root[0]

    def _shallow(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): inner for key, inner in value.items()}
        return list(value) if isinstance(value, (list, tuple)) else value

    def _spans(self, text: str, covered: int, before: str = "") -> list[tuple[int, int, str]]:
        """Return what to replace: (start, end, replacement), in order, none overlapping.

        The first `covered` characters belong to a secret whose replacement is out already. `before`
        is what stands before the text.
        """
        found = [
            (at, -len(form), replacement)
            for form, replacement in self._forms
            for at in _occurrences(form, text)
        ]
        shift, behind = len(before), before + text if self._shapes else ""
        found += [
            (at - shift, at - end, f"[redacted: {shape.name}]")
            for shape in self._shapes
            if shape.literal in behind
            for at, end in shape.find(behind)
            if at >= shift
        ]
        spans: list[tuple[int, int, str]] = [(0, covered, "")] if covered else []
        for start, minus, replacement in sorted(found):
            end = start - minus
            if spans and start < spans[-1][1]:
                first, last, name = spans[-1]
                spans[-1] = (first, max(last, end), name)
            else:
                spans.append((start, end, replacement))
        return spans

    def _open_from(self, text: str, before: str = "") -> int:
        """Return where a suffix of `text` begins that may grow into a secret, else its length."""
        cut = len(text)
        if self._shapes:
            cut = find_open(before + text, len(before)) - len(before)
        for form, _ in self._forms:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while 0 <= at < cut:
                if form.startswith(text[at:]):
                    cut = at
                    break
                at = text.find(form[0], at + 1)
        return cut


class Stream:
    """Redacts one text that arrives in pieces; holds back what may be the beginning of a secret."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._before = ""  # what stood before `_held`, as far as it can matter
        self._covered = 0  # so many characters of `_held` belong to a secret replaced already

    def feed(self, piece: str) -> str:
        """Add a piece and return what is certain by now; may be empty."""
        text = self._held + piece
        return self._release(text, self._redactor._open_from(text, self._before))

    def flush(self) -> str:
        """Return what was held back: the text is complete. A new text may follow."""
        rest = self._release(self._held, len(self._held))
        self._before = ""
        return rest

    def _release(self, text: str, cut: int) -> str:
        redactor, covered, before = self._redactor, self._covered, self._before
        self._before = (before + text[:cut])[-CONTEXT_CHARS:]
        if not covered and not redactor._occurs_in(text):
            self._held = text[cut:]
            return text[:cut]
        spans = redactor._spans(text, covered, before)
        # What begins at the cut or after it is not settled: a longer secret may begin there.
        spans = [span for at, span in enumerate(spans) if span[0] < cut or (covered and at == 0)]
        self._covered = max(0, spans[-1][1] - cut) if spans else 0
        self._held = text[cut:]
        return _replace(text, spans, keep=cut)


def _forms(value: str) -> Iterator[str]:
    """Yield the spellings of a secret: itself, and inside a JSON string."""
    if len(value) < MIN_SECRET_CHARS:
        return
    yield value
    for ascii_only in (False, True):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")


def _probes(form: str) -> tuple[str, ...]:
    """Return what must be in a text that holds `form`, the quickest to look for first.

    Its rarest characters one by one, a piece that ends rarely, and `form` itself.
    """
    rank = {char: at for at, char in enumerate(_COMMON)}
    rarity = [rank.get(char, len(_COMMON)) for char in form]
    rarest = sorted(set(form), key=lambda char: (-rank.get(char, len(_COMMON)), char))
    ends = range(min(_CORE_CHARS, len(form)), len(form) + 1)
    end = max(ends, key=lambda end: (rarity[end - 1], sum(rarity[end - _CORE_CHARS : end])))
    return (*rarest[:8], form[end - _CORE_CHARS : end], form)


def _occurrences(form: str, text: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + 1)


def _replace(text: str, spans: Iterable[tuple[int, int, str]], keep: int | None = None) -> str:
    """Return `text` up to `keep` (all of it by default) with the spans replaced."""
    end_of_text = len(text) if keep is None else keep
    parts: list[str] = []
    done = 0
    for start, end, replacement in spans:
        parts += (text[done:start], replacement)
        done = end
    parts.append(text[done:end_of_text])
    return "".join(parts)


def _strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, keys too, at any depth."""
    queue: list[object] = [value]
    while queue:
        inner = queue.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, Mapping):
            queue.extend(inner.keys())
            queue.extend(inner.values())
        elif isinstance(inner, (list, tuple)):
            queue.extend(inner)
