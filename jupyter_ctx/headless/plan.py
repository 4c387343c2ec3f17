"""What `jupyter ctx run` is going to do, found out before a kernel is started.

Everything that a person can put right is seen here, and said with what to do about it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import Settings, find_home, load_settings
from ..core.agentcell import is_agent_source
from ..errors import CtxError, StoreError
from .documents import default_output, load_document, name_cell, transcript_path
from .page import JsonDict, build_cell

LOAD = "%load_ext jupyter_ctx"
INSTALL = "pip install ipykernel"


class InputError(CtxError):
    """What was asked for cannot be done as it is. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; None: not said. `timeout_s` 0: no limit."""

    notebook: Path
    prompt: str
    output: Path | None = None
    model: str | None = None
    permissions: str | None = None
    kernel: str | None = None
    timeout_s: float = 0.0
    execute: bool = False
    force: bool = False

    @property
    def explicit(self) -> dict[str, object]:
        """The settings among them."""
        given = {"model": self.model, "permissions": self.permissions}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, where, and where it goes.

    `document` is the new notebook; its last cell is the prompt. `load` is the cell that loads the
    agent, None if the notebook has one. `environ` is the kernel's. `has_session`: there is a
    session of the new notebook from before; `answer` is what it answered to the same prompt.
    """

    options: Options
    document: Any
    prompt: JsonDict
    load: JsonDict | None
    output: Path
    transcript: Path
    folder: Path
    kernel: str
    environ: Mapping[str, str]
    settings: Settings
    has_session: bool
    answer: str | None

    @property
    def replays(self) -> bool:
        """Whether the stored answer is shown, and nothing runs: the new notebook is there."""
        return self.answer is not None and self.settings.rerun == "replay" and self.output.exists()

    @property
    def home(self) -> Path:
        """Where the sessions are kept."""
        return find_home(self.settings)


def make_plan(options: Options, environ: Mapping[str, str]) -> Plan:
    """Return what is to be done. Raises InputError, DocumentError and ConfigError."""
    if not options.prompt.strip():
        raise InputError("The prompt is empty: say what the agent should do with --prompt TEXT.")
    notebook = Path(os.path.abspath(options.notebook))
    output = Path(os.path.abspath(options.output or default_output(notebook)))
    folder = notebook.parent
    environ = _kernel_environ(environ, folder, output)
    settings = load_settings(options.explicit, environ)
    _check_model(settings, environ)
    document = load_document(notebook)
    _check_output(notebook, output)
    kernel = _choose_kernel(options.kernel, document, notebook)
    load, prompt = _add_cells(document, options.prompt)
    has_session, answer = _look_back(settings, environ, output, prompt["id"], options.prompt)
    plan = Plan(
        options,
        document,
        prompt,
        load,
        output,
        transcript_path(output),
        folder,
        kernel,
        environ,
        settings,
        has_session,
        answer,
    )
    if not options.force and not plan.replays:
        _check_new([output, plan.transcript])
    return plan


def _check_model(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise ConfigError if this version has no such model; nothing is asked of a provider."""
    from ..core.redact import Redactor
    from ..models import choose_model, make_model

    name, _ = choose_model(settings, environ)
    make_model(name, settings, environ, Redactor(()))


# The files --------------------------------------------------------------------------------------


def _check_output(notebook: Path, output: Path) -> None:
    """Raise InputError unless a new file can be put there."""
    if output.exists() and output.samefile(notebook):
        raise InputError(
            f"{output} is the notebook itself, which is never written: choose another."
        )
    if output.suffix != ".ipynb":
        raise InputError(f"{output} would be no notebook: let its name end in .ipynb.")
    if output.is_dir():
        raise InputError(f"{output} is a folder: name a file in it.")
    if not output.parent.is_dir():
        raise InputError(f"There is no folder {output.parent}: make it first.")
    if not os.access(output.parent, os.W_OK):
        raise InputError(
            f"Nothing can be written to {output.parent}: choose another place with -o."
        )


def _check_new(paths: Sequence[Path]) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there:
        verb = "is" if len(there) == 1 else "are"
        raise InputError(
            f"{' and '.join(there)} {verb} there already: "
            "name another file with -o, or write over it with --force."
        )


def _kernel_environ(environ: Mapping[str, str], folder: Path, output: Path) -> dict[str, str]:
    """Return the kernel's environment: its notebook is the new one.

    A home that is relative counts from the kernel's folder, here too.
    """
    made = {**environ, "JPY_SESSION_NAME": str(output)}
    home = environ.get("JUPYTER_CTX_HOME", "")
    if home:
        made["JUPYTER_CTX_HOME"] = os.path.join(folder, os.path.expanduser(home))
    return made


# The kernel -------------------------------------------------------------------------------------


def _choose_kernel(named: str | None, document: Any, notebook: Path) -> str:
    """Return the name of the kernel: as asked for, else the notebook's own, else python3."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:
        raise InputError(f"This needs jupyter_client and ipykernel: {INSTALL}.") from None
    spec = document["metadata"].get("kernelspec")
    own = spec.get("name") if isinstance(spec, dict) else None
    name = named or (own if isinstance(own, str) and own else "python3")
    manager = KernelSpecManager()
    try:
        found = manager.get_kernel_spec(name)
    except NoSuchKernel:
        there = ", ".join(sorted(manager.find_kernel_specs())) or f"none ({INSTALL})"
        whose = "There is no kernel" if named else f"{notebook.name} asks for the kernel"
        rest = "" if named else ", which is not installed here"
        raise InputError(
            f"{whose} {name!r}{rest}. Choose one with --kernel NAME; there are: {there}."
        ) from None
    if found.language.lower() != "python":
        raise InputError(
            f"Kernel {name!r} speaks {found.language}; the agent lives in a Python kernel: "
            "choose one with --kernel NAME."
        )
    if named or own is None:
        document["metadata"]["kernelspec"] = {
            "name": name,
            "display_name": found.display_name,
            "language": found.language,
        }
    return name


# The cells --------------------------------------------------------------------------------------


def _add_cells(document: Any, prompt: str) -> tuple[JsonDict | None, JsonDict]:
    """Add the cell that asks, and before it one that loads the agent if there is none yet."""
    cells = document["cells"]
    loads = any(
        cell["cell_type"] == "code" and "load_ext jupyter_ctx" in cell["source"] for cell in cells
    )
    load = None if loads else _add_code(cells, LOAD)
    return load, _add_code(cells, f"%%agent\n{prompt}")


def _add_code(cells: list[Any], source: str) -> JsonDict:
    import nbformat

    used = {cell["id"] for cell in cells}
    cell: JsonDict = nbformat.from_dict(build_cell(name_cell(source, used), "code", source, {}))
    cells.append(cell)
    return cell


def is_agent_cell(cell: Mapping[str, Any]) -> bool:
    """Whether running the cell would ask the agent."""
    return cell["cell_type"] == "code" and is_agent_source(cell["source"])


# What was before --------------------------------------------------------------------------------


def _look_back(
    settings: Settings, environ: Mapping[str, str], output: Path, cell_id: str, prompt: str
) -> tuple[bool, str | None]:
    """Return whether the new notebook has a session, and what it answered to this prompt."""
    from ..core.answers import find_answer
    from ..core.preview import clean_text
    from ..core.redact import Redactor, secrets_from
    from ..store.jsonl import load_entries
    from ..store.sessions import SessionStore, transcript_file

    try:
        home = find_home(settings)
        found = SessionStore(home).find(str(output))
        if found is None:
            return False, None
        entries = load_entries(transcript_file(home, found.session_id)).entries
    except (RuntimeError, StoreError):  # the kernel says what is wrong with the store
        return False, None
    redactor = Redactor(secrets_from(environ), known_keys=settings.redact_known_keys)
    asked = clean_text(redactor.text(prompt))
    return True, find_answer(entries, cell_id, asked)
