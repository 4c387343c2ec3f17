"""What a server of the Messages API does not take of a request, learnt from its refusals.

Gateways and local servers know a part of the API, and few tell which. What one refuses by name is
left out of every later request, so that their prefix stays the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from ..core.ports import Request
from ..errors import ModelError, RequestRefusedError

_MOST_OUTPUT: Final = re.compile(r"max_tokens: *(\d+) *> *(\d+),? *which is the maximum", re.I)
_UNKNOWN: Final = (
    r"(extra inputs|not (permitted|supported|allowed)|unsupported|unknown|unexpected|unrecognized"
    r"|does not match|should (be|match))"
)
_KNOWS_NOT: Final = (
    r"(unsupported|not support|unknown|unexpected|unrecognized|no such|extra inputs)"
)


def _names(field: str) -> re.Pattern[str]:
    """Return what finds a refusal of `field`, named before or after the words that refuse."""
    after = rf"\b{field}\b[^;]{{0,80}}{_UNKNOWN}"
    return re.compile(rf"{after}|{_KNOWS_NOT}[^;]{{0,40}}\b{field}\b", re.I)


_THINKING: Final = _names("thinking")
_CACHE: Final = _names("cache_control")
_DIAGNOSTICS: Final = _names("diagnostics")


@dataclass(frozen=True, slots=True)
class Lacks:
    """What is left out: `thinking`, `cache` markers, `diagnostics`; the longest answer in tokens.

    `most_output` None: nothing is known but what the tables say.
    """

    thinking: bool = False
    cache: bool = False
    diagnostics: bool = False
    most_output: int | None = None

    def fit(self, request: Request) -> Request:
        """Return the request as far as it is taken."""
        most = min(request.max_tokens, self.most_output or request.max_tokens)
        if most != request.max_tokens:
            request = replace(request, max_tokens=most)
        return replace(request, breakpoints=()) if self.cache and request.breakpoints else request

    def take_out(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return a request's arguments without what is not taken."""
        without = {
            *(["thinking"] if self.thinking else []),
            *(["diagnostics"] if self.diagnostics else []),
        }
        return {name: value for name, value in params.items() if name not in without}


def find_lacks(lacks: Lacks, error: ModelError, params: dict[str, Any]) -> Lacks | None:
    """Return what is lacking too, None if `error` refuses nothing that `params` could do without.

    `params` are the arguments as sent.
    """
    if not isinstance(error, RequestRefusedError) or error.status not in (400, 422):
        return None
    said = str(error)
    if found := _MOST_OUTPUT.search(said):
        most = int(found[2])
        return replace(lacks, most_output=most) if 0 < most < params["max_tokens"] else None
    if "diagnostics" in params and _DIAGNOSTICS.search(said):
        return replace(lacks, diagnostics=True)
    if not lacks.cache and _CACHE.search(said):
        return replace(lacks, cache=True)
    if "thinking" in params and _THINKING.search(said):
        return replace(lacks, thinking=True)
    return None
