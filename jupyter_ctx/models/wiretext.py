"""Text and JSON as they come over the wire, made such that they can go back over it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ..core.blocks import Json

MOST_TOKENS: Final = 100_000_000
"""A count over this is none: some servers write the largest number there is for "no limit"."""


def as_object(value: object) -> Json:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_text(value: object) -> str | None:
    """Return `value` if it is a text."""
    return value if isinstance(value, str) else None


def as_count(value: object) -> int | None:
    """Return `value` if it is a number of tokens, 0 too; an impossible one says nothing."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MOST_TOKENS else None


def some_tokens(value: object) -> int | None:
    """Return `value` if it is a number of tokens above 0, as a window and a limit are."""
    return as_count(value) or None


def mend(value: object) -> Any:
    """Return `value`, strings within it mended: halves of surrogate pairs become U+FFFD.

    JSON can carry such halves, UTF-8 cannot.
    """
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, Mapping):
        return {mend(key): mend(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mend(inner) for inner in value]
    return value


def mend_text(text: str) -> str:
    """Return `text` as valid Unicode: two halves are joined, a lone one becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_event(data: str) -> Json:
    """Return one event's data as an object, or as the one item of a list, as Google's errors are.

    Raises ValueError if it is none.
    """
    try:
        event = json.loads(data, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if isinstance(event, list) and len(event) == 1:
        event = event[0]
    if not isinstance(event, dict):
        raise ValueError("no JSON object")
    return event


def parse_input(text: str) -> dict[str, object]:
    """Return a tool call's input, keys in the model's order.

    Raises ValueError if it is no JSON object or holds a number that JSON cannot write back.
    """
    try:
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return found
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def split_half(text: str) -> tuple[str, str]:
    """Return `text` mended, and a first half of a surrogate pair at its end, "" if none."""
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return mend_text(text[: len(text) - len(half)]), half
