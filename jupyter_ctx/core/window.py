"""The window and its limits: the reserve, when to compact, how long an answer may be.

Everything is in tokens. `window` None means that nobody knows it; then nothing is ever due.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from .entries import CompactionEntry, Entry, MessageEntry, RewindEntry, SummaryUndoEntry
from .ports import ModelFacts
from .tokens import Used
from .transcript import Transcript
from .usage import Usage

# DESIGN.md 5, When.
CRUSH_RESERVE, CRUSH_LARGE_WINDOW = 20_000, 200_000
CLAUDE_CODE_OUTPUT, CLAUDE_CODE_BUFFER = 20_000, 13_000
RESERVE_PERCENT = 20
# A reserve set by hand still leaves half of the window to work in.
MOST_RESERVE_PERCENT = 50
PROACTIVE_PRESETS = frozenset({"economic", "crush", "claude-code"})

# What every request carries is kept small on a window of fewer tokens: on 8,192 system prompt and
# tools took two fifths, and the replay cost 1.34 x the cheapest rule in place of 1.09 x.
SMALL_WINDOW = 9_000

# DESIGN.md 5, Output limit; the tail; re-injects; no progress.
LEAST_OUTPUT = 256
RAISED_SHARE, RAISED_TOKENS = 0.25, 50_000
GROWTH_SHARE = 0.10
_SHARE = 0.05
_SHARES = {"tail_tokens": 0.06}
# A window that is filled often pays for its tail as often: on 64,000 the replay cost 1.18 x the
# cheapest rule with 6 %, 1.15 x with 4.5 %.
MIDDLE_WINDOW = 100_000
_MIDDLE_SHARES = {"tail_tokens": 0.045}
# The newest step, which was not yet sent, stays in any case; each result stands in `turn-<n>` too.
_SMALL_SHARES = {"summary_tokens": 0.04, "tail_tokens": 0.0, "results_tokens": 0.0125}


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers the core works with, named as the settings that make them.

    Defaults, units and the meaning of 0 are those of `config.Settings` (a test compares them).
    """

    window_tokens: int = 0
    compaction: str = "economic"
    alpha: float = 2.0
    reserve_tokens: int = 0
    summary_tokens: int = 3_000
    tail_tokens: int = 12_000
    instructions_tokens: int = 10_000
    cells_tokens: int = 10_000
    inventory_tokens: int = 2_000
    plan_tokens: int = 2_000
    skill_tokens: int = 5_000
    results_tokens: int = 2_000
    update_tokens: int = 8_000
    recent_cells: int = 5
    least_gain: float = 0.10
    breaker_failures: int = 3
    prepare_calls: int = 3
    prepare_idle_s: float = 60.0
    exact_share: float = 0.15
    compaction_retries: int = 3
    max_result_chars: Mapping[str, int] = field(default_factory=dict)
    max_chars: int = 50_000
    chars_per_window_token: float = 0.25
    preview_chars: int = 2_000
    small_preview_chars: int = 300
    message_chars: int = 200_000
    continuations: int = 3
    pauses: int = 5
    steps_per_turn: int = 0

    @classmethod
    def of(cls, settings: object) -> Limits:
        """Return the limits that `settings` (anything with attributes of these names) makes."""
        return cls(**{spec.name: getattr(settings, spec.name) for spec in dataclasses.fields(cls)})


DEFAULTS = Limits()


def window_of(limits: Limits, facts: ModelFacts) -> int | None:
    """Return the context window, None if not known.

    A window that is set counts, but never above one that the provider itself has told.
    """
    told, wanted = facts.window_tokens, limits.window_tokens
    if wanted <= 0:
        return told
    if told is not None and facts.window_source in ("api", "server", "error"):
        return min(wanted, told)
    return wanted


def reserve_tokens(limits: Limits, facts: ModelFacts) -> int | None:
    """Return what is kept free for the answer, None if the window is not known.

    The setting, at most half of the window; else by the preset (DESIGN.md 5): `claude-code` the
    longest answer (at most 20,000; 20,000 if unknown) + 13,000, at most 20 % of the window; every
    other one 20,000 above a window of 200,000, else 20 %.
    """
    window = window_of(limits, facts)
    if window is None:
        return None
    if limits.reserve_tokens > 0:
        return min(limits.reserve_tokens, window * MOST_RESERVE_PERCENT // 100)
    fifth = window * RESERVE_PERCENT // 100
    if limits.compaction == "claude-code":
        most = facts.max_output_tokens or CLAUDE_CODE_OUTPUT
        return min(min(most, CLAUDE_CODE_OUTPUT) + CLAUDE_CODE_BUFFER, fifth)
    return CRUSH_RESERVE if window > CRUSH_LARGE_WINDOW else fifth


def should_compact(
    used: Used, limits: Limits, facts: ModelFacts, *, ahead_tokens: float = 0.0
) -> bool:
    """Say whether the reserve is reached: `window - used <= reserve`, on the cautious figure.

    With `ahead_tokens`: whether it is once so much more was said. Never by itself with `manual` and
    `off`, or with an unknown window. The account that `economic` keeps beside it is in
    `account.py`.
    """
    window, reserve = window_of(limits, facts), reserve_tokens(limits, facts)
    if window is None or reserve is None or limits.compaction not in PROACTIVE_PRESETS:
        return False
    return window - used.cautious - ahead_tokens <= reserve


def output_limit(
    wanted: int, used: Used, limits: Limits, facts: ModelFacts, *, keep_tokens: int = 0
) -> int:
    """Return a request's `max_tokens`: what is wanted, if the window and the model allow it.

    At least 256. `keep_tokens` stay free behind the answer (for a compaction request, say).
    """
    most = wanted if facts.max_output_tokens is None else min(wanted, facts.max_output_tokens)
    window = window_of(limits, facts)
    if window is not None:
        most = min(most, window - used.cautious - keep_tokens)
    return max(LEAST_OUTPUT, most)


def share_of(limits: Limits, name: str, window: int | None) -> int:
    """Return the budget that the setting `name` makes on that window, in tokens.

    A default is at most 5 % of the window, that of the tail 6 %, 4.5 % under 100,000; on a small
    window there is no tail, a summary has 4 %, and the stored results 1.25 %. One that was set to
    something else may take 50,000, at most 25 % of the window.
    """
    setting: int = getattr(limits, name)
    fraction = _SHARES.get(name, _SHARE)
    if setting != getattr(DEFAULTS, name):
        setting, fraction = min(setting, RAISED_TOKENS), RAISED_SHARE
    elif window is not None:
        fraction = _MIDDLE_SHARES.get(name, fraction) if window < MIDDLE_WINDOW else fraction
        fraction = _SMALL_SHARES.get(name, fraction) if window < SMALL_WINDOW else fraction
    return setting if window is None else min(setting, math.floor(window * fraction))


def summary_budget(limits: Limits, window: int | None) -> int:
    """Return the longest summary."""
    return share_of(limits, "summary_tokens", window)


def is_stuck(
    transcript: Transcript,
    used: Used,
    limits: Limits,
    facts: ModelFacts,
    *,
    prefix_tokens: int = 0,
) -> bool:
    """Say whether another compaction would bring nothing (DESIGN.md 5, no progress).

    So it is after one that freed less than `least_gain` of what was used, until what a compaction
    would drop has grown by 10 % of the window since. One that was undone does not count. A user who
    asks is not held back: that is the caller's to decide. With `prefix_tokens` (system and tools,
    which no compaction can drop) all is measured beside them: by less than else.
    """
    last = transcript.active_compaction
    if last is None:
        return False
    before = last.tokens_before - prefix_tokens
    if last.tokens_before - last.tokens_after >= limits.least_gain * before:
        return False
    window = window_of(limits, facts)
    grown = used.total - _tokens_right_after(last, transcript)
    return window is None or grown < GROWTH_SHARE * (window - prefix_tokens)


def _tokens_right_after(compaction: CompactionEntry, transcript: Transcript) -> int:
    """Return what was left after `compaction`: the estimate, or the first figure if that is more.

    An estimate that was too low must not pass for growth. A figure behind another compaction, or
    behind what brought an older view back, is of another prompt.
    """

    def is_later(entry: Entry) -> bool:
        return not (isinstance(entry, CompactionEntry) and entry.n == compaction.n)

    first = 0
    for entry in takewhile(is_later, reversed(transcript.entries)):
        match entry:
            case CompactionEntry() | SummaryUndoEntry() | RewindEntry():
                first = 0
            case MessageEntry(usage=Usage() as usage):
                first = usage.input_tokens or first
            case _:
                pass
    return max(first, compaction.tokens_after)
