"""What settings files and `.mcp.json` say of MCP servers: read, checked, and variables put in.

An entry is read without looking at the environment, so that it can be shown as it was written;
`${NAME}` and `${NAME:-default}` are put in only when the server is about to be reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from ..core.redact import secrets_from
from ..errors import ToolError
from .mcp_words import clean_words

CALL_S = 120.0
"""How long one call may take unless the entry says another `timeout`, in seconds."""

MOST_CALL_S = 86_400.0
"""The longest `timeout` an entry may give, in seconds: a day."""

NAME_CHARS = 40
"""So much of a server's name is shown and stands in its tools' names, in characters."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp")


@dataclass(frozen=True, slots=True)
class Entry:
    """One server as a file names it: a command with its arguments, or a URL with its headers.

    `source` says where it stands, in words; `folder` is where its child process runs, "": in the
    project's. `call_s` is how long one call may take, in seconds.
    `fault` says in a clause why it cannot be used, "" if it can; `is_off`: the file turns it off.
    """

    name: str
    source: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    call_s: float = CALL_S
    is_off: bool = False
    fault: str = ""
    folder: str = ""

    @property
    def target(self) -> str:
        """What is started or reached, as it was written; neither environment nor headers."""
        return self.url or " ".join([self.command, *self.args])


def read_entries(
    found: Iterable[tuple[str, object]], folders: Mapping[str, str] | None = None
) -> tuple[Entry, ...]:
    """Return the servers of several files, sorted by name; of equal names the first counts.

    Each item is where it stands, and the value of `mcpServers` there. What is no entry becomes one
    with a fault: nothing is passed over unsaid. `folders` says of a place where its
    servers run.
    """
    entries: dict[str, Entry] = {}
    for source, servers in found:
        if not isinstance(servers, Mapping):
            fault = "`mcpServers` must be an object of servers by name"
            entries.setdefault("mcpServers", Entry("mcpServers", source, fault=fault))
            continue
        for name, raw in servers.items():
            shown = " ".join(clean_words(str(name)).split())[:NAME_CHARS] or "unnamed"
            entry = replace(_read(shown, source, raw), folder=(folders or {}).get(source, ""))
            entries.setdefault(shown, entry)
    return tuple(entries[name] for name in sorted(entries))


def _read(name: str, source: str, raw: object) -> Entry:
    try:
        return _parse(name, source, raw)
    except ValueError as error:
        return Entry(name, source, fault=str(error))


def _parse(name: str, source: str, raw: object) -> Entry:
    """Return the entry. Raises ValueError with a clause that says what is wrong."""
    if not isinstance(raw, Mapping):
        raise ValueError("it must be an object with `command` or `url`")
    kind = raw.get("type", "http" if "url" in raw else "stdio")
    entry = Entry(name, source, call_s=_seconds(raw), is_off=raw.get("disabled") is True)
    if kind == "stdio":
        return replace(
            entry,
            command=_text(raw, "command"),
            args=_texts(raw, "args"),
            env=_table(raw, "env"),
            cwd=_text(raw, "cwd") if "cwd" in raw else "",
        )
    if kind in _HTTP_TYPES:
        return replace(entry, url=_text(raw, "url"), headers=_table(raw, "headers"))
    if kind == "sse":
        raise ValueError('the type "sse" is not supported; use "http" if the server has it')
    raise ValueError(f'its type is {str(kind)[:40]!r}; use "stdio" or "http"')


def _text(raw: Mapping[Any, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"`{key}` must be a text that is not empty")
    return value


def _texts(raw: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"`{key}` must be a list of texts")
    if any("\0" in one for one in value):
        raise ValueError(f"`{key}` holds a NUL character")
    return tuple(value)


def _table(raw: Mapping[Any, Any], key: str) -> Mapping[str, str]:
    value = raw.get(key, {})
    if not isinstance(value, Mapping):
        raise ValueError(f"`{key}` must be an object of texts")
    for name, text in value.items():
        if not isinstance(text, str) or "\0" in text or not name or "=" in name or "\0" in name:
            raise ValueError(f"`{key}` must be an object of texts")
    return dict(value)


def _seconds(raw: Mapping[Any, Any]) -> float:
    value = raw.get("timeout", CALL_S)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MOST_CALL_S:
        raise ValueError(f"`timeout` must be a number of seconds, at most {MOST_CALL_S:,.0f}")
    return float(value)


# Variables --------------------------------------------------------------------------------------

FOLDER_VARIABLES = ("JUPYTER_CTX_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
"""What an entry may name the project's folder by, as hooks do."""


def expand(entry: Entry, environ: Mapping[str, str]) -> Entry:
    """Return the entry with variables put in, ready to be reached.

    Raises ToolError with a clause: a variable that is not set and has no default, a value that is a
    key of the program itself (it goes to no server), or a URL that is none.
    """

    def put(text: str) -> str:
        return _VARIABLE.sub(lambda match: _value(match, environ), text)

    entry = replace(
        entry,
        command=put(entry.command),
        args=tuple(map(put, entry.args)),
        env={name: put(value) for name, value in entry.env.items()},
        cwd=put(entry.cwd),
        url=put(entry.url),
        headers={name: put(value) for name, value in entry.headers.items()},
    )
    _refuse_own_keys(entry, environ)
    if entry.url:
        _check_url(entry)
    return entry


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = match[1], match[2]
    value = environ.get(name)
    if value or (value is not None and default is None):
        return value
    if default is not None:
        return default
    raise ToolError(f"the environment variable {name} is not set")


def _refuse_own_keys(entry: Entry, environ: Mapping[str, str]) -> None:
    texts = (entry.command, entry.url, entry.cwd, *entry.args)
    texts = (*texts, *entry.env.values(), *entry.headers.values())
    for name, secret in secrets_from(environ).items():
        if any(secret in text for text in texts):
            raise ToolError(f"it would be given {name}, which is this program's own key")


def _check_url(entry: Entry) -> None:
    try:
        parts = urlsplit(entry.url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ToolError("`url` must begin with http:// or https://")
    for name, value in entry.headers.items():
        if not f"{name}{value}".isprintable() or not f"{name}{value}".isascii():
            raise ToolError(f"the header {name[:40]!r} holds a character that no header may")
