"""Whatever Anthropic's SDK, its transport or the API's answer can raise, as our own errors."""

from __future__ import annotations

from json import JSONDecodeError

from ..errors import AuthError, CtxError, RequestRefusedError
from .refusals import Where, broken, classify, from_transport, read_refusal, said


def translate(error: Exception, where: Where, *, is_started: bool = False) -> CtxError | None:
    """Return the error of ours that `error` is; None if it is none of SDK, transport or wire.

    `is_started`: an answer was arriving, so that what fails now broke it off.
    """
    import anthropic
    import httpx2

    match error:
        case CtxError():
            return error
        case anthropic.APIStatusError():
            return classify(read_refusal(error.status_code, error.body, error.response), where)
        case anthropic.APIConnectionError():
            return from_transport(error.__cause__ or error, where, is_started)
        case anthropic.APIResponseValidationError() | UnicodeDecodeError() | JSONDecodeError():
            return broken(where, f"is none of the {where.api}", str(error), "The SDK")
        case anthropic.CredentialsError() | anthropic.WorkloadIdentityError():
            text = f"The credentials for {where.url} cannot be used: set ANTHROPIC_API_KEY."
            return AuthError(text + said(where, str(error), "The SDK"))
        case httpx2.HTTPError() | httpx2.InvalidURL() | httpx2.StreamError() | OSError():
            return from_transport(error, where, is_started)
        case anthropic.AnthropicError() | httpx2.CookieConflict():
            text = f"The request to {where.url} could not be made: look at /doctor."
            return RequestRefusedError(text + said(where, str(error), "The SDK"))
        case _:
            return None
