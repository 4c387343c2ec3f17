"""The package as it is shipped: one version, declared dependencies, the built front end."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import cast

import jupyter_ctx
from jupyter_ctx._version import __version__
from jupyter_ctx.core.blocks import PART_NAMES

ROOT = Path(__file__).parents[1]
SOURCES = sorted(Path(jupyter_ctx.__file__).parent.rglob("*.py"))
FRONT = ROOT / "labextension"


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def normal(name: str) -> str:
    """Return the name of a distribution without its version, as an index compares it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", name)[0]).lower()


def imported_modules(path: Path) -> set[str]:
    """Return the top-level modules that the file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_both_languages_have_one_version() -> None:
    """package.json, its lock and the Python package name the same version."""
    package = json.loads((FRONT / "package.json").read_text())
    lock = json.loads((FRONT / "package-lock.json").read_text())

    assert {package["version"], lock["version"], lock["packages"][""]["version"]} == {__version__}


def test_both_languages_name_the_parts_alike() -> None:
    """The gauge, /context and messages call each part of the window the same."""
    source = (FRONT / "src" / "view" / "format.ts").read_text(encoding="utf-8")
    names = source.partition("PART_NAMES")[2].partition("};")[0]

    assert dict(re.findall(r"(\w+): '([^']+)'", names)) == PART_NAMES


def test_the_lock_names_no_registry() -> None:
    """Every package is pinned by its hash and fetched from wherever the machine's npm looks."""
    packages = json.loads((FRONT / "package-lock.json").read_text())["packages"]

    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert all("integrity" in entry for name, entry in packages.items() if name)


def test_every_import_is_declared() -> None:
    """Whatever the package imports is the standard library, itself, or a named dependency.

    What belongs to the front end that hosts us is there when it is used: the kernel's own
    package, and the data libraries whose objects a user's kernel holds. The extras of a kind of
    model or server are declared too.
    """
    hosted = {"ipykernel", "jupyter_client", "matplotlib", "numpy", "pandas", "polars"}
    extras = cast("dict[str, list[str]]", project()["optional-dependencies"])
    named = [*_list(project()["dependencies"]), *extras["mcp"], *extras.get("openai", ())]
    declared = {normal(str(name)) for name in named}
    by_module = packages_distributions()

    unknown = {
        (path.name, module)
        for path in SOURCES
        for module in imported_modules(path)
        if module not in sys.stdlib_module_names
        and module not in {"jupyter_ctx", *hosted}
        and not declared.intersection(normal(name) for name in by_module.get(module, ()))
    }

    assert unknown == set()


def test_every_dependency_is_imported() -> None:
    """No dependency is declared that the code does not use."""
    by_module = packages_distributions()
    used = {
        normal(name)
        for path in SOURCES
        for module in imported_modules(path)
        for name in by_module.get(module, ())
    }

    assert {normal(str(name)) for name in _list(project()["dependencies"])} <= used


def test_the_front_end_is_installed_and_whole() -> None:
    """JupyterLab finds the built extension of this version where it looks for extensions."""
    installed = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "jupyter-ctx"
    package = json.loads((installed / "package.json").read_text())
    build = package["jupyterlab"]["_build"]

    assert package["version"] == __version__
    assert (installed / build["load"]).is_file()
    assert (installed / "schemas" / "jupyter-ctx" / "plugin.json").is_file()
    assert json.loads((installed / "install.json").read_text())["packageName"] == "jupyter-ctx"


def test_the_widget_is_built_and_small() -> None:
    """Its script is one file of at most 250 KB before compression, with no JupyterLab in it.

    It is shipped in wheel and sdist though git does not keep it, and made by the same build.
    """
    built = Path(jupyter_ctx.__file__).parent / "panel" / "static"
    script = (built / "widget.js").read_text(encoding="utf-8")
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]

    assert len(script.encode()) <= 250_000
    assert "@jupyterlab/" not in script
    assert not re.search(r"\bimport\s*[({'\"]", script)
    assert (built / "widget.css").stat().st_size > 10_000
    assert "jupyter_ctx/panel/static" in hatch["targets"]["wheel"]["artifacts"]
    assert "jupyter_ctx/panel/static" in hatch["targets"]["sdist"]["artifacts"]
    hook = hatch["hooks"]["jupyter-builder"]
    assert "jupyter_ctx/panel/static/widget.js" in hook["ensured-targets"]


def test_what_is_bundled_is_shipped_with_its_licenses() -> None:
    """Each library in the widget, and in the extension, has its licence beside it, whole."""
    widget = Path(jupyter_ctx.__file__).parent / "panel" / "static" / "third-party-licenses.md"
    said = widget.read_text(encoding="utf-8")
    for library in ("@noble/hashes", "dompurify", "marked", "preact"):
        assert re.search(rf"^## {library} - ", said, re.MULTILINE), library
    assert said.count("WITHOUT WARRANTY OF ANY KIND") >= 3

    installed = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "jupyter-ctx"
    told = json.loads((installed / "static" / "third-party-licenses.json").read_text("utf-8"))
    texts = {one["name"]: one["extractedText"] for one in told["packages"]}
    for library in ("@codemirror/merge", "@noble/hashes"):
        assert "Permission is hereby granted" in texts[library], library


def test_the_view_imports_no_front_end() -> None:
    """One view serves two mounts, so what draws knows React, and the digest of what it shows."""
    shared = [*(FRONT / "src" / "view").glob("*"), FRONT / "src/state.ts", FRONT / "src/events.ts"]
    imports = {
        target
        for path in shared
        for target in re.findall(r"""from ['"]([^'"]+)['"]""", path.read_text(encoding="utf-8"))
    }

    libraries = {target for target in imports if not target.startswith(".")}
    assert libraries == {"react", "@noble/hashes/sha2.js", "@noble/hashes/utils.js"}
    assert not {target for target in imports if "/lab/" in target or "client" in target}


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
