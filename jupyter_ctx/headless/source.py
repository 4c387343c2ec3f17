"""A stored session as it is exported without a kernel: only read, so it may be open in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from .._version import __version__
from ..errors import StoreError

if TYPE_CHECKING:
    from ..config import Settings
    from ..export.source import Source


def load_source(
    session_id: str, settings: Settings, environ: Mapping[str, str], err: TextIO
) -> Source:
    """Return what is stored of a session; lines that cannot be read are told on `err`.

    Its redactor takes out the program's keys, and known shapes where `settings` asks for that.
    Raises StoreError if nothing of it can be read.
    """
    from ..config import find_home
    from ..core.redact import Redactor, secrets_from
    from ..export.source import Source
    from ..store.jsonl import load_entries
    from ..store.metadata import build_info
    from ..store.open_session import OpenSession
    from ..store.sessions import transcript_file

    home = find_home(settings)
    path = transcript_file(home, session_id)
    loaded = load_entries(path)
    err.writelines(f"{warning}\n" for warning in loaded.warnings)
    if not loaded.entries:
        raise StoreError(f"Nothing of session {session_id} can be read.", path=str(path))
    info = build_info(session_id, loaded.entries)
    stored = OpenSession(home, path.parent, info, loaded.entries, None)
    redactor = Redactor(secrets_from(environ), known_keys=settings.redact_known_keys)
    return Source(session_id, loaded.entries, stored, redactor, __version__)
