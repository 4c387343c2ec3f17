"""The redactor of a kernel, whose environment may change while it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..core.redact import Redactor


class LiveRedactor(Redactor):
    """A Redactor whose secrets are looked up again at every turn; one once seen stays one."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._escaped: list[tuple[re.Pattern[str], str]] = []
        self._known_keys = False
        super().__init__({})

    def renew(self, secrets: Mapping[str, str], *, known_keys: bool | None = None) -> None:
        """Take in the secrets of now; a key that another has replaced is still redacted.

        `known_keys` says whether known shapes go too, None: as before.
        """
        known = set(self._seen.values())
        fresh = {name: value for name, value in secrets.items() if value not in known}
        wants_shapes = self._known_keys if known_keys is None else known_keys
        if not fresh and wants_shapes == self._known_keys:
            return
        self._known_keys = wants_shapes
        for name in fresh:
            if name in self._seen:
                self._seen[f"{name}, number {len(self._seen)}"] = self._seen[name]
        self._seen.update(fresh)
        super().__init__(self._seen, known_keys=wants_shapes)
        self._escaped = [
            (re.compile("".join(f"\\\\?{re.escape(one)}" for one in value)), f"[redacted: {name}]")
            for name, value in self._seen.items()
        ]

    def markdown(self, text: str) -> str:
        """Return Markdown without the secrets, those with escaped characters included."""
        text = self.text(text)
        for pattern, replacement in self._escaped:
            text = pattern.sub(replacement, text)
        return text
