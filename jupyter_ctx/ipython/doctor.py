"""Looks at everything a turn needs: versions, front end, key, endpoint, window, storage."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import DEMO_MODEL, Settings, find_home, unknown_env
from ..errors import AuthError, CtxError, UnreachableError
from .place import find_notebook
from .plaintext import one_line
from .reports import SOURCE_TEXTS, Finding

if TYPE_CHECKING:
    from ..core.ports import Model, ModelFacts
    from ..surroundings import Offer
    from ..tools.mcp import ServerReport
    from .agent import Agent

    Wait = Callable[[Callable[[], Awaitable[ModelFacts]]], ModelFacts]

PACKAGES = ("jupyter-ctx", "ipython", "ipykernel", "jupyterlab", "anthropic")
KEY_NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
KEY_NAMES_BY_PREFIX = {
    "openai": ("OPENAI_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "vertex": ("GOOGLE_APPLICATION_CREDENTIALS",),
}
UNASKED = ("bedrock:", "vertex:")
"""The prefixes of providers that have nothing to ask which costs nothing."""
NO_GAUGE = "%agent /context shows what the gauge would."
RELOAD = "In JupyterLab reload the page; jupyter labextension list must name jupyter-ctx."


def find_faults(
    shell: Any,
    agent: Agent,
    settings: Callable[[], Settings],
    make_model: Callable[[str], Model],
) -> Sequence[Finding]:
    """Return what was found; asks the provider about its model. Changes nothing that lasts."""
    pages = 0 if agent.gauge is None else agent.gauge.pages
    has_kernel = getattr(shell, "kernel", None) is not None
    front_end = find_front_end(has_kernel, pages, shell.user_ns, os.environ, sys.modules)
    found = [_versions(), front_end, *_notebook(shell)]
    found.extend(find_environment_faults(os.environ))
    try:
        now = settings()
    except CtxError as error:
        return [*found, Finding("fault", "Settings", str(error))]
    name = None if agent.current is None else agent.current.model_name
    servers = () if agent.current is None else agent.servers  # which would open the session
    found.extend(_model(name, agent.bridge.wait, now, make_model))
    found.append(_storage(now))
    found.append(_permissions(shell, now))
    return [*found, *find_addition_faults(servers, agent.folder.offers())]


def find_addition_faults(
    servers: Sequence[ServerReport], offers: Sequence[Offer]
) -> Iterator[Finding]:
    """Yield what of the MCP servers is not connected, and of the folder cannot be used."""
    for server in servers:
        if server.state == "failed":
            name = one_line(server.name, 60)
            what = f"MCP server {name} is not connected: {one_line(server.why, 300)}"
            yield Finding("warning", what, f"Once that is mended: %agent /mcp restart {name}")
    for offer in offers:
        if offer.fault:
            what = f"{one_line(offer.source, 200)} cannot be used: {one_line(offer.fault, 300)}"
            yield Finding("warning", what, "%agent /trust shows what the folder would add.")


def find_shell_faults(
    settings: Callable[[], Settings],
    make_model: Callable[[str], Model],
    wait: Wait,
) -> Sequence[Finding]:
    """Return what can be found without a kernel; `wait` runs a coroutine function to its end."""
    found = [_versions(), *find_environment_faults(os.environ)]
    try:
        now = settings()
        return [*found, *_model(None, wait, now, make_model), _storage(now)]
    except CtxError as error:
        return [*found, Finding("fault", "Settings", str(error))]


def _versions() -> Finding:
    versions = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return Finding("ok", ", ".join(versions))


def find_front_end(
    has_kernel: bool,
    pages: int,
    namespace: Mapping[str, object],
    environ: Mapping[str, str],
    modules: Mapping[str, object],
) -> Finding:
    """Return what is known of the front end: no kernel is told which it is.

    `pages` is how many pages have answered our gauge; `namespace` is the user's, `modules` what is
    imported.
    """
    if not has_kernel:
        return Finding("ok", "Front end: a terminal")
    if pages:
        return Finding("ok", "Front end: JupyterLab or Notebook; a page with the gauge answers")
    if "__vsc_ipynb_file__" in namespace:
        return Finding("ok", "Front end: VS Code, which has no gauge", NO_GAUGE)
    if "google.colab" in modules:
        return Finding("ok", "Front end: Colab, which has no gauge", NO_GAUGE)
    which = "of a Jupyter server" if environ.get("JPY_SESSION_NAME") else "not known"
    return Finding("warning", f"Front end: {which}; no page with the gauge has answered", RELOAD)


def _notebook(shell: Any) -> Iterator[Finding]:
    path = find_notebook(shell.user_ns, os.environ)
    if path is not None:
        yield Finding("ok", f"Notebook: {path}")
    else:
        advice = "The front end tells no path: each kernel starts a session of its own."
        yield Finding("warning", "Notebook: not known", advice)


def find_environment_faults(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a warning for each variable that looks like a setting and is none."""
    for name, near in unknown_env(environ).items():
        advice = f"Nearest: {', '.join(near)}." if near else "The README lists the settings."
        yield Finding("warning", f"Environment: {one_line(name, 60)} is no setting", advice)


def _model(
    current: str | None, wait: Wait, settings: Settings, make_model: Callable[[str], Model]
) -> Iterator[Finding]:
    from ..models import choose_model

    name, why = choose_model(settings, os.environ)
    name = current or name
    yield Finding("ok", f"Model: {name} ({why})")
    if name == DEMO_MODEL:
        advice = "For Claude: set ANTHROPIC_API_KEY before Jupyter starts."
        yield Finding("ok", "Endpoint: none is needed by the demo", advice)
        return
    names = KEY_NAMES_BY_PREFIX.get(name.partition(":")[0], KEY_NAMES)
    keys = [one for one in names if os.environ.get(one, "").strip()]
    if keys:
        yield Finding("ok", f"Key: {keys[0]} is set")
    yield from _endpoint(wait, name, make_model)


def _endpoint(wait: Wait, name: str, make_model: Callable[[str], Model]) -> Iterator[Finding]:
    async def ask() -> ModelFacts:
        model = make_model(name)
        try:
            return await model.load_facts()
        finally:
            await model.aclose()

    try:
        facts = wait(ask)
    except AuthError as error:
        yield Finding("fault", "Endpoint: the key", str(error))
    except UnreachableError as error:
        yield Finding("fault", f"Endpoint: {error.url}", str(error))
    except CtxError as error:
        yield Finding("fault", "Endpoint", str(error))
    else:
        if name.startswith(UNASKED):
            yield Finding("ok", "Endpoint: not asked; whether it lets you in, a prompt shows")
        else:
            yield Finding("ok", "Endpoint: it answers")
        source = SOURCE_TEXTS[facts.window_source]
        if facts.window_tokens:
            yield Finding("ok", f"Window: {facts.window_tokens:,} tokens, {source}")
        else:
            advice = "Set window_tokens: %config JupyterCtx.window_tokens = 200_000."
            yield Finding("warning", "Window: not known; nothing is compacted by itself", advice)


def _storage(settings: Settings) -> Finding:
    try:
        home = find_home(settings)
    except (CtxError, RuntimeError) as error:
        return Finding("fault", "Storage: no home folder", f"{error} Set JUPYTER_CTX_HOME.")
    place = _first_there(home)
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
            file.flush()
        free = _free_bytes(place)
    except OSError as error:
        advice = f"Make it writable, or set JUPYTER_CTX_HOME to another folder ({error.strerror})."
        return Finding("fault", f"Storage: {home} cannot be written", advice)
    if free is not None and free < 100_000_000:
        advice = "Free some space: large results are stored there."
        return Finding("warning", f"Storage: {home} has {free // 1_000_000} MB left", advice)
    return Finding("ok", f"Storage: {home}")


def _first_there(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/"))


def _free_bytes(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return found.f_bavail * found.f_frsize


def _permissions(shell: Any, settings: Settings) -> Finding:
    mode = settings.permissions
    kernel = getattr(shell, "kernel", None)
    if mode in ("ask", "edits") and kernel is not None and not kernel._allow_stdin:
        advice = "No one can be asked here: set JUPYTER_CTX_PERMISSIONS=auto to let code run."
        return Finding("fault", f"Permissions: {mode}", advice)
    return Finding("ok", f"Permissions: {mode}")
