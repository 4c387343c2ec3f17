"""The versions of ipykernel that the panel is tested on, each in a folder beside the environment.

`python -m tests.panel.ipykernels FOLDER` installs them below FOLDER, as `make test` does: each with
what it needs and the environment lacks, so that a kernel finds them first by its PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ..kernels import ROOT

FOLDER = ROOT / ".make" / "ipykernels"

VERSIONS = {
    "6.31.0": ["nest-asyncio>=1.4,<2"],
    "7.3.0": ["nest-asyncio2>=1.7"],
    "7.4.0": ["nest-asyncio2>=1.7"],
}
"""Each version, with the requirements that not every version has."""


def environment(version: str, folder: Path = FOLDER) -> dict[str, str]:
    """Return what a kernel of that version needs in its environment.

    Raises FileNotFoundError that says how to install it.
    """
    found = folder / version
    if not (found / "ipykernel" / "__init__.py").is_file():
        raise FileNotFoundError(
            f"ipykernel {version} is not in {folder}; `make test` puts it there."
        )
    return {"PYTHONPATH": os.pathsep.join([str(found), str(ROOT)])}


def install(folder: Path) -> None:
    """Install every version that is not there yet. Raises CalledProcessError."""
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "--no-input"]
    for version, needs in VERSIONS.items():
        target = folder / version
        if not (target / "ipykernel" / "__init__.py").is_file():
            what = [f"ipykernel=={version}", *needs]
            command = [*pip, "install", "--no-deps", "--upgrade", "--target", str(target), *what]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
