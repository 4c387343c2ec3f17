"""Every error this package raises on purpose.

CtxError
├─ ConfigError              a setting is wrong; carries `name`
├─ PromptError              this prompt cannot be run (empty, unknown command); nothing was sent
├─ BusyError                a turn is running in this kernel already
├─ ModelError               the call failed; carries `status`, `request_id`, `retryable`
│  ├─ AuthError             no key, or the key was refused
│  ├─ UnknownModelError     the provider has no such model; carries `model`
│  ├─ UnreachableError      no connection; carries `url`
│  ├─ RateLimitedError      429; carries `retry_after_s`
│  ├─ OverloadedError       529 or 5xx; carries `retry_after_s`
│  ├─ PromptTooLongError    over the window; carries `actual_tokens`, `limit_tokens` or None
│  ├─ RequestTooLargeError  413, over the byte limit
│  ├─ ThinkingRefusedError  thinking that was sent back is refused where it stands now
│  ├─ RequestRefusedError   any other 4xx: quota, region, a request the provider finds invalid
│  └─ StreamBrokenError     the stream ended before `message_stop`, or was no valid stream
├─ CompactionError          the summary failed; the transcript is unchanged
├─ UndoError                an edit cannot be put back; what stands there stays as it is
├─ StoreError               no such session, or a bad line; carries `path`, `line_no`
└─ ToolError                shown to the model as an error tool_result; never ends the turn
   └─ UnreadError           a change was handed to the front end and cannot be read back

The text of an error is one sentence a person can act on: what, where, what to do next.
"""

from __future__ import annotations


class CtxError(Exception):
    """The base of all of them: `except CtxError` catches what this package reports."""


class ConfigError(CtxError):
    """A setting has no such name or no such value; `name` is the setting."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class PromptError(CtxError):
    """The prompt was not run and nothing was sent; the text says how to write it."""


class BusyError(CtxError):
    """One turn at a time runs in a kernel; this one was refused."""


class ModelError(CtxError):
    """The provider's call failed.

    `status` is the HTTP status, None if there was no answer; `request_id` is the provider's.
    `retryable` says whether the same bytes may be sent again.
    """

    retryable = False

    def __init__(
        self, message: str, *, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class AuthError(ModelError):
    """No key is set, or the provider refused it (401, 403)."""


class UnknownModelError(ModelError):
    """The provider has no model of that name (404); `model` is the name."""

    def __init__(self, message: str, *, model: str, request_id: str | None = None) -> None:
        super().__init__(message, status=404, request_id=request_id)
        self.model = model


class UnreachableError(ModelError):
    """No connection to the provider; `url` is where it was looked for."""

    retryable = True

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class RateLimitedError(ModelError):
    """Too many requests (429); `retry_after_s` is the provider's wish, None when unsaid."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        status: int | None = 429,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id)
        self.retry_after_s = retry_after_s


class OverloadedError(RateLimitedError):
    """The provider cannot answer now (408, 409, 5xx, 529)."""


class PromptTooLongError(ModelError):
    """The prompt is over the window: `actual_tokens` of `limit_tokens`, None when unsaid."""

    def __init__(
        self,
        message: str = "prompt is too long",
        *,
        actual_tokens: int | None = None,
        limit_tokens: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, status=400, request_id=request_id)
        self.actual_tokens = actual_tokens
        self.limit_tokens = limit_tokens


class RequestTooLargeError(ModelError):
    """The request's bytes are over the provider's limit (413); tokens are not the matter."""


class ThinkingRefusedError(ModelError):
    """Thinking that was sent back is refused (400): what stands before it has changed.

    The same messages without their thinking may be sent.
    """


class RequestRefusedError(ModelError):
    """The provider refused the request for another reason (4xx)."""


class StreamBrokenError(ModelError):
    """The stream ended before `message_stop`; nothing of it may be kept as a whole message."""

    retryable = True


class CompactionError(CtxError):
    """No usable summary came; the transcript is unchanged."""


class UndoError(CtxError):
    """An edit of the agent cannot be put back: the text says why, and how to go on."""


class StoreError(CtxError):
    """The store could not be read or written; `path` and `line_no` (from 1) say where."""

    def __init__(
        self, message: str, *, path: str | None = None, line_no: int | None = None
    ) -> None:
        super().__init__(message)
        self.path = path
        self.line_no = line_no


class ToolError(CtxError):
    """A tool could not do what was asked; the text goes to the model as an error result."""


class UnreadError(ToolError):
    """A change was handed to the front end, which may make it later; it cannot be read back.

    The text says so, and what to do by hand if it does not come.
    """
