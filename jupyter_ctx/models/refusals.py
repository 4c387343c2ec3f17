"""What a provider's answer means, as our own errors, for every SDK.

Codes and types are matched before words, whose texts change. Every error's text is one sentence:
what happened, where, what to do next; the provider's own words follow it. All of it is redacted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from ..core.blocks import Json
from ..errors import (
    AuthError,
    ModelError,
    OverloadedError,
    PromptTooLongError,
    RateLimitedError,
    RequestRefusedError,
    RequestTooLargeError,
    StreamBrokenError,
    ThinkingRefusedError,
    UnknownModelError,
)

MOST_WORDS: Final = 500
"""Characters of the provider's own words that an error quotes."""

_STATUS_OF_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "server_error": 500,
    "unavailable_error": 503,
    "rate_limit_exceeded": 429,
    "exceed_context_size_error": 400,
    # Amazon's event stream
    "validationException": 400,
    "modelTimeoutException": 408,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "serviceUnavailableException": 503,
}
"""An error event in a stream has a type and no status of its own, or one as its code."""

# Prompt and limit, in tokens; each as some server says it. Compared with the words, commas removed.
_OVERFLOWS: Final = (
    re.compile(r"prompt is too long:? *(?P<n>\d+) *tokens? *> *(?P<m>\d+)", re.I),
    re.compile(
        r"input length and .?max_tokens.? exceed context limit: *(?P<n>\d+) *\+ *(?P<out>\d+)"
        r" *> *(?P<m>\d+)",
        re.I,
    ),
    re.compile(r"maximum context length is (?P<m>\d+).*?resulted in (?P<n>\d+)", re.I | re.S),
    re.compile(
        r"maximum context length is (?P<m>\d+).*?requested (about )?(?P<n>\d+)", re.I | re.S
    ),
    re.compile(r"maximum context length is (?P<m>\d+).*?request has (?P<n>\d+)", re.I | re.S),
    re.compile(r"maximum prompt length is (?P<m>\d+).*?contains (?P<n>\d+)", re.I | re.S),
    re.compile(r"prompt contains (?P<n>\d+) tokens.*?(?P<m>\d+) maximum context", re.I | re.S),
    re.compile(r"keep the first (?P<n>\d+) tokens.*?length of only (?P<m>\d+)", re.I | re.S),
    re.compile(r"input token count \(?(?P<n>\d+)\)? exceeds .*?(?P<m>\d+)", re.I | re.S),
    re.compile(r"request \((?P<n>\d+) tokens\) exceeds .*?context size \((?P<m>\d+)", re.I | re.S),
)
_OVERFLOW_WORDS: Final = re.compile(
    r"prompt is too long|input is too long for|maximum context length|context[_ ]length[_ ]exceeded"
    r"|exceeds? (the |max )?(available )?context (size|window|length)"
    r"|exceeded max context length|greater than the context length|context size has been exceeded"
    r"|max_tokens must be at least 1, got -|no user query found"
    r"|^request too large for \S+ .*tokens per min",
    re.I,
)
_MINUTE_WORDS: Final = re.compile(r"^request too large for \S+ .*tokens per min", re.I)
"""A prompt over what the account may send in a minute: to wait would not help, to compact does."""
_OVERFLOW_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_QUOTA_CODES: Final = re.compile(r"spend_limit|billing|insufficient_quota|not_billable|quota")
_QUOTA_WORDS: Final = re.compile(
    r"credit balance|usage limits?\b|spend(ing)? limit|exceeded your current quota|billing", re.I
)
_THINKING_WORDS: Final = re.compile(
    r"invalid .?signature.? in .?(redacted_)?thinking|thinking.{0,40} blocks? .*cannot be modified"
    r"|thinking.{0,20} block.{0,20} (is )?bound to",
    re.I | re.S,
)
"""Thinking sent back behind an edited prefix, or to another model (API.md 1)."""
BLIND_WORDS: Final = re.compile(
    r"image(s|_url)?\b.{0,40}(not supported|unsupported|not enabled|not allowed)"
    r"|(not support|no endpoints found that support).{0,20}(image|vision|multimodal)"
    r"|not a multimodal model|at most 0 image|mmproj|unknown variant .?image_url"
    r"|required for image input",
    re.I | re.S,
)
"""How servers say that a model takes no images."""
_REGION_CODES: Final = frozenset({"unsupported_region", "region_not_supported", "forbidden"})
_REGION_WORDS: Final = re.compile(
    r"(country|region|location|territory)[^.]{0,40}not supported"
    r"|(not (available|supported)|unsupported)[^.]{0,40}(country|region|location|territory)"
    r"|^request not allowed$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a call goes, for error texts: `url` without user and password, `model` as asked for.

    `key_name` is the variable the key came from; `timeout_s` is the longest silence allowed. `api`
    names the protocol, `address_name` the variable with the base URL.
    """

    url: str
    model: str
    key_name: str
    timeout_s: float
    redact: Callable[[str], str]
    api: str = "Messages API"
    address_name: str = "ANTHROPIC_BASE_URL"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A provider's error answer, taken apart; "" and None where it does not say."""

    status: int | None
    type: str = ""
    code: str = ""
    words: str = ""
    body: object = None
    retry_after_s: float | None = None
    may_retry: bool = True
    request_id: str | None = None


def read_refusal(status: int | None, body: object, response: object = None) -> Refusal:
    """Take an error answer apart: Anthropic's form, OpenAI's, FastAPI's, or any text; total."""
    headers: Mapping[str, str] = getattr(response, "headers", {})
    if isinstance(body, list) and body:
        body = body[0]  # Google's
    outer = body if isinstance(body, Mapping) else {}
    inner = outer.get("error")
    error = inner if isinstance(inner, Mapping) else outer
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else error.get("code")
    words = error.get("message") or outer.get("detail") or (inner if inner is not error else "")
    type_ = _text(error.get("type"))
    return Refusal(
        status=status if status is not None else _status_of(type_, error.get("code")),
        type=type_,
        code=_text(code),
        words=_text(words) or ("" if outer else _text(body)),
        body=error,
        retry_after_s=read_retry_after(headers, time.time()),
        may_retry=headers.get("x-should-retry") != "false",
        request_id=headers.get("request-id")
        or headers.get("x-request-id")
        or _text(outer.get("request_id"))
        or None,
    )


def _status_of(type_: str, code: object) -> int | None:
    """Return the status that an error in a stream stands for, None if it does not say."""
    is_status = isinstance(code, int) and 400 <= code < 600
    return _STATUS_OF_TYPE.get(type_) or (code if is_status else None)  # type: ignore[return-value]


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait a provider asks for, in seconds from `now` (since the epoch), ≥ 0."""
    try:
        if millis := headers.get("retry-after-ms"):
            return max(0.0, float(millis) / 1000)
        wanted = headers.get("retry-after", "")
        if not wanted:
            return None
        if re.fullmatch(r" *\d+(\.\d+)? *", wanted):
            return float(wanted)
        return max(0.0, parsedate_to_datetime(wanted).timestamp() - now)
    except (ValueError, TypeError):  # a header nobody can read is no header
        return None


def classify(refusal: Refusal, where: Where) -> ModelError:
    """Return the error that a provider's answer is. Reads as a table, the special cases first."""
    status, request_id = refusal.status, refusal.request_id
    at = f"({status})" if status is not None else "in the stream"
    if (overflow := find_overflow(refusal)) is not None:
        actual, limit = overflow
        text = _explain(_overflow_text(actual, limit, where), refusal, where)
        return PromptTooLongError(
            text, actual_tokens=actual, limit_tokens=limit, request_id=request_id
        )
    if _is_quota(refusal):
        text = f"{where.url} refused the request {at}: the account's credit or limit is used up"
        text = _explain(f"{text}; raise it there or use another key.", refusal, where)
        return RequestRefusedError(text, status=status, request_id=request_id)
    if _is_region(refusal):
        text = f"{where.url} refused the request {at}: it does not serve this region or network"
        text = _explain(f"{text}; use an endpoint that does.", refusal, where)
        return RequestRefusedError(text, status=status, request_id=request_id)
    if status in (401, 403):
        what = "the key" if status == 401 else f"this key access to {where.model}"
        text = f"{where.url} refused {what} {at}: check {where.key_name} and send the prompt again."
        return AuthError(_explain(text, refusal, where), status=status, request_id=request_id)
    if status == 404:
        return _not_found(refusal, where)
    if status == 413:
        text = (
            f"The request has more bytes than {where.url} takes {at}: /compact or start with /new."
        )
        return RequestTooLargeError(
            _explain(text, refusal, where), status=status, request_id=request_id
        )
    if status == 400 and _THINKING_WORDS.search(refusal.words):
        text = f"{where.url} refused thinking of earlier answers {at}: send the prompt again."
        return ThinkingRefusedError(
            _explain(text, refusal, where), status=status, request_id=request_id
        )
    if status == 429 or status in (408, 409) or (status or 0) >= 500:
        return _busy(refusal, where, at)
    if status is None:
        return broken(
            where, "was broken off by an error", refusal.words, "The provider", request_id
        )
    text = f"{where.url} refused the request {at}: its reason follows; /new starts over."
    return RequestRefusedError(_explain(text, refusal, where), status=status, request_id=request_id)


def find_overflow(refusal: Refusal) -> tuple[int | None, int | None] | None:
    """Return (prompt, limit) in tokens if the prompt was over the window, None if it was not.

    Each is None where the provider does not say.
    """
    if refusal.status in (401, 402, 403, 404):
        return None
    if refusal.status == 429 and not _MINUTE_WORDS.search(refusal.words):
        return None
    fields: Json = refusal.body if isinstance(refusal.body, Mapping) else {}
    actual, limit = fields.get("n_prompt_tokens"), fields.get("n_ctx")
    if isinstance(actual, int) and isinstance(limit, int):
        return actual, limit
    words = re.sub(r"(?<=\d),(?=\d)", "", refusal.words)
    for pattern in _OVERFLOWS:
        if found := pattern.search(words):
            groups = found.groupdict()
            return int(groups["n"]), int(groups["m"]) - int(groups.get("out") or 0)
    is_named = _OVERFLOW_CODES & {refusal.type, refusal.code} or _OVERFLOW_WORDS.search(words)
    return (None, None) if is_named else None


# Each kind of error ----------------------------------------------------------------------------


def _overflow_text(actual: int | None, limit: int | None, where: Where) -> str:
    figures = "" if actual is None or limit is None else f": {actual:,} tokens of {limit:,}"
    return f"The prompt is too long for {where.model}{figures}; use /compact or start with /new."


def _is_quota(refusal: Refusal) -> bool:
    if refusal.status == 402 or refusal.type == "billing_error":
        return True
    if refusal.status not in (400, 403, 429):
        return False
    is_code = bool(_QUOTA_CODES.search(refusal.code) or refusal.type == "insufficient_quota")
    return is_code or (refusal.status != 429 and bool(_QUOTA_WORDS.search(refusal.words)))


def _is_region(refusal: Refusal) -> bool:
    if refusal.status not in (400, 403, 451):
        return False
    named = bool(_REGION_CODES & {refusal.type, refusal.code})
    return named or refusal.status == 451 or bool(_REGION_WORDS.search(refusal.words.strip()))


def _not_found(refusal: Refusal, where: Where) -> ModelError:
    if refusal.type == "not_found_error" or "model" in refusal.words.lower():
        text = f"{where.url} has no model {where.model!r}: choose another with /model."
        return UnknownModelError(
            _explain(text, refusal, where), model=where.model, request_id=refusal.request_id
        )
    text = f"{where.url} has no {where.api} (404): check {where.address_name}."
    return RequestRefusedError(
        _explain(text, refusal, where), status=404, request_id=refusal.request_id
    )


def _busy(refusal: Refusal, where: Where, at: str) -> RateLimitedError:
    wait = refusal.retry_after_s
    when = "later" if wait is None else f"in {wait:.0f} s"
    is_limit = refusal.status == 429
    what = "takes no more requests now" if is_limit else "cannot answer now"
    kind = RateLimitedError if is_limit else OverloadedError
    text = _explain(f"{where.url} {what} {at}: send the prompt again {when}.", refusal, where)
    error = kind(text, retry_after_s=wait, status=refusal.status, request_id=refusal.request_id)
    error.retryable = refusal.may_retry and refusal.status != 501
    return error


def broken(
    where: Where, how: str, words: str = "", who: str = "The system", request_id: str | None = None
) -> StreamBrokenError:
    """Return the error of an answer that did not come whole; `how` goes on from "The answer".

    `words` are those of `who` found it out.
    """
    text = f"The answer from {where.url} {how}; send the prompt again."
    return StreamBrokenError(text + said(where, words, who), request_id=request_id)


# Words -----------------------------------------------------------------------------------------


def _explain(sentence: str, refusal: Refusal, where: Where) -> str:
    return sentence + said(where, refusal.words)


def said(where: Where, words: str, who: str = "The provider") -> str:
    """Return the quotation: redacted, one line, at most 500 characters; of a web page only that."""
    if re.match(r"\s*<(!doctype|html)", words, re.I):
        words = "(a web page, not an API's answer)"
    line = " ".join(where.redact(words).split())
    short = line if len(line) <= MOST_WORDS else line[:MOST_WORDS] + "…"
    return f" {who} said: {short}" if short else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
