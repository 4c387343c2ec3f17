"""Hooks as settings files name them, in the form that people know from Claude Code.

`{"PreToolUse": [{"matcher": "run_code", "hooks": [{"type": "command", "command": "…"}]}]}`, with
`timeout` in seconds, and `env`: names of our own keys which that command is to get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..core.hook_answers import HOOK_NAMES, find_matcher_fault
from ..core.ports import HookName

TIMEOUT_S, MOST_TIMEOUT_S = 60.0, 600.0
"""How long a command may take unless it says so itself, and the most that it may say."""
MOST_HOOKS = 100
"""So many hooks of one file are read."""
MOST_COMMAND_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class Hook:
    """One command that runs at one event.

    `matcher` is as `is_matched` takes it; `timeout_s` in seconds; `source` is the settings file, as
    people are told of it. `keys` are the names of our own keys in the environment that it gets.
    """

    event: HookName
    command: str
    matcher: str = ""
    timeout_s: float = TIMEOUT_S
    source: str = ""
    keys: tuple[str, ...] = ()


def read_hooks(raw: object, source: str) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Return the hooks in `raw`, the value of `hooks` in a settings file, and its faults.

    A fault is a sentence that names `source`, event and place; what it is about is not loaded.
    Total: any JSON is taken.
    """
    if raw is None:
        return (), ()
    if not isinstance(raw, Mapping):
        return (), (f"{source}: `hooks` must be an object of events.",)
    found: list[Hook] = []
    faults: list[str] = []
    for one in _read_events(raw, source):
        if isinstance(one, str):
            faults.append(f"{source}: {one}")
        elif len(found) < MOST_HOOKS:
            found.append(one)
        else:
            faults.append(f"{source}: only the first {MOST_HOOKS} hooks are loaded.")
            break
    return tuple(found), tuple(faults)


def _read_events(raw: Mapping[str, object], source: str) -> Iterator[Hook | str]:
    for event, groups in raw.items():
        if event not in HOOK_NAMES:
            yield f"there is no event {str(event)[:40]!r} here; there are {', '.join(HOOK_NAMES)}."
        elif not isinstance(groups, list):
            yield f"{event} must be a list."
        else:
            for n, group in enumerate(groups, start=1):
                yield from _read_group(event, f"{event} {n}", group, source)


def _read_group(event: HookName, place: str, group: object, source: str) -> Iterator[Hook | str]:
    entries = group.get("hooks") if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or not isinstance(entries, list):
        yield f"{place} must be an object with a list of `hooks`."
        return
    matcher = group.get("matcher", "")
    if not isinstance(matcher, str):
        yield f"{place} is not loaded: its matcher is no text."
    elif matcher != "*" and (fault := find_matcher_fault(matcher)):
        yield f"{place} is not loaded: {fault}."
    else:
        for entry in entries:
            yield _read_entry(event, place, matcher, entry, source)


def _read_entry(
    event: HookName, place: str, matcher: str, entry: object, source: str
) -> Hook | str:
    if not isinstance(entry, Mapping) or entry.get("type", "command") != "command":
        return f"{place} has an entry that is not loaded: its type must be `command`."
    command, timeout, keys = entry.get("command"), entry.get("timeout", TIMEOUT_S), entry.get("env")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return f"{place} has an entry that is not loaded: its command must be a text."
    if len(command) > MOST_COMMAND_CHARS:
        return f"{place} has an entry that is not loaded: its command is too long."
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        return f"{place} has an entry that is not loaded: its timeout must be seconds above 0."
    names = [] if keys is None else keys
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return f"{place} has an entry that is not loaded: `env` must be a list of names."
    most = min(float(timeout), MOST_TIMEOUT_S)
    return Hook(event, command, matcher, most, source, tuple(names))
