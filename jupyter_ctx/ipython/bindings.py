"""Which cell bound a name."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

MAX_NAMES = 20_000
"""In a larger namespace it is not tracked which cell bound a name."""


class Bindings:
    """Compares the namespace after each cell with how it was: about 0.2 ms for 1,000 names.

    A new object under a name is noticed by its id. One that took the place of an object freed
    before can have the same id; then the older cell is named. Objects are not kept alive, and
    nothing is asked of them.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._ids: dict[str, int] = {}
        self._bound: dict[str, str | None] = {}
        self.mark(None)

    def bound_in(self, name: str) -> str | None:
        """Return the label its last change was marked with; None if there is none."""
        return self._bound.get(name)

    def mark(self, label: str | None) -> None:
        """Mark every name that changed since the last call with `label`."""
        now, before = dict(self._shell.user_ns), self._ids
        if len(now) > MAX_NAMES:
            self._ids, self._bound = {}, {}
            return
        self._ids = ids = dict(zip(now, map(id, now.values()), strict=True))
        for name in [name for name, at in ids.items() if before.get(name) != at]:
            if isinstance(name, str) and not name.startswith("_"):
                self._bound[name] = label
        for name in before.keys() - ids.keys():
            self._bound.pop(name, None)
