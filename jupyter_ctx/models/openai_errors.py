"""Whatever OpenAI's SDK, its transport or a compatible server can raise, as our own errors."""

from __future__ import annotations

from json import JSONDecodeError

from ..errors import CtxError, RequestRefusedError
from .refusals import Refusal, Where, broken, classify, from_transport, read_refusal, said


def translate(error: Exception, where: Where, *, is_started: bool = False) -> CtxError | None:
    """Return the error of ours that `error` is; None if it is none of SDK, transport or wire.

    `is_started`: an answer was arriving, so that what fails now broke it off.
    """
    import httpx2
    import openai

    match error:
        case CtxError():
            return error
        case openai.APIStatusError():
            return classify(read(error.status_code, error.body, error.response), where)
        case openai.APIConnectionError():
            return from_transport(error.__cause__ or error, where, is_started)
        case openai.APIResponseValidationError() | UnicodeDecodeError() | JSONDecodeError():
            return broken(where, f"is none of the {where.api}", str(error), "The SDK")
        case httpx2.HTTPError() | httpx2.InvalidURL() | httpx2.StreamError() | OSError():
            return from_transport(error, where, is_started)
        case openai.OpenAIError() | httpx2.CookieConflict():
            text = f"The request to {where.url} could not be made: look at /doctor."
            return RequestRefusedError(text + said(where, str(error), "The SDK"))
        case _:
            return None


def read(status: int | None, body: object, response: object = None) -> Refusal:
    """Take an error answer apart; Gemini's comes as the one item of a list."""
    if isinstance(body, list) and body:
        body = body[0]
    return read_refusal(status, body, response)
