"""Why the prompt cache could not be used: `diagnostics.cache_miss_reason`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .record import Recorded


def find_cache_miss(earlier: Sequence[Recorded], record: Recorded) -> dict[str, Any] | None:
    """Return the `diagnostics` object of the answer; None if not asked for, or nothing diverged."""
    asked = record.json.get("diagnostics")
    if not asked or asked.get("previous_message_id") is None:
        return None
    before = next(
        (other for other in earlier if other.message_id == asked["previous_message_id"]), None
    )
    if before is None:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    kind = _divergence(before, record)
    if kind is None:
        return None
    missed = max(0, before.input_tokens - (record.plan.read_tokens if record.plan else 0))
    return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": missed}}


def _divergence(before: Recorded, record: Recorded) -> str | None:
    if before.json["model"] != record.json["model"]:
        return "model_changed"
    if before.prefix_hashes[0] != record.prefix_hashes[0]:
        return "tools_changed"
    if before.prefix_hashes[1] != record.prefix_hashes[1]:
        return "system_changed"
    length = len(before.row)
    last = before.row[-1].digest if before.row else ""
    if length > len(record.row) or record.row[length - 1].digest != last:
        return "messages_changed"
    return None
