"""What a provider's answer means, as our own errors, for every SDK.

Codes and types are matched before words, whose texts change. Every error's text is one sentence:
what happened, where, what to do next; the provider's own words follow it. All of it is redacted.
"""

from __future__ import annotations

import json
import math
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
    # OpenAI's codes
    "invalid_api_key": 401,
    "insufficient_quota": 429,
    "model_not_found": 404,
    # Amazon's event stream
    "validationException": 400,
    "modelTimeoutException": 408,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "serviceUnavailableException": 503,
}
"""An error event in a stream has a type and no status of its own, or one as its code."""

_TRY_AGAIN: Final = re.compile(
    r"try again in (?=\d)((?P<h>\d{1,4})h)?((?P<m>\d{1,4})m(?!s))?((?P<s>\d{1,6}(\.\d{1,9})?)s)?"
    r"((?P<ms>\d{1,9}(\.\d{1,9})?)ms)?",
    re.I,
)

# Prompt, longest answer and window, where both together were too much; as above.
_TOO_LONG_TOGETHER: Final = (
    re.compile(
        r"maximum context length is (?P<m>\d+).*?requested (about )?(?P<all>\d+) tokens"
        r".*?(?P<out>\d+) in the (completion|output)",
        re.I | re.S,
    ),
    re.compile(
        r"is too large: (?P<out>\d+).*?maximum context length is (?P<m>\d+)"
        r".*?request has (?P<n>\d+)",
        re.I | re.S,
    ),
    re.compile(
        r"maximum context length of (?P<m>\d+).*?total of (?P<all>\d+) tokens"
        r".*?(?P<out>\d+) tokens for the completion",
        re.I | re.S,
    ),
    re.compile(
        r"must be <= (?P<m>\d+)\. given: (?P<n>\d+) .{0,40}? and (?P<out>\d+) .?max_new_tokens",
        re.I | re.S,
    ),
)

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
    re.compile(r"input token count is (?P<n>\d+) but .{0,40}?up to (?P<m>\d+)", re.I | re.S),
    re.compile(r"prompt is too long: (?P<n>\d+), .{0,40}?context length: (?P<m>\d+)", re.I),
    re.compile(r"current length is (?P<n>\d+) while limit is (?P<m>\d+)", re.I),
    re.compile(r"input \((?P<n>\d+) tokens\) is longer than .*?\((?P<m>\d+) tokens", re.I | re.S),
    re.compile(r"token limit: (?P<m>\d+) \(requested: (?P<n>\d+)\)", re.I),
    re.compile(r"cannot exceed (?P<m>\d+) - received (?P<n>\d+)", re.I),
    re.compile(r"request body too large .{0,80}?max size: (?P<m>\d+) tokens", re.I | re.S),
    re.compile(r"range of input length should be \[\d+ *, *(?P<m>\d+)\]", re.I),
    re.compile(r"request \((?P<n>\d+) tokens\) exceeds .*?context size \((?P<m>\d+)", re.I | re.S),
)
_OVERFLOW_WORDS: Final = re.compile(
    r"prompt is too long|input is too long for|maximum context length|context[_ ]length[_ ]exceeded"
    r"|exceeds? (the |max )?(available )?context (size|window|length)"
    r"|longer than the model's context length|exceeded model token limit"
    r"|range of input length should be|prompt exceeds max length|context window exceeds limit"
    r"|too many tokens: total number of tokens in the prompt"
    r"|request body too large .{0,80}max size: \d+ tokens"
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
    location: str = ""


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
    said_ = _words(words) or ("" if outer else _text(body))
    if raw := _raw_words(error):
        said_ = f"{said_}: {raw}" if said_ else raw
    type_ = _text(error.get("type"))
    wait = read_retry_after(headers, time.time())
    return Refusal(
        status=status if status is not None else _status_of(type_, error.get("code")),
        type=type_,
        code=_text(code),
        words=said_,
        body=error,
        retry_after_s=_wait_told(details, said_) if wait is None else wait,
        may_retry=headers.get("x-should-retry") != "false",
        request_id=headers.get("request-id")
        or headers.get("x-request-id")
        or _text(outer.get("request_id"))
        or None,
        location=headers.get("location", ""),
    )


def _status_of(type_: str, code: object) -> int | None:
    """Return the status that an error in a stream stands for, None if it does not say."""
    if isinstance(code, str) and re.fullmatch(r"[45]\d\d", code):
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        return _STATUS_OF_TYPE.get(type_, code)
    return _STATUS_OF_TYPE.get(_text(code)) or _STATUS_OF_TYPE.get(type_)


def _words(value: object) -> str:
    """Return a server's words; what is no text, such as a list of invalid fields, as JSON."""
    if isinstance(value, (Mapping, list)) and value:
        return json.dumps(value, ensure_ascii=False, default=str)
    return _text(value)


def _raw_words(error: Json) -> str:
    """Return what the provider behind a gateway said, as OpenRouter hands it on."""
    metadata = error.get("metadata")
    return _words(metadata.get("raw")) if isinstance(metadata, Mapping) else ""


def _wait_told(details: object, words: str) -> float | None:
    """Return the wait that an error's body asks for, in seconds: Google's, or in OpenAI's words."""
    for detail in details if isinstance(details, list) else ():
        told = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(told, str) and (found := re.fullmatch(r"(\d{1,9}(\.\d{1,9})?)s", told)):
            return float(found[1])
    if (found := _TRY_AGAIN.search(words)) is None:
        return None
    hours, minutes, seconds, millis = (float(found[name] or 0) for name in ("h", "m", "s", "ms"))
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait a provider asks for, in seconds from `now` (since the epoch), ≥ 0, finite."""
    try:
        wait = _wait_in(headers, now)
    except (ValueError, TypeError, OverflowError):  # a header nobody can read is no header
        return None
    return wait if wait is None or math.isfinite(wait) else None


def _wait_in(headers: Mapping[str, str], now: float) -> float | None:
    if millis := headers.get("retry-after-ms"):
        return max(float(millis) / 1000, 0.0)
    wanted = headers.get("retry-after", "")
    if not wanted:
        return None
    if re.fullmatch(r" *\d+(\.\d+)? *", wanted):
        return float(wanted)
    return max(0.0, parsedate_to_datetime(wanted).timestamp() - now)


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
    if status in (301, 302, 303, 307, 308):
        text = f"{where.url} answered {at} that it is elsewhere: {_elsewhere(refusal, where)}"
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
    words = _plain_figures(refusal.words)
    if (together := _find_together(words)) is not None:
        prompt, _, window = together
        return (prompt, window) if prompt > window else (None, window)
    for pattern in _OVERFLOWS:
        if found := pattern.search(words):
            groups = found.groupdict()
            actual = int(groups["n"]) if groups.get("n") else None
            return actual, int(groups["m"]) - int(groups.get("out") or 0)
    is_named = _OVERFLOW_CODES & {refusal.type, refusal.code} or _OVERFLOW_WORDS.search(words)
    return (None, None) if is_named else None


def find_room(words: str) -> int | None:
    """Return how many tokens are left for an answer, where only prompt and answer together were
    over the window; None where it was anything else.
    """
    together = _find_together(_plain_figures(words))
    if together is None:
        return None
    prompt, _, window = together
    return window - prompt if window > prompt else None


def _plain_figures(words: str) -> str:
    """Return `words`, figures without commas, and without those that count no tokens."""
    return re.sub(r"\d{13,}", "", re.sub(r"(?<=\d),(?=\d)", "", words))


def _find_together(words: str) -> tuple[int, int, int] | None:
    """Return prompt, longest answer and window if `words` say that the two do not fit."""
    for pattern in _TOO_LONG_TOGETHER:
        if found := pattern.search(words):
            told = {name: int(digits) for name, digits in found.groupdict().items()}
            prompt = told["n"] if "n" in told else told["all"] - told["out"]
            return prompt, told["out"], told["m"]
    return None


def _elsewhere(refusal: Refusal, where: Where) -> str:
    place = refusal.location.rpartition("@")[2] or "it does not say where"
    return f"if that is right, set {where.address_name} to it.{said(where, place)}"


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
