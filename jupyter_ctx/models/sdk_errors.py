"""Whatever an SDK or its transport can raise, as our own errors.

Both SDKs are made by one generator: their errors have the same names and both send through httpx2.
What a provider's answer means is a matter of `refusals`.
"""

from __future__ import annotations

import os
from json import JSONDecodeError
from typing import Any

from ..errors import ConfigError, CtxError, OverloadedError, RequestRefusedError, UnreachableError
from .refusals import Where, broken, classify, read_refusal, said


def translate_sdk(
    error: Exception, where: Where, sdk: Any, base: type[Exception], *, is_started: bool
) -> CtxError | None:
    """Return the error of ours that `error` is; None if it is none of SDK, transport or wire.

    `sdk` is the SDK's module and `base` the root of its errors. `is_started`: an answer was
    arriving, so that what fails now broke it off.
    """
    import httpx2

    match error:
        case CtxError():
            return error
        case sdk.APIStatusError():
            return classify(read_refusal(error.status_code, error.body, error.response), where)
        case sdk.APIConnectionError():
            return from_transport(error.__cause__ or error, where, is_started)
        case sdk.APIResponseValidationError() | UnicodeDecodeError() | JSONDecodeError():
            return broken(where, f"is none of the {where.api}", str(error), "The SDK")
        case httpx2.HTTPError() | httpx2.InvalidURL() | httpx2.StreamError() | OSError():
            return from_transport(error, where, is_started)
        case base() | httpx2.CookieConflict():
            text = f"The request to {where.url} could not be made: look at /doctor."
            return RequestRefusedError(text + said(where, str(error), "The SDK"))
        case _:
            return None


def from_transport(error: BaseException, where: Where, is_started: bool) -> CtxError:
    """Return what a failed connection means: none was made, nothing came, or it broke off."""
    import httpx2

    reason = _reason(error)
    if is_started and isinstance(error, httpx2.TimeoutException):
        return broken(where, f"broke off: nothing came for {where.timeout_s:g} s", "")
    if is_started:
        return broken(where, "broke off", reason)
    match error:
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            text = f"{where.url} is no address a provider can have: check {where.address_name}."
            return ConfigError(text + said(where, reason, "The SDK"), name="base_url")
        case httpx2.LocalProtocolError():
            text = f"The request to {where.url} could not be sent: check {where.key_name}."
            return RequestRefusedError(text + said(where, reason, "The SDK"))
        case httpx2.ReadTimeout() | httpx2.WriteTimeout() | httpx2.PoolTimeout():
            text = f"{where.url} was silent for {where.timeout_s:g} s: send the prompt again later."
            return OverloadedError(text, status=None)
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError() | OSError():
            text = f"No connection to {where.url}: check the network and {where.address_name}."
            return UnreachableError(text + said(where, reason, "The system"), url=where.url)
        case _:
            return broken(where, "did not come: the connection failed", reason)


def _reason(error: BaseException) -> str:
    """Return the innermost reason the system gave, such as "Connection refused"."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    inner = error.__cause__ or next(iter(error.args), None)
    if isinstance(inner, BaseException):
        return _reason(inner)
    if isinstance(error, (ConnectionError, TimeoutError)) and error.errno is not None:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
