"""The provider's errors, as raised inside the fake and as they go over the wire."""

from __future__ import annotations

from collections.abc import Mapping

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ApiError(Exception):
    """One refused or failed request: an HTTP status and the error object of its body.

    `type` defaults to the status's own; `details` (with an `error_code`) is left out when None.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str | None = None,
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or TYPES.get(status, "api_error")
        self.details = details
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, object]:
        """Return the JSON body."""
        error: dict[str, object] = {"type": self.type, "message": self.message}
        if self.details is not None:
            error["details"] = dict(self.details)
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(path: str, message: str) -> ApiError:
    """Return a 400 that names the place in the body."""
    return ApiError(400, f"{path}: {message}" if path else message)
