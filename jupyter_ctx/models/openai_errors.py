"""Whatever OpenAI's SDK, its transport or a compatible server can raise, as our own errors."""

from __future__ import annotations

from ..errors import CtxError
from .refusals import Where
from .sdk_errors import translate_sdk


def translate(error: Exception, where: Where, *, is_started: bool = False) -> CtxError | None:
    """Return the error of ours that `error` is; None if it is none of SDK, transport or wire.

    `is_started`: an answer was arriving, so that what fails now broke it off.
    """
    import openai

    return translate_sdk(error, where, openai, openai.OpenAIError, is_started=is_started)
