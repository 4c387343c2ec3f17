"""Completes commands behind `%agent /` and their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

_BEGUN = re.compile(r"\s*%%?agent\s+(/\w*(?:\s+\S*)?)$")


def make_matcher(
    complete: Callable[[str], Iterable[str]],
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return a matcher for IPython's completer; `complete` gets the text from the slash on.

    It returns what the last word may become. Other lines are left alone.
    """

    @context_matcher(identifier="jupyter_ctx")  # type: ignore[untyped-decorator]  # IPython's
    def match(context: CompletionContext) -> SimpleMatcherResult:
        begun = _BEGUN.match(context.line_with_cursor[: context.cursor_position])
        if begun is None:
            return SimpleMatcherResult(completions=[], suppress=False)
        word = re.split(r"\s+", begun[1])[-1]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type="command") for text in complete(begun[1])],
            matched_fragment=word,
            suppress=True,
        )

    result: Callable[[CompletionContext], SimpleMatcherResult] = match
    return result
