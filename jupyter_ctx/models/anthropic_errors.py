"""Whatever Anthropic's SDK, its transport or the API's answer can raise, as our own errors."""

from __future__ import annotations

from ..errors import AuthError, CtxError
from .refusals import Where, said
from .sdk_errors import translate_sdk


def translate(error: Exception, where: Where, *, is_started: bool = False) -> CtxError | None:
    """Return the error of ours that `error` is; None if it is none of SDK, transport or wire.

    `is_started`: an answer was arriving, so that what fails now broke it off.
    """
    import anthropic

    if isinstance(error, (anthropic.CredentialsError, anthropic.WorkloadIdentityError)):
        text = f"The credentials for {where.url} cannot be used: set ANTHROPIC_API_KEY."
        return AuthError(text + said(where, str(error), "The SDK"))
    return translate_sdk(error, where, anthropic, anthropic.AnthropicError, is_started=is_started)
