"""The arrows of the house point inward: who may import whom."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "jupyter_ctx"
ADAPTERS = ("models", "tools", "store", "surroundings", "hooks")
# What adapters may know besides their own folder. `_version` is one constant.
COMMON = ("jupyter_ctx.core", "jupyter_ctx.errors", "jupyter_ctx.config", "jupyter_ctx._version")
# The edges, which only edges may import; they choose the adapters.
EDGES = ("jupyter_ctx.ipython", "jupyter_ctx.panel", "jupyter_ctx.cli")


def files_of(*parts: str) -> list[Path]:
    """Return the Python files of a folder, or the one file of that name."""
    place = PACKAGE.joinpath(*parts)
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def imports_of(path: Path) -> Iterator[str]:
    """Yield the full name of every module that a file imports, wherever in it."""
    package = ".".join(path.relative_to(PACKAGE.parent).parts[:-1])
    return imports_in(path.read_text(encoding="utf-8"), package)


def imports_in(source: str, package: str) -> Iterator[str]:
    """Yield the full name of every module that `source` imports as a file of `package`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from _named(node.module or "", node)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            yield from _named(f"{base}.{node.module}" if node.module else base, node)


def _named(module: str, node: ast.ImportFrom) -> Iterator[str]:
    """Yield `module`, or for the package itself each thing taken from it, which is a module."""
    if module == "jupyter_ctx":
        yield from (f"jupyter_ctx.{alias.name}" for alias in node.names)
    else:
        yield module


def is_within(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


@pytest.mark.parametrize("path", files_of("core"), ids=lambda path: path.stem)
def test_core_imports_nothing_but_itself(path: Path) -> None:
    """A core file imports the standard library, core and the errors, nothing else."""
    for name in imports_of(path):
        is_standard = name.split(".")[0] in sys.stdlib_module_names
        assert is_standard or is_within(name, ("jupyter_ctx.core", "jupyter_ctx.errors")), name


@pytest.mark.parametrize("path", files_of("core"), ids=lambda path: path.stem)
def test_core_touches_no_world(path: Path) -> None:
    """A core file imports nothing that reads a clock, a disk, a network or a process."""
    world = ("io", "os", "pathlib", "shutil", "socket", "ssl", "subprocess", "tempfile", "time")
    forbidden = (*world, "datetime", "http", "urllib", "threading", "multiprocessing", "signal")

    assert [name for name in imports_of(path) if is_within(name, forbidden)] == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_know_core_and_not_one_another(adapter: str) -> None:
    """An adapter imports core, errors, settings and its own folder, of this package."""
    for path in files_of(adapter):
        for name in imports_of(path):
            if is_within(name, ("jupyter_ctx",)):
                own = f"jupyter_ctx.{adapter}"
                assert is_within(name, (*COMMON, own)), f"{path.name} imports {name}"


def test_an_export_knows_core_alone() -> None:
    """A session is written down from core's values: what exports it imports no adapter, no edge."""
    for path in files_of("export"):
        for name in imports_of(path):
            if is_within(name, ("jupyter_ctx",)):
                known = ("jupyter_ctx.core", "jupyter_ctx.errors", "jupyter_ctx.export")
                assert is_within(name, known), f"{path.name} imports {name}"


@pytest.mark.parametrize("name", ["session", "ports", "results", "callables", "testing"])
def test_the_session_knows_no_edge(name: str) -> None:
    """The session and its companions hold any ports: they import no edge and no adapter."""
    adapters = tuple(f"jupyter_ctx.{adapter}" for adapter in ADAPTERS)
    for path in files_of(name):
        for module in imports_of(path):
            assert not is_within(module, (*EDGES, *adapters)), f"{path.name} imports {module}"


@pytest.mark.parametrize("path", files_of("ipython"), ids=lambda path: path.stem)
def test_the_panel_stands_on_the_shell(path: Path) -> None:
    """Of the shell's files only the one that puts everything together imports the panel."""
    names = [name for name in imports_of(path) if is_within(name, ("jupyter_ctx.panel",))]

    assert path.stem == "extension" or names == []


@pytest.mark.parametrize("path", files_of("panel"), ids=lambda path: path.stem)
def test_the_panel_knows_no_adapter_but_the_pictures(path: Path) -> None:
    """The panel stands on session and shell: of the adapters it checks pictures with the tools'."""
    edges = ("jupyter_ctx.models", "jupyter_ctx.store", "jupyter_ctx.tools", "jupyter_ctx.cli")
    names = [name for name in imports_of(path) if is_within(name, edges)]

    assert names == (["jupyter_ctx.tools.images"] if path.stem == "prompts" else [])


def test_the_files_looked_at_exist() -> None:
    """The folders above are not empty, so the arrows are really looked at."""
    for folder in ("core", "export", "ipython", "panel", *ADAPTERS):
        assert len(files_of(folder)) > 1, folder


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import os.path", "os.path"),
        ("from ..errors import CtxError", "jupyter_ctx.errors"),
        ("from . import blocks", "jupyter_ctx.core"),
        ("from .blocks import Text", "jupyter_ctx.core.blocks"),
        ("from .. import session", "jupyter_ctx.session"),
        ("from jupyter_ctx import session", "jupyter_ctx.session"),
        ("def f():\n    import anthropic", "anthropic"),
    ],
)
def test_every_form_of_import_is_seen(line: str, module: str) -> None:
    """Absolute, relative, nested: each is resolved to the module it names."""
    assert list(imports_in(line, "jupyter_ctx.core")) == [module]
