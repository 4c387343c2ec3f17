"""Where requests go and what they are signed with, as every adapter reads it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from ..config import Settings
from ..errors import AuthError, ConfigError

PLACEHOLDER_KEY: Final = "no-key-needed"
"""Sent to a server on this machine when no key is set; the SDKs send nothing without one."""


class TextRedactor(Protocol):
    """Takes the program's own keys out of a text."""

    def text(self, text: str, /) -> str:
        """Return `text` with every key replaced."""
        ...


def name_address(name: str, settings: Settings, variable: str) -> str:
    """Return what a person checks where the address of model `name` is at fault.

    `variable` is where it is set but for the setting `base_url`; Ollama has none.
    """
    if settings.base_url.strip():
        return "the setting base_url"
    return "that Ollama runs there" if name.startswith("ollama:") else variable


def check_address(url: str, variable: str) -> str:
    """Return `url` if it is an http(s) address; `variable` is where a person would have set it.

    Raises ConfigError if it is none.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018  raises on a port that is none
    except ValueError:
        is_address = False
    if not is_address:
        shown = url.rpartition("@")[2]
        raise ConfigError(
            f"The base URL {shown!r} is no address: it must look like https://host or "
            f"http://localhost:8080; check {variable}.",
            name="base_url",
        )
    return url


def find_key(environ: Mapping[str, str], name: str) -> str | None:
    """Return the key that variable `name` holds, None if it holds none.

    Raises AuthError if it holds what no key can be; its value is not quoted.
    """
    value = environ.get(name, "").strip()
    if not value:
        return None
    if not value.isascii() or not value.isprintable() or " " in value:
        raise AuthError(f"{name} holds characters that no key has: set it again.")
    return value


def is_loopback(url: str) -> bool:
    """Say whether `url` is on this machine: localhost, 127.0.0.0/8 or ::1."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """Return `url` without what may be secret: user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl().rstrip("/")


def without_version(url: str) -> str:
    """Return a base URL without a `/v1` at its end, which Anthropic's SDK adds itself."""
    return re.sub(r"/v1/*$", "", url)


def split_query(url: str) -> tuple[str, dict[str, str]]:
    """Return `url` without its query and fragment, and the query, which goes with every request."""
    parts = urlsplit(url)
    plain = parts._replace(query="", fragment="").geturl().rstrip("/")
    return plain, dict(parse_qsl(parts.query, keep_blank_values=True))
