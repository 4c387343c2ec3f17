"""Hooks in Python: callables of the user, beside the commands that settings name.

`session.hooks` is a `SessionHooks`. A callable gets the event as a dictionary, on a thread of its
own, so that one that waits holds up nothing but the turn; it answers with None, a text, or a
dictionary as commands answer with (`core/hook_answers.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, get_args

from .core.blocks import Json
from .core.hook_answers import (
    find_matcher_fault,
    is_matched,
    join_outcomes,
    read_answer,
    read_text,
)
from .core.ports import HookName, HookOutcome, Hooks
from .errors import PromptError

TIMEOUT_S = 60.0
"""How long a callable may take unless `add` says otherwise, in seconds."""

HookFunction: TypeAlias = Callable[[dict[str, object]], object]
F = TypeVar("F", bound=HookFunction)


@dataclass(frozen=True, slots=True)
class PythonHook:
    """A callable that runs at event `event`; `matcher` and `timeout_s` as for commands."""

    event: HookName
    function: HookFunction
    matcher: str = ""
    timeout_s: float = TIMEOUT_S

    @property
    def label(self) -> str:
        """What people are told of it: its name."""
        return str(getattr(self.function, "__qualname__", None) or repr(self.function))[:60]


class SessionHooks:
    """All hooks of a session: `commands` run first, then the callables. Implements `Hooks`."""

    def __init__(self, commands: Hooks, session_id: Callable[[], str]) -> None:
        self._commands = commands
        self._session_id = session_id
        self._callables: tuple[PythonHook, ...] = ()

    @property
    def callables(self) -> tuple[PythonHook, ...]:
        """The callables, in the order in which they were added."""
        return self._callables

    def add(self, event: str, function: F, *, matcher: str = "", timeout_s: float = TIMEOUT_S) -> F:
        """Run `function` at every `event` that `matcher` means, and return it.

        `matcher` is a regular expression for the whole of a tool's name, say; "" means every one.
        Raises PromptError: there is no such event, or the matcher is none.
        """
        names = get_args(HookName)
        if event not in names:
            raise PromptError(f"There is no event {event!r}; there are {', '.join(names)}.")
        if matcher != "*" and (fault := find_matcher_fault(matcher)):
            raise PromptError(f"The hook was not added: {fault}.")
        if not timeout_s > 0:
            raise PromptError("The hook was not added: its timeout must be seconds above 0.")
        name = next(one for one in names if one == event)
        self._callables = (*self._callables, PythonHook(name, function, matcher, timeout_s))
        return function

    def on(
        self, event: str, *, matcher: str = "", timeout_s: float = TIMEOUT_S
    ) -> Callable[[F], F]:
        """Return a decorator that adds a function as `add` does."""
        return lambda function: self.add(event, function, matcher=matcher, timeout_s=timeout_s)

    def remove(self, function: HookFunction) -> None:
        """Run `function` no more, at any event; nothing if it was not added."""
        self._callables = tuple(one for one in self._callables if one.function != function)

    async def run(self, name: HookName, payload: Json) -> HookOutcome:
        """Run the commands, then the callables one after the other, and join what they decided."""
        outcomes = [await self._commands.run(name, payload)]
        for hook in self._callables:
            if hook.event == name and is_matched(hook.matcher, name, payload):
                outcomes.append(await self._run_one(hook, payload))
        return join_outcomes(outcomes)

    async def _run_one(self, hook: PythonHook, payload: Json) -> HookOutcome:
        event = {"session_id": self._session_id(), "hook_event_name": hook.event, **payload}
        try:
            answer = await _call_aside(hook.function, copy.deepcopy(event), hook.timeout_s)
        except TimeoutError:
            text = f"`{hook.label}` took longer than {hook.timeout_s:g} s; it is not waited for."
            return HookOutcome(shown=(text,))
        except _FailedError as failed:
            return HookOutcome(shown=(f"`{hook.label}` failed: {failed.error!r}",))
        match answer:
            case None:
                return HookOutcome()
            case str():
                return read_text(hook.event, answer)
            case dict():
                return read_answer(answer)
            case _:
                kind = type(answer).__name__
                text = f"`{hook.label}` answered with {kind}; it may be None, a text or a dict."
                return HookOutcome(shown=(text,))


class _FailedError(Exception):
    """A callable raised `error`, whatever it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


async def _call_aside(function: HookFunction, event: dict[str, object], timeout_s: float) -> object:
    """Call `function` on a thread of its own and return what it returns, awaited if need be.

    Raises TimeoutError, and _FailedError if it raised. A thread cannot be ended: one that takes too
    long is left alone.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(value: object, error: BaseException | None) -> None:
        if not done.done() and error is not None:
            done.set_exception(_FailedError(error))
        elif not done.done():
            done.set_result(value)

    def work() -> None:
        value: object = None
        raised: BaseException | None = None
        try:
            value = function(event)
            if inspect.isawaitable(value):
                value = asyncio.run(_wait_for(value))
        except BaseException as error:  # whatever it is (SystemExit too), it is the answer
            raised = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits
            loop.call_soon_threadsafe(settle, value, raised)

    threading.Thread(target=work, name="jupyter_ctx hook", daemon=True).start()
    async with asyncio.timeout(timeout_s):
        return await done


async def _wait_for(value: Awaitable[object]) -> object:
    return await value
