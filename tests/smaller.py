"""A case that fails, made small: fewer acts, answers and parts, as long as it still fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from tests.fake_anthropic import Reply, Text, Thinking
from tests.laws import Case
from tests.sequences import Act, Compact, Piece, Turn

T = TypeVar("T")
LONG = re.compile(r"([^'\"]{60})[^'\"]{60,}")


def hold(case: Case, check: Callable[[Case], object]) -> None:
    """Check a case; raise AssertionError with the smallest one found that fails the same way."""
    try:
        check(case)
    except Exception as error:
        kind = type(error)

        def fails(less: Case) -> bool:
            try:
                check(less)
            except kind:
                return True
            return False

        small = smallest(case, fails)
        raise AssertionError(f"{kind.__name__}: {error}\n{describe(small)}") from error


def smallest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a case that fails and has nothing that could be left out, one thing at a time."""
    while (less := next(filter(fails, _smaller(case)), None)) is not None:
        case = less
    return case


def describe(case: Case) -> str:
    """Return a case as a person reads it: one act a line."""
    lines = [f"{case.windows=} {case.compaction=} {case.seed=} {dict(case.settings)=}"]
    return "\n  ".join([*lines, *(LONG.sub(r"\1…", repr(act)) for act in case.acts)])


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases that are a little smaller, those that are much smaller first."""
    acts = case.acts
    for fewer in _fewer(acts):
        yield replace(case, acts=fewer)
    for index, act in enumerate(acts):
        for less in _simpler(act):
            yield replace(case, acts=(*acts[:index], less, *acts[index + 1 :]))


def _fewer(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
        size //= 2


def _simpler(act: Act) -> Iterator[Act]:
    match act:
        case Turn(prompt=prompt, answers=answers):
            yield from _without_faults(act)
            if prompt.chars > 1:
                yield replace(act, prompt=Piece(prompt.kind, 1))
            for fewer in _fewer(answers):
                yield replace(act, answers=fewer)
            for index, answer in enumerate(answers):
                for less in _shorter(answer):
                    yield replace(act, answers=(*answers[:index], less, *answers[index + 1 :]))
        case Compact():
            yield from _without_faults(act)
        case _:
            pass


def _without_faults(act: Turn | Compact) -> Iterator[Act]:
    if act.stop is not None:
        yield replace(act, stop=None)
    for fewer in _fewer(act.summaries):
        yield replace(act, summaries=fewer)


def _shorter(answer: Any) -> Iterator[Any]:
    if isinstance(answer, Reply):
        parts = answer.parts
        for fewer in _fewer(parts):
            yield replace(answer, parts=fewer)
        for index, part in enumerate(parts):
            if isinstance(part, Text | Thinking) and len(part.text) > 1:
                half = replace(part, text=part.text[: len(part.text) // 2])
                yield replace(answer, parts=(*parts[:index], half, *parts[index + 1 :]))
