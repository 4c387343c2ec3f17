"""Headers, size and JSON: what is checked before the body is understood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import ApiError, invalid

MAX_BODY_BYTES = 32 * 1024 * 1024
VERSION = "2026-10-21"
OLD_VERSION = "2023-06-01"


def check_headers(headers: Mapping[str, str], api_key: str | None) -> frozenset[str]:
    """Check key and version; return the beta names. Raises ApiError."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    if api_key is not None and api_key not in (bearer, headers.get("x-api-key")):
        raise ApiError(401, "invalid x-api-key")
    version = headers.get("anthropic-version")
    if version is None:
        raise invalid("anthropic-version", "header is required")
    if version not in (VERSION, OLD_VERSION):
        raise invalid("anthropic-version", f'"{version}" is not a valid version')
    betas = headers.get("anthropic-beta", "").split(",")
    return frozenset(name.strip() for name in betas if name.strip())


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the body as an object. Raises ApiError: too large, no JSON, lone surrogates."""
    if len(body) > MAX_BODY_BYTES:
        raise ApiError(413, "Request exceeds the maximum size")
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise invalid("", f"The request body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise invalid("", "Input should be a valid dictionary")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
