"""The redactor of a kernel, whose environment may change while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.redact import Redactor


class LiveRedactor(Redactor):
    """A Redactor whose secrets are looked up again at every turn; one once seen stays one."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        super().__init__({})

    def renew(self, secrets: Mapping[str, str]) -> None:
        """Take in the secrets of now; a key that another has replaced is still redacted."""
        known = set(self._seen.values())
        fresh = {name: value for name, value in secrets.items() if value not in known}
        if not fresh:
            return
        for name in fresh:
            if name in self._seen:
                self._seen[f"{name}, number {len(self._seen)}"] = self._seen[name]
        self._seen.update(fresh)
        super().__init__(self._seen)
