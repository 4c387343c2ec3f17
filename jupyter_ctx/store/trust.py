"""`trust.json`: what of each project's folder the user trusts, by real path and digest.

`{"version":1,"folders":{<real path>:[{"path":str,"part":str,"digest":str,"at":str}]}}`.
A file that cannot be read, or is of a newer version, trusts nothing, and is not written over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from .files import open_regular, replace_file, store_errors
from .locks import writing

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
MOST_BYTES = 8 * 1024 * 1024
"""A larger file is none of ours."""

Row = tuple[str, str, str]
"""Real path, part, digest."""


class TrustFile:
    """The trust file of a home; `home` None: nothing can be kept, so trust lasts for this kernel.

    `today` gives the date that is written beside what is trusted.
    """

    def __init__(self, home: Path | None, today: Callable[[], str]) -> None:
        self._path = None if home is None else home / "trust.json"
        self._today = today
        self._kept: dict[str, frozenset[Row]] = {}

    def load(self, folder: str) -> frozenset[Row]:
        """Return what is trusted of `folder`, a real path. Raises StoreError."""
        if self._path is None:
            return self._kept.get(folder, frozenset())
        return frozenset(_rows(self._read().get(folder)))

    def add(self, folder: str, rows: Iterable[Row]) -> None:
        """Trust `rows` of `folder`; what was trusted of the same path and part is replaced.

        Raises StoreError; the file is then as it was.
        """
        new = {(path, part): digest for path, part, digest in rows}

        def change(listed: list[dict[str, str]]) -> list[dict[str, str]]:
            kept = [one for one in listed if (one["path"], one["part"]) not in new]
            at = self._today()
            return kept + [
                {"path": path, "part": part, "digest": digest, "at": at}
                for (path, part), digest in new.items()
            ]

        self._change(folder, change)

    def remove(self, folder: str) -> None:
        """Trust nothing of `folder` any more. Raises StoreError."""
        self._change(folder, lambda listed: [])

    def _change(
        self, folder: str, change: Callable[[list[dict[str, str]]], list[dict[str, str]]]
    ) -> None:
        if self._path is None:
            listed = [
                {"path": path, "part": part, "digest": digest}
                for path, part, digest in self._kept.get(folder, frozenset())
            ]
            self._kept[folder] = frozenset(_rows(change(listed)))
            return
        with writing(self._path):
            folders = dict(self._read())
            folders[folder] = change(list(_listed(folders.get(folder))))
            if not folders[folder]:
                del folders[folder]
            data = json.dumps({"version": VERSION, "folders": folders}, indent=1) + "\n"
            with store_errors(self._path):
                replace_file(self._path, data.encode())

    def _read(self) -> Mapping[str, Any]:
        """Return the folders of the file, {} if there is none. Raises StoreError."""
        path = self._path
        assert path is not None  # asked for with a home only
        with store_errors(path, "read"):
            try:
                fd = open_regular(path)
            except (FileNotFoundError, NotADirectoryError):
                return {}
            with os.fdopen(fd, "rb") as stream:
                data = stream.read(MOST_BYTES + 1)
        try:
            found = json.loads(data) if len(data) <= MOST_BYTES else None
        except (ValueError, RecursionError):
            found = None
        whole = found if isinstance(found, dict) and found.get("version") == VERSION else {}
        folders = whole.get("folders")
        if not isinstance(folders, dict):
            raise StoreError(
                f"{path} is damaged or of a newer version: nothing in this folder is trusted. "
                "Move it away, then use /trust.",
                path=str(path),
            )
        return folders


def _listed(value: object) -> Iterator[dict[str, str]]:
    """Yield the items of a folder that are whole."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict) and all(
            isinstance(one.get(key), str) for key in ("path", "part", "digest")
        ):
            yield one


def _rows(value: object) -> Iterator[Row]:
    for one in _listed(value):
        yield one["path"], one["part"], one["digest"]
