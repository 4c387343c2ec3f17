"""MIME bundles and errors as nbformat has them: JSON values, valid text, bounded."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .spool import HEAD_CHARS, utf8_bytes, valid_text

if TYPE_CHECKING:
    from ..core.blocks import Json

NOTE_CHARS = 2_000
"""So much of its plain text stays with an output that is too large to keep."""


def clean_bundle(data: Mapping[str, object]) -> dict[str, object]:
    """Return a MIME bundle of JSON values and valid text, independent of the objects given.

    Bytes become base64; a value that JSON cannot hold becomes null (NaN) or its type's name.
    """
    return {valid_text(str(mime)): _clean(value) for mime, value in data.items()}


def cut_text(text: str) -> str:
    """Return `text`, the middle left out if it is too long to hold."""
    if len(text) <= HEAD_CHARS:
        return text
    half = HEAD_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"


def text_of(error: BaseException) -> str:
    """Return `str(error)`, or a word about why there is none."""
    try:
        return str(error)
    except Exception as failure:
        return f"<its text cannot be made: {type(failure).__name__}>"


def _clean(value: object) -> object:
    if isinstance(value, str):
        return valid_text(str.__str__(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode("ascii")
    if value is None or type(value) in (bool, int):
        return value
    try:
        text = json.dumps(value, ensure_ascii=False, default=_name_type)
    except (ValueError, TypeError, RecursionError):  # a cycle, a key that is no key, too deep
        return _name_type(value)
    found: object = json.loads(valid_text(text), parse_constant=lambda _: None)
    return found


def _name_type(value: object) -> str:
    return f"<{type(value).__name__}>"


def value_bytes(value: object) -> int:
    """Return about how many bytes a JSON value takes."""
    if isinstance(value, str):
        return utf8_bytes(value)
    return 16 if not isinstance(value, (dict, list)) else 64 + len(json.dumps(value))


def placeholder(data: Json, limit: int) -> dict[str, object]:
    """Return a bundle that says what `data` was."""
    sizes = ", ".join(f"{mime} ({value_bytes(value):,} bytes)" for mime, value in data.items())
    note = f"[not kept, over {limit:,} bytes of outputs: {sizes}]"
    text = data.get("text/plain")
    if isinstance(text, str) and text:
        note = f"{text[:NOTE_CHARS]}\n{note}"
    return {"text/plain": note}


def plain_text(output: Mapping[str, object]) -> str:
    """Return the plain text of a display, a result or an error."""
    if output["output_type"] == "error":
        lines = output["traceback"]
        text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
        return text or f"{output['ename']}: {output['evalue']}"
    data = output["data"]
    if not isinstance(data, Mapping):
        return ""
    text = data.get("text/plain", "")
    return text if isinstance(text, str) and text else f"[{', '.join(data)}]"


def note(text: str) -> Json:
    """Return a line of ours as an output: a display of plain text."""
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}
