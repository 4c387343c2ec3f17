"""Thinking: signed when it leaves, verified when it comes back.

A signature is an HMAC over the model, the digest of everything before the block except thinking,
the text as shown, and the id of the thinking block before it. So on a model that binds thinking:
an edited prefix is refused, a block may be missing only from the front, and a prefix without any
thinking (after a compaction) is fine. On every model a changed text is refused.
The key is fixed, so that a second server in the same test still knows the first one's blocks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import invalid
from .models import FakeModel
from .prompt import (
    THINKING_TYPES,
    Placed,
    Turn,
    canonical,
    extend,
    prefix_of_tools_and_system,
)

_KEY = b"the fake's signing key"
BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation: the "
    "content before it has changed since it was created."
)
MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)


@dataclass(frozen=True)
class Seal:
    """What a signature says of its block; `tokens` is the size of the hidden text."""

    id: str
    model: str
    prefix: str
    shown: str
    before: str
    tokens: int


def seal(model: str, prefix: str, text: str, shown: str, before: str, tokens: int) -> Seal:
    """Return the seal of a new block; the same block in the same place gets the same one."""
    id_ = extend("", model, prefix, text, before)[:16]
    return Seal(id_, model, prefix, hashlib.sha256(shown.encode()).hexdigest(), before, tokens)


def sign(made: Seal) -> str:
    """Return the signature (or the `data` of a redacted block)."""
    raw = json.dumps(made.__dict__, sort_keys=True).encode()
    mac = hmac.new(_KEY, raw, hashlib.sha256).digest()
    return base64.b64encode(mac + raw).decode()


def open_seal(signature: str) -> Seal | None:
    """Return what a signature says, None if it is not one of ours."""
    try:
        both = base64.b64decode(signature, validate=True)
    except ValueError:
        return None
    mac, raw = both[:32], both[32:]
    if not hmac.compare_digest(mac, hmac.new(_KEY, raw, hashlib.sha256).digest()):
        return None
    return Seal(**json.loads(raw))


@dataclass
class Ledger:
    """Which thinking stood last before each block of ours, so that a missing one is noticed."""

    _last: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def note(self, model: str, prefix: str, last: str) -> None:
        """Remember a block that was sent: the digest after it, and the thinking before it."""
        self._last.setdefault((model, prefix), set()).add(last)

    def is_missing(self, model: str, prefix: str, last: str) -> bool:
        """Return whether the block was sent with another thinking before it than `last`."""
        known = self._last.get((model, prefix))
        return bool(last) and known is not None and last not in known


@dataclass(frozen=True)
class Bound:
    """The outcome: what binds the next block, and what the model does not see.

    `prefix` is the digest of all but thinking; `last` the id of the last thinking block seen, "" if
    none. `dropped` are paths with the reason.
    """

    prefix: str
    last: str
    dropped: Mapping[str, str]
    tokens: Mapping[str, int]


def verify_thinking(
    body: Mapping[str, Any],
    turns: Sequence[Turn],
    model: FakeModel,
    ledger: Ledger,
    drop_mismatch: bool = False,
) -> Bound:
    """Verify every thinking block of the request. Raises ApiError."""
    name: str = body["model"]
    prefix, last = prefix_of_tools_and_system(body)[1], ""
    dropped: dict[str, str] = {}
    tokens: dict[str, int] = {}
    latest = max((i for i, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    for number, turn in enumerate(turns):
        if not model.binds_thinking and number == latest:
            last = ""
        for placed in turn.blocks:
            if placed.block["type"] not in THINKING_TYPES:
                prefix = extend(prefix, turn.role, canonical(placed.block))
                strict = model.binds_thinking or number == latest
                if turn.role == "assistant" and strict and ledger.is_missing(name, prefix, last):
                    raise invalid(placed.path, MODIFIED)
                continue
            found = _open(placed)
            if found.model != name:
                dropped[placed.path] = "model_binding_mismatch"
                continue
            if model.binds_thinking and not _fits(found, prefix, last):
                if not drop_mismatch:
                    raise invalid(placed.path, BOUND)
                dropped[placed.path] = "prefix_binding_mismatch"
                continue
            last, tokens[placed.path] = found.id, found.tokens
    return Bound(prefix, last, dropped, tokens)


def _open(placed: Placed) -> Seal:
    block = placed.block
    is_plain = block["type"] == "thinking"
    found = open_seal(block["signature" if is_plain else "data"])
    if found is None:
        raise invalid(placed.path, f"Invalid `signature` in `{block['type']}` block")
    shown = hashlib.sha256(block.get("thinking", "").encode("utf-8", "surrogatepass")).hexdigest()
    if shown != found.shown:
        raise invalid(placed.path, MODIFIED)
    return found


def _fits(found: Seal, prefix: str, last: str) -> bool:
    return found.prefix == prefix and last in ("", found.before)
