"""Notebook files for `jupyter ctx run`: read in any version of the format, written as a new file.

The cells are those of nbformat 4.5; every one has an id, made from its source where it had none, so
that the same notebook gives the same ids each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..errors import CtxError

SUFFIX = ".agent.ipynb"
TRANSCRIPT_SUFFIX = ".transcript.jsonl"
MINOR = 5
"""Cells have ids from nbformat 4.5 on."""


class DocumentError(CtxError):
    """A notebook file cannot be used. The text says what to do."""


def default_output(notebook: Path) -> Path:
    """Return where the new notebook goes if nobody says: `NAME.agent.ipynb` beside it."""
    return notebook.with_name(f"{notebook.name.removesuffix('.ipynb')}{SUFFIX}")


def transcript_path(output: Path) -> Path:
    """Return where the transcript goes: `OUT.transcript.jsonl` beside `OUT.ipynb`."""
    return output.with_name(f"{output.name.removesuffix('.ipynb')}{TRANSCRIPT_SUFFIX}")


def load_document(path: Path) -> Any:
    """Return the notebook at `path` as nbformat 4.5. Raises DocumentError."""
    import nbformat

    if not path.exists():
        raise DocumentError(f"There is no file {path}.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise DocumentError(f"{path} is no notebook: it is no valid UTF-8.") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # missing ids are given, doubled ones replaced
            has_ids = _has_ids(text, path)
            found = nbformat.reads(text, as_version=4, capture_validation_error={})
            document = _complete(found, has_ids)
            nbformat.validate(document)
    except DocumentError:
        raise
    except nbformat.ValidationError as error:
        raise DocumentError(f"{path} is no valid notebook: {_first_line(error)}") from None
    except Exception as error:  # nbformat stumbles over anything in an invalid notebook
        raise DocumentError(f"{path} is no valid notebook: {_first_line(error)}") from None
    return document


def save_document(document: Any, path: Path) -> None:
    """Write a notebook in one step, valid; what UTF-8 cannot say becomes U+FFFD.

    Raises DocumentError.
    """
    import nbformat

    made = nbformat.from_dict(_clean(document))
    try:
        nbformat.validate(made)
        save_text(nbformat.writes(made) + "\n", path)
    except nbformat.ValidationError as error:
        raise DocumentError(f"{path} was not written: {_first_line(error)}") from None
    except OSError as error:
        raise DocumentError(f"{path} was not written: {error.strerror or error}.") from None


def save_text(text: str, path: Path) -> None:
    """Put a file in its place in one step, with the mode of any new file. Raises OSError."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(fd, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def name_cell(source: str, used: Collection[str]) -> str:
    """Return an id for a cell of that source which is none of `used`; the same each time."""
    for at in range(len(used) + 1):
        name = hashlib.sha256(f"{at}\n{source}".encode("utf-8", "replace")).hexdigest()[:8]
        if name not in used:
            return name
    raise AssertionError("unreachable")  # one more name than are used


def _has_ids(text: str, path: Path) -> bool:
    """Return whether its format gives cells ids. Raises DocumentError if it is no notebook."""
    try:
        found = json.loads(text)
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise DocumentError(f"{path} is no notebook: it is no valid JSON{where}.") from None
    except RecursionError:
        raise DocumentError(f"{path} is no notebook: its JSON is nested too deeply.") from None
    if not isinstance(found, dict) or not ("cells" in found or "worksheets" in found):
        raise DocumentError(f"{path} is no notebook: it has no cells.")
    major, minor = found.get("nbformat"), found.get("nbformat_minor")
    if isinstance(major, int) and major > 4:
        raise DocumentError(f"{path} is of format {major}, which is newer than is known here.")
    return major == 4 and isinstance(minor, int) and minor >= MINOR


def _complete(document: Any, has_ids: bool) -> Any:
    """Give every cell an id of its own, the same each time; nbformat's would be random."""
    used: set[str] = set()
    for cell in document["cells"]:
        if not has_ids or cell.get("id") in (None, *used):
            cell["id"] = name_cell(cell["source"], used)
        used.add(cell["id"])
    document["nbformat_minor"] = max(MINOR, document["nbformat_minor"])
    return document


def _clean(value: Any) -> Any:
    """Return JSON without halves of characters."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8") if _is_odd(value) else value
        case dict():
            return {_clean(key): _clean(one) for key, one in value.items()}
        case list():
            return [_clean(one) for one in value]
        case _:
            return value


def _is_odd(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _first_line(error: Exception) -> str:
    text = (str(error) or type(error).__name__).split("\n", 1)[0]
    return text[:300].rstrip(".") + "."
