"""What the page has to load for the panel stays small."""

from __future__ import annotations

from pathlib import Path

import pytest

STATIC = Path(__file__).parents[1] / "jupyter_ctx" / "labextension" / "static"
MOST_BYTES = 350_000


def test_the_lab_extension_is_small() -> None:
    """All of its scripts together, minified and before compression, have at most 350 KB."""
    if not STATIC.is_dir():
        pytest.skip("the front end is not built here")
    sizes = {path.name: path.stat().st_size for path in STATIC.glob("*.js")}
    print(f"JupyterLab extension: {sum(sizes.values()):,} bytes")

    assert sizes
    assert sum(sizes.values()) <= MOST_BYTES
