"""What the model has seen of cells and files, in this session's process: the latest of each.

An edit of something that the model has not seen as it stands now is refused with what stands there.
Only digests are kept, so that a large file costs no memory. A sub-agent has seen what the
conversation had, and what it sees beyond that counts as seen by itself alone.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Literal, TypeAlias

from ..core.acting import find_actor

SeenKind: TypeAlias = Literal["cell", "file"]
_Key: TypeAlias = tuple[str, SeenKind, str]
"""Who saw it (the sub-agent's id, "": the conversation), and what."""

MOST_SEEN = 20_000
"""So many cells and files are remembered; those not seen for the longest go first."""


def digest_of(text: str) -> str:
    """Return 16 hexadecimal digits that differ where texts differ; any text, lone halves too."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Seen:
    """What the model saw, by kind and id. Any thread may call it.

    A cell's id is the one that the tools name, a file's its absolute path. `text` is always the
    whole source or text; one that was read in parts is seen once the parts make up the whole.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._digests: dict[_Key, str] = {}
        self._parts: dict[_Key, tuple[str, int]] = {}
        self._asked: dict[str, str] = {}

    def mark(self, kind: SeenKind, id: str, text: str) -> None:
        """Note that the model has seen the whole of `text`, or made it so itself."""
        self.mark_digest(kind, id, digest_of(text))

    def mark_digest(self, kind: SeenKind, id: str, digest: str) -> None:
        """The same by what `digest_of` returned for the text."""
        key = _own(kind, id)
        with self._lock:
            self._digests.pop(key, None)
            self._digests[key] = digest
            while len(self._digests) > MOST_SEEN:
                del self._digests[next(iter(self._digests))]

    def mark_lines(self, kind: SeenKind, id: str, text: str, first: int, last: int) -> None:
        """Note that the model has seen lines `first` to `last` of `text`, from 1, both included.

        Read from the first line on, in order, the last part makes the whole text seen.
        """
        digest, key = digest_of(text), _own(kind, id)
        with self._lock:
            known, upto = self._parts.pop(key, ("", 0))
            upto = upto if known == digest else 0
            if first <= upto + 1:
                upto = max(upto, last)
            self._parts[key] = digest, upto
            while len(self._parts) > MOST_SEEN:
                del self._parts[next(iter(self._parts))]
        if upto >= text.count("\n") + 1:
            self.mark_digest(kind, id, digest)

    def is_present(self, kind: SeenKind, id: str, text: str) -> bool:
        """Whether `text`, as it stands now, is what the model saw last of it."""
        return self.digest(kind, id) == digest_of(text)

    def has(self, kind: SeenKind, id: str) -> bool:
        """Whether the model saw it in any form."""
        return self.digest(kind, id) is not None

    def digest(self, kind: SeenKind, id: str) -> str | None:
        """Return the digest of what it saw last; None if it saw nothing of it."""
        with self._lock:
            found = self._digests.get(_own(kind, id), self._digests.get(("", kind, id)))
            return found or None

    # What the user saw: the source of a cell that they were asked to let run ----------------------

    def note_asked(self, cell_id: str, source: str) -> None:
        """Note the source that the user was asked about; it is that of the next run only."""
        with self._lock:
            self._asked[cell_id] = digest_of(source)

    def take_asked(self, cell_id: str) -> str | None:
        """Return the digest of the source that the user was asked about last, once."""
        with self._lock:
            return self._asked.pop(cell_id, None)

    def forget(self, kind: SeenKind, id: str) -> None:
        """Forget one: it is gone, or nobody knows how it stands."""
        key = _own(kind, id)
        with self._lock:
            if key[0]:  # what the conversation saw stays so for the conversation
                self._digests[key] = ""
            else:
                self._digests.pop(key, None)
            self._parts.pop(key, None)


def _own(kind: SeenKind, id: str) -> _Key:
    """Return the key of what is seen by whoever acts now."""
    actor = find_actor()
    return "" if actor is None else actor.id, kind, id
