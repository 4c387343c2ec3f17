"""Which cells ask the agent: running one for it would start a turn within the turn."""

from __future__ import annotations

import re

_AGENT = re.compile(r"\s*%%?agent(?![\w.])")


def is_agent_source(source: str) -> bool:
    """Say whether a code cell of that source asks the agent: it begins with `%agent`, `%%agent`."""
    return _AGENT.match(source) is not None
