"""What many tests assert of recorded requests; every failure names the first block that differs.

Requests are related to one another like this: a *step* sends all of an earlier request, its reply
and more; a *retry* sends the same again; a *side* request adds one user message and is not gone on
from (a compaction request); a *boundary* starts a new prefix after a side request. A side request
may run beside later steps: then it goes on from a step that is not the newest, and so may the
boundary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .fake import FakeAnthropic
from .prompt import canonical
from .record import Recorded

Kind: TypeAlias = Literal["first", "step", "retry", "side", "boundary", "refusal"]
IsSide: TypeAlias = Callable[[Recorded], bool]
_CUT = ("max_tokens", "model_context_window_exceeded")


@dataclass(frozen=True)
class Related:
    """A request and the earlier one it goes on from (None for the first)."""

    record: Recorded
    kind: Kind
    base: Recorded | None


def relate(
    requests: Sequence[Recorded],
    boundaries: Collection[int] | None = None,
    is_side: IsSide | None = None,
) -> Iterator[Related]:
    """Yield how each request follows from those before it. Raises AssertionError.

    `boundaries` are the places in `requests` (from 0) that may begin a new prefix; None finds them:
    a request with another first message, after a side request of the prefix it ends. `is_side`
    tells a compaction request where its place does not (after a failed request, or cut by a retry).
    """
    logs: list[Recorded] = []  # of the present prefix
    side: Recorded | None = None
    had_side = False
    for number, record in enumerate(requests):
        record.done.wait(20)
        base: Recorded | None = None
        if not logs:
            kind: Kind = "first"
        elif is_side is not None and is_side(record):
            kind, base = "side", _beside(record, logs) or logs[-1]
        elif is_side is None and (earlier := _beside(record, logs[:-1])) is not None:
            kind, base = "side", earlier
        else:
            may_begin = had_side if boundaries is None else number in boundaries
            kind, base = _relate(record, logs[-1], side, may_begin, f"request {number}")
        yield Related(record, kind, base)
        side = record if kind == "side" else None
        had_side = (had_side or kind == "side") and kind != "boundary"
        if kind != "side":
            logs = [record] if kind == "boundary" else [*logs, record]


def assert_append_only(
    requests: Sequence[Recorded],
    boundaries: Collection[int] | None = None,
    is_side: IsSide | None = None,
) -> list[int]:
    """Every request is the one before, its reply, and more, byte for byte but for markers.

    Tools and system never differ. Returns where a new prefix began; the arguments are those of
    `relate`.
    """
    found: list[int] = []
    for number, related in enumerate(relate(requests, boundaries, is_side)):
        first = requests[0].json
        for key in ("system", "tools"):
            before, now = _bare(first.get(key)), _bare(related.record.json.get(key))
            assert before == now, f"request {number}: {key} changed: {_excerpts(before, now)}"
        if related.kind == "boundary":
            found.append(number)
    return found


def assert_markers(
    requests: Sequence[Recorded],
    boundaries: Collection[int] | None = None,
    is_side: IsSide | None = None,
) -> None:
    """Every request has 1 to 4 markers, the last in its newest message.

    A side request has its markers exactly where the request it goes on from had them (unless it
    was cut to fit).
    """
    for number, related in enumerate(relate(requests, boundaries, is_side)):
        places = marker_places(related.record.json)
        assert 1 <= len(places) <= 4, f"request {number}: {len(places)} markers: {places}"
        newest = f"messages.{len(related.record.messages) - 1}."
        if related.kind == "side" and related.base is not None:
            if _is_cut(related):
                continue
            before = marker_places(related.base.json)
            assert places == before, f"request {number}: markers at {places}, before at {before}"
        else:
            assert places[-1].startswith(newest), f"request {number}: last marker at {places[-1]}"


def assert_prefix_read(
    requests: Sequence[Recorded],
    boundaries: Collection[int] | None = None,
    is_side: IsSide | None = None,
) -> None:
    """Every request reads from the cache at least what the one before it had marked."""
    for number, related in enumerate(relate(requests, boundaries, is_side)):
        base, plan = related.base, related.record.plan
        if related.kind not in ("step", "side", "retry") or base is None or plan is None:
            continue
        if _is_cut(related):
            continue
        if base.status != 200 or base.plan is None or not base.plan.markers:
            continue
        marked = base.row[base.plan.markers[-1]]
        written = base.plan.read_tokens + base.plan.write_5m_tokens + base.plan.write_1h_tokens
        assert plan.read_tokens >= written, (
            f"request {number} read {plan.read_tokens} tokens of the {written} cached up to "
            f"{marked.path}"
        )


def assert_never_over_window(requests: Sequence[Recorded]) -> None:
    """No request is larger than its model's window."""
    for number, record in enumerate(requests):
        window = record.window_tokens
        assert window is None or record.input_tokens <= window, (
            f"request {number}: {record.input_tokens} tokens in a window of {window}"
        )


def assert_healthy(server: FakeAnthropic) -> None:
    """No request broke a rule."""
    faults = [f"request {r.number}: {(r.error or {}).get('message')}" for r in server.refused]
    assert not faults, "\n".join(faults)


def cache_read_ratio(
    requests: Sequence[Recorded], first: int = 1, last: int | None = None
) -> float:
    """Return cache reads ÷ all input over requests `first` to `last`, counted from 1, both in."""
    figures = [record.plan for record in requests[first - 1 : last] if record.plan is not None]
    whole = sum(plan.input_tokens for plan in figures)
    return sum(plan.read_tokens for plan in figures) / whole if whole else 0.0


def marker_places(body: Mapping[str, Any]) -> list[str]:
    """Return the places of all markers, in the order of the prompt."""
    rows: list[tuple[str, Any]] = [("tools", body.get("tools"))]
    rows.append(("system", body.get("system")))
    for index, message in enumerate(body["messages"]):
        rows.append((f"messages.{index}.content", message["content"]))
    return [place for path, blocks in rows for place in _marked(path, blocks)]


def first_difference(before: Sequence[Any], now: Sequence[Any]) -> str:
    """Return where two lists of messages first differ, and both texts there; "" if nowhere."""
    for index, (old, new) in enumerate(zip(before, now, strict=False)):
        if old["role"] != new["role"]:
            return f"messages.{index}.role: {old['role']} became {new['role']}"
        pairs = zip(_listed(old["content"]), _listed(new["content"]), strict=False)
        for number, (left, right) in enumerate(pairs):
            if _bare(left) != _bare(right):
                return f"messages.{index}.content.{number}: {_excerpts(_bare(left), _bare(right))}"
        sizes = len(_listed(old["content"])), len(_listed(new["content"]))
        if sizes[0] != sizes[1]:
            return f"messages.{index}: {sizes[0]} blocks became {sizes[1]}"
        if _bare(old) != _bare(new):
            return f"messages.{index}: {_excerpts(_bare(old), _bare(new))}"
    if len(before) > len(now):
        return f"messages.{len(now)} is missing: {_bare(before[len(now)])[:200]}"
    return ""


# How one request follows from another ----------------------------------------------------------


def _beside(record: Recorded, logs: Sequence[Recorded]) -> Recorded | None:
    """Return the newest of `logs` that `record` adds nothing to but one user message."""
    newest = record.messages[-1]
    for log in reversed(logs if newest["role"] == "user" else ()):
        is_one_more = len(record.messages) == len(log.messages) + 1
        if is_one_more and _ended_well(log) and not first_difference(log.messages, record.messages):
            return log
    return None


def _relate(
    record: Recorded, log: Recorded, side: Recorded | None, may_begin: bool, name: str
) -> tuple[Kind, Recorded]:
    """Return the relation of `record`, and the request it goes on from."""
    for base in (side, log):
        if base is None or first_difference(base.messages, record.messages):
            continue
        rest = record.messages[len(base.messages) :]
        if not rest:
            return ("side" if base is side else "retry"), log
        if base is side and _ended_well(side):
            break  # a side request's reply is not gone on from: this starts anew, or fails below
        return _extension(rest, base, name), base
    difference = first_difference(log.messages, record.messages)
    if may_begin and record.messages[0] != log.messages[0]:
        return "boundary", log
    if log.stop_reason == "refusal" and _drops_the_end(record, log):
        return "refusal", log
    raise AssertionError(
        f"{name} does not go on from request number {log.number}: "
        f"{difference or 'it goes on from a side request'}"
    )


def _extension(rest: Sequence[Mapping[str, Any]], base: Recorded, name: str) -> Kind:
    if not _ended_well(base):
        return "step"
    if rest[0]["role"] == "user":
        assert len(rest) == 1, f"{name} leaves out the reply to request number {base.number}"
        return "side"
    if base.stop_reason not in _CUT:
        got, sent = _listed(rest[0]["content"]), base.reply
        for number, (left, right) in enumerate(zip(sent, got, strict=False)):
            texts = canonical(left), canonical(right)
            assert texts[0] == texts[1], (
                f"{name}: block {number} of the reply to request number {base.number} changed: "
                f"{_excerpts(*texts)}"
            )
        assert len(sent) == len(got), f"{name}: {len(sent)} blocks of the reply became {len(got)}"
    return "step"


def _is_cut(related: Related) -> bool:
    """Return whether a side request does not hold all of the request it goes on from."""
    base = related.base
    return base is not None and bool(first_difference(base.messages, related.record.messages))


def _ended_well(record: Recorded) -> bool:
    return record.status == 200 and record.complete and not record.gone.is_set()


def _drops_the_end(record: Recorded, log: Recorded) -> bool:
    """Return whether `record` is `log` with messages taken off the end, from a user's one on."""
    same = 0
    for old, new in zip(log.messages, record.messages, strict=False):
        if _bare(old) != _bare(new):
            break
        same += 1
    return same < len(log.messages) and log.messages[same]["role"] == "user"


# Texts ------------------------------------------------------------------------------------------


def _bare(value: object) -> str:
    """Return the JSON text without markers; the order of keys stays."""
    return json.dumps(_unmarked(value), ensure_ascii=False)


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "cache_control"}
        if value.get("type") in ("tool_use", "custom") or "input_schema" in value:
            return kept
        return {key: _unmarked(item) for key, item in kept.items()}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value


def _listed(content: object) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _marked(path: str, blocks: object) -> Iterator[str]:
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if block.get("cache_control"):
            yield f"{path}.{index}"
        yield from _marked(f"{path}.{index}.content", block.get("content"))


def _excerpts(before: str, now: str) -> str:
    """Return both texts around the first character that differs."""
    place = next(
        (i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b),
        min(len(before), len(now)),
    )
    start = max(0, place - 30)
    return f"…{before[start : place + 90]!r} became …{now[start : place + 90]!r}"
