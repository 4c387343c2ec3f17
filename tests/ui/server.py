"""Start a JupyterLab server of its own for the tests, and find the browser that looks at it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat

START_S = 90.0
"""Longest start of the server, in seconds, on a busy machine."""

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/snap/bin"
"""Where systems keep a browser, also when PATH does not say so."""
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True, slots=True)
class LabServer:
    """A running server. `root_dir` is what its file browser shows; `log` is its whole output.

    `home_dir` is where its kernels keep their sessions.
    """

    url: str
    root_dir: Path
    home_dir: Path
    settings_dir: Path
    log: Path

    def write_notebook(self, name: str, cells: Sequence[str]) -> str:
        """Write a notebook with these code cells to `root_dir` and return its path there."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, self.root_dir / name)
        return name

    def write_settings(self, plugin: str, text: str) -> Path:
        """Write a plugin's user settings (JSON text); pages opened later read them."""
        package, name = plugin.split(":")
        path = self.settings_dir / package / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def forget(self) -> None:
        """Shut down every kernel that a page has left, and drop their sessions.

        A notebook of the same name in another test would go on with its conversation.
        """
        with urllib.request.urlopen(f"{self.url}/api/sessions", timeout=START_S) as answer:
            sessions = json.load(answer)
        for session in sessions:
            url = f"{self.url}/api/sessions/{session['id']}"
            request = urllib.request.Request(url, method="DELETE")
            try:
                urllib.request.urlopen(request, timeout=START_S).close()
            except urllib.error.HTTPError as error:
                if error.code not in (404, 410):  # it died by itself
                    raise
        for folder in self.home_dir.iterdir():
            if folder.is_dir():
                shutil.rmtree(folder)
            else:
                folder.unlink()


def find_chromium() -> str:
    """Return the browser: $CHROMIUM, else an installed one.

    Raises FileNotFoundError that says how to get one.
    """
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), SYSTEM_PATH)))
    named = os.environ.get("CHROMIUM")
    candidates = [named] if named else list(BROWSER_NAMES)
    for candidate in candidates:
        found = shutil.which(candidate, path=path)
        if found:
            return found
    raise FileNotFoundError(
        f"No browser ({', '.join(candidates)}): apt-get install chromium, or set CHROMIUM."
    )


@contextmanager
def start_lab(
    base: Path, extra_env: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[LabServer]:
    """Run a server whose every folder lies under `base`, on `port` or a free one; then stop it.

    Raises RuntimeError with the log if it does not come up.
    """
    root, log = base / "root", base / "server.log"
    root.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    process = subprocess.Popen(
        _command(port, root),
        env=_environment(base, extra_env or {}),
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ready = threading.Event()
    reader = threading.Thread(target=_copy_log, args=(process, log, ready), daemon=True)
    reader.start()
    try:
        if not ready.wait(START_S) or process.poll() is not None:
            raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
        url = f"http://127.0.0.1:{port}"
        yield LabServer(url, root, base / "ctx", base / "settings", log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(10)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def lasting_port() -> int:
    """Return a free port that no connection gets by itself: it stays free for a second server."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("No port is free from 20000 to 29999.")


def _command(port: int, root: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={root}",
        "--LabApp.news_url=None",
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
    ]


def _environment(base: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what would reach the agent, and with homes of its own."""
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "JUPYTER", "JPY_", "IPYTHON"))
    }
    homes = {
        "HOME": base / "home",
        "JUPYTER_CONFIG_DIR": base / "config",
        "JUPYTER_DATA_DIR": base / "data",
        "JUPYTER_RUNTIME_DIR": base / "runtime",
        "IPYTHONDIR": base / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": base / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": base / "workspaces",
        "JUPYTER_CTX_HOME": base / "ctx",
    }
    for path in homes.values():
        path.mkdir(parents=True, exist_ok=True)
    # A test that wants the widget below running cells says so: it takes questions from `input()`.
    off = {"JUPYTER_CTX_CELL_WIDGET": "off"}
    return {**mine, **{name: str(path) for name, path in homes.items()}, **off, **extra}


def _copy_log(process: subprocess.Popen[bytes], log: Path, ready: threading.Event) -> None:
    """Copy the server's output to `log` until it ends; tell when it serves, or has died."""
    assert process.stdout is not None
    with log.open("wb") as copy, process.stdout as lines:
        for line in lines:
            copy.write(line)
            copy.flush()
            if b"is running at" in line:
                ready.set()
    ready.set()
