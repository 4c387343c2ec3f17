"""Runs the commands that settings name as hooks. Implements `core.ports.Hooks`.

A command gets the event as JSON on its standard input. Exit status 0: its output is read, as JSON
if it begins like an object. 2: it forbids, with what it wrote to its standard error as the reason.
Any other end is shown to the user and decides nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..core.blocks import Json
from ..core.hook_answers import NO_REASON, is_matched, join_outcomes, read_answer, read_text
from ..core.ports import HookName, HookOutcome
from ..core.redact import is_own_key, secrets_from
from .child import MOST_BYTES, Ended, run_child
from .entries import Hook

AT_ONCE = 8
"""So many commands of one event run side by side."""
BLOCKS = 2
"""The exit status with which a command forbids."""
NESTED_ENV = "JUPYTER_CTX_IN_HOOK"
"""Set for every command: what runs within a hook runs no hooks, or they would call one another."""
MOST_LABEL_CHARS = 60


@dataclass(frozen=True, slots=True)
class Setting:
    """Where hooks run: session id, the transcript's path, the project's folder, the kernel's own.

    `transcript_path` is "" where nothing is stored.
    """

    session_id: str
    transcript_path: str
    project: str
    folder: Callable[[], str]


class HookCommands:
    """The commands of a session. `environ` is looked at whenever one runs."""

    def __init__(self, hooks: Iterable[Hook], setting: Setting, environ: Mapping[str, str]) -> None:
        self._hooks = tuple(hooks)
        self._setting = setting
        self._environ = environ

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that run, in the order of their files."""
        return self._hooks

    @property
    def is_nested(self) -> bool:
        """This kernel itself runs within a hook: none of these runs."""
        return bool(self._environ.get(NESTED_ENV))

    def use(self, hooks: Iterable[Hook]) -> None:
        """Run these from the next event on."""
        self._hooks = tuple(hooks)

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Run every command that is meant, side by side; the same one twice runs once."""
        if self.is_nested:
            return HookOutcome()
        meant = [h for h in self._hooks if h.event == name and is_matched(h.matcher, name, payload)]
        if not meant:
            return HookOutcome()
        first: dict[tuple[str, tuple[str, ...]], Hook] = {}
        for hook in meant:
            first.setdefault((hook.command, hook.keys), hook)
        given = self._given(name, payload)
        gate = asyncio.Semaphore(AT_ONCE)

        async def run_one(hook: Hook) -> HookOutcome:
            async with gate:
                return await self._run_one(hook, given)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_one(hook)) for hook in first.values()]
        return join_outcomes(task.result() for task in tasks)

    def _given(self, name: HookName, payload: Json) -> bytes:
        """Return the event as JSON; what is no text any more is ASCII all the same."""
        setting = self._setting
        common = {
            "session_id": setting.session_id,
            "transcript_path": setting.transcript_path,
            "cwd": setting.folder(),
            "hook_event_name": name,
        }
        return json.dumps({**common, **payload}, default=str).encode("ascii")

    async def _run_one(self, hook: Hook, given: bytes) -> HookOutcome:
        try:
            ended = await run_child(
                hook.command,
                given,
                folder=self._setting.folder(),
                environ=child_environ(self._environ, hook.keys, self._setting),
                timeout_s=hook.timeout_s,
            )
        except (OSError, ValueError) as error:
            return HookOutcome(shown=(f"`{label_of(hook)}` could not be run: {error}",))
        return read_end(hook, ended)


def read_end(hook: Hook, ended: Ended) -> HookOutcome:
    """Return what the end of a command decides."""
    label = label_of(hook)
    if ended.timed_out:
        text = f"`{label}` took longer than {hook.timeout_s:g} s and was ended."
        return HookOutcome(shown=(text,))
    if ended.flooded:
        return HookOutcome(shown=(f"`{label}` wrote over {MOST_BYTES:,} bytes and was ended.",))
    if ended.status == BLOCKS:
        return HookOutcome(blocked_by=ended.stderr.strip() or NO_REASON)
    if ended.status != 0:
        return HookOutcome(shown=(f"`{label}` {_failure(ended)}",))
    out = ended.stdout.strip()
    if not out.startswith("{"):
        return read_text(hook.event, out)
    try:
        answer = json.loads(out)
    except (ValueError, RecursionError) as error:
        return HookOutcome(shown=(f"`{label}` answered with broken JSON: {error}",))
    return read_answer(answer)


def _failure(ended: Ended) -> str:
    line = next((one for one in ended.stderr.splitlines() if one.strip()), "it said nothing")
    if ended.status is None:
        return "ended, and its exit status was lost; nothing was decided."
    how = f"by signal {-ended.status}" if ended.status < 0 else f"with status {ended.status}"
    return f"failed {how}: {line.strip()}"


def label_of(hook: Hook) -> str:
    """Return a command on one short line."""
    line = " ".join(hook.command.split())
    return line if len(line) <= MOST_LABEL_CHARS else line[: MOST_LABEL_CHARS - 1] + "…"


def child_environ(
    environ: Mapping[str, str], keys: Iterable[str], setting: Setting
) -> dict[str, str]:
    """Return the environment of a command: the user's, without our own keys but those in `keys`.

    A variable of another name in whose value such a key stands is left out too.
    """
    asked = frozenset(keys)
    secrets = {value for name, value in secrets_from(environ).items() if name not in asked}
    kept = {
        name: value
        for name, value in environ.items()
        if name in asked or not (is_own_key(name) or any(key in value for key in secrets))
    }
    own = {
        "JUPYTER_CTX_PROJECT_DIR": setting.project,
        "JUPYTER_CTX_SESSION_ID": setting.session_id,
        "CLAUDE_PROJECT_DIR": setting.project,
        NESTED_ENV: "1",
    }
    return {**kept, **own}
