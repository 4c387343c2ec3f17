"""What a hook answers, as a value; and which calls it is asked about. Pure.

The JSON is that of Claude Code, as far as it can be kept here: a hook may forbid, add words, and
end the turn. It never allows what would be asked about. Nor does it change a call, for the log has
the call as the model made it; a hook that wants that, or the user asked, is taken to forbid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import get_args

from .blocks import Json
from .ports import HookName, HookOutcome

HOOK_NAMES: tuple[HookName, ...] = get_args(HookName)

NO_REASON = "It gave no reason."
ASKS_TEXT = "It wants the user asked first, and only the permission mode decides who is asked."
CHANGES_TEXT = "It wants another input for the call, and a call is never changed."

_SUBJECTS: Mapping[HookName, str] = {
    "SessionStart": "source",
    "PreToolUse": "tool_name",
    "PostToolUse": "tool_name",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "SessionEnd": "reason",
}
_TELLS_PLAINLY = ("SessionStart", "UserPromptSubmit", "PreCompact")
"""Events whose hooks speak to the model by what they print."""


def find_matcher_fault(matcher: str) -> str:
    """Return why `matcher` cannot be used, "" if it can."""
    try:
        re.compile(matcher)
    except (re.error, OverflowError, RecursionError) as error:
        return f"its matcher is no regular expression ({error})"
    return ""


def is_matched(matcher: str, name: HookName, payload: Json) -> bool:
    """Say whether a hook of event `name` is meant by this payload.

    `matcher` is a regular expression for the whole of the tool's name, the source, the trigger
    (`auto` is any but `manual`) or the reason; "" and `*` match all. Events without one match all.
    """
    subject = _SUBJECTS.get(name)
    if subject is None or matcher in ("", "*"):
        return True
    words = [str(payload.get(subject, ""))]
    if subject == "trigger" and words != ["manual"]:
        words.append("auto")
    return any(re.fullmatch(matcher, word) is not None for word in words)


def read_answer(answer: Json) -> HookOutcome:
    """Return what the JSON that a hook answered with decides. Total: what it does not know is left.

    Known are `continue`, `stopReason`, `decision`, `reason`, `systemMessage`, `additionalContext`,
    and in `hookSpecificOutput` `permissionDecision`, `permissionDecisionReason`, `updatedInput` and
    `additionalContext`.
    """
    inner = answer.get("hookSpecificOutput")
    inner = inner if isinstance(inner, Mapping) else {}
    context = (_text(answer, "additionalContext"), _text(inner, "additionalContext"))
    return HookOutcome(
        blocked_by=_blocks(answer, inner),
        context="\n".join(filter(None, context)),
        shown=tuple(filter(None, [_text(answer, "systemMessage")])),
        ended_by=_reason(answer, "stopReason") if answer.get("continue") is False else None,
    )


def _blocks(answer: Json, inner: Json) -> str | None:
    """Return why the hook forbids what was about to happen, None if it does not."""
    if answer.get("decision") in ("block", "deny"):
        return _reason(answer, "reason")
    decision = inner.get("permissionDecision")
    if decision == "deny":
        return _reason(inner, "permissionDecisionReason")
    if decision == "ask":
        return " ".join(filter(None, [ASKS_TEXT, _text(inner, "permissionDecisionReason")]))
    return CHANGES_TEXT if isinstance(inner.get("updatedInput"), Mapping) else None


def _reason(answer: Json, name: str) -> str:
    return _text(answer, name) or NO_REASON


def _text(answer: Json, name: str) -> str:
    found = answer.get(name)
    return found.strip() if isinstance(found, str) else ""


def read_text(name: HookName, text: str) -> HookOutcome:
    """Return what plain text decides that a hook answered with: words for the model, or nothing."""
    return HookOutcome(context=text.strip() if name in _TELLS_PLAINLY else "")


def join_outcomes(outcomes: Iterable[HookOutcome]) -> HookOutcome:
    """Return what several hooks decided together: one that forbids is enough."""
    found = list(outcomes)
    blocked = [one.blocked_by for one in found if one.blocked_by is not None]
    ended = [one.ended_by for one in found if one.ended_by is not None]
    return HookOutcome(
        blocked_by="\n".join(dict.fromkeys(blocked)) if blocked else None,
        context="\n\n".join(one.context for one in found if one.context.strip()),
        shown=tuple(line for one in found for line in one.shown),
        ended_by="\n".join(dict.fromkeys(ended)) if ended else None,
    )
